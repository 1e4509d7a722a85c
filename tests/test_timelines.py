"""The two timelines that the system was described with, row by row."""

from datetime import timedelta

import pytest

from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market
from nodefleet.model.operations import Create, Launch, Purpose, Removal, RemovalReason
from support.builders import only
from support.timelines import TIMELINES, Played, flash_sale, play, spot_interruption
from support.wording import assert_wording


def by_clock(timeline) -> dict[str, Played]:
    return {f"{each.row.at:%H:%M}": each for each in play(timeline)}


SALE = by_clock(flash_sale())
INTERRUPTION = by_clock(spot_interruption())

GROW, HOLD, SHRINK = Action.GROW, Action.HOLD, Action.SHRINK


def opened(each: Played, kind: type) -> list:
    steps = [step for step in only(each.decision).plan if isinstance(step, Create)]
    return [step.operation for step in steps if isinstance(step.operation, kind)]


# ── a flash sale ─────────────────────────────────────────────────────────────────────────────────────────────────

# time, CPU, pods waiting, action, workers before, workers after, what the reason must say
SALE_ROWS = [
    ("20:00", 35, 0, HOLD, 3, 3, ["CPU 35.0 % between 30 % and 70 %"]),
    ("20:02", 65, 0, HOLD, 3, 3, ["CPU 65.0 % between 30 % and 70 %"]),
    ("20:04", 82, 3, GROW, 3, 5, ["3 pods unschedulable while CPU 82.0 % > 70 %", "3 + 2 nodes"]),
    ("20:06", 85, 8, HOLD, 5, 5, ["8 pods unschedulable", "asks for 7", "but cooldown: grew 120 s ago, 180 s left"]),
    ("20:08", 78, 2, HOLD, 5, 5, ["2 pods unschedulable", "asks for 7", "but cooldown: grew 240 s ago, 60 s left"]),
    ("20:10", 68, 0, HOLD, 5, 5, ["CPU 68.0 % between 30 % and 70 %", "0 pods unschedulable"]),
    *[(f"20:{minute}", 40, 0, HOLD, 5, 5, ["CPU 40.0 % between 30 % and 70 %"]) for minute in range(12, 32, 2)],
    ("20:32", 28, 0, HOLD, 5, 5, ["CPU 28.0 % < 30 %, 1 of 5 readings"]),
    ("20:34", 28, 0, HOLD, 5, 5, ["CPU 28.0 % < 30 %, 2 of 5 readings"]),
    ("20:36", 28, 0, HOLD, 5, 5, ["CPU 28.0 % < 30 %, 3 of 5 readings"]),
    ("20:38", 28, 0, HOLD, 5, 5, ["CPU 28.0 % < 30 %, 4 of 5 readings"]),
    ("20:40", 28, 0, SHRINK, 5, 4, ["CPU 28.0 % < 30 %, 5 of 5 readings", "memory 40.0 % < 50 %", "leaves"]),
]


@pytest.mark.parametrize(("clock", "cpu", "pending", "action", "before", "after", "because"), SALE_ROWS)
def test_the_flash_sale_row_by_row(clock, cpu, pending, action, before, after, because):
    each = SALE[clock]
    decided = only(each.decision)
    assert (each.row.cpu, each.row.pending) == (cpu, pending)
    assert (decided.action, decided.count.capacity, decided.target) == (action, before, after)
    assert [words for words in because if words not in decided.reason] == []


def test_the_flash_sale_has_no_other_rows():
    assert list(SALE) == [row[0] for row in SALE_ROWS]


def test_the_first_reading_above_the_limit_waits_for_a_second_and_the_pods_do_not():
    decided = only(SALE["20:04"].decision)
    assert_wording(decided.votes)
    assert max(bound.nodes for bound in decided.bounds if bound.source == "pods") == 5


