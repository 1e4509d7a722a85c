"""The minute-by-minute game, and the optimum it is compared with."""

from datetime import UTC, datetime
from itertools import pairwise, product
from math import ceil, log, nan

import pytest

from nodefleet_tools.backtest.page import pareto
from nodefleet_tools.backtest.peers import Fixed, TargetTracking
from nodefleet_tools.backtest.play import Conditions, Grade, Run, needed, optimum, play
from nodefleet_tools.backtest.suite import best_fixed, cost_at, mean, meet_budget, price_for
from nodefleet_tools.backtest.traces import Trace

START = datetime(2026, 11, 2, tzinfo=UTC)


def trace(*loads):
    """Half of it is history: as many quiet minutes as follow."""
    return Trace(name="t", start=START, load=[1.0] * len(loads) + list(loads), step=60)


class Script:
    """Wants these sizes, minute by minute."""

    name = "script"

    def __init__(self, *sizes):
        self._sizes = list(sizes)
        self.seen = []

    def learn(self, trace, until):
        pass

    def decide(self, reading):
        self.seen.append(reading)
        return self._sizes.pop(0) if self._sizes else reading.capacity


def test_a_node_serves_join_minutes_after_the_reading_it_was_launched_on():
    run = play(Script(3), trace(1, 1, 1, 1, 1), Conditions(join=3), 1.0, keep=True)
    assert run.ready == [2, 2, 2, 3, 3]


def test_nodes_that_boot_are_paid():
    assert play(Script(3), trace(1, 1, 1, 1), Conditions(join=3), 1.0).node_minutes == 4 * 3


def test_a_minute_above_the_limit_is_a_violation_and_exactly_at_it_is_none():
    run = play(Fixed(2), trace(1.7, 1.71, 1.72, 1.0, 1.8), Conditions(), 1.0)
    assert run.violation_minutes == 3
    assert run.longest_violation_min == 2
    assert run.violation_pct == pytest.approx(60)


def test_more_than_the_largest_fleet_carries_is_counted_apart():
    run = play(Fixed(2), trace(9.0, 2.0), Conditions(), 1.0)
    assert (run.violation_minutes, run.unavoidable_minutes) == (1, 1)


def test_a_reading_shows_no_more_than_all_cpu():
    script = Script()
    play(script, trace(5.0, 1.0), Conditions(), 1.0)
    assert [reading.load for reading in script.seen] == [2.0, 1.0]


def test_minutes_without_data_are_not_scored_and_nothing_is_decided():
    script = Script()
    run = play(script, trace(1.0, nan, 9.0, nan), Conditions(), 1.0)
    assert run.minutes == 2
    assert len(script.seen) == 2


def test_every_second_minute_is_scheduled():
    script = Script()
    play(script, trace(1, 1, 1, 1), Conditions(), 1.0)
    assert [reading.scheduled for reading in script.seen] == [True, False, True, False]


def test_a_scale_up_that_is_taken_back_is_undone():
    run = play(Script(4, 4, 2), trace(1, 1, 1, 1), Conditions(), 1.0)
    assert (run.scale_ups, run.scale_downs, run.undone, run.undone_pct) == (1, 1, 1, 100)


def test_what_is_too_much_goes_from_those_that_boot_first():
    run = play(Script(5, 3), trace(1, 1, 1, 1, 1), Conditions(join=3), 1.0, keep=True)
    assert run.ready == [2, 2, 2, 3, 3]


@pytest.mark.parametrize("loads", [(1, 3, 1, 3), (1, 4, 1, 1, 1, 1, 4), (2, 2.6, 1, 1, 1, 1, 3)])
def test_the_optimum_is_that_of_trying_everything(loads):
    conditions = Conditions(least=1, most=5, join=3)
    needs = [needed(load, conditions) for load in loads]
    cheapest = min(
        sum(nodes) + 3 * sum(max(0, after - before) for before, after in pairwise(nodes))
        for nodes in product(range(1, 6), repeat=len(needs))
        if all(have >= need for have, need in zip(nodes, needs, strict=True))
    )
    assert optimum(trace(*loads), conditions) == cheapest


