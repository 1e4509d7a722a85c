"""Runs of the loop in this process: one, or one after the other until an operator stops them.

A failed run is told and the next one comes in its time, as in Lambda. What a run may take is the same as there, too.
"""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from nodefleet.bootstrap import KEPT_FOR
from nodefleet.errors import MisconfiguredError, NodeFleetError
from nodefleet.model.names import pluralize
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Runtime, Time
from nodefleet.reconcile.run import run
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.operators import someone
from nodefleet_tools.cli.run_output import RunOutput
from nodefleet_tools.cli.stopping import Stop, StoppableTime, StoppedError

LIMIT = timedelta(seconds=120)  # of a run, as Lambda's timeout


def require_right_clock(connection: Connection, policy: Policy) -> None:
    """A lease is worth nothing between machines that do not agree on the time."""
    most = policy.trust.clock_skew
    if _is_off(connection.session.skew(), most):
        connection.cloud.instances()  # any answer of AWS tells its time again: ours may have been set since the last
    skew = connection.session.skew()
    if skew is not None and _is_off(skew, most):
        ahead = "behind" if skew > timedelta(0) else "ahead of"
        raise MisconfiguredError(
            f"This machine's clock is {abs(skew).total_seconds():.0f} s {ahead} AWS's, and"
            f" trust.clock_skew allows {most.total_seconds():g} s: set it by NTP"
        )


def _is_off(skew: timedelta | None, most: timedelta) -> bool:
    return skew is not None and abs(skew) > most


@dataclass(slots=True)
class Runs:
    connection: Connection
    policy: Policy  # as it was at the start; each iteration reads it again
    parts: Callable[[Time], Runtime]
    output: RunOutput
    stop: Stop
    done: int = 0
    failed: int = 0
    held: int = 0
    last_failed: bool = False
    heartbeat: Path | None = None  # touched after each run that did not fail
    _owner: str = field(default_factory=lambda: f"{someone()}#{uuid4().hex[:8]}")
    _kept_since: datetime | None = None

    def one(self) -> None:
        """One run. Raises what it raises, after the lease is let go."""
        self._forget_what_is_old()
        require_right_clock(self.connection, self.policy)
        time = StoppableTime(LIMIT, self.stop, self.connection.clock)
        ran = run(self.parts(time), owner=f"{self._owner}#{self.done + self.failed + 1}")
        if ran.held:
            self.held += 1
            self.output.held(ran.held)

    def many(self, interval: timedelta) -> None:
        """A run every interval by the wall clock, until an operator stops them. A run that takes longer than that lets
        the next ones out."""
        began = self.connection.clock()
        try:
            while True:
                self._survived()
                began = self._wait_for_tick(began, interval)
        except StoppedError:
            return

    def _survived(self) -> None:
        try:
            self.one()
        except StoppedError:
            self.done += 1
            raise
        except NodeFleetError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001  # a fault of ours: the next run may meet none
            self._fail(error)
            print(self.connection.redact(traceback.format_exc()), file=sys.stderr)
        else:
            self.done += 1
            self.last_failed = False
            if self.heartbeat:
                self._beat(self.heartbeat)

    def _beat(self, heartbeat: Path) -> None:
        """A full disk is no reason to end; that the file grows old is what tells of it."""
        try:
            heartbeat.touch()
        except OSError as error:
            self.output.warn(f"{heartbeat}: cannot be touched: {error.strerror}")

    def _fail(self, error: Exception) -> None:
        self.failed += 1
        self.last_failed = True
        self.output.failed(error)
        self.output.warn(f"This run failed: {error}")

    def _wait_for_tick(self, began: datetime, interval: timedelta) -> datetime:
        """Until the next multiple of the interval. A clock that is set meanwhile starts a new count."""
        self.stop.check()
        clock = self.connection.clock
        following = began + ((clock() - began) // interval + 1) * interval
        while (left := following - clock()) > timedelta(0):
            if left > interval:
                return clock()
            self.stop.pause(min(left, timedelta(seconds=1)).total_seconds())
        return began

    def _forget_what_is_old(self) -> None:
        now = self.connection.clock()
        if self._kept_since and now - self._kept_since >= KEPT_FOR:
            self.connection.forget()
            self._kept_since = None
        self._kept_since = self._kept_since or now

    def summary(self) -> str:
        runs = pluralize(self.done + self.failed, "run", "runs")
        asked = f"Ended by {self.stop.asked}: " if self.stop.asked else ""
        held = f", {self.held} found another run at work" if self.held else ""
        return f"{asked}{runs}, {self.failed} failed{held}."
