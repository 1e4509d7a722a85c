"""Workers that EC2 has announced to take: replaced first, within max and budgets, and forced by nothing."""

from datetime import timedelta

import pytest

from nodefleet.capacity import count_workers
from nodefleet.engine.disruption.rotation import (
    is_due,
    may_leave,
    plan_replacement,
    replacement_floors,
    retirement_alerts,
    retiring,
)
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Rank, floor
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, Limits, Pool, RemovalRules
from support.builders import NOON, after, instance, look, node
from support.operation_builders import removal
from support.wording import assert_wording

POOL = Pool(limits=Limits(min=2, max=5))


def change(number, ahead=timedelta(days=14), kind=NoticeKind.SCHEDULED_CHANGE):
    return Notice(instance=f"i-{number:03}", kind=kind, at=NOON + ahead, told_at=NOON)


def retirement(everyone, pool, count, ahead, *, braked=False):
    return plan_replacement(retiring(everyone, braked=braked), everyone, pool, count, ahead)


def planned(*numbers, total=4, ahead=0, pool=POOL, **changes):
    seen = look(total, notices=[change(n) for n in numbers], **changes)
    everyone = derive_workers(seen, Policy(pools=(pool,)))
    return (
        everyone,
        count_workers(everyone, seen, "default"),
        retirement(everyone, pool, count_workers(everyone, seen, "default"), ahead),
    )


def test_one_replacement_at_a_time_is_wanted():
    _, count, plan = planned(1, 2)
    assert ([each.worker.id for each in plan.due], plan.wanted, plan.ahead, plan.at_max) == (
        ["i-001", "i-002"],
        1,
        0,
        False,
    )
    (bound,) = replacement_floors(plan, count.capacity)
    assert (bound.nodes, bound.rank) == (5, Rank.LIMIT)
    assert "2026-11-30 at 12:00 UTC" in bound.sentence
    assert may_leave(plan, POOL, count, []) == 0


def test_the_earliest_goes_first():
    seen = look(3, notices=[change(0), change(2, ahead=timedelta(days=1))])
    everyone = derive_workers(seen, Policy(pools=(POOL,)))
    plan = retirement(everyone, POOL, count_workers(everyone, seen, "default"), 0)
    assert [each.worker.id for each in plan.due] == ["i-002", "i-000"]


@pytest.mark.parametrize(("total", "ahead", "wanted"), [(2, 0, 1), (1, 0, 1), (3, 1, 0)])
def test_at_min_no_node_is_ahead_whatever_is_remembered(total, ahead, wanted):
    """Its launch was refused, or it was lost: counted on, none was launched again, and none could leave."""
    _, _, plan = planned(0, total=total, ahead=1)
    assert (plan.ahead, plan.wanted) == (ahead, wanted)


def test_once_its_replacement_is_ready_one_leaves():
    _, count, plan = planned(1, 2, ahead=1)
    assert replacement_floors(plan, count.capacity) == []
    assert may_leave(plan, POOL, count, []) == 1


def test_nobody_leaves_while_the_replacement_boots():
    booting = instance(9, launched_at=after(-10))
    _, count, plan = planned(1, total=3, ahead=1, instances=[booting])
    assert may_leave(plan, POOL, count, []) == 0


def test_nobody_leaves_below_min():
    _, count, plan = planned(1, total=2, ahead=1)
    assert may_leave(plan, POOL, count, []) == 0


def test_at_max_one_goes_first():
    _, count, plan = planned(1, 2, total=5)
    assert (plan.wanted, plan.at_max) == (0, True)
    assert may_leave(plan, POOL, count, []) == 1


def test_a_safety_bound_keeps_everybody():
    _, count, plan = planned(1, ahead=1)
    held = floor(4, "pause", Rank.SAFETY, "paused")
    assert may_leave(plan, POOL, count, [held]) == 0
    assert may_leave(plan, POOL, count, [floor(3, "doubt", Rank.SAFETY, "unsure")]) == 1
    assert may_leave(plan, POOL, count, [floor(4, "cpu", Rank.SIGNAL, "busy")]) == 1


def test_nobody_is_due_nothing_is_done():
    _, count, plan = planned(ahead=3)
    assert (plan.due, plan.ahead, plan.wanted, plan.at_max) == ((), 0, 0, False)
    assert may_leave(plan, POOL, count, []) == 0


def test_what_leaves_already_counts_against_the_budget():
    gone = removal(instance="i-003", node="w003")
    _, _, plan = planned(1, 2, operations=(gone,))
    assert plan.wanted == 0
    _, _, plan = planned(1, 2, pool=Pool(limits=Limits(min=2, max=9), budgets=Budgets(removals=2)), operations=(gone,))
    assert plan.wanted == 1


def test_only_ready_workers_without_an_operation_are_due():
    seen = look(
        1,
        instances=[instance(8), instance(9)],
        nodes=[node(8, ready=False, ready_changed_at=after(-5)), node(9)],
        notices=[change(8), change(9)],
        operations=(removal(instance="i-009", node="w009"),),
    )
    assert not any(is_due(worker) for worker in derive_workers(seen, Policy(pools=(POOL,))))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (NoticeKind.SCHEDULED_CHANGE, "EC2 has a scheduled change on 2026-11-17 at 12:00 UTC"),
        (NoticeKind.REBALANCE, "EC2 recommends to move off it, since 12:00:00"),
    ],
)
def test_people_are_told_with_the_date(kind, said):
    pool = Pool(limits=Limits(min=1, max=5), removal=RemovalRules(drain_on_rebalance=True))
    ahead = timedelta(days=1) if kind is NoticeKind.SCHEDULED_CHANGE else timedelta(0)
    everyone = derive_workers(look(2, notices=[change(1, ahead, kind)]), Policy(pools=(pool,)))
    (told,) = retirement_alerts(everyone, pool)
    assert told.alert is AlertKind.INTERRUPTED
    assert said in told.text


def test_an_empty_pool_has_nothing_to_hold():
    assert may_leave(retirement((), POOL, Count(), 0), POOL, Count(), [floor(0, "level", Rank.SAFETY, "x")]) == 0


def test_a_node_that_is_no_good_goes_before_what_is_planned_and_not_while_many_are_unhealthy():
    pressed = node(9, pressures=("DiskPressure",), pressed_since=after(-600))
    seen = look(3, instances=[instance(9)], nodes=[pressed], notices=[change(1)])
    everyone = derive_workers(seen, Policy(pools=(POOL,)))
    count = count_workers(everyone, seen, "default")
    assert [each.worker.id for each in retirement(everyone, POOL, count, 0).due] == ["i-009", "i-001"]
    assert [each.worker.id for each in retirement(everyone, POOL, count, 0, braked=True).due] == ["i-001"]
    told = {each.alert: each.text for each in retirement_alerts(everyone, POOL)}
    assert_wording(told[AlertKind.UNHEALTHY])
