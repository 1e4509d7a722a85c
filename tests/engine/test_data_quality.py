"""How far an iteration is trusted, and what must not happen meanwhile."""

from dataclasses import replace

import pytest

from nodefleet.engine.data_quality import assess
from nodefleet.engine.target import hold_bounds, safety_bounds
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Rank, Side
from nodefleet.model.fleet import Count
from nodefleet.model.snapshot import Missing, Pause
from nodefleet.model.state import JoinTrouble, Level, Loss, Memory, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool
from support.builders import NOON, after, look
from support.wording import assert_wording

POLICY = Policy()
POOL = Pool(limits=Limits(min=2, max=10))
SEEN_ONCE = Memory()


def level(seen=None, memory=SEEN_ONCE, unreadable=()):
    return assess(seen or look(), memory, POLICY, unreadable)


def test_everything_there_is_normal():
    found = level()
    assert (found.level, found.why, found.alerts, found.recovered_at) == (Level.NORMAL, "", (), None)


def test_missing_readings_degrade_and_people_are_told():
    found = level(unreadable=("CPU of pool default unknown: timeout",))
    assert found.level is Level.DEGRADED
    assert [tell.alert for tell in found.alerts] == [AlertKind.DEGRADED]
    assert_wording(found.alerts[0].text)
    assert found.alerts[0].subjects == ("degraded",)


def test_as_long_as_something_is_missing_it_is_told_so_that_people_can_be_reminded():
    found = level(memory=Memory(level=Level.DEGRADED), unreadable=("x",))
    assert [(tell.alert, tell.subjects) for tell in found.alerts] == [(AlertKind.DEGRADED, ("degraded",))]


@pytest.mark.parametrize("part", ["instances", "kubernetes"])
def test_without_ec2_or_kubernetes_the_level_is_partial(part):
    found = level(replace(look(), **{part: Missing("timeout")}), unreadable=("CPU unknown",))
    assert found.level == Level.PARTIAL
    assert_wording(found.why)


def test_everything_that_is_missing_is_named():
    assert_wording(level(unreadable=("CPU unknown", "memory unknown")).why)
    both = replace(look(), instances=Missing("throttled"), kubernetes=Missing("refused"))
    assert_wording(level(both).why)


def test_what_is_told_concerns_no_single_pool():
    (worse,) = level(unreadable=("x",)).alerts
    (better,) = level(memory=Memory(level=Level.DEGRADED)).alerts
    assert (worse.pool, better.pool) == ("", "")
    assert_wording(better.text)


def test_every_guard_has_the_highest_rank():
    away = replace(look(commands=(Pause(by="ada"),)), kubernetes=Missing("x"))
    trouble = JoinTrouble(failures=9, delay=POOL.health.probe_first, next_probe=after(60))
    unseen = Memory(pools={"default": PoolMemory(join_trouble=trouble)})
    found = [
        *bounds(away, unseen, doubted=("d",)),
        *bounds(away, unseen, count=Count(ready=4, booting=1, occupied=5)),
        *bounds(unreadable=("x",), doubted=("d",)),
        *bounds(memory=replace(unseen, level=Level.RECOVERY, recovered_at=NOON)),
    ]
    assert {bound.source for bound in found} == {"level", "doubt", "pause", "probe", "recovery"}
    assert {bound.rank for bound in found} == {Rank.SAFETY}
    assert all(bound.sentence for bound in found)


def test_getting_worse_is_told_again():
    seen = replace(look(), kubernetes=Missing("timeout"))
    assert [t.alert for t in level(seen, Memory(level=Level.DEGRADED)).alerts] == [AlertKind.DEGRADED]


@pytest.mark.parametrize("before", [Level.DEGRADED, Level.PARTIAL])
def test_what_returns_is_in_recovery_first(before):
    found = level(memory=Memory(level=before))
    assert (found.level, found.recovered_at) == (Level.RECOVERY, NOON)
    assert [tell.alert for tell in found.alerts] == [AlertKind.RECOVERED]


@pytest.mark.parametrize(("ago", "expected"), [(120, Level.NORMAL), (240, Level.NORMAL), (241, Level.RECOVERY)])
def test_a_long_silence_is_recovered_from_as_well(ago, expected):
    """While DynamoDB or the function itself is away nothing is remembered, not even that."""
    found = level(memory=Memory(looked_at=after(-ago)))
    assert found.level is expected
    assert found.recovered_at == (NOON if expected is Level.RECOVERY else None)
    assert found.alerts == ()


@pytest.mark.parametrize(("ago", "expected"), [(1, Level.RECOVERY), (599, Level.RECOVERY), (600, Level.NORMAL)])
def test_recovery_lasts_ten_minutes(ago, expected):
    found = level(memory=Memory(level=Level.RECOVERY, recovered_at=after(-ago)))
    assert found.level is expected
    assert found.recovered_at == (after(-ago) if expected is Level.RECOVERY else None)
    assert found.alerts == ()


def bounds(seen=None, memory=SEEN_ONCE, unreadable=(), count=Count(ready=5, occupied=5), doubted=(), own=None):
    seen = seen or look()
    trust = assess(seen, memory, POLICY, unreadable)
    return safety_bounds(seen, memory, POLICY, POOL, count, trust, doubted, unreadable if own is None else own)


