"""`strategy: adaptive` in whole decisions."""

from dataclasses import replace
from datetime import timedelta
from functools import cache
from math import pi, sin

import pytest

from nodefleet.engine.decide import decide
from nodefleet.engine.signals.adaptive import consenting, restore
from nodefleet.engine.signals.vote import Abstain, BelowThreshold, ScaleDownOk, SignalVote, Unreadable, WithinThresholds
from nodefleet.model.decision import Action, BoundSource
from nodefleet.model.operations import Removal
from nodefleet.model.serialization import from_plain, to_plain
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.model.state import AdaptiveMemory, Memory, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Adaptive, Announced
from nodefleet.policy.pool import Limits, Pool
from support.builders import after, instance, look, only, waiting
from support.decisions import bought, opened
from support.wording import assert_wording

DAY = 86400
TAUGHT = -7260


def policy(**changes):
    rules = Adaptive(**changes)
    return Policy(pools=(Pool(strategy="adaptive", limits=Limits(min=2, max=10), adaptive=rules),))


POLICY = policy()


def wave(seconds):
    """Busy nodes: two to four over the day, a jump to six for an hour from noon on."""
    return 3 + sin(2 * pi * seconds / DAY) + (2.5 if 0 <= seconds % DAY < 3600 else 0)


def history(until, days=3, load=wave):
    return tuple(Reading(load(at), after(at)) for at in range(int(until) - days * DAY, int(until), 60))


def seen(at=0, *, nodes=4, load=None, cpu=None, past=None, memory=30.0, **changes):
    cpu = 100 * wave(at) / nodes if cpu is None else cpu
    observation = look(nodes, at=after(at), cpu=cpu, memory=memory, pods=(), **changes)
    readings = observation.readings["default"]
    return replace(observation, readings={"default": replace(readings, load=past if past is not None else ())})


def decided(observation, memory=None, rules=POLICY):
    return decide(observation, memory or Memory(), rules)


@cache
def three_days():
    """What is learned of the wave until ten o'clock, and nothing decided yet: learning takes a second."""
    memory = decided(seen(TAUGHT, past=history(TAUGHT))).memory
    learned = AdaptiveMemory(forecaster=memory.pool("default").adaptive.forecaster)
    return Memory(pools={"default": PoolMemory(adaptive=learned)})


def decided_after(at, rules=POLICY, **changes):
    """A decision after three days of the wave, and the minutes since."""
    past = tuple(Reading(wave(each), after(each)) for each in range(TAUGHT, at, 60))
    return decided(seen(at, past=past, **changes), three_days(), rules)


@cache
def taught(at, nodes=4):
    return decided_after(at, nodes=nodes)


def bound(decision, source=BoundSource.ADAPTIVE):
    return [each for each in only(decision).bounds if each.kind is source]


def test_classic_is_what_a_policy_that_names_nothing_gets():
    assert Pool().strategy == "classic"
    assert "adaptive" not in " ".join(only(decide(look(), Memory(), Policy())).votes)


def test_a_jump_of_every_day_is_met_before_it_comes():
    at = -180
    decision = taught(at)
    assert only(decision).action is Action.GROW
    assert only(decision).target >= 6
    assert bought(decision) == only(decision).target - 4
    (floor,) = bound(decision)
    assert_wording(floor.sentence)
    assert f"with {only(decision).target}" in floor.sentence


def test_growth_is_one_step_and_waits_for_no_cooldown():
    memory = taught(-600).memory
    grown = replace(memory, pools={"default": replace(memory.pool("default"), last_grow=after(-200))})
    decision = decided(seen(-120, past=history(-120, days=0)), grown)
    assert only(decision).action is Action.GROW


def test_shrinking_waits_for_two_readings_and_then_takes_as_many_as_are_worth_it():
    first = taught(-7200, nodes=9)
    assert only(first).action is Action.HOLD
    second = decided(seen(-7080, nodes=9), first.memory)
    assert only(second).action is Action.SHRINK
    calm = bound(second, BoundSource.CALM)
    assert calm[0].nodes <= 7
    assert len(opened(second, Removal)) == 1  # budgets.removals


