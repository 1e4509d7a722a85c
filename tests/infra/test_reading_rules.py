"""Alarms on readings that come from Prometheus: the rules, by Prometheus's own tool, and what `notify` is told."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
import yaml

from nodefleet.adapters.aws.incoming import decode_alarms
from nodefleet.notifications.alarm_catalog import MEANINGS, alarm_text
from nodefleet.notifications.incoming import AlarmState
from nodefleet_infra import iam, manifests
from nodefleet_infra.names import Names
from nodefleet_infra.reading_rules import reading_rules
from nodefleet_infra.stack import stack_from
from nodefleet_infra.watched_readings import SATURATED_PERCENT, TOO_SLOW
from support.alert_message import message
from support.iam_evaluator import Request, allows, verdict
from support.iam_samples import BUSY_MASTER, PLACE, PLAIN_MASTER
from support.infra_mocks import DEV, ROOT, declared
from support.shipped_metrics import SITE
from support.wording import assert_wording

NAMES = Names(project="node-fleet", stack="dev")
PROMTOOL, SHELL = shutil.which("promtool"), shutil.which("sh")
promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing (Debian: prometheus): NOT checked")
TOPIC = "arn:aws:sns:ap-southeast-1:123456789012:node-fleet-dev-warning"
QUERIES = {"orders": "sum(orders_waiting)", "p95": "scalar(p95_ms)", "busy": 'sum(busy{pool="$pool"})'}
RULE = {"kind": "queue-and-latency", "name": "jobs", "queue": "orders", "p95_ms": "p95", "busy": "busy"}


def readings(queries):
    return {name: {"kind": "prometheus", "query": query} for name, query in queries.items()}


def policy(queries=None, rule=None, pool="web"):
    only = {"name": pool, "readings": readings(queries or QUERIES), "custom": [rule or RULE]}
    return {"pools": [only, {"name": "rest"}]}


def cluster(wanted):
    network = {"zones": ["ap-southeast-1a", "ap-southeast-1b"]}
    data = {"network": network, "clusters": [{"name": "shop", "policy": wanted}]}
    return stack_from("node-fleet", "dev", "ap-southeast-1", data).clusters[0]


def rules_of(wanted):
    return reading_rules(NAMES, cluster(wanted))


def site(wanted):
    return replace(SITE, reading_rules=rules_of(wanted), warning_topic=TOPIC)


def alerts(wanted):
    return {each["alert"]: each for each in rules_of(wanted) if "alert" in each}


# ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_reading_is_recorded_as_the_policy_asks_for_it():
    recorded = {tuple(each["labels"].values()): each["expr"] for each in rules_of(policy()) if "record" in each}
    assert recorded == {
        ("web", "orders"): "sum(orders_waiting)",
        ("web", "p95"): "scalar(p95_ms)",
        ("web", "busy"): 'sum(busy{pool="web"})',
        ("web",): 'count(up{job="node",role="worker",pool="web"} == 1)',
    }


def test_a_reading_that_two_rules_use_is_recorded_once():
    rules = [RULE, {"kind": "threshold", "name": "more", "reading": "orders", "limit": 10}]
    wanted = {"readings": readings(QUERIES), "custom": rules}
    recorded = [json.dumps(each) for each in rules_of(wanted) if "record" in each]
    assert len(recorded) == len(set(recorded)) == 4


def test_each_alarm_has_the_limits_that_its_kind_has_and_a_name_that_messages_know():
    found = {name: (each["expr"].rpartition(" > ")[2], each["for"]) for name, each in alerts(policy()).items()}
    assert found == {
        "node-fleet-dev-shop-web-0-queue-growing": ("5.0", "2m"),
        "node-fleet-dev-shop-web-0-latency-high": ("750.0", "3m"),
        "node-fleet-dev-shop-web-0-pool-saturated": ("90", "5m"),
    }
    for name, each in alerts(policy()).items():
        assert each["annotations"]["says"].startswith(alarm_text(name).says)
        assert each["labels"]["tell"] == "warning"


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        ({"kind": "threshold", "reading": "orders", "quantity": "queue"}, {"queue-growing"}),
        ({"kind": "threshold", "reading": "p95", "quantity": "latency"}, {"latency-high"}),
        ({"kind": "threshold", "reading": "p95", "quantity": "errors"}, set()),
        ({"kind": "per-worker-queue", "queue": "orders"}, {"queue-growing"}),
        (
            {"kind": "clear-time", "queue": "orders", "running": "busy", "job_seconds": "p95"},
            {"queue-growing", "pool-saturated"},
        ),
        ({"kind": "job-demand", "jobs": "orders"}, {"queue-growing"}),
        (RULE, {"queue-growing", "latency-high", "pool-saturated"}),
    ],
)
def test_every_kind_of_rule_has_the_alarms_that_its_readings_allow(rule, keys):
    assert {
        key for key in MEANINGS for name in alerts(policy(rule={"name": "x", **rule})) if name.endswith(key)
    } == keys


def test_the_page_tells_the_same_limits():
    page = (ROOT / "docs/watching.md").read_text()
    for key, words in {
        "queue-growing": "more than `targets.queue_growth` (5) in a second, for 2 minutes",
        "latency-high": f"more than {TOO_SLOW} × the target, for 3 minutes",
        "pool-saturated": f"more than {SATURATED_PERCENT} % of the pool's workers, for 5 minutes",
    }.items():
        assert re.search(rf"^\| `{key}` \|.*\| {re.escape(words)} \|$", page, re.MULTILINE), key


def test_a_policy_without_such_readings_has_no_rules():
    assert rules_of({}) == ()
    sqs = {"kind": "sqs", "queue_url": "https://sqs.eu-west-1.amazonaws.com/1/orders"}
    rule = {"kind": "per-worker-queue", "name": "x", "queue": "orders"}
    assert rules_of({"readings": {"orders": sqs}, "custom": [rule]}) == ()
    assert yaml.safe_load(manifests.configuration("readings", SITE)) == {"groups": []}
    assert manifests.configuration("alertmanager", SITE).count("topic_arn") == 1


# ── by Prometheus's own tool ─────────────────────────────────────────────────────────────────────────────────────


def told_by_promtool(folder, *arguments):
    ran = subprocess.run([PROMTOOL, *arguments], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    return ran.returncode, ran.stdout + ran.stderr


def fires(folder, name, series, minutes):
    """The minutes, of those asked about, at which an alarm is up. Series as promtool writes them, a value a minute."""
    wanted = policy()
    (folder / "rules.yml").write_text(manifests.configuration("readings", site(wanted)))
    alert = alerts(wanted)[name]

    def at(minute, up):
        values = {"exp_labels": alert["labels"], "exp_annotations": {}}
        asked = {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": [values] if up else []}
        inputs = [{"series": key, "values": value} for key, value in series.items()]
        return {"interval": "1m", "input_series": inputs, "alert_rule_test": [asked]}

    found = []
    for minute in minutes:
        tests = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [at(minute, up=False)]}
        (folder / "tests.yml").write_text(yaml.safe_dump(tests))
        code, said = told_by_promtool(folder, "test", "rules", "tests.yml")
        assert code == 0 or "got:[" in re.sub(r"\s", "", said), said
        if code:
            found.append(minute)
    return found


@promtool
@pytest.mark.parametrize(
    ("alarm", "series", "up"),
    [
        ("queue-growing", {"orders_waiting": "0+301x10"}, [4, 6]),
        ("queue-growing", {"orders_waiting": "0+300x10"}, []),
        ("queue-growing", {"orders_waiting": "900x10"}, []),
        ("queue-growing", {"orders_waiting": "0+3000x2 6000x8"}, []),
        ("latency-high", {"p95_ms": "751x10"}, [4, 6]),
        ("latency-high", {"p95_ms": "750x10"}, []),
        ("latency-high", {"p95_ms": "900x2 700x8"}, []),
    ],
)
def test_an_alarm_is_raised_when_it_has_lasted_and_not_before(tmp_path, alarm, series, up):
    assert fires(tmp_path, f"node-fleet-dev-shop-web-0-{alarm}", series, [1, 4, 6]) == up


@promtool
@pytest.mark.parametrize(("busy", "up"), [("10x10", [6]), ("9x10", []), ("10x3 1x7", [])])
def test_a_pool_is_saturated_by_its_own_nodes_and_not_by_those_of_others(tmp_path, busy, up):
    series = {'busy{pool="web"}': busy, 'busy{pool="rest"}': "500x10"}
    for number in range(10):
        series |= {f'up{{job="node",role="worker",pool="web",node="i-{number}"}}': "1x10"}
        series |= {f'up{{job="node",role="worker",pool="rest",node="i-1{number}"}}': "1x10"}
    assert fires(tmp_path, "node-fleet-dev-shop-web-0-pool-saturated", series, [4, 6]) == up


ODD = {'a "b" \\ {{ c }}': "sum(x)"}


@promtool
def test_whatever_somebody_names_a_reading_prometheus_takes_it(tmp_path):
    (name,) = ODD
    wanted = policy(ODD, {"kind": "per-worker-queue", "name": name, "queue": name})
    (tmp_path / "rules.yml").write_text(manifests.configuration("readings", site(wanted)))
    code, said = told_by_promtool(tmp_path, "check", "rules", "rules.yml")
    assert code == 0, said


# ── a query that Prometheus does not understand ──────────────────────────────────────────────────────────────────


@promtool
@pytest.mark.parametrize(("query", "kept"), [("sum(orders_waiting)", True), ("sum(orders_waiting", False)])
def test_a_slip_in_a_query_does_not_keep_prometheus_from_starting(tmp_path, query, kept):
    """It does not start with a rule that it cannot parse. What stands in for the rules says what is wrong."""
    wanted = site(policy({**QUERIES, "orders": query}))
    configuration = tmp_path / "etc"
    configuration.mkdir()
    (tmp_path / "rules").mkdir()
    for name in ("readings", "refused"):
        (configuration / f"{name}.yml").write_text(manifests.configuration(name, wanted))
    objects = yaml.safe_load_all(manifests.rendered(wanted)[manifests.file_of("prometheus")])
    (pod,) = (each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment")
    (check,) = pod["initContainers"]
    assert check["command"] == ["sh", "-c"]
    script = check["args"][0].replace("/etc/prometheus", str(configuration)).replace("/rules/", f"{tmp_path}/rules/")
    ran = subprocess.run([SHELL, "-c", script], capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stderr
    code, said = told_by_promtool(tmp_path, "check", "rules", "rules/readings.yml")
    assert code == 0, said
    taken = (tmp_path / "rules/readings.yml").read_text()
    assert (taken == manifests.configuration("readings", wanted)) == kept
    assert ("refused-queries" in taken) != kept
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert f"{mounted['rules']}/readings.yml" in manifests.configuration("prometheus", wanted)


# ── to operators ─────────────────────────────────────────────────────────────────────────────────────────────────


def people(wanted):
    config = yaml.safe_load(manifests.configuration("alertmanager", site(wanted)))
    return config["route"]["routes"], {each["name"]: each for each in config["receivers"]}


@pytest.mark.parametrize(("status", "state"), [("firing", AlarmState.ALARM), ("resolved", AlarmState.OK)])
def test_notify_takes_the_message_for_an_alarm(status, state):
    _, receivers = people(policy())
    (sns,) = receivers["people-warning"]["sns_configs"]
    assert (sns["topic_arn"], sns["send_resolved"]) == (TOPIC, True)
    alert = alerts(policy())["node-fleet-dev-shop-web-0-latency-high"]
    alert = {**alert, "annotations": {**alert["annotations"], "reason": "p95: 812"}}
    found = decode_alarms([{"Sns": {"MessageId": "1", "Message": message(sns["message"], alert, status)}}])
    assert found.spoiled == ()
    (told,) = (each.told for each in found.news)
    assert (told.name, told.state, told.source) == (alert["alert"], state, "Prometheus")
    assert (told.cluster, told.pool) == ("dev-shop", "web")
    assert told.rule == "p95 > 750 within 3 min"
    assert told.reason == "p95: 812"
    assert_wording(told.description)


def test_each_alert_is_a_message_of_its_own_and_wakes_nobody():
    routes, _ = people(policy())
    wake, tell = routes
    assert wake["matchers"] == ['wake = "true"']
    assert tell["matchers"] == ['tell = "warning"']
    assert tell["group_by"] == ["..."]
    assert {key for each in alerts(policy()).values() for key in each["labels"]} == {"tell", "pool"}


def test_what_stands_in_for_refused_rules_is_told_too():
    ((rule,),) = (each["rules"] for each in yaml.safe_load(manifests.configuration("refused", SITE))["groups"])
    _, receivers = people(policy())
    rule["labels"] |= {"pool": ""}  # as a template gives what is not there
    text = message(receivers["people-warning"]["sns_configs"][0]["message"], rule, "firing")
    ((told,), spoiled) = ([each.told for each in decode_alarms([{"Sns": {"Message": text}}]).news], ())
    assert spoiled == ()
    assert told.name == "dev-shop-refused-queries"
    assert "check-readings" in told.description


# ── deployed ─────────────────────────────────────────────────────────────────────────────────────────────────────


def stack(**changes):
    config = yaml.safe_load((ROOT / DEV).read_text())["config"]
    config["node-fleet:clusters"] = [{"name": "shop", "policy": policy()}]
    return declared(config | {f"node-fleet:{key}": value for key, value in changes.items()}, "dev")


def manifest(graph, name):
    (text,) = (each.inputs["content"] for each in graph.of("BucketObjectv2") if each.name.endswith(f"{name}.yaml"))
    return next(yaml.safe_load_all(text))["data"]


def statements(graph):
    return json.loads(graph.one("iam/rolePolicy:RolePolicy", "shop-master").inputs["policy"])["Statement"]


def test_the_stack_ships_the_rules_the_route_and_the_right_to_publish():
    graph = stack()
    groups = yaml.safe_load(manifest(graph, "prometheus")["readings.yml"])["groups"]
    assert [each["alert"] for each in groups[0]["rules"] if "alert" in each] == [*alerts(policy())]
    config = yaml.safe_load(manifest(graph, "alertmanager")["alertmanager.yml"])
    (topic,) = (each for each in graph.of("sns/topic:Topic") if each.name == "warning")
    assert config["receivers"][-1]["sns_configs"][0]["topic_arn"] == topic.outputs["arn"]
    by_sid = {each["Sid"]: each for each in statements(graph)}
    assert topic.outputs["arn"] in by_sid["Warn"]["Resource"]
    assert by_sid["WarnKey"]["Resource"] == topic.inputs["kmsMasterKeyId"]


def test_switched_off_nothing_is_watched_and_the_master_may_not_publish_there():
    graph = stack(autoscaler={"enabled": False})
    assert not {each["Sid"] for each in statements(graph)} & {"Warn", "WarnKey"}
    shipped = manifest(graph, "prometheus")
    assert {file: yaml.safe_load(shipped[file])["groups"] for file in ("readings.yml", "server.yml")} == {
        "readings.yml": [],
        "server.yml": [],
    }
    assert "people" not in manifest(graph, "alertmanager")["alertmanager.yml"]


def test_the_master_publishes_to_the_warning_topic_and_uses_its_key_through_sns_alone():
    publish = Request("sns:Publish", BUSY_MASTER.warning_topic)
    by_sns = {"kms:ViaService": [f"sns.{PLACE.region}.amazonaws.com"]}
    encrypt = [Request(f"kms:{action}", BUSY_MASTER.warning_key, by_sns) for action in ("Decrypt", "GenerateDataKey")]
    granted = iam.master(BUSY_MASTER)
    assert {verdict(granted, each) for each in (publish, *encrypt)} == {verdict(granted, publish)}
    assert allows(granted, publish)
    assert not any(allows(iam.master(PLAIN_MASTER), each) for each in (publish, *encrypt))
    assert allows(granted, Request("sns:Publish", BUSY_MASTER.critical_topic))
    assert not allows(granted, Request("sns:Publish", BUSY_MASTER.warning_topic.replace("warning", "other")))
    assert not allows(granted, replace(encrypt[0], context={"kms:ViaService": ["s3.eu-west-1.amazonaws.com"]}))
    assert not allows(granted, replace(encrypt[0], resource=f"{BUSY_MASTER.warning_key}0"))


# ── CPU and memory, if CloudWatch is not to watch them ───────────────────────────────────────────────────────────


@promtool
@pytest.mark.parametrize(
    ("reading", "key", "limit", "seconds"), [("cpu", "cpu-high", 90, 300), ("memory", "memory-high", 80, 600)]
)
def test_the_busiest_pool_rings_when_every_value_was_above_the_limit_for_that_long(
    reading, key, limit, seconds, tmp_path
):
    pools = [{"name": name, "queries": {reading: f'{reading}_percent{{pool="$pool"}}'}} for name in ("web", "rest")]
    made = reading_rules(NAMES, cluster({"pools": pools}), utilisation=True)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "readings", "rules": [*made]}]}))

    def case(values, rings):
        alert = next(each for each in made if each.get("alert") == f"node-fleet-dev-shop-{key}")
        labels = dict(alert["labels"])
        value = f"{limit + 1}"
        texts = {name: text.replace('{{ printf "%.4g" $value }}', value) for name, text in alert["annotations"].items()}
        return {
            "interval": "30s",
            "input_series": [
                {"series": f'{reading}_percent{{pool="web"}}', "values": f"{limit - 20}x60"},
                {"series": f'{reading}_percent{{pool="rest"}}', "values": values},
            ],
            "alert_rule_test": [
                {
                    "eval_time": f"{seconds + 60}s",
                    "alertname": alert["alert"],
                    "exp_alerts": [{"exp_labels": labels, "exp_annotations": texts}] if rings else [],
                }
            ],
        }

    tests = [case(f"{limit + 1}x60", rings=True), case(f"{limit + 1}x3 {limit - 1} {limit + 1}x60", rings=False)]
    (tmp_path / "test.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}))
    ran = subprocess.run(  # noqa: S603
        [PROMTOOL, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_by_default_they_are_cloudwatchs():
    assert not [each for each in rules_of(policy()) if each.get("alert", "").endswith(("cpu-high", "memory-high"))]
