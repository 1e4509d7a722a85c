"""Pods and budgets as the scheduler and the eviction rules see them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import Enum

from nodefleet.model.inventory import NOTHING, Effect, Resources

# ── quantities ────────────────────────────────────────────────────────────────────────────────────────────────────────
# How Kubernetes writes amounts of a resource.


_QUANTITY = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[A-Za-z]*)")
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}


def quantity(text: str) -> Decimal:
    """A Kubernetes quantity as a number: "500m" → 0.5, "2Gi" → 2147483648, "1e3" → 1000."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match["suffix"] not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity; write for example 500m, 2 or 1Gi")
    return Decimal(match["number"]) * _SUFFIXES[match["suffix"]]


# ── pods and budgets ─────────────────────────────────────────────────────────────────────────────────────────────────
# What runs on the workers: pods as the scheduler and the eviction rules see them, and their disruption budgets.


ZONE_LABEL = "topology.kubernetes.io/zone"
TYPE_LABEL = "node.kubernetes.io/instance-type"
HOST_LABEL = "kubernetes.io/hostname"

# A pod's or node's own word on whether it may be moved. Ours first, then the common ones of other autoscalers.
SAFE_TO_EVICT = ("node-fleet.io/safe-to-evict", "cluster-autoscaler.kubernetes.io/safe-to-evict")
DO_NOT_DISRUPT = ("node-fleet.io/do-not-disrupt", "karpenter.sh/do-not-disrupt")
DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"  # "true": as good as a DaemonSet's pod
SCALE_DOWN_DISABLED = (
    "node-fleet.io/scale-down-disabled",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled",
    "karpenter.sh/do-not-disrupt",
)


