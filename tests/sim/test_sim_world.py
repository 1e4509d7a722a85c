"""The shipped loop in the simulated world: from nothing to min, through an interruption, the same for the same seed."""

from datetime import timedelta

import pytest

from nodefleet.model.names import POOL_LABEL
from nodefleet.model.workload import Rules, Toleration
from nodefleet.reconcile.run import run
from nodefleet_tools.sim.hooks import Moment, when
from nodefleet_tools.sim.workloads import Kind
from nodefleet_tools.sim.world import World

TICK = timedelta(seconds=120)


def play(world, ticks):
    for _ in range(ticks):
        began = world.now
        owner = f"run-{len(world.runs) + 1}"
        run(world.parts(owner), owner=owner)
        world.clock.advance_to(max(world.now, began + TICK))


def shop(seed=0, workers=0, **policy):
    world = World(seed=seed, policy={"limits": {"min": 2, "max": 6}, **policy})
    world.add_workers(workers)
    world.deploy("shop", replicas=4, cpu=400)
    world.deploy("agent", kind=Kind.DAEMON_SET, cpu=20, memory=16)
    world.protect("shop", max_unavailable="1")
    world.settle()
    return world


def test_from_nothing_to_min():
    world = shop()
    assert len(world.waiting_pods()) == 4
    play(world, 4)
    assert (len(world.ready_nodes()), world.waiting_pods(), world.table.operations) == (2, [], ())
    assert world.violations == []


def test_pods_without_a_place_get_nodes_and_the_nodes_are_given_back():
    world = shop(workers=2)
    world.controllers.scale(world.controllers.named("shop"), 12)
    play(world, 10)
    assert (len(world.ready_nodes()), world.waiting_pods()) == (3, [])
    world.controllers.scale(world.controllers.named("shop"), 2)
    play(world, 60)
    assert (len(world.workers()), world.table.operations) == (2, ())
    assert len(world.kube.nodes) == 3
    assert world.violations == []


@pytest.mark.parametrize("seed", range(3))
def test_a_fleet_shrinks_though_the_scheduler_puts_evicted_pods_right_back_on_the_node_that_leaves(seed):
    """They tolerate every taint, so neither the cordon nor ours keeps them off."""
    world = World(seed=seed, policy={"limits": {"min": 2, "max": 6}})
    world.add_workers(4)
    everywhere = Rules(tolerations=(Toleration(operator="Exists"),), node_selector={POOL_LABEL: "default"})
    world.deploy("stubborn", replicas=4, cpu=100, rules=everywhere)
    world.protect("stubborn", max_unavailable="1")
    world.settle()
    play(world, 60)
    evicted = [each for each in world.guard.trace if "evict" in str(each)]
    assert (len(world.workers()), world.waiting_pods(), world.table.operations) == (2, [], ())
    assert len(evicted) <= 4  # each pod of the two nodes once
    assert world.violations == []


def test_the_same_seed_plays_the_same():
    def played(seed):
        world = shop(seed=seed, workers=2)
        world.controllers.scale(world.controllers.named("shop"), 12)
        play(world, 8)
        return [str(each) for each in world.guard.trace], world.table.size

    assert played(3) == played(3)
    assert played(3) != played(4)


def test_a_second_run_in_the_middle_of_the_first_leaves_it_alone():
    world = shop(workers=1)
    other = []
    hook = when("cloud.launch", Moment.BEFORE, lambda: other.append(run(world.parts("second"), owner="second")))
    run(world.parts("first", hooks=[hook]), owner="first")
    assert other[0].held.owner == "first"
    assert world.violations == []
