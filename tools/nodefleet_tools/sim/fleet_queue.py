"""Many clusters behind one FIFO queue, in virtual time: who waits for whom, and for how long.

Modelled are SQS's rules (a message group has one message in work, ready groups in the order of their oldest message),
Lambda's (so many runs at once, one message each) and the shipped handler's (a tick that is too old is dropped). Not
modelled are the runs themselves: each takes as long as `duration` says, which the benchmark takes from runs that the
engine played.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import TypeAlias

Duration: TypeAlias = Callable[[float], float]  # seconds of a run that begins at this second of the day


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCluster:
    kind: str
    first: float  # second of its first tick
    duration: Duration
    iteration: float | None = None  # seconds of a run that makes only one; none: it takes as long as any
    dies: bool = False  # its runs end by the function's time limit: the message comes again
    urgent: tuple[float, ...] = ()  # seconds at which an alert asks for a run


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    slots: int  # runs at once
    every: float = 120.0  # seconds between ticks
    oldest: float = 120.0  # of a tick that is run
    late: float = 15.0  # a tick that waited for longer makes one iteration
    hidden: float = 130.0  # until the message of a run that died comes again
    pickup: float = 0.2  # from a message's being ready to its run's beginning, if there is a slot
    drop: float = 0.05  # that a dropped message takes a slot


@dataclass(slots=True)
class Served:
    """What came of one cluster's messages."""

    ages: list[float] = field(default_factory=list)  # of messages when their runs began
    begun: list[float] = field(default_factory=list)
    dropped: int = 0
    busy: float = 0.0  # seconds of functions

    @property
    def longest_gap(self) -> float:
        return max((later - earlier for earlier, later in zip(self.begun, self.begun[1:], strict=False)), default=0.0)


@dataclass(slots=True)
class Outcome:
    clusters: Mapping[str, Served]
    most_slots: int = 0
    slot_seconds: float = 0.0


@dataclass(slots=True)
class _Group:
    waiting: deque[float] = field(default_factory=deque)  # when each was sent
    busy: bool = False
    ready: bool = False  # it stands in the line


def serve(  # noqa: PLR0915  # one event loop over one state
    clusters: Mapping[str, SimulatedCluster], rules: QueueRules, until: timedelta
) -> Outcome:
    """All messages up to a time. Those that are in the queue then are left there."""
    end, order = until.total_seconds(), count()
    outcome = Outcome({name: Served() for name in clusters})
    groups = {name: _Group() for name in clusters}
    line: list[tuple[float, int, str]] = []  # groups that are ready, by their oldest message
    events: list[tuple[float, int, str, str]] = []
    taken = 0

    def plan(at: float, what: str, name: str) -> None:
        if at < end:
            heapq.heappush(events, (at, next(order), what, name))

    def stand_in_line(name: str) -> None:
        group = groups[name]
        if group.waiting and not group.busy and not group.ready:
            group.ready = True
            heapq.heappush(line, (group.waiting[0], next(order), name))

    def begin(now: float, name: str) -> None:
        nonlocal taken
        cluster, group, served = clusters[name], groups[name], outcome.clusters[name]
        group.ready, group.busy, sent = False, True, group.waiting.popleft()
        taken += 1
        outcome.most_slots = max(outcome.most_slots, taken)
        age = now + rules.pickup - sent
        if age > rules.oldest:
            served.dropped += 1
            took = rules.drop
        else:
            served.ages.append(age)
            served.begun.append(now)
            took = cluster.duration(now)
            if age > rules.late and cluster.iteration is not None:
                took = min(took, cluster.iteration)
        served.busy += took
        outcome.slot_seconds += took
        died = cluster.dies and age <= rules.oldest
        plan(now + rules.pickup + took, "end", name)
        if died:
            group.waiting.appendleft(sent)  # visible again later: until then the group stays as it is
            plan(now + rules.pickup + rules.hidden, "visible", name)
        else:
            plan(now + rules.pickup + took, "free", name)

    for name, cluster in clusters.items():
        plan(cluster.first, "tick", name)
        for at in cluster.urgent:
            plan(at, "urgent", name)
    while events:
        now, _, what, name = heapq.heappop(events)
        match what:
            case "tick" | "urgent":
                groups[name].waiting.append(now)
                if what == "tick":
                    plan(now + rules.every, "tick", name)
                stand_in_line(name)
            case "end":
                taken -= 1
            case _:  # its group may go on
                groups[name].busy = False
                stand_in_line(name)
        while line and taken < rules.slots:
            _, _, ready = heapq.heappop(line)
            begin(now, ready)
    return outcome
