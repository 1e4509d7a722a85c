"""The Cluster port: conditions on every patch, the eviction rule, grace, and notes."""

from datetime import timedelta

import pytest

from nodefleet.errors import ChangedError
from nodefleet.model.names import LEAVING_TAINT, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.model.operations import Cordon, PodRef
from nodefleet.model.workload import Budget, Pod, PodPhase, Selector
from nodefleet.ports import Eviction
from nodefleet_tools.sim.kube import Note, Traits
from nodefleet_tools.sim.world import NOON, World
from support.wording import assert_wording


class Scene:
    def __init__(self, replicas=3, **shop):
        self.world = World()
        self.worker, self.other = self.world.add_workers(2)
        self.world.deploy("shop", replicas=replicas, **shop)
        self.world.settle()
        self.parts = self.world.parts("r", limit=timedelta(days=1))
        self.parts.store.acquire("r", NOON, NOON + timedelta(days=1), timedelta(seconds=5))
        self.cluster = self.parts.cluster

    @property
    def node(self):
        return self.world.node_of(self.worker)

    def cordon(self, removal="removal-1", node=None):
        self.cluster.cordon(
            Cordon(node=node or self.node.name, removal=removal, reason="idle", deadline=NOON), self.worker.id
        )

    def pods(self):
        return list(self.world.kube.pods.values())


def ref(pod: Pod) -> PodRef:
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def test_our_cordon_says_on_the_node_why_it_leaves_and_comes_off_without_a_trace():
    scene = Scene()
    before = scene.node
    scene.cordon()
    assert (scene.node.cordoned, scene.node.removal) == (True, "removal-1")
    assert [taint.key for taint in scene.node.taints] == [LEAVING_TAINT]
    assert scene.node.annotations == {REMOVAL_ANNOTATION: "removal-1", REASON_ANNOTATION: "idle"}
    scene.cordon("removal-2")
    assert (scene.node.removal, len(scene.node.taints)) == ("removal-2", 1)
    scene.cluster.uncordon(scene.node.name, "removal-1")
    assert scene.node.cordoned
    scene.cluster.uncordon(scene.node.name, "removal-2")
    assert scene.node == before
    scene.cluster.uncordon("nobody", "removal-2")


def test_a_persons_cordon_is_theirs():
    scene = Scene()
    scene.world.operator.cordon(scene.node.name)
    with pytest.raises(ChangedError) as caught:
        scene.cordon()
    assert_wording(str(caught.value))
    scene.cluster.uncordon(scene.node.name, "")
    assert scene.node.cordoned
    assert scene.world.violations == []


def test_a_person_who_uncordons_leaves_our_taint_behind():
    scene = Scene()
    scene.cordon()
    scene.world.operator.uncordon(scene.node.name)
    assert (scene.node.cordoned, scene.node.removal) == (False, "removal-1")
    scene.cluster.uncordon(scene.node.name, "removal-1")
    assert (scene.node.removal, scene.node.taints) == ("", ())


def test_another_machines_node_is_not_cordoned():
    scene = Scene()
    with pytest.raises(ChangedError):
        scene.cordon(node=scene.world.node_of(scene.other).name)
    with pytest.raises(ChangedError):
        scene.cordon(node="nobody")


def test_an_evicted_pod_ends_within_its_grace_and_is_made_again():
    scene = Scene(traits=Traits(stops_in=100), grace=timedelta(seconds=20))
    pod = scene.pods()[0]
    assert scene.cluster.evict(ref(pod)).result is Eviction.EVICTED
    assert scene.cluster.evict(ref(pod)).result is Eviction.EVICTED
    scene.world.advance(19)
    assert scene.world.kube.pods[pod.key].deleted_at == NOON
    scene.world.advance(2)
    assert scene.cluster.evict(ref(pod)).result is Eviction.GONE
    assert len([each for each in scene.pods() if each.ready]) == 3


def test_another_pod_with_the_same_name_is_not_meant():
    scene = Scene()
    pod = scene.pods()[0]
    other = PodRef(namespace=pod.namespace, name=pod.name, uid="another")
    assert scene.cluster.evict(other).result is Eviction.GONE
    scene.cluster.delete_pod(other)
    assert scene.world.kube.pods[pod.key] == pod


def test_a_budget_says_no_until_the_replacement_is_ready():
    scene = Scene(traits=Traits(starts_in=30))
    scene.world.protect("shop", max_unavailable="1")
    first, second, _ = scene.pods()
    assert scene.cluster.evict(ref(first)).result is Eviction.EVICTED
    refused = scene.cluster.evict(ref(second))
    assert refused.result is Eviction.REFUSED
    assert_wording(refused.detail)
    (budget,) = scene.cluster.view().budgets
    assert (budget.status.disruptions_allowed, budget.status.expected_pods) == (0, 3)
    scene.world.advance(40)
    assert scene.cluster.evict(ref(second)).result is Eviction.EVICTED
    assert scene.world.violations == []


def test_several_budgets_stop_an_eviction_for_good():
    scene = Scene()
    scene.world.protect("shop", min_available="0")
    scene.world.kube.budgets["default/all"] = Budget(name="all", selector=Selector(), min_available="0")
    assert scene.cluster.evict(ref(scene.pods()[0])).result is Eviction.SEVERAL_BUDGETS


def test_a_namespace_that_is_being_deleted_waits():
    scene = Scene()
    scene.world.kube.closing.add("default")
    assert scene.cluster.evict(ref(scene.pods()[0])).result is Eviction.WAITS


def test_by_force_a_pod_is_gone_at_once():
    scene = Scene()
    pod = scene.pods()[0]
    scene.world.interrupt(scene.worker.id)
    scene.world.interrupt(scene.other.id)
    scene.cluster.delete_pod(ref(pod))
    assert pod.key not in scene.world.kube.pods
    assert scene.world.violations == []


def test_only_a_dead_node_of_that_machine_is_deleted():
    scene = Scene()
    name = scene.node.name
    with pytest.raises(ChangedError, match="ready"):
        scene.cluster.delete_node(name, scene.worker.id)
    scene.world.operator.terminate(scene.worker.id)
    scene.world.advance(60)
    with pytest.raises(ChangedError):
        scene.cluster.delete_node(name, scene.other.id)
    scene.cluster.delete_node(name, scene.worker.id)
    scene.cluster.delete_node(name, scene.worker.id)
    assert scene.cluster.node(name) is None
    with pytest.raises(ChangedError):
        scene.cluster.delete_node(scene.world.node_of(scene.world.server).name, scene.world.server.id)


def test_the_same_note_counts_up():
    scene = Scene()
    for _ in range(2):
        scene.cluster.note("w", "Leaving", "idle")
    scene.cluster.note("w", "Leaving", "idle", warning=True)
    assert scene.world.kube.notes == {Note("w", "Leaving", "idle", False): 2, Note("w", "Leaving", "idle", True): 1}


def test_a_view_is_what_it_was_when_it_was_taken():
    scene = Scene()
    view = scene.cluster.view()
    scene.cordon()
    scene.cluster.evict(ref(scene.pods()[0]))
    scene.world.advance(30)
    assert not any(node.cordoned for node in view.nodes)
    assert not any(pod.deleted_at for pod in view.pods)
    assert {pod.phase for pod in view.pods} == {PodPhase.RUNNING}
    assert scene.cluster.pods_on(scene.node.name) == tuple(scene.world.kube.pods_on(scene.node.name))