def as_pairs(found):
    return [(bound.side, bound.nodes, bound.source) for bound in found]


def test_normally_there_is_nothing_to_guard():
    assert bounds() == []


def test_partial_holds_in_both_directions():
    found = bounds(replace(look(), kubernetes=Missing("timeout")))
    assert as_pairs(found) == [(Side.FLOOR, 5, "level"), (Side.CEILING, 5, "level")]
    assert_wording(found[0].sentence)
    assert {bound.rank for bound in found} == {Rank.SAFETY}


def test_degraded_may_grow_and_not_shrink():
    found = bounds(unreadable=("CPU unknown",))
    assert as_pairs(found) == [(Side.FLOOR, 5, "level")]
    assert_wording(found[0].sentence)


def test_what_is_missing_of_another_pool_does_not_hold_this_one():
    assert bounds(unreadable=("CPU of pool web unknown",), own=()) == []


def test_recovery_does_not_shrink_and_says_for_how_long():
    found = bounds(memory=Memory(level=Level.RECOVERY, recovered_at=after(-100)))
    assert as_pairs(found) == [(Side.FLOOR, 5, "recovery")]
    assert_wording(found[0].sentence)


def test_doubts_do_not_shrink():
    found = bounds(doubted=("w1 is not ready", "w2 is not ready"))
    assert as_pairs(found) == [(Side.FLOOR, 5, "doubt")]
    assert_wording(found[0].sentence)


@pytest.mark.parametrize(("capacity", "ceiling"), [(5, 5), (1, 2)])
def test_a_pause_holds_but_keeps_min(capacity, ceiling):
    found = bounds(look(commands=(Pause(by="ada"),)), count=Count(ready=capacity, occupied=capacity))
    assert as_pairs(found) == [(Side.FLOOR, capacity, "pause"), (Side.CEILING, ceiling, "pause")]


def test_a_pause_of_the_scale_down_lets_the_pool_grow():
    found = bounds(look(commands=(Pause(by="ada", until=after(60), scale_down_only=True),)))
    assert as_pairs(found) == [(Side.FLOOR, 5, "pause")]
    assert found[0].expires == after(60)
    assert_wording(found[0].sentence)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_pauses_the_one_that_stops_more_counts(order):
    pauses = (Pause(by="ada"), Pause(pool="default", by="bob", until=after(60), scale_down_only=True))[::order]
    found = bounds(look(commands=pauses))
    assert as_pairs(found) == [(Side.FLOOR, 5, "pause"), (Side.CEILING, 5, "pause")]


@pytest.mark.parametrize(
    ("pause", "holds"),
    [
        (Pause(until=after(1)), True),
        (Pause(until=NOON), False),
        (Pause(pool="default"), True),
        (Pause(pool="gpu"), False),
    ],
)
def test_which_pauses_are_in_force(pause, holds):
    assert bool(bounds(look(commands=(pause,)))) is holds


def test_a_pause_says_who_until_when_and_why():
    found = bounds(look(commands=(Pause(by="ada", until=after(3600), reason="upgrade"),)))
    assert_wording(found[0].sentence)
    assert found[1].sentence == found[0].sentence
    assert found[1].expires == found[0].expires == after(3600)
    assert_wording(bounds(look(commands=(Pause(by="ada"),)))[0].sentence)


@pytest.mark.parametrize(
    ("failures", "next_probe", "booting", "ceiling", "sentence"),
    [
        (1, 60, 0, None, ""),
        (2, 60, 0, 5, "2 nodes in a row did not join: next probe in 60 s"),
        (2, 0, 0, 6, "2 nodes in a row did not join: one probe at a time"),
        (3, 0, 1, 5, "3 nodes in a row did not join: waiting for the probe that is booting"),
    ],
)
def test_after_failed_joins_one_probe_at_a_time(failures, next_probe, booting, ceiling, sentence):
    trouble = JoinTrouble(failures=failures, delay=POOL.health.probe_first, next_probe=after(next_probe))
    memory = Memory(pools={"default": PoolMemory(join_trouble=trouble)})
    found = bounds(memory=memory, count=Count(ready=5 - booting, booting=booting, occupied=5))
    assert as_pairs(found) == ([] if ceiling is None else [(Side.CEILING, ceiling, "probe")])
    assert [bound.sentence for bound in found] == ([sentence] if sentence else [])


# ── a policy that cannot be followed ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("capacity", "lost", "least", "most"),
    [(5, 0, 5, 5), (5, 2, 5, 7), (1, 0, 1, 2), (0, 1, 0, 2)],
)
def test_a_held_pool_keeps_its_size_replaces_what_it_loses_and_has_min(capacity, lost, least, most):
    losses = [Loss(worker=f"i-{number}", at=NOON, cause="interrupted") for number in range(lost)]
    low, high = hold_bounds(replace(look(), hold="version 4 is refused"), POOL, capacity, losses)
    assert (low.side, low.nodes, low.rank) == (Side.FLOOR, least, Rank.SAFETY)
    assert (high.side, high.nodes, high.rank) == (Side.CEILING, most, Rank.SAFETY)
    assert_wording(low.sentence)


def test_a_policy_that_can_be_followed_holds_nothing():
    assert hold_bounds(look(), POOL, 5, ()) == []
