"""What K3s starts by itself: the files of its manifests folder, from the YAML in this one.

*.yaml are manifests, *.yml the configurations that become ConfigMaps. In both `@@{name}` is a value of ours; `$1` and
`{{ … }}` belong to Prometheus and Alertmanager. A pod carries the digest of its configuration, so that a change of one
starts it again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import yaml

from nodefleet.adapters.kubernetes.resources import NEEDED, NEEDED_PATHS
from nodefleet.model.names import CAPACITY_LABEL, POOL_LABEL, TAG_CLUSTER
from nodefleet.model.workload import TYPE_LABEL, ZONE_LABEL

NAMESPACE = "node-fleet"
ACCOUNT = "autoscaler"  # the ServiceAccount that the functions are
WATCHER = "pending-watcher"  # the one of the unit on the server that wakes them
EVERY = "15s"  # readings are worked out as often as they are scraped
NODE_LABELS = (CAPACITY_LABEL, POOL_LABEL, TYPE_LABEL, ZONE_LABEL)  # what metrics tell of nodes

# By digest, of all platforms together: a moved tag changes nothing here. `make digests` asks the registries.
IMAGES: Mapping[str, str] = {
    "prometheus": (
        "quay.io/prometheus/prometheus:v3.5.0@sha256:63805ebb8d2b3920190daf1cb14a60871b16fd38bed42b857a3182bc621f4996"
    ),
    "alertmanager": (
        "quay.io/prometheus/alertmanager:v0.28.1"
        "@sha256:27c475db5fb156cab31d5c18a4251ac7ed567746a2483ff264516437a39b15ba"
    ),
    "node_exporter": (
        "quay.io/prometheus/node-exporter:v1.9.1"
        "@sha256:d00a542e409ee618a4edc67da14dd48c5da66726bbd5537ab2af9c1dfc442c8a"
    ),
    "kube_state_metrics": (
        "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.15.0"
        "@sha256:db384bf43222b066c378e77027a675d4cd9911107adba46c2922b3a55e10d6fb"
    ),
    "grafana": (
        "docker.io/grafana/grafana:12.0.2@sha256:b5b59bfc7561634c2d7b136c4543d702ebcc94a3da477f21ff26f89ffd4214fa"
    ),
}
# Of the EBS CSI driver, with the digests that Kubernetes' list of promoted images (kubernetes/k8s.io) gives the tags.
# The driver's copy at public.ecr.aws is another build with other digests.
VOLUME_IMAGES: Mapping[str, str] = {
    "ebs_driver": (
        "registry.k8s.io/provider-aws/aws-ebs-csi-driver:v1.46.0"
        "@sha256:4bfb4eba825f9a948dd420e8622d4d270c0f389a64c1559b6d0512d07fc2f0d9"
    ),
    "csi_provisioner": (
        "registry.k8s.io/sig-storage/csi-provisioner:v5.3.0"
        "@sha256:bb057f866177d5f4139a1527e594499cbe0feeb67b63aaca8679dfdf0a6016f9"
    ),
    "csi_attacher": (
        "registry.k8s.io/sig-storage/csi-attacher:v4.9.0"
        "@sha256:5aaefc24f315b182233c8b6146077f8c32e274d864cb03c632206e78bd0302da"
    ),
    "csi_registrar": (
        "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.13.0"
        "@sha256:d7138bcc3aa5f267403d45ad4292c95397e421ea17a0035888850f424c7de25d"
    ),
    "csi_probe": (
        "registry.k8s.io/sig-storage/livenessprobe:v2.15.0"
        "@sha256:2c5f9dc4ea5ac5509d93c664ae7982d4ecdec40ca7b0638c24e5b16243b8360f"
    ),
}
_OF_PROMETHEUS = ("prometheus", "rules", "readings", "refused", "server")
_STATIC = ("budgets", "namespace")
_RBAC = "rbac.authorization.k8s.io"


class _Text(Template):
    delimiter = "@@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What manifests know of their cluster."""

    cluster: str  # its id
    region: str
    wake_topic: str  # ARN
    grafana: bool
    reading_rules: Sequence[Mapping[str, Any]] = ()  # what Prometheus watches of the policy's readings
    server_rules: Sequence[Mapping[str, Any]] = ()  # and of the master itself; none: no notifications
    warning_topic: str = ""  # ARNs; where it tells
    critical_topic: str = ""
    persistent_volumes: bool = False
    disk_key: str = ""  # of persistent volumes; empty: the account's own for EBS


def rendered(site: Site) -> dict[str, str]:
    """File name → content."""
    prometheus = {f"{name}.yml": configuration(name, site) for name in _OF_PROMETHEUS}
    alertmanager = {"alertmanager.yml": configuration("alertmanager", site)}
    manifests = {
        "autoscaler": _dumped(*_autoscaler()),
        "pending-watcher": _dumped(*_pending_watcher()),
        "node-exporter": _manifest("node-exporter", site),
        "kube-state-metrics": _manifest("kube-state-metrics", site),
        "prometheus": _with_map("prometheus", prometheus, site),
        "alertmanager": _with_map("alertmanager", alertmanager, site),
        "grafana": _grafana(site),
        "volumes": _volumes(site),
    }
    manifests |= {name: _manifest(name, site) for name in _STATIC}
    return dict(sorted((file_of(name), text) for name, text in manifests.items()))


