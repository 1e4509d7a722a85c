"""A fixed fleet instead: what it would have cost, and when nobody can say."""

from dataclasses import replace

import pytest

from nodefleet.model.snapshot import Missing
from nodefleet.reporting.review import USUAL
from nodefleet.reporting.usage import collect_hours
from nodefleet.reporting.weekly import compare_fixed
from support.week_builders import OFFERS, WEEK, hours, used


def comparison(*stretches, offers=OFFERS):
    return compare_fixed(collect_hours(hours(*stretches), WEEK).pool("default"), offers, USUAL)


def test_the_fixed_fleet_is_as_large_as_the_peak_and_on_demand():
    found = comparison((100, used(2, 1)), (68, used(4, 2)))
    assert (found.nodes, found.type, found.hourly_usd, found.hours) == (6, "t3.small", 0.02, 168)
    assert (found.fixed_usd, found.usd, found.saved_usd) == (20.16, 8.50, 11.66)
    assert found.saved_percent == pytest.approx(57.8, abs=0.1)
    assert not found.lower_bound


def test_as_many_on_spot_are_a_second_fixed_fleet_where_their_price_is_known():
    found = comparison((100, used(2, 1)), (68, used(4, 2)))
    assert found.fixed_spot_usd == pytest.approx(6 * 168 * 0.008, abs=0.005)
    without = {name: replace(offer, spot_usd=None) for name, offer in OFFERS.items()}
    assert comparison((100, used(2, 1)), offers=without).fixed_spot_usd is None


def test_only_watched_time_is_compared_on_both_sides():
    found = comparison((100, used(0, 3, watched=0.5)))
    assert (found.hours, found.fixed_usd, found.usd, found.saved_usd) == (50, 3.0, 3.0, 0.0)


def test_a_fixed_fleet_may_have_been_cheaper():
    found = comparison((100, used(0, 3, usd=0.2)))
    assert found.saved_usd == -14.0
    assert found.saved_percent == pytest.approx(-233.3, abs=0.1)


def test_a_few_hours_without_a_price_make_the_saving_an_upper_bound():
    assert comparison((100, used(2, 1, unpriced_seconds=360))).lower_bound


@pytest.mark.parametrize(
    ("stretches", "offers", "cause"),
    [
        ([], OFFERS, "no node ran"),
        ([(10, used(0, 0))], OFFERS, "no node ran"),
        (
            [(10, used(type_="m5.large"))],
            OFFERS,
            "the On-Demand price of m5.large, which ran most, is not known",
        ),
        (
            [(10, used())],
            {"t3.small": replace(OFFERS["t3.small"], hourly_usd=None)},
            "the On-Demand price of t3.small, which ran most, is not known",
        ),
        (
            [(10, used(2, 1, unpriced_seconds=3600))],
            OFFERS,
            "33 % of the node-hours have no known price",
        ),
        ([(1, used(watched=0.01))], OFFERS, "it ran for too short a time"),
    ],
)
def test_what_cannot_be_compared_says_why(stretches, offers, cause):
    assert comparison(*stretches, offers=offers) == Missing(cause)
