"""How many nodes a chance is worth."""

from array import array
from dataclasses import replace

import pytest

from nodefleet.engine.forecast.forecaster import DEFAULT, Errors, Outlook
from nodefleet.engine.forecast.sizing import Prices, cheapest, saving, size, with_next
from nodefleet.policy.demand import Adaptive

PRICES = Prices(violation=60, least_gain=1, undone=45, least_saving=10)


def outlook(level, soon=None, later=None):
    nothing = tuple(Errors(array("H"), array("h")) for _ in range(3))
    mixed = (level, level if soon is None else soon, level if later is None else later)
    return Outlook(minute=0, mixed=mixed, votes=((1.0, 0, 0),) * 3, errors=nothing, learning=DEFAULT)


def sized(expected, *, capacity, prices=PRICES, **changes):
    return size(expected, capacity=capacity, least=2, most=10, limit=0.85, prices=prices, **changes)


@pytest.mark.parametrize(
    ("price", "nodes"),
    [(0, 2), (5, 3), (60, 5), (1000, 6)],  # chances: 2 → 0.9, 3 → 0.2, 4 → 0.05, 5 → 0.005, 6 → 0
)
def test_the_cheapest_number_of_nodes_weighs_nodes_against_violations(price, nodes):
    chances = [1, 1, 0.9, 0.2, 0.05, 0.005, 0.0, 0.0]
    assert cheapest(chances, 2, 7, replace(PRICES, violation=price)) == nodes


def test_it_grows_in_one_step_to_the_cheapest():
    sizes = sized(outlook(1.9), capacity=3)  # 5.7 busy nodes
    assert sizes.up >= cheapest(sizes.now, 2, 10, PRICES) >= 7
    assert sizes.down is None


def test_it_does_not_grow_for_less_than_the_least_gain():
    expected = outlook(1.25)
    sizes = sized(expected, capacity=3)
    best = cheapest(sizes.now, 2, 10, PRICES)
    gain = 3 + 60 * sizes.now[3] - best - 60 * sizes.now[best]
    assert sizes.up == best > 3
    assert sized(expected, capacity=3, prices=replace(PRICES, least_gain=gain + 0.01)).up is None
    assert sized(expected, capacity=3, prices=replace(PRICES, least_gain=gain - 0.01)).up == best


def test_between_scheduled_decisions_it_only_grows_and_for_more():
    expected = outlook(1.25)
    sizes = sized(expected, capacity=3)
    gain = 3 + 60 * sizes.now[3] - sizes.up - 60 * sizes.now[sizes.up]
    assert (
        sized(expected, capacity=3, requeued=True, prices=replace(PRICES, least_gain_requeued=gain + 0.01)).up is None
    )
    assert sized(expected, capacity=3, requeued=True, prices=replace(PRICES, least_gain_requeued=gain - 0.01)).up
    assert sized(outlook(0.5), capacity=9, requeued=True).down is None


def test_a_saturated_reading_hides_demand():
    assert sized(outlook(1.2), capacity=4, saturated=True).up > (sized(outlook(1.2), capacity=4).up or 4)


def test_it_shrinks_to_the_size_that_saves_most():
    sizes = sized(outlook(0.9), capacity=8)
    assert sizes.up is None
    worth = {n: saving(8 - n, sizes.soon[n], sizes.later[n], outlook(0.9), PRICES) for n in range(2, 8)}
    assert sizes.down == max((n for n in worth if n >= cheapest(sizes.now, 2, 10, PRICES)), key=worth.__getitem__)


def test_it_keeps_nodes_that_are_likely_to_be_missed():
    assert sized(outlook(0.9), capacity=5).down is not None
    assert sized(outlook(0.9, later=1.6), capacity=5).down is None
    assert sized(outlook(0.9, soon=1.5), capacity=5).down is None


def test_it_never_shrinks_below_what_scale_up_would_want():
    sizes = sized(outlook(1.4, soon=0.1, later=0.1), capacity=9)
    assert sizes.down == cheapest(sizes.now, 2, 10, PRICES)


def test_limits_hold():
    assert sized(outlook(5.0), capacity=9).up == 10
    assert sized(outlook(5.0), capacity=10).up is None
    assert sized(outlook(0.0), capacity=2).down is None
    assert sized(outlook(0.0), capacity=9).down == 2


def test_above_max_a_smaller_fleet_is_still_found():
    assert sized(outlook(0.0), capacity=14).down == 2


@pytest.mark.parametrize(
    ("fewer", "soon", "later", "worth"),
    [(1, 0, 0, 20), (3, 0, 0, 60), (1, 0, 1, 7 - 45), (1, 0.1, 0, 20 - 60 * 2 * 0.1)],
)
def test_what_fewer_nodes_are_worth(fewer, soon, later, worth):
    assert saving(fewer, soon, later, outlook(1.0), PRICES) == pytest.approx(worth)


def test_the_prices_of_a_large_pool_grow_with_its_load_and_those_of_a_small_one_stand():
    rules = Adaptive(prices_for=5, price_growth=1.5)
    assert Prices().for_load(0.0, rules) == Prices().for_load(5.0, rules) == Prices()
    large = Prices().for_load(20.0, rules)
    assert (large.violation, large.undone, large.least_gain) == (8 * 65.0, 144.0, 12.0)
    assert (large.least_gain_requeued, large.least_saving) == (14.0, 38.0)
    assert large.violation_minutes == Prices().violation_minutes


def test_the_policy_says_from_which_load_prices_grow():
    rules = Adaptive(prices_for=10, price_growth=1)
    assert Prices().for_load(10.0, rules) == Prices()
    assert Prices().for_load(20.0, rules).violation == 130.0


@pytest.mark.parametrize(
    ("later", "undone", "nodes"),
    [
        ([1, 1, 1, 0.9, 0.3, 0.02, 0.0], 40, 5),  # of 3: 36; 4: 10 + 12; 5: 20 + 0.8; 6: 30
        ([1, 1, 1, 0.9, 0.3, 0.05, 0.0], 0, 3),
        ([1, 1, 1, 0.2, 0.1, 0.05, 0.0], 40, 3),
        ([1, 1, 1, 1.0, 1.0, 1.0, 1.0], 40, 6),  # the largest fleet needs no other scale-up
    ],
)
def test_a_scale_up_takes_along_what_the_next_minutes_will_call_for(later, undone, nodes):
    assert with_next(3, later, 6, 20, replace(PRICES, undone=undone)) == nodes
