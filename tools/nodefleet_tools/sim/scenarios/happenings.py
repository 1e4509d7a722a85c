"""What happens to the cluster during a scenario, beside its load. How each is done in a world is in `staging`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TypeAlias

from nodefleet.model.inventory import Market


class Part(Enum):
    """What can be away."""

    EC2 = "ec2"
    KUBERNETES = "kubernetes"
    PROMETHEUS = "prometheus"
    DYNAMODB = "dynamodb"
    S3 = "s3"


class When(Enum):
    """An event waits for this from its time on."""

    A_DRAIN_BEGINS = "a-drain-begins"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotInterruption:
    """EC2 takes Spot workers, with its warning of two minutes."""

    at: str
    workers: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityMissing:
    """EC2 has none of these to give; what is left out means all of them."""

    at: str
    lasting: timedelta
    type: str | None = None
    zone: str | None = None
    market: Market | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAway:
    """A part does not answer."""

    at: str
    lasting: timedelta
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetTightened:
    """For a while a workload's budget allows no more than this to be away."""

    at: str
    lasting: timedelta
    workload: str
    max_unavailable: str = "0"
    when: When | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadScaled:
    """An operator sets a workload's replicas."""

    at: str
    workload: str
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFails:
    """The kubelet of a worker falls silent, for a while or for good."""

    at: str
    lasting: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinsFail:
    """New instances run, but their agents do not get to the cluster."""

    at: str
    lasting: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonScales:
    """nodefleet scale POOL N --for …"""

    at: str
    nodes: int
    lasting: timedelta
    because: str
    pool: str = "default"
    at_least: bool = False  # only a floor, as of `nodefleet failover`


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPauses:
    """nodefleet pause --for …"""

    at: str
    lasting: timedelta
    because: str
    scale_down_only: bool = False


Happening: TypeAlias = (
    SpotInterruption
    | CapacityMissing
    | PartAway
    | BudgetTightened
    | WorkloadScaled
    | WorkerFails
    | JoinsFail
    | PersonScales
    | PersonPauses
)

# What a fleet without an autoscaler goes through as well: On-Demand workers are not interrupted, no one drains them,
# and the comparison is about the load, not about luck with hardware.
OF_THE_LOAD = (WorkloadScaled,)

# The port that each serves in the world, and what operators call it.
PARTS: Mapping[Part, tuple[str, str]] = {
    Part.EC2: ("cloud", "EC2"),
    Part.KUBERNETES: ("cluster", "The Kubernetes API"),
    Part.PROMETHEUS: ("gauges", "Prometheus"),
    Part.DYNAMODB: ("store", "DynamoDB"),
    Part.S3: ("archive", "S3"),
}
