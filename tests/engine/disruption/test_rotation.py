"""Whole decisions about workers that are old, have drifted, or that an operator wants replaced."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.context import PoolContext
from nodefleet.engine.decide import decide
from nodefleet.engine.disruption.rotation import due_at, list_due
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market, Notice, NoticeKind, Resources
from nodefleet.model.operations import Launch, Purpose, Removal, RemovalReason
from nodefleet.model.snapshot import ActiveWindow, Missing, Pause, Recycle, Scale
from nodefleet.model.state import Backoff, JoinTrouble, Level, Loss, MarketSwap, Memory, PoolMemory, RotationState
from nodefleet.model.workload import Budget, Owner, Selector
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, Limits, MarketMix, Pool, Rotation, Window
from support.builders import NOON, TARGET, after, calm_for, instance, look, node, only, pod, waiting
from support.decisions import alerts, opened
from support.operation_builders import removal
from support.wording import assert_wording

DAY = timedelta(days=1)
AGE = Rotation(max_age=14 * DAY, spread_percent=0)
BUSY = {"cpu": 60, "memory": 60, "pods": []}
ORDER = Recycle(instance="i-001", at=after(-60), by="ada", reason="new kernel", until=NOON + DAY)


def pooled(rotation=AGE, **rules) -> Policy:
    return Policy(pools=(Pool(limits=rules.pop("limits", Limits(min=2, max=5)), rotation=rotation, **rules),))


def known(**memory) -> Memory:
    return Memory(looked_at=after(-120), pools={"default": PoolMemory(**memory)})


def aged(*days: float, more=(), **changes):
    """Ready workers of these ages."""
    made = [instance(n, launched_at=NOON - age * DAY) for n, age in enumerate(days)]
    nodes = [node(n) for n in range(len(days))]
    return look(0, instances=[*made, *more], nodes=[*nodes, *changes.pop("nodes", ())], **{**BUSY, **changes})


def due(seen, policy):
    (pool,) = policy.pools
    return [
        (each.worker.id, each.reason)
        for each in list_due(PoolContext.of(pool, policy, seen, PoolMemory(), derive_workers(seen, policy)))
    ]


# ── which workers are due ────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_beyond_its_age_is_due_and_the_oldest_is_first():
    assert_wording(due(aged(15, 3, 20.5), pooled()))
    assert due(aged(14), pooled()), "at its age it is due"
    assert due(aged(13.999), pooled()) == []


def test_nothing_is_due_by_default():
    drifted = instance(1, launched_at=NOON - 300 * DAY, template="lt-old", template_version="1", type="m5.large")
    assert due(look([0], instances=[drifted], nodes=[node(1)]), Policy()) == []


def test_those_of_one_launch_are_due_at_different_times_within_the_spread():
    pool = Pool(rotation=Rotation(max_age=10 * DAY, spread_percent=20))
    fleet = derive_workers(look(40), Policy(pools=(pool,)))
    ages = [due_at(each, pool) - each.instance.launched_at for each in fleet]
    assert 8 * DAY < min(ages) < 8.3 * DAY
    assert 9.7 * DAY < max(ages) <= 10 * DAY
    assert len(set(ages)) == 40


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"template": "lt-0", "template_version": "3"}, "launched from template lt-0, and the pool's is lt-1"),
        (
            {"template": "lt-1", "template_version": "2"},
            "launched from version 2 of its template, and the pool's is 3",
        ),
        ({"type": "m5.large"}, "its type m5.large is none of the pool's"),
        ({"template": "lt-1", "template_version": "3"}, ""),
        ({}, ""),  # not known: read by an earlier release, or launched by hand
    ],
)
def test_a_worker_that_the_pool_would_not_launch_now_has_drifted(changes, reason):
    seen = look([0], instances=[instance(1, **changes)], nodes=[node(1)])
    assert due(seen, pooled(Rotation(drift=True))) == ([("i-001", reason)] if reason else [])
    assert due(seen, pooled(Rotation(drift=False))) == []


def test_a_deployment_that_names_no_template_lets_nobody_drift():
    seen = look([0], instances=[instance(1, template="lt-0")], nodes=[node(1)], targets=(replace(TARGET, template=""),))
    assert due(seen, pooled(Rotation(drift=True))) == []


def test_an_operator_comes_before_drift_and_drift_before_age():
    made = [
        instance(0, launched_at=NOON - 30 * DAY),
        instance(1),
        instance(2, template="lt-0"),
    ]
    seen = look(0, instances=made, nodes=[node(n) for n in range(3)], commands=(ORDER,))
    found = due(seen, pooled(replace(AGE, drift=True)))
    assert [each for each, _ in found] == ["i-001", "i-002", "i-000"]
    assert_wording(found[0][1])


def test_an_order_that_is_over_asks_for_nothing():
    assert due(look(2, commands=(replace(ORDER, until=NOON),)), pooled(Rotation())) == []


def test_a_worker_that_leaves_anyway_or_is_held_by_a_person_is_not_due():
    change = Notice(instance="i-000", kind=NoticeKind.SCHEDULED_CHANGE, at=NOON + 9 * DAY, told_at=NOON)
    made = [instance(n, launched_at=NOON - 30 * DAY) for n in range(3)]
    seen = look(0, instances=made, nodes=[node(0), node(1, cordoned=True), node(2, ready=False)], notices=(change,))
    assert due(seen, pooled()) == []


# ── how they are replaced ────────────────────────────────────────────────────────────────────────────────────────


def test_the_replacement_comes_first_and_starts_no_cooldown():
    decision = decide(aged(15, 1, 1), known(), pooled())
    (launch,) = opened(decision, Launch)
    assert (launch.count, launch.purpose) == (1, Purpose.RESTORE)
    assert_wording(launch.reason)
    assert opened(decision, Removal) == []
    memory = decision.memory.pool("default")
    assert (memory.ahead, memory.last_grow) == (1, None)
    assert memory.rotation == RotationState(since=NOON, begun_at=NOON, nodes=3)


def test_the_replacement_takes_the_market_and_the_zone_of_the_worker_that_goes():
    # w000 is the On-Demand base of zone a: without it the new one must be On-Demand and in zone a.
    (launch,) = opened(decide(aged(15, 1, 1), known(), pooled()), Launch)
    assert (launch.market, launch.zone) == (Market.ON_DEMAND, "a")
    (launch,) = opened(decide(aged(1, 15), known(), pooled()), Launch)
    assert (launch.market, launch.zone) == (Market.SPOT, "b")


def test_then_the_worker_leaves_and_the_pool_is_as_large_as_before():
    state = RotationState(since=after(-600), begun_at=after(-120), nodes=3, failures=2)
    decision = decide(aged(15, 1, 1, 0.01), known(ahead=1, rotation=state), pooled())
    (leaving,) = opened(decision, Removal)
    assert (leaving.instance, leaving.why, leaving.rotated) == ("i-000", RemovalReason.VOLUNTARY, True)
    pool = only(decision)
    assert (pool.action, pool.target) == (Action.SHRINK, 3)
    assert_wording(pool.reason)
    memory = decision.memory.pool("default")
    assert (memory.ahead, memory.losses, memory.last_shrink, memory.last_left) == (0, (), None, NOON)
    assert memory.rotation == RotationState(), "begun no more, and no failure is left"


def test_at_max_it_goes_first_and_is_owed_a_replacement():
    policy = pooled(limits=Limits(min=3, max=3))
    decision = decide(aged(15, 1, 1, cpu=30, memory=30), known(), policy)
    assert [each.instance for each in opened(decision, Removal)] == ["i-000"]
    assert decision.memory.pool("default").losses == (Loss(worker="i-000", at=NOON, cause="rotated"),)


def test_at_max_it_stays_while_the_others_could_not_bear_the_load():
    policy = pooled(limits=Limits(min=3, max=3))
    decision = decide(aged(15, 1, 1, cpu=50, memory=30), known(), policy)
    assert opened(decision, Removal) == []
    assert_wording(only(decision).reason)


def test_at_max_an_operators_size_is_kept():
    policy = pooled(limits=Limits(min=2, max=3))
    seen = aged(15, 1, 1, cpu=30, memory=30, commands=(Scale(nodes=3, by="ada", until=NOON + DAY),))
    assert opened(decide(seen, known(), policy), Removal) == []


def test_that_a_worker_leaves_at_max_is_no_alert():
    leaving = removal(instance="i-000", node="w000")
    seen = look(
        [1, 2],
        instances=[instance(0)],
        nodes=[node(0, cordoned=True, removal=leaving.id)],
        operations=(leaving,),
        **BUSY,
    )
    lost = (Loss(worker="i-000", at=after(-60), cause="rotated"),)
    decision = decide(seen, known(losses=lost), pooled(limits=Limits(min=3, max=3)))
    assert alerts(decision) == []
    hot = replace(seen, kubernetes=replace(seen.kubernetes, pods=tuple(waiting(f"p-{n}") for n in range(20))))
    assert alerts(decide(hot, known(losses=lost), pooled(limits=Limits(min=3, max=3)))) == [AlertKind.AT_MAX]


def test_a_pool_that_would_shrink_and_cannot_is_rotated_all_the_same():
    """The CPU is idle and the requests are full: nobody can leave before another node comes."""
    full = [pod(f"full-{n}", f"w00{n}", requests=Resources(cpu=1900)) for n in range(3)]
    policy = pooled(limits=Limits(min=1, max=5))
    memory, at = calm_for(5, policy, workers=3, cpu=10.0, memory=10.0, pods=full)
    old = aged(15, 1, 1, at=at, cpu=10.0, memory=10.0, pods=full)
    decision = decide(old, memory, policy)
    assert_wording(only(decision).reason)
    kept = [replace(each, annotations={"node-fleet.io/do-not-disrupt": "true"}) for each in full]
    held = only(decide(replace(old, kubernetes=replace(old.kubernetes, pods=tuple(kept))), memory, policy))
    assert_wording(held.reason)
    assert_wording(held.reason)
    four = aged(15, 1, 1, 0.01, at=at, cpu=10.0, memory=10.0, pods=full)
    state = RotationState(since=NOON, begun_at=at - timedelta(minutes=3), nodes=3)
    pools = {"default": replace(memory.pool("default"), ahead=1, rotation=state)}
    decision = decide(four, replace(memory, pools=pools), policy)
    assert [each.instance for each in opened(decision, Removal)] == ["i-000"]


def test_one_at_a_time_or_as_many_as_the_budget_says():
    old = aged(15, 16, 17, 18)
    assert sum(each.count for each in opened(decide(old, known(), pooled()), Launch)) == 1
    two = pooled(limits=Limits(min=2, max=9), budgets=Budgets(removals=2))
    assert sum(each.count for each in opened(decide(old, known(), two), Launch)) == 2
    state = RotationState(since=NOON, begun_at=after(-120), nodes=4)
    decision = decide(aged(15, 16, 17, 18, 0.01, 0.01), known(ahead=2, rotation=state), two)
    assert [each.instance for each in opened(decision, Removal)] == ["i-003", "i-002"]


def test_a_worker_that_ec2_takes_gets_the_node_that_was_launched_for_an_old_one():
    change = Notice(instance="i-002", kind=NoticeKind.SCHEDULED_CHANGE, at=NOON + 9 * DAY, told_at=NOON)
    state = RotationState(since=NOON, begun_at=after(-120), nodes=3)
    decision = decide(aged(15, 1, 1, 0.01, notices=(change,)), known(ahead=1, rotation=state), pooled())
    assert [each.instance for each in opened(decision, Removal)] == ["i-002"]


BOOTING = {"more": [instance(9, launched_at=after(-30))]}
OWNER = Owner(kind="ReplicaSet", name="shop", uid="rs", replicas=2)
BUDGET = Budget(name="shop", selector=Selector(labels={"app": "shop"}), max_unavailable="0")


@pytest.mark.parametrize(
    ("seen", "memory", "why"),
    [
        (aged(15, 1, 1, commands=(Pause(by="ada"),)), known(), "paused by ada"),
        (aged(15, 1, 1, cpu=Missing("no answer")), known(), "CPU of pool default unknown"),
        (
            aged(15, 1, 1),
            Memory(level=Level.RECOVERY, recovered_at=after(-60), pools={"default": PoolMemory()}),
            "data was missing until",
        ),
        (aged(15, 1, 1, hold="version 4 is refused"), known(), "version 4 is refused"),
        (aged(15, 1, 1, **BOOTING), known(), "1 node is booting"),
        (aged(15, 1, 1), known(last_grow=after(-599)), "nodes came or went a short while ago: 1 s more"),
        (aged(15, 1, 1), known(last_left=after(-1)), "nodes came or went a short while ago: 599 s more"),
        (
            aged(15, 1, 1),
            known(rotation=RotationState(since=NOON, failures=2, failed_at=after(-1199))),
            "no worker could leave for the last new node: it is tried again at 2026-11-16 12:00:01",
        ),
        (aged(15, 1, 1, commands=(Scale(nodes=3, by="ada", until=NOON + DAY),)), known(), "ada asked for 3"),
        (
            aged(15, 1, 1, more=[instance(8)], nodes=[node(8, ready=False, ready_changed_at=after(-30))]),
            known(),
            "w008 is not ready: no shrinking",
        ),
        (aged(15, 1, 1), known(swap=MarketSwap(at=after(-60), on_demand=1)), "a Spot node takes the place"),
        (
            aged(15, 1, 1),
            known(join_trouble=JoinTrouble(failures=2, delay=timedelta(minutes=9), next_probe=after(60))),
            "2 nodes in a row did not join: next probe in 60 s",
        ),
        (aged(15, 1, 1, commands=(Pause(by="ada", scale_down_only=True),)), known(), "scale-down paused by ada"),
    ],
)
def test_nothing_is_begun(seen, memory, why):
    decision = decide(seen, memory, pooled())
    assert opened(decision, Launch) == []
    assert opened(decision, Removal) == []
    assert_wording(only(decision).reason)


def test_nothing_is_begun_while_a_pod_waits():
    # It fits on no node, and the cooldown of the last growth keeps the pool as large as it is.
    big = [waiting("big-1", requests=Resources(cpu=1900)), *[pod(f"a-{n}", f"w00{n}") for n in range(3)]]
    decision = decide(aged(15, 1, 1, pods=big), known(last_grow=after(-200)), pooled())
    assert opened(decision, Launch) == []
    assert_wording(only(decision).reason)


def test_a_node_may_be_tried_for_it_when_joins_have_failed():
    trouble = JoinTrouble(failures=2, delay=timedelta(minutes=1), next_probe=after(-1))
    decision = decide(aged(15, 1, 1), known(join_trouble=trouble), pooled())
    assert opened(decision, Launch), "otherwise nobody would ever find out that nodes join again"


@pytest.mark.parametrize(
    ("pods", "backoffs", "budgets", "why"),
    [
        (
            [pod("a-1", "w000", annotations={"node-fleet.io/do-not-disrupt": "true"})],
            (),
            (),
            "pod default/a-1 is marked as not to be disrupted",
        ),
        ([pod("shop-1", "w000", owner=OWNER), pod("shop-2", "w001", owner=OWNER)], (), (BUDGET,), "shop"),
        ([], (Backoff(node="w000", blocker="x", failures=1, until=after(60)),), (), "could not be drained"),
    ],
)
def test_nothing_is_launched_for_a_worker_that_something_protects(pods, backoffs, budgets, why):
    decision = decide(aged(15, 1, 1, pods=pods, budgets=budgets), known(backoffs=backoffs), pooled())
    assert opened(decision, Launch) == []
    assert why in only(decision).reason
    free = decide(aged(15, 16, 1, pods=pods, budgets=()), known(backoffs=backoffs), pooled())
    assert_wording(only(free).reason)


def test_what_is_begun_ends_though_the_cooldown_and_the_window_forbid_to_begin():
    window = Window(name="night", cron="0 2 * * *", lasting=timedelta(hours=2))
    policy = pooled(replace(AGE, window="night"), windows=(window,))
    state = RotationState(since=NOON, begun_at=after(-120), nodes=3)
    decision = decide(aged(15, 1, 1, 0.01), known(ahead=1, rotation=state, last_left=after(-300)), policy)
    assert [each.instance for each in opened(decision, Removal)] == ["i-000"]


def test_nobody_leaves_when_the_new_node_was_lost():
    state = RotationState(since=NOON, begun_at=after(-120), nodes=3)
    decision = decide(aged(15, 1, 1), known(ahead=1, rotation=state), pooled())
    assert opened(decision, Removal) == []
    assert_wording(only(decision).reason)


def test_an_attempt_is_given_up_and_the_next_one_waits_longer():
    full = [pod(f"full-{n}", f"w00{n}", requests=Resources(cpu=1900)) for n in range(4)]
    state = RotationState(since=after(-9000), begun_at=after(-1200), nodes=3, failures=1)
    decision = decide(aged(15, 1, 1, 0.01, pods=full), known(ahead=1, rotation=state), pooled())
    memory = decision.memory.pool("default")
    assert opened(decision, Removal) == []
    assert (memory.ahead, memory.rotation) == (0, RotationState(since=after(-9000), failures=2, failed_at=NOON))


def test_only_in_its_window_and_an_operator_at_any_time():
    window = Window(name="night", cron="0 2 * * *", lasting=timedelta(hours=2))
    policy = pooled(replace(AGE, window="night"), windows=(window,))
    closed = decide(aged(15, 1, 1), known(), policy)
    assert opened(closed, Launch) == []
    assert_wording(only(closed).reason)
    opening = ActiveWindow(name="night", until=after(3600))
    assert opened(decide(aged(15, 1, 1, windows=(opening,)), known(), policy), Launch)
    for other in (replace(opening, name="lunch"), replace(opening, pool="batch"), replace(opening, until=NOON)):
        assert opened(decide(aged(15, 1, 1, windows=(other,)), known(), policy), Launch) == []
    (launch,) = opened(decide(aged(15, 1, 1, commands=(ORDER,)), known(), policy), Launch)
    assert_wording(launch.reason)


def test_when_the_pool_shrinks_anyway_a_worker_that_is_due_goes_and_needs_no_replacement():
    seen = aged(1, 1, 1, 15, 1)
    smaller = pooled(limits=Limits(min=1, max=4), market=MarketMix(on_demand_base=0, spot_percent=100))
    decision = decide(seen, known(), smaller)
    assert [each.instance for each in opened(decision, Removal)] == ["i-000"], "the market above its share comes first"
    spot = [replace(each, market=Market.SPOT) for each in seen.instances]
    decision = decide(replace(seen, instances=tuple(spot)), known(), smaller)
    assert [each.instance for each in opened(decision, Removal)] == ["i-000"], "then the zone with the most nodes"
    spot[3] = replace(spot[3], zone="a")
    decision = decide(replace(seen, instances=tuple(spot)), known(), smaller)
    assert [(each.instance, each.rotated) for each in opened(decision, Removal)] == [("i-003", False)]


def test_the_base_is_kept_when_an_old_node_of_it_could_leave_without_a_replacement():
    smaller = pooled(limits=Limits(min=1, max=2))
    decision = decide(aged(15, 1, 1), known(), smaller)
    assert [each.instance for each in opened(decision, Removal)] != ["i-000"]


def test_an_operator_is_alerted_when_nobody_could_be_replaced_for_long():
    kept = [pod("a-1", "w000", annotations={"node-fleet.io/do-not-disrupt": "true"})]
    for since, told in ((NOON - 8 * DAY, [AlertKind.ROTATION_BLOCKED]), (NOON - 7.9 * DAY, [])):
        decision = decide(aged(30, 1, 1, pods=kept), known(rotation=RotationState(since=since)), pooled())
        assert alerts(decision) == told
        assert decision.memory.pool("default").rotation.since == since


def test_when_nobody_is_due_any_more_nothing_is_remembered():
    state = RotationState(since=NOON, begun_at=after(-120), nodes=3)
    memory = decide(aged(1, 1, 1), known(ahead=1, rotation=state), pooled()).memory.pool("default")
    assert (memory.ahead, memory.rotation) == (0, None)
