"""A policy in force that this release refuses, or that is gone: the fleet is held, and an operator is told."""

from nodefleet.model.alerts import AlertKind, Severity
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.operations import Launch
from nodefleet.notifications.incoming import severity_of
from nodefleet_tools.sim.world import World
from support.worlds import Cluster

SMALL = {"limits": {"min": 2, "max": 4}}
LARGE = {"limits": {"min": 2, "max": 20}}
OF_ANOTHER_RELEASE = {**LARGE, "of_another_release": True}


def fleet(workers: int, *policies: dict) -> Cluster:
    """Idle workers under the last of these policies, as a release has left them that knew every key."""
    first, *others = policies
    world = World(seed=1, policy=first)
    world.add_workers(workers)
    for number, data in enumerate(others, start=2):
        version = PolicyVersion(number=number, source="ann", at=world.now, data=data, digest=f"d{number}")
        world.table.put_policy(version)
    world.settle()
    return Cluster(world)


def held_alerts(cluster: Cluster) -> list:
    return [event for event in cluster.world.table.events if event.kind is AlertKind.POLICY_UNUSABLE]


def test_a_refused_policy_does_not_shrink_the_fleet_to_an_earlier_version():
    cluster = fleet(20, SMALL, OF_ANOTHER_RELEASE)
    cluster.calm(30)
    assert len(cluster.world.ready_nodes()) == 20
    (alert,) = held_alerts(cluster)
    assert severity_of(alert) is Severity.CRITICAL
    assert "of_another_release" in alert.text


def test_a_held_fleet_is_still_restored_to_min():
    cluster = fleet(1, SMALL, {**OF_ANOTHER_RELEASE, "limits": {"min": 3, "max": 20}})
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 3)
    cluster.calm(10)
    assert len(cluster.world.ready_nodes()) == 3


def test_a_held_fleet_replaces_what_ec2_takes_though_it_is_idle():
    cluster = fleet(6, SMALL, OF_ANOTHER_RELEASE)
    cluster.calm(10)
    cluster.warned([cluster.world.interrupt(cluster.world.workers()[-1].id)])
    cluster.calm(10)
    assert len(cluster.world.ready_nodes()) == 6


def test_a_held_fleet_does_not_grow():
    cluster = fleet(3, SMALL, OF_ANOTHER_RELEASE)
    cluster.world.deploy("shop", replicas=40, cpu=500)
    cluster.calm(10)
    assert len(cluster.world.workers()) == 3


def test_a_good_policy_ends_the_hold():
    cluster = fleet(6, SMALL, OF_ANOTHER_RELEASE)
    cluster.calm(3)
    cluster.world.enforce(SMALL)
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 2, ticks=120)
    assert len(held_alerts(cluster)) == 1


def test_a_fleet_whose_policy_record_is_gone_is_held_and_not_ruled_by_the_defaults():
    cluster = fleet(20, LARGE)
    cluster.world.table.items["policy"].clear()
    cluster.calm(30)
    assert len(cluster.world.ready_nodes()) == 20
    assert len(held_alerts(cluster)) == 1


def test_a_fleet_whose_whole_table_is_gone_is_held():
    cluster = fleet(20, LARGE)
    cluster.calm(2)
    for items in cluster.world.table.items.values():
        items.clear()
    cluster.calm(30)
    assert len(cluster.world.ready_nodes()) == 20


def test_memory_of_the_pools_outlives_a_hold():
    cluster = fleet(6, LARGE)
    cluster.calm(3)
    before = cluster.world.table.state().journal.memory.pool("default").members
    cluster.world.table.items["policy"].clear()
    cluster.calm(3)
    assert cluster.world.table.state().journal.memory.pool("default").members == before


def test_without_a_fleet_and_without_a_policy_the_defaults_become_the_first_version():
    cluster = fleet(0, LARGE)
    cluster.world.table.items["policy"].clear()
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 2)
    state = cluster.world.table.state()
    assert (state.policy.number, state.policy.data) == (1, {})
    cluster.calm(3)
    assert held_alerts(cluster) == []


def test_a_stored_launch_of_a_pool_that_a_hold_does_not_know_is_not_sent():
    cluster = fleet(3, LARGE)
    cluster.world.deploy("shop", replicas=20, cpu=500)
    cluster.world.away("cloud")
    cluster.world.table.items["policy"].clear()
    launch = Launch(
        id="launch-1",
        pool="default",
        zone=cluster.world.zones[0],
        market=cluster.world.workers()[0].market,
        types=("t3.small",),
        count=2,
        template="lt-default",
        template_version="1",
        subnet=f"subnet-{cluster.world.zones[0]}",
        reason="pods wait",
        started=cluster.world.now,
        deadline=cluster.world.now + cluster.world.policy.lease,
    )
    cluster.world.table.put("operation", launch.id, launch, type_="launch")
    cluster.world.back("cloud")
    cluster.calm(6)
    assert len(cluster.world.workers()) == 3
    assert cluster.operations == ()
