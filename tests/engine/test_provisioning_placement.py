"""Zones balanced, markets by formula, shortages avoided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.capacity import on_demand_share
from nodefleet.engine.context import PlacementRequest
from nodefleet.engine.provisioning import ANY, Placed, place
from nodefleet.model.inventory import Market
from nodefleet.model.operations import Shortage
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix
from support.builders import NOON, after, instance, look, node

SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND
MIX = MarketMix(types=("small", "big"))


@pytest.mark.parametrize(
    ("total", "expected"),
    [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 2), (7, 2), (8, 2), (9, 3), (10, 3), (20, 6)],
)
def test_the_market_formula(total, expected):
    """On-Demand = max(1, n − round_half_up(0.7 n))."""
    assert on_demand_share(total, MIX) == expected


@pytest.mark.parametrize(
    ("percent", "base", "total", "expected"),
    [(0, 0, 4, 4), (100, 0, 4, 0), (100, 2, 4, 2), (50, 0, 3, 1), (50, 0, 5, 2), (70, 9, 4, 4)],
)
def test_the_formula_with_other_figures(percent, base, total, expected):
    assert on_demand_share(total, MarketMix(spot_percent=percent, on_demand_base=base)) == expected


def fleet(*numbers, **markets):
    seen = look(0, instances=[instance(n) for n in numbers], nodes=[node(n) for n in numbers])
    return derive_workers(seen, Policy())


def short(kind, zone, market=SPOT, until=after(60)):
    return Shortage(pool="default", type=kind, zone=zone, market=market, until=until)


def placed(number, staying=(), shortages=(), zones=("a", "b"), mix=MIX, at_least=0, asks=None):
    return place(asks or [ANY] * number, staying, zones, mix, shortages, NOON, on_demand_at_least=at_least)


def summary(placement):
    return [(each.zone, each.market, each.count) for each in placement.launches]


def test_the_first_node_is_on_demand_in_the_first_zone():
    assert placed(1).launches == (Placed(zone="a", market=ON_DEMAND, types=("small", "big"), count=1),)


def test_two_nodes_from_nothing_are_one_of_each_in_two_zones():
    assert summary(placed(2)) == [("a", ON_DEMAND, 1), ("b", SPOT, 1)]


def test_the_emptiest_zone_comes_first():
    # 0 and 2 are in zone a (0 is On-Demand), so b is empty
    assert summary(placed(1, fleet(0, 2))) == [("b", SPOT, 1)]


def test_equal_zones_go_by_name():
    assert summary(placed(1, fleet(0, 1))) == [("a", SPOT, 1)]


def test_one_call_for_each_zone_and_market():
    assert summary(placed(4, fleet(0, 1, 2, 3), mix=MarketMix(on_demand_base=1, spot_percent=100))) == [
        ("a", SPOT, 2),
        ("b", SPOT, 2),
    ]


def test_a_worker_in_a_zone_that_is_no_longer_used_does_not_count_for_balance():
    assert summary(placed(1, fleet(0, 1), zones=("b", "c"))) == [("c", SPOT, 1)]


def test_on_demand_that_is_there_counts():
    assert summary(placed(1, fleet(1, 3, 5, 7)))[0][1] is ON_DEMAND
    assert summary(placed(1, fleet(0, 1, 3, 5)))[0][1] is SPOT


def test_a_replacement_that_holds_min_is_on_demand():
    assert summary(placed(1, fleet(0, 1, 3), at_least=1)) == [("a", ON_DEMAND, 1)]


def test_no_more_on_demand_than_nodes():
    assert summary(placed(1, (), at_least=5)) == [("a", ON_DEMAND, 1)]


def test_a_type_that_lacked_capacity_is_left_out_while_remembered():
    (launch,) = placed(1, fleet(0, 1), [short("small", "a")]).launches
    assert (launch.zone, launch.types) == ("a", ("big",))
    (launch,) = placed(1, fleet(0, 1), [short("small", "a", until=NOON)]).launches
    assert launch.types == ("small", "big")


def test_a_zone_without_any_type_is_passed_over():
    found = placed(1, fleet(0, 1), [short("small", "a"), short("big", "a")])
    assert summary(found) == [("b", SPOT, 1)]


def test_spot_that_is_nowhere_to_be_had_is_bought_on_demand():
    nothing = [short(kind, zone) for kind in ("small", "big") for zone in ("a", "b")]
    assert summary(placed(2, fleet(0, 1), nothing)) == [("a", ON_DEMAND, 1), ("b", ON_DEMAND, 1)]


def test_what_is_nowhere_to_be_had_at_all_is_said_to_be_missing():
    nothing = [short(k, z, market) for k in ("small", "big") for z in ("a", "b") for market in Market]
    found = placed(3, fleet(0, 1), nothing)
    assert (found.launches, found.missing) == ((), 3)


def test_without_zones_nothing_can_be_placed():
    assert placed(2, zones=()).missing == 2


def test_one_that_cannot_be_placed_does_not_hide_the_next():
    found = placed(2, fleet(0), asks=[PlacementRequest(zones=("x",)), ANY])
    assert (summary(found), found.missing) == ([("b", SPOT, 1)], 1)


def test_pods_may_ask_for_a_zone_and_a_type():
    found = placed(1, fleet(1), asks=[PlacementRequest(zones=("b",), types=("big",))])
    assert found.launches == (Placed(zone="b", market=ON_DEMAND, types=("big",), count=1),)


def test_preferred_types_come_first_wherever_they_are_and_the_others_where_they_are_nowhere():
    asks = [PlacementRequest(types=("small", "big"), preferred=("small",))]
    here = short("small", "a", ON_DEMAND)
    assert placed(1, asks=asks).launches == (Placed(zone="a", market=ON_DEMAND, types=("small",), count=1),)
    found = placed(1, shortages=[here], asks=asks)
    assert found.launches == (Placed(zone="b", market=ON_DEMAND, types=("small",), count=1),)
    found = placed(1, shortages=[here, short("small", "b", ON_DEMAND)], asks=asks)
    assert found.launches == (Placed(zone="a", market=ON_DEMAND, types=("big",), count=1),)


def test_an_ask_for_an_unknown_zone_is_missing():
    assert placed(1, asks=[PlacementRequest(zones=("x",))]).missing == 1


@given(st.integers(1, 12), st.sets(st.integers(0, 20), max_size=12), st.floats(0, 100), st.integers(0, 5))
def test_placing_gives_what_was_asked_balanced_and_with_enough_on_demand(number, standing, percent, base):
    mix = MarketMix(spot_percent=percent, on_demand_base=base)
    staying = fleet(*standing)
    found = placed(number, staying, mix=mix)
    assert sum(each.count for each in found.launches) == number
    per_zone = {zone: sum(w.zone == zone for w in staying) for zone in "ab"}
    before = abs(per_zone["a"] - per_zone["b"])
    for each in found.launches:
        per_zone[each.zone] += each.count
    assert abs(per_zone["a"] - per_zone["b"]) <= max(1, before - number)
    bought = sum(each.count for each in found.launches if each.market is ON_DEMAND)
    have = sum(w.instance.market is ON_DEMAND for w in staying)
    assert bought + have >= min(on_demand_share(len(staying) + number, mix), have + number)
