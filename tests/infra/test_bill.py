"""What a stack costs: counted as the graph is made, and with every alarm in the cheapest form."""

from dataclasses import replace

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
    """CPU and memory are then watched by Prometheus, with the same limits for as long, and told to the same people."""
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


def test_lean_is_below_five_dollars_with_what_aws_gives_and_the_full_one_is_said_as_it_is():
    def own(stack, *, free):
        return sum(item.beyond_free if free else item.usd for item in items(stack) if item.part)

    full, thin = dev_stack(), lean(dev_stack())
    assert own(thin, free=True) < 5 < own(thin, free=False) < own(full, free=False)


def test_what_is_counted_was_measured():
    day = requests()
    assert day["runs"] == 24 * 30 + 1  # every two minutes, and one that was woken
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
