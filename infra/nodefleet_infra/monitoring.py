"""Alarms, the dashboard, and the one figure that only the log has."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import pulumi
import pulumi_aws as aws

from nodefleet.adapters.telemetry import NAMESPACE
from nodefleet.model.names import Metric
from nodefleet_infra.alarms import JOIN_FAILED_TERM, JOIN_FAILURES, Alarm, Series, alarms
from nodefleet_infra.autoscaler import log_group
from nodefleet_infra.config import AutoscalerConfig, Cluster
from nodefleet_infra.dashboards import cloudwatch
from nodefleet_infra.functions import INTERRUPTION, RECONCILE
from nodefleet_infra.interfaces import Place, Text
from nodefleet_infra.names import Names
from nodefleet_infra.reading_alarms import reading_alarms, unwatched

_COMPARISONS = {
    ">": "GreaterThanThreshold",
    "≥": "GreaterThanOrEqualToThreshold",
    "<": "LessThanThreshold",
}
_SIMPLE = frozenset({"Average", "Maximum", "Minimum", "SampleCount", "Sum"})


class Monitoring(pulumi.ComponentResource):
    def __init__(
        self,
        name: str,
        names: Names,
        place: Place,
        clusters: Sequence[Cluster],
        config: AutoscalerConfig,
        *,
        metrics: Sequence[Metric],  # beyond those that are always on
        topics: Mapping[str, Text],
        logs: Mapping[str, Text],  # function → name of its log group
        masters: Mapping[str, Text],  # cluster → id of its master's instance
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("node-fleet:monitoring:Monitoring", name, None, opts)
        self._names, self._topics = names, topics
        self._own = pulumi.ResourceOptions(parent=self)
        for function in (RECONCILE, INTERRUPTION):
            self._count_failed_joins(function.name, logs[function.name])
        for cluster in clusters:
            for words in unwatched(cluster):
                pulumi.log.warn(f"{cluster.name}: {words}", self)
        watched = [*alarms(names, clusters, config.schedule, masters, lean=config.lean, fleet=bool(config.fleet))]
        watched += [each for cluster in clusters for each in reading_alarms(names, cluster)]
        arns = [self._alarm(each, active=config.enabled) for each in watched]
        if not config.lean:
            aws.cloudwatch.Dashboard(
                "dashboard",
                dashboard_name=names.base,
                dashboard_body=pulumi.Output.all(*arns).apply(
                    lambda made: cloudwatch.body(
                        names, place.region, [cluster.id for cluster in clusters], metrics, [str(arn) for arn in made]
                    )
                ),
                opts=self._own,
            )
        self.register_outputs({})

    def _count_failed_joins(self, function: str, log: Text) -> None:
        aws.cloudwatch.LogMetricFilter(
            f"{function}-join-failures",
            name=self._names.of(function, "join-failures"),
            log_group_name=log,
            pattern=f'"{JOIN_FAILED_TERM}"',
            metric_transformation={"namespace": NAMESPACE, "name": JOIN_FAILURES, "value": "1"},
            opts=self._own,
        )

    def _alarm(self, alarm: Alarm, *, active: bool) -> Text:
        """`active` is false while the autoscaler is switched off: that it does not run is then no news."""
        topic = self._topics[alarm.severity.value]
        only = next(iter(alarm.series.values())) if not alarm.expression else None
        plain = only is not None
        made = aws.cloudwatch.MetricAlarm(
            alarm.name.removeprefix(f"{self._names.base}-"),
            name=alarm.name,
            alarm_description=alarm.says,
            comparison_operator=_COMPARISONS[alarm.over],
            threshold=alarm.limit,
            evaluation_periods=alarm.periods,
            datapoints_to_alarm=alarm.periods,
            treat_missing_data=alarm.missing,
            namespace=only.namespace if only else None,
            metric_name=only.metric if only else None,
            dimensions=dict(only.dimensions) if only else None,
            statistic=only.statistic if only and only.statistic in _SIMPLE else None,
            extended_statistic=only.statistic if only and only.statistic not in _SIMPLE else None,
            period=alarm.period if plain else None,
            metric_queries=None if plain else _queries(alarm),
            actions_enabled=active,
            alarm_actions=[topic],
            ok_actions=[] if alarm.reminds else [topic],
            tags=self._names.tags(alarm.name),
            opts=self._own,
        )
        return made.arn


def _queries(alarm: Alarm) -> list[aws.cloudwatch.MetricAlarmMetricQueryArgsDict]:
    of_series: list[aws.cloudwatch.MetricAlarmMetricQueryArgsDict] = [
        {"id": name, "return_data": False, "metric": _metric(series, alarm.period)}
        for name, series in alarm.series.items()
    ]
    return [*of_series, {"id": "result", "expression": alarm.expression, "label": alarm.name, "return_data": True}]


def _metric(series: Series, period: int) -> aws.cloudwatch.MetricAlarmMetricQueryMetricArgsDict:
    return {
        "namespace": series.namespace,
        "metric_name": series.metric,
        "dimensions": dict(series.dimensions),
        "stat": series.statistic,
        "period": period,
    }


# ── links for operators ──────────────────────────────────────────────────────────────────────────────────────────


def dashboard_link(names: Names, region: str) -> str:
    return f"{_console(region)}#dashboards/dashboard/{quote(names.base, safe='')}"


def logs_link(names: Names, region: str) -> str:
    # The console writes a slash in a name as %252F, with $ for %.
    name = log_group(names.of(RECONCILE.name)).replace("/", "$252F")
    return f"{_console(region)}#logsV2:log-groups/log-group/{name}"


def _console(region: str) -> str:
    return f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}"
