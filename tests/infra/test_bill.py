"""What a stack costs: counted as the graph is made, and with every alarm in the cheapest form."""

import json
from dataclasses import replace

import pytest
import yaml

from nodefleet_infra.alarms import JOIN_FAILURES, LEAN_METRICS, METRICS
from nodefleet_infra.bill import dev_stack, items, lean, own_usd, requests
from nodefleet_infra.own_prices import PRICES
from support.infra_mocks import DEV, ROOT, declared, deployed_stack


def lean_stack():
    config = yaml.safe_load((ROOT / DEV).read_text())["config"]
    return declared({**config, "node-fleet:autoscaler": {"lean": True}}, "dev")


def alarms_of(graph):
    return {each.inputs["name"]: each.inputs for each in graph.of("MetricAlarm")}


def alerts_of(graph):
    """Prometheus's, as the master's manifests have them."""
    (text,) = (each.inputs["content"] for each in graph.of("BucketObjectv2") if "prometheus.yaml" in each.name)
    (held,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap")
    groups = [
        group for name in ("server.yml", "readings.yml") for group in yaml.safe_load(held["data"][name])["groups"]
    ]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_lean_keeps_every_alarm_and_makes_no_dashboard():
    """CPU and memory are then watched by Prometheus, with the same limits for as long, and told to the same
    operators."""
    full, thin = deployed_stack(DEV), lean_stack()
    moved = alarms_of(full).keys() - alarms_of(thin).keys()
    assert moved == {"node-fleet-dev-shop-cpu-high", "node-fleet-dev-shop-memory-high"}
    assert alarms_of(thin).keys() | alerts_of(thin).keys() == alarms_of(full).keys() | alerts_of(full).keys()
    for name in moved:
        was, is_now = alarms_of(full)[name], alerts_of(thin)[name]
        assert is_now["annotations"]["limit"] == f"{was['threshold']:g}"
        assert is_now["for"] == f"{was['period'] * was['evaluationPeriods']:g}s"
        (topic,) = was["alarmActions"]
        assert topic.endswith(is_now["labels"]["tell"])
    assert (len(full.of("Dashboard")), len(thin.of("Dashboard"))) == (1, 0)


def test_lean_has_no_key_and_its_alarms_still_reach_people():
    thin = lean_stack()
    assert not thin.of("kms/key:Key")
    topics = {each.name: each for each in thin.of("sns/topic:Topic")}
    assert not topics["critical"].inputs.get("kmsMasterKeyId")
    assert topics["wake"].inputs["kmsMasterKeyId"] == "alias/aws/sns"
    (policy,) = (each.inputs["policy"] for each in thin.of("RolePolicy") if each.name == "shop-master")
    assert "sns:Publish" in policy
    assert "kms:" not in policy
    assert {action for each in alarms_of(thin).values() for action in each["alarmActions"]} == {
        topics[name].outputs["arn"] for name in ("critical", "warning")
    }


def test_lean_writes_what_alarms_watch_and_nothing_else():
    graph = lean_stack()
    watched = set()
    for alarm in alarms_of(graph).values():
        series = [alarm, *(query["metric"] for query in alarm.get("metricQueries") or () if query.get("metric"))]
        watched |= {each["metricName"] for each in series if each.get("namespace") == "NodeFleet"}
    assert watched - {JOIN_FAILURES} == {metric.value for metric in LEAN_METRICS}
    told = graph.one("lambda/function:Function", "reconcile").inputs["environment"]["variables"]["NODEFLEET_METRICS"]
    assert told == "only:" + ",".join(metric.value for metric in LEAN_METRICS)
    assert set(METRICS) <= set(LEAN_METRICS)


@pytest.mark.parametrize("region", PRICES)
def test_lean_is_below_five_dollars_at_list_prices_and_the_full_one_is_said_as_it_is(region):
    def own(stack, *, free):
        return sum(item.beyond_free if free else item.usd for item in items(stack) if item.part)

    full = replace(dev_stack(), region=region)
    thin = lean(full)
    assert own(thin, free=True) < own(thin, free=False) < 5 < own(full, free=False)


def test_lean_keeps_slacks_webhook_in_a_parameter_that_only_notify_reads():
    graph = lean_stack()
    (parameter,) = graph.of("ssm/parameter:Parameter")
    assert (parameter.inputs["name"], parameter.inputs["type"]) == ("/node-fleet-dev/slack", "SecureString")
    assert "slack" not in {each.name for each in graph.of("secretsmanager/secret:Secret")}
    policies = {each.name: json.loads(each.inputs["policy"])["Statement"] for each in graph.of("RolePolicy")}
    reading = {
        name: [each["Resource"] for each in statements if "ssm:GetParameter" in each["Action"]]
        for name, statements in policies.items()
    }
    assert {name for name, found in reading.items() if found} == {"notify"}
    assert reading["notify"] == [parameter.outputs["arn"]]
    told = graph.one("lambda/function:Function", "notify").inputs["environment"]["variables"]
    assert told["NODEFLEET_SLACK_SECRET"] == graph.exports["slackSecret"] == parameter.inputs["name"]


def test_with_lean_one_bad_run_rings_nothing_and_an_outage_rings_when_it_did():
    """Its figures are then written while something fails: the first period may hold one value."""
    full, thin = alarms_of(deployed_stack(DEV)), alarms_of(lean_stack())
    outages = [f"node-fleet-dev-shop-{key}-unavailable" for key in ("api-server", "ec2", "prometheus")]
    assert [(full[name]["evaluationPeriods"], thin[name]["evaluationPeriods"]) for name in outages] == [(1, 2)] * 3
    for key in ("api-server", "ec2"):
        reminder = thin[f"node-fleet-dev-shop-{key}-unavailable-reminder"]
        assert reminder["metricQueries"][0]["metric"]["stat"] == "Sum"
        assert reminder["threshold"] == 2  # ticks of five minutes
    assert thin["node-fleet-dev-shop-scaling-failures"]["evaluationPeriods"] == 1


def test_what_is_counted_was_measured():
    day = requests()
    assert 24 * 30 < day["runs"] < 24 * 30 + 20  # every two minutes, and urgent ones
    assert day["looks"] >= day["runs"]
    assert day["write_units"] > 2 * day["looks"]  # a transaction counts twice


def test_the_functions_are_told_what_they_cost_and_nothing_where_prices_are_not_known():
    (item,) = (each.inputs["item"] for each in deployed_stack(DEV).of("TableItem") if each.name.endswith("deployment"))
    parts = {"metrics", "alarms", "dashboard", "secrets", "key", "functions", "state", "logs"}
    assert own_usd(dev_stack()).keys() == parts
    assert "own_usd" in item
    assert own_usd(replace(dev_stack(), region="eu-west-1")) == {}


def test_prices_of_the_dev_stack_are_those_of_its_region():
    stack = dev_stack()
    known = PRICES[stack.region].hours
    assert {name: known[name] for name in stack.config.prices} == stack.config.prices
