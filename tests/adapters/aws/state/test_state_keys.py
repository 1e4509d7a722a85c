"""What records are called."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from builders import NOON, after
from contracts.store_contract import notice
from nodefleet.adapters.aws.state import keys
from nodefleet.adapters.aws.state.items import SEED, keyed
from nodefleet.domain.observation import Pause, Scale
from nodefleet.errors import MalformedError

OTHERS_OF_A_LOOK = (
    keys.MEMORY,
    keys.NOTICES,
    keys.OPERATIONS,
    keys.ORDERS,
    keys.POLICY,
    keys.STACK_DEPLOYMENT,
    keys.STACK_POLICY,
)


def test_the_lease_is_read_before_everything_else_that_a_look_needs():
    """A wake-up that was counted must have its cause behind it in the same query."""
    assert min(OTHERS_OF_A_LOOK) > keys.LEASE


def test_everything_that_a_look_needs_is_in_one_span_and_nothing_else_is():
    low, high = keys.STATE, keys.past(keys.STATE)
    assert all(low <= each <= high for each in (keys.LEASE, *OTHERS_OF_A_LOOK))
    others = (keys.DECISIONS, keys.EVENTS, keys.POLICIES, keys.TOLD, keys.USAGE)
    assert not any(low <= f"{each}x" <= high for each in others)


def test_no_kind_of_record_begins_like_another():
    kinds = [keys.STATE, keys.DECISIONS, keys.EVENTS, keys.POLICIES, keys.TOLD, keys.USAGE]
    assert not any(one != other and one.startswith(other) for one in kinds for other in kinds)


def test_stamps_sort_as_times_do():
    times = [after(seconds) for seconds in (-86400, 0, 0.000001, 0.5, 1, 10, 86400 * 40)]
    assert sorted(map(keys.stamp, reversed(times))) == list(map(keys.stamp, times))


def test_a_stamp_is_the_same_whatever_zone_the_time_is_told_in():
    there = timezone(timedelta(hours=5, minutes=30))
    assert keys.stamp(NOON.astimezone(there)) == keys.stamp(NOON) == "2026-11-16T12:00:00.000000Z"


def test_a_doubled_notice_has_one_name_and_a_later_one_another():
    assert keys.notice_key(notice()) == "state#notice#i-1#spot-interruption#2026-11-16T12:00:00.000000Z"
    assert keys.notice_key(notice()) != keys.notice_key(notice(at=after(1)))


@pytest.mark.parametrize(
    ("command", "name", "pool"),
    [
        (Pause(), "state#order#pause#*", None),
        (Pause(pool="web"), "state#order#pause#web", "web"),
        (Scale(pool="web", nodes=3, until=NOON), "state#order#scale#web", "web"),
    ],
)
def test_an_order_is_named_by_its_kind_and_pool(command, name, pool):
    assert keys.order_key(command) == name
    assert keys.pool_of(name) == pool
    assert name.startswith(keys.PAUSES) == isinstance(command, Pause)


def test_policies_sort_by_number():
    numbers = [1, 9, 10, 99, 100, 12345]
    assert sorted(map(keys.policy_key, reversed(numbers))) == list(map(keys.policy_key, numbers))


def test_a_name_that_dynamodb_would_refuse_is_refused_with_a_reason():
    with pytest.raises(MalformedError, match="longer than the 1024 bytes"):
        keyed("shop", keys.operation_key("é" * 600))


def test_a_time_without_microseconds_is_not_shorter():
    assert len(keys.stamp(datetime(2026, 1, 1, tzinfo=NOON.tzinfo))) == len(keys.stamp(after(0.1)))


def test_the_page_for_people_names_every_record_and_every_name_of_the_first_description():
    page = (Path(__file__).parents[4] / "docs" / "state.md").read_text(encoding="utf-8")
    kinds = (keys.LEASE, *OTHERS_OF_A_LOOK, keys.DECISIONS, keys.EVENTS, keys.POLICIES, keys.TOLD, keys.USAGE)
    assert [kind for kind in kinds if f"`{kind}" not in page] == []
    seed = ("scaling_in_progress", "lock_acquired_at", *SEED, keys.PARTITION, keys.SORT, keys.TTL)
    assert [name for name in seed if f"`{name}`" not in page] == []
