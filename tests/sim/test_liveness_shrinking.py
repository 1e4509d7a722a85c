"""An idle fleet reaches min, with one thing or another in doubt; one that does not is reported, and not before."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from nodefleet.model.inventory import NoticeKind
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.worlds import Cluster

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


@pytest.mark.parametrize("headroom", [0, 1])
def test_an_idle_fleet_that_a_forecast_sizes_reaches_min_too(headroom):
    cluster = idle(strategy="adaptive", adaptive={"headroom": headroom})
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 2 + headroom, ticks=90)
    cluster.calm(5)
    assert not_shrunk(cluster) == []
    assert cluster.world.liveness.awaited == []


def test_one_that_a_forecast_keeps_for_good_is_reported():
    cluster = idle(strategy="adaptive")
    with PLANTED[BUG]():
        _unready(cluster.world)
        cluster.calm(40)
    assert len(not_shrunk(cluster)) == 1


HEADROOM = {
    "a node": ({"nodes": 1}, 2),  # beside the one with the pod
    "nodes": ({"nodes": 2}, 3),
    "pods": ({"pods": 1, "pod_cpu": 0.1}, 2),
    "many pods": ({"pods": 5, "pod_cpu": 1.0}, 3),  # beside the pod one, on each other node two
    "cpu": ({"cpu": 1.0}, 2),
    "memory": ({"memory": 4.0, "pod_memory": 0.5}, 3),
    "percent": ({"percent": 50}, 2),
    "peak": ({"peak_percent": 50}, 4),  # of six
}


@pytest.mark.parametrize(("kept", "size"), HEADROOM.values(), ids=HEADROOM)
def test_an_idle_fleet_with_headroom_reaches_what_that_needs(kept, size):
    cluster = idle(headroom=kept)
    cluster.calm(90)
    assert len(cluster.world.ready_nodes()) == size
    assert not_shrunk(cluster) == []
    assert cluster.world.liveness.awaited == []


@pytest.mark.parametrize("kept", [kept for kept, _ in HEADROOM.values()], ids=HEADROOM)
def test_one_whose_headroom_is_never_given_back_is_reported(kept):
    cluster = idle(headroom=kept)
    with PLANTED["headroom grows only"]():
        cluster.calm(40)
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


def test_nothing_is_launched_ahead_for_a_node_that_a_budget_holds_fast():
    """It would be given back by the idle fleet, and launched again, until the change comes."""
    world = World(policy={"limits": {"min": 2, "max": 4}, "cooldown": {"up": 60, "down": 60}})
    world.add_workers(2)
    world.deploy("shop", replicas=2, cpu=1000)
    world.protect("shop", max_unavailable="0")
    world.settle()
    cluster = Cluster(world)
    cluster.calm(1)
    going = world.workers()[0]
    cluster.warned([world.interrupt(going.id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(days=14))])
    before = set(world.ec2.machines)
    cluster.calm(30)
    assert set(world.ec2.machines) == before
    assert world.violations == []
