"""Alarms on a policy's own readings where CloudWatch has them: queues of SQS, and metrics."""

from collections.abc import Iterator
from urllib.parse import urlparse

from nodefleet.adapters.telemetry import DIMENSION, NAMESPACE
from nodefleet.model.names import Metric
from nodefleet.notifications.alarm_catalog import MEANINGS
from nodefleet.policy.sources import CloudWatch, Source, Sqs
from nodefleet_infra.alarms import SQS, Alarm, Series, Severity
from nodefleet_infra.config import Cluster
from nodefleet_infra.names import Names
from nodefleet_infra.watched_readings import Measure, Watch, watched

_MINUTE = 60

# An attribute of a queue → the metric that says the same.
_OF_QUEUES = {
    "ApproximateNumberOfMessages": "ApproximateNumberOfMessagesVisible",
    "ApproximateNumberOfMessagesNotVisible": "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed": "ApproximateNumberOfMessagesDelayed",
}
_EXPRESSIONS = {
    Measure.LEVEL: "",
    Measure.GROWTH: "RATE(value)",
    # The count comes once per tick: in between the last one holds.
    Measure.SHARE: "100 * value / ({runners} * FILL(nodes, REPEAT))",
}


def reading_alarms(names: Names, cluster: Cluster) -> Iterator[Alarm]:
    for watch in watched(cluster):
        series = series_of(watch.source)
        if series and not lacks_nodes(watch, cluster):
            yield _alarm(names, cluster, watch, series)


def lacks_nodes(watch: Watch, cluster: Cluster) -> bool:
    """CloudWatch knows a cluster's nodes, not those of each pool: a share of all of them would never be high."""
    return watch.measure is Measure.SHARE and len(cluster.policy.pools) > 1


def unwatched(cluster: Cluster) -> Iterator[str]:
    """What is not watched though its reading is there, in words."""
    for watch in watched(cluster):
        if series_of(watch.source) and lacks_nodes(watch, cluster):
            yield (
                f"no alarm {watch.key} for the pool {watch.pool.name}: {watch.reading} comes from CloudWatch, which"
                " does not know how many nodes a pool has. With a reading from Prometheus there is one"
            )


def _alarm(names: Names, cluster: Cluster, watch: Watch, series: Series) -> Alarm:
    nodes = Series(
        namespace=NAMESPACE,
        metric=Metric.CURRENT_NODE_COUNT.value,
        dimensions={DIMENSION: cluster.id},
        statistic="Average",
    )
    return Alarm(
        name=watch.name(names, cluster),
        severity=Severity.WARNING,
        says=f"{MEANINGS[watch.key].says} ({watch.rule}, pool {watch.pool.name})",
        series={"value": series} | ({"nodes": nodes} if watch.measure is Measure.SHARE else {}),
        expression=_EXPRESSIONS[watch.measure].format(runners=watch.runners_per_node),
        limit=watch.limit,
        period=_MINUTE,
        periods=watch.minutes,
    )


def series_of(source: Source) -> Series | None:
    """None if CloudWatch does not have it."""
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
