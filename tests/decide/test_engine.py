"""Whole decisions: a look, a memory and a policy in, an explained plan out."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import CATALOG, GIB, NOON, after, calm_for, instance, look, node, only, pod, waiting
from nodefleet.decide.engine import decide
from nodefleet.domain.decision import Action, StayReason
from nodefleet.domain.machines import InstanceState, InstanceType, Market, Notice, NoticeKind
from nodefleet.domain.memory import HourLoad, JoinTrouble, Level, Loss, Memory, PodGrant, PoolMemory
from nodefleet.domain.observation import ActiveWindow, Pause, Scale
from nodefleet.domain.operations import (
    AlertKind,
    CancelRemoval,
    Cleanup,
    Launch,
    Open,
    Purpose,
    Removal,
    Shortage,
    Tell,
    Uncordon,
    Why,
)
from nodefleet.domain.policy import (
    Budgets,
    JobDemand,
    Limits,
    MarketMix,
    Policy,
    Pool,
    Predictive,
    Prometheus,
    Steps,
    Threshold,
)
from nodefleet.domain.readings import Missing, PoolReadings, Reading
from nodefleet.domain.resources import Resources
from nodefleet.domain.workload import Budget, Owner, Selector, Volume, VolumeKind
from nodefleet.operations.advance import advance
from nodefleet.operations.launch import answered
from nodefleet.operations.lessons import learn
from operation_builders import launch, removal

POLICY = Policy()
KNOWN = Memory(api_seen=True)
QUIET = {"cpu": 20.0, "memory": 30.0, "pods": ()}


def with_pool(**changes):
    return Policy(pools=(Pool(**changes),))


def opened(decision, kind):
    return [
        step.operation for step in only(decision).plan if isinstance(step, Open) and isinstance(step.operation, kind)
    ]


def alerts(decision):
    return [step.alert for step in only(decision).plan if isinstance(step, Tell)]


def bought(decision):
    return sum(each.count for each in opened(decision, Launch))


def doom(number, at=NOON):
    return Notice(instance=f"i-{number:03}", kind=NoticeKind.SPOT_INTERRUPTION, at=at)


# ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_high_reading_waits_for_a_second():
    decision = decide(look(cpu=82), KNOWN, POLICY)
    assert only(decision).action is Action.HOLD
    assert "CPU 82.0 % > 70 %, 1 of 2 readings: waiting for a second" in only(decision).reason


def test_two_high_readings_an_interval_apart_grow_by_one():
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    decision = decide(look(cpu=85, at=after(120)), memory, POLICY)
    assert (only(decision).action, only(decision).target, bought(decision)) == (Action.GROW, 4, 1)
    assert only(decision).reason == "Growing 3 → 4: CPU 85.0 % > 70 %, 2 of 2 readings"
    assert decision.memory.pool("default").last_grow == after(120)


def test_two_looks_at_one_minute_are_one_reading():
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    assert only(decide(look(cpu=85, at=after(10)), memory, POLICY)).action is Action.HOLD


def test_below_min_all_missing_ones_come_at_once_and_start_no_cooldown():
    decision = decide(look(0), KNOWN, with_pool(limits=Limits(min=4)))
    assert (bought(decision), decision.memory.pool("default").last_grow) == (4, None)
    assert {each.purpose for each in opened(decision, Launch)} == {Purpose.RESTORE}
    assert only(decision).reason == "Growing 0 → 4: min is 4, 0 are there"


def test_min_ignores_a_cooldown():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(last_grow=after(-10))})
    assert bought(decide(look(1), memory, POLICY)) == 1


def test_never_past_max_and_people_are_told():
    decision = decide(look(4, pending=9), KNOWN, with_pool(limits=Limits(max=5)))
    assert (only(decision).target, bought(decision)) == (5, 1)
    assert alerts(decision) == [AlertKind.AT_MAX]
    assert "though pods asks for 6" in only(decision).reason


def test_at_max_it_says_so():
    decision = decide(look(5, pending=1), KNOWN, with_pool(limits=Limits(max=5)))
    assert (only(decision).action, bought(decision)) == (Action.HOLD, 0)
    assert only(decision).reason == (
        "Holding 5: 1 pod unschedulable: 5 + 1 nodes (asks for 6), but max is 5, 5 are there"
    )
    told = next(step for step in only(decision).plan if isinstance(step, Tell))
    assert told.text == (
        "At max: 1 pod unschedulable: 5 + 1 nodes (asks for 6), but max is 5. Consider a higher limits.max."
    )


def test_a_draining_node_leaves_less_room_below_max():
    leaving = removal(instance="i-004", node="w004", terminating=True)
    decision = decide(look(5, pending=9, operations=(leaving,)), KNOWN, with_pool(limits=Limits(max=5)))
    assert bought(decision) == 0


def test_an_interrupted_node_leaves_room_for_its_replacement():
    decision = decide(look(5, notices=(doom(4),)), KNOWN, with_pool(limits=Limits(min=5, max=5)))
    assert bought(decision) == 1


def test_a_cooldown_holds_pods_too_and_says_how_long():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(last_grow=after(-100))})
    decision = decide(look(pending=3), memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert only(decision).reason.endswith("but cooldown: grew 100 s ago, 200 s left")
    assert [each.by for each in only(decision).overruled] == ["cooldown"]


def test_growth_is_not_held_by_an_earlier_shrink():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(last_shrink=after(-10))})
    assert bought(decide(look(pending=3), memory, POLICY)) == 1


def test_pods_that_fit_on_booting_nodes_buy_nothing():
    booting = [instance(8, launched_at=after(-30))]
    decision = decide(look(pods=[waiting("web-1")], instances=booting), KNOWN, POLICY)
    assert bought(decision) == 0
    assert "room for all" in only(decision).reason


def test_a_repeated_look_buys_nothing_twice():
    seen = look(pods=[waiting(f"web-{n}", requests=Resources(cpu=1900)) for n in range(9)])
    full = replace(seen, kubernetes=replace(seen.kubernetes, pods=(*seen.kubernetes.pods, *_fill(3))))
    first = decide(full, KNOWN, POLICY)
    assert bought(first) == 2
    again = decide(replace(full, operations=tuple(opened(first, Launch))), replace(first.memory, pools={}), POLICY)
    assert bought(again) == 0


def _fill(number):
    return [pod(f"full-{n}", f"w{n:03}", requests=Resources(cpu=1900)) for n in range(number)]


def test_pods_that_no_node_can_hold_buy_nothing_and_are_reported():
    giant = waiting("giant-1", requests=Resources(cpu=64000))
    decision = decide(look(pods=[giant]), KNOWN, POLICY)
    assert (bought(decision), only(decision).action) == (0, Action.HOLD)
    (told,) = decision.tells
    assert told.alert is AlertKind.CANNOT_HOLD
    assert "default/giant-1" in told.text


def test_our_own_cordon_is_undone_before_buying():
    leaving = removal(instance="i-002", node="w002")
    decision = decide(look(3, pending=1, operations=(leaving,)), KNOWN, POLICY)
    assert CancelRemoval(operation=leaving.id, reason=only(decision).reason) in only(decision).plan
    assert bought(decision) == 0
    assert decision.memory.pool("default").last_grow == NOON


def test_nothing_can_be_had_so_nothing_grows_and_no_cooldown_starts():
    nothing = tuple(
        Shortage(pool="default", type="t3.small", zone=zone, market=market, until=after(60))
        for zone in "ab"
        for market in Market
    )
    memory = Memory(api_seen=True, pools={"default": PoolMemory(shortages=nothing)})
    decision = decide(look(pending=1), memory, with_pool(market=MarketMix(types=("t3.small",))))
    assert only(decision).action is Action.HOLD
    assert alerts(decision) == [AlertKind.NO_CAPACITY]
    assert decision.memory.pool("default").last_grow is None
    assert "lack capacity" in only(decision).reason


# ── shrinking ────────────────────────────────────────────────────────────────────────────────────────────────────


def calm_look(number=5, looks=4, policy=POLICY, **changes):
    """The fifth quiet look, and the memory of the four before it."""
    memory, at = calm_for(looks, policy, workers=number, **{**QUIET, **changes})
    return look(number, at=at, **{**QUIET, **changes}), memory


def test_five_quiet_readings_let_one_node_go():
    seen, memory = calm_look()
    decision = decide(seen, memory, POLICY)
    assert (only(decision).action, only(decision).target) == (Action.SHRINK, 4)
    (leaving,) = opened(decision, Removal)
    assert (leaving.why, leaving.node) == (Why.VOLUNTARY, "w002")
    assert only(decision).reason == (
        "Shrinking 5 → 4: CPU 20.0 % < 30 %, 5 of 5 readings; memory 30.0 % < 50 %, 5 of 5 readings; "
        "0 pods unschedulable; w002 leaves"
    )
    after_it = decision.memory.pool("default")
    assert (after_it.last_shrink, after_it.last_grow) == (seen.at, None)
    assert "i-002" not in after_it.members


def test_four_quiet_readings_are_not_enough():
    seen, memory = calm_look(looks=3)
    decision = decide(seen, memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert "4 of 5 readings" in only(decision).reason


def test_never_below_min():
    seen, memory = calm_look(2)
    decision = decide(seen, memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert only(decision).reason.endswith("but min is 2, 2 are there")


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu": 30.0},
        {"memory": 50.0},
        {"cpu": Missing("timeout")},
        {"memory": Missing("timeout")},
        {"pods": (waiting("web-1"),)},
    ],
)
def test_any_one_thing_keeps_the_fleet(changes):
    seen, memory = calm_look()
    last = look(5, at=seen.at, **{**QUIET, **changes})
    assert only(decide(last, memory, POLICY)).action is not Action.SHRINK


def test_a_stale_reading_does_not_shrink():
    seen, memory = calm_look()
    last = look(5, at=seen.at, **{**QUIET, "cpu": Reading(20, seen.at - timedelta(seconds=301))})
    decision = decide(last, memory, POLICY)
    assert (only(decision).action, decision.level) == (Action.HOLD, Level.DEGRADED)


def test_shrinking_waits_after_any_scaling():
    seen, memory = calm_look()
    scaled = replace(memory.pool("default"), last_grow=seen.at - timedelta(seconds=599))
    decision = decide(seen, replace(memory, pools={"default": scaled}), POLICY)
    assert only(decision).reason.endswith("but cooldown: scaled 599 s ago, shrinking waits 1 s more")


def test_when_no_node_can_leave_it_says_why():
    seen, memory = calm_look(pods=tuple(pod(f"x-{n}", f"w{n:03}", owner=None) for n in range(5)))
    decision = decide(seen, memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert "4 would do" in only(decision).reason
    assert "but no node can leave (w000:" in only(decision).reason
    assert {stay.reason for stay in only(decision).stays} == {StayReason.UNMANAGED_POD}
    assert decision.memory.pool("default").last_shrink is None


def test_above_max_shrinks_without_waiting():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(last_grow=after(-1))})
    decision = decide(look(6, cpu=50, pods=()), memory, with_pool(limits=Limits(max=5)))
    assert (only(decision).action, only(decision).target) == (Action.SHRINK, 5)
    assert only(decision).reason == "Shrinking 6 → 5: max is 5, 6 are there; w001 leaves"


def test_a_removal_under_way_is_the_only_one():
    seen, memory = calm_look(6)
    busy = replace(seen, operations=(removal(instance="i-005", node="w005"),))
    decision = decide(busy, memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert StayReason.ONE_AT_A_TIME in {stay.reason for stay in only(decision).stays}


# ── people and windows ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_persons_size_is_followed_without_waiting():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(last_grow=after(-1))})
    decision = decide(look(3, commands=(Scale(nodes=7, by="ada", until=after(60)),)), memory, POLICY)
    assert bought(decision) == 4
    assert only(decision).reason == "Growing 3 → 7: ada asked for 7 until 2026-11-16 12:01"


def test_a_persons_smaller_size_removes_one_at_a_time():
    decision = decide(look(5, pods=(), commands=(Scale(nodes=2, by="ada", until=after(60)),)), KNOWN, POLICY)
    assert (only(decision).action, only(decision).target, len(opened(decision, Removal))) == (Action.SHRINK, 4, 1)
    assert "ada asked for 2" in only(decision).reason


def test_a_person_cannot_leave_min_and_max():
    assert bought(decide(look(3, commands=(Scale(nodes=99, until=after(60)),)), KNOWN, POLICY)) == 7
    low = decide(look(2, pods=(), commands=(Scale(nodes=0, until=after(60)),)), KNOWN, POLICY)
    assert only(low).action is Action.HOLD


def test_a_pause_holds_but_min_is_kept():
    paused = {"commands": (Pause(by="ada"),)}
    assert only(decide(look(3, pending=9, **paused), KNOWN, POLICY)).action is Action.HOLD
    assert bought(decide(look(1, pending=9, **paused), KNOWN, POLICY)) == 1
    seen, memory = calm_look()
    assert only(decide(replace(seen, **paused), memory, POLICY)).action is Action.HOLD


def test_a_window_opens_with_all_its_nodes():
    window = ActiveWindow(name="sale", until=after(3600), min=8)
    decision = decide(look(3, windows=(window,)), KNOWN, POLICY)
    assert bought(decision) == 5


# ── losses, sickness, debris ─────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_node_is_replaced_at_once_without_a_cooldown():
    before = Memory(
        api_seen=True, pools={"default": PoolMemory(members=("i-000", "i-001", "i-002"), last_grow=after(-9))}
    )
    decision = decide(look(3, notices=(doom(2),)), before, POLICY)
    (replacement,) = opened(decision, Launch)
    assert (replacement.purpose, replacement.count) == (Purpose.RESTORE, 1)
    memory = decision.memory.pool("default")
    assert (memory.losses, memory.last_grow, memory.members) == ((), after(-9), ("i-000", "i-001"))
    assert [each.why for each in opened(decision, Removal)] == [Why.INTERRUPTED]
    assert only(decision).reason == "Growing 2 → 3: 1 lost: i-002 (interrupted)"


def test_a_replacement_that_holds_min_is_on_demand():
    before = Memory(api_seen=True, pools={"default": PoolMemory(members=("i-000", "i-001", "i-002"))})
    above_min = decide(look(3, notices=(doom(2),)), before, POLICY)
    holds_min = decide(look(3, notices=(doom(2),)), before, with_pool(limits=Limits(min=3)))
    assert [each.market for each in opened(above_min, Launch)] == [Market.SPOT]
    assert [each.market for each in opened(holds_min, Launch)] == [Market.ON_DEMAND]


def test_a_loss_that_cannot_be_replaced_yet_is_not_forgotten():
    trouble = JoinTrouble(failures=3, delay=timedelta(seconds=60), next_probe=after(60))
    before = Memory(
        api_seen=True, pools={"default": PoolMemory(members=("i-000", "i-001", "i-009"), join_trouble=trouble)}
    )
    decision = decide(look(3), before, POLICY)
    assert bought(decision) == 0
    assert decision.memory.pool("default").losses == (Loss(worker="i-009", at=NOON, cause="gone"),)


def test_a_loss_that_nobody_misses_is_not_replaced():
    seen, memory = calm_look(5)
    fewer = look(4, at=seen.at, **QUIET)
    decision = decide(fewer, memory, POLICY)
    assert bought(decision) == 0
    assert decision.memory.pool("default").losses == ()


def test_what_ec2_did_not_give_as_spot_is_bought_on_demand_without_waiting():
    """A launch is opened, EC2 answers with nothing, the lesson is learned, and the next look decides."""
    first = decide(look(3, pending=1), KNOWN, POLICY)
    (asked,) = opened(first, Launch)
    short = answered(asked, [], list(asked.types), NOON)
    progress = advance(short, look(3, at=after(5), operations=(short,)), POLICY)
    memory = learn(first.memory, progress.lessons, POLICY, after(5))
    nothing_in_b = decide(look(3, at=after(10), pending=1), memory, POLICY)
    (again,) = opened(nothing_in_b, Launch)
    assert (asked.zone, asked.market, again.zone, again.market) == ("b", Market.SPOT, "a", Market.SPOT)
    assert nothing_in_b.memory.pool("default").losses == ()
    everywhere = tuple(
        Shortage(pool="default", type=name, zone=zone, market=Market.SPOT, until=after(600))
        for name in asked.types
        for zone in "ab"
    )
    pool = replace(memory.pool("default"), shortages=everywhere)
    fallback = decide(look(3, at=after(10), pending=1), replace(memory, pools={"default": pool}), POLICY)
    assert [each.market for each in opened(fallback, Launch)] == [Market.ON_DEMAND]


def test_one_probe_at_a_time_after_failed_joins():
    trouble = JoinTrouble(failures=2, delay=timedelta(seconds=60), next_probe=NOON)
    memory = Memory(api_seen=True, pools={"default": PoolMemory(join_trouble=trouble)})
    assert bought(decide(look(0), memory, POLICY)) == 1


def test_a_sick_node_is_replaced_and_then_removed():
    sick = {"instances": [instance(3)], "nodes": [node(3, ready=False, ready_changed_at=after(-400))]}
    before = Memory(api_seen=True, pools={"default": PoolMemory(members=("i-000", "i-001", "i-002", "i-003"))})
    first = decide(look(3, **sick), before, POLICY)
    assert (bought(first), opened(first, Removal)) == (1, [])
    second = decide(look(range(4, 8), **sick), first.memory, POLICY)
    # the replacement is ready, so the sick one may go
    assert [each.why for each in opened(second, Removal)] == [Why.SICK]


def test_when_many_are_sick_nothing_is_replaced():
    sick = [3, 4, 5]
    before = Memory(api_seen=True, pools={"default": PoolMemory(members=tuple(f"i-{n:03}" for n in range(6)))})
    seen = look(
        3,
        instances=[instance(n) for n in sick],
        nodes=[node(n, ready=False, ready_changed_at=after(-400)) for n in sick],
    )
    decision = decide(seen, before, POLICY)
    assert (bought(decision), opened(decision, Removal)) == (0, [])
    assert AlertKind.MANY_SICK in alerts(decision)


def test_an_orphaned_node_is_remembered_first_and_cleaned_up_later():
    seen = look(3, nodes=[node(8, ready=False, ready_changed_at=after(-60))])
    first = decide(seen, KNOWN, POLICY)
    assert (opened(first, Cleanup), first.memory.pool("default").suspects) == ([], {"i-008": NOON})
    second = decide(replace(seen, at=after(120)), first.memory, POLICY)
    assert [each.target for each in opened(second, Cleanup)] == ["w008"]
    assert second.memory.pool("default").suspects == {"i-008": NOON}


def test_a_list_that_lacks_a_page_neither_loses_nor_buys_nor_removes_anything():
    """EC2 lists none of five workers, Kubernetes shows them all ready."""
    seen, memory = calm_look()
    blank = replace(seen, instances=())
    decision = decide(blank, memory, POLICY)
    assert (only(decision).action, only(decision).count.capacity, only(decision).count.occupied) == (Action.HOLD, 5, 5)
    assert only(decision).plan == ()
    assert decision.memory.pool("default").losses == ()
    assert "w000 is not listed by EC2" in only(decision).reason
    full = decide(replace(look(5, pending=9), instances=()), KNOWN, with_pool(limits=Limits(max=5)))
    assert bought(full) == 0


def test_what_is_no_longer_left_behind_is_no_suspect():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(suspects={"w008": after(-500)})})
    assert decide(look(3), memory, POLICY).memory.pool("default").suspects == {}


def test_a_worker_of_an_unknown_pool_is_left_to_a_person():
    seen = look(
        3,
        instances=[
            instance(9, pool="old", launched_at=after(-9)),
            instance(8, pool="old", state=InstanceState.TERMINATED),
        ],
    )
    decision = decide(seen, KNOWN, POLICY)
    assert [tell.text for tell in decision.tells] == [
        "No pool of the policy owns i-009 (pool old). Name the pool again, or remove them by hand."
    ]


def test_a_forgotten_cordon_is_undone():
    marked = {"instances": [instance(9)], "nodes": [node(9, cordoned=True, removal="r9")]}
    assert Uncordon("w009", "r9") in only(decide(look(3, **marked), KNOWN, POLICY)).plan


# ── levels ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["instances", "kubernetes"])
def test_without_ec2_or_kubernetes_nothing_is_done_and_nothing_is_learned(part):
    memory = Memory(api_seen=True, pools={"default": PoolMemory(members=("i-000",), last_grow=after(-999))})
    decision = decide(replace(look(1, pending=9), **{part: Missing("timeout")}), memory, POLICY)
    assert (decision.level, only(decision).action, only(decision).plan) == (Level.PARTIAL, Action.HOLD, ())
    assert decision.memory.pool("default") == memory.pool("default")
    assert [tell.alert for tell in decision.tells] == [AlertKind.DEGRADED]
    assert "timeout" in only(decision).reason


def test_degraded_still_grows_for_pods():
    decision = decide(look(pending=1, cpu=Missing("timeout")), KNOWN, POLICY)
    assert (decision.level, bought(decision)) == (Level.DEGRADED, 1)


def test_a_pool_without_nodes_is_not_degraded():
    assert decide(look(0, cpu=Missing("no data"), memory=Missing("no data")), KNOWN, POLICY).level is Level.NORMAL


def test_the_api_server_is_remembered_once_it_answered():
    assert decide(look(), Memory(), POLICY).memory.api_seen is True
    away = replace(look(), kubernetes=Missing("x"))
    assert decide(away, Memory(), POLICY).memory.api_seen is False
    assert decide(away, KNOWN, POLICY).memory.api_seen is True


def test_recovery_grows_but_does_not_shrink():
    seen, memory = calm_look()
    down = replace(memory, level=Level.DEGRADED)
    decision = decide(seen, down, POLICY)
    assert (decision.level, only(decision).action) == (Level.RECOVERY, Action.HOLD)
    assert decision.memory.recovered_at == seen.at
    assert bought(decide(look(5, at=seen.at, pending=1), down, POLICY)) == 1


# ── what helps and what does not ─────────────────────────────────────────────────────────────────────────────────


def test_a_rule_that_nodes_do_not_help_loses_its_vote():
    rule = Threshold(name="slow", reading="p95", limit=500)
    policy = with_pool(custom=(rule,), readings={"p95": Prometheus(query="x")}, limits=Limits(min=2, max=10))
    memory, size, at, sizes = KNOWN, 3, NOON, []
    for _ in range(30):
        decision = decide(look(size, at=at, custom={"p95": 900.0}), memory, policy)
        memory, size, at = decision.memory, only(decision).target, at + policy.interval
        sizes.append(size)
    assert max(sizes) == 6
    assert memory.pool("default").grants[0].lost


def test_a_pod_that_got_its_node_and_still_waits_buys_no_more():
    stuck = waiting("web-1", requests=Resources(cpu=1900))
    grants = (PodGrant(uid="web-1", at=after(-400)),)
    memory = Memory(api_seen=True, pools={"default": PoolMemory(pod_grants=grants)})
    fresh_node = [node(3, ready_changed_at=after(-200))]
    seen = look(3, pods=[stuck, *_fill(4)], instances=[instance(3)], nodes=fresh_node)
    decision = decide(seen, memory, POLICY)
    assert (bought(decision), alerts(decision)) == (0, [AlertKind.NO_BENEFIT])
    assert "1 pods got a node and still wait (web-1)" in only(decision).plan[0].text
    assert alerts(decide(replace(seen, at=after(60)), decision.memory, POLICY)) == []


def test_only_pods_whose_node_was_bought_are_remembered():
    pods = [waiting(f"web-{n}", requests=Resources(cpu=1900)) for n in range(9)]
    decision = decide(look(pods=[*pods, *_fill(3)]), KNOWN, POLICY)
    assert (bought(decision), len(decision.memory.pool("default").pod_grants)) == (2, 2)


# ── more than one pool ───────────────────────────────────────────────────────────────────────────────────────────

JOBS = Pool(
    name="jobs",
    limits=Limits(min=0, max=5),
    custom=(JobDemand(name="runners", jobs="jobs"),),
    readings={"jobs": Prometheus(query="x")},
    predictive=Predictive(enabled=False),
)


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
    assert {step.operation.pool for step in jobs.plan if isinstance(step, Open)} == {"jobs"}


def test_the_memory_of_a_pool_that_is_gone_is_dropped():
    memory = Memory(api_seen=True, pools={"old": PoolMemory(), "default": PoolMemory()})
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
        (look(pending=3), "1 nodes are booting for 3 pods"),
        (look(pending=3, instances=[instance(8, launched_at=after(-9))]), "1 nodes are booting for 3 pods"),
        (look(pods=[waiting("web-1")]), "1 pods are about to find a place"),
        (look(operations=(removal(instance="i-002", node="w002"),)), "1 node is on the way out"),
        (look(operations=(launch(),)), ""),
    ],
)
def test_when_another_look_could_change_something(seen, why):
    assert decide(seen, KNOWN, POLICY).look_again == why


def test_looking_again_does_not_help_in_a_cooldown_or_at_max():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(last_grow=after(-1))})
    assert decide(look(pending=1), memory, POLICY).look_again == ""
    assert decide(look(3, pending=1), KNOWN, with_pool(limits=Limits(max=3))).look_again == ""


def test_a_node_that_begins_to_leave_is_looked_at_again():
    seen, memory = calm_look()
    assert decide(seen, memory, POLICY).look_again == "1 node is on the way out"


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
    assert {stay.reason for stay in only(decision).stays} == {StayReason.BUDGET}


# ── what is remembered, and used ─────────────────────────────────────────────────────────────────────────────────


def pool_memory(decision):
    return decision.memory.pool("default")


def test_the_profile_is_learned_from_what_is_read():
    (hour,) = pool_memory(decide(look(4, cpu=50), KNOWN, POLICY)).profile
    assert (hour.day, hour.hour, hour.load) == ("2026-11-16", 12, 2.0)


def test_a_busy_hour_to_come_is_met_and_its_floor_lasts_through_it():
    days = tuple(
        HourLoad(day=f"2026-11-{day}", hour=13, load=3.0, samples=9, last=after(-86400)) for day in (12, 13, 14, 15)
    )
    memory = Memory(api_seen=True, pools={"default": PoolMemory(profile=days)})
    at = NOON.replace(minute=50)
    decision = decide(look(3, at=at), memory, POLICY)
    assert (only(decision).action, only(decision).target) == (Action.GROW, 4)
    bound = next(each for each in only(decision).bounds if each.source == "predictive")
    assert (bound.nodes, bound.expires) == (4, NOON.replace(hour=14))
    assert pool_memory(decision).forecast.nodes == 4
    later = decide(look(5, at=NOON.replace(hour=13, minute=30)), decision.memory, POLICY)
    assert ("predictive", 4) in {(each.source, each.nodes) for each in only(later).bounds}
    over = decide(look(5, at=NOON.replace(hour=14)), later.memory, POLICY)
    assert "predictive" not in {each.source for each in only(over).bounds}
    assert pool_memory(over).forecast is None


def test_the_last_good_readings_are_remembered_and_may_uphold_growth():
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    assert {name: each.value for name, each in memory.pool("default").cached.items()} == {"cpu": 82.0, "memory": 60.0}
    memory = decide(look(cpu=85, memory=60, at=after(120)), memory, POLICY).memory
    cooled = replace(memory, pools={"default": replace(memory.pool("default"), last_grow=None)})
    decision = decide(look(cpu=Missing("timeout"), at=after(200)), cooled, POLICY)
    assert (decision.level, bought(decision)) == (Level.DEGRADED, 1)
    assert "last good reading" in only(decision).reason


def test_the_last_good_memory_reading_may_uphold_growth_too():
    memory = decide(look(memory=80), KNOWN, POLICY).memory
    memory = decide(look(memory=81, at=after(120)), memory, POLICY).memory
    cooled = replace(memory, pools={"default": replace(memory.pool("default"), last_grow=None)})
    assert bought(decide(look(memory=Missing("timeout"), at=after(200)), cooled, POLICY)) == 1


def test_busy_cpu_makes_waiting_pods_urgent_even_from_the_cache():
    cached = PoolMemory(cached={"cpu": Reading(90, after(-60))})
    memory = Memory(api_seen=True, pools={"default": cached})
    assert bought(decide(look(cpu=Missing("x"), pending=1), memory, POLICY)) == 2
    assert bought(decide(look(cpu=90, pending=1), KNOWN, POLICY)) == 2


def test_the_level_is_remembered():
    memory = decide(look(cpu=Missing("timeout")), KNOWN, POLICY).memory
    assert memory.level is Level.DEGRADED
    assert decide(look(at=after(120)), memory, POLICY).memory.level is Level.RECOVERY


def test_who_asked_is_remembered_with_what_it_read():
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    grants = pool_memory(decide(look(cpu=85, at=after(120)), memory, POLICY)).grants
    assert [(each.signal, each.value, each.nodes, each.at) for each in grants] == [("cpu", 85.0, 4, after(120))]


def test_pods_that_are_only_counted_are_remembered_as_a_signal():
    grants = pool_memory(decide(look(pending=2), KNOWN, POLICY)).grants
    assert [(each.signal, each.value) for each in grants] == [("pods", 2.0)]
    one_by_one = pool_memory(decide(look(pods=[waiting("web-1"), *_fill(3)]), KNOWN, POLICY))
    assert (one_by_one.grants, [each.uid for each in one_by_one.pod_grants]) == ((), ["web-1"])
    assert one_by_one.pod_grants[0].at == NOON


def test_a_floor_that_asks_for_no_more_than_there_is_gets_no_grant():
    booting = [instance(7, launched_at=after(-30)), instance(8, launched_at=after(-30))]
    first = decide(look(cpu=82, instances=booting), KNOWN, POLICY)
    seen = look(cpu=85, at=after(120), instances=booting, commands=(Scale(nodes=7, until=after(900)),))
    decision = decide(seen, first.memory, POLICY)
    assert (bought(decision), pool_memory(decision).grants) == (2, ())


def test_a_signal_that_lost_its_vote_is_reported_once():
    rule = Threshold(name="slow", reading="p95", limit=500)
    policy = with_pool(custom=(rule,), readings={"p95": Prometheus(query="x")})
    memory, size, at, told = KNOWN, 3, NOON, []
    for _ in range(30):
        decision = decide(look(size, at=at, custom={"p95": 900.0}), memory, policy)
        told += [step for step in only(decision).plan if isinstance(step, Tell)]
        memory, size, at = decision.memory, only(decision).target, at + policy.interval
    (lost,) = told
    assert (lost.alert, lost.pool) == (AlertKind.NO_BENEFIT, "default")
    assert lost.text.startswith("custom:slow: p95 900 > 500")


# ── doubts, and what else must reach the decision ────────────────────────────────────────────────────────────────


def with_count(seen, value):
    readings = {"default": replace(seen.readings["default"], nodes=value)}
    return replace(seen, readings=readings)


@pytest.mark.parametrize(("value", "action"), [(5, Action.SHRINK), (4, Action.HOLD), (Missing("timeout"), Action.HOLD)])
def test_sources_that_disagree_do_not_shrink(value, action):
    seen, memory = calm_look()
    counted = Reading(value, seen.at) if isinstance(value, int) else value
    assert only(decide(with_count(seen, counted), memory, POLICY)).action is action


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
    (new,) = opened(decide(look(pods=[tied, *_fill(3)]), KNOWN, POLICY), Launch)
    assert new.zone == "a"  # though b has fewer


def test_a_pod_that_only_a_big_type_holds_gets_that_type():
    big = InstanceType(name="t3.large", resources=Resources(cpu=4000, memory=8 * GIB, pods=30))
    policy = with_pool(market=MarketMix(types=("t3.small", "t3.large")))
    seen = look(pods=[waiting("big-1", requests=Resources(cpu=3000)), *_fill(3)], catalog=(*CATALOG, big))
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
    assert {bound.source for bound in pool.bounds} == {"level", "first-look"}
    assert len(pool.stays) == 3
    assert pool.reason == (
        f"Holding {pool.count.capacity}: Kubernetes unknown: refused: nothing is launched, drained or cleaned up"
    )


def test_what_concerns_the_whole_cluster_names_no_pool():
    giant = waiting("giant-1", requests=Resources(cpu=64000))
    strays = [instance(n, pool="old", launched_at=after(-9)) for n in (8, 9)]
    decision = decide(look(pods=[giant], instances=strays), KNOWN, POLICY)
    assert {(tell.alert, tell.pool) for tell in decision.tells} == {
        (AlertKind.CANNOT_HOLD, ""),
        (AlertKind.CLEANUP_NEEDS_PERSON, ""),
    }
    assert "i-008 (pool old), i-009 (pool old)" in "".join(tell.text for tell in decision.tells)


def test_being_overruled_by_something_else_than_max_is_no_alert():
    memory = Memory(api_seen=True, pools={"default": PoolMemory(last_grow=after(-1))})
    assert alerts(decide(look(pending=1), memory, POLICY)) == []


def test_at_max_names_the_pool():
    decision = decide(look(5, pending=1), KNOWN, with_pool(limits=Limits(max=5)))
    assert [step.pool for step in only(decision).plan if isinstance(step, Tell)] == ["default"]


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
    assert decide(seen, KNOWN, policy).look_again == "1 node is on the way out; 1 node is on the way out"


def test_several_leaving_nodes_are_counted():
    leaving = tuple(removal(id=f"r{n}", instance=f"i-{n:03}", node=f"w{n:03}") for n in (1, 2))
    assert decide(look(4, operations=leaving), KNOWN, POLICY).look_again == "2 nodes are on the way out"
