"""Alarms that fire when they should, and whose names a message understands."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.adapters.telemetry import DIMENSION, NAMESPACE
from nodefleet.model.names import METRIC_INFO, Metric
from nodefleet.notifications.alarm_catalog import MEANINGS, alarm_text, is_reminder
from nodefleet_infra.alarms import JOIN_FAILURES, METRICS, near_time_limit, silence
from nodefleet_infra.config import Night, ScheduleConfig
from nodefleet_infra.dashboards import cloudwatch
from nodefleet_infra.functions import INTERRUPTION, RECONCILE
from nodefleet_infra.names import Names
from nodefleet_infra.reading_alarms import reading_alarms, unwatched
from nodefleet_infra.stack import stack_from
from support.infra_mocks import DEV, PRODUCTION, deployed_stack, unusual_stack
from support.wording import assert_wording

BOTH = [DEV, PRODUCTION]
ALARM = "MetricAlarm"
SECONDS = 60
CRITICAL = {"scaling-failures", "cpu-high", "at-max", "join-failure", "no-invocation", "dead-letters"}
CRITICAL |= {"api-server-unavailable", "ec2-unavailable", "master-status-check"}
WARNING = {"memory-high", "prometheus-unavailable", "near-time-limit", "throttles"}
OF_FLEET = {"runs-late"}  # see test_fleet
OF_READINGS = {"queue-growing", "latency-high", "pool-saturated"}
# Rules of Prometheus about the server node: see test_server_rules.
OF_SERVER = {"master-disk", "snapshots-late", "keeping-late", "login-expiring", "updates-late", "reboot-due"}
OF_SERVER |= {"scrape-refused"}


def key_of(name):
    return next(key for key in MEANINGS if alarm_text(name) is MEANINGS[key])


def alarms(graph):
    """By key, each with its inputs; without the reminders."""
    found = {}
    for each in graph.of(ALARM):
        if is_reminder(each.inputs["name"]):
            continue
        found.setdefault(key_of(each.inputs["name"]), []).append(each.inputs)
    return found


def severity(alarm):
    (topic,) = alarm["alarmActions"]
    assert alarm["okActions"] == [topic]
    return topic.rpartition("-")[2]


@pytest.mark.parametrize("file", BOTH)
def test_every_alarm_has_a_meaning_that_tells_what_to_do(file):
    for each in deployed_stack(file).of(ALARM):
        assert alarm_text(each.inputs["name"]) is not None, each.inputs["name"]
        assert each.inputs["alarmDescription"].startswith(alarm_text(each.inputs["name"]).says)


def test_every_meaning_has_an_alarm():
    assert {*alarms(deployed_stack(DEV))} == CRITICAL | WARNING
    assert {*MEANINGS} == CRITICAL | WARNING | OF_READINGS | OF_SERVER | OF_FLEET


@pytest.mark.parametrize("file", BOTH)
def test_critical_alarms_reach_people_and_warnings_reach_slack(file):
    for key, several in alarms(deployed_stack(file)).items():
        assert {severity(each) for each in several} == {"critical" if key in CRITICAL else "warning"}, key


@pytest.mark.parametrize(
    ("key", "metric", "statistic", "comparison", "limit", "minutes", "missing"),
    [
        ("cpu-high", Metric.CPU, "Minimum", "GreaterThanThreshold", 90, 5, "notBreaching"),
        ("at-max", Metric.AT_MAX, "Minimum", "GreaterThanOrEqualToThreshold", 1, 10, "notBreaching"),
        ("no-invocation", Metric.SCHEDULED_RUNS, "Sum", "LessThanThreshold", 1, 10, "breaching"),
        ("memory-high", Metric.MEMORY, "Minimum", "GreaterThanThreshold", 80, 10, "notBreaching"),
        (
            "api-server-unavailable",
            Metric.API_SERVER_AWAY,
            "Minimum",
            "GreaterThanOrEqualToThreshold",
            1,
            5,
            "notBreaching",
        ),
        ("ec2-unavailable", Metric.EC2_AWAY, "Minimum", "GreaterThanOrEqualToThreshold", 1, 5, "notBreaching"),
    ],
)
def test_from_when_on_it_is_too_much(key, metric, statistic, comparison, limit, minutes, missing):
    (alarm,) = alarms(deployed_stack(DEV))[key]
    assert (alarm["namespace"], alarm["metricName"], alarm["statistic"]) == (NAMESPACE, metric.value, statistic)
    assert alarm["dimensions"] == {DIMENSION: "dev-shop"}
    assert (alarm["comparisonOperator"], alarm["threshold"]) == (comparison, limit)
    assert alarm["period"] * alarm["evaluationPeriods"] == minutes * SECONDS
    assert alarm["datapointsToAlarm"] == alarm["evaluationPeriods"]
    assert alarm["treatMissingData"] == missing


def test_a_missing_prometheus_is_a_warning_and_what_is_worse_is_not_called_prometheus():
    (alarm,) = alarms(deployed_stack(DEV))["prometheus-unavailable"]
    level, result = alarm["metricQueries"]
    assert (level["metric"]["metricName"], level["metric"]["stat"]) == (Metric.LEVEL.value, "Minimum")
    assert result["expression"] == "IF(value > 2, 0, value)"
    assert (alarm["comparisonOperator"], alarm["threshold"]) == ("GreaterThanOrEqualToThreshold", 2)


def test_each_master_is_watched_by_ec2s_own_checks():
    graph = deployed_stack(DEV)
    (alarm,) = alarms(graph)["master-status-check"]
    (master,) = graph.of("ec2/instance:Instance")
    assert (alarm["namespace"], alarm["metricName"]) == ("AWS/EC2", "StatusCheckFailed")
    assert alarm["dimensions"] == {"InstanceId": master.outputs.get("id", master.id)}


def test_three_failures_within_a_quarter_of_an_hour_are_too_many_and_so_are_three_failed_runs():
    found = alarms(deployed_stack(DEV))["scaling-failures"]
    scaling, runs = sorted(found, key=lambda each: "metricQueries" in each)
    assert (scaling["metricName"], scaling["statistic"]) == ("ScalingFailures", "Sum")
    assert {(each["threshold"], each["comparisonOperator"]) for each in (scaling, runs)} == {
        (3, "GreaterThanOrEqualToThreshold")
    }
    assert scaling["period"] == 15 * SECONDS
    queries = {each["id"]: each for each in runs["metricQueries"]}
    assert queries["result"]["expression"] == "FILL(reconcile, 0) + FILL(interruption, 0)"
    assert queries["reconcile"]["metric"]["metricName"] == "Errors"
    assert queries["reconcile"]["metric"]["period"] == 15 * SECONDS
    assert [name for name, each in queries.items() if each["returnData"]] == ["result"]


def test_every_queue_of_dead_letters_is_watched():
    graph = deployed_stack(DEV)
    watched = {each["dimensions"]["QueueName"] for each in alarms(graph)["dead-letters"]}
    queues = {each.inputs["name"] for each in graph.of("sqs/queue:Queue")}
    assert watched == queues - {"node-fleet-dev-ec2-events"}  # what it cannot get rid of lies in failed-runs


def test_every_function_is_watched_for_throttles():
    graph = deployed_stack(DEV)
    (throttles,) = alarms(graph)["throttles"]
    watched = {each["metric"]["dimensions"]["FunctionName"] for each in throttles["metricQueries"] if "metric" in each}
    assert watched == {each.inputs["name"] for each in graph.of("lambda/function:Function")}


def test_a_burst_is_not_a_run_that_hangs():
    stack = _stack({"interval": "2m"})
    assert near_time_limit(RECONCILE, stack.clusters) == 115
    assert near_time_limit(INTERRUPTION, stack.clusters) == 130
    limits = {
        each["dimensions"]["FunctionName"]: each["threshold"] for each in alarms(deployed_stack(DEV))["near-time-limit"]
    }
    assert limits == {"node-fleet-dev-reconcile": 115_000, "node-fleet-dev-interruption": 130_000}


def test_silence_is_longer_than_the_longest_pause_between_runs():
    minutes = timedelta(minutes=1)
    assert silence(ScheduleConfig()) == 600
    assert silence(ScheduleConfig(night=Night(every=5 * minutes))) == 900
    assert silence(ScheduleConfig(every=10 * minutes)) == 1800


def test_metrics_that_alarms_need_are_switched_on():
    for file in BOTH:
        graph = deployed_stack(file)
        on = graph.one("lambda/function:Function", "reconcile").inputs["environment"]["variables"]["NODEFLEET_METRICS"]
        used = {each.inputs.get("metricName") for each in graph.of(ALARM) if each.inputs.get("namespace") == NAMESPACE}
        written = (
            {metric.value for metric in Metric if not METRIC_INFO[metric].opt_in} | {*on.split(",")} | {JOIN_FAILURES}
        )
        assert used <= written
    assert set(METRICS) <= set(Metric)


def test_failed_joins_are_counted_from_the_log_of_every_function_that_runs_the_loop():
    graph = deployed_stack(DEV)
    filters = {each.inputs["logGroupName"]: each.inputs for each in graph.of("LogMetricFilter")}
    assert set(filters) == {"/aws/lambda/node-fleet-dev-reconcile", "/aws/lambda/node-fleet-dev-interruption"}
    (alarm,) = alarms(graph)["join-failure"]
    for each in filters.values():
        counted = each["metricTransformation"]
        assert (counted["namespace"], counted["name"]) == (alarm["namespace"], alarm["metricName"])


def test_a_stack_that_was_switched_off_raises_no_alarm():
    assert {each.inputs["actionsEnabled"] for each in deployed_stack(DEV).of(ALARM)} == {True}
    assert {each.inputs["actionsEnabled"] for each in unusual_stack().of(ALARM)} == {False}


def test_while_the_api_server_or_ec2_is_away_an_e_mail_reminds_every_hour():
    """In the first minutes of each hour, through the critical topic, and nothing is said when those are over."""
    found = [each.inputs for each in deployed_stack(DEV).of(ALARM) if is_reminder(each.inputs["name"])]
    assert {key_of(each["name"]) for each in found} == {"api-server-unavailable", "ec2-unavailable"}
    for each in found:
        ((query,), (series,)) = (
            [one for one in each["metricQueries"] if "expression" in one],
            [one for one in each["metricQueries"] if "metric" in one],
        )
        assert query["expression"] == "IF(MINUTE(value) < 5, value, 0)"
        assert (series["id"], series["metric"]["period"], each["evaluationPeriods"]) == ("value", 5 * SECONDS, 1)
        assert each["alarmActions"][0].endswith("-critical")
        assert each.get("okActions", []) == []


def test_each_cluster_has_its_own_alarms():
    found = alarms(unusual_stack())
    assert {each["dimensions"][DIMENSION] for each in found["no-invocation"]} == {"odd-shop", "odd-blog"}


# ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _stack(policy):
    data = {
        "network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
        "clusters": [{"name": "shop", "policy": policy}],
    }
    return stack_from("node-fleet", "dev", "ap-southeast-1", data)


def _of_readings(policy):
    stack = _stack(policy)
    made = reading_alarms(Names(project="node-fleet", stack="dev"), stack.clusters[0])
    return {key_of(each.name): each for each in made}


def test_a_queue_that_grows_and_answers_that_are_slow_are_told_where_they_are_read():
    found = alarms(deployed_stack(PRODUCTION))
    (growing,) = found["queue-growing"]
    queries = {each["id"]: each for each in growing["metricQueries"]}
    assert queries["result"]["expression"] == "RATE(value)"
    assert queries["value"]["metric"]["dimensions"] == {"QueueName": "orders"}
    assert (growing["threshold"], growing["evaluationPeriods"], queries["value"]["metric"]["period"]) == (5, 2, 60)
    (slow,) = found["latency-high"]
    assert (slow["metricName"], slow["extendedStatistic"]) == ("TargetResponseTime", "p95")
    assert (slow["threshold"], slow["evaluationPeriods"]) == (0.75, 3)


def test_a_pool_whose_workers_are_all_busy_is_saturated():
    metric = {"kind": "cloud-watch", "namespace": "Shop", "metric": "Busy"}
    policy = {
        "readings": {"queue": metric | {"metric": "Queue"}, "p95": metric | {"metric": "P95"}, "busy": metric},
        "custom": [{"kind": "queue-and-latency", "name": "jobs", "queue": "queue", "p95_ms": "p95", "busy": "busy"}],
    }
    found = _of_readings(policy)
    assert set(found) == OF_READINGS
    saturated = found["pool-saturated"]
    assert (saturated.limit, saturated.periods) == (90, 5)
    assert saturated.series["nodes"].dimensions == {DIMENSION: "dev-shop"}
    assert found["latency-high"].limit == 750


def test_a_pool_that_cloudwatch_cannot_count_has_no_alarm_that_never_fires():
    """It knows the nodes of all pools together, so one pool's share of them would never be high."""
    metric = {"kind": "cloud-watch", "namespace": "Shop", "metric": "Running"}
    rule = {"kind": "clear-time", "name": "jobs", "queue": "jobs", "running": "jobs", "job_seconds": "jobs"}
    batch = {"name": "batch", "readings": {"jobs": metric}, "custom": [rule]}
    assert set(_of_readings({"pools": [batch]})) == {"queue-growing", "pool-saturated"}
    several = _stack({"pools": [batch, {"name": "web"}]}).clusters[0]
    made = reading_alarms(Names(project="node-fleet", stack="dev"), several)
    assert {key_of(each.name) for each in made} == {"queue-growing"}
    (words,) = unwatched(several)
    assert_wording(words)


