"""Virtual time. It belongs to the world: when one run sleeps, everything else lives on.

What happens within a sleep may itself be a run that sleeps. Time only moves forwards: the outer sleep then wakes later
than it meant to, as a slow process does. Runs that are to sleep side by side take turns (`turns`).
"""

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol, TypeAlias

from nodefleet_tools.sim.hooks import KilledError, Run

Action: TypeAlias = Callable[[], object]


class Sleeper(Protocol):
    """An activity that waits by letting others go on."""

    def wait_until(self, when: datetime) -> None: ...


class Timer:
    """Something that will happen, unless it is called off."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        self.action = None


class Clock:
    def __init__(self, start: datetime) -> None:
        self.now = start
        self._order = count()  # of two things at the same moment the one that was planned first
        self._plan: list[tuple[datetime, int, Timer]] = []
        self.sleeper: Sleeper | None = None  # whose turn it is; none: the activity that waits moves time on itself

    def at(self, when: datetime, action: Action) -> Timer:
        timer = Timer(action)
        heapq.heappush(self._plan, (max(when, self.now), next(self._order), timer))
        return timer

    def after(self, seconds: float, action: Action) -> Timer:
        return self.at(self.now + timedelta(seconds=seconds), action)

    def every(self, seconds: float, action: Action) -> Timer:
        """From now on, until the answer is cancelled."""
        repeating, pause = Timer(action), timedelta(seconds=seconds)

        def again() -> None:
            if repeating.action is not None:
                self.at(self.now + pause, again)
                repeating.action()

        self.after(seconds, again)
        return repeating

    def wait(self, seconds: float) -> None:
        self.wait_until(self.now + timedelta(seconds=seconds))

    def wait_until(self, when: datetime) -> None:
        """An activity of the world waits: time goes on meanwhile, and everything else happens."""
        if not self._plan or self._plan[0][0] > when:
            self.now = max(self.now, when)  # nothing happens before
        elif self.sleeper:
            self.sleeper.wait_until(when)
        else:
            self.at(when, _nothing)  # other activities that wait must not take time beyond this
            self.advance_to(when)

    def advance(self, duration: timedelta) -> None:
        self.advance_to(self.now + duration)

    def advance_to(self, when: datetime) -> None:
        while self._plan and self._plan[0][0] <= when:
            at, _, timer = heapq.heappop(self._plan)
            self.now = max(self.now, at)
            if timer.action is not None:
                timer.action()
        self.now = max(self.now, when)


def _nothing() -> None:
    pass


class SimTime:
    """One run's watch. It may be wrong by `skew`, and the run ends when its time is over, whatever it is doing."""

    def __init__(self, clock: Clock, run: Run, skew: timedelta = timedelta(0)) -> None:
        self._clock = clock
        self._run = run
        self._skew = skew

    def now(self) -> datetime:
        return self._clock.now + self._skew

    def remaining(self) -> timedelta:
        return self._run.limit - self._clock.now

    def sleep(self, duration: timedelta) -> None:
        wakes = self._clock.now + duration
        self._clock.wait_until(min(wakes, max(self._run.limit, self._clock.now)))
        if wakes > self._run.limit:
            raise KilledError(f"{self._run.name} slept past its time")
