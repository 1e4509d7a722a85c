"""Instances, nodes, notices and instance types as EC2 and Kubernetes report them, and the resources they have."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

# ── resources and taints ──────────────────────────────────────────────────────────────────────────────────────────────
# How much a node has and a pod asks for, in the units Kubernetes schedules by; and which pods a node keeps off.


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    cpu: int = 0  # millicores
    memory: int = 0  # bytes
    storage: int = 0  # bytes of ephemeral storage
    pods: int = 0  # how many pods a node may hold; 0 in a request
    extended: Mapping[str, int] = field(default_factory=dict)  # nvidia.com/gpu, hugepages-2Mi, …

    def __add__(self, other: "Resources") -> "Resources":
        return self._combine(other, int.__add__)

    def __sub__(self, other: "Resources") -> "Resources":
        return self._combine(other, int.__sub__)

    def at_least(self, other: "Resources") -> "Resources":
        """The larger of the two, resource by resource."""
        return self._combine(other, max)

    def with_devices(self, offered: "Resources") -> "Resources":
        """With the extended resources of a node's type that its device plugins do not offer yet."""
        missing = {name: count for name, count in offered.extended.items() if not self.extended.get(name)}
        return replace(self, extended={**self.extended, **missing}) if missing else self

    def _combine(self, other: "Resources", combine: Callable[[int, int], int]) -> "Resources":
        extended: dict[str, int] = {}
        if self.extended or other.extended:
            names = sorted({*self.extended, *other.extended})
            extended = {name: combine(self.extended.get(name, 0), other.extended.get(name, 0)) for name in names}
        return Resources(
            cpu=combine(self.cpu, other.cpu),
            memory=combine(self.memory, other.memory),
            storage=combine(self.storage, other.storage),
            pods=combine(self.pods, other.pods),
            extended=extended,
        )


NOTHING = Resources()


def total(parts: Iterable[Resources]) -> Resources:
    result = NOTHING
    for part in parts:
        result += part
    return result


