"""Whole decisions about a pool's own worker that an operator has drained and removed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market, Resources
from nodefleet.model.operations import Launch, Removal, RemovalReason
from nodefleet.model.snapshot import ActiveWindow, Drain, Missing, Pause, Scale
from nodefleet.model.state import Backoff, Memory, PoolMemory, RotationState
from nodefleet.model.workload import Budget, Owner, Selector
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, Limits, Pool, Rotation, WarmPool, Window
from support.builders import NOON, after, instance, look, node, only, pod
from support.decisions import alerts, calm_look, opened
from support.wording import assert_wording

DAY = timedelta(days=1)
ORDER = Drain(instance="i-001", pool="default", at=after(-60), by="ada", reason="noisy disk", until=NOON + DAY)
LIGHT = {"cpu": 40, "memory": 30, "pods": []}
BUSY = {"cpu": 60, "memory": 60, "pods": []}


def pooled(**rules) -> Policy:
    return Policy(pools=(Pool(limits=rules.pop("limits", Limits(min=2, max=5)), **rules),))


def known(**memory) -> Memory:
    return Memory(looked_at=after(-120), pools={"default": PoolMemory(**memory)})


def seen(workers=4, *orders, **changes):
    return look(workers, commands=orders or (ORDER,), **{**LIGHT, **changes})


def leaving(decision):
    return [each.instance for each in opened(decision, Removal)]


# ── a worker that the pool can spare ─────────────────────────────────────────────────────────────────────────────


def test_it_leaves_at_once_and_nothing_takes_its_place():
    decision = decide(seen(), known(), pooled())
    (removed,) = opened(decision, Removal)
    assert (removed.instance, removed.why, removed.rotated) == ("i-001", RemovalReason.VOLUNTARY, False)
    assert opened(decision, Launch) == []
    pool, memory = only(decision), decision.memory.pool("default")
    assert (pool.action, pool.target) == (Action.SHRINK, 3)
    assert (memory.losses, memory.last_shrink) == ((), NOON)
    assert "i-001" not in memory.members
    assert_wording([pool.reason, removed.reason])


def test_without_the_command_nothing_leaves():
    assert leaving(decide(look(4, **LIGHT), known(), pooled())) == []


def test_neither_a_cooldown_nor_the_window_of_rotation_makes_it_wait():
    window = Window(name="night", cron="0 2 * * *", lasting=timedelta(hours=2))
    policy = pooled(rotation=Rotation(window="night"), windows=(window,))
    assert leaving(decide(seen(), known(last_grow=after(-30), last_shrink=after(-10)), policy)) == ["i-001"]


def test_it_goes_before_a_node_that_the_signals_would_choose():
    quiet, memory = calm_look(5, 4, pooled())
    assert leaving(decide(quiet, memory, pooled())) == ["i-002"]
    assert leaving(decide(replace(quiet, commands=(ORDER,)), memory, pooled())) == ["i-001"]


def test_it_is_terminated_and_not_kept_warm():
    on_demand = [instance(n, market=Market.ON_DEMAND) for n in range(4)]
    policy = pooled(warm=WarmPool(size=2))
    decision = decide(seen(0, ORDER, instances=on_demand, nodes=[node(n) for n in range(4)]), known(), policy)
    (removed,) = opened(decision, Removal)
    assert (removed.instance, removed.keeps) == ("i-001", False)


def test_as_many_at_a_time_as_the_budget_says():
    orders = [replace(ORDER, instance=f"i-00{n}") for n in range(3)]
    many = seen(6, *orders, cpu=10, memory=10)
    limits = Limits(min=1, max=9)
    assert len(leaving(decide(many, known(), pooled(limits=limits)))) == 1
    assert len(leaving(decide(many, known(), pooled(limits=limits, budgets=Budgets(removals=2))))) == 2


# ── one that it cannot ───────────────────────────────────────────────────────────────────────────────────────────


FULL = [pod(f"full-{n}", f"w00{n}", requests=Resources(cpu=1900)) for n in range(4)]


@pytest.mark.parametrize(
    ("observed", "policy"),
    [
        (seen(2), pooled()),
        (seen(3, ORDER, Scale(nodes=3, by="bob", until=NOON + DAY, at_least=True)), pooled()),
        (
            seen(3, windows=(ActiveWindow(name="day", until=NOON + DAY, min=3),)),
            pooled(windows=(Window(name="day", cron="0 8 * * *", lasting=DAY / 2, min=3),)),
        ),
        (seen(3, **BUSY), pooled()),
        (seen(4, pods=FULL), pooled()),
    ],
    ids=["min", "an operator's size", "a window", "the load", "no room for its pods"],
)
def test_a_new_worker_comes_first(observed, policy):
    decision = decide(observed, known(), policy)
    assert leaving(decision) == []
    assert [each.count for each in opened(decision, Launch)] == [1]
    assert_wording(only(decision).reason)


def test_the_only_on_demand_worker_is_replaced_by_another_one():
    decision = decide(seen(4, replace(ORDER, instance="i-000")), known(), pooled())
    assert leaving(decision) == []
    assert [each.market for each in opened(decision, Launch)] == [Market.ON_DEMAND]


def test_then_it_leaves_and_the_pool_is_as_large_as_before():
    state = RotationState(since=after(-600), begun_at=after(-120), nodes=2)
    decision = decide(seen(3, **BUSY), known(ahead=1, rotation=state), pooled())
    assert leaving(decision) == ["i-001"]
    assert (only(decision).target, decision.memory.pool("default").ahead) == (2, 0)


def test_at_max_and_min_it_goes_first_and_is_owed_a_worker():
    decision = decide(seen(3), known(), pooled(limits=Limits(min=3, max=3)))
    assert leaving(decision) == ["i-001"]
    assert [loss.worker for loss in decision.memory.pool("default").losses] == ["i-001"]


# ── what makes it wait ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "observed",
    [
        seen(4, ORDER, Pause(by="bob")),
        seen(4, ORDER, Pause(by="bob", until=NOON + DAY, scale_down_only=True)),
        seen(4, cpu=Missing("no answer")),
        seen(4, instances=[instance(9, launched_at=after(-30))]),
        seen(4, hold="version 4 is refused"),
    ],
    ids=["a pause", "a pause of the scale-down", "missing data", "a node boots", "a policy that is refused"],
)
def test_it_waits_and_the_decision_says_for_what(observed):
    decision = decide(observed, known(), pooled())
    assert (leaving(decision), opened(decision, Launch)) == ([], [])
    assert_wording(only(decision).reason)


OWNER = Owner(kind="ReplicaSet", name="shop", uid="rs", replicas=2)
SHOP = [pod("shop-1", "w001", owner=OWNER), pod("shop-2", "w002", owner=OWNER)]
NEVER = Budget(name="shop", selector=Selector(labels={"app": "shop"}), max_unavailable="0")


@pytest.mark.parametrize(
    "changes",
    [
        {"pods": SHOP, "budgets": (NEVER,)},
        {"pods": [pod("a", "w001", annotations={"node-fleet.io/do-not-disrupt": "true"})]},
    ],
    ids=["a budget", "a pod that opted out"],
)
def test_what_protects_it_is_told_and_nothing_is_launched_in_vain(changes):
    decision = decide(seen(4, **changes), known(), pooled())
    assert (leaving(decision), opened(decision, Launch)) == ([], [])
    assert alerts(decision) == [AlertKind.DRAIN_BLOCKED]
    assert_wording([each.text for each in only(decision).plan])


def test_a_cordon_of_an_operator_is_left_alone_and_told():
    cordoned = seen([0, 2, 3], instances=[instance(1)], nodes=[node(1, cordoned=True)])
    decision = decide(cordoned, known(), pooled())
    assert leaving(decision) == []
    assert alerts(decision) == [AlertKind.DRAIN_BLOCKED]
    assert_wording([each.text for each in only(decision).plan])


def test_a_drain_that_timed_out_was_told_and_is_tried_again_later():
    wait = (Backoff(node="w001", blocker="x", failures=1, until=after(60)),)
    decision = decide(seen(), known(backoffs=wait), pooled())
    assert (leaving(decision), alerts(decision)) == ([], [])
    assert leaving(decide(seen(), known(backoffs=(replace(wait[0], until=after(-1)),)), pooled())) == ["i-001"]


# ── for whom it is meant ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "order",
    [replace(ORDER, pool=""), replace(ORDER, pool="batch"), replace(ORDER, until=NOON)],
    ids=["a worker that no pool owned", "another pool's worker", "it is over"],
)
def test_a_command_that_is_not_meant_for_a_worker_of_this_pool_does_nothing(order):
    decision = decide(seen(4, order), known(), pooled())
    assert (leaving(decision), opened(decision, Launch), alerts(decision)) == ([], [], [])


def test_a_command_for_a_pools_worker_does_not_drain_it_when_its_pool_is_gone():
    strangers = [instance(n, pool="batch") for n in (8, 9)]
    nodes = [node(n, pool="batch") for n in (8, 9)]
    orders = (replace(ORDER, instance="i-008", pool="batch"), replace(ORDER, instance="i-009", pool=""))
    decision = decide(seen(3, *orders, instances=strangers, nodes=nodes), known(), pooled())
    assert [step.operation.instance for step in decision.plan] == ["i-009"]
