"""Runs that go on side by side, each in its turn.

A run that waits (for an answer, or between two observations) lets the others go on, so two of them really alternate,
call by call. The loop's code is plain Python and cannot be left in the middle, so each run beside the first has a
thread of its own; but only one of all threads ever goes on, and time says which: the same seed always plays the same.
"""

from collections.abc import Callable
from datetime import datetime
from threading import Lock, Thread

from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.hooks import KilledError


class CooperativeScheduler:
    """Starts runs. The first one needs no thread: while it waits it moves time on, and with it all others."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._others: list[_Turn] = []
        self._first_is_at_work = False

    @property
    def at_work(self) -> int:
        """How many runs are under way."""
        self._others = [turn for turn in self._others if not turn.over]
        return len(self._others) + self._first_is_at_work

    def end(self) -> None:
        """Nothing goes on: an activity that is still at work dies where it stands."""
        for turn in self._others:
            turn.end()

    def begin(self, run: Callable[[], None]) -> None:
        """Start a run now. It answers for its own errors: what it raises ends the play."""
        if self._first_is_at_work:
            turn = _Turn(self._clock, run)
            self._others.append(turn)
            turn.go_on()
            return
        self._first_is_at_work = True
        try:
            run()
        finally:
            self._first_is_at_work = False


class _Turn:
    """One run in a thread that only goes on when it is told to."""

    def __init__(self, clock: Clock, run: Callable[[], None]) -> None:
        self.over = False
        self._ended = False
        self._clock = clock
        self._run = run
        self._failure: BaseException | None = None
        self._mine, self._theirs = Lock(), Lock()  # free: its turn, and the turn of the activity that told it to go on
        self._mine.acquire()
        self._theirs.acquire()
        Thread(target=self._body, daemon=True, name="run").start()

    def go_on(self) -> None:
        """Until it waits or is over."""
        before, self._clock.sleeper = self._clock.sleeper, self
        self._mine.release()
        self._theirs.acquire()
        self._clock.sleeper = before
        if self._failure is not None:
            raise self._failure

    def wait_until(self, when: datetime) -> None:
        self._clock.at(when, self.go_on)
        self._theirs.release()
        self._mine.acquire()
        if self._ended:
            raise KilledError("the play is over")

    def end(self) -> None:
        self._ended = True
        while not self.over:
            self.go_on()

    def _body(self) -> None:
        self._mine.acquire()
        try:
            self._run()
        except BaseException as failure:  # noqa: BLE001  # raised in the activity that told it to go on
            self._failure = failure
        self.over = True
        self._theirs.release()
