"""Consolidation ends: each node that it removes leaves a cheaper fleet, or it is reported."""

from nodefleet.model.inventory import Market
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.world import ZONES, World
from support.worlds import Cluster

RULES = {"mode": "underutilised", "after": "2m", "min_age": "2m"}


def half_full(type_: str = "t3.small", types: tuple[str, ...] = ("t3.small",), cpu_use: float = 0.9) -> Cluster:
    """Six nodes with two pods each. Three nodes would hold the requests, four the CPU."""
    rules = {
        "limits": {"min": 2, "max": 8},
        "market": {"types": list(types), "on_demand_base": 0, "spot_percent": 100},
        "cooldown": {"up": "1m", "down": "1m"},
        "predictive": {"enabled": False},
        "consolidation": RULES,
    }
    world = World(seed=1, policy=rules)
    world.add_workers(6, type_=type_)
    world.deploy("shop", replicas=12, cpu=400, traits=Traits(cpu_use=cpu_use))
    world.settle()
    return Cluster(world).must_live()


def settled(cluster: Cluster) -> list[str]:
    """The types of the workers that stay when consolidation has ended."""
    cluster.calm(120)
    left = {machine.id: machine.type for machine in cluster.world.ec2.live_workers()}
    cluster.calm(60)
    assert {machine.id for machine in cluster.world.ec2.live_workers()} == set(left)
    return sorted(left.values())


def test_an_under_used_fleet_settles():
    cluster = half_full()
    assert settled(cluster) == ["t3.small"] * 4
    assert cluster.world.violations == []


def test_a_fleet_that_a_cheaper_type_could_hold_settles_on_it():
    cluster = half_full("t3.medium", ("t3.medium", "t3.small"), cpu_use=0.45)
    assert settled(cluster) == ["t3.small"] * 3
    assert cluster.world.violations == []


def three_for_one(nodes_for_one: int = 3) -> Cluster:
    """Four Spot nodes of one zone with 1200m of 2000m each, and a type of four cores at the price of two."""
    rules = {
        "limits": {"min": 1, "max": 6},
        "market": {"types": ["m5.large", "c5.xlarge"], "on_demand_base": 0, "spot_percent": 100, "max_price_usd": 0.5},
        "cooldown": {"up": "1m", "down": "1m"},
        "predictive": {"enabled": False},
        "consolidation": {**RULES, "nodes_for_one": nodes_for_one},
    }
    world = World(seed=1, policy=rules, zones=ZONES[:1])
    world.add_workers(4, type_="m5.large", market=Market.SPOT)
    world.deploy("shop", replicas=4, cpu=1200, traits=Traits(cpu_use=0.3))
    world.settle()
    return Cluster(world).must_live()


def test_three_nodes_give_way_to_one_that_costs_less():
    cluster = three_for_one()
    assert settled(cluster) == ["c5.xlarge", "m5.large"]
    assert cluster.world.violations == []


def test_three_nodes_stay_where_one_replaces_one_only():
    assert settled(three_for_one(1)) == ["m5.large"] * 4


def test_a_node_that_is_bought_back_and_consolidated_again_is_reported():
    with PLANTED["consolidated into growth"]():
        cluster = half_full()
        cluster.calm(150)
    assert {each.rule for each in cluster.world.violations} == {Rule.CHURN}


def test_a_fleet_that_grew_for_new_pods_may_be_consolidated_to_its_old_size():
    cluster = half_full()
    cluster.calm(60)
    (shop,) = [each for each in cluster.world.controllers.workloads.values() if each.name == "shop"]
    for replicas in (20, 12):
        cluster.world.controllers.scale(shop, replicas)
        cluster.calm(60)
    assert len(cluster.world.ec2.live_workers()) == 4
    assert cluster.world.violations == []