def test_the_best_fixed_fleet_stays_within_its_budget():
    loads = [1.0] * 990 + [4.0] * 10
    assert best_fixed(trace(*loads), Conditions(), budget=1.0) == 2
    assert best_fixed(trace(*loads), Conditions(), budget=0.9) == 5


def test_the_cost_at_a_budget_lies_on_the_line_between_two_prices():
    def at(violations, ratio):
        run = play(Fixed(2), trace(1.0), Conditions(), 2 / ratio)
        run.minutes, run.violation_minutes = 1000, violations
        return mean("x", [run])

    assert cost_at(0.5, [at(2, 1.3), at(8, 1.0)]) == pytest.approx(1.15)
    assert cost_at(0.1, [at(2, 1.3), at(8, 1.0)]) is None


def test_target_tracking_goes_to_its_target():
    run = play(TargetTracking(), trace(*[3.0] * 30), Conditions(), 1.0, keep=True)
    assert run.ready[-1] == 5


def test_the_price_of_a_budget_lies_between_those_around_it():
    played = [(25.0, 0.8), (65.0, 0.2), (140.0, 0.1)]
    assert price_for(0.8, played) == 25.0
    assert 25 < price_for(0.4, played) < 65 < price_for(0.15, played) < 140
    assert price_for(0.05, played) is None
    assert price_for(1.0, played) is None
    assert price_for(0.0005, [(25.0, 0.0), (65.0, 0.0)]) is None


def plays(violations):
    """What is played, and a player whose runs have these percents of violations by price."""
    asked = []

    def play_at(price):
        asked.append(price)
        percent = next(percent for above, percent in violations if price < above)
        return Run(policy=f"{price:g}", trace="t", minutes=100_000, violation_minutes=round(1000 * percent))

    return asked, play_at


KNOWN = [(25.0, 0.8), (65.0, 0.3), (140.0, 0.1)]


def test_the_price_of_a_budget_is_rounded_up():
    price = 25 * (65 / 25) ** (log(0.8 / 0.5) / log(0.8 / 0.3))
    assert price_for(0.5, KNOWN) == ceil(price)


def test_the_price_that_meets_the_budget_is_the_one_that_was_played():
    asked, play_at = plays([(1000, 0.45)])
    met = meet_budget(0.5, KNOWN, play_at)
    assert [met.policy] == [f"{price:g}" for price in asked]


def test_a_price_that_misses_the_budget_is_raised_until_one_meets_it():
    asked, play_at = plays([(50, 0.51), (1000, 0.4)])
    met = meet_budget(0.5, KNOWN, play_at)
    assert met.violation_pct <= 0.5
    assert asked == sorted(asked)
    assert len(asked) == 2
    assert asked[-1] < 65


def test_if_no_price_in_between_meets_it_none_is_named():
    asked, play_at = plays([(65, 0.6), (1000, 0.3)])
    assert meet_budget(0.5, KNOWN, play_at) is None
    assert len(asked) == 4
    assert meet_budget(0.3, KNOWN, play_at) is None  # 65 itself, which was played
    assert len(asked) == 4


def test_the_front_has_no_point_that_another_one_beats():
    assert pareto([(1.0, 1.1), (0.5, 1.3), (0.7, 1.4), (0.0, 2.0)]) == [(0.0, 2.0), (0.5, 1.3), (1.0, 1.1)]


def test_a_grade_compares_promises_with_what_came():
    grade = Grade(promised=2.0, seen=1, decisions=200)
    assert (grade.promised_pct, grade.seen_pct) == (1.0, 0.5)
    grade.add_votes((0.5, 0.25, 0.25))
    grade.add_votes((1.0, 0.0, 0.0))
    assert grade.shares == {"full": 0.75, "recent": 0.125, "last": 0.125}
