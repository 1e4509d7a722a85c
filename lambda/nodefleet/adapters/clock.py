"""The clock of the machine we run on, and how long it lets us.

In Lambda the runtime knows when it stops us. On a laptop or in a container a run gets a limit, so that it ends in time
for the next one just the same.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

NOTHING = timedelta(0)


class LambdaContext(Protocol):
    """The part of Lambda's context object that tells the time."""

    def get_remaining_time_in_millis(self) -> int: ...


def utc_now() -> datetime:
    return datetime.now(UTC)


class LambdaTime:
    def __init__(self, context: LambdaContext, pause: Callable[[float], None] = time.sleep) -> None:
        self._context = context
        self._pause = pause

    def now(self) -> datetime:
        return utc_now()

    def remaining(self) -> timedelta:
        return timedelta(milliseconds=self._context.get_remaining_time_in_millis())

    def sleep(self, duration: timedelta) -> None:
        _sleep(duration, self.remaining(), self._pause)


class LimitedTime:
    """A run that must end `limit` after this object was made."""

    def __init__(
        self,
        limit: timedelta,
        *,
        clock: Callable[[], datetime] = utc_now,
        ticks: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limit = limit
        self._clock = clock
        self._ticks = ticks
        self._pause = pause
        self._began = clock()
        self._first_tick = ticks()

    def now(self) -> datetime:
        return self._clock()

    def remaining(self) -> timedelta:
        # The monotonic clock stands still while a laptop sleeps, the wall clock can be set back: the later one counts.
        ticked = timedelta(seconds=self._ticks() - self._first_tick)
        return self._limit - max(ticked, self._clock() - self._began)

    def sleep(self, duration: timedelta) -> None:
        _sleep(duration, self.remaining(), self._pause)


def _sleep(duration: timedelta, left: timedelta, pause: Callable[[float], None]) -> None:
    """Sleeping beyond the end would only mean to be killed asleep."""
    seconds = min(duration, left)
    if seconds > NOTHING:
        pause(seconds.total_seconds())
