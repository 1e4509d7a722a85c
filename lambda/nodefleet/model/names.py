"""Names that the outside knows (tags, labels, taints, annotations, metrics), and words for lists and figures."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import copysign, log10
from math import floor as rounded_down

_SMALL = 0.1  # below it two digits that tell something are shown
_MOST_DECIMALS = 9
_ENOUGH = 4  # decimals, to tell a reading from its limit


def figure(value: float, beside: float | None = None) -> str:
    """A number as an operator writes it: 120, 0.25, 0.004, 1234567. Beside a limit it does not read like the limit."""
    small = 0 < abs(value) < _SMALL
    return _told_apart(value, beside, 1 - rounded_down(log10(abs(value))) if small else 2).rstrip("0").rstrip(".")


def percent(value: float, beside: float | None = None) -> str:
    """A reading with one decimal, or as many as tell it apart from a limit beside it: "29.97 % < 30 %", not 30.0 %."""
    return f"{_told_apart(value, beside, 1)} %"


def _told_apart(value: float, limit: float | None, decimals: int) -> str:
    decimals = min(decimals, _MOST_DECIMALS)
    while limit is not None and value != limit and float(f"{value:.{decimals}f}") == limit:
        if decimals >= _ENOUGH:  # the noise of a float: on its own side of the limit
            value = limit + copysign(10.0**-decimals, value - limit)
        decimals += decimals < _ENOUGH
    return f"{value:.{decimals}f}"


# ── tags, labels, taints ─────────────────────────────────────────────────────────────────────────────────────────────
# The names that EC2, Kubernetes and operators see: tags, labels, taints and annotations. Each is written here only.


# ── EC2 tags ─────────────────────────────────────────────────────────────────────────────────────────────────────
TAG_CLUSTER = "node-fleet:cluster"
TAG_POOL = "node-fleet:pool"
TAG_ROLE = "node-fleet:role"
TAG_FLEET = "node-fleet:fleet"  # on templates, subnets and groups that a deployment for many clusters may launch with
TAG_OPERATION = "node-fleet:operation"
TAG_CAPACITY = "node-fleet:capacity-type"
TAG_STATUS = "node-fleet:status"  # it and the pool's are the only keys that are written on an instance that exists
TAG_TEMPLATE = "aws:ec2launchtemplate:id"  # EC2 writes these two on whatever it launches from a template
TAG_TEMPLATE_VERSION = "aws:ec2launchtemplate:version"
ROLE_WORKER = "worker"
ROLE_SERVER = "server"
STATUS_JOIN_FAILED = "join-failed"
STATUS_WARM = "warm"  # we stopped it, to start it again when the pool grows
STATUS_STARTED = "started"  # … and started it again: a later stop is not ours

# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────
SHARED_PARTITION = "@all"  # records of all clusters together; no cluster can have this name

# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────────
POOL_LABEL = "node-fleet.io/pool"
CAPACITY_LABEL = "node-fleet.io/capacity-type"
LEAVING_TAINT = "node-fleet.io/leaving"  # on a node that we drain; its value is the deadline
REMOVAL_ANNOTATION = "node-fleet.io/removal"  # which removal: a taint's value is too short for it
REASON_ANNOTATION = "node-fleet.io/reason"
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# The metrics, by the names that dashboards and alarms know. Each costs money, so only the first ten are on.


class MetricUnit(Enum):
    COUNT = "Count"
    PERCENT = "Percent"
    SECONDS = "Seconds"
    NONE = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    unit: MetricUnit
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
    FORECAST_SKILL = "ForecastSkill"
    VIOLATIONS_PROMISED = "ViolationsPromised"
    VIOLATIONS_SEEN = "ViolationsSeen"


METRIC_INFO: dict[Metric, MetricInfo] = {
    Metric.CURRENT_NODE_COUNT: MetricInfo(unit=MetricUnit.COUNT, says="workers that are ready or booting"),
    Metric.PENDING_PODS: MetricInfo(unit=MetricUnit.COUNT, says="pods that the scheduler finds no node for"),
    Metric.CPU: MetricInfo(unit=MetricUnit.PERCENT, says="mean CPU of the workers"),
    Metric.MEMORY: MetricInfo(unit=MetricUnit.PERCENT, says="mean memory of the workers"),
    Metric.SCALE_UPS: MetricInfo(unit=MetricUnit.COUNT, says="nodes added"),
    Metric.SCALE_DOWNS: MetricInfo(unit=MetricUnit.COUNT, says="nodes removed of our own accord"),
    Metric.FAILURES: MetricInfo(unit=MetricUnit.COUNT, says="launches, joins and drains that failed"),
    Metric.JOIN_LATENCY: MetricInfo(unit=MetricUnit.SECONDS, says="from launch to ready node"),
    Metric.INVOCATIONS: MetricInfo(unit=MetricUnit.COUNT, says="runs"),
    Metric.LEVEL: MetricInfo(unit=MetricUnit.NONE, says="0 normal, 1 recovery, 2 degraded, 3 partial, 4 major"),
    Metric.LEASE_HELD: MetricInfo(
        unit=MetricUnit.COUNT, says="runs that left because another one was at work", opt_in=True
    ),
    Metric.MALFORMED: MetricInfo(unit=MetricUnit.COUNT, says="events that could not be understood", opt_in=True),
    Metric.HOURLY_COST: MetricInfo(unit=MetricUnit.NONE, says="USD per hour of the workers", opt_in=True),
    Metric.SPOT_SHARE: MetricInfo(unit=MetricUnit.PERCENT, says="share of Spot among the workers", opt_in=True),
    Metric.DURATION: MetricInfo(unit=MetricUnit.SECONDS, says="how long a run took", opt_in=True),
    Metric.CALLS: MetricInfo(unit=MetricUnit.COUNT, says="calls to AWS and Kubernetes in a run", opt_in=True),
    Metric.DRAIN_TIME: MetricInfo(
        unit=MetricUnit.SECONDS, says="from the decision to the end of a removal", opt_in=True
    ),
    Metric.EVICTIONS: MetricInfo(unit=MetricUnit.COUNT, says="pods evicted", opt_in=True),
    Metric.AT_MAX: MetricInfo(
        unit=MetricUnit.COUNT, says="1 while max keeps the fleet from what it needs", opt_in=True
    ),
    Metric.SCHEDULED_RUNS: MetricInfo(unit=MetricUnit.COUNT, says="runs that the schedule started", opt_in=True),
    Metric.API_SERVER_AWAY: MetricInfo(
        unit=MetricUnit.COUNT, says="1 while the API server does not answer", opt_in=True
    ),
    Metric.EC2_AWAY: MetricInfo(unit=MetricUnit.COUNT, says="1 while EC2 does not answer", opt_in=True),
    Metric.FORECAST_SKILL: MetricInfo(
        unit=MetricUnit.PERCENT,
        says="`strategy: adaptive`: by how much the forecast errs less than the last value does",
        opt_in=True,
    ),
    Metric.VIOLATIONS_PROMISED: MetricInfo(
        unit=MetricUnit.COUNT,
        says="`strategy: adaptive`: decisions of the last two days that the forecast expected to end in a violation",
        opt_in=True,
    ),
    Metric.VIOLATIONS_SEEN: MetricInfo(
        unit=MetricUnit.COUNT, says="`strategy: adaptive`: decisions of the last two days that did", opt_in=True
    ),
}


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Words for operators. A list in a sentence is cut: a fleet of a thousand must not make a sentence of a thousand names.


_MOST = 5


def pluralize(number: float, one: str, many: str) -> str:
    """Three pods fit, one pod fits; 1 of 1 worker, of 2 workers."""
    return f"{figure(number)} {one if number == 1 else many}"


def some(items: Iterable[str], between: str = ", ", most: int = _MOST) -> str:
    """The first few, and how many more there are."""
    listed = list(items)
    more = len(listed) - most
    return between.join(listed[:most]) + (f" and {more} more" if more > 0 else "")
