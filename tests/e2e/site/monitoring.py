"""Prometheus and Alertmanager with what infra ships, made quick and led to this site. Rules and relabelling stay."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import yaml

from e2e.metrics.scraping import node_targets, quick, quick_rules, state_metrics_target, write_targets
from e2e.parts.prometheus import Alertmanager, Prometheus
from e2e.site.waiting import Beside
from nodefleet.adapters.kubernetes.resources import NODES
from nodefleet_infra import manifests
from support.real_cluster_world import Admin

QUICK = "1s"
_LOOK_EVERY = 0.5  # seconds; of Kubernetes


def quick_alertmanager(shipped: str, *, sns: str) -> dict[str, Any]:
    """To the SNS that is here, with keys instead of the instance's role."""
    config: dict[str, Any] = yaml.safe_load(shipped)
    for route in config["route"]["routes"]:
        route["group_interval"] = QUICK
    for receiver in config["receivers"]:
        for each in receiver.get("sns_configs", ()):
            each["api_url"] = sns
            each["sigv4"] |= {"access_key": "site", "secret_key": "site"}
    return config


class Discovery(Beside):
    """What Prometheus would find out from Kubernetes, which Debian's cannot: in a file, as it is at the moment.

    While the API server is away the file stays as it was, as Prometheus's own discovery does."""

    def __init__(self, admin: Admin, file: Path) -> None:
        super().__init__("discovery", _LOOK_EVERY, self._look)
        self._admin, self._file = admin, file
        self._told: list[dict[str, Any]] | None = None

    def _look(self) -> None:
        nodes = [node for node in self._admin.items(NODES) if node["status"].get("addresses")]
        found = node_targets(nodes)
        if found != self._told:
            write_targets(self._file, found)
            self._told = found


class Monitoring:
    """Its addresses are known before it is started."""

    def __init__(self, folder: Path, admin: Admin) -> None:
        self._folder = folder
        self.prometheus = Prometheus(folder, folder / "prometheus.yml")
        self.alertmanager = Alertmanager(folder, folder / "alertmanager.yml")
        self.discovery = Discovery(admin, folder / "nodes.json")

    @contextmanager
    def running(self, site: manifests.Site, *, state_metrics: str, sns: str) -> Iterator[None]:
        self._configure(site, state_metrics, sns)
        parts = (self.alertmanager.part, self.prometheus.part)
        try:
            for part in parts:
                part.launch()
            for part in parts:
                part.wait_until_ready()
            with self.discovery.going_on():
                yield
        finally:
            for part in reversed(parts):
                part.stop()

    def value(self, query: str) -> float | None:
        """Of a query with one answer; none if Prometheus knows nothing."""
        said = requests.get(f"{self.prometheus.endpoint}/api/v1/query", {"query": query}, timeout=5).json()
        found = said["data"]["result"]
        return float(found[0]["value"][1]) if found else None

    def alerts(self) -> list[dict[str, Any]]:
        """What Alertmanager has not forgotten yet, also when it is over."""
        groups = requests.get(f"{self.alertmanager.endpoint}/api/v2/alerts/groups", timeout=5).json()
        return [alert for group in groups for alert in group["alerts"]]

    def _configure(self, site: manifests.Site, state_metrics: str, sns: str) -> None:
        nodes, states, rules = (self._folder / name for name in ("nodes.json", "states.json", "rules.yml"))
        write_targets(states, [state_metrics_target(state_metrics)])
        settings = quick(
            manifests.configuration("prometheus", site),
            {"node": nodes, "kube-state-metrics": states},
            every=QUICK,
            rules=[rules],
            alertmanagers=[urlsplit(self.alertmanager.endpoint).netloc],
        )
        written = {
            "prometheus.yml": settings,
            "rules.yml": quick_rules(manifests.configuration("rules", site), every=QUICK),
            "alertmanager.yml": quick_alertmanager(manifests.configuration("alertmanager", site), sns=sns),
        }
        for name, content in written.items():
            (self._folder / name).write_text(yaml.safe_dump(content))
