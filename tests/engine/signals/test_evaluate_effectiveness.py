from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.signals.evaluate import judge_scale_ups, mute_votes, record_scale_up
from nodefleet.engine.signals.vote import (
    AboveThreshold,
    Abstain,
    BelowThreshold,
    ScaleDownOk,
    ScaleUp,
    SignalVote,
    Unreadable,
    WithinThresholds,
)
from nodefleet.model.state import ScaleUpRecord
from nodefleet.policy.pool import Benefit, Cooldown, Pool
from support.builders import NOON, after
from support.signal_builders import look
from support.wording import assert_wording

TWO = Benefit(custom=2)
POOL = Pool(benefit=TWO, cooldown=Cooldown(up=timedelta(seconds=300)))
SHOP = "custom:shop"
GRANT = ScaleUpRecord(signal=SHOP, value=1000, at=NOON, nodes=4, strikes=1)  # one more without effect and it is lost


def asks(value, signal=SHOP, nodes=5):
    return SignalVote(signal=signal, vote=ScaleUp(nodes=nodes, reason=f"orders {value} > 100"), value=value)


def is_lost(grant, opinion, seconds=300, covered=4, pool=POOL):
    _, lost = judge_scale_ups([grant], [opinion], look(seconds, covered=covered), pool)
    return lost == {grant.signal}


@pytest.mark.parametrize(
    ("value", "lost"), [(1000, True), (1200, True), (951, True), (950, False), (949, False), (101, False)]
)
def test_a_reading_that_fell_by_less_than_five_percent_did_not_improve(value, lost):
    assert is_lost(GRANT, asks(value)) == lost


def test_what_counts_as_improvement_is_the_policys():
    pool = replace(POOL, benefit=replace(TWO, improvement_percent=50))
    assert is_lost(GRANT, asks(501), pool=pool)
    assert not is_lost(GRANT, asks(500), pool=pool)


@pytest.mark.parametrize(("covered", "lost"), [(3, False), (4, True), (5, True)])
def test_nothing_is_judged_before_the_nodes_are_ready(covered, lost):
    assert is_lost(GRANT, asks(1000), covered=covered) == lost


@pytest.mark.parametrize(("seconds", "lost"), [(299, False), (300, True)])
def test_nothing_is_judged_before_the_nodes_had_time_to_take_load(seconds, lost):
    assert is_lost(GRANT, asks(1000), seconds=seconds) == lost


@pytest.mark.parametrize(
    ("signal", "strikes", "benefit", "lost"),
    [
        (SHOP, 1, Benefit(), False),
        (SHOP, 2, Benefit(), True),
        (SHOP, 0, TWO, False),
        (SHOP, 1, TWO, True),
        (SHOP, 9, Benefit(custom=0), False),
        ("memory", 1, Benefit(), False),
        ("memory", 2, Benefit(), True),
        ("memory", 9, Benefit(memory=0), False),
        ("cpu", 99, Benefit(), False),  # a saturated CPU cannot show that it was helped
        ("cpu", 0, Benefit(cpu=1), True),
        ("pods", 0, Benefit(), True),
        ("pods", 0, Benefit(pods=2), False),
    ],
)
def test_each_kind_of_signal_has_its_own_patience(signal, strikes, benefit, lost):
    grant = replace(GRANT, signal=signal, strikes=strikes)
    assert is_lost(grant, asks(1000, signal), pool=replace(POOL, benefit=benefit)) == lost


def test_looking_often_is_not_growing_often():
    grants = (replace(GRANT, strikes=0),)
    for seconds in range(300, 1200, 10):
        grants, lost = judge_scale_ups(grants, [asks(1000)], look(seconds, covered=4), POOL)
        assert (grants[0].strikes, lost) == (0, frozenset())


@pytest.mark.parametrize(
    "vote", [WithinThresholds("fine"), BelowThreshold("low"), ScaleDownOk(reason="low"), Abstain("off")]
)
def test_a_signal_that_no_longer_asks_has_cleared(vote):
    opinion = SignalVote(signal=SHOP, vote=vote, value=50)
    assert judge_scale_ups([replace(GRANT, lost=True)], [opinion], look(600), POOL) == ((), frozenset())


@pytest.mark.parametrize(
    "vote", [AboveThreshold("high"), Unreadable("unknown: refused"), ScaleUp(nodes=5, reason="high")]
)
def test_a_lost_signal_that_still_asks_or_cannot_be_read_stays_lost(vote):
    lost = replace(GRANT, lost=True)
    opinion = SignalVote(signal=SHOP, vote=vote, value=1)  # a lost vote is not won back by half
    assert judge_scale_ups([lost], [opinion], look(600, covered=4), POOL) == ((lost,), {SHOP})


