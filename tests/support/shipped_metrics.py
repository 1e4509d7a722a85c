"""Which metrics and labels the shipped monitoring has, and a reader for the queries that use them.

The table is what node-exporter, kube-state-metrics, the kubelet, Traefik and Alertmanager document; labels are those of
the exporter. What scraping adds is taken from the shipped configuration, by `scraped`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from nodefleet.model.names import CONTROL_PLANE_LABELS, POOL_LABEL
from nodefleet_infra import manifests

SITE = manifests.Site(
    cluster="dev-shop",
    region="ap-southeast-1",
    wake_topic="arn:aws:sns:ap-southeast-1:123456789012:node-fleet-dev-wake",
    grafana=True,
)


@dataclass(frozen=True)
class Metric:
    job: str
    labels: tuple[str, ...] = ()
    collector: str = ""  # of node-exporter


def _node(collector: str, *labels: str) -> Metric:
    return Metric("node", labels, collector)


def _kube(*labels: str) -> Metric:
    return Metric("kube-state-metrics", labels)


_POD = ("namespace", "pod", "uid")
_CONTAINER = ("namespace", "pod", "container", "image", "name", "id")
_NODE_LABELS = tuple(f"label_{re.sub(r'[^a-zA-Z0-9]', '_', label)}" for label in manifests.NODE_LABELS)

KNOWN: Mapping[str, Metric] = {
    "node_boot_time_seconds": _node("stat"),
    "node_cpu_seconds_total": _node("cpu", "cpu", "mode"),
    "node_filesystem_avail_bytes": _node("filesystem", "device", "fstype", "mountpoint"),
    "node_filesystem_size_bytes": _node("filesystem", "device", "fstype", "mountpoint"),
    "node_load5": _node("loadavg"),
    "node_memory_MemAvailable_bytes": _node("meminfo"),
    "node_memory_MemTotal_bytes": _node("meminfo"),
    "node_network_receive_bytes_total": _node("netdev", "device"),
    "node_network_transmit_bytes_total": _node("netdev", "device"),
    "kube_deployment_spec_replicas": _kube("namespace", "deployment"),
    "kube_deployment_status_replicas_available": _kube("namespace", "deployment"),
    "kube_node_labels": _kube("node", *_NODE_LABELS),
    "kube_node_spec_taint": _kube("node", "key", "value", "effect"),
    "kube_node_spec_unschedulable": _kube("node"),
    "kube_node_status_allocatable": _kube("node", "resource", "unit"),
    "kube_node_status_condition": _kube("node", "condition", "status"),
    "kube_pod_container_resource_requests": _kube(*_POD, "container", "node", "resource", "unit"),
    "kube_pod_container_status_restarts_total": _kube(*_POD, "container"),
    "kube_pod_info": _kube(*_POD, "host_ip", "pod_ip", "node", "created_by_kind", "created_by_name", "priority_class"),
    "kube_pod_status_phase": _kube(*_POD, "phase"),
    "kube_pod_status_unschedulable": _kube(*_POD),
    "kube_poddisruptionbudget_status_pod_disruptions_allowed": _kube("namespace", "poddisruptionbudget"),
    "kube_statefulset_replicas": _kube("namespace", "statefulset"),
    "kube_statefulset_status_replicas_ready": _kube("namespace", "statefulset"),
    "container_cpu_usage_seconds_total": Metric("containers", (*_CONTAINER, "cpu")),
    "container_memory_working_set_bytes": Metric("containers", _CONTAINER),
    "container_network_receive_bytes_total": Metric("containers", (*_CONTAINER, "interface")),
    "container_network_transmit_bytes_total": Metric("containers", (*_CONTAINER, "interface")),
    "traefik_entrypoint_requests_total": Metric("pods", ("code", "method", "protocol", "entrypoint")),
    "traefik_entrypoint_request_duration_seconds_bucket": Metric(
        "pods", ("code", "method", "protocol", "entrypoint", "le")
    ),
    "alertmanager_notifications_total": Metric("alertmanager", ("integration",)),
    "alertmanager_notifications_failed_total": Metric("alertmanager", ("integration", "reason")),
}


# ── what scraping makes of a target ──────────────────────────────────────────────────────────────────────────────


@cache
def scrape_configs() -> dict[str, dict[str, Any]]:
    config = yaml.safe_load(manifests.configuration("prometheus", SITE))
    return {job["job_name"]: job for job in config["scrape_configs"]}


def meta(prefix: str, name: str) -> str:
    """The label under which discovery tells a label or annotation of an object."""
    return f"__meta_kubernetes_{prefix}_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}"


def node_target(name: str, *, pool: str = "", server: bool = False) -> dict[str, str]:
    """A Node as Prometheus discovers it."""
    labels = {POOL_LABEL: pool} if pool else {}
    labels |= dict.fromkeys(CONTROL_PLANE_LABELS, "true") if server else {}
    found = {"__address__": "10.20.1.5:10250", "__meta_kubernetes_node_name": name}
    for label, value in labels.items():
        found |= {meta("node_label", label): value, meta("node_labelpresent", label): "true"}
    return found


def relabelled(rules: Iterable[Mapping[str, Any]], labels: Mapping[str, str]) -> dict[str, str] | None:
    """As Prometheus does it, for the actions that the shipped configuration uses; none if the target is dropped."""
    found = dict(labels)
    for rule in rules:
        value = rule.get("separator", ";").join(found.get(name, "") for name in rule.get("source_labels", ()))
        match = re.fullmatch(rule.get("regex", "(.*)"), value)
        action = rule.get("action", "replace")
        if (action, bool(match)) in (("keep", False), ("drop", True)):
            return None
        if action == "replace" and match:
            template = re.sub(r"\$(\d)", r"\\\1", rule.get("replacement", "$1"))
            found[rule["target_label"]] = match.expand(template)
        elif action not in ("replace", "keep", "drop"):
            raise AssertionError(f"{action} is not known here")
    return {name: text for name, text in found.items() if text and not name.startswith("__meta_")}


def scraped(job: str, target: Mapping[str, str]) -> dict[str, str] | None:
    """The labels that every series of a target gets, and where it is scraped."""
    found = relabelled(scrape_configs()[job].get("relabel_configs", ()), target)
    return None if found is None else {"job": job, "instance": found.get("__address__", ""), **found}


def added_labels(job: str) -> set[str]:
    rules = scrape_configs()[job].get("relabel_configs", ())
    named = {rule["target_label"] for rule in rules if "target_label" in rule}
    return {"job", "instance"} | {name for name in named if not name.startswith("__")}


# ── what a query uses ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Used:
    metrics: frozenset[str]
    matched: frozenset[tuple[str, str]]  # metric, label
    grouped: frozenset[str]


_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")
_WORDS = {"or", "and", "unless", "bool", "offset", "inf", "nan"}


def used_by(query: str) -> Used:
    text = re.sub(r"\"[^\"]*\"", '""', query)
    text = re.sub(r"\[[^\]]*\]", "", text)
    grouped = {name for clause in _GROUPING.findall(text) for name in _NAME.findall(clause)}
    text = _GROUPING.sub(" ", text)
    matched = {
        (metric, name) for metric, inside in _SELECTOR.findall(text) for name in re.findall(r"(\w+)\s*[=!]", inside)
    }
    metrics = {metric for metric, _ in _SELECTOR.findall(text)}
    text = _SELECTOR.sub(" 1 ", text)
    for name in re.finditer(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(\s*\()?", text):
        if not name[2] and name[1] not in _WORDS:
            metrics.add(name[1])
    return Used(frozenset(metrics), frozenset(matched), frozenset(grouped))


def labels_of(metric: str) -> set[str]:
    if metric == "up":
        return set.union(*(added_labels(job) for job in scrape_configs()))
    return {*KNOWN[metric].labels, *added_labels(KNOWN[metric].job)}


def problems_in(query: str) -> list[str]:
    """What a query uses that the shipped monitoring does not have."""
    used = used_by(query)
    unknown = [f"{name} is no metric that is scraped" for name in sorted(used.metrics) if name not in {*KNOWN, "up"}]
    if unknown:
        return unknown
    wrong = [
        f"{metric} has no label {label}" for metric, label in sorted(used.matched) if label not in labels_of(metric)
    ]
    everywhere = set().union(*(labels_of(metric) for metric in used.metrics))
    return wrong + [f"no metric has the label {label}" for label in sorted(used.grouped - everywhere)]