def autoscaler() -> str:
    """The namespace, the autoscaler's ServiceAccount and its role, for a cluster that no stack made."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return _dumped(namespace, *_autoscaler())


def file_of(name: str) -> str:
    """K3s knows a file by its base name alone, so an operator's own `prometheus.yaml` would be taken for ours. It goes
    through them in order: the namespace comes first."""
    return f"node-fleet-{'0-' if name == 'namespace' else ''}{name}.yaml"


def configuration(name: str, site: Site) -> str:
    """What stands in a ConfigMap: `prometheus`, `rules`, `readings`, `refused`, `server` or `alertmanager`."""
    ours = {"readings": site.reading_rules, "server": site.server_rules}
    if name in ours:
        group = {"name": name, "interval": EVERY, "rules": [dict(rule) for rule in ours[name]]}
        return _dumped({"groups": [group] if ours[name] else []})
    text = _filled(f"{name}.yml", site)
    return _with_receivers(text, site) if name == "alertmanager" and any(ours.values()) else text


def _with_receivers(text: str, site: Site) -> str:
    config = yaml.safe_load(text)
    for severity, topic in (("critical", site.critical_topic), ("warning", site.warning_topic)):
        if not topic:
            continue
        more = yaml.safe_load(_filled("receivers.yml", site, {"severity": severity, "topic": topic}))
        config["route"]["routes"].append(more["route"])
        config["receivers"].append(more["receiver"])
    return _dumped(config)


def dashboards() -> dict[str, str]:
    """Grafana's, by file name."""
    folder = files("nodefleet_infra.dashboards").joinpath("grafana")
    found = {each.name: each.read_text("utf-8") for each in folder.iterdir() if each.name.endswith(".json")}
    return dict(sorted(found.items()))


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _filled(name: str, site: Site, more: Mapping[str, str] | None = None) -> str:
    values = {
        "cluster": site.cluster,
        "region": site.region,
        "wake_topic": site.wake_topic,
        "node_labels": ",".join(NODE_LABELS),
        "cluster_tag": TAG_CLUSTER,
        "volume_key": f'\n  kmsKeyId: "{site.disk_key}"' if site.disk_key else "",
        **IMAGES,
        **VOLUME_IMAGES,
        **(more or {}),
    }
    return _Text(files(__package__).joinpath(name).read_text("utf-8")).substitute(values)


def _manifest(name: str, site: Site, more: Mapping[str, str] | None = None) -> str:
    return _filled(f"{name}.yaml", site, more)


def _with_map(name: str, data: Mapping[str, str], site: Site) -> str:
    digest = {f"{name}_digest": _digest(data)}
    return f"{_dumped(_config_map(name, data))}---\n{_manifest(name, site, digest)}"


def _grafana(site: Site) -> str:
    """The dashboards are always there, with the label by which other Grafanas find them. K3s removes from the cluster
    what a file no longer holds, but not what a file held that is gone: so there is always this one."""
    shipped, digest = _dashboards_dumped()
    if not site.grafana:
        return shipped
    return f"{shipped}---\n{_manifest('grafana', site, {'grafana_digest': digest})}"


def _volumes(site: Site) -> str:
    """The file stays when the driver goes, for the same reason as Grafana's."""
    if not site.persistent_volumes:
        return _dumped(_config_map("node-fleet-volumes", {"persistent_volumes": "off"}))
    return _manifest("volumes", site)


@cache
def _dashboards_dumped() -> tuple[str, str]:
    """Their ConfigMap, and their digest: the same for every cluster, and most of the time that rendering takes."""
    data = dashboards()
    return _dumped(_config_map("node-fleet-dashboards", data, {"grafana_dashboard": "1"})), _digest(data)


def _digest(data: Mapping[str, str]) -> str:
    return hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sorted(data.items())).encode()).hexdigest()[:16]


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _config_map(name: str, data: Mapping[str, str], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE} | ({"labels": dict(labels)} if labels else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def _autoscaler() -> tuple[dict[str, Any], ...]:
    """Who the functions are in the cluster, and what they may do there: what the code says that it needs."""
    rules: list[dict[str, Any]] = [
        {"apiGroups": [each.group], "resources": [each.resource], "verbs": list(each.verbs)} for each in NEEDED
    ]
    return _account(ACCOUNT, [*rules, {"nonResourceURLs": list(NEEDED_PATHS), "verbs": ["get"]}])


def _pending_watcher() -> tuple[dict[str, Any], ...]:
    """The server's unit that wakes the functions (userdata/pending.py) watches pods, and may do nothing else."""
    return _account(WATCHER, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}])


def _account(account: str, rules: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    name = f"{NAMESPACE}-{account}"
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": NAMESPACE}},
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [*rules]},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
        },
    )


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, so that operators can read them."""


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _string)


def _dumped(*objects: Mapping[str, Any]) -> str:
    return "---\n".join(yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=120) for each in objects)
