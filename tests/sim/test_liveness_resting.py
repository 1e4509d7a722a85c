"""Instances that are paid for and are no capacity: a world in which nobody is told of them breaks the rule."""

from unittest.mock import patch

from nodefleet.engine import decide
from nodefleet.engine.disruption import orphans
from nodefleet.errors import DeniedError
from nodefleet.model.alerts import AlertKind
from nodefleet_tools.sim.hooks import Call
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import World
from support.worlds import Cluster, shop


def with_an_unowned_worker() -> Cluster:
    cluster = shop()
    cluster.world.add_workers(1, pool="batch")
    cluster.world.liveness.begin()
    return cluster


def broken(cluster: Cluster) -> list[Rule]:
    return [violation.rule for violation in cluster.world.violations]


def test_an_unowned_worker_is_alerted_in_time():
    cluster = with_an_unowned_worker()
    cluster.calm(60)
    alerts = [event for event in cluster.world.table.events if event.kind is AlertKind.RESTING_COST]
    assert len(alerts) == 1
    assert broken(cluster) == []


def test_one_that_nobody_hears_of_is_found_and_not_before_its_time():
    cluster = with_an_unowned_worker()
    with patch.object(decide, "resting_alerts", lambda *_: ()):
        cluster.calm(33)
        assert broken(cluster) == []
        cluster.calm(25)
    assert broken(cluster) == [Rule.RESTING_COST]


# ── instances that did not join, one of which EC2 does not terminate ─────────────────────────────────────────────


def with_failed_joins() -> Cluster:
    """Three, and the cleanup of the first that is tried is refused: an operator protected it from termination."""
    world = World(policy={"limits": {"min": 2, "max": 6}, "health": {"keep_failed": 0}})
    machines = world.add_workers(5)
    world.settle()
    for machine in machines[:3]:
        machine.failed = True
        world.operator.delete_node(world.node_of(machine).name)

    def refuse(call: Call) -> None:
        if call.name == "cloud.terminate" and call.arguments[0] == machines[0].id:
            raise DeniedError("EC2", f"{machines[0].id} may not be terminated", "Take off its termination protection")

    world.faults.hooks.append(refuse)
    return Cluster(world).must_live()


def live_failures(cluster: Cluster) -> list[str]:
    return [each.id for each in cluster.world.ec2.live_workers("default") if each.failed]


def test_a_failed_join_that_cannot_be_terminated_holds_up_no_other_and_an_operator_hears_of_it():
    cluster = with_failed_joins()
    first, *_ = live_failures(cluster)
    cluster.calm(20)
    assert live_failures(cluster) == [first]
    told = [event for event in cluster.world.table.events if event.kind is AlertKind.CLEANUP_NEEDS_OPERATOR]
    assert [event.subjects for event in told] == [(first,)]
    cluster.calm(60)
    assert broken(cluster) == []


def test_failed_joins_that_never_get_their_turn_are_found():
    cluster = with_failed_joins()
    with patch.object(orphans, "_select_for_cleanup", lambda *_: []):
        cluster.calm(60)
    assert Rule.RESTING_COST in broken(cluster)
