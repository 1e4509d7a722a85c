"""Pods, cut down to what is needed."""

from msgspec import Raw, field

from nodefleet.adapters.k8s.shapes import (
    NOTHING,
    Condition,
    LabelSelector,
    Meta,
    NodeSelector,
    Present,
    Shape,
)


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
    empty_dir: Present | None = None
    host_path: Present | None = None
    ephemeral: Present | None = None
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
    scheduling_gates: list[Present] | None = None
    termination_grace_period_seconds: int | None = None


class Waiting(Shape):
    reason: str | None = None


class RunState(Shape):
    waiting: Waiting | None = None


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
