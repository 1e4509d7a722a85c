"""What Prometheus watches of the master, by promtool's own unit tests, and who is told."""

import re
import shutil
import subprocess
from datetime import timedelta

import pytest
import yaml

from nodefleet.adapters.aws.incoming import decode_alarms
from nodefleet.model.serialization import ValidationError
from nodefleet.notifications.alarm_catalog import MEANINGS
from nodefleet_infra import manifests
from nodefleet_infra.names import Names
from nodefleet_infra.server_rules import longest_pause, server_rules
from nodefleet_infra.stack import stack_from
from support.alert_message import message
from support.infra_mocks import DEV, deployed_stack

PROMTOOL = shutil.which("promtool")
promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing (Debian: prometheus): NOT checked")
CRITICAL = {"master-disk", "snapshots-late", "keeping-late", "login-expiring"}
WARNING = {"updates-late", "reboot-due", "scrape-refused"}
ROOT = 'role="server", mountpoint="/"'
OF_SERVER = 'role="server"'


def rules(**master):
    data = {
        "network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
        "clusters": [{"name": "shop", "master": master}],
    }
    (cluster,) = stack_from("node-fleet", "dev", "ap-southeast-1", data).clusters
    made = server_rules(Names(project="node-fleet", stack="dev"), cluster)
    return {each["alert"].removeprefix("node-fleet-dev-shop-"): each for each in made}


def test_each_has_a_meaning_a_topic_and_a_name_that_messages_know():
    made = rules()
    assert {key: rule["labels"]["tell"] for key, rule in made.items()} == {
        **dict.fromkeys(CRITICAL, "critical"),
        **dict.fromkeys(WARNING, "warning"),
    }
    assert all(rule["annotations"]["says"] == MEANINGS[key].says for key, rule in made.items())


def test_without_updates_nobody_waits_for_them():
    assert rules().keys() - rules(updates="off").keys() == {"updates-late", "reboot-due"}


@pytest.mark.parametrize(
    ("cron", "hours"), [("0 */6 * * *", 6), ("30 2 * * *", 24), ("0 3 * * 1", 7 * 24), ("0 1,2 * * *", 23)]
)
def test_a_snapshot_is_late_after_twice_the_longest_pause_of_its_schedule(cron, hours):
    assert longest_pause(cron) == timedelta(hours=hours)
    assert f"> {2 * hours * 3600} " in rules(snapshot_cron=cron)["snapshots-late"]["expr"]


@pytest.mark.parametrize("cron", ["every day", "0 25 * * *", ""])
def test_a_schedule_that_is_none_is_refused(cron):
    with pytest.raises(ValidationError) as refused:
        rules(snapshot_cron=cron)
    assert [each.path for each in refused.value.problems] == ["clusters[0].master.snapshot_cron"]


# Series of a master in order, a value in five minutes: promtool's time begins at 0.
WELL = {
    f"node_filesystem_avail_bytes{{{ROOT}}}": "20+0x2500",
    f"node_filesystem_size_bytes{{{ROOT}}}": "40+0x2500",
    f"node_fleet_snapshot_timestamp_seconds{{{OF_SERVER}}}": "0+300x2500",
    f"node_textfile_mtime_seconds{{{OF_SERVER}}}": "0+300x2500",
    f"node_fleet_login_expiry_timestamp_seconds{{{OF_SERVER}}}": "86400+300x2500",
    f"node_fleet_updates_timestamp_seconds{{{OF_SERVER}}}": "0+300x2500",
    f"node_fleet_reboot_due{{{OF_SERVER}}}": "0+0x2500",
    'prometheus_target_scrapes_exceeded_sample_limit_total{job="prometheus"}': "0+0x2500",
}


