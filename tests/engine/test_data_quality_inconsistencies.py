"""What stands against shrinking and is no load: for how long, and who hears of it."""

from dataclasses import replace

import pytest

from nodefleet.engine.context import PoolContext
from nodefleet.engine.data_quality import Inconsistencies, find_inconsistencies
from nodefleet.engine.decide import decide
from nodefleet.engine.signals.vote import ScaleDownOk, SignalVote, Unreadable
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, KeepReason
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.model.state import PoolMemory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Trust
from support.builders import NOON, after, instance, look, node
from support.decisions import POLICY, calm_look, only
from support.wording import assert_wording

LONG = 600  # trust.doubt_for and unmeasured_after
HOUR = 3600


def found(seen, opinions=(), *, since=None, trust=None) -> Inconsistencies:
    policy = replace(POLICY, trust=trust or Trust())
    (pool,) = policy.pools
    before = PoolMemory(doubtful=since or {})
    return find_inconsistencies(PoolContext.of(pool, policy, seen, before, derive_workers(seen, policy)), opinions)


def kinds(doubt: Inconsistencies) -> list[AlertKind]:
    return [tell.alert for tell in doubt.alerts]


def nodes_read(seen, count):
    counted = Reading(count, seen.at) if isinstance(count, int) else count
    return replace(seen, readings={"default": replace(seen.readings["default"], nodes=counted)})


def unlisted(number: int, of: int = 10):
    """So many of the workers are ready, and EC2 does not list them."""
    return look(range(number, of), nodes=[node(each) for each in range(number)])


# ── workers that EC2 and Kubernetes see differently ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (
            look(1, instances=[instance(1)], nodes=[node(1, ready=False, ready_changed_at=after(-9))]),
            "w001 is not ready",
        ),
        (
            look(1, instances=[instance(1)], nodes=[node(1, ready=False, ready_changed_at=after(-900))]),
            "w001 is unhealthy",
        ),
        (look(1, nodes=[node(1)]), "w001 is not listed by EC2"),
        (look(1, nodes=[node(1, ready=False)]), "w001 is a node without an instance"),
    ],
)
def test_workers_that_ec2_and_kubernetes_see_differently_hold_back_shrinking(seen, sentence):
    assert found(seen).sentences == (sentence,)


def test_a_kept_failure_is_no_doubt():
    assert found(look(1, instances=[instance(1, failed=True)])).sentences == ()


@pytest.mark.parametrize(("ago", "holds"), [(0, True), (LONG - 1, True), (LONG, False)])
def test_one_worker_in_doubt_holds_the_others_back_for_a_while(ago, holds):
    doubt = found(unlisted(1), since={"worker:i-000": after(-ago)})
    assert bool(doubt.sentences) is holds
    assert doubt.since == {"worker:i-000": after(-ago)}


@pytest.mark.parametrize(("number", "holds"), [(1, False), (2, False), (3, True), (10, True)])
def test_many_hold_back_for_as_long_as_they_are_many(number, holds):
    since = {f"worker:i-{each:03}": after(-HOUR) for each in range(number)}
    assert bool(found(unlisted(number), since=since).sentences) is holds


def test_how_many_are_many_and_for_how_long_is_the_policys():
    since = {f"worker:i-{each:03}": after(-60) for each in range(3)}
    assert found(unlisted(3), since=since, trust=Trust(doubtful_percent=30, doubt_for=after(60) - NOON)).sentences == ()


def test_a_doubt_that_is_over_is_forgotten():
    assert found(look(), since={"worker:i-000": after(-99), "count": after(-99)}).since == {}


def test_who_stays_in_doubt_for_an_hour_is_an_alert():
    assert kinds(found(unlisted(1), since={"worker:i-000": after(1 - HOUR)})) == []
    (tell,) = found(unlisted(1), since={"worker:i-000": after(-HOUR)}).alerts
    assert (tell.alert, tell.pool) == (AlertKind.NODE_IN_DOUBT, "default")
    assert_wording(tell.text)


def test_who_is_replaced_anyway_has_alerts_of_its_own():
    sick = look(5, instances=[instance(9)], nodes=[node(9, ready=False, ready_changed_at=after(-9999))])
    assert kinds(found(sick, since={"worker:i-009": after(-9999)})) == []


def test_many_in_doubt_for_an_hour_are_an_alert_that_names_them():
    doubt = found(unlisted(3), since={f"worker:i-{each:03}": after(-HOUR) for each in range(3)})
    assert kinds(doubt) == [AlertKind.SCALE_DOWN_BLOCKED, *[AlertKind.NODE_IN_DOUBT] * 3]
    assert_wording(doubt.alerts[0].text)


# ── workers that are not measured ────────────────────────────────────────────────────────────────────────────────


def measured(*numbers: int, of: int = 10):
    return look(of, idle={f"w{each:03}": 90.0 for each in numbers})


def test_one_that_is_not_measured_stays_and_holds_nobody_back():
    doubt = found(measured(*range(9)))
    assert (doubt.sentences, doubt.unmeasured) == ((), {"w009"})


def test_many_that_are_not_measured_hold_everybody_back():
    doubt = found(measured(*range(7)))
    assert_wording(doubt.sentences)
    since = dict.fromkeys(doubt.since, after(-HOUR))
    assert kinds(found(measured(*range(7)), since=since)) == [AlertKind.SCALE_DOWN_BLOCKED, AlertKind.NODE_IN_DOUBT]