def test_nothing_shrinks_while_a_node_boots():
    memory = taught(-7200, nodes=9).memory
    boots = instance(50, launched_at=after(-7100))
    decision = decided(seen(-7080, nodes=9, instances=[boots]), memory)
    assert only(decision).action is Action.HOLD


def test_memory_between_its_thresholds_blocks_nothing_that_its_projection_allows():
    memory = decided_after(-7200, nodes=9, memory=55.0).memory
    decision = decided(seen(-7080, nodes=9, memory=55.0), memory)
    assert only(decision).action is Action.SHRINK
    full = decided(seen(-7080, nodes=9, memory=64.0), memory)
    assert only(full).action is Action.HOLD
    assert bound(full, BoundSource.PROJECTION)


def test_without_a_cpu_reading_nothing_is_learned_and_nothing_shrinks():
    memory = taught(-7200, nodes=9).memory
    decision = decided(seen(-7080, nodes=9, cpu=Missing("timeout")), memory)
    assert only(decision).action is Action.HOLD
    assert decision.memory.pool("default").adaptive == memory.pool("default").adaptive


def test_pending_pods_stay_a_signal_of_their_own():
    pods = look(4, pods=[waiting("a-1")]).kubernetes
    decision = decided(replace(seen(-7200), kubernetes=pods), three_days())
    assert {"adaptive", "pods", "memory"} <= {vote.partition(":")[0] for vote in only(decision).votes}


def test_what_is_kept_is_enough_to_go_on_and_survives_storage():
    memory = taught(-600).memory
    stored = from_plain(Memory, to_plain(memory))
    assert stored == memory
    kept = decided(seen(-480), memory)
    again = decided(seen(-480), stored)
    assert to_plain(kept) == to_plain(again)


def test_after_a_loss_the_history_gives_the_same_again():
    at = -480
    kept = decided(seen(at), taught(-600).memory)
    learned = restore(kept.memory.pool("default").adaptive.forecaster)
    again = decided(seen(at, past=history(at)))
    relearned = restore(again.memory.pool("default").adaptive.forecaster)
    assert relearned.outlook().mixed == pytest.approx(learned.outlook().mixed, abs=0.02)


def test_minutes_between_scheduled_readings_are_bridged():
    memory = decided(seen(-600, past=history(-600, days=0))).memory
    memory = decided(seen(-480), memory).memory
    forecaster = restore(memory.pool("default").adaptive.forecaster)
    assert list(forecaster.history.values)[-1] == list(forecaster.history.values)[-2]
    assert len(forecaster.history.values) == 3


def test_a_requeued_look_never_shrinks():
    first = taught(-7200, nodes=9)
    requeued = decided(seen(-7190, nodes=9), first.memory)
    assert only(requeued).action is Action.HOLD
    assert requeued.memory.pool("default").adaptive.calm == first.memory.pool("default").adaptive.calm == 1


def test_load_that_rises_towards_the_limit_asks_for_a_fresher_reading():
    past = tuple(Reading(2.4, after(at)) for at in range(-7800, -7200, 60))
    assert_wording(decided(seen(-7200, cpu=78.0, past=past)).look_again)
    assert not decided(seen(-7200, cpu=50.0, past=past)).look_again


def test_headroom_is_kept_beyond_the_forecast():
    at = -180
    plain = only(taught(at)).target
    assert only(decided_after(at, policy(headroom=1))).target == plain + 1


@pytest.mark.parametrize(("price", "minutes"), [("frugal", 25), ("balanced", 65), ("careful", 140), (90.0, 90)])
def test_prices(price, minutes):
    assert Adaptive(price=price).node_minutes == minutes


