"""Faults at single calls of a run: they fail before or after their effect, take long, are turned away, answer with what
was so a while ago, or are the last thing that the process does.

Every call takes some time even on a good day. That is what lets runs alternate, and the world change between any two
calls of a run. Answers are only wrong in ways that the real adapters cannot notice: they never give half a list.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeAlias

from nodefleet.errors import DeniedError, MalformedError, NodeFleetError, ThrottledError, UnavailableError
from nodefleet.model.operations import Cordon, PodRef
from nodefleet.model.snapshot import Missing
from nodefleet_tools.sim.chaos.drawing import chance, coin
from nodefleet_tools.sim.faults import SERVICES
from nodefleet_tools.sim.hooks import Call, KilledError, Moment
from nodefleet_tools.sim.world import World

_QUICK = (0.01, 0.15)  # seconds that a call takes
_SLOW = (4.0, 40.0)
_LAG = (5.0, 60.0)  # how old a stale answer is
_VIEWS = 8  # of Kubernetes that are kept to be given again
_TIME, _GAUGES = "time", "gauges"

Failing: TypeAlias = Callable[[], NodeFleetError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often something befalls a call; 0.01 is one call in a hundred."""

    fails_before: float = 0.0  # nothing has happened yet, and the caller hears that it failed
    fails_after: float = 0.0  # it took effect, and the caller hears that it failed
    throttled: float = 0.0
    slow: float = 0.0  # takes many seconds, and half of those end in a timeout
    stale: float = 0.0  # the answer is an old one
    killed: float = 0.0  # the process dies

    @property
    def any(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))


class Strikes:
    """A hook for every run of a seed."""

    def __init__(
        self, world: World, rates: Rates, random: Random, figures: Counter[str], *, look_takes: float = 0.0
    ) -> None:
        self.calm = False
        self.poisoned: dict[str, Failing] = {}  # by a pod's uid or a node's name: every call about it fails
        self.hopeless: dict[str, Failing] = {}  # by a node's name: the same, and it cannot be deleted either; for ever
        self.illegible: set[str] = set()  # instances whose notices cannot be read, for ever: the store leaves them out
        self.untaggable = False  # the tag of what did not join is refused, for ever
        self.unreadable = ""  # a record that cannot be read, and stops every run that reads the table
        self._look_takes = look_takes
        self.denied: frozenset[str] = frozenset()  # calls that our role may not make
        self._world = world
        self._clock = world.clock
        self._rates = rates
        self._random = random
        self._figures = figures
        self._views: deque[tuple[datetime, Any]] = deque(maxlen=_VIEWS)

    def __call__(self, call: Call) -> None:
        if call.number == 0:
            return
        if call.port != _TIME:
            self._clock.wait(self._random.uniform(*_QUICK) / 2)
        if call.name in self.denied and call.moment is Moment.BEFORE:
            raise DeniedError(SERVICES[call.port], f"{call.method} is not allowed", "Fix the role")
        if call.moment is Moment.BEFORE:
            self._always(call)
        elif self.illegible and call.name == "store.state":
            legible = tuple(each for each in call.result.notices if each.instance not in self.illegible)
            call.result = replace(call.result, notices=legible)
        if self.calm:
            return
        if call.moment is Moment.BEFORE:
            self._before(call)
        else:
            self._after(call)

    def _always(self, call: Call) -> None:
        """What is no matter of chance: one object that always fails, and a cluster that takes long to read."""
        if call.name == "cluster.view" and self._look_takes:
            self._clock.wait(self._look_takes)
        if call.name == "store.state" and self.unreadable:
            self._struck(call, "finds a record that cannot be read")
            raise MalformedError(f"the record {self.unreadable} in the table cannot be read: its format is newer")
        if self.untaggable and call.name == "cloud.mark_failed":
            self._struck(call, f"fails for {call.arguments[0]}")
            raise UnavailableError(SERVICES[call.port], "TagPolicyViolation")
        if not (self.poisoned or self.hopeless):
            return
        subject = _subject(call)
        deleted = str(call.arguments[0]) if call.name == "cluster.delete_node" else subject
        error = self.poisoned.get(subject) or self.hopeless.get(deleted)
        if error is not None:
            self._struck(call, f"fails for {deleted}")
            raise error()

    def _before(self, call: Call) -> None:
        rates, drawn = self._rates, self._random.random()
        if drawn < rates.killed:
            self._kill(call)
        drawn -= rates.killed
        service = SERVICES.get(call.port)
        if service is None:
            return
        if drawn < rates.fails_before:
            self._struck(call, "fails")
            raise UnavailableError(service, "connection refused")
        drawn -= rates.fails_before
        if drawn < rates.throttled:
            self._struck(call, "is throttled")
            raise ThrottledError(service, "Rate exceeded")
        if drawn - rates.throttled < rates.slow:
            self._slow(call, service)

    def _after(self, call: Call) -> None:
        rates, drawn = self._rates, self._random.random()
        if drawn < rates.killed:
            self._kill(call)
        self._make_stale(call)
        service = SERVICES.get(call.port)
        if service is not None and drawn - rates.killed < rates.fails_after:
            self._struck(call, "fails after its effect")
            raise UnavailableError(service, "the answer was lost")

    def _kill(self, call: Call) -> None:
        self._struck(call, f"kills the process, {call.moment.value} its effect")
        raise KilledError(f"{call.run} died")

    def _slow(self, call: Call, service: str) -> None:
        """The effect comes late, or the caller has lost patience before."""
        seconds = self._random.uniform(*_SLOW)
        fails = coin(self._random)
        self._struck(call, f"takes {seconds:.0f} s{' and times out' if fails else ''}")
        self._clock.wait(seconds)
        if fails:
            raise UnavailableError(service, "timed out")

    # ── answers that were true a while ago ───────────────────────────────────────────────────────────────────────

    def _make_stale(self, call: Call) -> None:
        if call.name not in ("cloud.instances", "cluster.view", "gauges.read"):
            return
        stale = chance(self._random, self._rates.stale)
        now = self._clock.now
        if call.name == "cluster.view":
            old = next((view for at, view in self._views if now - at <= timedelta(seconds=_LAG[1])), None)
            self._views.append((now, call.result))
            if not stale or old is None or old == call.result:
                return
            call.result = old
        elif not stale:
            return
        elif call.name == "cloud.instances":
            call.result = self._world.ec2.list_of(now - timedelta(seconds=self._random.uniform(*_LAG)))
        else:
            self._lose_readings(call)
        self._struck(call, "gives a stale answer" if call.port != _GAUGES else "lacks a reading")

    def _lose_readings(self, call: Call) -> None:
        pool = self._random.choice(sorted(call.result))
        name = self._random.choice(("cpu", "memory"))
        cause = "query timed out"
        call.result = {**call.result, pool: replace(call.result[pool], **{name: Missing(cause)})}
        self._world.runs[call.run].unread[pool] = f"{name}: {cause}"

    def _struck(self, call: Call, what: str) -> None:
        self._figures["faults"] += 1
        self._world.guard.did(call.run, f"! {call.name} {what}")


def _subject(call: Call) -> str:
    """The pod (its uid) or the node (its name) that a call would change."""
    if call.name not in ("cluster.evict", "cluster.delete_pod", "cluster.cordon", "cluster.uncordon"):
        return ""
    first = call.arguments[0]
    if isinstance(first, PodRef):
        return first.uid
    return first.node if isinstance(first, Cordon) else str(first)
