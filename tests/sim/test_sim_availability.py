"""Removals that nobody forces never have more of a workload down than one node holds."""

from datetime import timedelta

from nodefleet.domain.machines import NoticeKind
from nodefleet_tools.sim.chaos.planted import STAGED
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from worlds import Cluster


def slow_shop() -> Cluster:
    """Pods that need six minutes to be ready, on nodes of which three have a change announced."""
    world = World(policy={"limits": {"min": 4, "max": 8}})
    world.add_workers(4)
    world.deploy("shop", replicas=4, cpu=1000, traits=Traits(starts_in=360.0))
    world.settle()
    made = Cluster(world)
    made.calm(1)
    announced = [
        world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(days=3))
        for machine in world.workers()[:3]
    ]
    made.warned(announced)
    return made


def test_the_next_node_leaves_when_the_pods_of_the_last_are_ready_again():
    made = slow_shop()
    machines = made.world.workers()[:3]
    made.until(lambda: not any(machine.live for machine in machines), ticks=60)
    assert made.world.violations == []


def test_removals_in_a_row_are_reported():
    with STAGED["removals in a row"]():
        made = slow_shop()
        made.calm(40)
    assert Rule.AVAILABILITY in {each.rule for each in made.world.violations}
