"""Single scheduling rules against the real scheduler: whom it refuses, we keep off, and whom it takes, we place.

Claims without a volume, ReadWriteOncePod, StorageClasses for some zones, attach limits, DaemonSets that have no pod
yet, preemption, and the node policies of topology spread, on a node of their own beside a tainted one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.parts.running import RunningParts
from e2e.site.waiting import LONGEST, until
from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.resources import (
    CLAIMS,
    CSI_NODES,
    DAEMON_SETS,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL, Pod, resources_from
from nodefleet.scheduling.packing import list_unschedulable, simulate_fleet
from nodefleet.scheduling.predicates import NodeModel
from nodefleet.scheduling.simulation import SchedulerSimulation
from support.real_cluster_world import Admin

NAMESPACE, HERE = "rules", "rules.test/here"
FREE, TAINTED = "rules-free", "rules-tainted"
ALIVE = {"node-fleet.test/alive": "true"}
SIZE = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
ROOM = {"resources": {"requests": {"storage": "1Gi"}}}
IMMEDIATE, WAITS, ZONED = "rules-immediate", "rules-waits", "rules-zoned"
BARE, FOUGHT_FOR = "rules-bare", "rules-fought-for"
PRIORITIES = Resource(group="scheduling.k8s.io", plural="priorityclasses")
HELD = "rules.test/held"  # a finalizer: its pod is terminating until somebody takes it away
ATTACHED = 2  # volumes of the driver on one node


@dataclass
class Scene:
    admin: Admin
    cluster: KubernetesCluster

    def node(self, name: str, *taints: Mapping[str, str], **labelled: str) -> None:
        labels = {HOST_LABEL: name, HERE: "true", **ALIVE, **labelled}
        status = {"capacity": SIZE, "allocatable": SIZE}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}, "status": status}
        self.admin.do(NODES.create(body))

    def pod(self, name: str, app: str = "", cpu: str = "100m", finalizers: Sequence[str] = (), **spec: Any) -> None:
        main = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        meta = {"name": name, "labels": {"app": app or name}, "finalizers": list(finalizers)}
        body = {"metadata": meta, "spec": {"containers": [main], "nodeSelector": {HERE: "true"}, **spec}}
        self.admin.do(PODS.create(body, NAMESPACE))

    def claim(self, name: str, storage: str, mode: str = "ReadWriteOnce", **spec: Any) -> None:
        body = {
            "metadata": {"name": name},
            "spec": {"storageClassName": storage, "accessModes": [mode], **ROOM, **spec},
        }
        self.admin.do(CLAIMS.create(body, NAMESPACE))

    def told(self, name: str) -> str:
        """What the scheduler says of a pod that it refuses; empty while it says nothing."""
        found = self.admin.do(PODS.get(name, NAMESPACE))["status"].get("conditions", ())
        return next((each.get("message", "") for each in found if each.get("reason") == "Unschedulable"), "")

    def where(self, name: str) -> str:
        return str(self.admin.do(PODS.get(name, NAMESPACE))["spec"].get("nodeName", ""))

    def view(self) -> ClusterView:
        whole = self.cluster.view()
        return ClusterView(
            nodes=tuple(node for node in whole.nodes if HERE in node.labels),
            pods=tuple(pod for pod in whole.pods or () if pod.namespace == NAMESPACE),
            daemon_sets=tuple(each for each in whole.daemon_sets if each.namespace == NAMESPACE),
        )

    def seen(self, name: str) -> Pod:
        (found,) = [pod for pod in self.view().pods or () if pod.name == name]
        return found

    def room(self, without: Sequence[str] = ()) -> SchedulerSimulation:
        view = self.view()
        return simulate_fleet(view.nodes, [pod for pod in view.pods or () if pod.name not in without], (), ())


def mounting(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def spread(app: str, taints: str) -> dict[str, Any]:
    constraint = {
        "topologyKey": HOST_LABEL,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        "nodeTaintsPolicy": taints,
    }
    return {"topologySpreadConstraints": [constraint]}


@pytest.fixture(scope="module")
def scene(real_parts: RunningParts) -> Iterator[Scene]:
    kubeconfig = str(real_parts.kubeconfig)
    made = Scene(Admin(kubeconfig), KubernetesCluster.of_kubeconfig(kubeconfig))
    made.admin.do(NAMESPACES.create({"metadata": {"name": NAMESPACE}}))
    made.node(FREE)
    made.node(TAINTED, {"key": "rules.test/control-plane", "effect": "NoSchedule"})
    until(lambda: all(node.ready for node in made.view().nodes), "both nodes are ready")
    for name, mode in ((IMMEDIATE, "Immediate"), (WAITS, "WaitForFirstConsumer")):
        body = {"metadata": {"name": name}, "provisioner": "rules.test/nobody", "volumeBindingMode": mode}
        made.admin.do(STORAGE_CLASSES.create(body))
    try:
        yield made
    finally:
        ask = made.admin.api.ask
        for pod in made.view().pods or ():
            ask(PODS.delete(pod.name, {"gracePeriodSeconds": 0}, NAMESPACE))
        ask(DAEMON_SETS.delete("agent", {}, NAMESPACE))
        for name in (IMMEDIATE, WAITS, ZONED):
            ask(STORAGE_CLASSES.delete(name, {}))
        ask(PRIORITIES.delete("rules-urgent", {}))
        for name in (FREE, TAINTED, BARE, FOUGHT_FOR):
            ask(NODES.delete(name, {}))
        ask(CSI_NODES.delete(FREE, {}))
        for name in ("rules-once", "rules-attached-0", "rules-attached-1", "rules-attached-2"):
            ask(VOLUMES.delete(name, {}))
        ask(NAMESPACES.delete(NAMESPACE, {}))


@pytest.mark.parametrize("storage", [IMMEDIATE, "rules-no-such-class"])
def test_a_claim_that_no_node_gets_bound_is_refused_by_both(scene: Scene, storage: str) -> None:
    scene.claim(storage, storage)
    scene.pod(f"on-{storage}", **mounting(storage))
    said = until(lambda: scene.told(f"on-{storage}"), "the scheduler refuses it")
    assert "unbound immediate PersistentVolumeClaims" in said
    pod = scene.seen(f"on-{storage}")
    assert pod.volumes[0].unusable
    assert scene.room().why_not(pod, FREE) is not None


def test_a_claim_that_waits_for_its_pod_gets_a_node_from_both(scene: Scene) -> None:
    """Nobody provisions here: the scheduler chooses the node, writes it on the claim, and waits for the volume."""
    scene.claim(WAITS, WAITS)
    scene.pod("on-waits", **mounting(WAITS))

    def chosen() -> str:
        claim = scene.admin.do(CLAIMS.get(WAITS, NAMESPACE))
        return str(claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node", ""))

    assert until(chosen, "the scheduler chooses a node") == FREE
    assert scene.room().place(scene.seen("on-waits")) == FREE


def test_a_claim_for_one_pod_keeps_the_second_waiting_in_both(scene: Scene) -> None:
    stored = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOncePod"],
        "storageClassName": IMMEDIATE,
        "csi": {"driver": "rules.test", "volumeHandle": "once"},
    }
    scene.admin.do(VOLUMES.create({"metadata": {"name": "rules-once"}, "spec": stored}))
    scene.claim("once", IMMEDIATE, "ReadWriteOncePod", volumeName="rules-once")
    scene.pod("once-1", **mounting("once"))
    until(lambda: scene.where("once-1"), "the first has a node")
    scene.pod("once-2", **mounting("once"))
    said = until(lambda: scene.told("once-2"), "the scheduler refuses the second")
    assert "ReadWriteOncePod" in said
    assert scene.seen("once-2").volumes[0].unusable
    assert not scene.seen("once-1").volumes[0].unusable


def test_a_storage_class_for_other_zones_keeps_the_pod_off_in_both(scene: Scene) -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONE_LABEL, "values": ["rules-elsewhere"]}]}]
    body = {"metadata": {"name": ZONED}, "provisioner": "rules.test/nobody", "allowedTopologies": allowed}
    scene.admin.do(STORAGE_CLASSES.create({**body, "volumeBindingMode": "WaitForFirstConsumer"}))
    scene.claim(ZONED, ZONED)
    scene.pod("on-zoned", **mounting(ZONED))
    assert "available persistent volumes to bind" in until(lambda: scene.told("on-zoned"), "the scheduler refuses it")
    pod = scene.seen("on-zoned")
    assert pod.volumes[0].zones == ("rules-elsewhere",)
    assert scene.room().why_not(pod, FREE) is not None


def test_a_node_that_can_attach_no_more_volumes_is_full_for_both(scene: Scene) -> None:
    driver = {
        "name": "attach.rules.test",
        "nodeID": FREE,
        "topologyKeys": [HOST_LABEL],
        "allocatable": {"count": ATTACHED},
    }
    scene.admin.do(CSI_NODES.create({"metadata": {"name": FREE}, "spec": {"drivers": [driver]}}))
    names = [f"attached-{number}" for number in range(ATTACHED + 1)]
    for name in names:
        stored = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": IMMEDIATE,
            "csi": {"driver": "attach.rules.test", "volumeHandle": name},
        }
        scene.admin.do(VOLUMES.create({"metadata": {"name": f"rules-{name}"}, "spec": stored}))
        scene.claim(name, IMMEDIATE, volumeName=f"rules-{name}")
        scene.pod(name, **mounting(name))
    refused = until(
        lambda: [name for name in names if "max volume count" in scene.told(name)], "the scheduler refuses one"
    )
    # The scheduler tries a pod again that it refused before its claim was bound, after five minutes at the latest.
    until(
        lambda: sum(bool(scene.where(name)) for name in names) == ATTACHED,
        "the others have their node",
        seconds=LONGEST + 60,
    )
    assert len(refused) == 1
    assert scene.room().why_not(scene.seen(refused[0]), FREE) is not None
    room = scene.room(without=names)
    assert [room.place(scene.seen(name)) for name in names] == [FREE, FREE, None]


def test_a_tainted_node_is_an_empty_domain_only_if_its_taints_are_ignored(scene: Scene) -> None:
    names = {policy: [f"{policy.lower()}-{number}" for number in range(3)] for policy in ("Honor", "Ignore")}
    for policy, replicas in names.items():
        for name in replicas:
            scene.pod(name, app=policy.lower(), **spread(policy.lower(), policy))
    until(lambda: all(scene.where(name) for name in names["Honor"]), "all run whose constraint honours taints")
    assert {scene.where(name) for name in names["Honor"]} == {FREE}

    def settled() -> bool:
        return all(scene.where(name) or scene.told(name) for name in names["Ignore"])

    until(settled, "the scheduler has tried the others")
    really = sorted(scene.where(name) for name in names["Ignore"])
    assert really == ["", "", FREE]
    for policy, expected in (("Honor", [FREE] * 3), ("Ignore", [FREE, None, None])):
        room = scene.room(without=names[policy])
        assert [room.place(scene.seen(name)) for name in names[policy]] == expected


# ── with further nodes, which would be domains for pods that are spread ──────────────────────────────────────────────


def test_a_daemon_set_without_a_pod_takes_its_share_of_a_new_node_in_both(scene: Scene) -> None:
    """It asks for nodes that are not there yet. When one comes its daemon goes there while the node still starts, and
    the pod still waits."""
    chosen = {"rules.test/bare": "true"}
    main = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "3"}}}
    labels = {"app": "agent"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [main], "nodeSelector": chosen, "tolerations": [{"operator": "Exists"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    scene.admin.do(DAEMON_SETS.create({"metadata": {"name": "agent"}, "spec": spec}, NAMESPACE))
    scene.pod("beside-agent", cpu="6", nodeSelector=chosen)
    until(lambda: scene.told("beside-agent"), "the scheduler refuses it")
    (agent,) = scene.view().daemon_sets
    empty = NodeModel(name="new", labels=chosen, allocatable=resources_from(SIZE))
    room = SchedulerSimulation([])
    room.add(empty, [agent])
    expected = room.why_not(scene.seen("beside-agent"), "new")
    scene.node(BARE, {"key": "rules.test/starting", "effect": "NoSchedule"}, **chosen)
    until(lambda: any(pod.is_daemon and pod.node for pod in scene.view().pods or ()), "its daemon runs there")
    scene.admin.do(NODES.patch(BARE, {"spec": {"taints": None}}))
    until(lambda: "Insufficient cpu" in scene.told("beside-agent"), "the scheduler refuses it there too")
    assert expected is not None
    assert not scene.where("beside-agent")


def test_the_room_that_preemption_makes_is_kept_in_both(scene: Scene) -> None:
    """The victim is held while it terminates: meanwhile its node is promised to the pod that preempts it."""
    scene.admin.do(PRIORITIES.create({"metadata": {"name": "rules-urgent"}, "value": 1000}))
    chosen = {"rules.test/fought-for": "true"}
    scene.node(FOUGHT_FOR, **chosen)
    scene.pod("victim", cpu="6", finalizers=[HELD], nodeSelector=chosen, terminationGracePeriodSeconds=0)
    until(lambda: scene.where("victim"), "the first has the node")
    scene.pod("urgent", cpu="6", nodeSelector=chosen, priorityClassName="rules-urgent")
    until(lambda: scene.seen("urgent").nominated_node == FOUGHT_FOR, "the scheduler makes room for it")
    scene.pod("third", cpu="6", nodeSelector=chosen)
    until(lambda: scene.told("third"), "the scheduler refuses the third")
    view = scene.view()
    assert [pod.name for pod in list_unschedulable(view.pods or ()) if pod.rules.node_selector == chosen] == ["third"]
    assert scene.room(without=["victim"]).why_not(scene.seen("third"), FOUGHT_FOR) is not None
    assert scene.room(without=["victim", "urgent"]).why_not(scene.seen("third"), FOUGHT_FOR) is None
    scene.admin.do(PODS.patch("victim", {"metadata": {"finalizers": None}}, NAMESPACE))
    until(lambda: scene.where("urgent"), "it has the node")
    assert not scene.where("third")
