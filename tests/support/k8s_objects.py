"""Objects as the API server keeps them, for a node, a pod, a budget and what belongs to them."""

from collections.abc import Iterable, Mapping
from typing import Any

from nodefleet.model.inventory import Taint
from nodefleet.model.names import CONTROL_PLANE_LABELS, POOL_LABEL
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL, PodPhase

THEN = "2026-11-16T11:00:00Z"
ALLOCATABLE = {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "18242267924", "pods": "30"}


def node(
    name: str = "w1",
    *,
    instance: str = "i-1",
    pool: str | None = "default",
    ready: bool = True,
    control_plane: bool = False,
    taints: Iterable[Taint] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    roles = {CONTROL_PLANE_LABELS[0]: "true"} if control_plane else {}
    ours = {POOL_LABEL: pool} if pool is not None else {}
    return {
        "metadata": {
            "name": name,
            "labels": {HOST_LABEL: name, ZONE_LABEL: "us-east-1a", **roles, **ours, **(labels or {})},
            "annotations": dict(annotations or {}),
            "creationTimestamp": THEN,
        },
        "spec": {
            "providerID": f"aws:///us-east-1a/{instance}",
            "taints": [{"key": t.key, "value": t.value, "effect": t.effect.value} for t in taints],
            **spec,
        },
        "status": {"allocatable": ALLOCATABLE, "conditions": [condition("Ready", is_so=ready)]},
    }


def condition(type_: str, *, is_so: bool, reason: str = "", since: str | None = THEN) -> dict[str, Any]:
    status = "True" if is_so else "False"
    return {"type": type_, "status": status, "reason": reason or type_, "lastTransitionTime": since}


def container(
    cpu: str = "100m", memory: str = "64Mi", *, ports: Iterable[Mapping[str, Any]] = (), **more: Any
) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {"name": "main", "image": "busybox", "resources": {"requests": requests}, "ports": list(ports), **more}


def pod(
    name: str = "web-1",
    *,
    node: str | None = "w1",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Mapping[str, Any] | None = None,
    phase: PodPhase = PodPhase.RUNNING,
    ready: bool = True,
    conditions: Iterable[Mapping[str, Any]] = (),
    meta: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    return {
        "metadata": {
            **metadata,
            "annotations": dict(annotations or {}),
            "creationTimestamp": THEN,
            **({"ownerReferences": [owner]} if owner else {}),
            **(meta or {}),
        },
        "spec": {
            "containers": [container()],
            "terminationGracePeriodSeconds": 30,
            **({"nodeName": node} if node else {}),
            **spec,
        },
        "status": {
            "phase": phase.value,
            "conditions": [condition("Ready", is_so=ready), *conditions],
            **(status or {}),
        },
    }


def reference(kind: str, name: str, uid: str, api: str = "apps/v1") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}


def controller(
    name: str,
    uid: str,
    *,
    replicas: int | None = 3,
    namespace: str = "default",
    owner: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    metadata = {"name": name, "namespace": namespace, "uid": uid, "labels": dict(labels or {})}
    spec = {"replicas": replicas} if replicas is not None else {}
    return {"metadata": {**metadata, **({"ownerReferences": [owner]} if owner else {})}, "spec": spec}


def budget(
    name: str = "web",
    *,
    labels: Mapping[str, str] | None = None,
    allowed: int = 1,
    healthy: int = 2,
    needed: int = 1,
    namespace: str = "default",
    **spec: Any,
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"selector": {"matchLabels": dict(labels or {})}, "minAvailable": needed, **spec},
        "status": figures(allowed=allowed, healthy=healthy, needed=needed),
    }


def figures(*, allowed: int, healthy: int, needed: int) -> dict[str, int]:
    counts = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": needed}
    return {**counts, "expectedPods": healthy, "observedGeneration": 1}


def claim(name: str, volume: str = "", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    bound = {"volumeName": volume} if volume else {}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {**bound, **spec}}


def storage_class(
    name: str, *, waits: bool = True, provisioner: str = "ebs.csi.aws.com", **more: Any
) -> dict[str, Any]:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def volume(
    name: str, *terms: Mapping[str, Any], labels: Mapping[str, str] | None = None, **source: Any
) -> dict[str, Any]:
    """A PersistentVolume that these node selector terms tie to some nodes."""
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": {**source, **affinity}}


def term(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
