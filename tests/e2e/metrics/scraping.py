"""The shipped Prometheus configuration, made quick and pointed at files; relabelling stays as it is shipped.

Debian's Prometheus has no Kubernetes discovery, so files tell what it would find: the same addresses, and the same
`__meta_kubernetes_…` labels, from Node objects as the API server has them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nodefleet_infra.security_groups import KUBELET
from support.shipped_metrics import meta

_DISCOVERY = "kubernetes_sd_configs"
_OWN_TIMES = ("scrape_interval", "scrape_timeout")


def quick(
    shipped: str,
    found: Mapping[str, Path],
    *,
    every: str = "1s",
    rules: Sequence[Path] = (),
    alertmanagers: Sequence[str] = (),
) -> dict[str, Any]:
    """`found` says by job where its targets are written. The other jobs are left out: they would only be down."""
    settings: dict[str, Any] = yaml.safe_load(shipped)
    jobs = {job["job_name"]: job for job in settings["scrape_configs"]}
    settings["global"] |= {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}
    settings["scrape_configs"] = [_from_file(jobs[name], file) for name, file in found.items()]
    settings["rule_files"] = [str(file) for file in rules]
    targets = [{"targets": list(alertmanagers)}] if alertmanagers else []
    settings["alerting"] = {"alertmanagers": [{"static_configs": targets}] if targets else []}
    return settings


def quick_rules(shipped: str, *, every: str = "1s") -> dict[str, Any]:
    settings: dict[str, Any] = yaml.safe_load(shipped)
    settings["groups"] = [{**group, "interval": every} for group in settings["groups"]]
    return settings


def _from_file(job: Mapping[str, Any], file: Path) -> dict[str, Any]:
    if _DISCOVERY not in job:
        raise ValueError(f"job {job['job_name']} discovers nothing in Kubernetes: there is nothing to replace")
    kept = {key: value for key, value in job.items() if key not in (_DISCOVERY, *_OWN_TIMES)}
    return {**kept, "file_sd_configs": [{"files": [str(file)]}]}


# ── what discovery would find ────────────────────────────────────────────────────────────────────────────────────


def node_targets(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of Node objects that have an InternalIP: the kubelet's address, which relabelling makes node-exporter's."""
    return [_node_target(node) for node in nodes]


def state_metrics_target(address: str) -> dict[str, Any]:
    """kube-state-metrics' pod, by its label and the name of its port."""
    labels = {
        meta("pod_label", "app.kubernetes.io/name"): "kube-state-metrics",
        "__meta_kubernetes_pod_container_port_name": "metrics",
    }
    return {"targets": [address], "labels": labels}


def write_targets(file: Path, targets: Sequence[Mapping[str, Any]]) -> None:
    """Prometheus reads a file again as soon as it changes, and must not find half of one."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(targets))
    unfinished.rename(file)


def _node_target(node: Mapping[str, Any]) -> dict[str, Any]:
    name = node["metadata"]["name"]
    addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    labels = {"instance": name, "__meta_kubernetes_node_name": name}
    for label, value in node["metadata"].get("labels", {}).items():
        labels |= {meta("node_label", label): value, meta("node_labelpresent", label): "true"}
    return {"targets": [f"{addresses['InternalIP']}:{KUBELET}"], "labels": labels}
