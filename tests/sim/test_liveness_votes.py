"""Mutes that end, interruptions that are handled, and pods that come back: a world in which they are not is found."""

from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest

from nodefleet.engine import decide
from nodefleet.engine.signals import pending_pods
from nodefleet.engine.signals.pending_pods import PendingIndex
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.state import LoopState, Memory, PendingClass, PoolMemory
from nodefleet.operations import launch as launch_operation
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.rules import Rule
from support.worlds import Cluster, shop, spot_worker

HOUR = 30  # ticks


def broken(cluster: Cluster) -> list[Rule]:
    return [violation.rule for violation in cluster.world.violations]


# ── fleet.max ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fleet_that_outgrows_its_limit_is_found():
    cluster = shop(workers=6, replicas=12)
    cluster.world.enforce({"fleet": {"max": 6}, "pools": [{"name": "web", "limits": {"min": 2, "max": 6}}]})
    with (
        patch.object(decide, "within_fleet", lambda this, *_: this),
        patch.object(launch_operation, "fleet_occupied", lambda *_: 0),
    ):
        cluster.calm(2)
    assert Rule.OVER_FLEET_MAX in broken(cluster)


# ── mutes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused() -> Cluster:
    """A pod that the scheduler refuses for a reason that packing does not know, though there is room."""
    cluster = shop()
    cluster.world.deploy("odd", replicas=1, traits=Traits(refused="no StorageClass"))
    return cluster.must_live()


def test_pods_that_lost_their_vote_are_heard_again():
    cluster = refused()
    cluster.calm(3 * HOUR)
    assert broken(cluster) == []


def test_a_mute_that_never_ends_is_found():
    cluster = refused()

    def for_ever(each, bound, now):  # as the real one
        return replace(each, muted_until=now + timedelta(hours=1)) if each.muted_until else each

    with patch.object(pending_pods, "_revise_class", for_ever):
        cluster.calm(3 * HOUR)
    assert broken(cluster) == [Rule.MUTE]


def muted_in_two_pools() -> Cluster:
    """A class that both pools have muted once; the second still has."""
    pools = [{"name": name, "limits": {"min": 1, "max": 6}} for name in ("default", "batch")]
    cluster = shop()
    world = cluster.world
    world.enforce({"pools": pools})
    world.deploy("odd", replicas=1, traits=Traits(refused="no StorageClass"))
    world.advance(1)
    (pod,) = world.waiting_pods()
    name = next(iter(PendingIndex.of([pod]).by_class))
    once = PendingClass(name=name, mutes=1)
    until = replace(once, muted_until=world.now + timedelta(minutes=30))
    memory = Memory(pools={"default": PoolMemory(pending=(once,)), "batch": PoolMemory(pending=(until,))})
    world.table.put("journal", "", LoopState(memory=memory))
    return cluster.must_live()


def test_a_class_is_heard_again_if_any_pool_mutes_it_once_more():
    cluster = muted_in_two_pools()
    world = cluster.world
    for number in range(4):
        world.advance(1800)
        memory = world.table.journal.memory
        muted = replace(memory.pool("batch").pending[0], mutes=number + 2)
        pools = {**memory.pools, "batch": PoolMemory(pending=(muted,))}
        world.table.put("journal", "", LoopState(memory=Memory(pools=pools)))
    assert broken(cluster) == []


def test_a_class_that_no_pool_hears_again_is_found():
    cluster = muted_in_two_pools()
    cluster.world.advance(4 * 1800)
    assert broken(cluster) == [Rule.MUTE]


# ── interruptions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_recorded_interruption_that_nobody_handles_is_found():
    cluster = shop().must_live()
    world = cluster.world
    worker = spot_worker(world)
    world.interrupt(worker)
    world.parts("a function").store.record(Notice(instance=worker, kind=NoticeKind.SPOT_INTERRUPTION, at=world.now))
    world.advance(300)
    assert broken(cluster) == [Rule.UNHANDLED]


def test_one_that_is_handled_is_not():
    cluster = shop().must_live()
    notice = cluster.world.interrupt(spot_worker(cluster.world))
    cluster.warned([notice])
    cluster.world.advance(300)
    assert Rule.UNHANDLED not in broken(cluster)


@pytest.mark.parametrize("observed", [False, True])
def test_of_one_that_a_person_uncordons_an_iteration_must_have_known(observed):
    cluster = shop().must_live()
    world = cluster.world
    worker = spot_worker(world)
    world.interrupt(worker)
    world.parts("a function").store.record(Notice(instance=worker, kind=NoticeKind.SPOT_INTERRUPTION, at=world.now))
    world.operator.uncordon(world.kube.node_of(worker).name)
    if observed:  # and yet it did nothing
        world.runs["a function"].looked_at = world.now
    world.advance(300)
    assert (Rule.UNHANDLED in broken(cluster)) is observed


def test_one_that_ends_soon_after_it_takes_pods_again_is_not():
    cluster = shop().must_live()
    world = cluster.world
    worker = spot_worker(world)
    world.interrupt(worker)
    world.advance(88)
    world.parts("a function").store.record(Notice(instance=worker, kind=NoticeKind.SPOT_INTERRUPTION, at=world.now))
    world.advance(300)
    assert Rule.UNHANDLED not in broken(cluster)


@pytest.mark.parametrize(
    ("died", "observed", "found"), [(True, False, False), (True, True, True), (False, False, True)]
)
def test_of_one_whose_function_died_an_iteration_must_have_known(died, observed, found):
    cluster = shop().must_live()
    world = cluster.world
    worker = spot_worker(world)
    world.interrupt(worker)
    world.parts("a function").store.record(Notice(instance=worker, kind=NoticeKind.SPOT_INTERRUPTION, at=world.now))
    world.runs["a function"].dead = died
    world.parts("a tick")
    world.runs["a tick"].looked_at = world.now if observed else None
    world.advance(300)
    assert (Rule.UNHANDLED in broken(cluster)) is found
