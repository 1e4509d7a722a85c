"""Ending a run that an operator stops: at the next pause, with the lease let go, and at once if they insist."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from nodefleet.adapters.clock import LimitedTime

_SLICE = 0.5  # seconds: how soon a pause notices the stop
_STDERR = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(Exception):
    """The operator stops us while there is nothing to finish."""


class Stop:
    """Whether the operator wants the end. Pauses pass through here, so that they end with it."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self.asked = ""  # by which signal

    def check(self) -> None:
        if self.asked:
            raise StoppedError(self.asked)

    def pause(self, seconds: float) -> None:
        """In slices: a signal that arrives while Python sleeps does not end the sleep."""
        while seconds > 0:
            self.check()
            self._sleep(min(_SLICE, seconds))
            seconds -= _SLICE
        self.check()


@contextmanager
def stopping(sleep: Callable[[float], None]) -> Iterator[Stop]:
    """Signals ask for the end meanwhile; the second one interrupts."""
    stop = Stop(sleep)

    def ask(number: int, _: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = signal.Signals(number).name
        # Not print: the signal may have come in the middle of one.
        os.write(_STDERR, f"{stop.asked}: ends after this iteration; once more ends it at once\n".encode())

    before = {each: signal.signal(each, ask) for each in _SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class StoppableTime:
    """`ports.Time` of a run that may take `limit`, and that a stop ends at its next pause."""

    def __init__(self, limit: timedelta, stop: Stop, clock: Callable[[], datetime]) -> None:
        self._time = LimitedTime(limit, clock=clock, pause=stop.pause)
        self._stop = stop

    def now(self) -> datetime:
        return self._time.now()

    def remaining(self) -> timedelta:
        return self._time.remaining()

    def sleep(self, duration: timedelta) -> None:
        self._stop.check()
        self._time.sleep(duration)
