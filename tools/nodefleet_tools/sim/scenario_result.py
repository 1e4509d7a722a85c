"""The result of a played scenario: measurements over time, decisions with their reasons, and the outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market
from nodefleet.policy.cluster import Policy


class Standing(Enum):
    """What a worker is doing, as the world knows it."""

    BOOTING = "booting"
    READY = "ready"
    UNREADY = "unready"
    DRAINING = "draining"
    INTERRUPTED = "interrupted"
    FAILED = "failed"  # it did not join, and is kept for an operator
    ENDING = "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeen:
    name: str
    zone: str
    market: Market
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSeen:
    """A node that is being drained."""

    node: str
    left: int  # pods that still have to move
    budget: str = ""  # the PodDisruptionBudget that holds one of them back now


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One moment."""

    at: datetime
    asked: float  # requests per second
    capacity: float  # requests per second that the ready pods could serve
    room: float | None  # requests per second that the ready nodes could serve, filled with pods
    backlog: float  # requests that wait
    latency_ms: float  # of the slowest service, at its worst since the frame before
    violated: bool  # a service was above its limit since the frame before
    cpu: float | None  # percent, as Prometheus shows it
    memory: float | None
    pods: int  # that run
    waiting: int  # pods that fit nowhere
    workers: tuple[WorkerSeen, ...]
    usd: float  # so far
    drains: tuple[DrainSeen, ...] = ()
    by_workload: Mapping[str, int] = field(default_factory=dict)  # pods that run, of each that has some

    @property
    def ready(self) -> int:
        return sum(worker.standing is Standing.READY for worker in self.workers)


class MarkKind(Enum):
    """What kind of thing a mark is; those of the fleet first, then those that happen to it."""

    GROW = "grow"
    REPLACE = "replace"  # growing that only makes up for what was lost
    SHRINK = "shrink"
    REMOVED = "removed"
    WARNING = "warning"  # an alert
    HAPPENED = "happened"  # the scenario's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    at: datetime
    kind: MarkKind
    title: str  # 3 → 5
    text: str  # why, with figures
    waited: timedelta | None = None  # of a scale-up for pods: how long the first of them had been unschedulable


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """One pool's decision that changed something."""

    at: datetime
    pool: str
    action: Action
    before: int
    to: int
    by: str  # the bound that set the target
    restoring: bool  # it only makes up for what was lost
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What came of it. None: there was nothing of that kind to measure."""

    violation_minutes: float
    success_percent: float | None
    p99_wait_seconds: float | None
    longest_pod_wait_seconds: float
    decision_to_ready_seconds: float | None  # the slowest
    typical_to_ready_seconds: float | None  # the median
    healed_seconds: float | None  # the slowest
    longest_drain_seconds: float | None  # of a worker that left of our own accord, until it was gone
    node_hours: float
    usd: float
    spot_percent: float  # of the node-hours
    grows: int  # decisions to grow
    shrinks: int
    launched: int  # instances
    removed: int
    fewest_nodes: int  # ready ones
    most_nodes: int  # instances
    final_nodes: int  # ready ones
    oldest_worker_days: float  # that there ever was
    warm_hours: float  # of stopped instances that are kept to be started: they cost their disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The same load on a fleet of fixed size."""

    nodes: int
    usd: float
    violation_minutes: float
    room: float | None = None  # requests per second that it could serve
    spot_usd: float | None = None  # the same nodes on Spot, were none of them ever interrupted

    def saved_percent(self, usd: float) -> float:
        return 100 * (self.usd - usd) / self.usd if self.usd else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that was expected, and what was found."""

    holds: bool
    what: str  # saved against a fixed fleet of 5
    wanted: str  # at least 40 %
    found: str  # 65.0 %


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    name: str
    about: str
    seed: int
    starts: datetime
    ends: datetime
    policy: Policy
    frames: tuple[Frame, ...]
    marks: tuple[Mark, ...]
    decided: tuple[Decided, ...]
    told: tuple[AlertKind, ...]  # kinds of the alerts that were sent
    figures: Figures
    fixed: tuple[Fixed, ...]
    broken: tuple[str, ...]  # invariants of the world; there must be none
    checks: tuple[Check, ...] = ()
    slo_ms: float | None = None  # of the first service

    @property
    def holds(self) -> bool:
        return not self.broken and all(check.holds for check in self.checks)

    def against(self, nodes: int) -> Fixed | None:
        return next((fixed for fixed in self.fixed if fixed.nodes == nodes), None)
