"""Whole decisions: pools, looking again, and that every part reaches the decision."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, KeepReason
from nodefleet.model.inventory import InstanceState, InstanceType, Resources
from nodefleet.model.operations import Create, Launch, Removal, SendAlert
from nodefleet.model.snapshot import Missing, PoolReadings, Reading, Scale
from nodefleet.model.state import Level, Memory, PoolMemory
from nodefleet.model.workload import Budget, Owner, Selector, Volume, VolumeKind
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import JobDemand
from nodefleet.policy.pool import Budgets, Limits, MarketMix, Pool, Steps
from nodefleet.policy.sources import Prometheus
from support.builders import CATALOG, GIB, NOON, after, instance, look, node, only, pod, waiting
from support.decisions import JOBS, KNOWN, POLICY, alerts, bought, calm_look, doom, filled, opened, with_pool
from support.operation_builders import launch, removal
from support.wording import assert_wording

# ── more than one pool ───────────────────────────────────────────────────────────────────────────────────────────


def test_each_pool_decides_for_itself():
    policy = Policy(pools=(Pool(), JOBS))
    seen = look(3)
    seen = replace(seen, readings={**seen.readings, "jobs": PoolReadings(custom={"jobs": Reading(4, NOON)})})
    memory = decide(seen, KNOWN, policy).memory
    second = replace(
        look(3, at=after(120)),
        readings={**seen.readings, "jobs": PoolReadings(custom={"jobs": Reading(4, after(120))})},
        targets=(*seen.targets, replace(seen.targets[0], pool="jobs")),
    )
    default, jobs = decide(second, memory, policy).pools
    assert (default.action, jobs.action, jobs.target) == (Action.HOLD, Action.GROW, 2)
    assert {step.operation.pool for step in jobs.plan if isinstance(step, Create)} == {"jobs"}


def test_the_memory_of_a_pool_that_is_gone_is_dropped():
    memory = Memory(pools={"old": PoolMemory(), "default": PoolMemory()})
    assert set(decide(look(), memory, POLICY).memory.pools) == {"default"}


def test_dry_run_decides_the_same_and_is_marked():
    wet, dry = (only(decide(look(pending=1), KNOWN, with_pool(dry_run=flag))) for flag in (False, True))
    assert replace(dry, dry_run=False) == wet
    assert (wet.dry_run, dry.dry_run) == (False, True)


# ── looking again ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (look(), ""),
        (look(pending=3), "1 node is booting for 3 pods"),
        (look(pending=3, instances=[instance(8, launched_at=after(-9))]), "1 node is booting for 3 pods"),
        (look(pods=[waiting("web-1")]), "1 pod is about to find a place"),
        (look(operations=(removal(instance="i-002", node="w002"),)), "1 node is on the way out"),
        (look(operations=(launch(),)), ""),
    ],
)
def test_when_another_look_could_change_something(seen, why):
    assert decide(seen, KNOWN, POLICY).look_again == why


def test_looking_again_does_not_help_in_a_cooldown_or_at_max():
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-1))})
    assert decide(look(pending=1), memory, POLICY).look_again == ""
    assert decide(look(3, pending=1), KNOWN, with_pool(limits=Limits(max=3))).look_again == ""


def test_a_node_that_begins_to_leave_is_looked_at_again():
    seen, memory = calm_look()
    assert_wording(decide(seen, memory, POLICY).look_again)


def test_steps_are_figures_of_the_policy():
    policy = with_pool(steps=Steps(up=3, urgent=4, down=1), limits=Limits(max=20), budgets=Budgets())
    assert bought(decide(look(pending=1), KNOWN, policy)) == 3
    assert bought(decide(look(pending=6), KNOWN, policy)) == 4


def test_a_budget_that_allows_nothing_keeps_all_of_its_nodes():
    budget = Budget(name="web", selector=Selector(labels={"app": "web"}), max_unavailable="0")
    four = Owner(kind="ReplicaSet", name="web", uid="rs", replicas=4)
    pods = tuple(pod(f"web-{n}", f"w{n:03}", owner=four) for n in range(4))
    seen, memory = calm_look(4, pods=pods, budgets=(budget,))
    decision = decide(seen, memory, POLICY)
    assert {stay.reason for stay in only(decision).stays} == {KeepReason.BUDGET}


# ── doubts, and what else must reach the decision ────────────────────────────────────────────────────────────────


def with_count(seen, value):
    readings = {"default": replace(seen.readings["default"], nodes=value)}
    return replace(seen, readings=readings)


@pytest.mark.parametrize(("value", "action"), [(5, Action.SHRINK), (4, Action.HOLD), (Missing("timeout"), Action.HOLD)])
def test_sources_that_disagree_do_not_shrink(value, action):
    seen, memory = calm_look()
    counted = Reading(value, seen.at) if isinstance(value, int) else value
    assert only(decide(with_count(seen, counted), memory, POLICY)).action is action


def test_an_operators_command_does_not_shrink_while_the_cpu_of_an_interrupted_node_is_missing():
    """The other node is too young to be measured, but the interrupted one was: its figures should be there."""
    young = node(1, ready_changed_at=after(-60))
    new, away = instance(1, launched_at=after(-200)), Missing("query timed out")
    seen = look(1, instances=[new], nodes=[young], pods=(), cpu=away)
    seen = replace(seen, notices=(doom(0),), commands=(Scale(nodes=0, until=after(600)),))
    policy = with_pool(limits=Limits(min=0))
    assert only(decide(seen, KNOWN, policy)).action is Action.HOLD
    measured = replace(seen, readings=look(2).readings)
    assert only(decide(measured, KNOWN, policy)).action is Action.SHRINK


def test_a_stale_worker_count_does_not_shrink():
    seen, memory = calm_look()
    stale = Reading(5, seen.at - timedelta(seconds=301))
    assert only(decide(with_count(seen, stale), memory, POLICY)).action is Action.HOLD


def test_how_far_counts_may_differ_is_the_policys():
    seen, memory = calm_look()
    tolerant = replace(POLICY, trust=replace(POLICY.trust, count_tolerance=1))
    assert only(decide(with_count(seen, Reading(4, seen.at)), memory, tolerant)).action is Action.SHRINK


def test_rules_may_give_back_more_than_one_up_to_the_step():
    rule = JobDemand(name="runners", jobs="jobs", step_down=3)
    policy = with_pool(
        custom=(rule,), readings={"jobs": Prometheus(query="x")}, steps=Steps(down=2), budgets=Budgets(removals=5)
    )
    seen, memory = calm_look(8, policy=policy, custom={"jobs": 0.0})
    decision = decide(seen, memory, policy)
    assert (only(decision).target, len(opened(decision, Removal))) == (6, 2)
    assert {each.reason for each in opened(decision, Removal)} == {only(decision).reason}


def test_a_pod_that_is_bound_to_a_zone_gets_its_node_there():
    tied = waiting("db-1", volumes=(Volume(kind=VolumeKind.CLAIM, zones=("a",)),), requests=Resources(cpu=1900))
    (new,) = opened(decide(look(pods=[tied, *filled(3)]), KNOWN, POLICY), Launch)
    assert new.zone == "a"  # though b has fewer


def test_a_pod_that_only_a_big_type_holds_gets_that_type():
    big = InstanceType(name="t3.large", resources=Resources(cpu=4000, memory=8 * GIB, pods=30))
    policy = with_pool(market=MarketMix(types=("t3.small", "t3.large")))
    seen = look(pods=[waiting("big-1", requests=Resources(cpu=3000)), *filled(3)], catalog=(*CATALOG, big))
    (new,) = opened(decide(seen, KNOWN, policy), Launch)
    assert new.types == ("t3.large",)


def test_a_decision_carries_everything_it_rests_on():
    decision = decide(look(3, pending=1, cluster="shop"), KNOWN, POLICY)
    pool = only(decision)
    assert (decision.at, decision.cluster, pool.pool) == (NOON, "shop", "default")
    assert (pool.count.ready, pool.count.occupied) == (3, 3)
    assert [vote.split(":")[0] for vote in pool.votes] == ["cpu", "memory", "pods", "predictive"]
    assert {"cpu", "memory", "keep", "pods", "step", "min", "max"} == {bound.source for bound in pool.bounds}


def test_a_blind_decision_carries_what_it_can():
    seen = replace(look(3), kubernetes=Missing("refused"))
    decision = decide(seen, Memory(), with_pool(dry_run=True))
    pool = only(decision)
    assert (pool.pool, pool.dry_run, pool.target) == ("default", True, pool.count.capacity)
    assert {bound.source for bound in pool.bounds} == {"level"}
    assert len(pool.stays) == 3
    assert_wording(pool.reason)


def test_what_concerns_the_whole_cluster_names_no_pool():
    giant = waiting("giant-1", requests=Resources(cpu=64000))
    strays = [instance(n, pool="old", launched_at=after(-9)) for n in (8, 9)]
    decision = decide(look(pods=[giant], instances=strays), KNOWN, POLICY)
    assert {(tell.alert, tell.pool) for tell in decision.tells} == {
        (AlertKind.CANNOT_HOLD, ""),
        (AlertKind.CLEANUP_NEEDS_OPERATOR, ""),
    }
    assert_wording("".join(tell.text for tell in decision.tells))


def test_being_overruled_by_something_else_than_max_is_no_alert():
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-1))})
    assert alerts(decide(look(pending=1), memory, POLICY)) == []


def test_at_max_names_the_pool():
    decision = decide(look(5, pending=1), KNOWN, with_pool(limits=Limits(max=5)))
    assert [step.pool for step in only(decision).plan if isinstance(step, SendAlert)] == ["default"]


def test_a_pool_that_nothing_was_read_of_is_decided_all_the_same():
    seen = replace(look(0), readings={})
    assert bought(decide(seen, KNOWN, POLICY)) == 2


def test_every_pool_may_have_its_own_reason_to_look_again():
    policy = Policy(pools=(Pool(), replace(JOBS, name="jobs")))
    leaving = (
        removal(id="a", instance="i-002", node="w002"),
        removal(id="b", pool="jobs", instance="i-009", node="w009"),
    )
    seen = look(3, instances=[instance(9, pool="jobs")], nodes=[node(9, pool="jobs")], operations=leaving)
    assert_wording(decide(seen, KNOWN, policy).look_again)


def test_several_leaving_nodes_are_counted():
    leaving = tuple(removal(id=f"r{n}", instance=f"i-{n:03}", node=f"w{n:03}") for n in (1, 2))
    assert_wording(decide(look(4, operations=leaving), KNOWN, POLICY).look_again)


@pytest.mark.parametrize("state", [InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED])
def test_a_pool_whose_last_instance_has_ended_is_not_unreadable(state):
    """Its Node seems ready for a while, and its exporter is gone: that is no fault, and holds no other pool back."""
    away = Missing("the query gave no series")
    seen = look(0, instances=[instance(1, state=state)], nodes=[node(1)], pods=(), cpu=away)
    decision = decide(seen, KNOWN, with_pool(limits=Limits(min=0)))
    assert (decision.level, alerts(decision)) == (Level.NORMAL, [])
    runs = decide(replace(seen, instances=(instance(1),)), KNOWN, with_pool(limits=Limits(min=0)))
    assert runs.level is Level.DEGRADED
