"""Requests to EC2 within the budget: waited for when that is short, put off when it is long, drained by EC2's word."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from nodefleet.errors import ThrottledError, UnavailableError
from nodefleet.model.inventory import InstanceState
from nodefleet.policy.cluster import RequestKind, Requests, empty_bucket
from nodefleet.reconcile.preconditions import OverBudgetError, note_throttling, reserve_request
from nodefleet.reconcile.run import run
from nodefleet_tools.sim.cloud import SimRequestBudget
from nodefleet_tools.sim.world import World
from support.wording import assert_wording

CHANGE = RequestKind.CHANGE
FEW = Requests(change_size=1, change_per_second=0.5, longest=timedelta(seconds=5))


def test_a_short_wait_is_waited_for_inside_the_run():
    world = World()
    runtime, before = world.parts(), world.now
    for _ in range(3):
        reserve_request(runtime, CHANGE, FEW)
    assert world.now - before == timedelta(seconds=4)
    assert len(world.requests.taken) == 3


def test_a_long_wait_is_put_off_and_sends_nothing():
    world = World()
    world.requests.buckets[CHANGE] = empty_bucket(world.now + timedelta(seconds=60))
    with pytest.raises(OverBudgetError) as caught:
        reserve_request(world.parts(), CHANGE, FEW)
    assert_wording(str(caught.value))
    assert world.requests.taken == []


class _Broken:
    def take(self, *_: object) -> timedelta:
        raise UnavailableError("DynamoDB", "timed out")


def test_a_budget_that_cannot_be_read_stops_nothing():
    world = World()
    reserve_request(replace(world.parts(), requests=_Broken()), CHANGE, FEW)
    assert_wording([line.message for line in world.lines])


@pytest.mark.parametrize(
    ("error", "drains"),
    [
        (ThrottledError("EC2", "CreateFleet: RequestLimitExceeded"), True),
        (ThrottledError("DynamoDB", "the table is asked too often"), False),
        (OverBudgetError("EC2", "our own"), False),
        (UnavailableError("EC2", "timed out"), False),
        (None, False),
    ],
)
def test_only_what_ec2_itself_throttles_drains_the_budget(error, drains):
    world = World()
    note_throttling(world.parts(), CHANGE, error)
    assert (CHANGE in world.requests.buckets) is drains


# ── whole runs ───────────────────────────────────────────────────────────────────────────────────────────────────

SCARCE = {
    "limits": {"min": 4, "max": 8},
    "requests": {"change_size": 1, "change_per_second": 0.05, "longest": 5},
}


def deployment(clusters):
    shared, worlds = SimRequestBudget(), [World(seed=seed, policy=SCARCE) for seed in range(clusters)]
    for world in worlds:
        world.requests = shared
    return shared, worlds


def test_clusters_that_share_a_budget_all_get_their_nodes_and_stay_within_it():
    shared, worlds = deployment(3)
    for tick in range(20):
        for world in worlds:
            run(world.parts(f"tick-{tick}"), owner=f"tick-{tick}")
            world.advance((world.start + timedelta(seconds=120 * (tick + 1)) - world.now).total_seconds())
    assert [len(world.ec2.live_workers()) for world in worlds] == [4, 4, 4]
    assert [violation for world in worlds for violation in world.violations] == []
    times = sorted(at for at, kind in shared.taken if kind is CHANGE)
    assert len(times) >= 6  # a zone and market each
    assert all(later - earlier >= timedelta(seconds=19.9) for earlier, later in pairwise(times))


def test_a_launch_that_is_put_off_is_stored_and_sent_by_a_later_run():
    world = World(policy=SCARCE)
    world.requests.buckets[CHANGE] = empty_bucket(world.now + timedelta(seconds=150))
    began = world.now
    run(world.parts("first"), owner="first")
    assert world.ec2.live_workers() == []
    assert world.table.operations
    world.advance((began + timedelta(seconds=200) - world.now).total_seconds())
    run(world.parts("second"), owner="second")
    assert all(each.state in (InstanceState.PENDING, InstanceState.RUNNING) for each in world.ec2.live_workers())
    assert world.ec2.live_workers()
    assert world.violations == []
