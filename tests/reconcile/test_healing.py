"""Over a simulated cluster: unhealthy nodes, announced changes and recommendations, and what operators do by hand."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState, NoticeKind
from nodefleet_tools.sim.world import World
from support.worlds import Cluster


def cluster(workers: int, least: int, most: int, *, replicas: int = 0, cpu: int = 300, **policy: object) -> Cluster:
    world = World(policy={"limits": {"min": least, "max": most}, **policy})
    world.add_workers(workers)
    if replicas:
        world.deploy("shop", replicas=replicas, cpu=cpu)
    world.settle()
    made = Cluster(world)
    made.calm(1)
    return made


def told(made: Cluster, kind: AlertKind) -> list[str]:
    return [event.text for event in made.world.table.events if event.kind is kind]


def no_violations(made: Cluster) -> None:
    assert not made.world.violations, "\n".join(map(str, made.world.violations))


# ── unhealthy ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("workers", "least", "most"), [(1, 1, 1), (2, 2, 2), (1, 1, 10), (3, 3, 3), (3, 2, 10)])
def test_one_dead_node_is_replaced_and_removed_in_a_fleet_of_any_size(workers, least, most):
    made = cluster(workers, least, most)
    dead = made.world.workers()[-1]
    made.world.nodes.silence(made.world.node_of(dead).name)
    made.until(lambda: not dead.live and len(made.world.ready_nodes()) >= least, ticks=12)
    assert not told(made, AlertKind.MANY_UNHEALTHY)
    no_violations(made)


def test_of_many_unhealthy_nodes_none_is_removed_at_once_and_all_are_replaced_in_the_end():
    made = cluster(4, 2, 6)
    dead = made.world.workers()[:3]
    for machine in dead:
        made.world.nodes.silence(made.world.node_of(machine).name)
    made.calm(6)
    assert told(made, AlertKind.MANY_UNHEALTHY)
    assert all(machine.live for machine in dead)
    made.until(lambda: not any(machine.live for machine in dead), ticks=30)
    assert len(made.world.ready_nodes()) >= 2
    no_violations(made)


def test_a_silent_node_is_replaced_within_three_minutes():
    for second in range(0, 120, 30):
        made = cluster(3, 3, 6)
        made.world.advance(second)
        machine = made.world.workers()[0]
        silent_at = made.world.now
        made.world.nodes.silence(made.world.node_of(machine).name)
        made.until(lambda: len(made.world.workers()) > 3, ticks=6)  # noqa: B023  # asked at once
        launched = max(each.launched_at for each in made.world.workers())
        assert launched - silent_at <= timedelta(minutes=3)


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_short_absence_of_a_node_whose_clock_is_wrong_replaces_nothing(minutes):
    made = cluster(3, 3, 6)
    name = made.world.node_of(made.world.workers()[0]).name
    made.world.nodes.clocks[name] = timedelta(minutes=minutes)
    made.world.nodes.silence(name, for_seconds=60)
    made.calm(4)
    assert len(made.world.workers()) == 3
    no_violations(made)


def test_all_nodes_silent_at_once_is_the_control_plane_and_nothing_is_removed():
    made = cluster(6, 2, 10)
    machines = made.world.workers()
    for node in made.world.ready_nodes():
        made.world.nodes.silence(node.name, for_seconds=600)
    made.calm(8)
    assert told(made, AlertKind.MANY_UNHEALTHY)
    assert all(machine.live for machine in machines)
    no_violations(made)


def test_a_node_under_pressure_is_replaced_first_and_then_drained():
    made = cluster(3, 3, 6, replicas=3, cpu=900)
    world = made.world
    machine = world.workers()[0]
    node = world.node_of(machine)
    world.kube.put_node(replace(node, pressures=("DiskPressure",), pressed_since=world.now))
    made.calm(4)
    assert machine.live
    made.until(lambda: not machine.live, ticks=10)
    assert len(world.ready_nodes()) >= 3
    assert any("DiskPressure" in text for text in told(made, AlertKind.UNHEALTHY))
    no_violations(made)


def test_pressure_on_many_nodes_is_no_fault_of_theirs():
    made = cluster(4, 4, 8, replicas=4, cpu=900)
    world = made.world
    machines = world.workers()
    for machine in machines[:3]:
        node = world.node_of(machine)
        world.kube.put_node(replace(node, pressures=("MemoryPressure",), pressed_since=world.now))
    made.calm(30)
    assert all(machine.live for machine in machines)
    assert told(made, AlertKind.MANY_UNHEALTHY)
    no_violations(made)


# ── announced ────────────────────────────────────────────────────────────────────────────────────────────────────


def down(made: Cluster) -> int:
    return sum(not pod.ready for pod in made.world.kube.pods.values())


def test_a_change_in_two_weeks_is_a_voluntary_removal_of_one_node_after_the_other():
    made = cluster(6, 2, 8, replicas=6, cpu=1000)
    world = made.world
    affected = world.workers()[:4]
    most_down = most_there = 0

    def watch() -> None:
        nonlocal most_down, most_there
        most_down = max(most_down, down(made))
        most_there = max(most_there, len(world.workers()))

    world.clock.every(1.0, watch)
    notices = [
        world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(days=14), happens=True)
        for machine in affected
    ]
    made.warned(notices)
    assert down(made) == 0
    made.until(lambda: not any(machine.live for machine in affected), ticks=90)
    assert most_down <= 2  # a node's replicas, here at most two
    assert most_there <= 8
    texts = told(made, AlertKind.INTERRUPTED)
    assert texts
    assert all("2026-11-30" in text for text in texts)
    made.calm(3)
    busy_until = world.now
    made.tick()
    assert world.now - busy_until <= timedelta(seconds=125)
    no_violations(made)


def test_a_withdrawn_change_lets_the_node_stay():
    made = cluster(3, 2, 8, replicas=3, cpu=1000)
    world = made.world
    machine = world.workers()[0]
    notice = world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(days=2))
    made.warned([notice])
    made.warned([world.withdraw(notice)], owner="again")
    made.calm(20)
    assert machine.live
    assert not world.node_of(machine).cordoned
    no_violations(made)


def test_a_change_withdrawn_in_its_last_hour_lets_the_node_back_in():
    made = cluster(3, 2, 8, replicas=3, cpu=1000)
    world = made.world
    world.protect("shop", max_unavailable="0")
    machine = world.workers()[0]
    notice = world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(minutes=50))
    made.warned([notice])
    assert world.node_of(machine).cordoned
    made.warned([world.withdraw(notice)], owner="again")
    made.calm(2)
    assert machine.live
    assert not world.node_of(machine).cordoned
    no_violations(made)


@pytest.mark.parametrize(("workers", "least", "most"), [(1, 1, 1), (3, 3, 3), (4, 2, 4)])
def test_a_change_is_answered_before_its_time_where_max_leaves_no_room(workers, least, most):
    made = cluster(workers, least, most, replicas=workers, cpu=900)
    world = made.world
    machine = world.workers()[0]
    made.warned([world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(hours=3), happens=True)])
    made.until(lambda: not machine.live, ticks=100)
    assert world.now < world.start + timedelta(hours=3)
    made.calm(3)
    assert len(world.ready_nodes()) >= least
    no_violations(made)


def test_a_recommendation_forces_nothing_and_budgets_hold():
    made = cluster(4, 2, 4, replicas=4, cpu=1000, removal={"drain_on_rebalance": True})
    world = made.world
    world.protect("shop", max_unavailable="0")
    notices = [world.interrupt(machine.id, NoticeKind.REBALANCE) for machine in world.workers()[:3]]
    made.warned(notices)
    made.calm(20)
    assert len(world.workers()) <= 4
    assert not told(made, AlertKind.FORCED)
    assert down(made) == 0
    no_violations(made)


def test_a_recommendation_is_followed_by_a_replacement_and_then_a_removal():
    made = cluster(3, 2, 6, replicas=3, cpu=1000, removal={"drain_on_rebalance": True})
    world = made.world
    machine = world.workers()[1]
    made.warned([world.interrupt(machine.id, NoticeKind.REBALANCE)])
    assert not world.node_of(machine).cordoned
    made.until(lambda: not machine.live, ticks=9)
    assert len(world.ready_nodes()) == 3
    no_violations(made)


# ── by hand ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_healthy_node_that_is_deleted_by_hand_is_replaced_told_and_terminated():
    made = cluster(3, 3, 6)
    world = made.world
    machine = world.workers()[0]
    world.operator.delete_node(world.node_of(machine).name)
    made.until(lambda: len(world.ready_nodes()) == 3, ticks=4)
    made.calm(2)
    assert any(machine.id in text for text in told(made, AlertKind.UNHEALTHY))
    made.until(lambda: not machine.live, ticks=8)
    no_violations(made)


def test_an_instance_that_is_stopped_by_hand_is_replaced_told_and_terminated_after_an_hour():
    made = cluster(3, 3, 6)
    world = made.world
    machine = world.workers()[0]
    world.operator.stop(machine.id)
    made.until(lambda: len(world.ready_nodes()) == 3, ticks=4)
    made.calm(2)
    assert any(machine.id in text for text in told(made, AlertKind.UNHEALTHY))
    made.calm(20)
    assert machine.state is InstanceState.STOPPED
    made.until(lambda: machine.state is InstanceState.TERMINATED, ticks=12)
    made.calm(3)
    assert world.kube.node_of(machine.id) is None
    no_violations(made)