def test_what_prometheus_reads_is_not_in_cloudwatch():
    policy = {
        "readings": {"jobs": {"kind": "prometheus", "query": "sum(jobs)"}},
        "custom": [{"kind": "job-demand", "name": "jobs", "jobs": "jobs"}],
    }
    assert _of_readings(policy) == {}


# ── the dashboard ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_the_dashboard_shows_metrics_that_exist_and_every_alarm(file):
    graph = deployed_stack(file)
    (dashboard,) = graph.of("Dashboard")
    widgets = json.loads(dashboard.inputs["dashboardBody"])["widgets"]
    lines = [line for each in widgets for line in each["properties"].get("metrics", [])]
    on = graph.one("lambda/function:Function", "reconcile").inputs["environment"]["variables"]["NODEFLEET_METRICS"]
    written = {metric.value for metric in Metric if not METRIC_INFO[metric].opt_in} | {*on.split(",")}
    shown = {line[1] for line in lines if line[0] == NAMESPACE}
    assert shown == written
    (watched,) = [each["properties"]["alarms"] for each in widgets if each["type"] == "alarm"]
    assert set(watched) == {each.outputs["arn"] for each in graph.of(ALARM)}
    assert {each["properties"]["region"] for each in widgets if each["type"] == "metric"} == {"ap-southeast-1"}


def test_widgets_do_not_overlap_and_stay_within_the_page():
    names = Names(project="node-fleet", stack="dev")
    opt_in = [metric for metric in Metric if METRIC_INFO[metric].opt_in]
    body = json.loads(cloudwatch.body(names, "eu-west-1", ["a", "b", "c"], opt_in, ["arn"]))
    taken = set()
    for each in body["widgets"]:
        cells = {
            (x, y)
            for x in range(each["x"], each["x"] + each["width"])
            for y in range(each["y"], each["y"] + each["height"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


def test_a_shorter_burst_lets_the_alarm_come_earlier():
    usual, short = _stack({}), _stack({"interval": "3m", "burst": {"budget": "60s"}, "trust": {"spacing": 0.5}})
    assert near_time_limit(RECONCILE, short.clusters) < near_time_limit(RECONCILE, usual.clusters)
    assert near_time_limit(replace(RECONCILE, timeout=200), usual.clusters) == 155
