"""The alarms as data: what is watched, from when on it is too much, and how urgent it is.

Their names hold the keys of `nodefleet.notifications.alarm_catalog`, so that a message says what to do. Everything a
run writes comes once per tick, so a state counts as lasting when every value within the time is beyond its limit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Literal

from nodefleet.adapters.telemetry import DIMENSION, NAMESPACE
from nodefleet.model.decision import ActionKind
from nodefleet.model.names import Metric
from nodefleet.notifications.alarm_catalog import MEANINGS, REMINDER
from nodefleet_infra.config import Cluster, ScheduleConfig
from nodefleet_infra.functions import FUNCTIONS, HIDDEN_SECONDS, INTERRUPTION, RECONCILE, Function
from nodefleet_infra.interfaces import Text
from nodefleet_infra.messaging import FAILED_QUEUED_RUNS, QUEUES, RUNS
from nodefleet_infra.names import Names
from nodefleet_infra.reading_rules import CPU_HIGH, MEMORY_HIGH

# What alarms need beyond the metrics that are always on.
METRICS = (Metric.AT_MAX, Metric.SCHEDULED_RUNS, Metric.API_SERVER_AWAY, Metric.EC2_AWAY)
# What is written with `autoscaler.lean`: no alarm is without its metric. CPU and memory are then Prometheus's to watch.
LEAN_METRICS = (Metric.FAILURES, Metric.LEVEL, *METRICS)
JOIN_FAILURES = "JoinFailures"  # counted from the log, see below
JOIN_FAILED_TERM = ActionKind.MARK_FAILED.value  # among the actions of a run's line

_MINUTE = 60
_DEGRADED = 2  # of DegradationLevel: readings are missing
LAMBDA, SQS, EC2 = "AWS/Lambda", "AWS/SQS", "AWS/EC2"


class Severity(Enum):
    CRITICAL = "critical"  # e-mail and Slack
    WARNING = "warning"  # Slack


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric, as CloudWatch knows it."""

    namespace: str
    metric: str
    dimensions: Mapping[str, Text | str] = field(default_factory=dict)
    statistic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    name: str
    severity: Severity
    says: str
    series: Mapping[str, Series]  # by the name that the expression uses
    expression: str = ""  # empty: the only series itself
    over: Literal[">", "≥", "<"] = ">"
    limit: float
    period: int  # seconds
    periods: int = 1
    missing: Literal["notBreaching", "breaching"] = "notBreaching"  # what no data means
    reminds: bool = False  # of another alarm that goes on: that it is over is the other's to say


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────


def alarms(
    names: Names,
    clusters: Sequence[Cluster],
    schedule: ScheduleConfig,
    masters: Mapping[str, Text | str],
    *,
    lean: bool = False,
    fleet: bool = False,
) -> Iterator[Alarm]:
    """`masters` are the ids of the masters' instances, by cluster. `lean`: without those that Prometheus has then.
    `fleet`: runs go through a queue."""
    elsewhere = {names.of(cluster.name, each.key) for cluster in clusters for each in (CPU_HIGH, MEMORY_HIGH)}
    for cluster in clusters:
        found = _of_cluster(names, cluster, schedule, sparse=lean)
        yield from (each for each in found if not lean or each.name not in elsewhere)
        yield _of_master(names, cluster, masters[cluster.id])
    yield from _of_stack(names, clusters)
    if fleet:
        yield from _of_queue(names)


def _of_cluster(names: Names, cluster: Cluster, schedule: ScheduleConfig, *, sparse: bool) -> Iterator[Alarm]:
    """`sparse`: figures of failures are written while something fails, so the first period of an outage may hold a
    single value. A second period keeps one bad run from ringing; it ends when the first full one would have."""
    outage = {"period": 5 * _MINUTE, "periods": 2 if sparse else 1}

    def alarm(key: str, severity: Severity, metric: Metric, statistic: str, **rule: object) -> Alarm:
        series = Series(
            namespace=NAMESPACE, metric=metric.value, dimensions={DIMENSION: cluster.id}, statistic=statistic
        )
        return _alarm(names.of(cluster.name, key), key, severity, {"value": series}, **rule)

    critical, warning = Severity.CRITICAL, Severity.WARNING
    yield alarm("scaling-failures", critical, Metric.FAILURES, "Sum", over="≥", limit=3, period=15 * _MINUTE)
    yield alarm("cpu-high", critical, Metric.CPU, "Minimum", limit=CPU_HIGH.percent, period=5 * _MINUTE)
    yield alarm("at-max", critical, Metric.AT_MAX, "Minimum", over="≥", limit=1, period=5 * _MINUTE, periods=2)
    yield alarm(
        "no-invocation",
        critical,
        Metric.SCHEDULED_RUNS,
        "Sum",
        over="<",
        limit=1,
        period=silence(schedule),
        missing="breaching",
    )
    yield alarm(
        "memory-high", warning, Metric.MEMORY, "Minimum", limit=MEMORY_HIGH.percent, period=5 * _MINUTE, periods=2
    )
    for key, metric in (("api-server-unavailable", Metric.API_SERVER_AWAY), ("ec2-unavailable", Metric.EC2_AWAY)):
        yield alarm(key, critical, metric, "Minimum", over="≥", limit=1, **outage)
        reminder = _reminder(names.of(cluster.name, key, REMINDER), key, metric, cluster)
        yield _several_runs(reminder, schedule) if sparse else reminder
    yield alarm(
        "prometheus-unavailable",
        warning,
        Metric.LEVEL,
        "Minimum",
        expression=f"IF(value > {_DEGRADED}, 0, value)",  # what is worse has alarms of its own
        over="≥",
        limit=_DEGRADED,
        **outage,
    )


