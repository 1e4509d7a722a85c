"""Spot: taken too often, not to be had, or safe enough for more of it."""

import pytest

from nodefleet.policy.pool import MarketMix, Pool
from nodefleet.reporting.recommendations import spot, wanted_spot_percent
from support.week_builders import SMALL, case, offer, used
from support.wording import assert_wording

MANY = ("t3.small", "t3a.small", "t2.small", "t3.medium")


def week_with(hour, **changes):
    """A week of such hours, whose first six carry the events."""
    return (6, used(hour[0], hour[1], **changes)), (162, used(*hour))


def pool(**market):
    return Pool(market=MarketMix(**market))


@pytest.mark.parametrize(
    ("hour", "mix", "aims"),
    [
        ((2, 1), MarketMix(), 200 / 3),  # of three, two
        ((1, 1), MarketMix(), 50),  # of two, one: the base
        ((7, 3), MarketMix(), 70),
        ((0, 3), MarketMix(spot_percent=0), 0),
        ((3, 0), MarketMix(spot_percent=100, on_demand_base=0), 100),
    ],
)
def test_what_the_policy_aims_at_depends_on_the_size(hour, mix, aims):
    assert wanted_spot_percent(case((168, used(*hour))).week, mix) == pytest.approx(aims)


def test_without_nodes_there_is_nothing_to_aim_at():
    assert wanted_spot_percent(case((168, used(0, 0))).week, MarketMix()) is None


def test_nodes_that_are_taken_often_call_for_more_types():
    found = spot(case(*week_with((2, 1), interruptions=1)))
    assert_wording(found.do)
    assert_wording(found.because)
    assert found.for_service


def test_types_that_would_do_are_named():
    catalog = {
        each.name: each for each in (SMALL, offer("t3.medium", 2, 4, 0.03, 0.012), offer("c9.small", 2, 2, 0.02))
    }
    assert_wording(spot(case(*week_with((2, 1), interruptions=1), catalog=catalog)).do)


def test_with_types_enough_the_share_goes_down():
    found = spot(case(*week_with((2, 1), interruptions=1), pool=pool(types=MANY)))
    assert_wording(found.do)
    assert_wording(found.because)
    assert found.usd_per_month == pytest.approx(-0.2 * 3 * 0.012 * 730)  # a fifth of three nodes


@pytest.mark.parametrize(
    "stretches",
    [
        [(2, used(interruptions=1)), (166, used())],  # two are chance
        week_with((7, 3), interruptions=1),  # six in 1,176 hours
    ],
)
def test_a_few_interruptions_are_what_spot_is(stretches):
    assert spot(case(*stretches)) is None


def test_a_spot_share_of_nothing_cannot_go_lower():
    assert spot(case(*week_with((0, 3), interruptions=1), pool=pool(types=MANY, spot_percent=0))) is None


def test_spot_that_is_not_to_be_had_calls_for_more_types():
    found = spot(case(*week_with((1, 9), no_capacity=1), pool=pool(types=MANY)))
    assert_wording(found.do)
    assert_wording(found.because)
    assert found.usd_per_month == pytest.approx(6 * 0.012 * 730)  # six nodes more
    assert not found.for_service


def test_a_max_price_below_the_market_is_named_as_the_cause():
    found = spot(case((168, used(0, 10)), pool=pool(max_price_usd=0.005)))
    assert_wording(found.do)
    assert_wording(found.because)


@pytest.mark.parametrize(
    ("stretches", "changes"),
    [
        (week_with((6, 4), no_capacity=1), {}),  # ten points: rounding to whole nodes
        ([(2, used(0, 10, no_capacity=1)), (166, used(0, 10))], {}),  # twice is an accident
        ([(168, used(0, 10))], {}),  # nobody knows why
        ([(168, used(0, 10))], {"catalog": {}}),
        ([(168, used(0, 0))], {}),
    ],
)
def test_a_share_without_a_known_cause_is_not_explained(stretches, changes):
    assert spot(case(*stretches, **changes)) is None


def test_a_saving_without_prices_is_not_invented():
    catalog = {"t3.small": offer("t3.small", 2, 2, 0.02)}
    assert spot(case(*week_with((1, 9), no_capacity=1), catalog=catalog)).usd_per_month is None


def test_a_low_share_that_was_never_interrupted_may_rise_to_the_usual_one():
    found = spot(case((168, used(3, 7)), pool=pool(spot_percent=30)))
    assert_wording(found.do)
    assert_wording(found.because)
    assert found.usd_per_month == pytest.approx(4 * 0.012 * 730)


@pytest.mark.parametrize(
    ("stretches", "market"),
    [
        ([(168, used(0, 10))], {"spot_percent": 0}),  # a choice
        ([(168, used(7, 3))], {}),
        ([(100, used(1, 3))], {"spot_percent": 30}),  # too little experience
        ([(1, used(3, 7, interruptions=1)), (167, used(3, 7))], {"spot_percent": 30}),
        ([(3, used(3, 7, no_capacity=1)), (165, used(3, 7))], {"spot_percent": 30}),
        ([(168, used(1, 0))], {"spot_percent": 50, "on_demand_base": 1}),  # the base takes it all
    ],
)
def test_the_share_stays_where_it_is(stretches, market):
    assert spot(case(*stretches, pool=pool(**market))) is None
