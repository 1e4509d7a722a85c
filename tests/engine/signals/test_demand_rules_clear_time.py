from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.capacity import FleetSize, with_peak
from nodefleet.engine.signals.demand_rules import desired_workers
from nodefleet.engine.signals.vote import BelowThreshold, ScaleDownOk, ScaleUp, Unreadable, WithinThresholds
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.policy.demand import ClearTime, Readings, Sustain
from nodefleet.policy.pool import Limits, Pool
from support.builders import NOON, after
from support.signal_builders import ask, ask_along, floor_of, look, words
from support.wording import assert_wording


def rule(**changed):
    return ClearTime(**{"name": "ci", "queue": "queued", "running": "running", "job_seconds": "mean", **changed})


def seen(queue, running=0, mean=60, **more):
    return {"queue": queue, "running": running, "job_seconds": mean, **more}


@pytest.mark.parametrize(
    ("queue", "running", "mean", "peak", "multiplier", "most", "workers"),
    [
        # so many clear the queue in 300 s, beside those that run
        (0, 0, 60, 0, 1, 100, 0),
        (5, 0, 60, 0, 1, 100, 1),
        (6, 0, 60, 0, 1, 100, 2),
        (10, 3, 60, 0, 1, 100, 5),
        (10, 3, 300, 0, 1, 100, 13),
        (10, 3, 600, 0, 1, 100, 23),
        (30, 0, 70, 0, 1, 100, 7),  # exactly seven: no float dust on top
        (1, 2.5, 60, 0, 1, 100, 4),  # half a runner is a runner
        # a mean shorter than 60 s is noise
        (10, 0, 1, 0, 1, 100, 2),
        (10, 0, 59, 0, 1, 100, 2),
        (10, 0, 61, 0, 1, 100, 3),
        # a tenth of the peak stays warm, rounded down
        (0, 0, 60, 50, 1, 100, 5),
        (0, 0, 60, 59, 1, 100, 5),
        (0, 6, 60, 50, 1, 100, 6),
        # the time of day comes before the clamp, and the clamp last
        (10, 3, 60, 0, 2, 100, 10),
        (10, 3, 60, 0, 1.5, 100, 7),
        (10, 3, 60, 0, 2, 8, 8),
        (500, 0, 60, 0, 1.5, 20, 20),
        (500, 0, 60, 0, 0.1, 20, 10),
        (0, 4, 60, 0, 0.5, 100, 4),  # never below what is running
        (0, 4, 60, 0, 0, 100, 4),
        (0, 12, 60, 0, 1, 10, 12),
    ],
)
def test_how_many_workers_it_takes(queue, running, mean, peak, multiplier, most, workers):
    assert desired_workers(rule(), queue, running, mean, peak, multiplier, most) == workers


def test_the_rules_own_figures_are_used():
    own = rule(clear_within=timedelta(seconds=100), shortest_job=timedelta(seconds=10), warm_percent=50)
    assert desired_workers(own, 20, 0, 5, 0, 1, 100) == 2
    assert desired_workers(own, 0, 0, 5, 20, 1, 100) == 10


def test_it_grows_at_once_to_the_computed_count():
    assert ask(rule(), seen(10, 3), look(covered=4)).vote == ScaleUp(
        nodes=5, reason="queued 10 at 60 s and 3 running need 5 workers > 4 now, at once"
    )
    assert ask(rule(), seen(10, 3), look(covered=5)).vote == WithinThresholds(
        "queued 10 at 60 s and 3 running need 5 workers for 5 now"
    )


def test_the_pools_limit_is_its_limit():
    assert floor_of(ask(rule(), seen(500), pool=Pool(limits=Limits(max=8)))) == 8


def test_the_peak_and_the_time_of_day_are_used_when_they_are_named():
    named = rule(peak="peak", multiplier="daytime")
    assert floor_of(ask(named, seen(0, 1, peak=60, multiplier=1.5))) == 9
    assert isinstance(ask(named, seen(50, 1, peak=60)).vote, Unreadable)
    assert isinstance(ask(named, seen(50, 1, multiplier=1)).vote, Unreadable)


def test_without_a_peak_nothing_is_kept_warm():
    assert "need 0 workers" in ask(rule(warm_percent=100), seen(0)).vote.reason


def peaks(**by_day: int) -> FleetSize:
    return replace(look(), peaks={day.removeprefix("d").replace("_", "-"): nodes for day, nodes in by_day.items()})


def test_without_a_reading_our_own_highest_count_of_the_week_is_kept_warm():
    week = peaks(d2026_11_16=3, d2026_11_12=60, d2026_11_08=200)
    assert floor_of(ask(rule(), seen(0), week)) == 6
    assert floor_of(ask(rule(peak_days=30), seen(0), week)) == 10, "max is 10"
    assert floor_of(ask(rule(peak="peak"), seen(0, peak=50), week)) == 5, "a reading knows better"


