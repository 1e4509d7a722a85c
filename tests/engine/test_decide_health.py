"""Whole decisions: workers that are lost, unhealthy or orphaned, and looks that cannot be trusted."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import InstanceState, Market
from nodefleet.model.operations import (
    Cleanup,
    Launch,
    Purpose,
    Refusal,
    Removal,
    RemovalReason,
    SendAlert,
    Shortage,
    Uncordon,
)
from nodefleet.model.snapshot import Missing, Scale
from nodefleet.model.state import JoinTrouble, Level, Loss, Memory, PoolMemory
from nodefleet.operations.advance import advance
from nodefleet.operations.launch import record_answer
from nodefleet.operations.progress import apply_feedback
from nodefleet.policy.pool import Limits
from support.builders import NOON, after, instance, look, node, only
from support.decisions import KNOWN, POLICY, QUIET, alerts, bought, calm_look, doom, opened, with_pool
from support.wording import assert_wording

# ── losses, sickness, orphans ────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_node_is_replaced_at_once_without_a_cooldown():
    before = Memory(pools={"default": PoolMemory(members=("i-000", "i-001", "i-002"), last_grow=after(-9))})
    decision = decide(look(3, notices=(doom(2),)), before, POLICY)
    (replacement,) = opened(decision, Launch)
    assert (replacement.purpose, replacement.count) == (Purpose.RESTORE, 1)
    memory = decision.memory.pool("default")
    assert (memory.losses, memory.last_grow, memory.members) == ((), after(-9), ("i-000", "i-001"))
    assert [each.why for each in opened(decision, Removal)] == [RemovalReason.INTERRUPTED]
    assert_wording(only(decision).reason)


def test_a_replacement_that_holds_min_is_on_demand():
    before = Memory(pools={"default": PoolMemory(members=("i-000", "i-001", "i-002"))})
    above_min = decide(look(3, notices=(doom(2),)), before, POLICY)
    holds_min = decide(look(3, notices=(doom(2),)), before, with_pool(limits=Limits(min=3)))
    assert [each.market for each in opened(above_min, Launch)] == [Market.SPOT]
    assert [each.market for each in opened(holds_min, Launch)] == [Market.ON_DEMAND]


def test_so_is_that_of_a_worker_which_no_look_has_seen_before_ec2_takes_it():
    before = Memory(looked_at=after(-120), pools={"default": PoolMemory(members=("i-000", "i-001"))})
    seen = look(2, instances=[instance(7, launched_at=after(-60))], notices=(doom(7),))
    decision = decide(seen, before, with_pool(limits=Limits(min=3)))
    assert [each.market for each in opened(decision, Launch)] == [Market.ON_DEMAND]
    assert only(decision).reason.startswith("Growing 2 → 3: ")
    again = decide(replace(seen, at=after(15)), decision.memory, with_pool(limits=Limits(min=2)))
    assert opened(again, Launch) == []


def test_a_member_that_ec2_does_not_list_any_more_is_not_replaced_beyond_max():
    """Its list may be behind. It shows what ended for an hour."""
    before = Memory(pools={"default": PoolMemory(members=("i-000", "i-001", "i-009"))})
    at_max = with_pool(limits=Limits(min=2, max=3))
    first = decide(look(2), before, at_max)
    assert bought(first) == 0
    assert first.memory.pool("default").vanished == {"i-009": NOON}
    assert bought(decide(look(2, at=after(119)), first.memory, at_max)) == 0
    assert bought(decide(look(2, at=after(120)), first.memory, at_max)) == 1
    assert bought(decide(look(2), before, with_pool(limits=Limits(min=2, max=4)))) == 1


def test_while_ec2_says_nothing_nobody_vanishes():
    before = Memory(pools={"default": PoolMemory(members=("i-009",), vanished={"i-008": after(-60)})})
    decision = decide(replace(look(2), instances=Missing("x")), before, POLICY)
    assert decision.memory.pool("default").vanished == {"i-008": after(-60)}


def test_a_loss_that_cannot_be_replaced_yet_is_not_forgotten():
    trouble = JoinTrouble(failures=3, delay=timedelta(seconds=60), next_probe=after(60))
    before = Memory(pools={"default": PoolMemory(members=("i-000", "i-001", "i-009"), join_trouble=trouble)})
    decision = decide(look(3), before, POLICY)
    assert bought(decision) == 0
    assert decision.memory.pool("default").losses == (Loss(worker="i-009", at=NOON, cause="gone"),)


def test_of_two_losses_that_for_which_max_leaves_no_room_is_not_forgotten():
    before = Memory(pools={"default": PoolMemory(members=("i-000", "i-001", "i-002", "i-003"))})
    decision = decide(look(4, notices=(doom(2), doom(3))), before, with_pool(limits=Limits(min=2, max=3)))
    owed = [loss.worker for loss in decision.memory.pool("default").losses]
    assert (bought(decision), owed) == (1, ["i-003"])


def test_at_max_the_highest_number_that_was_asked_for_is_told():
    asked = Scale(nodes=9, by="ann", until=after(600))
    decision = decide(look(3, pending=1, commands=(asked,)), KNOWN, with_pool(limits=Limits(min=2, max=3)))
    (told,) = [step for step in only(decision).plan if isinstance(step, SendAlert) and step.alert is AlertKind.AT_MAX]
    assert_wording(told.text)


def test_a_loss_that_nobody_misses_is_not_replaced():
    seen, memory = calm_look(5)
    fewer = look(4, at=seen.at, **QUIET)
    decision = decide(fewer, memory, POLICY)
    assert bought(decision) == 0
    assert decision.memory.pool("default").losses == ()


def test_what_ec2_did_not_give_as_spot_is_bought_on_demand_without_waiting():
    """A launch is opened, EC2 answers with nothing, the lesson is learned, and the next iteration decides."""
    first = decide(look(3, pending=1), KNOWN, POLICY)
    (asked,) = opened(first, Launch)
    short = record_answer(asked, [], [Refusal(type=name) for name in asked.types], NOON)
    progress = advance(short, look(3, at=after(5), operations=(short,)), POLICY)
    memory = apply_feedback(first.memory, progress.lessons, POLICY, after(5))
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
    memory = Memory(pools={"default": PoolMemory(join_trouble=trouble)})
    assert bought(decide(look(0), memory, POLICY)) == 1


def test_a_sick_node_is_replaced_and_then_removed():
    sick = {"instances": [instance(3)], "nodes": [node(3, ready=False, ready_changed_at=after(-400))]}
    before = Memory(pools={"default": PoolMemory(members=("i-000", "i-001", "i-002", "i-003"))})
    first = decide(look(3, **sick), before, POLICY)
    assert (bought(first), opened(first, Removal)) == (1, [])
    second = decide(look(range(4, 8), **sick), first.memory, POLICY)
    # the replacement is ready, so the unhealthy one may go
    assert [each.why for each in opened(second, Removal)] == [RemovalReason.UNHEALTHY]


def test_when_many_are_sick_nothing_is_replaced():
    sick = [3, 4, 5]
    before = Memory(pools={"default": PoolMemory(members=tuple(f"i-{n:03}" for n in range(6)))})
    seen = look(
        3,
        instances=[instance(n) for n in sick],
        nodes=[node(n, ready=False, ready_changed_at=after(-400)) for n in sick],
    )
    decision = decide(seen, before, POLICY)
    assert (bought(decision), opened(decision, Removal)) == (0, [])
    assert AlertKind.MANY_UNHEALTHY in alerts(decision)


def test_an_orphaned_node_is_remembered_first_and_cleaned_up_later():
    seen = look(3, nodes=[node(8, ready=False, ready_changed_at=after(-60))])
    first = decide(seen, KNOWN, POLICY)
    assert (opened(first, Cleanup), first.memory.pool("default").suspects) == ([], {"node i-008": NOON})
    second = decide(replace(seen, at=after(120)), first.memory, POLICY)
    assert [each.target for each in opened(second, Cleanup)] == ["w008"]
    assert second.memory.pool("default").suspects == {"node i-008": NOON}


def test_two_looks_must_see_the_same_thing_left_behind():
    """First an instance without a Node, then a Node without an instance: each was seen once."""
    unjoined = [instance(n, launched_at=after(-900 - n), failed=True) for n in (7, 8)]
    first = decide(look(3, instances=unjoined), KNOWN, POLICY)
    assert first.memory.pool("default").suspects == {"instance i-008": NOON}
    ended = instance(8, state=InstanceState.TERMINATED)
    seen = look(3, instances=[unjoined[0], ended], nodes=[node(8, ready=False, ready_changed_at=after(60))])
    second = decide(replace(seen, at=after(120)), first.memory, POLICY)
    assert opened(second, Cleanup) == []
    assert second.memory.pool("default").suspects == {"node i-008": after(120)}


def test_a_list_that_lacks_a_page_neither_loses_nor_buys_nor_removes_anything():
    """EC2 lists none of five workers, Kubernetes shows them all ready."""
    seen, memory = calm_look()
    blank = replace(seen, instances=())
    decision = decide(blank, memory, POLICY)
    assert (only(decision).action, only(decision).count.capacity, only(decision).count.occupied) == (Action.HOLD, 5, 5)
    assert only(decision).plan == ()
    assert decision.memory.pool("default").losses == ()
    assert_wording(only(decision).reason)
    full = decide(replace(look(5, pending=9), instances=()), KNOWN, with_pool(limits=Limits(max=5)))
    assert bought(full) == 0


def test_what_is_no_longer_left_behind_is_no_suspect():
    memory = Memory(pools={"default": PoolMemory(suspects={"node i-008": after(-500)})})
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
    assert [(tell.alert, tell.subjects) for tell in decision.tells] == [(AlertKind.CLEANUP_NEEDS_OPERATOR, ("i-009",))]
    assert_wording(decision.tells[0].text)


def test_what_is_left_of_an_unknown_pool_is_left_to_a_person_too():
    left = node(8, pool="old", ready=False, ready_changed_at=after(-900))
    seen = look(3, instances=[instance(8, pool="old", state=InstanceState.TERMINATED)], nodes=[left])
    tells = decide(seen, KNOWN, POLICY).tells
    assert [(tell.alert, tell.subjects) for tell in tells] == [(AlertKind.CLEANUP_NEEDS_OPERATOR, ("i-008",))]


def test_a_forgotten_cordon_is_undone():
    marked = {"instances": [instance(9)], "nodes": [node(9, cordoned=True, removal="r9")]}
    assert Uncordon("w009", "r9") in only(decide(look(3, **marked), KNOWN, POLICY)).plan


# ── levels ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["instances", "kubernetes"])
def test_without_ec2_or_kubernetes_nothing_is_done_and_nothing_is_learned(part):
    memory = Memory(pools={"default": PoolMemory(members=("i-000",), last_grow=after(-999))})
    decision = decide(replace(look(1, pending=9), **{part: Missing("timeout")}), memory, POLICY)
    assert (decision.level, only(decision).action, only(decision).plan) == (Level.PARTIAL, Action.HOLD, ())
    assert decision.memory.pool("default") == memory.pool("default")
    assert [tell.alert for tell in decision.tells] == [AlertKind.DEGRADED]
    assert "timeout" in only(decision).reason


def test_who_cannot_be_read_is_named_among_the_bounds():
    decision = decide(look(cpu=Missing("timeout"), memory=Missing("timeout")), KNOWN, POLICY)
    assert {"cpu", "memory"} <= {bound.source for bound in only(decision).bounds}
    assert_wording(only(decision).votes[0])


def test_degraded_still_grows_for_pods():
    decision = decide(look(pending=1, cpu=Missing("timeout")), KNOWN, POLICY)
    assert (decision.level, bought(decision)) == (Level.DEGRADED, 1)


def test_a_pool_without_nodes_is_not_degraded():
    assert decide(look(0, cpu=Missing("no data"), memory=Missing("no data")), KNOWN, POLICY).level is Level.NORMAL


def test_nothing_is_launched_before_the_api_server_has_been_seen():
    """A new deployment: no worker yet, and the master is still starting."""
    decision = decide(replace(look(0), kubernetes=Missing("refused")), Memory(), POLICY)
    assert (bought(decision), only(decision).plan) == (0, ())
    assert bought(decide(look(0), decision.memory, POLICY)) == 2


def test_recovery_grows_but_does_not_shrink():
    seen, memory = calm_look()
    down = replace(memory, level=Level.DEGRADED)
    decision = decide(seen, down, POLICY)
    assert (decision.level, only(decision).action) == (Level.RECOVERY, Action.HOLD)
    assert decision.memory.recovered_at == seen.at
    assert bought(decide(look(5, at=seen.at, pending=1), down, POLICY)) == 1


@pytest.mark.parametrize(("seconds", "level"), [(299, Level.NORMAL), (300, Level.DEGRADED)])
def test_workers_that_are_just_ready_need_not_be_readable_yet(seconds, level):
    """The first nodes of a new cluster must not begin their life with an alarm."""
    young = [node(number, ready_changed_at=after(-seconds)) for number in range(2)]
    seen = look(0, instances=[instance(0), instance(1)], nodes=young, cpu=Missing("no series"))
    assert decide(seen, Memory(), POLICY).level is level
