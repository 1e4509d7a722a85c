"""Cases as the API server takes them."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from e2e.parts.kwok import ALIVE_LABEL
from nodefleet.adapters.kubernetes.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from nodefleet.model.workload import HOST_LABEL

from .cases import Kind, Limit, Start, Wanted, Workload

WORKLOAD = "workload"  # the label that tells pods of one workload from others
_ROOM = {"cpu": "1000", "memory": "1000Gi", "pods": "2000"}
_LONG = "1h"
STARTS, _STOPS = "node-fleet.test/starts-after", "node-fleet.test/stops-after"
RESOURCES: Mapping[Kind, Resource] = {
    Kind.DEPLOYMENT: DEPLOYMENTS,
    Kind.REPLICA_SET: REPLICA_SETS,
    Kind.STATEFUL_SET: STATEFUL_SETS,
    Kind.REPLICATION_CONTROLLER: REPLICATION_CONTROLLERS,
    Kind.DAEMON_SET: DAEMON_SETS,
    Kind.JOB: Resource(group="batch", plural="jobs"),
    Kind.BARE: PODS,
}


def node(name: str) -> dict[str, Any]:
    labels = {ALIVE_LABEL: "true", HOST_LABEL: name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": _ROOM, "allocatable": _ROOM}}


def workload_objects(workload: Workload) -> list[dict[str, Any]]:
    """What to create: one controller, or as many pods."""
    if workload.kind is Kind.BARE:
        pod = template(workload)
        return [_named(pod, f"{workload.name}-{number}") for number in range(workload.replicas)]
    return [{"metadata": _meta(workload), "spec": _spec(workload)}]


def template(workload: Workload, start: Start | None = None) -> dict[str, Any]:
    how = start or workload.start
    notes = ({_STOPS: _LONG} if workload.lingers else {}) | ({STARTS: _LONG} if how is Start.NEVER else {})
    where = {"nodeSelector": {"node-fleet.test/nowhere": "yes"}} if how is Start.NO_NODE else {}
    restarts = {"restartPolicy": "Never"} if workload.kind is Kind.JOB else {}
    return {
        "metadata": {"labels": {**workload.labels, WORKLOAD: workload.name}, "annotations": notes},
        "spec": {"containers": [{"name": "main", "image": "none"}], **where, **restarts},
    }


def budget(wanted: Wanted) -> dict[str, Any]:
    spec: dict[str, Any] = dict(wanted.limit if wanted.first is None else wanted.first)
    if wanted.selector is not None:
        spec["selector"] = wanted.selector
    if wanted.policy is not None:
        spec["unhealthyPodEvictionPolicy"] = wanted.policy.value
    return {"metadata": {"name": wanted.name}, "spec": spec}


def changed_to(limit: Limit) -> dict[str, Any]:
    return {"spec": {"minAvailable": None, "maxUnavailable": None, **limit}}


def _meta(workload: Workload) -> dict[str, Any]:
    if not workload.owned_by:
        return {"name": workload.name}
    # Nobody here knows this API, so nobody can say that the owner is gone and sweep up behind it.
    owner = {"apiVersion": "example.test/v1", "kind": workload.owned_by, "name": "owner", "uid": str(uuid4())}
    return {"name": workload.name, "ownerReferences": [{**owner, "controller": True}]}


def _spec(workload: Workload) -> dict[str, Any]:
    own = {WORKLOAD: workload.name}
    spec: dict[str, Any] = {"template": template(workload)}
    match workload.kind:
        case Kind.JOB:
            return {**spec, "parallelism": workload.replicas, "completions": max(1, workload.replicas)}
        case Kind.REPLICATION_CONTROLLER:
            return {**spec, "replicas": workload.replicas, "selector": own}
        case Kind.DAEMON_SET:
            return {**spec, "selector": {"matchLabels": own}}
        case Kind.STATEFUL_SET:
            together = {"serviceName": workload.name, "podManagementPolicy": "Parallel"}
            return {**spec, **together, "replicas": workload.replicas, "selector": {"matchLabels": own}}
        case _:
            return {**spec, "replicas": workload.replicas, "selector": {"matchLabels": own}}


def _named(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}
