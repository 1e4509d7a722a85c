"""The CloudWatch dashboard: is it running, what did it do, what does the cluster feel, what lies in the queues.

A row for each cluster, one for the functions and one for the queues. Only metrics that exist: what is opt-in is shown
if it is switched on.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from nodefleet.adapters.telemetry import DIMENSION, NAMESPACE
from nodefleet.model.names import METRIC_INFO, Metric
from nodefleet_infra.alarms import LAMBDA, SQS
from nodefleet_infra.functions import FUNCTIONS
from nodefleet_infra.messaging import QUEUES
from nodefleet_infra.names import Names

_WIDTH, _HEIGHT, _ACROSS = 6, 6, 24
_PERIOD = 120  # seconds: a tick

# Title, statistic, metrics. Those of one picture have one unit.
_OF_CLUSTER: tuple[tuple[str, str, tuple[Metric, ...]], ...] = (
    ("Workers", "Maximum", (Metric.CURRENT_NODE_COUNT,)),
    ("Pods without a node", "Maximum", (Metric.PENDING_PODS,)),
    ("CPU and memory, percent", "Average", (Metric.CPU, Metric.MEMORY)),
    ("Nodes added and removed", "Sum", (Metric.SCALE_UPS, Metric.SCALE_DOWNS)),
    ("Failures", "Sum", (Metric.FAILURES,)),
    ("From launch to ready, seconds", "p95", (Metric.JOIN_LATENCY,)),
    ("Level: 0 normal … 4 major", "Maximum", (Metric.LEVEL,)),
    ("Runs", "Sum", (Metric.INVOCATIONS, Metric.SCHEDULED_RUNS, Metric.LEASE_HELD)),
    ("Not answering", "Maximum", (Metric.API_SERVER_AWAY, Metric.EC2_AWAY)),
    ("At max", "Maximum", (Metric.AT_MAX,)),
    ("USD per hour", "Average", (Metric.HOURLY_COST,)),
    ("Spot share, percent", "Average", (Metric.SPOT_SHARE,)),
    ("Calls in a run", "Maximum", (Metric.CALLS,)),
    ("Drains, seconds", "p95", (Metric.DRAIN_TIME,)),
    ("Evictions", "Sum", (Metric.EVICTIONS,)),
    ("Run, seconds", "Maximum", (Metric.DURATION,)),
)
_OF_FUNCTIONS = (
    ("Invocations", "Sum", "Invocations"),
    ("Errors", "Sum", "Errors"),
    ("Throttles", "Sum", "Throttles"),
    ("Duration, ms", "Maximum", "Duration"),
)


def body(names: Names, region: str, clusters: Sequence[str], opt_in: Collection[Metric], alarms: Sequence[str]) -> str:
    """As CloudWatch takes it; `alarms` are ARNs."""
    rows: list[list[dict[str, Any]]] = [[_text(f"# {names.base}"), _alarms(alarms)]]
    for cluster in clusters:
        rows += [[_text(f"## {cluster}")], list(_cluster(cluster, region, opt_in))]
    rows += [[_text("## Functions")], list(_functions(names, region))]
    rows += [[_text("## Dead letters")], [_queues(names, region)]]
    return json.dumps({"widgets": list(_placed(rows))})


def _cluster(cluster: str, region: str, opt_in: Collection[Metric]) -> Iterator[dict[str, Any]]:
    for title, statistic, metrics in _OF_CLUSTER:
        shown = [metric for metric in metrics if metric in opt_in or not METRIC_INFO[metric].opt_in]
        if shown:
            yield _graph(title, statistic, region, [[NAMESPACE, each.value, DIMENSION, cluster] for each in shown])


def _functions(names: Names, region: str) -> Iterator[dict[str, Any]]:
    for title, statistic, metric in _OF_FUNCTIONS:
        lines = [[LAMBDA, metric, "FunctionName", names.of(each.name)] for each in FUNCTIONS]
        yield _graph(title, statistic, region, lines)


def _queues(names: Names, region: str) -> dict[str, Any]:
    lines = [[SQS, "ApproximateNumberOfMessagesVisible", "QueueName", names.of(queue)] for queue in QUEUES]
    return _graph("Messages", "Maximum", region, lines)


def _graph(title: str, statistic: str, region: str, metrics: list[list[str]]) -> dict[str, Any]:
    properties = {
        "title": title,
        "region": region,
        "view": "timeSeries",
        "stat": statistic,
        "period": _PERIOD,
        "metrics": metrics,
        "yAxis": {"left": {"min": 0}},
    }
    return {"type": "metric", "width": _WIDTH, "height": _HEIGHT, "properties": properties}


def _text(markdown: str) -> dict[str, Any]:
    return {"type": "text", "width": _ACROSS, "height": 1, "properties": {"markdown": markdown}}


def _alarms(arns: Sequence[str]) -> dict[str, Any]:
    return {"type": "alarm", "width": _ACROSS, "height": 4, "properties": {"title": "Alarms", "alarms": list(arns)}}


def _placed(rows: list[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Side by side as far as there is room, and the next below."""
    top = 0
    for row in rows:
        left = height = 0
        for widget in row:
            if left + widget["width"] > _ACROSS:
                left, top, height = 0, top + height, 0
            yield {**widget, "x": left, "y": top}
            left, height = left + widget["width"], max(height, widget["height"])
        top += height
