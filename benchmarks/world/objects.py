"""A made-up cluster as its API server writes it: JSON with all that a real server sends, needed or not.

Ten pods for each node, unless told otherwise: nine of Deployments with ten replicas, one of a DaemonSet. Every fourth
Deployment has a disruption budget, every fiftieth pod a volume of its own.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from world import controllers, pods
from world.scene import (
    NAMESPACE,
    POOL,
    REPLICAS,
    TYPE,
    ZONES,
    Object,
    Scene,
    address,
    instance_id,
    named,
    node_name,
    written,
)

_CPU, _MEMORY = 1930, 3864572  # millicores and KiB that such a node has for pods
_BUDGET_EVERY = 4


def objects(scene: Scene, now: datetime | None = None) -> dict[str, Iterator[Object]]:
    """Everything that the API server lists, by plural: made one by one, as a hundred thousand pods take gigabytes."""
    now = now or datetime.now(UTC)
    born = written(now - timedelta(days=1))
    apps = scene.nodes * (scene.per_node - 1)
    extra = scene.pods * scene.waiting // 100
    workloads = range(-(-(apps + extra) // REPLICAS))
    running = (pods.app_pod(number, number % scene.nodes, born, scene.per_node) for number in range(apps))
    waiting = (pods.waiting(pods.app_pod(apps + number, None, born, scene.per_node), now) for number in range(extra))
    daemons = (pods.daemon_pod(number, born) for number in range(scene.nodes))
    claims = [number for number in range(apps) if number % pods.CLAIM_EVERY == 0]
    made: dict[str, Iterable[Object]] = {
        "nodes": (node(number, born) for number in range(scene.nodes)),
        "pods": chain(running, waiting, daemons),
        "replicasets": [controllers.replica_set(number, born) for number in workloads],
        "deployments": [controllers.deployment(number, born) for number in workloads],
        "daemonsets": [controllers.controller("apps/v1", "DaemonSet", "monitoring", "node-exporter", "ds-uid", born)],
        "statefulsets": [],
        "poddisruptionbudgets": [
            controllers.budget(number, born) for number in workloads if number % _BUDGET_EVERY == 0
        ],
        "persistentvolumeclaims": [controllers.claim(number, born) for number in claims],
        "persistentvolumes": [controllers.volume(number, born) for number in claims],
        "namespaces": [named("v1", "Namespace", "", name, f"ns-{name}", born) for name in (NAMESPACE, "monitoring")],
    }
    return {
        plural: (_with_managers(each, born) if scene.managed else each for each in listed)
        for plural, listed in made.items()
    }


def _with_managers(thing: Object, born: str) -> Object:
    thing["metadata"]["managedFields"] = _managed(thing, born)
    return thing


def node(number: int, born: str) -> Object:
    name, zone = node_name(number), ZONES[number % len(ZONES)]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": TYPE,
        "node-fleet.io/pool": POOL,
        "topology.kubernetes.io/region": zone[:-1],
        "topology.kubernetes.io/zone": zone,
    }
    annotations = {
        "flannel.alpha.coreos.com/backend-data": '{"VNI":1,"VtepMAC":"5e:aa:0c:21:9b:01"}',
        "flannel.alpha.coreos.com/backend-type": "vxlan",
        "flannel.alpha.coreos.com/public-ip": address(number),
        "k3s.io/hostname": name,
        "k3s.io/internal-ip": address(number),
        "k3s.io/node-args": json.dumps(["agent", "--node-label", f"topology.kubernetes.io/zone={zone}"]),
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    made = named("v1", "Node", "", name, f"node-uid-{number}", born, labels=labels, annotations=annotations)
    amounts = {"cpu": f"{_CPU}m", "ephemeral-storage": "19316009748", "memory": f"{_MEMORY}Ki", "pods": "110"}
    made["spec"] = {"podCIDR": "10.42.0.0/24", "providerID": f"aws:///{zone}/{instance_id(number)}"}
    made["status"] = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [_node_condition(kind, born) for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")]
        + [_node_condition("Ready", born, status="True")],
        "addresses": [{"type": "InternalIP", "address": "10.0.1.1"}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {"kernelVersion": "6.12.35", "kubeletVersion": "v1.34.2+k3s1", "osImage": "Amazon Linux 2023"},
        "images": [
            {"names": [f"registry.example.com/shop/app-{i}@sha256:{i:064x}"], "sizeBytes": 84213377} for i in range(20)
        ],
    }
    return made


def _node_condition(kind: str, born: str, status: str = "False") -> Object:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": born,
        "lastTransitionTime": born,
        "reason": f"Kubelet{kind}",
        "message": "kubelet has posted what it has to say of this",
    }


def _managed(thing: Object, born: str) -> list[Object]:
    """Who wrote which field: the fields' names once more, for the controller and for the kubelet."""

    def names(value: Any) -> Any:
        match value:
            case dict():
                return {f"f:{key}": names(inner) for key, inner in value.items()}
            case list():
                return {f'k:{{"type":"{place}"}}': {".": {}, **names(inner)} for place, inner in enumerate(value)}
            case _:
                return {}

    managers = [("k3s", thing.get("spec", {}), "f:spec"), ("kubelet", thing.get("status", {}), "f:status")]
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": thing["apiVersion"],
            "time": born,
            "fieldsType": "FieldsV1",
            "fieldsV1": {part: names(content)},
        }
        for manager, content, part in managers
        if content
    ]
