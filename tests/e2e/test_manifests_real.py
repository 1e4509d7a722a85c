"""The shipped manifests on a real API server, and the shipped configurations in a real Prometheus and Alertmanager."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import requests
import yaml
from kubernetes import client, config

from e2e.parts.kwok import ALIVE_LABEL
from e2e.parts.part import LOOPBACK, Part, answers, free_ports
from e2e.parts.prometheus import Alertmanager, Prometheus
from e2e.parts.recipes import program
from e2e.parts.running import RunningParts
from e2e.site.waiting import eventually
from nodefleet.adapters.aws.triggers import Trigger, triggers_in
from nodefleet.adapters.kubernetes.resources import NEEDED
from nodefleet.adapters.prometheus import for_pool
from nodefleet.model.names import LEAVING_TAINT
from nodefleet.policy.pool import Queries
from nodefleet_infra import manifests
from support.shipped_metrics import KNOWN, SITE, node_target, scrape_configs

DRY = {"dry_run": "All", "field_validation": "Strict"}


def shipped(name: str = "") -> list[dict[str, Any]]:
    files = manifests.rendered(replace(SITE, persistent_volumes=True))
    texts = [files[manifests.file_of(name)]] if name else list(files.values())
    return [each for text in texts for each in yaml.safe_load_all(text)]


# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def api(real_parts: RunningParts) -> Iterator[client.ApiClient]:
    found = config.new_client_from_config(str(real_parts.kubeconfig))
    client.CoreV1Api(found).create_namespace({"metadata": {"name": manifests.NAMESPACE}})
    yield found
    client.CoreV1Api(found).delete_namespace(manifests.NAMESPACE)


def create(api: client.ApiClient, each: dict[str, Any], **options: Any) -> None:
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    roles, policy = client.RbacAuthorizationV1Api(api), client.PolicyV1Api(api)
    namespace = each["metadata"].get("namespace", "")
    match each["kind"]:
        case "ConfigMap":
            core.create_namespaced_config_map(namespace, each, **options)
        case "ServiceAccount":
            core.create_namespaced_service_account(namespace, each, **options)
        case "Pod":
            core.create_namespaced_pod(namespace, each, **options)
        case "Deployment":
            apps.create_namespaced_deployment(namespace, each, **options)
        case "DaemonSet":
            apps.create_namespaced_daemon_set(namespace, each, **options)
        case "ClusterRole":
            roles.create_cluster_role(each, **options)
        case "ClusterRoleBinding":
            roles.create_cluster_role_binding(each, **options)
        case "CSIDriver":
            client.StorageV1Api(api).create_csi_driver(each, **options)
        case "StorageClass":
            client.StorageV1Api(api).create_storage_class(each, **options)
        case "PodDisruptionBudget":
            policy.create_namespaced_pod_disruption_budget(namespace, each, **options)
        case kind:
            raise AssertionError(f"{kind} is not known here")


@pytest.mark.parametrize(
    "each",
    [each for each in shipped() if each["kind"] != "Namespace"],
    ids=lambda each: f"{each['kind']}-{each['metadata']['name']}",
)
def test_the_api_server_takes_it(api: client.ApiClient, each: dict[str, Any]) -> None:
    create(api, each, **DRY)


@pytest.mark.parametrize(
    "each",
    [each for each in shipped() if each["kind"] in ("Deployment", "DaemonSet")],
    ids=lambda each: str(each["metadata"]["name"]),
)
def test_the_api_server_takes_its_pods(api: client.ApiClient, each: dict[str, Any]) -> None:
    """A workload with an impossible pod is accepted, and then nothing ever runs."""
    template = each["spec"]["template"]
    metadata = {**template["metadata"], "generateName": "p-", "namespace": manifests.NAMESPACE}
    create(api, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}, **DRY)


def test_the_autoscalers_account_may_do_what_the_code_needs_and_not_read_secrets(api: client.ApiClient) -> None:
    for each in shipped("autoscaler"):
        create(api, each)
    reviews = client.AuthorizationV1Api(api)

    def may(group: str, resource: str, verb: str) -> bool:
        name, _, part = resource.partition("/")
        asked = {"group": group, "resource": name, "subresource": part, "verb": verb, "namespace": "default"}
        user = f"system:serviceaccount:{manifests.NAMESPACE}:{manifests.ACCOUNT}"
        groups = ["system:serviceaccounts", "system:authenticated"]
        spec = {"user": user, "groups": groups, "resourceAttributes": asked}
        return bool(reviews.create_subject_access_review({"spec": spec}).status.allowed)

    needed = [(need.group, need.resource, verb) for need in NEEDED for verb in need.verbs]
    assert eventually(lambda: all(may(*each) for each in needed))
    assert not may("", "secrets", "get")
    assert not may("", "pods", "create")
    assert not may("", "nodes", "create")


# ── kube-state-metrics ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def a_bit_of_everything(api: client.ApiClient) -> Iterator[None]:
    """A node with a taint and our labels, a pod that finds none, a pod that runs, and what makes pods."""
    core, size = client.CoreV1Api(api), {"cpu": "2", "memory": "4Gi", "pods": "10"}
    labels = {ALIVE_LABEL: "true", **dict.fromkeys(manifests.NODE_LABELS, "x")}
    taints = [{"key": LEAVING_TAINT, "effect": "PreferNoSchedule"}]
    status = {"capacity": size, "allocatable": size}
    core.create_node({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints}, "status": status})

    def pod(cpu: str) -> dict[str, Any]:
        return {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}

    for name, cpu in (("runs", "1"), ("waits", "100")):
        core.create_namespaced_pod(manifests.NAMESPACE, {"metadata": {"name": name}, "spec": pod(cpu)})
    some = {"matchLabels": {"app": "some"}}
    template = {"metadata": {"labels": some["matchLabels"]}, "spec": pod("1")}
    workload = {"metadata": {"name": "some"}, "spec": {"replicas": 0, "selector": some, "template": template}}
    client.AppsV1Api(api).create_namespaced_deployment(manifests.NAMESPACE, workload)
    stateful = {**workload, "spec": {**workload["spec"], "serviceName": "some"}}
    client.AppsV1Api(api).create_namespaced_stateful_set(manifests.NAMESPACE, stateful)
    budget = {"metadata": {"name": "some"}, "spec": {"maxUnavailable": 1, "selector": some}}
    client.PolicyV1Api(api).create_namespaced_pod_disruption_budget(manifests.NAMESPACE, budget)
    yield
    core.delete_node("n")


def test_kube_state_metrics_as_shipped_tells_what_dashboards_and_rules_use(
    real_parts: RunningParts, a_bit_of_everything: None, tmp_path: Path
) -> None:
    (workload,) = (each for each in shipped("kube-state-metrics") if each["kind"] == "Deployment")
    arguments = workload["spec"]["template"]["spec"]["containers"][0]["args"]
    port, own = free_ports(2)
    told = [each for each in arguments if not each.startswith(("--port", "--telemetry-port"))]
    places = [f"--host={LOOPBACK}", f"--port={port}", f"--telemetry-host={LOOPBACK}", f"--telemetry-port={own}"]
    command = [program("kube-state-metrics"), f"--kubeconfig={real_parts.kubeconfig}", *places, *told]
    address = f"http://{LOOPBACK}:{port}/metrics"
    part = Part("kube-state-metrics", command, ready=lambda: answers(address), folder=tmp_path)
    wanted = {name: metric for name, metric in KNOWN.items() if metric.job == "kube-state-metrics"}

    def lacking() -> set[tuple[str, str]]:
        lines = requests.get(address, timeout=10).text.splitlines()
        found: dict[str, set[str]] = {}
        for line in lines:
            name, _, inside = line.partition("{")
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', inside))
        return {(name, label) for name, metric in wanted.items() for label in {*metric.labels} - found.get(name, set())}

    try:
        part.start()
        eventually(lambda: not lacking())
        assert not lacking()
    finally:
        part.stop()


# ── Prometheus ───────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class Exporter(BaseHTTPRequestHandler):
    """An instance of which a quarter is idle and 60 % of the memory is free."""

    def do_GET(self) -> None:
        now = time.time()
        lines = [
            f'node_cpu_seconds_total{{cpu="0",mode="idle"}} {now * 0.25}',
            f'node_cpu_seconds_total{{cpu="0",mode="user"}} {now * 0.75}',
            "node_memory_MemAvailable_bytes 600",
            "node_memory_MemTotal_bytes 1000",
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(("\n".join(lines) + "\n").encode())

    def log_message(self, *_: Any) -> None:
        pass


def test_the_default_queries_find_their_workers_through_the_shipped_relabelling(tmp_path: Path) -> None:
    """Debian's Prometheus has no Kubernetes discovery: a file tells the same labels."""
    nodes = [
        node_target("i-1", pool="batch"),
        node_target("i-2", pool="batch"),
        node_target("i-3", pool="web"),
        node_target("i-0", server=True),
    ]
    targets = [
        {"targets": ["127.0.0.1:10250"], "labels": {key: value for key, value in node.items() if key != "__address__"}}
        for node in nodes
    ]
    (tmp_path / "targets.json").write_text(json.dumps(targets))
    with serving(Exporter) as port:
        job = scrape_configs()["node"]
        del job["kubernetes_sd_configs"]
        text = yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]})
        written = yaml.safe_load(text.replace("$1:9100", f"$1:{port}"))
        written["scrape_configs"][0]["file_sd_configs"] = [{"files": [str(tmp_path / "targets.json")]}]
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(written))
        prometheus = Prometheus(tmp_path, tmp_path / "prometheus.yml")

        def asked(query: str) -> list[tuple[str, float]]:
            told = {"query": for_pool(query, "batch")}
            said = requests.get(f"{prometheus.endpoint}/api/v1/query", told, timeout=5).json()["data"]["result"]
            return sorted((each["metric"].get("node", ""), float(each["value"][1])) for each in said)

        try:
            prometheus.part.start()
            queries = Queries()
            assert eventually(lambda: asked(queries.nodes) == [("", 2.0)])
            assert eventually(lambda: bool(asked(queries.cpu)))
            ((_, cpu),) = asked(queries.cpu)
            ((_, memory),) = asked(queries.memory)
            assert (cpu, memory) == (pytest.approx(75, abs=1), pytest.approx(40))
            assert eventually(lambda: [node for node, _ in asked(queries.idle)] == ["i-1", "i-2"])
        finally:
            prometheus.part.stop()


