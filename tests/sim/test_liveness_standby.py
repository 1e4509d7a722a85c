"""A floor for another cluster ends by command or after `standby.lasting`, and the fleet shrinks again."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine import decide as pool_decision
from nodefleet.engine.standby import evaluate_standby
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.snapshot import AUTOSCALER, Scale
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.wording import assert_wording
from support.worlds import Cluster

BUG = "a standby that never ends"
POLICY = {
    "limits": {"min": 2, "max": 6},
    "cooldown": {"down": 60},
    "readings": {"eu": {"kind": "prometheus", "query": "up"}},
    "standby": {"origin": "eu", "reading": "eu", "nodes": 2, "lasting": "20m"},
}


class Region:
    """The other one."""

    def __init__(self, world: World) -> None:
        self.up = 3.0
        world.prometheus.custom["default", "eu"] = lambda: self.up


def standby() -> tuple[Cluster, Region]:
    """Idle at min, and the other region was seen healthy."""
    world = World(seed=1, policy=POLICY)
    region = Region(world)
    world.add_workers(2)
    world.deploy("shop", replicas=1, cpu=50, traits=Traits(cpu_use=0.02))
    world.settle()
    world.liveness.begin()
    cluster = Cluster(world)
    cluster.calm(4)
    return cluster, region


def floors(cluster: Cluster) -> list[Scale]:
    return [each for each in cluster.world.table.commands if isinstance(each, Scale) and each.by == AUTOSCALER]


def take_over(cluster: Cluster, region: Region) -> None:
    region.up = 0.0
    cluster.until(lambda: bool(floors(cluster)), ticks=5)
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 4, ticks=5)


def broken(cluster: Cluster) -> list[str]:
    assert {each.rule for each in cluster.world.violations} <= {Rule.STANDBY}
    return [each.detail for each in cluster.world.violations]


@pytest.mark.parametrize("returns", [True, False])
def test_it_ends_by_itself_and_the_fleet_returns_to_min(returns):
    cluster, region = standby()
    take_over(cluster, region)
    region.up = 3.0 if returns else 0.0
    awaited = cluster.world.liveness.awaited
    assert awaited
    cluster.until(lambda: not floors(cluster), ticks=12)
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 2, ticks=60)
    cluster.calm(5)
    assert broken(cluster) == []
    assert cluster.world.liveness.awaited == []


def test_it_ends_by_command_and_the_fleet_returns_to_min():
    cluster, region = standby()
    take_over(cluster, region)
    (floor,) = floors(cluster)
    world = cluster.world
    event = Event(id="back", at=world.now, cluster=world.name, kind=AlertKind.RESUMED, text="")
    world.parts("operator").store.withdraw(floor, event)
    cluster.until(lambda: len(world.ready_nodes()) == 2, ticks=60)
    assert floors(cluster) == []
    assert broken(cluster) == []


def test_one_that_does_not_end_is_reported_when_it_is_overdue_and_not_before():
    cluster, region = standby()
    with PLANTED[BUG]():
        take_over(cluster, region)
        cluster.calm(9)
        assert broken(cluster) == []
        cluster.calm(10)
    (late,) = broken(cluster)
    assert_wording(late.partition(" until ")[0])


def test_one_that_is_ordered_again_though_the_other_was_not_healthy_is_reported(monkeypatch):
    def always_armed(ctx):
        result = evaluate_standby(ctx)
        return replace(result, memory=replace(result.memory, armed=True)) if result.memory else result

    cluster, region = standby()
    monkeypatch.setattr(pool_decision, "evaluate_standby", always_armed)
    take_over(cluster, region)
    cluster.calm(25)
    assert_wording(broken(cluster)[0])


def test_one_that_is_ordered_again_after_the_other_was_healthy_is_not():
    cluster, region = standby()
    take_over(cluster, region)
    region.up = 3.0
    cluster.until(lambda: not floors(cluster), ticks=15)
    cluster.calm(4)
    take_over(cluster, region)
    cluster.calm(3)
    assert broken(cluster) == []


def test_one_that_is_ordered_again_after_the_other_was_healthy_while_the_floor_held_is_not():
    """It fails again right after the run that removes the floor, so that no poll sees it healthy without a floor."""
    cluster, region = standby()
    take_over(cluster, region)
    (floor,) = floors(cluster)
    world = cluster.world
    region.up = 3.0
    cluster.until(lambda: world.now >= floor.until - timedelta(minutes=2), ticks=15)
    world.prometheus.custom["default", "eu"] = lambda: 3.0 if floor in world.table.commands else 0.0
    cluster.until(lambda: bool(set(floors(cluster)) - {floor}), ticks=8)
    cluster.calm(3)
    assert broken(cluster) == []
