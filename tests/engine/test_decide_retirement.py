"""Whole decisions about workers that EC2 has announced to take."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, KeepReason
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.operations import Launch, Purpose, Removal, RemovalReason
from nodefleet.model.state import Memory, PoolMemory
from nodefleet.model.workload import Budget, Owner, Selector
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool, RemovalRules
from support.builders import NOON, after, instance, look, node, only, pod
from support.decisions import opened
from support.operation_builders import removal
from support.wording import assert_wording

POLICY = Policy(pools=(Pool(limits=Limits(min=2, max=4)),))
FULL = Policy(pools=(Pool(limits=Limits(min=3, max=3)),))
CHANGE = Notice(
    instance="i-001", kind=NoticeKind.SCHEDULED_CHANGE, at=NOON + timedelta(days=14), told_at=NOON, event="arn:1"
)
BUSY = {"cpu": 60, "memory": 60}


def known(**memory) -> Memory:
    return Memory(looked_at=after(-120), pools={"default": PoolMemory(**memory)})


def test_the_replacement_comes_first_and_starts_no_cooldown():
    decision = decide(look(3, notices=(CHANGE,), pods=[], **BUSY), known(), POLICY)
    (launch,) = opened(decision, Launch)
    assert (launch.count, launch.purpose) == (1, Purpose.RESTORE)
    assert opened(decision, Removal) == []
    memory = decision.memory.pool("default")
    assert (memory.ahead, memory.last_grow) == (1, None)


def test_then_the_worker_leaves_and_the_fleet_is_as_large_as_before():
    decision = decide(look(4, notices=(CHANGE,), pods=[], **BUSY), known(ahead=1), POLICY)
    (leaving,) = opened(decision, Removal)
    assert (leaving.instance, leaving.why, leaving.notice) == (
        "i-001",
        RemovalReason.VOLUNTARY,
        NoticeKind.SCHEDULED_CHANGE,
    )
    pool = only(decision)
    assert (pool.action, pool.target) == (Action.SHRINK, 3)
    assert "2026-11-30 at 12:00 UTC" in pool.reason
    memory = decision.memory.pool("default")
    assert (memory.ahead, memory.losses, memory.last_shrink, memory.last_left) == (0, (), None, NOON)


def test_at_max_it_goes_first_and_is_owed_a_replacement():
    decision = decide(look(3, notices=(CHANGE,), pods=[], **BUSY), known(), FULL)
    assert [each.instance for each in opened(decision, Removal)] == ["i-001"]
    assert [loss.worker for loss in decision.memory.pool("default").losses] == ["i-001"]


def test_it_stays_where_something_protects_it():
    kept = [pod("a-1", "w001", annotations={"node-fleet.io/do-not-disrupt": "true"})]
    decision = decide(look(4, notices=(CHANGE,), pods=kept, **BUSY), known(ahead=1), POLICY)
    assert opened(decision, Removal) == []
    assert decision.memory.pool("default").ahead == 0, "a node kept ahead for it would be given back and launched again"


def test_it_leaves_first_when_the_fleet_shrinks_anyway_by_size_of_the_limits():
    smaller = Policy(pools=(Pool(limits=Limits(min=1, max=3)),))
    decision = decide(look(4, notices=(CHANGE,), pods=[], **BUSY), known(), smaller)
    assert [each.instance for each in opened(decision, Removal)] == ["i-001"]


def test_growth_does_not_call_it_back():
    leaving = replace(removal(instance="i-001", node="w001"), notice=NoticeKind.SCHEDULED_CHANGE)
    nodes = [node(1, cordoned=True, removal=leaving.id)]
    seen = look([0], instances=[instance(1)], nodes=nodes, notices=(CHANGE,), operations=(leaving,), pods=[], **BUSY)
    decision = decide(seen, known(), POLICY)
    assert sum(each.count for each in opened(decision, Launch)) == 1


def replicas(*ready: bool) -> list:
    owner = Owner(kind="ReplicaSet", name="shop", uid="rs", replicas=3)
    return [pod(f"p{n}", f"w00{n}", owner=owner, ready=is_ready, uid=f"u{n}") for n, is_ready in enumerate(ready)]


def test_soon_after_a_removal_a_workload_that_is_not_whole_keeps_its_node():
    for recently, pods, stays in (
        (after(-60), replicas(False, True, True), True),
        (after(-600), replicas(False, True, True), False),
        (after(-60), replicas(True, True, True), False),
        (after(-60), replicas(True, False, True), False),  # the one that is not ready is its own
        (after(-60), [pod("alone", "w001", owner=Owner(kind="Job", name="j"))], False),
    ):
        decision = decide(look(4, notices=(CHANGE,), pods=pods, **BUSY), known(ahead=1, last_left=recently), POLICY)
        assert (opened(decision, Removal) == []) is stays


def test_a_workload_that_is_not_whole_is_named():
    smaller = Policy(pools=(Pool(limits=Limits(min=1, max=3)),))
    seen = look(4, notices=(CHANGE,), pods=replicas(False, True, True), **BUSY)
    decision = only(decide(seen, known(last_left=after(-60)), smaller))
    (kept,) = [stay for stay in decision.stays if stay.worker == "w001"]
    assert kept.reason is KeepReason.NOT_WHOLE
    assert_wording(kept.detail)


# ── a scheduled change whose worker cannot leave ─────────────────────────────────────────────────────────────────────

SHOP = Budget(name="shop", selector=Selector(labels={"app": "shop"}), max_unavailable="0")
HOUR = timedelta(hours=1)


def told_of(told, ahead, *, budgets=(SHOP,), kind=NoticeKind.SCHEDULED_CHANGE):
    """What operators hear of a change that was announced some time ago and comes some time ahead."""
    change = Notice(instance="i-001", kind=kind, at=NOON + ahead, told_at=NOON - told, event="arn:1")
    shop = [pod("shop-1", "w001"), pod("shop-2", "w002")]
    policy = replace(POLICY, pools=(replace(POLICY.pools[0], removal=RemovalRules(drain_on_rebalance=True)),))
    decision = decide(look(4, notices=(change,), pods=shop, budgets=budgets, **BUSY), known(), policy)
    return [step for step in only(decision).plan if getattr(step, "alert", None) is AlertKind.DRAIN_BLOCKED]


def test_a_change_whose_worker_is_protected_for_an_hour_is_an_alert_with_the_cause_and_the_time():
    (told,) = told_of(HOUR, 5 * HOUR)
    assert told.subjects == ("w001", "scheduled-change")
    assert_wording(told.text)


@pytest.mark.parametrize(
    ("told", "ahead", "alerts"),
    [
        (HOUR - timedelta(seconds=1), 14 * 24 * HOUR, 0),  # most budgets allow it again soon
        (timedelta(0), 2 * HOUR + timedelta(seconds=1), 0),
        (timedelta(0), 2 * HOUR, 1),  # there is no more time to wait: the drain begins in an hour
        (4 * HOUR, HOUR, 0),  # it is drained now
    ],
)
def test_it_is_told_of_when_that_lasts_or_when_its_time_is_near(told, ahead, alerts):
    assert len(told_of(told, ahead)) == alerts


def test_a_worker_that_may_leave_and_one_that_is_only_recommended_to_leave_are_not_told_of():
    assert told_of(HOUR, 5 * HOUR, budgets=()) == []
    assert told_of(HOUR, timedelta(0), kind=NoticeKind.REBALANCE) == []