class Operator(Enum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line of a selector: the label `key` stands in relation `operator` to `values`."""

    key: str
    operator: Operator = Operator.IN
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A label selector; everything in it must hold. An empty one matches everything."""

    labels: Mapping[str, str] = field(default_factory=dict)
    expressions: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """One of several terms of a required node affinity: labels and fields (metadata.name) must both match."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    key: str = ""  # empty with `Exists` tolerates every taint
    operator: str = "Equal"  # Equal or Exists
    value: str = ""
    effect: Effect | None = None  # none tolerates every effect


EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  # what an unset hostIP means to the scheduler; nothing listens here


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    port: int
    protocol: str = "TCP"
    address: str = EVERY_ADDRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """A required (anti-)affinity to pods that match, within one topology domain."""

    topology: str  # a node label; pods count as together when their nodes have the same value
    selector: Selector = field(default_factory=Selector)
    namespaces: tuple[str, ...] = ()  # empty means the pod's own
    everywhere: bool = False  # an empty namespaceSelector: all namespaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A topology spread constraint with DoNotSchedule."""

    topology: str
    selector: Selector
    max_skew: int = 1
    min_domains: int = 1
    honors_affinity: bool = True  # nodeAffinityPolicy: nodes that the pod's own selector rules out are no domains
    honors_taints: bool = False  # nodeTaintsPolicy: nor are those whose taints it does not tolerate


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Where a pod may run, beyond what it asks for. Pods of one template share one."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeTerm, ...] | None = None  # required node affinity: one of them must match; () matches nothing
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()


ANYWHERE = Rules()


class VolumeKind(Enum):
    EMPTY_DIR = "empty-dir"
    HOST_PATH = "host-path"
    LOCAL = "local"  # a local PersistentVolume, K3s local-path among them: its data is on one node
    CLAIM = "claim"  # a volume that can follow the pod, at most within its zones


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    kind: VolumeKind
    name: str = ""
    zones: tuple[str, ...] = ()  # where the volume is; empty means anywhere
    node: str | None = None  # a local volume's only node
    unusable: str = ""  # why no node, a new one included, gets the pod this volume; empty: one may
    driver: str = ""  # the CSI driver that attaches it, if nodes can attach only so many of its volumes
    handle: str = ""  # tells it from the driver's other volumes: pods that share it on a node need it attached once


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The controller of a pod."""

    kind: str  # ReplicaSet, StatefulSet, DaemonSet, Job, …
    name: str
    uid: str = ""
    replicas: int | None = None  # its .spec.replicas; none for kinds without a scale
    gone: bool = False  # the pod names it, but it no longer exists


class PodPhase(Enum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    namespace: str = "default"
    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)  # only those that speak about moving
    owner: Owner | None = None
    node: str | None = None
    phase: PodPhase = PodPhase.RUNNING
    ready: bool = True
    unschedulable_since: datetime | None = None  # PodScheduled=False with reason Unschedulable
    unschedulable_message: str = ""  # the scheduler's own words for it, cut to a length that fits into an alert
    created_at: datetime | None = None
    deleted_at: datetime | None = None  # when it was asked to go: deletionTimestamp minus its grace
    grace: timedelta = timedelta(seconds=30)
    priority: int = 0
    mirror: bool = False  # a static pod of the kubelet
    gated: bool = False  # has scheduling gates
    nominated: bool = False  # preemption is making room for it
    nominated_node: str = ""  # … on this node, which keeps that room for it; empty: not known
    crashes: int = 0  # restarts of a container that waits in CrashLoopBackOff
    requests: Resources = NOTHING
    rules: Rules = ANYWHERE
    volumes: tuple[Volume, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def is_daemon(self) -> bool:
        """It runs on every node, and ends with it."""
        of_daemon_set = self.owner is not None and self.owner.kind == "DaemonSet"
        return of_daemon_set or (bool(self.annotations) and self.annotations.get(DAEMON_POD) == "true")

    @property
    def movable(self) -> bool:
        """It takes part in a drain: not finished, and not bound to its node by nature."""
        return not (self.finished or self.mirror or self.is_daemon)

    def says(self, annotations: tuple[str, ...]) -> str | None:
        """The value of the first of these annotations that the pod carries."""
        return next((self.annotations[name] for name in annotations if name in self.annotations), None)


class UnhealthyPodPolicy(Enum):
    IF_HEALTHY_BUDGET = "IfHealthyBudget"
    ALWAYS_ALLOW = "AlwaysAllow"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """What the cluster's own controller computed last."""

    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    expected_pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget. Counts are written as Kubernetes writes them: "2" or "30%"."""

    namespace: str = "default"
    name: str
    selector: Selector | None = None  # none matches no pod; an empty one every pod of the namespace
    min_available: str | None = None
    max_unavailable: str | None = None
    unhealthy_policy: UnhealthyPodPolicy = UnhealthyPodPolicy.IF_HEALTHY_BUDGET
    status: BudgetStatus | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


# ── requests of a pod ────────────────────────────────────────────────────────────────────────────────────────────────
# What a pod asks for as a whole, counted as the Kubernetes scheduler counts it.
#
# Containers run side by side, so their requests add up. Ordinary init containers run one after another before them, so
# only the largest matters. Sidecars (init containers that keep running) add up with everything that starts after them.


_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    requests: Resources = NOTHING
    sidecar: bool = False  # an init container with restartPolicy Always


def resources_from(quantities: Mapping[str, str]) -> Resources:
    """Kubernetes quantities by resource name, in our units; parts of a unit count as a whole one."""
    amounts = {name: quantity(text) for name, text in quantities.items()}
    return Resources(
        cpu=_whole(amounts.pop("cpu", Decimal(0)) * 1000),
        memory=_whole(amounts.pop("memory", Decimal(0))),
        storage=_whole(amounts.pop("ephemeral-storage", Decimal(0))),
        pods=_whole(amounts.pop("pods", Decimal(0))),
        extended={name: _whole(amount) for name, amount in sorted(amounts.items())},
    )


def effective_requests(
    containers: Iterable[Container],
    init_containers: Iterable[Container] = (),
    overhead: Resources = NOTHING,
    pod_level: Resources = NOTHING,
) -> Resources:
    """What the scheduler reserves for a pod."""
    running = NOTHING
    for container in containers:
        running += container.requests
    sidecars, starting = NOTHING, NOTHING
    for container in init_containers:
        if container.sidecar:
            sidecars += container.requests
            starting = starting.at_least(sidecars)
        else:
            starting = starting.at_least(sidecars + container.requests)
    needed = (running + sidecars).at_least(starting)
    return _overridden(needed, pod_level) + overhead


def _overridden(needed: Resources, pod_level: Resources) -> Resources:
    """Pod-level CPU, memory and huge pages stand instead of the containers'; other resources have no pod level."""
    pages = {name: amount for name, amount in pod_level.extended.items() if name.startswith(_HUGE_PAGES)}
    return Resources(
        cpu=pod_level.cpu or needed.cpu,
        memory=pod_level.memory or needed.memory,
        storage=needed.storage,
        pods=needed.pods,
        extended={**needed.extended, **pages},
    )


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(rounding=ROUND_CEILING))
