from datetime import UTC, datetime, timedelta

import pytest

from nodefleet.adapters.clock import LambdaTime, LimitedTime
from support.builders import NOON

MINUTE = timedelta(minutes=1)


class Context:
    """Lambda's context object, as far as it tells the time."""

    def __init__(self, millis: int) -> None:
        self.millis = millis

    def get_remaining_time_in_millis(self) -> int:
        return self.millis


class Machine:
    """A wall clock and a monotonic one, which may go their own ways."""

    def __init__(self) -> None:
        self.wall, self.ticked, self.slept = NOON, 1000.0, []

    def time(self, limit: timedelta = MINUTE) -> LimitedTime:
        return LimitedTime(limit, clock=lambda: self.wall, ticks=lambda: self.ticked, pause=self.slept.append)

    def passes(self, seconds: float, *, wall: float | None = None) -> None:
        self.ticked += seconds
        self.wall += timedelta(seconds=seconds if wall is None else wall)


def test_lambda_says_itself_how_long_it_lets_us():
    assert LambdaTime(Context(42_500)).remaining() == timedelta(seconds=42.5)


def test_now_is_now_and_knows_its_zone():
    now = LambdaTime(Context(1)).now()
    assert abs(now - datetime.now(UTC)) < MINUTE
    assert now.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("asked", "left", "slept"), [(10, 60, [10]), (10, 4, [4]), (10, 0, []), (0, 60, []), (-1, 60, [])]
)
def test_sleeping_ends_before_the_run_does(asked, left, slept):
    pauses: list[float] = []
    LambdaTime(Context(left * 1000), pauses.append).sleep(timedelta(seconds=asked))
    assert pauses == slept


def test_a_limit_runs_from_the_beginning():
    machine = Machine()
    time = machine.time()
    machine.passes(25)
    assert (time.remaining(), time.now()) == (timedelta(seconds=35), machine.wall)


def test_a_laptop_that_slept_has_used_its_time_up():
    machine = Machine()
    time = machine.time()
    machine.passes(1, wall=3600)
    assert time.remaining() < timedelta(0)


def test_a_clock_that_is_set_back_gives_no_more_time():
    machine = Machine()
    time = machine.time()
    machine.passes(25, wall=-3600)
    assert time.remaining() == timedelta(seconds=35)


def test_sleeping_on_a_laptop_keeps_to_the_limit_too():
    machine = Machine()
    time = machine.time()
    machine.passes(55)
    time.sleep(timedelta(seconds=10))
    assert machine.slept == [5]
