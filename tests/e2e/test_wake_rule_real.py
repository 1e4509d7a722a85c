"""The rule that wakes the autoscaler, in a real Prometheus, on what kube-state-metrics tells of real pods."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from e2e.metrics.scraping import quick, quick_rules, state_metrics_target, write_targets
from e2e.parts.kwok import ALIVE_LABEL
from e2e.parts.prometheus import Prometheus as PrometheusPart
from e2e.parts.running import RunningParts
from e2e.site.waiting import eventually
from nodefleet.adapters.kubernetes.resources import NAMESPACES, NODES, PODS
from nodefleet.adapters.prometheus import PrometheusClient
from nodefleet.model.snapshot import Missing
from nodefleet_infra import manifests
from support.real_cluster_world import Admin
from support.shipped_metrics import SITE

WAITING = "waiting-for-a-node"
WITHIN = timedelta(seconds=5)


@pytest.fixture
def waiting(real_parts: RunningParts) -> Iterator[Admin]:
    """A node with room for one pod, which is still pulling its image, and a second pod that finds no room."""
    admin = Admin(str(real_parts.kubeconfig))
    admin.do(NAMESPACES.create({"metadata": {"name": WAITING}}))
    admin.do(NODES.create(_node("small")))
    for name in ("pulls", "waits"):
        admin.do(PODS.create(_pod(name), WAITING))
        if name == "pulls":
            assert eventually(lambda: "nodeName" in admin.do(PODS.get("pulls", WAITING))["spec"])
    yield admin
    for name in ("pulls", "waits"):
        admin.do(PODS.delete(name, {"gracePeriodSeconds": 0}, WAITING))
    for node in admin.items(NODES):
        if WAITING in node["metadata"]["labels"]:
            admin.do(NODES.delete(node["metadata"]["name"], {}))
    admin.do(NAMESPACES.delete(WAITING, {}))
    admin.api.close()


def _node(name: str) -> dict[str, object]:
    size = {"cpu": "1", "memory": "4Gi", "pods": "10"}
    labels = {ALIVE_LABEL: "true", WAITING: "here"}
    return {
        "metadata": {"name": f"{WAITING}-{name}", "labels": labels},
        "status": {"capacity": size, "allocatable": size},
    }


def _pod(name: str) -> dict[str, object]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    notes = {"node-fleet.test/starts-after": "1h"}
    return {
        "metadata": {"name": name, "annotations": notes},
        "spec": {"containers": [container], "nodeSelector": {WAITING: "here"}},
    }


def test_a_pod_without_a_node_raises_the_alert_and_one_that_pulls_its_image_does_not(
    real_parts: RunningParts, waiting: Admin, tmp_path: Path
) -> None:
    write_targets(tmp_path / "state.json", [state_metrics_target(real_parts.state_metrics_address)])
    rules = quick_rules(manifests.configuration("rules", SITE))
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    shipped = manifests.configuration("prometheus", SITE)
    settings = quick(shipped, {"kube-state-metrics": tmp_path / "state.json"}, rules=[tmp_path / "rules.yml"])
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings))
    part = PrometheusPart(tmp_path, tmp_path / "prometheus.yml")
    prometheus = PrometheusClient(part.endpoint)

    def pods(query: str) -> set[str]:
        got = prometheus.ask(query, WITHIN)
        assert not isinstance(got, Missing), got.cause
        return {each.labels["pod"] for each in got.series}

    alerts = f'ALERTS{{alertname="UnschedulablePod",alertstate="firing",wake="true",namespace="{WAITING}"}}'
    pending = f'kube_pod_status_phase{{phase="Pending",namespace="{WAITING}"}} == 1'
    try:
        part.part.start()
        assert eventually(lambda: pods(alerts) == {"waits"})
        assert pods(pending) == {"pulls", "waits"}  # which would have been the wrong question
        waiting.do(NODES.create(_node("more")))
        assert eventually(lambda: pods(pending) == {"pulls", "waits"} and pods(alerts) == set())
    finally:
        part.part.stop()
