"""Time belongs to the world: it moves for everybody, forwards, and a run's own time ends."""

from datetime import timedelta

import pytest

from nodefleet_tools.sim.clock import Clock, SimTime
from nodefleet_tools.sim.hooks import KilledError, Run
from nodefleet_tools.sim.world import NOON


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def test_what_is_planned_happens_in_order_and_at_its_time():
    clock, happened = Clock(NOON), []
    clock.after(20, lambda: happened.append(("late", clock.now)))
    clock.after(10, lambda: happened.append(("first", clock.now)))
    clock.after(10, lambda: happened.append(("second", clock.now)))
    clock.advance(seconds(15))
    assert happened == [("first", NOON + seconds(10)), ("second", NOON + seconds(10))]
    assert clock.now == NOON + seconds(15)


def test_what_is_called_off_does_not_happen():
    clock, happened = Clock(NOON), []
    once = clock.after(1, lambda: happened.append("once"))
    often = clock.every(2, lambda: happened.append("often"))
    once.cancel()
    clock.advance(seconds(5))
    often.cancel()
    clock.advance(seconds(5))
    assert happened == ["often", "often"]


def test_something_that_takes_time_within_a_sleep_makes_the_sleeper_late():
    clock, at = Clock(NOON), []
    clock.after(5, lambda: clock.advance(seconds(60)))
    clock.after(30, lambda: at.append(clock.now))
    clock.advance(seconds(10))
    assert (clock.now, at) == (NOON + seconds(65), [NOON + seconds(30)])


def test_a_run_is_stopped_at_its_limit_even_while_it_sleeps():
    clock = Clock(NOON)
    time = SimTime(clock, Run(name="r", limit=NOON + seconds(60)), skew=seconds(3))
    time.sleep(seconds(40))
    assert (time.remaining(), time.now()) == (seconds(20), NOON + seconds(43))
    with pytest.raises(KilledError):
        time.sleep(seconds(40))
    assert clock.now == NOON + seconds(60)
