from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, after
from nodefleet.decide.benefit import Proof, granted, judged, muted
from nodefleet.decide.signals.votes import Abstain, Calm, Floor, Opinion, Settling, Steady, Veto, Waiting
from nodefleet.domain.memory import Grant
from nodefleet.domain.policy import Benefit
from signal_builders import look
from support.wording import assert_wording

TWO = Benefit(custom=2)
PROOF = Proof(benefit=TWO, settle=timedelta(seconds=300))
SHOP = "custom:shop"
GRANT = Grant(signal=SHOP, value=1000, at=NOON, nodes=4, strikes=1)  # one more without effect and it is lost


def asks(value, signal=SHOP, nodes=5):
    return Opinion(signal=signal, vote=Floor(nodes=nodes, reason=f"orders {value} > 100"), value=value)


def is_lost(grant, opinion, seconds=300, covered=4, proof=PROOF):
    _, lost = judged([grant], [opinion], look(seconds, covered=covered), proof)
    return lost == {grant.signal}


@pytest.mark.parametrize(
    ("value", "lost"), [(1000, True), (1200, True), (951, True), (950, False), (949, False), (101, False)]
)
def test_a_reading_that_fell_by_less_than_five_percent_did_not_improve(value, lost):
    assert is_lost(GRANT, asks(value)) == lost


def test_what_counts_as_improvement_is_the_policys():
    proof = replace(PROOF, benefit=replace(TWO, improvement_percent=50))
    assert is_lost(GRANT, asks(501), proof=proof)
    assert not is_lost(GRANT, asks(500), proof=proof)


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
    assert is_lost(grant, asks(1000, signal), proof=replace(PROOF, benefit=benefit)) == lost


def test_looking_often_is_not_growing_often():
    grants = (replace(GRANT, strikes=0),)
    for seconds in range(300, 1200, 10):
        grants, lost = judged(grants, [asks(1000)], look(seconds, covered=4), PROOF)
        assert (grants[0].strikes, lost) == (0, frozenset())


@pytest.mark.parametrize("vote", [Steady("fine"), Settling("low"), Calm(reason="low"), Abstain("off")])
def test_a_signal_that_no_longer_asks_has_cleared(vote):
    opinion = Opinion(signal=SHOP, vote=vote, value=50)
    assert judged([replace(GRANT, lost=True)], [opinion], look(600), PROOF) == ((), frozenset())


@pytest.mark.parametrize("vote", [Waiting("high"), Veto("unknown: refused"), Floor(nodes=5, reason="high")])
def test_a_lost_signal_that_still_asks_or_cannot_be_read_stays_lost(vote):
    lost = replace(GRANT, lost=True)
    opinion = Opinion(signal=SHOP, vote=vote, value=1)  # a lost vote is not won back by half
    assert judged([lost], [opinion], look(600, covered=4), PROOF) == ((lost,), {SHOP})


@pytest.mark.parametrize(
    "opinion",
    [
        Opinion(signal=SHOP, vote=Waiting("high"), value=1000),
        Opinion(signal=SHOP, vote=Veto("unknown: refused")),
        Opinion(signal=SHOP, vote=Floor(nodes=5, reason="last good reading")),  # cached: no value
    ],
)
def test_only_a_fresh_reading_above_the_limit_is_judged(opinion):
    assert judged([GRANT], [opinion], look(600, covered=4), PROOF) == ((GRANT,), frozenset())


def test_a_signal_that_is_no_longer_configured_is_forgotten():
    assert judged([GRANT], [asks(1000, "cpu")], look(600), PROOF) == ((), frozenset())


def test_a_lost_signal_neither_buys_nor_lets_the_fleet_shrink_and_says_why():
    grants, _ = judged([GRANT], [asks(990)], look(300, covered=4), PROOF)
    assert grants == (replace(GRANT, strikes=2, lost=True),)
    said = muted([asks(990), asks(80, "cpu")], grants)
    reason = (
        "orders 990 > 100; has no vote until it clears: 2 of its growths in a row changed nothing; "
        "1000 when it got the last of 4 nodes, 990 now"
    )
    assert said == (replace(asks(990), vote=Steady(reason)), asks(80, "cpu"))


def test_a_lost_signal_is_muted_on_a_cached_reading_too():
    (said,) = muted([replace(asks(990), value=None)], [replace(GRANT, lost=True)])
    assert isinstance(said.vote, Steady)
    assert_wording(said.vote.reason)


def test_only_floors_of_lost_signals_are_muted():
    waiting = Opinion(signal=SHOP, vote=Waiting("high"))
    assert muted([waiting], [replace(GRANT, lost=True)]) == (waiting,)
    assert muted([asks(1000)], [GRANT]) == (asks(1000),)


def test_a_growth_is_remembered_with_what_was_read():
    assert granted([], [asks(1000), asks(90, "memory")], look(60), PROOF, nodes=4) == (
        Grant(signal=SHOP, value=1000, at=after(60), nodes=4),
        Grant(signal="memory", value=90, at=after(60), nodes=4),
    )


def test_a_signal_without_a_figure_is_given_nodes_on_trust():
    forecast = Opinion(signal="predictive", vote=Floor(nodes=4, reason="09:00"))
    assert granted([], [forecast], look(), PROOF, nodes=4) == ()


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
    (grant,) = granted([GRANT], [asks(value)], look(seconds, covered=covered), PROOF, nodes=5)
    assert grant == Grant(signal=SHOP, value=value, at=after(seconds), nodes=5, strikes=strikes)


def test_other_grants_and_lost_ones_stay_as_they_are():
    lost = replace(GRANT, lost=True)
    memory = replace(GRANT, signal="memory")
    assert granted([lost, memory], [asks(1000)], look(600), PROOF, nodes=9) == (lost, memory)


def test_a_slow_database_buys_two_nodes_and_no_more():
    grants, nodes, bought = (), 3, 0
    for seconds in range(0, 3600, 120):
        seen = look(seconds, covered=nodes)
        opinion = asks(2500, nodes=nodes + 1)
        grants, _ = judged(grants, [opinion], seen, PROOF)
        (said,) = muted([opinion], grants)
        in_cooldown = any(seen.now - grant.at < PROOF.settle for grant in grants)
        if isinstance(said.vote, Floor) and not in_cooldown:
            nodes, bought = nodes + 1, bought + 1
            grants = granted(grants, [said], seen, PROOF, nodes=nodes)
    assert bought == 2
    grants, lost = judged(grants, [Opinion(signal=SHOP, vote=Steady("orders 60"), value=60)], look(3600), PROOF)
    assert (grants, lost) == ((), frozenset())
