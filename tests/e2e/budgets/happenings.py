"""What happens to pods once they run, and how to tell that the cluster is through with it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nodefleet.adapters.kubernetes.resources import PODS, Request

from .cases import MARK, Kind, Rollout, Start, Workload
from .objects import RESOURCES, STARTS, WORKLOAD, template

Raw = Mapping[str, Any]
Plans = Mapping[tuple[str, str], Workload]  # by namespace and name
Found = Mapping[tuple[str, str], Sequence[Raw]]  # pods by namespace and workload
_NOT_READY = {"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}


def grouped(pods: Iterable[Raw]) -> dict[tuple[str, str], list[Raw]]:
    found: dict[tuple[str, str], list[Raw]] = {}
    for pod in pods:
        meta = pod["metadata"]
        found.setdefault((meta["namespace"], meta["labels"][WORKLOAD]), []).append(pod)
    return found


def to_pods(plans: Plans, pods: Found) -> Iterable[Request]:
    """Some are not ready, some were deleted, some have finished; the last ones get a label."""
    for key, workload in plans.items():
        left = list(pods.get(key, ()))
        for pod in left[len(left) - min(workload.marked, len(left)) :]:
            yield PODS.patch(*_named(pod, {"metadata": {"labels": MARK}}))
        for pod, phase in zip(_taken(left, len(workload.finished)), workload.finished, strict=False):
            yield _status(pod, {"phase": phase.value, **({} if workload.still_ready else _NOT_READY)})
        for pod in _taken(left, workload.unready):
            yield _status(pod, _NOT_READY)
        for pod in _taken(left, workload.going):
            yield PODS.delete(*_named(pod, {}))


def to_workloads(plans: Plans) -> Iterable[Request]:
    """Some are scaled, some get a new template."""
    for (namespace, name), workload in plans.items():
        spec: dict[str, Any] = {}
        if workload.scaled_to is not None:
            spec["replicas"] = workload.scaled_to
        if workload.rollout is not None:
            new = template(workload, Start.NEVER if workload.rollout is Rollout.STUCK else None)
            new["metadata"]["annotations"]["rolled"] = "out"
            spec["template"] = new
        if spec:
            yield RESOURCES[workload.kind].patch(name, {"spec": spec}, namespace)


def all_there(plans: Plans, pods: Found) -> bool:
    """Every workload has its pods, and those that can run do."""
    counts = all(len(pods.get(key, ())) == workload.pods for key, workload in plans.items())
    return counts and not any(is_to_run(pod) for of in pods.values() for pod in of)


def is_to_run(pod: Raw) -> bool:
    """It has not started, though it could."""
    held = STARTS in pod["metadata"].get("annotations", {}) or "nodeSelector" in pod["spec"]
    return pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"] and not held


def has_done_its_part(kind: Kind, controller: Raw) -> bool:
    status, spec = controller["status"], controller["spec"]
    if status.get("observedGeneration", 0) < controller["metadata"]["generation"]:
        return False
    counts_pods = kind in (Kind.REPLICA_SET, Kind.REPLICATION_CONTROLLER)
    return not counts_pods or status.get("replicas", 0) == spec["replicas"]


def _taken(pods: list[Raw], count: int) -> list[Raw]:
    """The first so many, which are then gone from the list."""
    taken, pods[:count] = pods[:count], []
    return taken


def _named(pod: Raw, body: Raw) -> tuple[str, Raw, str]:
    return pod["metadata"]["name"], body, pod["metadata"]["namespace"]


def _status(pod: Raw, status: Raw) -> Request:
    name, _, namespace = _named(pod, {})
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    return Request(verb="patch", path=path, body={"status": status})