def firing(tmp_path, minutes, **changes):
    """Which alerts fire then, by promtool. A change names a series by the beginning of its name."""
    series = dict(WELL)
    for beginning, values in changes.items():
        (name,) = (each for each in WELL if each.startswith(beginning))
        if values is None:
            del series[name]
        else:
            series[name] = values
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "s", "rules": [*rules().values()]}]}))
    silent = [
        {"eval_time": f"{minutes}m", "alertname": f"node-fleet-dev-shop-{key}", "exp_alerts": []} for key in rules()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "5m",
        "tests": [{"interval": "5m", "input_series": inputs, "alert_rule_test": silent}],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    ran = subprocess.run(  # noqa: S603
        [PROMTOOL, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    said = ran.stdout + ran.stderr
    found = set(re.findall(r"alertname: node-fleet-dev-shop-([\w-]+), time", said))
    assert bool(found) == bool(ran.returncode), said
    return found


@promtool
def test_a_master_that_is_well_alarms_nobody(tmp_path):
    assert firing(tmp_path, 2000) == set()


@promtool
@pytest.mark.parametrize(
    ("minutes", "changes", "expected"),
    [
        (30, {"node_filesystem_avail": "5+0x2500"}, {"master-disk"}),
        (30, {"node_filesystem_avail": "7+0x2500"}, set()),
        (12 * 60, {"node_fleet_snapshot": "0+0x2500"}, set()),
        (13 * 60, {"node_fleet_snapshot": "0+0x2500"}, {"snapshots-late"}),
        (20, {"node_fleet_snapshot": None}, {"snapshots-late"}),
        (60, {"node_textfile": "0+0x2500"}, {"keeping-late"}),
        (15 * 60, {"node_fleet_login": "86400+0x2500"}, set()),
        (17 * 60, {"node_fleet_login": "86400+0x2500"}, {"login-expiring"}),
        (20, {"node_fleet_login": None}, {"login-expiring"}),
        (4 * 24 * 60, {"node_fleet_updates": "0+0x2500"}, {"updates-late"}),
        (6 * 24 * 60, {"node_fleet_reboot": "1+0x2500"}, set()),
        (8 * 24 * 60, {"node_fleet_reboot": "1+0x2500"}, {"reboot-due"}),
        (30, {"prometheus_target": "0+1x2500"}, {"scrape-refused"}),
    ],
)
def test_each_alarm_rings_for_its_own_reason_and_in_its_time(tmp_path, minutes, changes, expected):
    assert firing(tmp_path, minutes, **changes) == expected


def test_a_pod_gets_no_more_than_its_share_of_prometheus():
    graph = deployed_stack(DEV)
    (text,) = (each.inputs["content"] for each in graph.of("BucketObjectv2") if each.name.endswith("prometheus.yaml"))
    config = yaml.safe_load(next(yaml.safe_load_all(text))["data"]["prometheus.yml"])
    (pods,) = (each for each in config["scrape_configs"] if each["job_name"] == "pods")
    limits = {"sample_limit", "label_limit", "label_name_length_limit", "label_value_length_limit", "body_size_limit"}
    assert limits <= pods.keys()


def test_the_dev_stack_ships_them_and_brings_the_critical_ones_to_the_critical_topic():
    graph = deployed_stack(DEV)
    shipped = {each.name.rpartition("node-fleet-")[2]: each.inputs["content"] for each in graph.of("BucketObjectv2")}
    found = yaml.safe_load(next(yaml.safe_load_all(shipped["prometheus.yaml"]))["data"]["server.yml"])["groups"]
    assert {each["alert"].removeprefix("node-fleet-dev-shop-") for each in found[0]["rules"]} == CRITICAL | WARNING
    told = yaml.safe_load(next(yaml.safe_load_all(shipped["alertmanager.yaml"]))["data"]["alertmanager.yml"])
    topics = {each.name: each.outputs["arn"] for each in graph.of("sns/topic:Topic")}
    by_name = {each["name"]: each for each in told["receivers"]}
    for severity in ("critical", "warning"):
        (route,) = (each for each in told["route"]["routes"] if each["matchers"] == [f'tell = "{severity}"'])
        (sns,) = by_name[route["receiver"]]["sns_configs"]
        assert sns["topic_arn"] == topics[severity]
        rule = next(each for each in found[0]["rules"] if each["labels"]["tell"] == severity)
        rule = {**rule, "labels": {**rule["labels"], "pool": ""}}
        reason = re.sub(r"\{\{.*?\}\}", "90", rule["annotations"]["reason"])
        rule["annotations"] = {**rule["annotations"], "reason": reason}
        (news,) = decode_alarms([{"Sns": {"Message": message(sns["message"], rule, "firing")}}]).news
        assert news.told.name == rule["alert"]


def test_node_exporter_looks_where_the_server_writes():
    site = manifests.Site(cluster="dev-shop", region="ap-southeast-1", wake_topic="", grafana=False)
    text = manifests.rendered(site)[manifests.file_of("node-exporter")]
    assert "--collector.textfile.directory=/host/var/lib/node-fleet/metrics" in text
