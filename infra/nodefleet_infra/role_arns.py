"""Plain facts of IAM statements, for stacks and for `nodefleet init`, which has no Pulumi."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the stack is: all that ARNs are made of."""

    partition: str  # "aws"
    region: str
    account: str

    @property
    def suffix(self) -> str:
        """What the addresses of its services end with."""
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    @property
    def registry(self) -> str:
        """The account's own, for images."""
        return f"{self.account}.dkr.ecr.{self.region}.{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArns:
    """What IAM says of one cluster."""

    cluster: str  # its id, the value of the cluster tag
    api_secret: str
    templates: tuple[str, ...]
    worker_role: str
    subnets: tuple[str, ...]  # where workers may be launched
    groups: tuple[str, ...]  # the workers' security groups
    types: tuple[str, ...]  # instance types that may be launched; * and ? stand for any
    disk_gb: int  # the largest disk of its pools
    queues: tuple[str, ...] = ()  # SQS queues that the policy reads
    metrics: bool = False  # whether the policy reads CloudWatch
    source_secrets: tuple[str, ...] = ()  # logins of other sources that the policy reads
    disk_key: str = ""  # a customer-managed key for the workers' disks


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetArns:
    """What IAM says of all clusters of a deployment for many: by tags and beginnings of names, and never one by one."""

    name: str  # the value of the fleet tag
    prefix: str  # of the clusters' ids
    secrets: str  # what the names of their secrets begin with
    queue: str  # ARN of the queue that runs go through
    regions: tuple[str, ...]
    worker_roles: tuple[str, ...]  # names; * stands for any
    types: tuple[str, ...]
    disk_gb: int
