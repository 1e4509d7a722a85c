"""A dead node is replaced and removed in time, or it is reported."""

import pytest

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
