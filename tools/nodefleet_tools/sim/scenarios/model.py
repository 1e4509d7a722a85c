"""What a scenario file says: a cluster, what runs on it, the load, what happens, and what should come of it.

Names of fields are the keys of the file; the codec refuses every other one. Times of day are texts ("10:02"),
durations are written as 90s, 5m, 2h.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, TypeAlias

from nodefleet_tools.sim.scenarios.expectations import Expect
from nodefleet_tools.sim.scenarios.happenings import Happening
from nodefleet_tools.sim.shapes import Shape
from nodefleet_tools.sim.world import ZONES

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Seconds, from … to: each instance draws its own."""

    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    zones: tuple[str, ...] = ZONES
    workers: int = 2  # at the start, for a day already; the first On-Demand, the others Spot
    warm: int = 0  # besides: instances that are stopped and kept to be started
    type: str = "t3.small"  # of those, and of the fixed fleets that are compared
    boots: Span = field(default_factory=lambda: Span(least=10, most=25))  # EC2: pending → running
    joins: Span = field(default_factory=lambda: Span(least=30, most=70))  # running → a node
    ready: Span = field(default_factory=lambda: Span(least=3, most=8))  # a node → ready
    devices: Span = field(default_factory=lambda: Span(least=20, most=60))  # ready → its GPUs are offered


class WorkloadKind(Enum):
    DEPLOYMENT = "deployment"
    STATEFUL_SET = "stateful-set"
    DAEMON_SET = "daemon-set"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpec:
    """A PodDisruptionBudget over a workload: a number or a percentage, in one of two ways."""

    min_available: str | None = None
    max_unavailable: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec:
    name: str
    kind: WorkloadKind = WorkloadKind.DEPLOYMENT
    namespace: str = "default"
    replicas: int = 1  # of a job: how many pods must succeed
    cpu: int = 100  # millicores that each pod asks for
    memory: int = 128  # MiB
    gpus: int = 0  # nvidia.com/gpu
    tolerates: tuple[str, ...] = ()  # keys of taints
    zone: str | None = None  # its pods run there only, as those with a volume of that zone
    priority: int = 0  # of its pods, as of a PriorityClass
    cpu_use: float = 0.5  # of what it asks for; a service's load sets it
    memory_use: float = 0.8
    starts_in: timedelta = timedelta(seconds=5)
    stops_in: timedelta = timedelta(seconds=2)
    runs_for: timedelta | None = None  # then a pod has succeeded; none: it serves for ever
    budget: BudgetSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """What the horizontal autoscaler of a service may do."""

    min: int
    max: int
    target: float = 0.7  # how busy it wants the pods


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """Requests (or jobs) that a workload's ready pods serve. What they do not get to waits, and is not forgotten."""

    workload: str
    per_pod: float  # requests per second that one pod serves
    load: tuple[Shape, ...]
    replicas: Replicas | None = None  # none: as many as the workload says
    base_ms: float = 50.0  # a request that does not wait
    slo_ms: float = 500.0  # longer is a violation
    gives_up_after: timedelta = timedelta(minutes=5)  # a request that waits longer than this has failed


# ── readings beside CPU and memory ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Requests of a service that wait."""

    service: str
    divided_by: float = 1.0  # so many are one node's work at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """In milliseconds, at most a minute."""

    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Requests per second that come in."""

    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyPods:
    """Pods of a service that have work in hand."""

    service: str
    divided_by: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """Whatever these shapes say."""

    load: tuple[Shape, ...]


Shown: TypeAlias = Backlog | Latency | Rate | BusyPods | Scripted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSpec:
    """What Prometheus shows under a name: one of the pool's readings, or `cpu` or `memory` in place of the load's."""

    name: str
    shows: Shown
    pool: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Days before the start, for the hour-of-day profile: the same load, measured on a fleet of so many workers."""

    days: int = 5
    workers: int = 6


# ── all of it ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    about: str  # what it shows, in a sentence or two
    starts: datetime = MONDAY
    lasts: timedelta
    seed: int = 1
    policy: Mapping[str, Any] = field(default_factory=dict)  # as a policy file holds it
    urgent_runs: bool = True  # unschedulable pods start a run within seconds; false: only the schedule does
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    workloads: tuple[WorkloadSpec, ...] = ()
    services: tuple[ServiceSpec, ...] = ()
    readings: tuple[ReadingSpec, ...] = ()
    history: History | None = None
    events: tuple[Happening, ...] = ()
    compare: tuple[int, ...] = (5, 10)  # fixed fleets of so many On-Demand workers
    expect: Expect = field(default_factory=Expect)

    @property
    def ends(self) -> datetime:
        return self.starts + self.lasts
