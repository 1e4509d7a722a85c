"""Alarms on a policy's own readings, where CloudWatch has them: queues of SQS, and metrics.

What comes from Prometheus is not in CloudWatch; its alerts belong to Prometheus itself.
"""

from collections.abc import Iterator
from urllib.parse import urlparse

from nodefleet.adapters.slack.meanings import MEANINGS
from nodefleet.adapters.telemetry import DIMENSION, NAMESPACE
from nodefleet.domain.metrics import Metric
from nodefleet.domain.policy import Pool
from nodefleet.domain.policy.demand import (
    ClearTime,
    CloudWatch,
    DemandRule,
    JobDemand,
    PerWorkerQueue,
    Quantity,
    QueueAndLatency,
    Source,
    Sqs,
    Threshold,
)
from nodefleet_infra.alarms import SQS, Alarm, Series, Severity
from nodefleet_infra.config import Cluster
from nodefleet_infra.names import Names

GROWING_PER_MINUTE = 5
TOO_SLOW = 1.5  # × target
SATURATED_PERCENT = 90
_MINUTE = 60

# An attribute of a queue → the metric that says the same.
_OF_QUEUES = {
    "ApproximateNumberOfMessages": "ApproximateNumberOfMessagesVisible",
    "ApproximateNumberOfMessagesNotVisible": "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed": "ApproximateNumberOfMessagesDelayed",
}


def reading_alarms(names: Names, cluster: Cluster) -> Iterator[Alarm]:
    for pool in cluster.policy.pools:
        for index, rule in enumerate(pool.custom):
            yield from _of_rule(names, cluster, pool, rule, f"{pool.name}-{index}")


def _of_rule(names: Names, cluster: Cluster, pool: Pool, rule: DemandRule, place: str) -> Iterator[Alarm]:
    def alarm(key: str, series: dict[str, Series], expression: str, limit: float, minutes: int) -> Alarm:
        return Alarm(
            name=names.of(cluster.name, place, key),
            severity=Severity.WARNING,
            says=f"{MEANINGS[key].says} ({rule.name}, pool {pool.name})",
            series=series,
            expression=expression,
            limit=limit,
            period=_MINUTE,
            periods=minutes,
        )

    queue = _series(pool.readings.get(queue_of(rule)))
    if queue:
        yield alarm("queue-growing", {"queue": queue}, "RATE(queue) * 60", GROWING_PER_MINUTE, 2)
    latency = _series(pool.readings.get(latency_of(rule)))
    if latency:
        yield alarm("latency-high", {"latency": latency}, "", TOO_SLOW * target_of(rule, pool), 3)
    busy = _series(pool.readings.get(rule.busy)) if isinstance(rule, QueueAndLatency) else None
    if busy:
        nodes = Series(
            namespace=NAMESPACE,
            metric=Metric.CURRENT_NODE_COUNT.value,
            dimensions={DIMENSION: cluster.id},
            statistic="Average",
        )
        # The count comes once per tick: in between the last one holds.
        share = "100 * busy / FILL(nodes, REPEAT)"
        yield alarm("pool-saturated", {"busy": busy, "nodes": nodes}, share, SATURATED_PERCENT, 5)


def queue_of(rule: DemandRule) -> str:
    """The reading that counts what waits; empty if the rule has none."""
    match rule:
        case Threshold(quantity=Quantity.QUEUE):
            return rule.reading
        case QueueAndLatency() | PerWorkerQueue() | ClearTime():
            return rule.queue
        case JobDemand():
            return rule.jobs
        case _:
            return ""


def latency_of(rule: DemandRule) -> str:
    match rule:
        case Threshold(quantity=Quantity.LATENCY):
            return rule.reading
        case QueueAndLatency():
            return rule.p95_ms
        case _:
            return ""


def target_of(rule: DemandRule, pool: Pool) -> float:
    """Milliseconds."""
    own = (
        rule.limit if isinstance(rule, Threshold) else rule.p95_target_ms if isinstance(rule, QueueAndLatency) else None
    )
    return pool.targets.p95_ms if own is None else own


def _series(source: Source | None) -> Series | None:
    match source:
        case Sqs(attribute=attribute) if attribute in _OF_QUEUES:
            name = urlparse(source.queue_url).path.rsplit("/", 1)[-1]
            return Series(
                namespace=SQS, metric=_OF_QUEUES[attribute], dimensions={"QueueName": name}, statistic="Maximum"
            )
        case CloudWatch():
            return Series(
                namespace=source.namespace,
                metric=source.metric,
                dimensions=source.dimensions,
                statistic=source.statistic,
            )
        case _:
            return None