def test_a_higher_price_never_asks_for_fewer_nodes():
    at = -180
    sizes = [only(decided_after(at, policy(price=price))).target for price in (5.0, 25.0, 65.0, 500.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_an_announced_event_raises_the_floor_in_time():
    sale = Announced(name="sale", at=after(-6000), multiple=3, lasting=timedelta(hours=1))
    rules = policy(events=(sale,))
    early = decided_after(-6000 - 600, rules)
    assert only(early).target <= 5
    close = decided_after(-6000 - 240, rules)
    usual = wave(-6000)
    assert only(close).target == min(10, -(-3 * usual // 0.85))
    assert "sale" in bound(close)[0].sentence
    over = decided_after(-6000 + 3600, rules)
    assert only(over).target <= 5


def test_the_forecast_grades_itself():
    memory = three_days()
    for step in range(20):
        memory = decided(seen(-7200 + 120 * step), memory).memory
    kept = memory.pool("default").adaptive
    assert kept.promised > 0
    assert kept.violated == 0
    assert len(kept.due) <= 3
    (said,) = [vote for vote in only(decided(seen(-4800), memory)).votes if vote.startswith("forecast:")]
    assert_wording(said)
    assert "seen 0" in said


def test_a_violation_is_seen_against_its_promise():
    memory = taught(-7200).memory
    for step in range(1, 4):
        memory = decided(seen(-7200 + 120 * step, cpu=95.0), memory).memory
    assert memory.pool("default").adaptive.violated > 0


def test_going_back_to_classic_forgets():
    memory = taught(-600).memory
    assert decide(seen(-480), memory, Policy()).memory.pool("default").adaptive is None


@pytest.mark.parametrize(
    ("vote", "becomes"),
    [
        (WithinThresholds("x"), ScaleDownOk),
        (BelowThreshold("x"), ScaleDownOk),
        (Unreadable("x"), Unreadable),
        (Abstain("x"), Abstain),
    ],
)
def test_only_an_unhappy_memory_objects(vote, becomes):
    assert isinstance(consenting(SignalVote(signal="memory", vote=vote)).vote, becomes)


def test_a_saturated_pool_at_max_stays_there():
    decision = decided(seen(-7200, nodes=10, cpu=100.0, past=history(-7200, load=lambda _: 9.9)))
    assert only(decision).target == 10


def test_the_forecast_reaches_as_far_as_nodes_took_to_join():
    memory = taught(-7200).memory
    kept = memory.pool("default").adaptive
    slow = replace(kept, joins={"t3.small a": (285, 290, 280)})
    memory = replace(memory, pools={"default": replace(memory.pool("default"), adaptive=slow)})
    decision = decided(seen(-7080), memory)
    assert "at 10:06" in " ".join(only(decision).votes)  # 10:02 and 285 s
    assert_wording(only(decision).votes[-1])


def test_a_requeued_iteration_acts_on_a_fresher_reading_of_the_same_minute():
    first = taught(-7200)
    assert only(first).action is Action.HOLD
    fresher = (Reading(3.9, after(-7180)),)
    second = decided(seen(-7180, cpu=97, past=fresher), first.memory)
    assert only(second).action is Action.GROW
    stale = decided(seen(-7180, cpu=60), first.memory)
    assert only(stale).action is Action.HOLD
    kept, before = (each.memory.pool("default").adaptive.forecaster for each in (second, first))
    assert kept.load == before.load  # a fresher value is for this decision only


def test_the_grade_says_how_much_better_than_the_last_value_the_forecast_is():
    decision = taught(-180)
    kept = decision.memory.pool("default").adaptive
    assert kept.skill > 20
    assert_wording(only(decision).votes[-1])
    new = decided(seen(-180))
    assert new.memory.pool("default").adaptive.skill is None
    assert "better" not in only(new).votes[-1]


def test_a_fleet_that_stays_says_what_one_node_less_would_risk():
    decision = only(taught(4 * 3600, nodes=5))
    assert decision.action is Action.HOLD
    assert_wording(decision.votes[0])
