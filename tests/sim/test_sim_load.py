"""Requests and the pods that serve them: what is not served is carried, and waiting shows as latency."""

from datetime import timedelta
from math import inf

import pytest

from nodefleet_tools.sim.load import Service
from nodefleet_tools.sim.world import NOON, World


def serving(demand, *, replicas=4, workers=3, **service) -> tuple[World, Service]:
    """A world with a shop whose pods serve 25 requests per second each."""
    world = World()
    world.add_workers(workers)
    shop = world.deploy("shop", replicas=replicas, cpu=400)
    served = Service(workload=shop, demand=demand, per_pod=25, **service)
    world.clock.at(world.start, lambda: world.load.add(served))
    world.settle()
    return world, served


def test_pods_are_as_busy_as_their_share_of_the_demand():
    world, shop = serving(lambda _: 50)
    world.advance(60)
    assert (shop.asked, shop.capacity, shop.busy, shop.busy_pods) == (50, 100, 0.5, 2)
    assert shop.workload.traits.cpu_use == pytest.approx(0.05 + 0.95 * 0.5)
    assert (shop.backlog, shop.wait_seconds, shop.latency_ms) == (0, 0, 100)
    assert shop.violated == timedelta(0)


def test_what_is_not_served_is_carried_and_not_forgotten():
    world, shop = serving(lambda now: 150 if now < NOON + timedelta(seconds=60) else 0)
    world.advance(50)
    assert shop.backlog == 5 * 500  # each ten seconds bring 1,500, and 1,000 are served
    world.advance(20)
    assert shop.backlog == 500
    world.advance(20)
    assert (shop.backlog, shop.served) == (0, 5 * 1500)


def test_the_wait_behind_the_backlog_is_latency_and_above_the_limit_it_is_violation():
    world, shop = serving(lambda _: 150, slo_ms=2000)
    world.advance(30)
    assert shop.backlog == pytest.approx(1500)
    assert shop.wait_seconds == pytest.approx(15)
    assert shop.latency_ms == pytest.approx(1000 + 15_000)
    assert shop.violated == timedelta(seconds=30)


def test_without_a_pod_a_request_waits_for_ever():
    world, shop = serving(lambda _: 10, replicas=0)
    world.advance(10)
    assert shop.wait_seconds == inf
    assert shop.latency_ms == inf
    quiet, calm = serving(lambda _: 0, replicas=0)
    quiet.advance(10)
    assert (calm.wait_seconds, calm.latency_ms) == (0, calm.base_ms)


def test_the_autoscaler_adds_replicas_at_once_and_takes_them_back_after_five_calm_minutes():
    world, shop = serving(lambda now: 140 if now < NOON + timedelta(minutes=2) else 35, replicas=2)
    shop.replicas = (2, 20)
    world.advance(30)
    assert shop.workload.replicas >= 8
    world.advance(6 * 60)
    assert shop.workload.replicas >= 8
    world.advance(2 * 60)
    assert shop.workload.replicas == 2


def test_replicas_stay_within_their_bounds():
    world, shop = serving(lambda _: 10_000, replicas=2)
    shop.replicas = (2, 5)
    world.advance(60)
    assert shop.workload.replicas == 5


def test_a_pod_that_comes_or_goes_is_counted():
    world, shop = serving(lambda _: 10)
    world.advance(20)
    world.controllers.scale(shop.workload, 6)
    world.advance(20)
    assert shop.capacity == 150
    world.kubelets.delete(world.kube.pods_of(shop.workload.uid)[0])
    world.advance(0.5)
    assert world.load._serving(shop) == 5


def test_fewer_replicas_leave_the_crowded_nodes_first():
    world, shop = serving(lambda _: 10, replicas=8, workers=2)
    world.operator.launch(zone=world.zones[0])
    world.advance(150)
    world.controllers.scale(shop.workload, 10)
    world.advance(30)
    world.controllers.scale(shop.workload, 6)
    world.advance(30)
    pods = [pod.node for pod in world.kube.pods_of(shop.workload.uid)]
    assert sorted(pods.count(node) for node in set(pods)) == [2, 2, 2]
