"""From "so many more" to steps."""

from dataclasses import replace

import pytest

from nodefleet.engine.context import PlacementRequest
from nodefleet.engine.provisioning import ScaleUpRequest, plan_scale_up
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Market
from nodefleet.model.operations import CancelRemoval, Create, Launch, Purpose, RemovalReason, SendAlert, Shortage
from nodefleet.model.state import NOTHING_KNOWN, PoolMemory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool
from support.builders import NOON, after, look, pod
from support.operation_builders import removal
from support.wording import assert_wording

POLICY = Policy()
POOL = Pool()


def grown(seen, more, *, restoring=0, on_demand=0, asks=(), pool=POOL, memory=NOTHING_KNOWN):
    need = ScaleUpRequest(more=more, restoring=restoring, on_demand=on_demand, asks=asks, reason="busy")
    return plan_scale_up(need, derive_workers(seen, POLICY), pool, memory, seen, POLICY)


def launches(growth):
    return [step.operation for step in growth.steps if isinstance(step, Create)]


def leaving(number, **changes):
    return removal(id=f"r{number}", instance=f"i-{number:03}", node=f"w{number:03}", **changes)


def test_a_launch_is_complete_and_frozen():
    seen = look(1, cluster="shop", run="7")
    growth = grown(seen, 1)
    assert growth.steps == (
        Create(
            Launch(
                id="shop-f7-20261116T120000-launch-default-b-spot-0",
                pool="default",
                zone="b",
                market=Market.SPOT,
                types=("t3.small", "t3a.small", "t2.small"),
                count=1,
                template="lt-1",
                template_version="3",
                subnet="subnet-b",
                max_price_usd=0.02,
                purpose=Purpose.GROW,
                reason="busy",
                started=NOON,
                deadline=after(300),
            )
        ),
    )
    assert (growth.nodes, growth.obstacle) == (1, "")


def test_on_demand_has_no_price_limit():
    (launch,) = launches(grown(look(0), 1))
    assert (launch.market, launch.max_price_usd) == (Market.ON_DEMAND, None)


def test_each_launch_has_an_id_of_its_own():
    found = launches(grown(look(0), 4))
    assert len({launch.id for launch in found}) == len(found) > 1


def test_what_only_makes_up_for_a_loss_is_marked():
    assert [each.purpose for each in launches(grown(look(1), 2, restoring=1))] == [Purpose.RESTORE, Purpose.GROW]
    assert [each.purpose for each in launches(grown(look(1), 2, restoring=2))] == [Purpose.RESTORE, Purpose.RESTORE]


def test_a_replacement_that_holds_min_is_on_demand():
    assert [each.market for each in launches(grown(look(3), 1, on_demand=1))] == [Market.ON_DEMAND]


def test_our_own_cordons_are_undone_before_anything_is_bought():
    growth = grown(look(4, operations=(leaving(3),)), 1)
    assert growth.steps == (CancelRemoval(operation="r3", reason="busy"),)
    assert growth.nodes == 1


def test_what_is_still_missing_after_that_is_bought():
    growth = grown(look(4, operations=(leaving(3),)), 3)
    assert growth.nodes == 3
    assert sum(launch.count for launch in launches(growth)) == 2


def test_no_more_come_back_than_are_needed_and_the_least_progressed_first():
    seen = look(
        4, pods=[pod("a-1", "w002"), pod("a-2", "w003")], operations=(leaving(1), leaving(2, evicting=True), leaving(3))
    )
    # w001 is drained, w002 draining, w003 only cordoned
    assert [step.operation for step in grown(seen, 2).steps] == ["r3", "r2"]


@pytest.mark.parametrize(
    "changes",
    [
        {"terminating": True},
        {"cancelled": "already"},
        {"why": RemovalReason.UNHEALTHY},
        {"why": RemovalReason.INTERRUPTED},
    ],
)
def test_who_cannot_come_back(changes):
    growth = grown(look(4, operations=(leaving(3, **changes),)), 1)
    assert [type(step) for step in growth.steps] == [Create]


def test_a_node_that_comes_back_counts_for_zones_and_markets():
    # i-000 (On-Demand) comes back: so the new one is Spot
    growth = grown(look(2, operations=(leaving(0),)), 2)
    assert [each.market for each in launches(growth)] == [Market.SPOT]


def test_pods_say_where_the_first_nodes_go():
    growth = grown(look(2), 2, asks=(PlacementRequest(zones=("b",), types=("t3a.small",)),))
    assert [(each.zone, each.types) for each in launches(growth)] == [
        ("b", ("t3a.small",)),
        ("a", ("t3.small", "t3a.small", "t2.small")),
    ]


def test_no_capacity_anywhere_is_told_and_nothing_grows():
    nothing = tuple(
        Shortage(pool="default", type="t3.small", zone=zone, market=market, until=after(60))
        for zone in "ab"
        for market in Market
    )
    growth = grown(look(2), 1, pool=Pool(market=MarketMix(types=("t3.small",))), memory=PoolMemory(shortages=nothing))
    text = "1 more node is wanted, but t3.small lacks capacity in a, b. Add instance types or zones."
    assert growth.steps == (SendAlert(alert=AlertKind.NO_CAPACITY, pool="default", text=text),)
    assert (growth.nodes, growth.obstacle) == (0, text)


def test_all_types_that_lack_capacity_are_named():
    nothing = tuple(
        Shortage(pool="default", type=name, zone=zone, market=market, until=after(60))
        for name in ("t3.small", "t3a.small")
        for zone in "ab"
        for market in Market
    )
    pool = Pool(market=MarketMix(types=("t3.small", "t3a.small")))
    growth = grown(look(2), 1, pool=pool, memory=PoolMemory(shortages=nothing))
    assert_wording(growth.obstacle)


def test_without_subnets_nothing_can_be_launched():
    growth = grown(replace(look(2), targets=()), 2)
    assert_wording(growth.obstacle)
