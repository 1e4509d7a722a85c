"""The metrics, by the names that dashboards and alarms know. Each costs money, so only the first ten are on."""

from dataclasses import dataclass
from enum import Enum


class Unit(Enum):
    COUNT = "Count"
    PERCENT = "Percent"
    SECONDS = "Seconds"
    NONE = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    unit: Unit
    says: str
    opt_in: bool = False


class Metric(Enum):
    CURRENT_NODE_COUNT = "CurrentNodeCount"
    PENDING_PODS = "PendingPods"
    CPU = "ClusterCPUUtilization"
    MEMORY = "ClusterMemoryUtilization"
    SCALE_UPS = "ScaleUpEvents"
    SCALE_DOWNS = "ScaleDownEvents"
    FAILURES = "ScalingFailures"
    JOIN_LATENCY = "NodeJoinLatency"
    INVOCATIONS = "AutoscalerInvocations"
    LEVEL = "DegradationLevel"
    # on request
    LEASE_HELD = "LeaseHeld"
    MALFORMED = "MalformedEvents"
    HOURLY_COST = "HourlyCost"
    SPOT_SHARE = "SpotShare"
    DURATION = "RunDuration"
    CALLS = "ApiCalls"
    DRAIN_TIME = "DrainTime"
    EVICTIONS = "Evictions"
    AT_MAX = "AtMax"
    SCHEDULED_RUNS = "ScheduledRuns"
    API_SERVER_AWAY = "ApiServerUnavailable"
    EC2_AWAY = "Ec2Unavailable"


ABOUT: dict[Metric, About] = {
    Metric.CURRENT_NODE_COUNT: About(unit=Unit.COUNT, says="workers that are ready or booting"),
    Metric.PENDING_PODS: About(unit=Unit.COUNT, says="pods that the scheduler finds no node for"),
    Metric.CPU: About(unit=Unit.PERCENT, says="mean CPU of the workers"),
    Metric.MEMORY: About(unit=Unit.PERCENT, says="mean memory of the workers"),
    Metric.SCALE_UPS: About(unit=Unit.COUNT, says="nodes added"),
    Metric.SCALE_DOWNS: About(unit=Unit.COUNT, says="nodes removed of our own accord"),
    Metric.FAILURES: About(unit=Unit.COUNT, says="launches, joins and drains that failed"),
    Metric.JOIN_LATENCY: About(unit=Unit.SECONDS, says="from launch to ready node"),
    Metric.INVOCATIONS: About(unit=Unit.COUNT, says="runs"),
    Metric.LEVEL: About(unit=Unit.NONE, says="0 normal, 1 recovery, 2 degraded, 3 partial, 4 major"),
    Metric.LEASE_HELD: About(unit=Unit.COUNT, says="runs that left because another one was at work", opt_in=True),
    Metric.MALFORMED: About(unit=Unit.COUNT, says="events that could not be understood", opt_in=True),
    Metric.HOURLY_COST: About(unit=Unit.NONE, says="USD per hour of the workers", opt_in=True),
    Metric.SPOT_SHARE: About(unit=Unit.PERCENT, says="share of Spot among the workers", opt_in=True),
    Metric.DURATION: About(unit=Unit.SECONDS, says="how long a run took", opt_in=True),
    Metric.CALLS: About(unit=Unit.COUNT, says="calls to AWS and Kubernetes in a run", opt_in=True),
    Metric.DRAIN_TIME: About(unit=Unit.SECONDS, says="from the decision to the end of a removal", opt_in=True),
    Metric.EVICTIONS: About(unit=Unit.COUNT, says="pods evicted", opt_in=True),
    Metric.AT_MAX: About(unit=Unit.COUNT, says="1 while max keeps the fleet from what it needs", opt_in=True),
    Metric.SCHEDULED_RUNS: About(unit=Unit.COUNT, says="runs that the schedule started", opt_in=True),
    Metric.API_SERVER_AWAY: About(unit=Unit.COUNT, says="1 while the API server does not answer", opt_in=True),
    Metric.EC2_AWAY: About(unit=Unit.COUNT, says="1 while EC2 does not answer", opt_in=True),
}