def test_without_any_figure_by_node_nobody_can_tell_who_is_not_measured():
    assert found(look(10)).unmeasured == frozenset()
    assert found(look(10, idle={"10.0.0.1:9100": 90.0})).unmeasured == frozenset()


def test_a_node_that_has_just_joined_is_not_measured_yet():
    young = look(3, instances=[instance(9)], nodes=[node(9, ready_changed_at=after(-299))])
    readings = replace(young.readings["default"], idle={"w000": 1.0, "w001": 1.0, "w002": 1.0})
    assert found(replace(young, readings={"default": readings})).unmeasured == frozenset()


def test_after_some_minutes_they_are_named_in_an_alert():
    since = {"exporter:i-009": after(-LONG)}
    (tell,) = found(measured(*range(9)), since=since).alerts
    assert tell.alert is AlertKind.NODE_IN_DOUBT
    assert_wording(tell.text)
    assert found(measured(*range(9)), since={"exporter:i-009": after(1 - LONG)}).alerts == ()
    two = {"exporter:i-008": after(-LONG), "exporter:i-009": after(-LONG)}
    (tell,) = found(measured(*range(8)), since=two).alerts
    assert_wording(tell.text)


def test_the_idle_fleet_shrinks_without_the_one_that_is_not_measured():
    seen, memory = calm_look(5, idle={f"w{each:03}": 90.0 for each in range(1, 5)})
    decision = only(decide(nodes_read(seen, 4), memory, POLICY))
    assert decision.action is Action.SHRINK
    assert {stay.worker: stay.reason for stay in decision.stays}["w000"] is not KeepReason.CHOSEN


def test_one_that_is_not_measured_does_not_leave_itself():
    policy = replace(POLICY, pools=(replace(POLICY.pools[0], limits=replace(POLICY.pools[0].limits, min=1)),))
    seen, memory = calm_look(2, policy=policy, idle={"w001": 90.0})
    decision = only(decide(seen, memory, policy))
    reasons = {stay.worker: stay.reason for stay in decision.stays}
    assert reasons["w000"] in (KeepReason.UNMEASURED, KeepReason.OUTRANKED)
    assert reasons["w001"] is KeepReason.CHOSEN


# ── the count of workers ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("seen_by_prometheus", "tolerance", "agrees"),
    [(3, 0, True), (2, 0, False), (4, 0, False), (4, 1, True), (5, 1, False)],
)
def test_prometheus_must_see_as_many_workers(seen_by_prometheus, tolerance, agrees):
    doubt = found(nodes_read(look(), seen_by_prometheus), trust=Trust(count_tolerance=tolerance))
    expected = f"Prometheus sees {seen_by_prometheus} workers, Kubernetes 3"
    assert doubt.sentences == (() if agrees else (expected,))
    assert ("count" in doubt.since) is not agrees


def test_a_worker_count_that_was_asked_for_and_is_missing_is_a_doubt():
    assert_wording(found(nodes_read(look(), Missing("timeout"))).sentences)
    assert found(look()).sentences == ()


def test_without_workers_there_is_nothing_to_count():
    assert found(nodes_read(look(0), Missing("no series", empty_at=NOON))).sentences == ()


@pytest.mark.parametrize(("count", "agrees"), [(8, False), (9, True), (10, True), (11, False)])
def test_one_that_is_not_measured_may_be_missing_in_the_count(count, agrees):
    assert (found(nodes_read(measured(*range(9)), count)).sentences == ()) is agrees


def test_a_node_that_a_person_cordoned_is_scraped_all_the_same():
    seen = look(3, instances=[instance(9)], nodes=[node(9, cordoned=True)])
    assert found(nodes_read(seen, 4)).sentences == ()


def test_one_that_is_not_ready_may_be_missing_in_the_count_or_not():
    seen = look(3, instances=[instance(9)], nodes=[node(9, ready=False, ready_changed_at=after(-9))])
    for count in (3, 4):
        assert_wording(found(nodes_read(seen, count)).sentences)


# ── readings that cannot be had ──────────────────────────────────────────────────────────────────────────────────

ERRORS = SignalVote(signal="custom:errors", vote=Unreadable("error_percent unknown: parse error"))


def test_a_reading_that_forbids_to_shrink_for_an_hour_is_an_alert():
    first = found(look(), [ERRORS])
    assert (first.since, first.alerts) == ({"veto:custom:errors": NOON}, ())
    assert found(look(), [ERRORS], since={"veto:custom:errors": after(1 - HOUR)}).alerts == ()
    (tell,) = found(look(), [ERRORS], since={"veto:custom:errors": after(-HOUR)}).alerts
    assert tell.alert is AlertKind.SCALE_DOWN_BLOCKED
    assert_wording(tell.text)


def test_how_long_that_is_is_the_policys():
    trust = Trust(blocked_after=after(60) - NOON)
    assert kinds(found(look(), [ERRORS], since={"veto:custom:errors": after(-60)}, trust=trust)) == [
        AlertKind.SCALE_DOWN_BLOCKED
    ]


def test_a_reading_that_is_there_is_no_doubt():
    assert found(look(), [SignalVote(signal="custom:errors", vote=ScaleDownOk(reason="low"))]).since == {}


def test_where_there_is_nothing_to_measure_cpu_is_not_unknown():
    cpu = SignalVote(signal="cpu", vote=Unreadable("CPU unknown: no series"))
    assert found(look(0, cpu=Missing("no series")), [cpu]).since == {}
    assert found(look(3, cpu=Missing("no series")), [cpu]).since == {"veto:cpu": NOON}
