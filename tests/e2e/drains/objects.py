"""What operators deploy, as the API server takes it: small pods of every kind that makes a drain difficult."""

from collections.abc import Mapping, Sequence
from typing import Any

from e2e.site.workloads import NAMESPACE
from nodefleet.adapters.kubernetes.resources import Resource
from nodefleet.model.workload import HOST_LABEL

STORAGE_CLASSES = Resource(group="storage.k8s.io", plural="storageclasses")
LOCAL_PATH = "local-path"  # K3s's own storage class
STARTS = "node-fleet.test/starts-after"
_REQUESTS = {"cpu": "50m", "memory": "32Mi"}


def template(
    app: str,
    label: str,
    *,
    labels: Mapping[str, str] | None = None,
    starts_in: int = 0,
    grace: int = 30,
    finalizer: str = "",
    volumes: Sequence[Mapping[str, Any]] = (),
    tolerations: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A pod that runs where a node has this label; `starts_in` and `grace` are seconds."""
    meta: dict[str, Any] = {"labels": {"app": app, **(labels or {})}, "annotations": {STARTS: f"{starts_in}s"}}
    if finalizer:
        meta["finalizers"] = [finalizer]
    spec = {
        "containers": [{"name": "main", "image": "none", "resources": {"requests": _REQUESTS}}],
        "nodeSelector": {label: "true"},
        "terminationGracePeriodSeconds": grace,
        "volumes": list(volumes),
        "tolerations": list(tolerations),
    }
    return {"metadata": meta, "spec": spec}


def bare_pod(name: str, made_from: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, **made_from["metadata"]}, "spec": made_from["spec"]}


def controller(replicas: int, made_from: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A Deployment, or with a serviceName a StatefulSet; it has its pods' name."""
    app = made_from["metadata"]["labels"]["app"]
    selector = {"matchLabels": {"app": app}}
    spec = {"replicas": replicas, "selector": selector, "template": made_from, **more}
    return {"metadata": {"name": app}, "spec": spec}


def budget(name: str, labels: Mapping[str, str], *, max_unavailable: int = 1) -> dict[str, Any]:
    spec = {"maxUnavailable": max_unavailable, "selector": {"matchLabels": dict(labels)}}
    return {"metadata": {"name": name}, "spec": spec}


def eviction(pod: str) -> dict[str, Any]:
    """It is asked what would be answered: nothing is evicted."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "deleteOptions": {"dryRun": ["All"]},
    }


# ── storage as K3s keeps it: a folder on one node's disk ─────────────────────────────────────────────────────────


def storage_class() -> dict[str, Any]:
    return {
        "metadata": {"name": LOCAL_PATH},
        "provisioner": "rancher.io/local-path",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume(name: str, node: str) -> dict[str, Any]:
    """What the provisioner makes when a pod's node is chosen."""
    here = {"matchExpressions": [{"key": HOST_LABEL, "operator": "In", "values": [node]}]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": LOCAL_PATH,
            "local": {"path": f"/var/lib/rancher/k3s/storage/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
    }


def claim(name: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": LOCAL_PATH,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def mounted(claim_name: str) -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}


SCRATCH: Mapping[str, Any] = {"name": "scratch", "emptyDir": {}}
