"""How every cluster behaves behind ports.Cluster: Kubernetes through the adapter, and the simulated one.

A subclass named Test… gives the `world` fixture; its tests then are these. Names are few and used again and again: each
test begins with an empty cluster. Nothing runs in it by itself: a pod that was asked to go may stay for its grace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import pytest

from nodefleet.errors import ChangedError
from nodefleet.model.inventory import Effect, Node, Taint
from nodefleet.model.names import LEAVING_TAINT, POOL_LABEL
from nodefleet.model.operations import Cordon, PodRef
from nodefleet.model.workload import Pod, PodPhase
from nodefleet.ports import Cluster, Eviction

DEDICATED = Taint(key="dedicated", value="db", effect=Effect.NO_EXECUTE)
LEAVES = Cordon(
    node="w1", removal="r-1", reason="CPU 20 % < 30 %: w1 leaves", deadline=datetime(2026, 11, 16, 12, 5, tzinfo=UTC)
)
WEB = {"app": "web"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An event on a node."""

    reason: str
    message: str
    count: int = 1
    warning: bool = False


class ClusterWorld(Protocol):
    """A cluster, and a hand in it."""

    cluster: Cluster
    namespace: str  # where pods and budgets are put

    def node(
        self,
        name: str,
        *,
        instance: str = "i-1",
        pool: str | None = "default",
        ready: bool = True,
        control_plane: bool = False,
        taints: tuple[Taint, ...] = (),
    ) -> None: ...

    def pod(
        self,
        name: str,
        *,
        node: str | None = "w1",
        labels: Mapping[str, str] = WEB,
        phase: PodPhase = PodPhase.RUNNING,
        ready: bool = True,
    ) -> PodRef: ...

    def replaced(self, pod: PodRef) -> PodRef:
        """That pod is gone, and another one has its name."""
        ...

    def budget(self, name: str, *, needs: int, labels: Mapping[str, str] = WEB) -> None:
        """`minAvailable`, for the pods that are there already; its figures are worked out when this returns."""
        ...

    def namespace_ends(self) -> None:
        """Somebody deletes the namespace; what is in it is still there."""
        ...

    def person_cordons(self, node: str) -> None: ...

    def person_uncordons(self, node: str) -> None:
        """As kubectl does it: nothing but the cordon itself goes."""
        ...

    def events_on(self, node: str) -> list[Said]: ...


