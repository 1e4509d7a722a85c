"""Removals that nobody forces never have more of a workload down than one node holds."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.inventory import NoticeKind
from nodefleet.model.operations import Removal
from nodefleet.model.serialization import kind_of
from nodefleet.model.workload import Pod
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.operation_builders import removal
from support.worlds import Cluster


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
    with PLANTED["removals in a row"]():
        made = slow_shop()
        made.calm(40)
    assert Rule.AVAILABILITY in {each.rule for each in made.world.violations}


class Shop:
    """Two replicas on two nodes, both of which leave of our own accord."""

    def __init__(self) -> None:
        self.world = World(policy={"limits": {"min": 2, "max": 8}})
        self.world.add_workers(2)
        self.world.deploy("shop", replicas=2, cpu=1200)
        self.world.settle()
        self.pods = sorted(self.world.kube.pods.values(), key=lambda pod: pod.node or "")
        self.world.parts("r")
        for machine in self.world.workers():
            leaving = removal(id=machine.id, instance=machine.id, node=self.world.node_of(machine).name)
            self.world.table.put("operation", leaving.id, leaving, type_=kind_of(Removal))

    def evict(self, pod: Pod) -> None:
        self.world.guard.evicted(self.world.runs["r"], pod)
        del self.world.kube.pods[pod.key]

    def starts(self, on: Pod) -> Pod:
        """A replica that is not ready yet, beside another one."""
        made = replace(on, uid="starting", name="shop-starting", ready=False)
        self.world.kube.pods[made.key] = made
        return made

    @property
    def broken(self) -> list[Rule]:
        return [each.rule for each in self.world.violations if each.rule is Rule.AVAILABILITY]


@pytest.mark.parametrize("unready_first", [True, False])
def test_a_replica_that_is_not_ready_counts_as_its_nodes_own_whichever_goes_first(unready_first):
    shop = Shop()
    first, ready = shop.pods
    shop.evict(first)
    starting = shop.starts(on=ready)
    for pod in (starting, ready) if unready_first else (ready, starting):
        shop.evict(pod)
    assert shop.broken == []


def test_one_that_is_not_ready_elsewhere_does_not():
    shop = Shop()
    first, ready = shop.pods
    shop.evict(first)
    shop.evict(ready)
    assert shop.broken == [Rule.AVAILABILITY]


def test_what_fails_on_another_node_after_the_next_removal_began_is_not_the_last_ones_doing():
    shop = Shop()
    first, ready = shop.pods
    shop.evict(first)
    shop.world.kube.pods[first.key] = replace(first, node="elsewhere")
    shop.world.guard.availability.began(shop.world.kube.nodes[ready.node])
    shop.world.kube.pods[first.key] = replace(first, node="elsewhere", ready=False)
    shop.evict(ready)
    assert shop.broken == []