@pytest.mark.parametrize(
    "opinion",
    [
        SignalVote(signal=SHOP, vote=AboveThreshold("high"), value=1000),
        SignalVote(signal=SHOP, vote=Unreadable("unknown: refused")),
        SignalVote(signal=SHOP, vote=ScaleUp(nodes=5, reason="last good reading")),  # cached: no value
    ],
)
def test_only_a_fresh_reading_above_the_limit_is_judged(opinion):
    assert judge_scale_ups([GRANT], [opinion], look(600, covered=4), POOL) == ((GRANT,), frozenset())


def test_a_signal_that_is_no_longer_configured_is_forgotten():
    assert judge_scale_ups([GRANT], [asks(1000, "cpu")], look(600), POOL) == ((), frozenset())


def test_a_lost_signal_neither_buys_nor_lets_the_fleet_shrink_and_says_why():
    grants, _ = judge_scale_ups([GRANT], [asks(990)], look(300, covered=4), POOL)
    assert grants == (replace(GRANT, strikes=2, lost=True),)
    said = mute_votes([asks(990), asks(80, "cpu")], grants)
    reason = (
        "orders 990 > 100; has no vote until it clears: 2 of its growths in a row changed nothing; "
        "1000 when it got the last of 4 nodes, 990 now"
    )
    assert said == (replace(asks(990), vote=WithinThresholds(reason)), asks(80, "cpu"))


def test_a_lost_signal_is_muted_on_a_cached_reading_too():
    (said,) = mute_votes([replace(asks(990), value=None)], [replace(GRANT, lost=True)])
    assert isinstance(said.vote, WithinThresholds)
    assert_wording(said.vote.reason)


def test_only_floors_of_lost_signals_are_muted():
    waiting = SignalVote(signal=SHOP, vote=AboveThreshold("high"))
    assert mute_votes([waiting], [replace(GRANT, lost=True)]) == (waiting,)
    assert mute_votes([asks(1000)], [GRANT]) == (asks(1000),)


def test_a_growth_is_remembered_with_what_was_read():
    assert record_scale_up([], [asks(1000), asks(90, "memory")], look(60), POOL, nodes=4) == (
        ScaleUpRecord(signal=SHOP, value=1000, at=after(60), nodes=4),
        ScaleUpRecord(signal="memory", value=90, at=after(60), nodes=4),
    )


def test_a_signal_without_a_figure_is_given_nodes_on_trust():
    forecast = SignalVote(signal="predictive", vote=ScaleUp(nodes=4, reason="09:00"))
    assert record_scale_up([], [forecast], look(), POOL, nodes=4) == ()


@pytest.mark.parametrize(
    ("value", "covered", "seconds", "strikes"),
    [
        (1000, 4, 300, 2),  # the growth before changed nothing
        (951, 4, 300, 2),
        (950, 4, 300, 0),  # it helped: the row is broken
        (1000, 3, 300, 1),  # its nodes are not there yet: nothing to say
        (1000, 4, 299, 1),
    ],
)
def test_the_next_growth_writes_down_what_the_last_one_changed(value, covered, seconds, strikes):
    (grant,) = record_scale_up([GRANT], [asks(value)], look(seconds, covered=covered), POOL, nodes=5)
    assert grant == ScaleUpRecord(signal=SHOP, value=value, at=after(seconds), nodes=5, strikes=strikes)


def test_other_grants_and_lost_ones_stay_as_they_are():
    lost = replace(GRANT, lost=True)
    memory = replace(GRANT, signal="memory")
    assert record_scale_up([lost, memory], [asks(1000)], look(600), POOL, nodes=9) == (lost, memory)


def test_a_slow_database_buys_two_nodes_and_no_more():
    grants, nodes, bought = (), 3, 0
    for seconds in range(0, 3600, 120):
        seen = look(seconds, covered=nodes)
        opinion = asks(2500, nodes=nodes + 1)
        grants, _ = judge_scale_ups(grants, [opinion], seen, POOL)
        (said,) = mute_votes([opinion], grants)
        in_cooldown = any(seen.now - grant.at < POOL.cooldown.up for grant in grants)
        if isinstance(said.vote, ScaleUp) and not in_cooldown:
            nodes, bought = nodes + 1, bought + 1
            grants = record_scale_up(grants, [said], seen, POOL, nodes=nodes)
    assert bought == 2
    grants, lost = judge_scale_ups(
        grants, [SignalVote(signal=SHOP, vote=WithinThresholds("orders 60"), value=60)], look(3600), POOL
    )
    assert (grants, lost) == ((), frozenset())
