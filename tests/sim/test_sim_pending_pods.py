"""Pods that wait get their nodes, whatever they are called and in whatever order the scheduler takes them; and a pod
that the scheduler refuses for a reason of its own neither holds the fleet nor keeps runs busy."""

from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.workload import ZONE_LABEL, Rules
from nodefleet_tools.sim.kube import KubeSettings, Order, Traits
from nodefleet_tools.sim.world import World
from support.worlds import Cluster

PACKING = {"steps": {"pending": "packing"}}
FOR_AN_HOUR = 30  # ticks


def world_of(*, seed=0, workers=2, least=2, most=10, order=Order.RANDOM, **policy):
    kubernetes = KubeSettings(random_names=True, scheduling_order=order)
    world = World(seed=seed, kubernetes=kubernetes, policy={"limits": {"min": least, "max": most}, **policy})
    world.add_workers(workers)
    return world


def shop_of(replicas, **world):
    found = world_of(**world)
    shop = found.deploy("shop", replicas=replicas, cpu=900, memory=200)
    found.settle()
    return Cluster(found), shop


def run_of(world, app="shop"):
    """How many pods of a workload have a node."""
    return sum(pod.node is not None for pod in world.kube.pods.values() if pod.labels["app"] == app)


def told(world, kind):
    return sorted((event for event in world.table.events if event.kind is kind), key=lambda event: event.at)


# ── growth does not stop while a pod waits that a new node would hold ────────────────────────────────────────────────


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("seed", range(3))
def test_a_deployment_that_needs_several_purchases_runs_in_the_end(seed, order):
    cluster, shop = shop_of(4, seed=seed, order=order)
    cluster.world.controllers.scale(shop, 20)
    cluster.until(lambda: run_of(cluster.world) == 20, ticks=FOR_AN_HOUR)
    assert len(cluster.world.workers()) == 10
    assert told(cluster.world, AlertKind.PODS_REFUSED) == []


def test_one_that_needs_nine_purchases_too():
    cluster, shop = shop_of(4, most=22)
    cluster.world.controllers.scale(shop, 44)
    cluster.until(lambda: run_of(cluster.world) == 44, ticks=2 * FOR_AN_HOUR)
    assert len(cluster.world.workers()) == 22


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("seed", range(3))
def test_by_packing_all_of_them_run_as_soon_as_nodes_can_join(seed, order):
    cluster, shop = shop_of(4, seed=seed, order=order, most=22, **PACKING)
    cluster.world.controllers.scale(shop, 44)
    cluster.until(lambda: run_of(cluster.world) == 44, ticks=4)
    assert len(cluster.world.workers()) == 22


def test_by_packing_a_second_wave_does_not_wait_for_the_cooldown_and_buys_nothing_twice():
    cluster, shop = shop_of(4, most=10, **PACKING)
    cluster.world.controllers.scale(shop, 8)
    cluster.tick()
    cluster.world.controllers.scale(shop, 12)
    cluster.until(lambda: run_of(cluster.world) == 12, ticks=3)
    assert len(cluster.world.workers()) == 6


# ── pods that the scheduler refuses for a reason that packing does not know ──────────────────────────────────────────

NO_CLASS = 'storageclass.storage.k8s.io "fast" not found'


def refused_pod(**world):
    found = world_of(workers=5, **world)
    found.deploy("shop", replicas=2, cpu=100)
    stuck = found.deploy("db", cpu=100, traits=Traits(refused=NO_CLASS))
    found.settle()
    return Cluster(found), stuck


def looks_of(cluster, ticks):
    return sum(ran.iterations for _ in range(ticks) if (ran := cluster.tick()))


@pytest.mark.parametrize("policy", [{}, PACKING])
def test_an_idle_fleet_shrinks_though_a_pod_is_refused(policy):
    cluster, _ = refused_pod(**policy)
    looks = looks_of(cluster, 2 * FOR_AN_HOUR)
    assert len(cluster.world.workers()) == 2
    assert looks < 250  # a run for each tick, the first interval, and one drain a node


def test_people_are_told_with_the_name_and_the_schedulers_words():
    cluster, _ = refused_pod()
    cluster.calm(FOR_AN_HOUR)
    first = told(cluster.world, AlertKind.PODS_REFUSED)[0]
    (pod,) = cluster.world.waiting_pods()
    assert (pod.key in first.text, NO_CLASS in first.text, pod.uid in first.text) == (True, True, False)
    assert first.at - cluster.world.start <= timedelta(minutes=12)


