"""Everything one iteration saw. With the memory and the policy it decides alone: the same iteration decides the
same."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from operator import add
from typing import TypeAlias

from nodefleet.model.inventory import Instance, InstanceType, Node, Notice
from nodefleet.model.operations import Operation
from nodefleet.model.serialization import ValidationError, from_plain, to_plain
from nodefleet.model.workload import Budget, Pod

# ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# What was measured, and when. A value that could not be had is Missing, never zero.


@dataclass(frozen=True, slots=True)
class Reading:
    value: float
    at: datetime  # when it was sampled, not when we asked


@dataclass(frozen=True, slots=True)
class Missing:
    cause: str
    # The source answered, and had nothing to show at this time: often the idle state. None: it could not be asked.
    empty_at: datetime | None = None


Sample: TypeAlias = Reading | Missing

NOT_ASKED = Missing("not asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolReadings:
    """What was measured of one pool's workers."""

    cpu: Sample = NOT_ASKED  # percent, mean over the pool's workers
    memory: Sample = NOT_ASKED  # percent, mean over the pool's workers
    nodes: Sample = NOT_ASKED  # how many workers the measuring side sees
    custom: Mapping[str, Sample] = field(default_factory=dict)  # by the name the policy gives the reading
    load: tuple[Reading, ...] = ()  # busy workers minute by minute, oldest first: asked for by `strategy: adaptive`
    idle: Mapping[str, float] = field(default_factory=dict)  # CPU idle percent by node name; orders who leaves first


NOTHING_READ = PoolReadings()


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Sums of floats that are the same on every version of Python, so that a decision replays to the same result.
#
# From 3.12 on `sum` compensates rounding errors and 3.11 does not: the last digit differs, and with it, now and then, a
# choice between nodes that are equally good.


def add_up(values: Iterable[float]) -> float:
    """From left to right, each sum rounded."""
    return reduce(add, values, 0.0)


# ── one iteration ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the Kubernetes API said."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] | None = None  # none: only a count of unschedulable pods is known
    unschedulable: Mapping[str, int] = field(default_factory=dict)  # by pool, when there are no pod objects
    budgets: tuple[Budget, ...] = ()
    daemon_sets: tuple[Pod, ...] = ()  # a pod of each DaemonSet's template: new nodes get one, also if no node has any


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTarget:
    """Where and from what template a pool's workers are launched."""

    pool: str = "default"
    template: str = ""
    template_version: str = "1"
    subnets: Mapping[str, str] = field(default_factory=dict)  # zone → subnet
    disk_gb: int = 0  # the root volume that the template asks for; 0: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveWindow:
    """A schedule window that is open now; cron and time zones are worked out at the edge."""

    pool: str = "default"
    name: str
    until: datetime
    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """An operator stopped scaling; min is still kept."""

    pool: str | None = None  # none: all pools
    by: str = "someone"
    reason: str = ""
    until: datetime | None = None
    scale_down_only: bool = False  # the pools may grow; nothing is removed of our own accord


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An operator asked for a size."""

    pool: str = "default"
    nodes: int
    by: str = "someone"
    reason: str = ""
    until: datetime
    at_least: bool = False  # only a floor: the pool may have more
    origin: str = ""  # a failover: the cluster whose demand moves
    moved: int = 0  # … and how many of `nodes` are for that demand


AUTOSCALER = "node-fleet"  # the `by` of a floor that a standby ordered itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """An operator hands a worker that no pool of the policy owns to a pool."""

    instance: str
    pool: str
    at: datetime
    by: str = "someone"
    reason: str = ""
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """An operator has a worker drained and removed. It says whose worker is meant, so that a command for one that no
    pool owned never hits it once a pool has it."""

    instance: str
    pool: str = ""  # whose worker it is; empty: no pool of the policy owns it
    at: datetime
    by: str = "someone"
    reason: str = ""
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Recycle:
    """An operator has a pool's worker replaced by a new one."""

    instance: str
    at: datetime
    by: str = "someone"
    reason: str = ""
    until: datetime