def test_the_highest_count_of_each_day_is_remembered_for_as_long_as_a_rule_asks():
    pool = Pool(custom=(rule(),))
    assert with_peak({}, 4, pool, NOON) == {"2026-11-16": 4}
    assert with_peak({"2026-11-16": 9}, 4, pool, NOON) == {"2026-11-16": 9}
    kept = with_peak({"2026-11-08": 9, "2026-11-09": 5}, 4, pool, NOON)
    assert kept == {"2026-11-09": 5, "2026-11-16": 4}
    assert with_peak({"2026-11-16": 9}, 4, Pool(custom=(rule(warm_percent=0),)), NOON) == {}
    assert with_peak({"2026-11-16": 9}, 4, Pool(), NOON) == {}


def test_workers_share_nodes():
    two = rule(runners_per_node=4)
    assert floor_of(ask(two, seen(25, 12), look(covered=3))) == 5, "17 workers of 60 s each, 4 to a node"
    assert_wording(ask(two, seen(25, 12), look(covered=3)).vote.reason)
    assert floor_of(ask(two, seen(9999, 12), look(covered=3))) == 10, "max counts nodes"
    assert floor_of(ask(rule(runners_per_node=2), seen(0), peaks(d2026_11_16=100))) == 10


def test_a_multiplier_of_zero_is_not_a_missing_one():
    assert words([ask(rule(multiplier="daytime"), seen(20, 0, multiplier=0), look(covered=1))]) == ["BelowThreshold"]


def test_a_sustain_of_its_own_delays_growth():
    own = rule(sustain=Sustain(up=Readings(count=2)))
    assert words(ask_along(own, [(0, seen(30), 3), (120, seen(30), 3)])) == ["AboveThreshold", "ScaleUp"]


@pytest.mark.parametrize(
    ("need", "vote"), [(7, "WithinThresholds"), (6, "BelowThreshold"), (10, "WithinThresholds"), (11, "ScaleUp")]
)
def test_it_shrinks_only_when_less_than_70_percent_are_needed(need, vote):
    pool = Pool(limits=Limits(max=50))
    assert words([ask(rule(), seen(0, need), look(covered=10), pool=pool)]) == [vote]


def test_it_shrinks_by_what_is_too_much_after_ten_minutes():
    said = ask_along(rule(), [(120 * n, seen(5, 3), 10) for n in range(6)])
    assert words(said) == ["BelowThreshold"] * 5 + ["ScaleDownOk"]
    needs = "queued 5 at 60 s and 3 running need 4 workers < 7, 70 % of 10 now"
    assert said[4].vote == BelowThreshold(f"{needs}, for 480 of 600 s")
    assert said[5].vote == ScaleDownOk(reason=f"{needs}, for 600 s", down=6)


def test_shrinking_has_its_own_figures():
    own = rule(shrink_below_percent=50, shrink_after=timedelta(0))
    assert words([ask(own, seen(0, need), look(covered=10)) for need in (5, 4)]) == ["WithinThresholds", "ScaleDownOk"]


def test_what_should_improve_is_the_queue():
    assert ask(rule(), seen(30, 3)).value == 30


def test_a_repeated_look_while_nodes_boot_buys_nothing_more():
    assert floor_of(ask(rule(), seen(30), look(covered=3))) == 6
    assert words([ask(rule(), seen(30), look(covered=3, capacity=6))]) == ["WithinThresholds"]
    assert floor_of(ask(rule(), seen(30), look(covered=3, capacity=4))) == 6


def test_growth_is_upheld_on_cached_readings_only_if_it_was_asked_for_before():
    before = ask(rule(), seen(30)).breaches
    gone = {"queue": Missing("refused"), "running": 0, "job_seconds": 60}
    cached = {"queued": Reading(30, after(0))}
    later = look(120, covered=3)
    assert floor_of(ask(rule(), gone, later, breaches=before, cached=cached)) == 6
    assert isinstance(ask(rule(), gone, later, cached=cached).vote, Unreadable)


PAIR = st.tuples(st.floats(0, 300), st.floats(0, 300)).map(sorted)
FACTOR = st.tuples(st.floats(0, 3), st.floats(0, 3)).map(sorted)


@given(PAIR, PAIR, PAIR, PAIR, FACTOR, st.integers(0, 20))
def test_higher_readings_never_give_a_lower_floor(queues, running, means, peaks, factors, capacity):
    named = rule(peak="peak", multiplier="daytime")
    low, high = (
        floor_of(ask(named, seen(q, r, m, peak=p, multiplier=f), look(covered=capacity)))
        for q, r, m, p, f in zip(queues, running, means, peaks, factors, strict=True)
    )
    assert low <= high


@given(st.floats(0, 300), st.floats(0, 50), st.floats(0, 1000), st.floats(0, 500), st.floats(0, 3), st.integers(1, 40))
def test_the_count_is_never_below_what_runs_and_above_the_limit_only_for_that(queue, running, mean, peak, factor, most):
    count = desired_workers(rule(), queue, running, mean, peak, factor, most)
    assert count >= running
    assert count <= max(most, running + 1)
