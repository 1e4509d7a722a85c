"""EC2 takes a hundred instances at once: every warning is recorded and acted upon in seconds."""

from datetime import datetime, timedelta
from functools import partial
from random import Random

import pytest

from nodefleet.errors import NodeFleetError
from nodefleet.model.inventory import Market, Notice
from nodefleet.reconcile.emergency_drain import drain_interrupted
from nodefleet.reconcile.run import run
from nodefleet_tools.sim.cooperative_scheduler import CooperativeScheduler
from nodefleet_tools.sim.event_queue import EventQueue
from nodefleet_tools.sim.hooks import Call, KilledError, Moment
from nodefleet_tools.sim.world import World

WARNINGS = 100
LATENCY = {"cluster": 0.05, "store": 0.03, "cloud": 0.3, "gauges": 1.0, "archive": 0.05}  # seconds for one call


def fleet(seed: int) -> World:
    world = World(seed=seed, policy={"limits": {"min": 2, "max": 150}})
    world.add_workers(WARNINGS, market=Market.SPOT)
    world.add_workers(20, market=Market.ON_DEMAND)
    world.deploy("shop", replicas=200, cpu=300)
    world.settle()
    world.faults.latency.update(LATENCY)
    return world


@pytest.mark.parametrize(("seed", "budget"), [(1, None), (2, "10%")])
def test_a_hundred_warnings_within_ten_seconds(seed, budget):
    world = fleet(seed)
    if budget:  # evictions are refused most of the time: functions must not wait for that
        world.protect("shop", max_unavailable=budget)
    recorded: dict[str, datetime] = {}
    cordoned: dict[str, datetime] = {}

    def watch(call: Call) -> None:
        if call.moment is Moment.AFTER and call.name == "store.record":
            recorded.setdefault(call.arguments[0].instance, world.now)
        if call.moment is Moment.AFTER and call.name == "cluster.cordon":
            cordoned.setdefault(call.arguments[1], world.now)

    world.faults.hooks.append(watch)
    started = iter(range(1000))

    def invoke(notices: list[Notice]) -> bool:
        owner = f"event-{next(started)}"
        try:
            parts = world.parts(owner, limit=timedelta(seconds=150))
            drain_interrupted(parts, notices, partial(run, parts, owner=owner))
        except (NodeFleetError, KilledError):
            return False
        return True

    turns = CooperativeScheduler(world.clock)
    queue: EventQueue[Notice] = EventQueue(world.clock, turns, invoke, Random(seed), limit=10)  # noqa: S311  # repeatable
    warned: dict[str, datetime] = {}
    spot = [machine.id for machine in world.workers() if machine.market is Market.SPOT][:WARNINGS]
    random = Random(seed)  # noqa: S311  # repeatable

    def warn(instance: str) -> None:
        warned[instance] = world.now
        queue.send(world.interrupt(instance))

    for instance in spot:
        world.clock.after(random.uniform(0, 10), lambda it=instance: warn(it))
    world.advance(100)
    turns.end()
    assert len(warned) == WARNINGS
    assert queue.most_busy <= 10
    assert set(recorded) >= set(warned)
    assert set(cordoned) >= set(warned)
    slowest_record = max((recorded[each] - warned[each]).total_seconds() for each in warned)
    slowest_cordon = max((cordoned[each] - warned[each]).total_seconds() for each in warned)
    assert slowest_record <= 10
    assert slowest_cordon <= 20
    assert world.violations == []
