"""Alerts stay few, whatever the pods are called and whichever figures change."""

from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.operations import RefusalKind
from nodefleet.reconcile.unit_of_work import AlertDeduplicator
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.rules import Rule
from support.wording import assert_wording
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


# ── scale-ups in vain ────────────────────────────────────────────────────────────────────────────────────────────────


def _refused_for_hours(refusal: RefusalKind, ticks: int) -> Cluster:
    cluster = shop(workers=2, limits={"min": 4, "max": 8})
    cluster.world.shop.refuse(kind=refusal, code="code")
    cluster.world.liveness.begin()
    for _ in range(ticks):
        cluster.look()
    return cluster


@pytest.mark.parametrize(
    ("refusal", "ticks", "announced"),
    [(RefusalKind.QUOTA, 200, 2), (RefusalKind.CAPACITY, 30, 1), (RefusalKind.PERMISSION, 30, 1)],
)
def test_a_growth_that_ec2_refuses_again_and_again_is_announced_once(refusal, ticks, announced):
    """Over 6 h 40 min once, and a reminder."""
    cluster = _refused_for_hours(refusal, ticks)
    assert len(_alerts(cluster, AlertKind.SCALE_UP)) == announced
    assert [each for each in cluster.world.violations if each.rule is Rule.QUIET] == []


def test_announced_at_every_attempt_it_is_a_flood():
    with patch.object(AlertDeduplicator, "is_new_growth", return_value=True):
        cluster = _refused_for_hours(RefusalKind.QUOTA, ticks=100)
    (found,) = [each.detail for each in cluster.world.violations if each.rule is Rule.QUIET]
    assert_wording(found.partition(":")[0])


def test_nodes_that_ec2_refuses_are_not_counted_as_added():
    cluster = _refused_for_hours(RefusalKind.QUOTA, ticks=20)
    usage = cluster.world.parts("reader").store.state().journal.usage
    assert usage.pools["default"].scale_ups == 0


def test_when_ec2_gives_again_the_next_growth_is_announced():
    cluster = _refused_for_hours(RefusalKind.QUOTA, ticks=20)
    cluster.world.shop.allow()
    cluster.until(lambda: len(cluster.world.ready_nodes()) == 4)
    before = len(_alerts(cluster, AlertKind.SCALE_UP))
    cluster.world.deploy("more", replicas=8, cpu=900)
    cluster.until(lambda: len(cluster.world.ready_nodes()) > 4)
    assert len(_alerts(cluster, AlertKind.SCALE_UP)) > before


def test_probes_of_joins_that_keep_failing_are_not_announced_each():
    cluster = shop(workers=2, limits={"min": 4, "max": 8})
    cluster.world.kube.settings.never_joins = 1.0
    for _ in range(150):
        cluster.look()
    launched = sum(machine.launched_at > cluster.began for machine in cluster.world.ec2.machines.values())
    assert len(_alerts(cluster, AlertKind.SCALE_UP)) < launched / 2