# ── Alertmanager ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_alertmanager_tells_sns_at_once_whom_it_is_about(tmp_path: Path) -> None:
    heard: list[dict[str, list[str]]] = []

    class Sns(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            answer = b"<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Sns) as port:
        written = yaml.safe_load(manifests.configuration("alertmanager", SITE))
        (sns,) = written["receivers"][1]["sns_configs"]
        sns["api_url"] = f"http://127.0.0.1:{port}"
        sns["sigv4"] |= {"access_key": "test", "secret_key": "test"}
        (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump(written))
        alertmanager = Alertmanager(tmp_path, tmp_path / "alertmanager.yml")
        try:
            alertmanager.part.start()
            labels = {"alertname": "UnschedulablePod", "namespace": "shop", "wake": "true"}
            alerts = [{"labels": {**labels, "pod": name}} for name in ("a", "b")]
            said = requests.post(f"{alertmanager.endpoint}/api/v2/alerts", json=alerts, timeout=5)
            assert said.status_code == requests.codes.ok
            assert eventually(lambda: bool(heard))
        finally:
            alertmanager.part.stop()
    (message,) = heard[:1]
    assert message["TopicArn"] == [SITE.wake_topic]
    assert json.loads(message["Message"][0]) == {"cluster": SITE.cluster, "alert": "UnschedulablePod", "pods": 2}
    attribute = "MessageAttributes.entry.1"
    assert message[f"{attribute}.Name"] == ["cluster"]
    told = {"cluster": {"Type": "String", "Value": message[f"{attribute}.Value.StringValue"][0]}}
    event = {"Records": [{"Sns": {"Message": message["Message"][0], "MessageAttributes": told}}]}
    assert triggers_in(event, ["dev-blog", SITE.cluster]) == (Trigger(cluster=SITE.cluster, urgent=True),)