def test_what_goes_on_for_a_day_is_told_a_few_times():
    cluster, _ = refused_pod()
    cluster.calm(24 * FOR_AN_HOUR)
    assert 2 <= len(told(cluster.world, AlertKind.PODS_REFUSED)) <= 10
    assert len(cluster.world.workers()) == 2


def test_when_the_reason_is_gone_it_runs_and_its_siblings_get_their_nodes():
    cluster, stuck = refused_pod(most=10)
    cluster.calm(FOR_AN_HOUR)
    cluster.world.controllers.scale(stuck, 40)
    stuck.traits.refused = ""
    cluster.world.controllers.scale(stuck, 60)
    cluster.until(lambda: run_of(cluster.world, "db") == 60, ticks=FOR_AN_HOUR)
    assert len(cluster.world.workers()) > 2


def test_a_full_fleet_finds_out_too_that_the_reason_is_gone():
    """No pod can show it by getting a place: one of them asks for a node after a while."""
    found = world_of(workers=2, most=6, **PACKING)
    found.deploy("full", replicas=4, cpu=900, memory=200)
    stuck = found.deploy("db", replicas=4, cpu=900, memory=200, traits=Traits(refused=NO_CLASS))
    found.settle()
    cluster = Cluster(found)
    cluster.calm(3 * FOR_AN_HOUR)
    stuck.traits.refused = ""
    found.kube.changed()
    longest = found.policy.pools[0].benefit.retry_longest
    cluster.until(lambda: run_of(found, "db") == 4, ticks=int(longest / timedelta(seconds=120)) + 10)
    assert len(found.workers()) == 4


def test_an_attach_limit_neither_buys_to_the_limit_nor_freezes():
    found = world_of(workers=2, most=10)
    found.deploy("db", replicas=6, cpu=100, traits=Traits(most_on_node=2))
    found.settle()
    cluster = Cluster(found)
    cluster.calm(2 * FOR_AN_HOUR)
    assert len(found.workers()) == 2
    assert told(found, AlertKind.PODS_REFUSED)
    assert cluster.tick().iterations == 1


def test_one_refused_workload_does_not_keep_another_from_its_nodes():
    cluster, _ = refused_pod(**PACKING)
    cluster.calm(FOR_AN_HOUR)
    cluster.world.controllers.scale(cluster.world.controllers.named("shop"), 60)
    cluster.until(lambda: run_of(cluster.world) == 60, ticks=4)


@pytest.mark.parametrize("policy", [PACKING, {"strategy": "adaptive"}, {"preset": "low-latency"}])
def test_the_running_pods_of_a_workload_that_the_scheduler_refuses_more_of_keep_their_nodes(policy):
    """One of them on each node is all that it takes. Packing sees room for more, and so for those of a node that would
    leave: one node after the other was drained for ever, its pod waited too, and the node was taken back."""
    found = world_of(workers=5, most=5, **{"cooldown": {"down": 120}, **policy})
    shop = found.deploy("shop", replicas=5, cpu=400, memory=200, traits=Traits(cpu_use=0.1, most_on_node=1))
    found.settle()
    cluster = Cluster(found)
    found.controllers.scale(shop, 12)
    fewest = 5
    for _ in range(4 * FOR_AN_HOUR):
        cluster.tick()
        fewest = min(fewest, run_of(found))
    assert (fewest, len(found.ready_nodes())) == (5, 5)


# ── at max ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("small", [0, 6])
@pytest.mark.parametrize("policy", [{}, PACKING, {"strategy": "adaptive"}])
def test_an_idle_node_makes_room_at_max_for_pods_that_it_cannot_hold(policy, small):
    """Pods of one zone wait, all nodes there are full, and those of the other have small pods at most."""
    found = world_of(workers=6, most=6, **policy)
    zone, other = ({ZONE_LABEL: each} for each in found.zones)
    found.deploy("small", replicas=small, cpu=50, memory=20, rules=Rules(node_selector=other))
    shop = found.deploy("shop", replicas=4, cpu=900, memory=200, rules=Rules(node_selector=zone))
    found.settle()
    cluster = Cluster(found)
    found.controllers.scale(shop, 8)
    cluster.until(lambda: run_of(found) == 8, ticks=2 * FOR_AN_HOUR)
    cluster.calm(FOR_AN_HOUR)
    assert (run_of(found), run_of(found, "small")) == (8, small)
    assert len(found.workers()) <= 6
