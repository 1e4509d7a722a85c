"""Alerts stay few, whatever the pods are called and whichever figures change."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.rules import Rule
from support.worlds import Cluster, shop

BUG = "alerts told apart by their text"


def _alerts(cluster: Cluster, kind: AlertKind) -> list[Event]:
    return [event for event in cluster.world.table.events if event.kind is kind]


def _new_pods_all_the_time(cluster: Cluster, ticks: int) -> None:
    """Each tick a pod with another name, of another namespace, that no node can hold; and one that needs a node."""
    world = cluster.world
    world.liveness.begin()
    for number in range(ticks):
        world.deploy(f"job{number}", replicas=1, cpu=16_000, namespace=f"team-{number}")
        world.deploy(f"more{number}", replicas=1, cpu=900)
        cluster.look()


def test_pods_that_never_fit_and_a_fleet_at_max_are_a_few_alerts():
    cluster = shop(workers=3, limits={"min": 2, "max": 3})
    _new_pods_all_the_time(cluster, 60)
    assert len(_alerts(cluster, AlertKind.CANNOT_HOLD)) == 5
    assert len(_alerts(cluster, AlertKind.AT_MAX)) == 1
    assert [each for each in cluster.world.violations if each.rule is Rule.QUIET] == []


def test_told_apart_by_their_text_they_are_a_flood_and_it_is_reported_once():
    cluster = shop(workers=3, limits={"min": 2, "max": 3})
    with PLANTED[BUG]():
        _new_pods_all_the_time(cluster, 40)
    flood = [each.detail for each in cluster.world.violations if each.rule is Rule.QUIET]
    assert len([detail for detail in flood if detail.startswith("cannot-hold")]) == 1


@pytest.mark.parametrize(
    ("kind", "allowed"), [(AlertKind.AT_MAX, 15), (AlertKind.QUOTA, 40), (AlertKind.INTERRUPTED, 2 * 5)]
)
def test_the_bound(kind, allowed):
    cluster = shop(workers=3)  # with the control plane and a foreign instance: five instances
    world = cluster.world
    store = world.parts("teller").store
    event = Event(id="0", at=world.now, cluster="shop", kind=kind, pool="default", text="x")
    world.liveness.begin()
    for number in range(allowed):
        store.tell(replace(event, id=str(number)))
    world.advance(60)
    assert world.violations == []
    store.tell(replace(event, id="one too many", at=world.now))
    world.advance(60)
    (found,) = world.violations
    assert found.rule is Rule.QUIET


def test_alerts_of_another_day_do_not_count_together():
    cluster = shop(workers=3)
    world = cluster.world
    store = world.parts("teller").store
    world.liveness.begin()
    for number in range(40):
        at = world.now + number * timedelta(hours=1)
        store.tell(Event(id=str(number), at=at, cluster="shop", kind=AlertKind.AT_MAX, pool="default", text="x"))
    world.advance(60)
    assert world.violations == []