def _reminder(name: str, key: str, metric: Metric, cluster: Cluster) -> Alarm:
    """CloudWatch tells of changes only, and an e-mail may be missed. This one rings in the first minutes of every hour
    for as long as it lasts."""
    away = Series(namespace=NAMESPACE, metric=metric.value, dimensions={DIMENSION: cluster.id}, statistic="Minimum")
    return _alarm(
        name,
        key,
        Severity.CRITICAL,
        {"value": away},
        expression="IF(MINUTE(value) < 5, value, 0)",
        over="≥",
        limit=1,
        period=5 * _MINUTE,
        reminds=True,
    )


def _several_runs(reminder: Alarm, schedule: ScheduleConfig) -> Alarm:
    """A reminder that counts the runs of its period, all of which must have written 1: with figures that are written
    only while something fails, a lowest value of 1 may be that of a single bad run."""
    value = replace(reminder.series["value"], statistic="Sum")
    return replace(reminder, series={"value": value}, limit=max(1, reminder.period // _slowest_tick(schedule)))


def _of_master(names: Names, cluster: Cluster, instance: Text | str) -> Alarm:
    """EC2's own checks of the instance. One that is gone tells nothing: then the API server's alarm rings."""
    checks = Series(namespace=EC2, metric="StatusCheckFailed", dimensions={"InstanceId": instance}, statistic="Minimum")
    key = "master-status-check"
    name = names.of(cluster.name, key)
    return _alarm(name, key, Severity.CRITICAL, {"value": checks}, over="≥", limit=1, period=5 * _MINUTE)


def _of_stack(names: Names, clusters: Sequence[Cluster]) -> Iterator[Alarm]:
    critical, warning = Severity.CRITICAL, Severity.WARNING
    failed = {"value": Series(namespace=NAMESPACE, metric=JOIN_FAILURES, statistic="Sum")}
    yield _alarm(names.of("join-failure"), "join-failure", critical, failed, over="≥", limit=1, period=5 * _MINUTE)
    # A run that raises has a reason to: without the table, for example, it can do nothing else.
    runs = {each.name: _of_function(names, each, "Errors", "Sum") for each in (RECONCILE, INTERRUPTION)}
    yield _alarm(
        names.of("runs", "scaling-failures"),
        "scaling-failures",
        critical,
        runs,
        expression=_sum(runs),
        over="≥",
        limit=3,
        period=15 * _MINUTE,
    )
    yield from (_dead_letters(names, queue) for queue in QUEUES)
    for each in (RECONCILE, INTERRUPTION):
        duration = {"value": _of_function(names, each, "Duration", "Maximum")}
        name = names.of(each.name, "near-time-limit")
        limit = near_time_limit(each, clusters) * 1000  # ms
        yield _alarm(name, "near-time-limit", warning, duration, over="≥", limit=limit, period=5 * _MINUTE)
    throttled = {each.name: _of_function(names, each, "Throttles", "Sum") for each in FUNCTIONS}
    yield _alarm(
        names.of("throttles"),
        "throttles",
        warning,
        throttled,
        expression=_sum(throttled),
        over="≥",
        limit=1,
        period=5 * _MINUTE,
    )


def _of_queue(names: Names) -> Iterator[Alarm]:
    """The queue of many clusters. A cluster that is slow, or dies in every run, keeps its own messages waiting for as
    long as a message is hidden; messages that are older at every minute are those of clusters that find no place."""
    age = Series(
        namespace=SQS,
        metric="ApproximateAgeOfOldestMessage",
        dimensions={"QueueName": names.of(RUNS)},
        statistic="Minimum",
    )
    yield _alarm(
        names.of("runs-late"), "runs-late", Severity.CRITICAL, {"value": age}, limit=HIDDEN_SECONDS, period=5 * _MINUTE
    )
    yield _dead_letters(names, FAILED_QUEUED_RUNS)


def _dead_letters(names: Names, queue: str) -> Alarm:
    waiting = Series(
        namespace=SQS,
        metric="ApproximateNumberOfMessagesVisible",
        dimensions={"QueueName": names.of(queue)},
        statistic="Maximum",
    )
    name = names.of(queue.removesuffix(".fifo"), "dead-letters")
    return _alarm(name, "dead-letters", Severity.CRITICAL, {"value": waiting}, limit=0, period=5 * _MINUTE)


def _alarm(name: str, key: str, severity: Severity, series: Mapping[str, Series], **rule: object) -> Alarm:
    return Alarm(name=name, severity=severity, says=MEANINGS[key].says, series=series, **rule)  # type: ignore[arg-type]


def _of_function(names: Names, function: Function, metric: str, statistic: str) -> Series:
    dimensions = {"FunctionName": names.of(function.name)}
    return Series(namespace=LAMBDA, metric=metric, dimensions=dimensions, statistic=statistic)


def _sum(series: Mapping[str, Series]) -> str:
    return " + ".join(f"FILL({name}, 0)" for name in series)


# ── limits that follow from something else ───────────────────────────────────────────────────────────────────────


def silence(schedule: ScheduleConfig) -> int:
    """Seconds without a run after which something is wrong: three ticks, and ten minutes at least."""
    return max(10 * _MINUTE, 3 * _slowest_tick(schedule))


def _slowest_tick(schedule: ScheduleConfig) -> int:
    """Seconds."""
    slowest = schedule.night.every if schedule.night else schedule.every
    return slowest // timedelta(minutes=1) * _MINUTE


def near_time_limit(function: Function, clusters: Sequence[Cluster]) -> float:
    """Seconds. A burst ends with its budget, so whatever comes half-way from there to the limit is no burst."""
    budget = max(cluster.policy.burst.budget for cluster in clusters).total_seconds()
    return (budget + function.timeout) / 2
