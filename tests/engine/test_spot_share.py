"""On-Demand above its share gives way to Spot: when it begins, what it waits for, and how it ends."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.capacity import on_demand_share
from nodefleet.engine.decide import decide
from nodefleet.engine.spot_share import update_swap
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market, Resources
from nodefleet.model.operations import Create, Launch, Purpose, Removal, RemovalReason, SendAlert, Shortage
from nodefleet.model.snapshot import Pause
from nodefleet.model.state import MarketSwap, Memory, PoolMemory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, MarketMix, Pool
from support.builders import NOON, after, instance, look, node, only, pod
from support.decisions import with_pool
from support.wording import assert_wording

POLICY = with_pool(limits=Limits(min=2, max=4))
PODS = (pod("web-1", "w000"),)
SWAP = MarketSwap(at=after(-120), on_demand=2, nodes=2)


def seen(on_demand=2, spot=0, *, booting=0, age=timedelta(days=1), spot_age=None, pods=PODS, **changes):
    """Workers in a pool that is neither busy nor calm."""
    markets = [(Market.ON_DEMAND, age)] * on_demand + [(Market.SPOT, spot_age or age)] * spot
    made = [instance(n, market=market, launched_at=NOON - old) for n, (market, old) in enumerate(markets)]
    new = [instance(90 + n, market=Market.SPOT, launched_at=after(-30)) for n in range(booting)]
    return look(0, instances=[*made, *new], nodes=[node(n) for n in range(len(made))], pods=pods, **changes)


def remembering(**known):
    return Memory(pools={"default": PoolMemory(**known)})


def decided(found, memory=None, policy=POLICY):
    return only(decide(found, memory or Memory(), policy))


def opened(decision, kind):
    return [s.operation for s in decision.plan if isinstance(s, Create) and isinstance(s.operation, kind)]


def test_a_surplus_of_on_demand_launches_one_spot_node_and_tells():
    decision = decide(seen(3), Memory(), POLICY)
    (launch,) = opened(only(decision), Launch)
    assert (launch.market, launch.count, launch.purpose) == (Market.SPOT, 1, Purpose.MARKET)
    assert launch.max_price_usd == 0.02
    assert [s.alert for s in only(decision).plan if isinstance(s, SendAlert)] == [AlertKind.MARKET_RESTORED]
    assert only(decision).action is Action.HOLD
    known = decision.memory.pool("default")
    assert known.swap == MarketSwap(at=NOON, on_demand=3, nodes=3)
    assert known.last_grow is None  # it is no growth


@pytest.mark.parametrize(
    ("found", "memory", "policy"),
    [
        (seen(1, 1), Memory(), POLICY),  # nothing above the share
        (seen(2, booting=1), Memory(), POLICY),
        (seen(2, age=timedelta(minutes=29)), Memory(), POLICY),  # the On-Demand node is new
        (seen(2), Memory(), with_pool(market=MarketMix(rebalance_after=timedelta(0)))),
        (seen(2, hold="version 4 is refused"), Memory(), POLICY),
        (seen(2, commands=(Pause(),)), Memory(), POLICY),
        (seen(2, commands=(Pause(scale_down_only=True),)), Memory(), POLICY),
        (seen(2), remembering(swap=MarketSwap(at=after(-1700), on_demand=2, open=False)), POLICY),
        (seen(2), remembering(swap=MarketSwap(at=after(-3500), on_demand=2, open=False, failures=1)), POLICY),
    ],
)
def test_nothing_is_begun(found, memory, policy):
    assert decided(found, memory, policy).plan == ()


@pytest.mark.parametrize(
    "swap",
    [
        MarketSwap(at=after(-1800), on_demand=2, open=False),
        MarketSwap(at=after(-3600), on_demand=2, open=False, failures=1),
        MarketSwap(at=after(-1800 * 64), on_demand=2, open=False, failures=40),
    ],
)
def test_the_next_one_begins_after_the_pause_which_doubles_with_each_failure(swap):
    decision = decide(seen(2), remembering(swap=swap), POLICY)
    assert opened(only(decision), Launch)
    assert decision.memory.pool("default").swap.failures == swap.failures


def test_without_room_below_max_the_reason_says_so():
    decision = decided(seen(2), policy=with_pool(limits=Limits(min=2, max=2)))
    assert decision.plan == ()
    assert_wording(decision.reason)


def test_while_spot_is_known_to_be_short_the_reason_says_so():
    short = tuple(
        Shortage(pool="default", type=kind, zone=zone, market=Market.SPOT, until=after(60))
        for kind in Pool().market.types
        for zone in "ab"
    )
    decision = decided(seen(2), remembering(shortages=short))
    assert opened(decision, Launch) == []
    assert_wording(decision.reason)


def test_nodes_that_may_not_leave_are_no_reason_to_launch():
    pods = [pod(f"solo{n}", f"w{n:03}", owner=None) for n in range(2)]
    decision = decided(seen(2, pods=pods))
    assert decision.plan == ()
    assert_wording(decision.reason)


def test_nodes_whose_pods_only_lack_room_are():
    """The new node may be the room."""
    pods = [pod(f"full-{n}", f"w{n:03}", requests=Resources(cpu=1900)) for n in range(2)]
    assert opened(decided(seen(2, pods=pods)), Launch)


def test_once_the_spot_node_is_ready_an_on_demand_one_leaves():
    swap = MarketSwap(at=after(-120), on_demand=2)
    found = seen(2, 1, spot_age=timedelta(seconds=110))
    decision = decide(found, remembering(swap=swap, members=("i-000", "i-001", "i-002")), POLICY)
    (removal,) = opened(only(decision), Removal)
    assert removal.why is RemovalReason.VOLUNTARY
    assert removal.instance in ("i-000", "i-001")
    assert removal.instance not in decision.memory.pool("default").members
    assert any(stay.reason.value == "chosen" for stay in only(decision).stays)


@pytest.mark.parametrize("workers", range(2, 21))
def test_one_leaves_in_a_pool_of_any_size(workers):
    """With the Spot node that came, the share of five counted two On-Demand nodes where four count one."""
    surplus = on_demand_share(workers, MarketMix()) + 1
    policy = with_pool(limits=Limits(min=2, max=30))
    assert opened(decided(seen(surplus, workers - surplus), policy=policy), Launch)
    swap = MarketSwap(at=after(-120), on_demand=surplus, nodes=workers)
    found = seen(surplus, workers - surplus + 1, spot_age=timedelta(seconds=110))
    assert opened(decided(found, remembering(swap=swap), policy), Removal)


def test_if_none_can_leave_then_the_reason_says_why():
    pods = [pod(f"solo{n}", f"w{n:03}", owner=None) for n in range(3)]
    found = seen(2, 1, pods=pods, spot_age=timedelta(seconds=110))
    decision = decided(found, remembering(swap=MarketSwap(at=after(-120), on_demand=2)))
    assert opened(decision, Removal) == []
    assert_wording(decision.reason)


def test_when_the_spot_node_that_came_is_lost_none_leaves_for_it():
    """The older Spot node is not it: one that left would be missed, and be uncordoned to restore min."""
    decision = decided(seen(2, 1), remembering(swap=MarketSwap(at=after(-300), on_demand=2)))
    assert opened(decision, Removal) == []
    assert_wording(decision.reason)


def test_when_the_spot_node_makes_up_for_another_that_was_lost_none_leaves_for_it():
    decision = decided(seen(2, 1, spot_age=timedelta(seconds=110)), remembering(swap=replace(SWAP, nodes=3)))
    assert opened(decision, Removal) == []
    assert_wording(decision.reason)
    assert opened(decided(seen(2, 1, spot_age=timedelta(seconds=110)), remembering(swap=SWAP)), Removal)


def test_nobody_leaves_while_the_spot_node_boots():
    policy = with_pool(limits=Limits(min=2, max=2))
    memory = remembering(swap=MarketSwap(at=after(-30), on_demand=2))
    decision = decided(seen(2, booting=1), memory, policy)
    assert (decision.action, decision.target) == (Action.HOLD, 3)
    late = remembering(swap=MarketSwap(at=after(-1200), on_demand=2))
    assert decided(seen(2, booting=1), late, policy).action is Action.SHRINK


def fleet(on_demand, spot=0):
    return derive_workers(seen(on_demand, spot), Policy())


@pytest.mark.parametrize(
    ("swap", "on_demand", "after_it"),
    [
        (MarketSwap(at=NOON, on_demand=2, open=False), 1, MarketSwap(at=NOON, on_demand=2, open=False)),
        (MarketSwap(at=after(-60), on_demand=2), 2, MarketSwap(at=after(-60), on_demand=2)),
        (MarketSwap(at=after(-60), on_demand=2), 3, MarketSwap(at=after(-60), on_demand=3)),  # one was bought meanwhile
        (
            MarketSwap(at=after(-60), on_demand=2, failures=3),
            1,
            MarketSwap(at=after(-60), on_demand=2, open=False),
        ),
        (
            MarketSwap(at=after(-1200), on_demand=2, failures=3),
            2,
            MarketSwap(at=after(-1200), on_demand=2, open=False, failures=4),
        ),
    ],
)
def test_how_a_swap_ends(swap, on_demand, after_it):
    assert update_swap(swap, fleet(on_demand), Pool(), NOON) == after_it
