"""Interfaces of the components: what each needs, and what it gives to the others. No component uses the resources of
another one directly.

Values that AWS decides are Outputs. IAM statements are made of `Facts`, in which everything is plain text: a component
with a role awaits the Outputs and calls the pure function with their values.

    network ──► NetworkFacts ─┬─► Master(name, MasterNeeds)    .gives: MasterFacts
    state   ──► StateFacts   ─┤
    secrets ──► SecretRef …  ─┴─► Workers(name, WorkersNeeds)  .gives: WorkersFacts ──► records, roles
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from nodefleet_infra.config import Cluster, K3s
from nodefleet_infra.names import Names
from nodefleet_infra.role_arns import ClusterArns, FleetArns, Place

__all__ = ["ClusterArns", "FleetArns", "Place"]  # beside what is defined here

Text = pulumi.Output[str]


# ── network ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGroups:
    """A cluster's security groups, by id."""

    master: Text
    workers: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    vpc: Text
    workers: Mapping[str, Text]  # zone → subnet of master and workers
    functions: tuple[Text, ...]  # subnets of the functions
    functions_group: Text
    groups: Mapping[str, ClusterGroups]  # by cluster id
    dualstack: tuple[str, ...]  # services that the functions call by their dual-stack address
    ready: tuple[pulumi.Resource, ...]  # routes: without them an instance boots into the void
    reachable: Mapping[str, Text] = field(default_factory=dict)  # zone → subnet that the internet can reach
    public: bool = True  # master and workers get out by addresses of their own; false: by NAT


# ── state ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    name: str
    arn: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecrets:
    """Made empty by the stack and filled by the master, so that no secret passes through Pulumi."""

    api: SecretRef  # {"server", "token", "ca"}: the autoscaler's login
    agent_token: SecretRef  # what workers join with
    server_token: SecretRef  # what a replaced master opens its snapshots with


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRef:
    name: Text
    arn: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    table: Text  # its name
    table_arn: Text
    stream_arn: Text
    looks: BucketRef  # what runs saw, 30 days
    backups: BucketRef  # the masters' etcd snapshots, under backup_prefix(cluster)
    secrets: Mapping[str, ClusterSecrets]  # by cluster id
    slack: SecretRef


def backup_prefix(cluster: str) -> str:
    """Where a cluster's snapshots lie in the bucket."""
    return f"etcd/{cluster}"


# ── instances ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningTopic:
    """Where Prometheus tells of the policy's readings and of the master, and where if it cannot wait."""

    arn: Text
    critical: Text  # ARN
    key: Text | None  # ARN of what encrypts them; none: no key of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterNeeds:
    """Of one cluster."""

    names: Names
    place: Place
    cluster: Cluster
    zone: str
    subnet: Text  # in that zone
    group: Text
    secrets: ClusterSecrets
    backups: BucketRef
    wake_topic: Text  # ARN; Alertmanager publishes there, with the message attribute `cluster`
    warnings: WarningTopic | None  # none: no notifications
    ready: tuple[pulumi.Resource, ...]
    public: bool = True  # it needs an address of its own to get out
    production: bool = False  # it is neither deleted nor replaced unless the configuration says so
    watches_utilisation: bool = False  # Prometheus watches CPU and memory, and not CloudWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterFacts:
    address: Text  # 10.20.0.10: stays when the instance is replaced
    api_server: Text  # https://10.20.0.10:6443
    prometheus: Text  # http://10.20.0.10:9090
    instance: Text  # its id
    role_arn: Text
    release: pulumi.Output[K3s]  # of K3s, that the cluster is at


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersNeeds:
    """Of one cluster; its pools are in `cluster.pools`."""

    names: Names
    place: Place
    cluster: Cluster
    group: Text
    api_server: Text
    agent_token: SecretRef
    release: pulumi.Output[K3s]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRef:
    id: Text
    arn: Text
    version: Text  # a number, never $Latest: a launch that is sent again must be the same launch


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersFacts:
    templates: Mapping[str, TemplateRef]  # by pool
    role_arn: Text  # what the autoscaler may pass


# ── roles ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the functions' statements are made of."""

    place: Place
    table: str
    stream: str
    looks: str  # the bucket's ARN
    slack_secret: str
    queues: Mapping[str, str]  # function → the dead-letter queue that it sends to
    events: str  # the queue with what EC2 says
    log_groups: Mapping[str, str]  # function → its log group's ARN
    clusters: tuple[ClusterArns, ...]
    fleet: FleetArns | None = None  # none: the clusters above, each by its own parts
