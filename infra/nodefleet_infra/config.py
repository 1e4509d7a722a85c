"""The stack's configuration: what stands in Pulumi.<stack>.yaml, with its defaults and the reason for each.

How a pool scales, what it buys and how its nodes are labelled is its policy (docs/policy.md), which stands under the
cluster as it would in a file of its own. Here is what a policy does not know: networks, instances, schedules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from nodefleet.model.inventory import Taint
from nodefleet.model.names import Metric
from nodefleet.policy.cluster import Policy

Arch: TypeAlias = Literal["x86_64", "arm64"]


# ── network ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpc:
    """A network that is there already. Only security groups, and the endpoints that it lacks, are added to it."""

    vpc: str  # vpc-…
    workers: Mapping[str, str]  # zone → subnet of master and workers, with a way to the internet
    functions: tuple[str, ...]  # subnets of the functions
    public: bool = True  # the way of master and workers is an internet gateway; false: NAT
    ipv6: bool = True  # the functions' subnets have IPv6 and a way out; without it they need NAT
    route_tables: tuple[str, ...] = ()  # of the functions' subnets, to give DynamoDB and S3 their free endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    zones: tuple[str, ...] = ()  # two or more; named, so that none moves when AWS adds one
    cidr: str = "10.20.0.0/16"  # beside K3s's own 10.42.0.0/16 and 10.43.0.0/16
    workers: Literal["public", "private"] = (
        "public"  # public: an address each, closed groups; private: NAT, more expensive
    )
    nat: Literal["one", "each-zone"] = "one"  # for private workers: cheaper, or without a zone in common
    existing: ExistingVpc | None = None


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """MB of each function. CPU comes with memory, so this is its speed too."""

    reconcile: int = 512
    interruption: int = 512
    notify: int = 256
    report: int = 512

    def of(self, function: str) -> int:
        size: int = getattr(self, function)
        return size


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """How many of each function may run at once, kept free for it. None: as many as the account has left; new accounts
    refuse to reserve any, and the lease does its work."""

    reconcile: int | None = None
    interruption: int | None = None
    notify: int | None = None
    report: int | None = None

    def of(self, function: str) -> int | None:
        reserved: int | None = getattr(self, function)
        return reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """Hours in which looking less often is enough."""

    every: timedelta = timedelta(minutes=5)
    from_hour: int = 22
    until_hour: int = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    every: timedelta = timedelta(minutes=2)
    night: Night | None = None
    time_zone: str = "UTC"  # of the night and of the report
    report_hour: int = 7  # on Mondays
    daily_hour: int | None = None  # of a line about yesterday; none: no such line


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """One deployment for many clusters: a registry in the table, a queue that runs go through (docs/clusters.md)."""

    max_concurrency: int = 50  # runs at once, of different clusters; each takes a slot for as long as it runs
    regions: tuple[str, ...] = ()  # of clusters elsewhere, beside the stack's own: their EC2 events are brought here
    worker_roles: tuple[str, ...] = ()  # names of roles that adopted clusters' workers have; * stands for any
    disk_gb: int = 100  # the largest disk that a worker may have


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerConfig:
    memory: Memory = field(default_factory=Memory)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    metrics: tuple[Metric, ...] = ()  # beyond the default ones; each costs about 0.30 USD a month and cluster
    # true: no dashboard, only the metrics that alarms need, CPU and memory watched by Prometheus, no key of our own for
    # the alarm topics; every alarm stays
    lean: bool = False
    log_days: int = 30
    reserved_concurrency: Concurrency = field(default_factory=Concurrency)
    launchable_types: tuple[str, ...] = ()  # beside those of the policies below; * and ? stand for any: m7i.*
    fleet: FleetConfig | None = None  # none: the stack's own clusters, each with a schedule that starts its run
    enabled: bool = True  # false: schedules off; what runs in the cluster goes on running


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesConfig:
    slack: bool = True  # the webhook lies in a secret: see docs/deploy.md
    emails: tuple[str, ...] = ()  # for critical alarms; each must confirm the subscription
    approvers: tuple[str, ...] = ()  # ids of Slack users (U…) whose ✅ drains unowned workers; none: nothing is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetConfig:
    """An AWS Budget with a mail at 80 % of it spent, and when the forecast is beyond it."""

    monthly_usd: float
    emails: tuple[str, ...] = ()  # empty: those of messages.emails
    whole_account: bool = True  # false: what is tagged with this stack, once that tag is activated for billing


# ── clusters ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class K3s:
    """A release, pinned."""

    version: str  # v1.34.2+k3s1
    sha256: Mapping[str, str]  # of the binary, by architecture: x86_64, arm64


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterConfig:
    type: str = "t3.medium"
    disk_gb: int = 40  # system, images and etcd; Prometheus alone may take 20
    zone: str = ""  # empty: the first
    image: str = ""  # an AMI; empty: the newest Amazon Linux 2023
    snapshot_cron: str = "0 */6 * * *"  # etcd, to S3
    snapshots: int = 28  # how many are kept: a week
    # Installed every day. A new kernel counts from the next start: by hand, or with a minute's notice.
    updates: Literal["off", "security", "security-and-reboot"] = "security"
    # Which node the scheduler prefers: the emptiest (Kubernetes' default), or the fullest that fits, for fewer nodes.
    scheduling: Literal["spread", "pack"] = "spread"
    restore: str = "newest"  # what a new instance takes up: the newest snapshot, `nothing`, or one by its name
    allow_replacement: bool = False  # true: `up` may replace a production stack's server; set it for that one time
    grafana: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """A pool's instances, beside what its policy says of them."""

    disk_gb: int = 20
    image: str = ""  # an AMI; empty: the newest Amazon Linux 2023


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    """A Network Load Balancer in front of Traefik."""

    cidrs: tuple[str, ...] = ("0.0.0.0/0",)  # who may come; TLS and logins are Traefik's and the services' to ask for
    internal: bool = False  # true: an address inside the network only


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    name: str
    policy: Any = field(default_factory=dict)  # what a policy file holds
    master: MasterConfig = field(default_factory=MasterConfig)
    machines: Mapping[str, Machines] = field(default_factory=dict)  # by pool; a pool that is not named has the defaults
    disk_key: str = ""  # ARN of a KMS key for the disks of server and workers; empty: the account's own for EBS
    k3s: K3s | None = None  # none: the release that this version of node-fleet was tested with
    ingress: IngressConfig | None = None  # none: the cluster is not reachable from outside
    persistent_volumes: bool = False  # true: the EBS CSI driver and a StorageClass `ebs`; its rights go to the server


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """Everything that may stand under `node-fleet:` in Pulumi.<stack>.yaml, but the webhook, which is a secret."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    clusters: tuple[ClusterConfig, ...] = ()
    autoscaler: AutoscalerConfig = field(default_factory=AutoscalerConfig)
    messages: MessagesConfig = field(default_factory=MessagesConfig)
    budget: BudgetConfig | None = None
    production: bool = False  # true: table, buckets, secrets and servers are protected; a destroy is refused
    prices: Mapping[str, float] = field(default_factory=dict)  # USD/h On-Demand by type, in this region
    tags: Mapping[str, str] = field(default_factory=dict)  # for every resource, beside our own


# ── what the program works with ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool's instances as its policy and its configuration want them."""

    name: str
    arch: Arch
    types: tuple[str, ...]
    labels: Mapping[str, str]  # beside our own
    taints: tuple[Taint, ...]
    disk_gb: int
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    id: str  # by which tags, table, secrets and metrics know it: dev-shop
    name: str  # as the configuration says: shop
    master: MasterConfig
    master_arch: Arch
    k3s: K3s | None
    disk_key: str
    ingress: IngressConfig | None
    persistent_volumes: bool
    pools: tuple[Pool, ...]
    policy: Policy
    policy_data: Any  # as the stack's file has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A configuration in which everything fits together."""

    project: str
    name: str
    region: str
    config: StackConfig
    clusters: tuple[Cluster, ...]

    def cluster_ids(self) -> tuple[str, ...]:
        return tuple(cluster.id for cluster in self.clusters)
