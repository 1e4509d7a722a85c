"""The Spot share heals after an interruption: launched first, one at a time, and never beyond max."""

from datetime import timedelta

import pytest

from nodefleet.capacity import on_demand_share
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Market
from nodefleet.policy.pool import MarketMix
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.world import World
from support.worlds import Cluster, shop, spot_worker


def markets(cluster: Cluster) -> tuple[int, int]:
    """On-Demand and Spot."""
    found = [machine.market for machine in cluster.world.workers()]
    return found.count(Market.ON_DEMAND), found.count(Market.SPOT)


def interrupted(**policy: object) -> Cluster:
    """Two nodes at min, and EC2 has taken the Spot one: its replacement is On-Demand."""
    cluster = shop(workers=2, replicas=2, cpu=300, **{"limits": {"min": 2, "max": 3}, **policy})
    cluster.calm(1)
    cluster.warned([cluster.world.interrupt(spot_worker(cluster.world))])
    cluster.calm(5)
    assert markets(cluster) == (2, 0)
    return cluster


def swaps(cluster: Cluster) -> int:
    return sum(event.kind is AlertKind.MARKET_RESTORED for event in cluster.world.table.events)


def test_after_an_interruption_at_min_the_share_comes_back_within_the_hour():
    cluster = interrupted()
    fewest = 2

    def healed() -> bool:
        nonlocal fewest
        fewest = min(fewest, len(cluster.world.ready_nodes()))
        return markets(cluster) == (1, 1) and not cluster.operations

    cluster.until(healed, ticks=30)
    assert fewest == 2  # the new one is there before the old one goes
    assert swaps(cluster) == 1
    cluster.calm(60)
    assert (markets(cluster), swaps(cluster)) == ((1, 1), 1)
    assert cluster.world.violations == []


@pytest.mark.parametrize(("workers", "above"), [(3, 1), (5, 1), (5, 2), (8, 1)])
def test_a_surplus_of_a_larger_pool_gives_way_with_one_launch_each(workers, above):
    world = World(policy={"limits": {"min": workers, "max": workers + 2}})
    paid = on_demand_share(workers, MarketMix()) + above
    world.add_workers(paid, market=Market.ON_DEMAND)
    world.add_workers(workers - paid, market=Market.SPOT)
    world.deploy("shop", replicas=workers, cpu=600, traits=Traits(cpu_use=1.5))  # neither busy nor calm
    world.settle()
    cluster = Cluster(world).must_live()
    cluster.calm(100 * above)
    assert (markets(cluster), swaps(cluster)) == ((paid - above, workers - paid + above), above)
    assert world.violations == []


def test_a_day_with_an_interruption_runs_mostly_on_spot():
    cluster = interrupted()
    on_demand = spot = 0
    for _ in range(14 * 30):
        cluster.tick()
        paid, cheap = markets(cluster)
        on_demand, spot = on_demand + paid, spot + cheap
    assert spot / (on_demand + spot) > 0.45  # of two nodes one is the base
    assert cluster.world.violations == []


def test_at_max_nothing_is_launched_first_and_the_reason_says_so():
    cluster = interrupted(limits={"min": 2, "max": 2})
    cluster.calm(60)
    assert markets(cluster) == (2, 0)
    reason = cluster.world.table.decisions[-1].decision.pools[0].reason
    assert "max" in reason
    assert "On-Demand" in reason


@pytest.mark.parametrize("strategy", ["classic", "adaptive"])
def test_spot_that_is_refused_buys_no_on_demand_node_instead(strategy):
    """The pool is as large as it has to be: a swap that EC2 refuses is no node that is owed."""
    cluster = interrupted(strategy=strategy)
    cluster.world.prometheus.fixed["default", "cpu"] = lambda: 50.0
    cluster.world.shop.refuse(market=Market.SPOT)
    most = 0
    for _ in range(60):
        cluster.tick()
        most = max(most, len(cluster.world.workers()))
    assert (most, markets(cluster)) == (2, (2, 0))
    assert swaps(cluster) >= 1, "it was tried"


def test_an_interruption_during_a_swap_lets_one_on_demand_node_go_and_not_two():
    """Its replacement is On-Demand, so there are as many as before when the first has left."""
    cluster = shop(
        workers=3, limits={"min": 3, "max": 6}, market={"spot_percent": 100, "on_demand_base": 0}
    ).must_live()
    cluster.until(lambda: swaps(cluster) == 1)
    spot = [machine.id for machine in cluster.world.workers() if machine.market is Market.SPOT][:2]
    cluster.warned([cluster.world.interrupt(each) for each in spot])
    cordons = 0
    for _ in range(60):
        cluster.tick()
        cordons += cluster.calls.count("cluster.cordon")
    assert (markets(cluster), swaps(cluster)) == ((0, 3), 2)
    assert cordons == 2  # one for each swap
    assert cluster.world.violations == []


def test_it_waits_while_spot_is_known_to_be_short():
    cluster = interrupted()
    cluster.world.shop.refuse(market=Market.SPOT)
    cluster.calm(60)
    assert markets(cluster) == (2, 0)


@pytest.mark.parametrize("percent", [0, 70])
def test_a_pool_that_may_not_heal_or_has_nothing_to_heal_is_left_alone(percent):
    market = {"spot_percent": percent} if percent == 0 else {"rebalance_after": 0}
    cluster = interrupted(market=market)
    cluster.calm(60)
    assert (markets(cluster), swaps(cluster)) == ((2, 0), 0)


def test_a_node_that_may_not_leave_is_no_reason_to_launch():
    cluster = interrupted()
    for node in cluster.world.ready_nodes():
        cluster.world.kube.put_node(
            type(node)(
                **{
                    **{name: getattr(node, name) for name in node.__slots__},
                    "annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"},
                }
            )
        )
    cluster.calm(60)
    assert markets(cluster) == (2, 0)


def test_the_pause_between_two_is_kept():
    cluster = shop(workers=4, replicas=4, cpu=300, limits={"min": 4, "max": 6}, market={"on_demand_base": 0})
    for machine in cluster.world.workers():
        machine.market = Market.ON_DEMAND
    began = cluster.world.now
    cluster.until(lambda: swaps(cluster) == 1, ticks=60)
    first = cluster.world.now
    cluster.until(lambda: swaps(cluster) == 2, ticks=60)
    assert first - began < timedelta(hours=1)
    assert cluster.world.now - first >= timedelta(minutes=30)
    cluster.until(lambda: markets(cluster) == (1, 3), ticks=120)
    assert cluster.world.violations == []
