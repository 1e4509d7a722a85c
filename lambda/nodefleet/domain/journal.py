"""What the loop itself keeps from look to look, beside the memory that deciding needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodefleet.domain.memory import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something that is so: when people last heard of it, and when it was last seen to be so."""

    told_at: datetime
    seen_at: datetime
    times: int = 0  # of a kind and pool: how many new alerts were sent since told_at


MONTH_HOURS = 730  # as AWS counts them


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUsage:
    """What one pool used and did within an hour. Sums, so that hours add up."""

    spot_seconds: float = 0.0  # of instances that run or start
    on_demand_seconds: float = 0.0
    usd: float = 0.0  # by the catalogue's prices
    unpriced_seconds: float = 0.0  # of instances whose price is not known
    types: Mapping[str, float] = field(default_factory=dict)  # instance seconds by type
    watched_seconds: float = 0.0  # how much of the hour was looked at
    cpu_seconds: float = 0.0  # utilisation (percent) × seconds; divided by cpu_known it is the mean
    cpu_known: float = 0.0  # seconds in which it was readable
    memory_seconds: float = 0.0
    memory_known: float = 0.0
    requested_cpu_seconds: float = 0.0  # percent of the ready nodes' allocatable CPU that pods asked for × seconds
    requested_memory_seconds: float = 0.0
    requested_known: float = 0.0
    most_nodes: int = 0
    fewest_nodes: int | None = None
    at_max_seconds: float = 0.0  # as large as max, whether or not more was wanted
    waiting_pod_seconds: float = 0.0  # unschedulable pods of the whole cluster × seconds: whose they are is not known
    scale_ups: int = 0
    scale_downs: int = 0
    interruptions: int = 0
    join_failures: int = 0
    drain_failures: int = 0
    no_capacity: int = 0  # counts alerts, and the same condition is alerted once
    market_swaps: int = 0  # On-Demand above its share that Spot took the place of


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One hour of the cluster."""

    hour: datetime  # when it begins, UTC
    last: datetime  # up to when it is counted
    pools: Mapping[str, PoolUsage] = field(default_factory=dict)
    own_usd: float = 0.0  # the autoscaler itself, beside the pools' machines, at the list prices of the deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    memory: Memory = field(default_factory=Memory)
    said: Mapping[str, Said] = field(default_factory=dict)  # what people have been told and is still so, by its key
    usage: Usage | None = None  # the hour that is running
    adopted_policy: str = ""  # digest of the declared policy that was last taken up
    refused_policy: str = ""  # digest of the one that was refused and told
    iterations: tuple[int, ...] = ()  # seconds that the last ones took, the latest last
