"""An idle fleet reaches min, with one thing or another in doubt; one that does not is reported, and not before."""

from collections.abc import Callable

import pytest

from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from worlds import Cluster

BUG = "a doubt that never ends"
POLICY = {"limits": {"min": 2, "max": 10}, "cooldown": {"down": 120}}


def idle(workers: int = 6, **policy: object) -> Cluster:
    world = World(seed=1, policy={**POLICY, **policy})
    world.add_workers(workers)
    world.deploy("shop", replicas=1, cpu=50, traits=Traits(cpu_use=0.02))
    world.settle()
    world.liveness.begin()
    return Cluster(world)


def not_shrunk(cluster: Cluster) -> list[str]:
    return [each.detail for each in cluster.world.violations if each.rule is Rule.SHRINKING]


def _exporter(world: World) -> None:
    world.prometheus.silent.add(world.node_of(world.workers()[1]).name)


def _unready(world: World) -> None:
    world.nodes.silence(world.node_of(world.workers()[1]).name)


def _no_data(world: World) -> None:
    world.prometheus.custom["default", "errors"] = lambda: None


@pytest.mark.parametrize("trouble", [lambda _: None, _exporter, _unready, _no_data])
def test_an_idle_fleet_reaches_min(trouble: Callable[[World], None]):
    cluster = idle(
        readings={"errors": {"kind": "prometheus", "query": "x"}},
        custom=[{"kind": "threshold", "name": "errors", "reading": "errors", "quantity": "errors"}],
    )
    trouble(cluster.world)
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 2, ticks=90)
    cluster.calm(5)
    assert not_shrunk(cluster) == []
    assert cluster.world.liveness.awaited == []


def test_one_that_does_not_is_reported_when_it_is_overdue_and_not_before():
    cluster = idle()
    _unready(cluster.world)
    with PLANTED[BUG]():
        cluster.calm(20)
        assert not_shrunk(cluster) == []
        cluster.calm(20)
    assert len(not_shrunk(cluster)) == 1


@pytest.mark.parametrize(
    "busy",
    [
        lambda world: world.deploy("big", replicas=1, cpu=64_000),
        lambda world: world.deploy("load", replicas=6, cpu=900, traits=Traits(cpu_use=1.0)),
        lambda world: world.prometheus.missing.update({("default", "cpu"): "timeout"}),
    ],
    ids=["a pod waits", "load", "no reading"],
)
def test_nothing_is_demanded_of_a_fleet_that_is_not_idle_or_cannot_be_read(busy):
    cluster = idle()
    busy(cluster.world)
    with PLANTED[BUG]():
        cluster.calm(45)
    assert not_shrunk(cluster) == []