def test_the_cooldown_overrules_both_the_cpu_and_the_pods():
    for clock in ("20:06", "20:08"):
        overruled = {each.bound.source: each.by for each in only(SALE[clock].decision).overruled}
        assert overruled == {"cpu": "cooldown", "pods": "cooldown"}


def test_the_sale_buys_two_spot_workers_in_two_zones():
    launches = opened(SALE["20:04"], Launch)
    assert [(launch.market, launch.count, launch.purpose) for launch in launches] == [
        (Market.SPOT, 1, Purpose.GROW)
    ] * 2
    assert len({launch.zone for launch in launches}) == 2
    assert SALE["20:06"].decision.memory.pool("default").last_grow == SALE["20:04"].row.at


def test_the_new_workers_are_there_two_minutes_later():
    assert only(SALE["20:06"].decision).count.ready == 5


def test_after_the_sale_one_worker_is_removed_of_our_own_accord():
    (removal,) = opened(SALE["20:40"], Removal)
    assert removal.why is RemovalReason.VOLUNTARY
    assert SALE["20:40"].decision.memory.pool("default").last_shrink == SALE["20:40"].row.at


# ── a Spot interruption ──────────────────────────────────────────────────────────────────────────────────────────

INTERRUPTION_ROWS = [
    ("10:00", HOLD, 4, 4, ["CPU 55.0 % between 30 % and 70 %"]),
    ("10:02", GROW, 3, 4, ["min is 4, 3 are there"]),
    ("10:04", HOLD, 4, 4, ["CPU 66.0 % between 30 % and 70 %"]),
    ("10:06", HOLD, 4, 4, ["CPU 56.0 % between 30 % and 70 %"]),
]


@pytest.mark.parametrize(("clock", "action", "before", "after", "because"), INTERRUPTION_ROWS)
def test_the_interruption_row_by_row(clock, action, before, after, because):
    decided = only(INTERRUPTION[clock].decision)
    assert (decided.action, decided.count.capacity, decided.target) == (action, before, after)
    assert [words for words in because if words not in decided.reason] == []


def test_the_interruption_has_no_other_rows():
    assert list(INTERRUPTION) == [row[0] for row in INTERRUPTION_ROWS]


def test_it_begins_with_three_spot_workers_and_one_on_demand():
    markets = [instance.market for instance in INTERRUPTION["10:00"].seen.instances]
    assert sorted(market.value for market in markets) == ["on-demand", "spot", "spot", "spot"]


def test_the_warned_worker_is_drained_and_replaced_on_demand_in_one_decision():
    warned = INTERRUPTION["10:02"]
    (launch,) = opened(warned, Launch)
    (removal,) = opened(warned, Removal)
    assert (launch.count, launch.market, launch.purpose) == (1, Market.ON_DEMAND, Purpose.RESTORE)
    assert (removal.why, removal.instance) == (RemovalReason.INTERRUPTED, warned.seen.notices[0].instance)
    assert (removal.force_from, removal.deadline) == (
        warned.row.at + timedelta(seconds=90),
        warned.row.at + timedelta(seconds=120),
    )


def test_the_next_look_finds_nothing_to_do():
    assert only(INTERRUPTION["10:04"].decision).plan == ()
    assert only(INTERRUPTION["10:06"].decision).plan == ()


def test_four_ready_workers_are_back_within_five_minutes_of_the_warning():
    warned = INTERRUPTION["10:02"].row.at
    restored = [
        each.row.at for each in INTERRUPTION.values() if each.row.at > warned and only(each.decision).count.ready == 4
    ]
    assert restored[0] - warned <= timedelta(minutes=5)


def test_the_replacement_starts_no_cooldown():
    for each in INTERRUPTION.values():
        known = each.decision.memory.pool("default")
        assert (known.last_grow, known.last_shrink) == (None, None)
        assert not [bound for bound in only(each.decision).bounds if bound.source.startswith("cooldown")]


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("make", TIMELINES)
def test_a_timeline_plays_the_same_every_time(make):
    assert list(play(make())) == list(play(make()))
