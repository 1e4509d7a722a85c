"""What Prometheus is told to scrape, against what the policy's default queries ask it for."""

import re
import shutil
import subprocess

import pytest
import yaml

from nodefleet.adapters.prometheus import for_pool
from nodefleet.model.serialization import fields_of
from nodefleet.policy.pool import Queries
from nodefleet_infra import manifests
from nodefleet_infra.security_groups import ALLOWED, NODE_EXPORTER, PROMETHEUS
from support.shipped_metrics import KNOWN, SITE, node_target, problems_in, relabelled, scrape_configs, scraped, used_by
from support.wording import assert_wording

PROMTOOL = shutil.which("promtool")
promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing (Debian: prometheus): NOT checked")
DEFAULT_QUERIES = {field.name: getattr(Queries(), field.name) for field, _ in fields_of(Queries)}
WORKER, SERVER = "i-0123456789abcdef0", "i-0fedcba9876543210"


def matchers(query):
    """Every selector of a query as (metric, {label: value}); the default queries know only `=`."""
    for metric, inside in re.findall(r"(\w+)\{([^}]*)\}", query):
        yield metric, dict(re.findall(r'(\w+)="([^"]*)"', inside))


def objects(name):
    return list(yaml.safe_load_all(manifests.rendered(SITE)[manifests.file_of(name)]))


def container(name):
    (found,) = (each for each in objects(name) if each["kind"] in ("Deployment", "DaemonSet"))
    return found["spec"]["template"]["spec"]["containers"][0]


# ── the default queries ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("query", DEFAULT_QUERIES.values(), ids=DEFAULT_QUERIES)
def test_a_default_query_uses_only_what_is_scraped(query):
    assert not problems_in(query)


@pytest.mark.parametrize("query", DEFAULT_QUERIES.values(), ids=DEFAULT_QUERIES)
def test_a_default_query_selects_the_pools_own_workers_and_nobody_else(query):
    told = for_pool(query, "batch")
    own = scraped("node", node_target(WORKER, pool="batch"))
    other = scraped("node", node_target(WORKER, pool="web"))
    server = scraped("node", node_target(SERVER, server=True))
    for metric, wanted in matchers(told):
        selects = {
            label: value
            for label, value in wanted.items()
            if label not in (KNOWN[metric].labels if metric in KNOWN else ())
        }
        assert {"role", "pool"} <= set(selects)
        assert selects.items() <= own.items()
        assert not selects.items() <= other.items()
        assert not selects.items() <= server.items()


def test_every_default_query_was_looked_at():
    assert set(DEFAULT_QUERIES) == {"cpu", "memory", "nodes", "idle", "load"}
    assert all(list(matchers(query)) for query in DEFAULT_QUERIES.values())


@pytest.mark.parametrize("query", DEFAULT_QUERIES.values(), ids=DEFAULT_QUERIES)
def test_a_rate_counts_only_for_machines_that_answer_now(query):
    """It goes on for its whole window after an instance has died; whatever else is asked ends with the failed
    scrape."""
    up = 'and on (node) up{job="node",role="worker",pool="$pool"} == 1'
    assert len(re.findall(r"rate\(", query)) == len(re.findall(rf"rate\([^)]*\) {re.escape(up)}\)", query))


def test_nodes_are_named_as_kubernetes_names_them():
    """The query for idle nodes answers by `node`, and the loop looks its nodes up by that name."""
    assert used_by(DEFAULT_QUERIES["idle"]).grouped == {"node"}
    assert scraped("node", node_target(WORKER, pool="batch"))["node"] == WORKER


def test_the_reader_of_queries_can_find_something_wrong():
    assert_wording(problems_in("sum(node_gone_total)"))
    assert_wording(problems_in('kube_pod_info{zone="a"}'))
    assert_wording(problems_in("sum by (colour) (node_load5)"))


# ── targets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_machines_are_scraped_where_node_exporter_listens():
    assert scraped("node", node_target(WORKER, pool="batch"))["__address__"] == f"10.20.1.5:{NODE_EXPORTER}"
    assert container("node-exporter")["ports"][0]["hostPort"] == NODE_EXPORTER
    assert f"--web.listen-address=:{NODE_EXPORTER}" in container("node-exporter")["args"]


def test_the_server_is_told_apart_and_has_no_pool():
    found = scraped("node", node_target(SERVER, server=True))
    assert found["role"] == "server"
    assert "pool" not in found


def test_node_exporter_runs_every_collector_whose_metrics_are_used():
    enabled = {arg.removeprefix("--collector.") for arg in container("node-exporter")["args"]}
    assert {metric.collector for metric in KNOWN.values() if metric.collector} <= enabled


def test_of_containers_only_what_is_used_is_kept():
    rules = scrape_configs()["containers"]["metric_relabel_configs"]
    used = {name for name, metric in KNOWN.items() if metric.job == "containers"}
    for name in used:
        assert relabelled(rules, {"__name__": name, "pod": "p"}) is not None
        assert relabelled(rules, {"__name__": name}) is None  # the sum of a cgroup above the pods
    assert relabelled(rules, {"__name__": "container_fs_reads_total", "pod": "p"}) is None


