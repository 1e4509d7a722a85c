"""Growth does not stop while a pod waits that a new node would hold; where it does, that is noticed."""

from datetime import timedelta

import pytest

from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.kube import KubeSettings, Order, Traits
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.worlds import Cluster

PACKING = {"steps": {"pending": "packing"}}


def shop_of(replicas, *, most=10, traits=None, **policy):
    kubernetes = KubeSettings(random_names=True, scheduling_order=Order.RANDOM)
    world = World(seed=1, kubernetes=kubernetes, policy={"limits": {"min": 2, "max": most}, **policy})
    world.add_workers(2)
    world.deploy("shop", replicas=replicas, cpu=900, memory=200, traits=traits)
    world.settle()
    return Cluster(world).must_live()


def found(cluster):
    return {violation.rule for violation in cluster.world.violations}


@pytest.mark.parametrize("policy", [{}, PACKING])
def test_a_fleet_that_grows_is_fine(policy):
    cluster = shop_of(20, **policy)
    cluster.calm(40)
    assert (found(cluster), cluster.world.waiting_pods()) == (set(), [])


@pytest.mark.parametrize("policy", [{}, PACKING])
def test_nobody_who_buys_is_noticed_in_time(policy):
    cluster = shop_of(20, **policy)
    world = cluster.world
    (check,) = [each for each in world.liveness.checks if each.rule is Rule.PODS]
    longest = max(check.cases().values()).total_seconds()
    world.advance(longest - 60)
    assert found(cluster) == set()
    world.advance(180)
    assert found(cluster) == {Rule.PODS}


@pytest.mark.parametrize(("policy", "cooldown"), [({}, 300), (PACKING, 0)])
def test_without_trouble_a_pod_waits_no_longer_than_a_node_takes_to_join_and_three_intervals(policy, cooldown):
    world = shop_of(20, **policy).world
    (check,) = [each for each in world.liveness.checks if each.rule is Rule.PODS]
    (bound,) = set(check.cases().values())
    assert world.conditions.join_time == timedelta(seconds=25 + 70 + 8)
    assert bound == world.conditions.join_time + timedelta(seconds=3 * 120 + cooldown)


def test_while_something_is_left_of_earlier_trouble_it_may_take_longer_and_the_exact_bound_counts_from_its_end():
    world = shop_of(20, **PACKING).world
    (check,) = [each for each in world.liveness.checks if each.rule is Rule.PODS]
    exact = max(check.cases().values())
    machine = world.workers()[0]
    machine.dooms["spot-interruption"] = world.now
    world.advance(120)
    machine.dooms.clear()
    assert set(check.cases().values()) == {exact + timedelta(seconds=120)}


def test_the_starvation_of_named_pods_is_noticed():
    with PLANTED["capacity bought for named pods"]():
        cluster = shop_of(20)
        cluster.calm(60)
    assert Rule.PODS in found(cluster)


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        ({"most": 2}, {}),  # at max
        ({"traits": Traits(refused="no such StorageClass")}, {}),
        ({}, {"dry_run": True}),
    ],
)
def test_what_cannot_be_demanded_is_not(changes, policy):
    cluster = shop_of(20, **changes, **policy)
    cluster.world.advance(4 * 3600)
    assert found(cluster) == set()
