"""What records are called."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from contracts.store_contract import notice
from nodefleet.adapters.dynamodb import codec
from nodefleet.adapters.dynamodb.records import SEED, record_key
from nodefleet.errors import MalformedError
from nodefleet.model.snapshot import Pause, Scale
from support.builders import NOON, after
from support.wording import assert_wording

OTHERS_OF_A_LOOK = (
    codec.MEMORY,
    codec.NOTICES,
    codec.OPERATIONS,
    codec.ORDERS,
    codec.POLICY,
    codec.STACK_DEPLOYMENT,
    codec.STACK_POLICY,
)


def test_the_lease_is_read_before_everything_else_that_a_look_needs():
    """A wake-up that was counted must have its cause behind it in the same query."""
    assert min(OTHERS_OF_A_LOOK) > codec.LEASE


def test_everything_that_a_look_needs_is_in_one_span_and_nothing_else_is():
    low, high = codec.STATE, codec.past(codec.STATE)
    assert all(low <= each <= high for each in (codec.LEASE, *OTHERS_OF_A_LOOK))
    others = (codec.DECISIONS, codec.EVENTS, codec.POLICIES, codec.TOLD, codec.USAGE)
    assert not any(low <= f"{each}x" <= high for each in others)


@pytest.mark.parametrize(("prefix", "after_it"), [("state#", "state$"), ("a", "b"), ("zab", "zac")])
def test_what_comes_after_a_prefix(prefix, after_it):
    assert codec.past(prefix) == after_it


def test_no_kind_of_record_begins_like_another():
    kinds = [codec.STATE, codec.DECISIONS, codec.EVENTS, codec.POLICIES, codec.TOLD, codec.USAGE]
    assert not any(one != other and one.startswith(other) for one in kinds for other in kinds)


def test_stamps_sort_as_times_do():
    times = [after(seconds) for seconds in (-86400, 0, 0.000001, 0.5, 1, 10, 86400 * 40)]
    assert sorted(map(codec.stamp, reversed(times))) == list(map(codec.stamp, times))


def test_a_stamp_is_the_same_whatever_zone_the_time_is_told_in():
    there = timezone(timedelta(hours=5, minutes=30))
    assert codec.stamp(NOON.astimezone(there)) == codec.stamp(NOON) == "2026-11-16T12:00:00.000000Z"


def test_a_doubled_notice_has_one_name_and_a_later_one_another():
    assert codec.notice_key(notice()) == "state#notice#i-1#spot-interruption#2026-11-16T12:00:00.000000Z"
    assert codec.notice_key(notice()) != codec.notice_key(notice(at=after(1)))


@pytest.mark.parametrize(
    ("command", "name", "pool"),
    [
        (Pause(), "state#order#pause#*", None),
        (Pause(pool="web"), "state#order#pause#web", "web"),
        (Scale(pool="web", nodes=3, until=NOON), "state#order#scale#web", "web"),
    ],
)
def test_an_order_is_named_by_its_kind_and_pool(command, name, pool):
    assert codec.order_key(command) == name
    assert codec.pool_of(name) == pool
    assert name.startswith(codec.PAUSES) == isinstance(command, Pause)


def test_policies_sort_by_number():
    numbers = [1, 9, 10, 99, 100, 12345]
    assert sorted(map(codec.policy_key, reversed(numbers))) == list(map(codec.policy_key, numbers))


def test_a_name_that_dynamodb_would_refuse_is_refused_with_a_reason():
    with pytest.raises(MalformedError) as caught:
        record_key("shop", codec.operation_key("é" * 600))
    assert_wording(str(caught.value))


def test_a_time_without_microseconds_is_not_shorter():
    assert len(codec.stamp(datetime(2026, 1, 1, tzinfo=NOON.tzinfo))) == len(codec.stamp(after(0.1)))


def test_the_page_for_people_names_every_record_and_every_name_of_the_first_description():
    page = (Path(__file__).parents[3] / "docs" / "state.md").read_text(encoding="utf-8")
    kinds = (codec.LEASE, *OTHERS_OF_A_LOOK, codec.DECISIONS, codec.EVENTS, codec.POLICIES, codec.TOLD, codec.USAGE)
    assert [kind for kind in kinds if f"`{kind}" not in page] == []
    seed = ("scaling_in_progress", "lock_acquired_at", *SEED, codec.PARTITION, codec.SORT, codec.TTL)
    assert [name for name in seed if f"`{name}`" not in page] == []
