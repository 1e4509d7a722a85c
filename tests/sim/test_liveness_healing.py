"""A dead node is replaced and removed in time, or it is reported."""

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.worlds import Cluster


def with_a_dead_node(workers: int, least: int, most: int) -> Cluster:
    world = World(policy={"limits": {"min": least, "max": most}})
    machines = world.add_workers(workers)
    world.settle()
    made = Cluster(world).must_live()
    made.calm(1)
    world.nodes.silence(world.node_of(machines[-1]).name)
    return made


@pytest.mark.parametrize(("workers", "least", "most"), [(1, 1, 1), (2, 2, 2), (5, 2, 8)])
def test_a_fleet_that_heals_breaks_nothing(workers, least, most):
    made = with_a_dead_node(workers, least, most)
    made.calm(40)
    assert made.world.violations == []


def test_a_dead_node_that_is_kept_is_reported_when_it_is_overdue_and_not_before():
    with PLANTED["unhealthy nodes kept"]():
        made = with_a_dead_node(3, 2, 8)
        made.calm(15)
        assert made.world.violations == []
        made.calm(45)
    assert {each.rule for each in made.world.violations} == {Rule.HEALING}


def test_nothing_is_demanded_while_launches_do_not_work():
    with PLANTED["unhealthy nodes kept"]():
        made = with_a_dead_node(3, 2, 8)
        made.world.shop.quota = 3
        made.calm(60)
    assert made.world.violations == []


@pytest.mark.parametrize(("workers", "every", "silent"), [(1, 4, 130), (3, 7, 150), (3, 30, 150)])
def test_a_node_that_is_ready_again_each_time_before_it_is_replaced_does_not_make_the_fleet_grow_and_shrink(
    workers, every, silent
):
    world = World(policy={"limits": {"min": 1, "max": 3}, "cooldown": {"down": 300}})
    machines = world.add_workers(workers)
    world.deploy("shop", replicas=2, cpu=200)
    world.settle()
    cluster = Cluster(world).must_live()
    flapping = world.node_of(machines[0]).name
    for tick in range(150):
        if tick % every == 0 and flapping in world.kube.nodes:
            world.nodes.silence(flapping, for_seconds=silent)
        cluster.calm(1)
    grown = [event for event in world.table.events if event.kind is AlertKind.SCALE_UP]
    assert len(grown) <= 2
    assert flapping not in world.kube.nodes, "what is given back is the node that was not ready"
    assert world.violations == []
