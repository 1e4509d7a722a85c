"""Another shape of instance, when the work needs one resource much more than the other."""

from dataclasses import replace

import pytest

from nodefleet.policy.pool import Limits, MarketMix, Pool
from nodefleet.reporting.recommendations import larger_or_equal, other_type
from support.week_builders import SMALL, case, offer, used
from support.wording import assert_wording

ANY_PRICE = Pool(limits=Limits(min=2, max=20), market=MarketMix(max_price_usd=1))
HUNGRY = used(7, 3, cpu=10, memory=60, asked=(20, 60))  # memory: 60 / 65 of a node; CPU: 20 %
BUSY = used(7, 3, cpu=57, memory=10, asked=(60, 20))


def offers(*more):
    return {each.name: each for each in (SMALL, *more)}


MEDIUM = offer("t3.medium", 2, 4, 0.03)


def test_a_type_with_more_memory_for_the_money_is_named():
    found = other_type(case((168, HUNGRY), pool=ANY_PRICE, catalog=offers(MEDIUM)))
    assert_wording(found.do)
    assert_wording(found.because)
    # half as many nodes at one and a half times the price
    assert_wording(found.effect)
    assert found.usd_per_month == pytest.approx(0.25 * HUNGRY.usd * 730)


def test_of_several_the_cheapest_for_what_is_needed():
    large = offer("t3.large", 2, 8, 0.06)  # a quarter of the nodes at three times the price: the same saving
    cheaper = offer("t3a.medium", 2, 4, 0.027)
    found = other_type(case((168, HUNGRY), pool=ANY_PRICE, catalog=offers(MEDIUM, large, cheaper)))
    assert_wording(found.do)


def test_cpu_bound_work_gets_more_cpu():
    wide = offer("c9.large", 4, 2, 0.024)
    found = other_type(case((168, BUSY), pool=ANY_PRICE, catalog=offers(wide)))
    assert_wording(found.do)
    assert_wording(found.because)


def test_a_spot_price_above_the_limit_must_be_allowed_too():
    pool = replace(ANY_PRICE, market=MarketMix(max_price_usd=0.02))
    found = other_type(case((168, HUNGRY), pool=pool, catalog=offers(MEDIUM)))
    assert_wording(found.do)
    on_demand = replace(ANY_PRICE, market=MarketMix(max_price_usd=0.02, spot_percent=0))
    assert "allow" not in other_type(case((168, HUNGRY), pool=on_demand, catalog=offers(MEDIUM))).do


@pytest.mark.parametrize(
    ("why", "other"),
    [
        ("more expensive", offer("t3.medium", 2, 4, 0.05)),
        ("hardly cheaper", offer("t3.medium", 2, 4, 0.037)),
        ("no price", offer("t3.medium", 2, 4)),
        ("smaller in what is scarce", offer("t3.micro", 2, 1, 0.004)),
        ("images may not run there", offer("t4g.medium", 2, 4, 0.02)),
        ("nothing known of it", offer("t3.medium", 0, 0, 0.02)),
        ("so large that min keeps two of it", offer("t3.huge", 64, 512, 0.5)),
    ],
)
def test_a_type_that_does_not_fit_is_not_named_only_where_to_look(why, other):
    found = other_type(case((168, HUNGRY), pool=ANY_PRICE, catalog=offers(other)))
    assert_wording(found.do)
    assert found.usd_per_month is None


def test_no_burstable_type_in_place_of_one_at_full_speed():
    main, hour = offer("m5.large", 2, 8, 0.1), used(7, 3, cpu=10, memory=60, asked=(20, 60), type_="m5.large")
    burstable = offer("t3.xlarge", 4, 16, 0.01)
    found = other_type(case((168, hour), pool=ANY_PRICE, catalog={each.name: each for each in (main, burstable)}))
    assert_wording(found.do)


@pytest.mark.parametrize(("name", "hour"), [("r6i.large", HUNGRY), ("x2gd.large", HUNGRY), ("c7g.large", BUSY)])
def test_a_family_that_is_already_the_right_one_has_nothing_to_look_for(name, hour):
    main = offer(name, 2, 2, 0.1)
    found = other_type(case((168, replace(hour, types={name: 36000.0})), pool=ANY_PRICE, catalog={name: main}))
    assert found is None


def test_cpu_bound_work_without_a_better_offer_is_told_where_to_look():
    found = other_type(case((168, BUSY), pool=ANY_PRICE, catalog=offers()))
    assert_wording(found.do)


@pytest.mark.parametrize(
    "hour",
    [
        used(7, 3, cpu=40, memory=60, asked=(40, 60)),  # in balance
        used(1, 1, cpu=2, memory=20, asked=(5, 20)),  # min sizes the fleet
        used(7, 3, cpu=10, memory=60, asked=(60, 60)),  # little used, but asked for
        used(7, 3, cpu=None, memory=60),
        used(7, 3, cpu=10, memory=None),
        used(7, 3, cpu=10, memory=60, type_="m9.unheard"),
        used(0, 0),
        replace(used(0, 0), types={"t3.small": 1.0}),
    ],
)
def test_the_type_is_right_or_nobody_can_tell(hour):
    assert other_type(case((168, hour), pool=ANY_PRICE, catalog=offers(MEDIUM))) is None


def test_a_fleet_at_min_would_only_become_dearer():
    hour = used(1, 1, cpu=10, memory=60, asked=(20, 60))
    assert other_type(case((168, hour), pool=ANY_PRICE, catalog=offers(MEDIUM))) is None


def test_use_alone_tells_when_requests_are_not_known():
    hour = used(7, 3, cpu=10, memory=60, asked=None)
    assert other_type(case((168, hour), pool=ANY_PRICE, catalog=offers(MEDIUM))) is not None


def test_what_could_stand_in_is_at_least_as_large_affordable_and_new():
    found = larger_or_equal(
        case(
            (168, used()),
            catalog=offers(
                offer("t3.medium", 2, 4, 0.03, 0.012),
                offer("t3.large", 2, 8, 0.06, 0.025),  # above max_price_usd
                offer("c9.small", 2, 2, 0.015),
                offer("t3.micro", 2, 1, 0.01),
                offer("t4g.small", 2, 2, 0.01),
                offer("t3a.small", 2, 2, 0.01),  # the pool has it
                offer("m9.small", 2, 4),
            ),
        )
    )
    assert found == ["c9.small", "t3.medium"]
    assert larger_or_equal(case((168, used(type_="m9.unheard")))) == []
