"""A pool is renamed or removed while it has workers: they count against fleet.max, and an operator's command hands them
to a pool or drains them."""

from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.sim_connections import SimConnection, Terminal
from support.worlds import Cluster, shop

LIMITS = {"limits": {"min": 2, "max": 6}}


@pytest.fixture
def renamed(monkeypatch):
    """Six workers of pool default, which is called web from now on."""
    cluster = shop(workers=6, replicas=12)
    cluster.must_live()
    cluster.world.enforce({"fleet": {"max": 6}, "pools": [{"name": "web", **LIMITS}]})
    return cluster, Terminal(monkeypatch, SimConnection(cluster.world))


def pools(world: World) -> list[str]:
    return sorted(machine.pool for machine in world.ec2.live_workers())


def rules(cluster: Cluster) -> list[Rule]:
    return [violation.rule for violation in cluster.world.violations]


def told(world: World) -> set[AlertKind]:
    return {event.kind for event in world.table.events}


def test_a_pool_that_was_renamed_takes_no_room_that_its_old_workers_have(renamed):
    cluster, _ = renamed
    cluster.calm(5)
    assert pools(cluster.world) == ["default"] * 6  # min of the new pool is 2, and fleet.max is 6
    assert {AlertKind.CLEANUP_NEEDS_OPERATOR, AlertKind.AT_MAX} <= told(cluster.world)
    assert rules(cluster) == []


def test_one_that_is_stopped_is_named_to_an_operator_at_once(renamed):
    """No pool's rules terminate it any more: its cost would rest in silence until `resting.longest`."""
    cluster, _ = renamed
    world = cluster.world
    for machine in world.workers():
        world.operator.stop(machine.id)
    world.advance(300)
    cluster.calm(2)
    asked = [event for event in world.table.events if event.kind is AlertKind.CLEANUP_NEEDS_OPERATOR]
    stopped = {machine.id for machine in world.ec2.machines.values() if machine.pool == "default"}
    assert {instance for event in asked for instance in event.subjects} == stopped


def test_without_a_limit_of_the_fleet_the_new_pool_gets_its_min_and_no_more():
    cluster = shop(workers=6, replicas=12)
    cluster.world.enforce({"pools": [{"name": "web", **LIMITS}]})
    cluster.calm(5)
    assert pools(cluster.world) == ["default"] * 6 + ["web"] * 2
    assert rules(cluster) == []


def test_one_command_hands_all_of_them_over_and_they_are_capacity_again(renamed):
    cluster, terminal = renamed
    cluster.calm(2)
    assert terminal("adopt", "--pool", "web", "--all", "--by", "ann").exit_code == 0
    assert len(cluster.world.table.state().commands) == 6
    ran = cluster.tick()
    assert pools(cluster.world) == ["web"] * 6
    assert {node.pool for node in cluster.world.ready_nodes("web")} == {"web"}
    assert {node.labels["node-fleet.io/pool"] for node in cluster.world.ready_nodes("web")} == {"web"}
    assert ran is not None
    cluster.calm(2)
    assert cluster.world.table.state().commands == ()  # done, so they are over
    newest = cluster.world.table.decisions[-1].decision
    assert [(pool.pool, pool.count.ready) for pool in newest.pools] == [("web", 6)]
    assert cluster.world.waiting_pods() == []
    assert rules(cluster) == []


def test_one_command_drains_them_with_budgets_respected_and_pods_somewhere_to_go(monkeypatch):
    cluster = shop(workers=3, replicas=4)
    world = cluster.world
    batch = [machine.id for machine in world.add_workers(2, pool="batch")]
    others = [node.name for node in world.ready_nodes()]
    for node in others:
        world.operator.cordon(node)
    world.deploy("cart", replicas=4, cpu=400)
    world.protect("cart", max_unavailable="1")
    world.advance(60)
    for node in others:
        world.operator.uncordon(node)
    carts = {pod.node for pod in world.kube.pods.values() if pod.labels.get("app") == "cart"}
    assert carts == {world.kube.node_of(each).name for each in batch}
    cluster.must_live()
    terminal = Terminal(monkeypatch, SimConnection(world))
    cluster.calm(2)
    assert terminal("drain", *batch, "--by", "ann", "--reason", "batch is retired", "--yes").exit_code == 0
    cluster.until(lambda: "batch" not in pools(world), ticks=15)
    cluster.calm(3)
    assert set(pools(world)) == {"default"}
    assert world.waiting_pods() == []
    assert world.table.state().commands == ()
    assert rules(cluster) == []


def test_a_drain_that_cannot_go_on_is_told_and_goes_on_when_it_can(monkeypatch):
    cluster = shop(workers=2, replicas=8, limits={"min": 2, "max": 2})
    world = cluster.world
    world.add_workers(2, pool="batch")
    more = world.deploy("more", replicas=6, cpu=500)
    world.settle()
    terminal = Terminal(monkeypatch, SimConnection(world))
    assert terminal("drain", "--all", "--yes", "--by", "ann").exit_code == 0
    cluster.calm(5)
    assert pools(world).count("batch") == 2
    assert AlertKind.DRAIN_BLOCKED in told(world)
    world.controllers.scale(more, 0)
    world.controllers.scale(next(iter(world.controllers.workloads.values())), 4)
    cluster.until(lambda: "batch" not in pools(world), ticks=20)
    assert rules(cluster) == []


def test_a_dead_one_is_drained_away_too(monkeypatch):
    cluster = shop(workers=3)
    world = cluster.world
    silent, stopped = [machine.id for machine in world.add_workers(2, pool="batch")]
    world.settle()
    terminal = Terminal(monkeypatch, SimConnection(world))
    world.nodes.silence(world.kube.node_of(silent).name)
    world.operator.stop(stopped)
    cluster.calm(5)
    assert terminal("drain", "--all", "--yes", "--by", "ann").exit_code == 0
    cluster.until(lambda: world.ec2.machines[silent].ended_at is not None, ticks=10)
    over = timedelta(hours=2)
    cluster.until(lambda: world.ec2.machines[stopped].state.value == "terminated", ticks=over // timedelta(seconds=120))
    assert rules(cluster) == []


def test_fleet_max_is_kept_by_pools_together():
    pools_ = [{"name": "a", "limits": {"min": 1, "max": 6}}, {"name": "b", "limits": {"min": 2, "max": 6}}]
    world = World(seed=1, policy={"fleet": {"max": 5}, "pools": pools_, "steps": {"pending": "packing"}})
    world.settle()
    cluster = Cluster(world)
    world.deploy("big", replicas=30, cpu=900)
    cluster.calm(12)
    assert len(world.ec2.live_workers()) == 5
    assert sum(machine.pool == "b" for machine in world.ec2.live_workers()) >= 2
    assert rules(cluster) == []


def test_a_lower_fleet_max_makes_the_larger_pool_smaller():
    pools_ = [{"name": "a", "limits": {"min": 1, "max": 6}}, {"name": "b", "limits": {"min": 1, "max": 6}}]
    world = World(seed=1, policy={"pools": pools_})
    world.add_workers(5, pool="a")
    world.add_workers(2, pool="b")
    world.settle()
    cluster = Cluster(world)
    world.enforce({"fleet": {"max": 4}, "pools": pools_})
    cluster.until(lambda: len(world.ec2.live_workers()) <= 4, ticks=30)
    assert sum(machine.pool == "b" for machine in world.ec2.live_workers()) == 2
    assert rules(cluster) == []