class Effect(Enum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: Effect = Effect.NO_SCHEDULE


# ── instances and nodes ──────────────────────────────────────────────────────────────────────────────────────────────


class Market(Enum):
    SPOT = "spot"
    ON_DEMAND = "on-demand"


class InstanceState(Enum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"


# Kubernetes' own, and the prefixes by which cluster-autoscaler knows the taints of agents that start on a new node.
_STARTUP_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.cloudprovider.kubernetes.io/uninitialized"})
_STARTUP_PREFIXES = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An EC2 instance that carries this cluster's tags."""

    id: str
    pool: str = "default"
    state: InstanceState = InstanceState.RUNNING
    zone: str
    type: str = "t3.small"
    market: Market = Market.ON_DEMAND
    launched_at: datetime
    operation: str = ""  # the launch that made it
    worker: bool = True  # false for the control plane: never touched
    failed: bool = False  # we marked it as failed to join and keep it for an operator
    template: str = ""  # the launch template that it was launched from, by EC2's own tag; empty: not known
    template_version: str = ""
    warm: bool = False  # stopped by us, and kept to be started again; means nothing while it runs
    created_at: datetime | None = None  # when it was first launched; `launched_at` is its last start

    @property
    def first_launched_at(self) -> datetime:
        return self.created_at or self.launched_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Kubernetes node. Without a pool it is not ours: it can hold pods, and is never touched."""

    name: str
    pool: str | None = "default"
    instance: str = ""  # from the provider id
    control_plane: bool = False
    ready: bool = True
    ready_changed_at: datetime | None = None  # since when it is ready, or not
    created_at: datetime | None = None
    heartbeat_at: datetime | None = None  # by its kubelet's Lease and clock; none: not asked, or not known
    pressures: tuple[str, ...] = ()  # MemoryPressure, DiskPressure, PIDPressure, where they are True
    pressed_since: datetime | None = None
    cordoned: bool = False
    removal: str = ""  # our own removal's id, from the taint we set; empty if the cordon is an operator's
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    attach_limits: Mapping[str, int] = field(default_factory=dict)  # volumes by CSI driver; a missing one has no limit

    @property
    def starting(self) -> bool:
        """It bears a taint that goes away by itself when the node has come up, some moments after it is Ready."""
        return any(taint.key in _STARTUP_TAINTS or taint.key.startswith(_STARTUP_PREFIXES) for taint in self.taints)


class NoticeKind(Enum):
    SPOT_INTERRUPTION = "spot-interruption"
    REBALANCE = "rebalance"
    SCHEDULED_CHANGE = "scheduled-change"
    STATE_CHANGE = "state-change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """EC2 said that it takes an instance, or may; or that it does not after all."""

    instance: str
    kind: NoticeKind
    at: datetime  # Spot and rebalance: when it was said; a scheduled change: when it begins
    told_at: datetime | None = None  # a scheduled change: when it was said, which may be weeks before
    event: str = ""  # … and the event that says it: a later word on the same event replaces an earlier one
    withdrawn: bool = False  # … the event is closed, or no longer concerns this instance

    @property
    def reason(self) -> str:
        """In words, with the date of what is not said to happen at once."""
        match self.kind:
            case NoticeKind.SCHEDULED_CHANGE:
                return f"EC2 has a scheduled change on {self.at:%Y-%m-%d at %H:%M} UTC"
            case NoticeKind.REBALANCE:
                return f"EC2 recommends to move off it, since {self.at:%H:%M:%S}"
            case _:
                return f"EC2 takes it: {self.kind.value} at {self.at:%H:%M:%S}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    name: str
    resources: Resources  # what the type offers before the node's own reserve, GPUs and accelerators included
    architecture: str = ""  # amd64 or arm64, as the kubelet labels it; empty: by the type's name
    local_disk_gb: int = 0  # disks of the instance itself, which end with it
    hourly_usd: float | None = None  # On-Demand
    spot_usd: float | None = None  # what Spot costs now, on the mean over zones


def price_of(name: str, market: Market | None, catalog: Mapping[str, InstanceType]) -> float | None:
    """USD an hour. Spot without a known price counts at the On-Demand price, which Spot does not exceed."""
    kind = catalog.get(name)
    if kind is None:
        return None
    return kind.spot_usd if market is Market.SPOT and kind.spot_usd is not None else kind.hourly_usd


# ── bundled list prices ──────────────────────────────────────────────────────────────────────────────────────────────
# On-Demand list prices of 2025 for Linux with shared tenancy, in US dollars per hour, where a deployment states none.
# A deployment's own prices come first, and no other region is guessed from this one.

LIST_PRICES_REGION = "us-east-1"
LIST_PRICES_YEAR = 2025

LIST_PRICES_USD = {
    "t2.nano": 0.0058,
    "t2.micro": 0.0116,
    "t2.small": 0.023,
    "t2.medium": 0.0464,
    "t2.large": 0.0928,
    "t2.xlarge": 0.1856,
    "t2.2xlarge": 0.3712,
    "t3.nano": 0.0052,
    "t3.micro": 0.0104,
    "t3.small": 0.0208,
    "t3.medium": 0.0416,
    "t3.large": 0.0832,
    "t3.xlarge": 0.1664,
    "t3.2xlarge": 0.3328,
    "t3a.nano": 0.0047,
    "t3a.micro": 0.0094,
    "t3a.small": 0.0188,
    "t3a.medium": 0.0376,
    "t3a.large": 0.0752,
    "t3a.xlarge": 0.1504,
    "t3a.2xlarge": 0.3008,
    "t4g.nano": 0.0042,
    "t4g.micro": 0.0084,
    "t4g.small": 0.0168,
    "t4g.medium": 0.0336,
    "t4g.large": 0.0672,
    "t4g.xlarge": 0.1344,
    "t4g.2xlarge": 0.2688,
    "m5.large": 0.096,
    "m5.xlarge": 0.192,
    "m5.2xlarge": 0.384,
    "m6i.large": 0.096,
    "m6i.xlarge": 0.192,
    "m6i.2xlarge": 0.384,
    "m7i.large": 0.1008,
    "m7i.xlarge": 0.2016,
    "m7i.2xlarge": 0.4032,
    "c5.large": 0.085,
    "c5.xlarge": 0.17,
    "c5.2xlarge": 0.34,
    "c6i.large": 0.085,
    "c6i.xlarge": 0.17,
    "c6i.2xlarge": 0.34,
}


def list_prices(region: str) -> dict[str, float]:
    """The bundled prices of a region: none of a region that the table does not hold."""
    return LIST_PRICES_USD if region == LIST_PRICES_REGION else {}