Command: TypeAlias = Pause | Scale | Adopt | Drain | Recycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    at: datetime
    cluster: str = "default"
    run: str = "0"  # the fencing number of this run and the number of its iteration: they make operation ids unique
    instances: tuple[Instance, ...] | Missing = ()
    kubernetes: ClusterView | Missing = field(default_factory=ClusterView)
    readings: Mapping[str, PoolReadings] = field(default_factory=dict)  # by pool
    operations: tuple[Operation, ...] = ()  # the open ones
    notices: tuple[Notice, ...] = ()
    commands: tuple[Command, ...] = ()
    windows: tuple[ActiveWindow, ...] = ()
    targets: tuple[LaunchTarget, ...] = ()
    catalog: tuple[InstanceType, ...] = ()
    utc_offset: timedelta = timedelta(0)  # of the policy's time zone, now
    hold: str = ""  # why the fleet is held: the policy cannot be followed as it was written; empty: it can

    @property
    def offers(self) -> Mapping[str, InstanceType]:
        """The catalogue by type."""
        return {offer.name: offer for offer in self.catalog}

    @property
    def unschedulable_pods(self) -> int:
        match self.kubernetes:
            case ClusterView(pods=None) as view:
                return sum(view.unschedulable.values())
            case ClusterView(pods=pods):
                return sum(pod.unschedulable_since is not None for pod in pods or ())
            case _:
                return 0

    def target(self, pool: str) -> LaunchTarget | None:
        """Where the pool's nodes are launched; none if the deployment does not say."""
        return next((each for each in self.targets if each.pool == pool), None)


# ── deployment ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Where a cluster's parts are: what the deployment tells the functions, and nothing that is secret.


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPrices:
    """What AWS said instance types cost, USD an hour by type. An operator has it asked (`nodefleet prices`)."""

    region: str
    at: datetime
    on_demand: Mapping[str, float] = field(default_factory=dict)
    spot: Mapping[str, float] = field(default_factory=dict)  # counts while EC2 says none


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningResult:
    """What `nodefleet tune` found on a pool's own load: settings, and what they would have saved against classic."""

    pool: str
    at: datetime
    settings: str  # of `adaptive`, as a policy has them
    days: int  # that were scored, each with what the days before it chose
    budget_pct: float  # of violations
    violation_pct: float
    saving_pct: float  # of node-hours
    saving_low_pct: float  # nine of ten draws of days lie between these
    saving_high_pct: float
    within_budget_pct: float  # of the draws


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetParts:
    """What a deployment for many clusters has for all of them: an operator who adds one needs to know it."""

    name: str  # the value of the fleet tag, and what its schedules' names begin with
    prefix: str = ""  # what the ids of its clusters begin with: its role acts on no others
    queue: str  # URL of the FIFO queue that runs go through
    queue_arn: str
    schedule_group: str
    schedule_role: str  # ARN: what lets a schedule send to the queue
    every: timedelta
    reconcile_function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredCluster:
    """A cluster that a deployment for many of them serves."""

    name: str
    region: str = ""  # of its instances; empty: the functions' own
    paused: bool = False  # it has no ticks, and urgent runs are dropped; interrupted nodes are drained all the same
    by: str = "someone"
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    cluster: str
    region: str = ""  # of its instances, queues and metrics; empty: the functions' own
    api_server: str = ""  # https://10.0.1.10:6443; empty: as the secret says
    api_secret: str = ""  # Secrets Manager: {"server": …, "token": …, "ca": …}; empty: <prefix>/<cluster>/kubernetes
    prometheus: str = ""  # http://10.0.1.10:9090
    # Secrets Manager: {"username": …, "password": …} or {"token": …}; empty: what api_secret says
    prometheus_secret: str = ""
    targets: tuple[LaunchTarget, ...] = ()  # one for each pool
    prices: Mapping[str, float] = field(default_factory=dict)  # USD/h On-Demand by type, in this region
    # What the autoscaler itself costs, USD a month by part: alarms, metrics, … Empty: not known for this region.
    own_usd: Mapping[str, float] = field(default_factory=dict)
    reconcile_function: str = ""  # its name or ARN, so that an operator's order can start a run at once
    dashboard: str = ""  # links for operators
    logs: str = ""


# ── removals that began without the table ────────────────────────────────────────────────────────────────────────────


_EMERGENCY = "emergency"


_SEPARATOR = "/"


def emergency(notice: Notice) -> str:
    """The id of a removal that began without the table. It carries the notice, so that the node itself tells why it
    leaves even if nothing could be recorded."""
    return _SEPARATOR.join((_EMERGENCY, notice.instance, notice.kind.value, to_plain(notice.at)))


def notice_in(removal: str) -> Notice | None:
    """The notice that such an id carries; none for every other removal."""
    parts = removal.split(_SEPARATOR)
    match parts:
        case [first, instance, kind, at] if first == _EMERGENCY and instance:
            try:
                return from_plain(Notice, {"instance": instance, "kind": kind, "at": at})
            except ValidationError:
                return None
        case _:
            return None
