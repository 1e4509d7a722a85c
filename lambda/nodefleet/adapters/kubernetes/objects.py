"""The API server's objects, cut down to what is needed: everything else is skipped while decoding."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# The API server's objects, cut down to what is needed: everything else is skipped while decoding.
#
# What is the same for all pods of a template is left as raw bytes: equal bytes mean equal content, so it is decoded
# once for thousands of pods. Times and lists may be null where Go has nothing to write.


NOTHING = Raw(b"null")
STRINGS = Decoder(dict[str, str] | None)  # labels, selectors, amounts


class Shape(Struct, rename="camel", gc=False):
    """Short-lived and free of cycles, so the garbage collector need not look at it."""


class Reference(Shape):
    """Who owns an object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class Meta(Shape):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Raw = NOTHING
    annotations: dict[str, str] | None = None
    owner_references: list[Reference] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> Reference | None:
        return next((owner for owner in self.owner_references or () if owner.controller), None)


def labels_of(meta: Meta) -> Mapping[str, str]:
    return STRINGS.decode(meta.labels) or {}


class PresentField(Shape):
    """Something is there; what is in it does not matter."""


class Condition(Shape):
    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


def condition(conditions: list[Condition] | None, type_: str) -> Condition | None:
    return next((each for each in conditions or () if each.type == type_), None)


# ── selectors ────────────────────────────────────────────────────────────────────────────────────────────────────


class LabelExpression(Shape):
    """One line of a selector."""

    key: str
    operator: str = "In"
    values: list[str] | None = None


class LabelSelector(Shape):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelExpression] | None = None


class NodeSelectorTerm(Shape):
    match_expressions: list[LabelExpression] | None = None
    match_fields: list[LabelExpression] | None = None


class NodeSelector(Shape):
    node_selector_terms: list[NodeSelectorTerm] | None = None


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


class TaintShape(Shape):
    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Shape):
    provider_id: str = field(default="", name="providerID")
    unschedulable: bool = False
    taints: list[TaintShape] | None = None


class NodeStatus(Shape):
    allocatable: dict[str, str] | None = None
    conditions: list[Condition] | None = None


class NodeShape(Shape):
    metadata: Meta
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class LeaseSpec(Shape):
    renew_time: datetime | None = None


class LeaseShape(Shape):
    """What a kubelet renews every ten seconds, under its node's name."""

    metadata: Meta
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class TaintedSpec(Shape):
    taints: list[dict[str, Any]] | None = None  # as they are: what we do not know of a taint must survive


class TaintedNode(Shape):
    """A node that is about to be written."""

    spec: TaintedSpec = field(default_factory=TaintedSpec)


# ── budgets, controllers, volumes, namespaces ────────────────────────────────────────────────────────────────────


class BudgetSpec(Shape):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetFigures(Shape):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class BudgetShape(Shape):
    metadata: Meta
    spec: BudgetSpec = field(default_factory=BudgetSpec)
    status: BudgetFigures | None = None


class ReplicaSpec(Shape):
    replicas: int | None = None


class ControllerShape(Shape):
    """A ReplicaSet, Deployment, StatefulSet, DaemonSet or ReplicationController."""

    metadata: Meta
    spec: ReplicaSpec = field(default_factory=ReplicaSpec)


class TemplateMeta(Shape):
    labels: Raw = NOTHING


class ClaimSpec(Shape):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None


class ClaimShape(Shape):
    metadata: Meta
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class ClassTopology(Shape):
    match_label_expressions: list[LabelExpression] | None = None  # a line here has no operator but In


class DriverLimit(Shape):
    count: int | None = None


class DriverShape(Shape):
    """A CSI driver on one node."""

    name: str
    allocatable: DriverLimit | None = None


class DriversSpec(Shape):
    drivers: list[DriverShape] | None = None


class DriversShape(Shape):
    """A CSINode: the drivers that have registered with the kubelet of the node of that name."""

    metadata: Meta
    spec: DriversSpec = field(default_factory=DriversSpec)


class ClassShape(Shape):
    """A StorageClass."""

    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[ClassTopology] | None = None


class VolumeAffinity(Shape):
    required: NodeSelector | None = None


class DriverVolume(Shape):
    driver: str = ""
    volume_handle: str = ""


class StoredSpec(Shape):
    storage_class_name: str = ""
    csi: DriverVolume | None = None
    claim_ref: PresentField | None = None
    local: PresentField | None = None
    host_path: PresentField | None = None
    node_affinity: VolumeAffinity | None = None


class StoredShape(Shape):
    """A PersistentVolume."""

    metadata: Meta
    spec: StoredSpec = field(default_factory=StoredSpec)


class NamespaceShape(Shape):
    metadata: Meta


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Pods, cut down to what is needed.


class Port(Shape):
    host_port: int | None = None
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class Needs(Shape):
    requests: Raw = NOTHING


class ContainerShape(Shape):
    name: str = ""
    resources: Needs = field(default_factory=Needs)
    ports: list[Port] | None = None
    restart_policy: str | None = None


class ClaimSource(Shape):
    claim_name: str


class VolumeShape(Shape):
    name: str
    empty_dir: PresentField | None = None
    host_path: PresentField | None = None
    ephemeral: PresentField | None = None
    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Shape):
    node_name: str = ""
    containers: list[ContainerShape] | None = None
    init_containers: list[ContainerShape] | None = None
    overhead: Raw = NOTHING
    resources: Needs = field(default_factory=Needs)
    node_selector: Raw = NOTHING
    affinity: Raw = NOTHING
    tolerations: Raw = NOTHING
    topology_spread_constraints: Raw = NOTHING
    volumes: list[VolumeShape] | None = None
    priority: int | None = None
    scheduling_gates: list[PresentField] | None = None
    termination_grace_period_seconds: int | None = None


class WaitingState(Shape):
    reason: str | None = None


class RunState(Shape):
    waiting: WaitingState | None = None


class ContainerState(Shape):
    """What a container has, while its spec says what it should have: a resize may be under way."""

    name: str = ""
    restart_count: int = 0
    state: RunState | None = None
    resources: Needs | None = None
    allocated_resources: Raw = NOTHING


class PodStatus(Shape):
    phase: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerState] | None = None
    init_container_statuses: list[ContainerState] | None = None
    nominated_node_name: str = ""


class PodShape(Shape):
    metadata: Meta
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplate(Shape):
    metadata: TemplateMeta = field(default_factory=TemplateMeta)
    spec: PodSpec = field(default_factory=PodSpec)


class DaemonSetSpec(Shape):
    template: PodTemplate = field(default_factory=PodTemplate)


class DaemonSetShape(Shape):
    """With what its pods are like: a new node gets one before there is any to look at."""

    metadata: Meta
    spec: DaemonSetSpec = field(default_factory=DaemonSetSpec)


# ── where a pod may run ──────────────────────────────────────────────────────────────────────────────────────────


class NodeAffinity(Shape):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(Shape):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class PodAffinity(Shape):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class Affinity(Shape):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TolerationShape(Shape):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SpreadShape(Shape):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
