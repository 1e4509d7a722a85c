"""Whole decisions: when the fleet grows, when it shrinks, and what operators and windows say."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, BoundSource, KeepReason
from nodefleet.model.inventory import Market, Resources
from nodefleet.model.operations import CancelRemoval, Launch, Purpose, Removal, RemovalReason, SendAlert, Shortage
from nodefleet.model.snapshot import ActiveWindow, Missing, Pause, Reading, Scale
from nodefleet.model.state import Level, Memory, PoolMemory
from nodefleet.policy.pool import Limits, MarketMix, Steps
from support.builders import NOON, after, instance, look, node, only, pod, waiting
from support.decisions import KNOWN, POLICY, QUIET, alerts, bought, calm_look, doom, filled, opened, with_pool
from support.operation_builders import removal
from support.wording import assert_wording

# ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_high_reading_waits_for_a_second():
    decision = decide(look(cpu=82), KNOWN, POLICY)
    assert only(decision).action is Action.HOLD
    assert_wording(only(decision).reason)


def test_two_high_readings_an_interval_apart_grow_by_one():
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    decision = decide(look(cpu=85, at=after(120)), memory, POLICY)
    assert (only(decision).action, only(decision).target, bought(decision)) == (Action.GROW, 4, 1)
    assert only(decision).reason == "Growing 3 → 4: CPU 85.0 % > 70 %, 2 of 2 readings"
    assert decision.memory.pool("default").last_grow == after(120)


def test_a_node_that_joined_after_the_reading_is_not_covered_by_it():
    """The floor is a step above those that were measured, so the newcomer is part of the step."""
    newcomer = {"instances": [instance(7)], "nodes": [node(7, ready_changed_at=after(121))]}
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    seen = look(3, cpu=Reading(85, after(120)), memory=Reading(60, after(120)), at=after(125), **newcomer)
    decision = decide(seen, memory, POLICY)
    assert (only(decision).count.capacity, bought(decision)) == (4, 0)


def test_two_looks_at_one_minute_are_one_reading():
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    assert only(decide(look(cpu=85, at=after(10)), memory, POLICY)).action is Action.HOLD


def test_below_min_all_missing_ones_come_at_once_and_start_no_cooldown():
    decision = decide(look(0), KNOWN, with_pool(limits=Limits(min=4)))
    assert (bought(decision), decision.memory.pool("default").last_grow) == (4, None)
    assert {each.purpose for each in opened(decision, Launch)} == {Purpose.RESTORE}
    assert_wording(only(decision).reason)


def test_min_ignores_a_cooldown():
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-10))})
    assert bought(decide(look(1), memory, POLICY)) == 1


def test_never_past_max_and_people_are_told():
    decision = decide(look(4, pending=9), KNOWN, with_pool(limits=Limits(max=5)))
    assert (only(decision).target, bought(decision)) == (5, 1)
    assert alerts(decision) == [AlertKind.AT_MAX]
    assert_wording(only(decision).reason)


def test_at_max_it_says_so():
    decision = decide(look(5, pending=1), KNOWN, with_pool(limits=Limits(max=5)))
    assert (only(decision).action, bought(decision)) == (Action.HOLD, 0)
    assert_wording(only(decision).reason)
    told = next(step for step in only(decision).plan if isinstance(step, SendAlert))
    assert_wording(told.text)


def test_a_draining_node_leaves_less_room_below_max():
    leaving = removal(instance="i-004", node="w004", terminating=True)
    decision = decide(look(5, pending=9, operations=(leaving,)), KNOWN, with_pool(limits=Limits(max=5)))
    assert bought(decision) == 0


def test_an_interrupted_node_leaves_room_for_its_replacement():
    decision = decide(look(5, notices=(doom(4),)), KNOWN, with_pool(limits=Limits(min=5, max=5)))
    assert bought(decision) == 1


def test_a_cooldown_holds_pods_too_and_says_how_long():
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-100))})
    decision = decide(look(pending=3), memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert_wording(only(decision).reason)
    assert [each.by for each in only(decision).overruled] == ["cooldown"]


def test_pods_sized_by_packing_wait_for_no_cooldown_and_get_all_their_nodes():
    policy = with_pool(steps=Steps(pending="packing"))
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-100))})
    pods = [waiting(f"web-{n}", requests=Resources(cpu=1900)) for n in range(5)]
    booting = [instance(8, launched_at=after(-30))]
    assert bought(decide(look(pods=[*pods, *filled(3)]), memory, policy)) == 5
    assert bought(decide(look(pods=[*pods, *filled(3)], instances=booting), memory, policy)) == 4  # one has its node
    assert bought(decide(look(pods=[*pods, *filled(3)]), memory, POLICY)) == 0
    at_max = decide(look(8, pods=[*pods, *filled(8)]), memory, policy)
    assert (bought(at_max), alerts(at_max)) == (2, [AlertKind.AT_MAX])


def test_the_cooldown_goes_on_damping_the_cpu_while_pods_grow():
    policy = with_pool(steps=Steps(up=4, pending="packing"))
    memory = decide(look(cpu=90), KNOWN, policy).memory
    memory = replace(memory, pools={"default": replace(memory.pool("default"), last_grow=after(-100))})
    pods = [waiting("web-1", requests=Resources(cpu=1900)), *filled(3)]
    assert bought(decide(look(cpu=90, pods=pods, at=after(120)), memory, policy)) == 1
    assert bought(decide(look(cpu=90, pods=[], at=after(120)), memory, policy)) == 0


def test_growth_is_not_held_by_an_earlier_shrink():
    memory = Memory(pools={"default": PoolMemory(last_shrink=after(-10))})
    assert bought(decide(look(pending=3), memory, POLICY)) == 1


def test_pods_that_fit_on_booting_nodes_buy_nothing():
    booting = [instance(8, launched_at=after(-30))]
    decision = decide(look(pods=[waiting("web-1")], instances=booting), KNOWN, POLICY)
    assert bought(decision) == 0
    assert_wording(only(decision).reason)


def test_a_repeated_look_buys_nothing_twice():
    seen = look(pods=[waiting(f"web-{n}", requests=Resources(cpu=1900)) for n in range(9)])
    full = replace(seen, kubernetes=replace(seen.kubernetes, pods=(*seen.kubernetes.pods, *filled(3))))
    first = decide(full, KNOWN, POLICY)
    assert bought(first) == 2
    again = decide(replace(full, operations=tuple(opened(first, Launch))), replace(first.memory, pools={}), POLICY)
    assert bought(again) == 0


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
    memory = Memory(pools={"default": PoolMemory(shortages=nothing)})
    decision = decide(look(pending=1), memory, with_pool(market=MarketMix(types=("t3.small",))))
    assert only(decision).action is Action.HOLD
    assert alerts(decision) == [AlertKind.NO_CAPACITY]
    assert decision.memory.pool("default").last_grow is None
    assert_wording(only(decision).reason)


def test_when_less_can_be_had_than_wanted_the_headline_names_what_the_plan_does():
    nothing = tuple(
        Shortage(pool="default", type="t3.small", zone=zone, market=market, until=after(60))
        for zone in "ab"
        for market in Market
    )
    memory = Memory(pools={"default": PoolMemory(shortages=nothing)})
    leaving = removal(instance="i-002", node="w002")
    policy = with_pool(market=MarketMix(types=("t3.small",)), limits=Limits(min=5, max=10))
    found = only(decide(look(3, operations=(leaving,)), memory, policy))
    assert (found.action, found.count.capacity, found.target) == (Action.GROW, 2, 3)
    assert_wording(found.reason)
    assert CancelRemoval(operation=leaving.id, reason=found.reason) in found.plan


# ── shrinking ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_five_quiet_readings_let_one_node_go():
    seen, memory = calm_look()
    decision = decide(seen, memory, POLICY)
    assert (only(decision).action, only(decision).target) == (Action.SHRINK, 4)
    (leaving,) = opened(decision, Removal)
    assert (leaving.why, leaving.node) == (RemovalReason.VOLUNTARY, "w002")
    assert_wording(only(decision).reason)
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
    assert_wording(only(decision).reason)


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
    assert_wording(only(decision).reason)


def test_when_no_node_can_leave_it_says_why():
    seen, memory = calm_look(pods=tuple(pod(f"x-{n}", f"w{n:03}", owner=None) for n in range(5)))
    decision = decide(seen, memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert_wording(only(decision).reason)
    assert_wording(only(decision).reason)
    assert {stay.reason for stay in only(decision).stays} == {KeepReason.UNMANAGED_POD}
    assert decision.memory.pool("default").last_shrink is None


def test_above_max_shrinks_without_waiting():
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-1))})
    decision = decide(look(6, cpu=50, pods=()), memory, with_pool(limits=Limits(max=5)))
    assert (only(decision).action, only(decision).target) == (Action.SHRINK, 5)
    assert_wording(only(decision).reason)


def test_a_removal_under_way_is_the_only_one():
    seen, memory = calm_look(6)
    busy = replace(seen, operations=(removal(instance="i-005", node="w005"),))
    decision = decide(busy, memory, POLICY)
    assert only(decision).action is Action.HOLD
    assert KeepReason.ONE_AT_A_TIME in {stay.reason for stay in only(decision).stays}


# ── operators and windows ────────────────────────────────────────────────────────────────────────────────────────


def test_a_persons_size_is_followed_without_waiting():
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-1))})
    decision = decide(look(3, commands=(Scale(nodes=7, by="ada", until=after(60)),)), memory, POLICY)
    assert bought(decision) == 4
    assert_wording(only(decision).reason)


def test_a_persons_smaller_size_removes_one_at_a_time():
    decision = decide(look(5, pods=(), commands=(Scale(nodes=2, by="ada", until=after(60)),)), KNOWN, POLICY)
    assert (only(decision).action, only(decision).target, len(opened(decision, Removal))) == (Action.SHRINK, 4, 1)
    assert_wording(only(decision).reason)


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


def test_a_fleet_above_max_does_not_ask_for_a_higher_one():
    """Whoever would rather keep what is there does not lack anything."""
    decision = decide(look(12, cpu=50), KNOWN, with_pool(limits=Limits(min=2, max=10)))
    assert {bound.source: bound.nodes for bound in only(decision).bounds}[BoundSource.MAX] == 10
    assert AlertKind.AT_MAX not in alerts(decision)


def test_pods_that_wait_although_new_nodes_are_ready_buy_more_before_those_are_measured():
    """The readings are older than the two nodes; the pods are seen now."""
    young = [node(number, ready_changed_at=after(-20)) for number in (0, 1)]
    seen = look(
        0,
        instances=[instance(0), instance(1)],
        nodes=young,
        pods=[waiting("web-1", requests=Resources(cpu=1500)), *filled(2)],
        cpu=Reading(50.0, after(-60)),
        memory=Reading(50.0, after(-60)),
    )
    decision = decide(seen, Memory(), POLICY)
    assert (only(decision).action, only(decision).target) == (Action.GROW, 3)