class ClusterContract:
    @pytest.fixture
    def world(self) -> ClusterWorld:
        raise NotImplementedError

    # ── seeing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_worker_is_seen_with_its_pool_its_machine_and_its_health(self, world: ClusterWorld):
        world.node("w1", instance="i-1")
        world.node("w2", instance="i-2", pool="gpu", ready=False)
        seen = {node.name: node for node in world.cluster.view().nodes}
        assert (seen["w1"].pool, seen["w1"].instance, seen["w1"].ready) == ("default", "i-1", True)
        assert (seen["w2"].pool, seen["w2"].instance, seen["w2"].ready) == ("gpu", "i-2", False)
        assert not seen["w1"].cordoned
        assert not seen["w1"].removal

    def test_what_is_not_ours_is_seen_as_such(self, world: ClusterWorld):
        world.node("w1", pool=None)
        world.node("w2", control_plane=True)
        assert _node(world, "w1").pool is None
        assert _node(world, "w2").control_plane

    def test_a_node_that_is_not_there_is_none(self, world: ClusterWorld):
        assert world.cluster.node("w1") is None

    def test_pods_are_seen_where_they_are(self, world: ClusterWorld):
        world.node("w1")
        world.node("w2", instance="i-2")
        web = world.pod("web", node="w1")
        world.pod("db", node="w2", ready=False)
        waiting = world.pod("waiting", node=None, phase=PodPhase.PENDING, ready=False)
        pods = {pod.name: pod for pod in world.cluster.view().pods or () if pod.namespace == world.namespace}
        assert set(pods) == {"web", "db", "waiting"}
        assert (pods["web"].node, pods["web"].uid, pods["web"].ready) == ("w1", web.uid, True)
        assert (pods["db"].node, pods["db"].ready) == ("w2", False)
        assert (pods["waiting"].node, pods["waiting"].phase) == (None, PodPhase.PENDING)
        assert pods["waiting"].uid == waiting.uid
        assert pods["web"].labels["app"] == "web"

    def test_the_pods_of_one_node_are_those_of_the_view(self, world: ClusterWorld):
        world.node("w1")
        world.node("w2", instance="i-2")
        world.pod("web", node="w1")
        world.pod("db", node="w2")
        seen = {pod.name: pod for pod in world.cluster.view().pods or ()}
        assert world.cluster.pods_on("w1") == (seen["web"],)

    def test_a_budget_is_seen_with_its_figures(self, world: ClusterWorld):
        world.node("w1")
        world.pod("web-1")
        world.pod("web-2")
        world.budget("web", needs=1)
        (budget,) = [each for each in world.cluster.view().budgets if each.namespace == world.namespace]
        assert (budget.name, budget.min_available, budget.max_unavailable) == ("web", "1", None)
        assert budget.selector is not None
        assert budget.selector.labels == WEB
        assert budget.status is not None
        assert (budget.status.disruptions_allowed, budget.status.current_healthy) == (1, 2)

    # ── cordon ───────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_cordon_is_seen_as_ours(self, world: ClusterWorld):
        world.node("w1", taints=(DEDICATED,))
        world.cluster.cordon(LEAVES, "i-1")
        node = _node(world, "w1")
        assert node.cordoned
        assert node.removal == "r-1"
        assert LEAVING_TAINT in {taint.key for taint in node.taints}
        assert DEDICATED in node.taints

    def test_a_cordon_of_our_own_is_overwritten(self, world: ClusterWorld):
        world.node("w1")
        world.cluster.cordon(LEAVES, "i-1")
        world.cluster.cordon(Cordon(node="w1", removal="r-2", reason="EC2 takes it", deadline=LEAVES.deadline), "i-1")
        node = _node(world, "w1")
        assert node.removal == "r-2"
        assert [taint.key for taint in node.taints].count(LEAVING_TAINT) == 1

    def test_a_cordon_can_be_repeated(self, world: ClusterWorld):
        world.node("w1")
        world.cluster.cordon(LEAVES, "i-1")
        world.cluster.cordon(LEAVES, "i-1")
        assert _node(world, "w1").removal == "r-1"

    def test_a_cordon_comes_back_after_a_person_lifted_it(self, world: ClusterWorld):
        world.node("w1")
        world.cluster.cordon(LEAVES, "i-1")
        world.person_uncordons("w1")
        world.cluster.cordon(LEAVES, "i-1")
        assert _node(world, "w1").cordoned

    def test_the_node_of_another_machine_is_not_cordoned(self, world: ClusterWorld):
        world.node("w1", instance="i-2")
        _refuses_to_cordon(world)

    def test_a_removal_that_names_no_machine_cordons_no_node_that_names_one(self, world: ClusterWorld):
        world.node("w1", instance="i-2")
        with pytest.raises(ChangedError):
            world.cluster.cordon(LEAVES, "")
        assert not _node(world, "w1").cordoned

    def test_what_is_no_worker_of_ours_is_not_cordoned(self, world: ClusterWorld):
        world.node("w1", control_plane=True)
        _refuses_to_cordon(world)

    def test_a_node_without_a_pool_is_not_cordoned(self, world: ClusterWorld):
        world.node("w1", pool=None)
        _refuses_to_cordon(world)

    def test_a_cordon_of_a_person_stays_theirs(self, world: ClusterWorld):
        world.node("w1")
        world.person_cordons("w1")
        with pytest.raises(ChangedError):
            world.cluster.cordon(LEAVES, "i-1")
        assert (_node(world, "w1").cordoned, _node(world, "w1").removal) == (True, "")

    def test_a_node_that_is_gone_cannot_be_cordoned(self, world: ClusterWorld):
        with pytest.raises(ChangedError):
            world.cluster.cordon(LEAVES, "i-1")

    # ── uncordon ─────────────────────────────────────────────────────────────────────────────────────────────────

    def test_letting_a_node_back_in_takes_off_all_that_was_ours(self, world: ClusterWorld):
        world.node("w1", taints=(DEDICATED,))
        world.cluster.cordon(LEAVES, "i-1")
        world.cluster.uncordon("w1", "r-1")
        node = _node(world, "w1")
        assert not node.cordoned
        assert not node.removal
        assert LEAVING_TAINT not in {taint.key for taint in node.taints}
        assert DEDICATED in node.taints

    def test_letting_in_can_be_repeated(self, world: ClusterWorld):
        world.node("w1")
        world.cluster.cordon(LEAVES, "i-1")
        world.cluster.uncordon("w1", "r-1")
        world.cluster.uncordon("w1", "r-1")
        assert not _node(world, "w1").cordoned

    def test_the_cordon_of_another_removal_stays(self, world: ClusterWorld):
        world.node("w1")
        world.cluster.cordon(LEAVES, "i-1")
        world.cluster.uncordon("w1", "r-2")
        assert (_node(world, "w1").cordoned, _node(world, "w1").removal) == (True, "r-1")

    def test_a_cordon_of_a_person_is_not_lifted(self, world: ClusterWorld):
        world.node("w1")
        world.person_cordons("w1")
        world.cluster.uncordon("w1", "r-1")
        assert _node(world, "w1").cordoned

    def test_what_a_person_left_of_our_cordon_is_taken_off(self, world: ClusterWorld):
        world.node("w1")
        world.cluster.cordon(LEAVES, "i-1")
        world.person_uncordons("w1")
        assert (_node(world, "w1").cordoned, _node(world, "w1").removal) == (False, "r-1")
        world.cluster.uncordon("w1", "r-1")
        node = _node(world, "w1")
        assert not node.removal
        assert LEAVING_TAINT not in {taint.key for taint in node.taints}

    def test_a_node_that_is_gone_needs_no_letting_in(self, world: ClusterWorld):
        world.cluster.uncordon("w1", "r-1")
        assert world.cluster.node("w1") is None

    # ── evict ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_pod_without_a_budget_goes(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web")
        assert world.cluster.evict(pod).result is Eviction.EVICTED
        assert _leaves(world, pod)

    def test_an_eviction_can_be_repeated(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web")
        world.cluster.evict(pod)
        assert world.cluster.evict(pod).result in (Eviction.EVICTED, Eviction.GONE)

    def test_a_budget_says_no_in_its_own_words(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web-1")
        world.budget("web-budget", needs=1)
        evicted = world.cluster.evict(pod)
        assert evicted.result is Eviction.REFUSED
        assert "web-budget" in evicted.detail
        assert not _leaves(world, pod)

    def test_a_budget_lets_as_many_go_as_it_allows(self, world: ClusterWorld):
        world.node("w1")
        first, second = world.pod("web-1"), world.pod("web-2")
        world.budget("web", needs=1)
        assert world.cluster.evict(first).result is Eviction.EVICTED
        assert world.cluster.evict(second).result is Eviction.REFUSED
        assert (_leaves(world, first), _leaves(world, second)) == (True, False)

    def test_a_budget_does_not_speak_for_a_pod_that_never_ran(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web", phase=PodPhase.PENDING, ready=False)
        world.budget("web", needs=1)
        assert world.cluster.evict(pod).result is Eviction.EVICTED

    def test_a_pod_of_several_budgets_cannot_be_evicted(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web")
        world.budget("one", needs=0)
        world.budget("two", needs=0)
        assert world.cluster.evict(pod).result is Eviction.SEVERAL_BUDGETS
        assert not _leaves(world, pod)

    def test_a_pod_that_is_gone_is_gone(self, world: ClusterWorld):
        assert world.cluster.evict(_ref(world, "web")).result is Eviction.GONE

    @pytest.mark.parametrize("phase", [PodPhase.RUNNING, PodPhase.PENDING])
    def test_another_pod_of_the_same_name_is_not_evicted(self, world: ClusterWorld, phase: PodPhase):
        world.node("w1")
        old = world.pod("web", phase=phase, ready=False)
        new = world.replaced(old)
        assert world.cluster.evict(old).result is Eviction.GONE
        assert not _leaves(world, new)

    def test_a_pod_in_a_namespace_that_ends_is_waited_for(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web")
        world.namespace_ends()
        assert world.cluster.evict(pod).result is Eviction.WAITS

    # ── delete ───────────────────────────────────────────────────────────────────────────────────────────────────

    def test_force_asks_no_budget(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web")
        world.budget("web", needs=1)
        world.cluster.delete_pod(pod)
        assert _find(world, pod) is None

    def test_force_ends_a_pod_that_was_already_leaving(self, world: ClusterWorld):
        world.node("w1")
        pod = world.pod("web")
        world.cluster.evict(pod)
        world.cluster.delete_pod(pod)
        assert _find(world, pod) is None

    def test_force_does_not_touch_another_pod_of_the_same_name(self, world: ClusterWorld):
        world.node("w1")
        old = world.pod("web")
        new = world.replaced(old)
        world.cluster.delete_pod(old)
        assert not _leaves(world, new)

    def test_force_on_a_pod_that_is_gone_is_fine(self, world: ClusterWorld):
        world.cluster.delete_pod(_ref(world, "web"))

    def test_a_node_that_is_handed_to_a_pool_carries_its_label(self, world: ClusterWorld):
        world.node("w1", instance="i-1")
        for _ in range(2):
            world.cluster.assign("w1", "i-1", "web")
        assert (_node(world, "w1").pool, _node(world, "w1").labels[POOL_LABEL]) == ("web", "web")

    def test_a_node_of_another_machine_or_of_the_control_plane_is_not_handed_over(self, world: ClusterWorld):
        world.node("w1", instance="i-2")
        world.node("master", instance="i-0", control_plane=True)
        for node, instance in (("w1", "i-1"), ("master", "i-0"), ("gone", "i-3")):
            with pytest.raises(ChangedError):
                world.cluster.assign(node, instance, "web")
        assert _node(world, "w1").pool != "web"

    def test_the_node_of_a_lost_machine_is_deleted(self, world: ClusterWorld):
        world.node("w1", instance="i-1", ready=False)
        world.cluster.delete_node("w1", "i-1")
        assert world.cluster.node("w1") is None
        world.cluster.delete_node("w1", "i-1")

    def test_a_ready_node_is_not_deleted(self, world: ClusterWorld):
        world.node("w1", instance="i-1", ready=True)
        _refuses_to_delete(world)

    def test_the_node_of_another_machine_is_not_deleted(self, world: ClusterWorld):
        world.node("w1", instance="i-2", ready=False)
        _refuses_to_delete(world)

    def test_a_step_that_names_no_machine_deletes_no_node_that_names_one(self, world: ClusterWorld):
        world.node("w1", instance="i-2", ready=False)
        with pytest.raises(ChangedError):
            world.cluster.delete_node("w1", "")
        assert world.cluster.node("w1") is not None

    def test_a_node_of_the_control_plane_is_not_deleted(self, world: ClusterWorld):
        world.node("w1", instance="i-1", ready=False, control_plane=True)
        _refuses_to_delete(world)

    # ── note ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_what_is_noted_stands_on_the_node(self, world: ClusterWorld):
        world.node("w1")
        world.cluster.note("w1", "NodeFleetLeaving", "leaves: CPU 20 % < 30 %")
        world.cluster.note("w1", "NodeFleetDrainWaits", "waits for default/web", warning=True)
        assert sorted(world.events_on("w1"), key=lambda said: said.reason) == [
            Said(reason="NodeFleetDrainWaits", message="waits for default/web", warning=True),
            Said(reason="NodeFleetLeaving", message="leaves: CPU 20 % < 30 %"),
        ]

    def test_the_same_note_again_only_counts_up(self, world: ClusterWorld):
        world.node("w1")
        for _ in range(3):
            world.cluster.note("w1", "NodeFleetDrainWaits", "waits for default/web")
        assert world.events_on("w1") == [
            Said(reason="NodeFleetDrainWaits", message="waits for default/web", count=3),
        ]


def _node(world: ClusterWorld, name: str) -> Node:
    node = world.cluster.node(name)
    assert node is not None, f"node {name} is not there"
    return node


def _ref(world: ClusterWorld, name: str) -> PodRef:
    return PodRef(namespace=world.namespace, name=name, uid="00000000-0000-0000-0000-000000000000")


def _find(world: ClusterWorld, pod: PodRef) -> Pod | None:
    return next((each for each in world.cluster.view().pods or () if each.uid == pod.uid), None)


def _leaves(world: ClusterWorld, pod: PodRef) -> bool:
    """It is gone, or has been asked to go."""
    found = _find(world, pod)
    return found is None or found.deleted_at is not None


def _refuses_to_cordon(world: ClusterWorld) -> None:
    with pytest.raises(ChangedError):
        world.cluster.cordon(LEAVES, "i-1")
    assert not _node(world, "w1").cordoned
    assert not _node(world, "w1").removal


def _refuses_to_delete(world: ClusterWorld) -> None:
    with pytest.raises(ChangedError):
        world.cluster.delete_node("w1", "i-1")
    assert world.cluster.node("w1") is not None