@pytest.mark.parametrize(
    ("annotations", "address", "path"),
    [
        ({"scrape": "true", "port": "9100"}, "10.42.1.7:9100", "/metrics"),
        ({"scrape": "true", "port": "80", "path": "/custom"}, "10.42.1.7:80", "/custom"),
        ({"scrape": "true"}, "10.42.1.7:8080", "/metrics"),
        ({"scrape": "false", "port": "9100"}, None, None),
        ({}, None, None),
    ],
)
def test_pods_that_ask_for_it_are_scraped(annotations, address, path):
    target = {
        "__address__": "10.42.1.7:8080",
        "__metrics_path__": "/metrics",
        "__meta_kubernetes_pod_ip": "10.42.1.7",
        "__meta_kubernetes_pod_phase": "Running",
        "__meta_kubernetes_namespace": "shop",
    }
    target |= {f"__meta_kubernetes_pod_annotation_prometheus_io_{key}": value for key, value in annotations.items()}
    found = scraped("pods", target)
    assert (found and (found["__address__"], found["__metrics_path__"], found["namespace"])) == (
        (address, path, "shop") if address else None
    )


def test_kube_state_metrics_is_found_by_its_pod_and_its_port():
    (deployment,) = (each for each in objects("kube-state-metrics") if each["kind"] == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in container("kube-state-metrics")["ports"]}
    name = labels["app.kubernetes.io/name"]

    def kept(port):
        target = {
            "__address__": "10.42.0.9:8080",
            "__meta_kubernetes_pod_label_app_kubernetes_io_name": name,
            "__meta_kubernetes_pod_container_port_name": port,
        }
        return scraped("kube-state-metrics", target) is not None

    assert {port for port in ports if kept(port)} == {"metrics"}
    assert scrape_configs()["kube-state-metrics"]["honor_labels"] is True  # its `node` is the node that is told of


def test_kube_state_metrics_may_list_what_it_is_told_to_watch():
    (role,) = (each for each in objects("kube-state-metrics") if each["kind"] == "ClusterRole")
    allowed = {resource for rule in role["rules"] for resource in rule["resources"]}
    (watched,) = (arg for arg in container("kube-state-metrics")["args"] if arg.startswith("--resources="))
    assert set(watched.removeprefix("--resources=").split(",")) == allowed


def test_the_functions_may_reach_prometheus_and_prometheus_the_machines():
    assert f"--web.listen-address=:{PROMETHEUS}" in container("prometheus")["args"]
    ways = {(rule.source, rule.target, rule.port) for rule in ALLOWED}
    assert {("functions", "master", PROMETHEUS), ("master", "workers", NODE_EXPORTER)} <= ways


def test_readings_are_fifteen_seconds_old_and_a_week_is_kept():
    config = yaml.safe_load(manifests.configuration("prometheus", SITE))
    assert config["global"]["scrape_interval"] == "15s"
    args = container("prometheus")["args"]
    assert "--storage.tsdb.retention.time=7d" in args
    assert "--storage.tsdb.retention.size=20GB" in args


def test_pods_that_wait_are_told_within_fifteen_seconds():
    """At the worst: each has just been when something comes. A run needs its share of the half minute too."""
    config = yaml.safe_load(manifests.configuration("prometheus", SITE))
    (job,) = (each for each in config["scrape_configs"] if each["job_name"] == "kube-state-metrics")
    (group,) = yaml.safe_load(manifests.configuration("rules", SITE))["groups"]
    (route,) = yaml.safe_load(manifests.configuration("alertmanager", SITE))["route"]["routes"]
    times = [job["scrape_interval"], group["interval"], route["group_wait"]]
    assert sum(float(each.removesuffix("s")) for each in times) <= 15


# ── by Prometheus's own tools ────────────────────────────────────────────────────────────────────────────────────


def checked(*arguments, cwd):
    ran = subprocess.run([PROMTOOL, *arguments], cwd=cwd, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stdout + ran.stderr


@promtool
def test_promtool_takes_the_configuration(tmp_path):
    """Debian's is built without Kubernetes discovery: targets from a file stand in for it, everything else is ours."""
    config = yaml.safe_load(manifests.configuration("prometheus", SITE))
    config["rule_files"] = ["rules.yml"]
    for job in config["scrape_configs"]:
        if job.pop("kubernetes_sd_configs", None):
            job["file_sd_configs"] = [{"files": ["targets.json"]}]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = job["tls_config"]["ca_file"] = "file"
    (tmp_path / "targets.json").write_text("[]")
    (tmp_path / "file").write_text("")
    (tmp_path / "rules.yml").write_text(manifests.configuration("rules", SITE))
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    checked("check", "config", "--lint=all", "prometheus.yml", cwd=tmp_path)


@promtool
def test_promtool_takes_the_default_queries(tmp_path):
    rules = [{"record": f"default:{name}", "expr": for_pool(query, "batch")} for name, query in DEFAULT_QUERIES.items()]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    checked("check", "rules", "rules.yml", cwd=tmp_path)


@promtool
def test_an_unschedulable_pod_alerts_at_once_and_each_new_one_again(tmp_path):
    def alert(pod):
        labels = {"namespace": "shop", "pod": pod, "wake": "true"}
        return {"exp_labels": labels, "exp_annotations": {"summary": f"shop/{pod} finds no node"}}

    (tmp_path / "rules.yml").write_text(manifests.configuration("rules", SITE))
    series = [
        {"series": 'kube_pod_status_unschedulable{namespace="shop",pod="a",uid="1"}', "values": "0 1 1 1"},
        {"series": 'kube_pod_status_unschedulable{namespace="shop",pod="b",uid="2"}', "values": "_ _ 1 1"},
    ]
    expected = {"0s": [], "15s": [alert("a")], "30s": [alert("a"), alert("b")]}
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": series,
                "alert_rule_test": [
                    {"eval_time": at, "alertname": "UnschedulablePod", "exp_alerts": alerts}
                    for at, alerts in expected.items()
                ],
            }
        ],
    }
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(tests))
    checked("test", "rules", "tests.yml", cwd=tmp_path)
