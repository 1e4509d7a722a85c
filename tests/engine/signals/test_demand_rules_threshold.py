import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.engine.signals.vote import AboveThreshold, ScaleDownOk, ScaleUp, WithinThresholds
from nodefleet.policy.demand import Quantity, Readings, Sustain, Threshold
from nodefleet.policy.pool import Pool, Steps, Targets
from support.signal_builders import AT_ONCE, ask, ask_along, floor_of, look, words

Q = Quantity


def rule(quantity=Q.QUEUE, **changed):
    return Threshold(**{"name": "shop", "reading": "orders", "quantity": quantity, "sustain": AT_ONCE, **changed})


@pytest.mark.parametrize(
    ("quantity", "limit", "calm"),
    [(Q.QUEUE, 100, 30), (Q.LATENCY, 500, 250), (Q.RATE, 1000, 500), (Q.ERRORS, 5, 2.5)],
)
def test_each_quantity_has_the_pools_target_and_its_share_of_calm(quantity, limit, calm):
    values = (limit + 0.01, limit, calm + 0.01, calm)
    assert words([ask(rule(quantity), {"reading": value}) for value in values]) == [
        "ScaleUp",
        "WithinThresholds",
        "WithinThresholds",
        "ScaleDownOk",
    ]


def test_the_votes_give_their_figures():
    assert ask(rule(), {"reading": 120}).vote == ScaleUp(nodes=4, reason="orders 120 > 100, 1 of 1 reading")
    assert ask(rule(), {"reading": 60}).vote == WithinThresholds("orders 60 between 30 and 100")
    assert ask(rule(), {"reading": 30}).vote == ScaleDownOk(reason="orders 30 ≤ 30, 30 % of 100, 1 of 1 reading")


def test_the_rules_own_limit_and_share_come_before_the_pools():
    own = rule(limit=10, calm_percent=80)
    said = [ask(own, {"reading": value}) for value in (10.1, 10, 8.1, 8)]
    assert words(said) == ["ScaleUp", "WithinThresholds", "WithinThresholds", "ScaleDownOk"]
    assert words([ask(rule(calm_percent=0), {"reading": value}) for value in (0.1, 0)]) == [
        "WithinThresholds",
        "ScaleDownOk",
    ]


def test_the_pools_targets_and_steps_are_used():
    pool = Pool(targets=Targets(queue=10), steps=Steps(up=3, down=2))
    assert floor_of(ask(rule(), {"reading": 11}, look(covered=5), pool=pool)) == 8
    assert ask(rule(), {"reading": 3}, pool=pool).vote == ScaleDownOk(
        reason="orders 3 ≤ 3, 30 % of 10, 1 of 1 reading", down=2
    )


def test_more_than_five_percent_errors_for_two_minutes_ask_for_a_node():
    errors = Threshold(name="errors", reading="error_rate", quantity=Q.ERRORS)
    said = ask_along(errors, [(0, {"reading": 6.5}, 3), (120, {"reading": 5.1}, 3)])
    assert said[0].vote == AboveThreshold("error_rate 6.5 > 5, 1 of 2 readings: waiting for a second")
    assert said[1].vote == ScaleUp(nodes=4, reason="error_rate 5.1 > 5, 2 of 2 readings")


def test_calm_lasts_as_long_as_the_pool_or_the_rule_says():
    rows = [(120 * n, {"reading": 5}, 3) for n in range(5)]
    assert words(ask_along(rule(sustain=None), rows)) == ["BelowThreshold"] * 4 + ["ScaleDownOk"]
    pool = Pool(sustain=Sustain(down=Readings(count=2)))
    assert words(ask_along(rule(sustain=None), rows[:2], pool=pool)) == ["BelowThreshold", "ScaleDownOk"]
    own = rule(sustain=Sustain(down=Readings(count=3)))
    assert words(ask_along(own, rows[:3], pool=pool)) == ["BelowThreshold", "BelowThreshold", "ScaleDownOk"]


def test_what_should_improve_is_the_reading():
    assert ask(rule(), {"reading": 120}).value == 120


def test_a_repeated_look_while_nodes_boot_buys_nothing_more():
    floors = [floor_of(ask(rule(), {"reading": 120}, look(covered=3, capacity=4))) for _ in range(3)]
    assert floors == [4, 4, 4]


@given(st.sampled_from(Q), st.floats(0, 2000), st.floats(0, 2000), st.integers(0, 20))
def test_a_higher_reading_never_gives_a_lower_floor(quantity, one, other, covered):
    low, high = sorted((one, other))
    floors = [floor_of(ask(rule(quantity), {"reading": value}, look(covered=covered))) for value in (low, high)]
    assert floors[0] <= floors[1]
