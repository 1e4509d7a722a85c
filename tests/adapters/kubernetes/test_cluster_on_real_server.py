"""What only a real API server can show: its own objects, decoded with no more than the permissions we ask for."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nodefleet.adapters.kubernetes import client
from nodefleet.adapters.kubernetes.resources import (
    CLAIMS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VOLUMES,
    Resource,
)
from nodefleet.model.workload import HOST_LABEL, Owner, Pod, PodPhase, PodTerm, Selector, Volume, VolumeKind
from support import k8s_objects
from support.real_cluster_world import RealWorld

KUBECONFIG = os.environ.get("NODEFLEET_API_SERVER_KUBECONFIG", "")
LABELS = {"app": "db"}
SPEC = {
    "replicas": 0,  # its controller, if there is one, makes no pods of its own
    "selector": {"matchLabels": LABELS},
    "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}},
}

pytestmark = pytest.mark.skipif(
    not KUBECONFIG,
    reason="NOT RUN on a real API server: set NODEFLEET_API_SERVER_KUBECONFIG to the kubeconfig of an empty one",
)


@pytest.fixture
def world() -> Iterator[RealWorld]:
    made = RealWorld(KUBECONFIG)
    yield made
    made.close()


def seen(world: RealWorld, name: str) -> Pod:
    return next(pod for pod in world.cluster.view().pods or () if (pod.namespace, pod.name) == (world.namespace, name))


def make(world: RealWorld, resource: Resource, name: str, spec: dict[str, Any], **meta: Any) -> str:
    body = {"metadata": {"name": name, **meta}, "spec": spec}
    return str(world.admin.do(resource.create(body, world.namespace))["metadata"]["uid"])


def test_a_deployment_is_found_through_its_replica_set(world: RealWorld):
    labels = {**LABELS, "pod-template-hash": "abc"}
    deployment = make(world, DEPLOYMENTS, "db", SPEC)
    owner = k8s_objects.reference("Deployment", "db", deployment)
    spec = {**SPEC, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": SPEC["template"]["spec"]}
    uid = make(world, REPLICA_SETS, "db-abc", spec, labels=labels, ownerReferences=[owner])
    world.node("w1")
    world.pod("db-1", labels=labels, owner=k8s_objects.reference("ReplicaSet", "db-abc", uid))
    assert seen(world, "db-1").owner == Owner(kind="Deployment", name="db", uid=deployment, replicas=0)


@pytest.mark.parametrize(
    ("kind", "resource", "replicas", "changes"),
    [
        ("StatefulSet", STATEFUL_SETS, 0, {"serviceName": "db"}),
        ("DaemonSet", DAEMON_SETS, None, {"replicas": None}),
        ("ReplicationController", REPLICATION_CONTROLLERS, 0, {"selector": LABELS}),
        ("ReplicaSet", REPLICA_SETS, 0, {}),
    ],
)
def test_other_controllers_are_found(
    world: RealWorld, kind: str, resource: Resource, replicas: int | None, changes: dict[str, Any]
):
    uid = make(world, resource, "db", {**SPEC, **changes})
    world.node("w1")
    # Its controller, if there is one, wants none of it: then it is on its way out, and still its own.
    world.pod("db-0", labels=LABELS, owner=k8s_objects.reference(kind, "db", uid, f"{resource.group}/v1".lstrip("/")))
    assert seen(world, "db-0").owner == Owner(kind=kind, name="db", uid=uid, replicas=replicas)


def test_a_local_volume_is_found_through_its_claim(world: RealWorld):
    size = {"storage": "1Gi"}
    bound = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
    name = f"pv-{world.namespace}"
    source = k8s_objects.volume(name, k8s_objects.term(HOST_LABEL, "w1"), local={"path": "/opt/x"})
    world.admin.do(VOLUMES.create({**source, "spec": {**source["spec"], **bound, "capacity": size}}))
    make(world, CLAIMS, "data", {**bound, "volumeName": name, "resources": {"requests": size}})
    world.node("w1")
    world.pod("db-0", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    assert seen(world, "db-0").volumes == (Volume(kind=VolumeKind.LOCAL, name="data", node="w1"),)
    world.admin.api.ask(VOLUMES.delete(name, {}))


def test_namespaces_are_found_by_label(world: RealWorld):
    world.admin.do(NAMESPACES.patch(world.namespace, {"metadata": {"labels": {"team": world.namespace}}}))
    term = {
        "topologyKey": HOST_LABEL,
        "labelSelector": {"matchLabels": LABELS},
        "namespaceSelector": {"matchLabels": {"team": world.namespace}},
    }
    world.node("w1")
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.pod("db-0", affinity=affinity)
    assert seen(world, "db-0").rules.anti_affinity == (
        PodTerm(topology=HOST_LABEL, selector=Selector(labels=LABELS), namespaces=(world.namespace,)),
    )


def test_pages_of_a_real_list(world: RealWorld, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client, "PAGE", 2)
    world.node("w1")
    for number in range(5):
        world.pod(f"web-{number}")
    names = [pod.name for pod in world.cluster.view().pods or () if pod.namespace == world.namespace]
    assert names == [f"web-{number}" for number in range(5)]


def test_a_pod_that_waits_has_what_the_server_fills_in(world: RealWorld):
    why = k8s_objects.condition("PodScheduled", is_so=False, reason="Unschedulable")
    world.pod("web", node=None, phase=PodPhase.PENDING, ready=False, conditions=[why])
    found = seen(world, "web")
    assert found.unschedulable_since is not None
    assert {each.key for each in found.rules.tolerations} >= {"node.kubernetes.io/not-ready"}


def test_the_servers_clock_is_ours_on_the_same_machine(world: RealWorld):
    assert abs(world.cluster.server_time().timestamp() - time.time()) < 2
    assert world.cluster.server_version().startswith("v1.")
