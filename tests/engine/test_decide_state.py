"""Whole decisions: what is remembered from one iteration to the next, and whether capacity helped."""

from dataclasses import replace

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import Resources
from nodefleet.model.operations import SendAlert
from nodefleet.model.snapshot import Missing, Reading, Scale
from nodefleet.model.state import HourLoad, Level, Memory, PoolMemory
from nodefleet.policy.demand import Threshold
from nodefleet.policy.pool import Limits
from nodefleet.policy.sources import Prometheus
from support.builders import NOON, after, instance, look, only, waiting
from support.decisions import KNOWN, POLICY, bought, calm_look, filled, pool_memory, with_pool
from support.wording import assert_wording

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


def test_only_classes_of_pods_whose_node_was_bought_are_remembered():
    pods = [waiting(f"web{n}-0", requests=Resources(cpu=1900)) for n in range(9)]
    decision = decide(look(pods=[*pods, *filled(3)]), KNOWN, POLICY)
    assert (bought(decision), [each.purchases for each in pool_memory(decision).pending]) == (2, [1, 1])


# ── what is remembered, and used ─────────────────────────────────────────────────────────────────────────────────


def test_the_profile_is_learned_from_what_is_read():
    (hour,) = pool_memory(decide(look(4, cpu=50), KNOWN, POLICY)).profile
    assert (hour.day, hour.hour, hour.load) == ("2026-11-16", 12, 2.0)


def test_a_busy_hour_to_come_is_met_and_its_floor_lasts_through_it():
    days = tuple(
        HourLoad(day=f"2026-11-{day}", hour=13, load=3.0, samples=9, last=after(-86400)) for day in (12, 13, 14, 15)
    )
    memory = Memory(pools={"default": PoolMemory(profile=days)})
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
    assert_wording(only(decision).reason)


def test_the_last_good_memory_reading_may_uphold_growth_too():
    memory = decide(look(memory=80), KNOWN, POLICY).memory
    memory = decide(look(memory=81, at=after(120)), memory, POLICY).memory
    cooled = replace(memory, pools={"default": replace(memory.pool("default"), last_grow=None)})
    assert bought(decide(look(memory=Missing("timeout"), at=after(200)), cooled, POLICY)) == 1


def test_busy_cpu_makes_waiting_pods_urgent_even_from_the_cache():
    cached = PoolMemory(cached={"cpu": Reading(90, after(-60))})
    memory = Memory(pools={"default": cached})
    assert bought(decide(look(cpu=Missing("x"), pending=1), memory, POLICY)) == 2
    assert bought(decide(look(cpu=90, pending=1), KNOWN, POLICY)) == 2


def test_the_level_is_remembered():
    memory = decide(look(cpu=Missing("timeout")), KNOWN, POLICY).memory
    assert memory.level is Level.DEGRADED
    assert decide(look(at=after(120)), memory, POLICY).memory.level is Level.RECOVERY


def test_when_it_was_looked_is_remembered_whatever_was_seen():
    seen = look(at=after(7))
    assert decide(seen, KNOWN, POLICY).memory.looked_at == after(7)
    assert decide(replace(seen, kubernetes=Missing("timeout")), KNOWN, POLICY).memory.looked_at == after(7)


def test_who_asked_is_remembered_with_what_it_read():
    memory = decide(look(cpu=82), KNOWN, POLICY).memory
    grants = pool_memory(decide(look(cpu=85, at=after(120)), memory, POLICY)).grants
    assert [(each.signal, each.value, each.nodes, each.at) for each in grants] == [("cpu", 85.0, 4, after(120))]


def test_pods_that_are_only_counted_are_remembered_as_a_signal():
    grants = pool_memory(decide(look(pending=2), KNOWN, POLICY)).grants
    assert [(each.signal, each.value) for each in grants] == [("pods", 2.0)]
    one_by_one = pool_memory(decide(look(pods=[waiting("web-1"), *filled(3)]), KNOWN, POLICY))
    assert (one_by_one.grants, [each.bought_at for each in one_by_one.pending]) == ((), [NOON])


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
        told += [step for step in only(decision).plan if isinstance(step, SendAlert)]
        memory, size, at = decision.memory, only(decision).target, at + policy.interval
    (lost,) = told
    assert (lost.alert, lost.pool) == (AlertKind.NO_BENEFIT, "default")
    assert_wording(lost.text)


# ── while the policy cannot be followed ──────────────────────────────────────────────────────────────────────────


def test_what_is_known_of_a_pool_that_the_policy_does_not_show_is_kept_only_while_the_fleet_is_held():
    before = Memory(pools={"gone": PoolMemory(last_grow=NOON)})
    assert "gone" in decide(look(hold="version 4 is refused"), before, POLICY).memory.pools
    assert "gone" not in decide(look(), before, POLICY).memory.pools


def test_a_held_pool_replaces_a_lost_node_that_it_could_spare():
    seen, memory = calm_look(4, looks=6)
    lost = replace(
        seen, instances=seen.instances[:3], kubernetes=replace(seen.kubernetes, nodes=seen.kubernetes.nodes[:3])
    )
    assert only(decide(lost, memory, POLICY)).target == 3
    assert only(decide(replace(lost, hold="version 4 is refused"), memory, POLICY)).target == 4
