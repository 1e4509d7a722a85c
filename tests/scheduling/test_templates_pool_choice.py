"""A pod that several pools could hold goes to the cheapest one that can still launch a node."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceType, Market, Resources
from nodefleet.model.operations import Create, Launch, SendAlert, Shortage
from nodefleet.model.snapshot import ActiveWindow, Pause, Scale
from nodefleet.model.state import JoinTrouble, Memory, PoolMemory
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, MarketMix, Pool, Steps
from nodefleet.scheduling.templates import pools_without_capacity
from support.builders import GIB, SMALL, TARGET, after, instance, look, waiting
from support.decisions import KNOWN

LARGE = Resources(cpu=8000, memory=32 * GIB, pods=110)
CATALOG = (
    InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.006),
    InstanceType(name="m5.2xlarge", resources=LARGE, hourly_usd=0.4, spot_usd=0.15),
)
TARGETS = tuple(replace(TARGET, pool=name) for name in ("large", "small"))


def pool(name, type_, **changes):
    given = {"limits": Limits(min=0, max=5), "steps": Steps(pending="packing"), **changes}
    return Pool(name=name, market=MarketMix(types=(type_,)), **given)


def policy(large=None, small=None):
    return Policy(pools=(pool("large", "m5.2xlarge", **(large or {})), pool("small", "t3.small", **(small or {}))))


def chosen(rules, pods=None, memory=KNOWN, **changes):
    seen = look(0, pods=pods or [waiting("web-0")], **{"catalog": CATALOG, "targets": TARGETS, **changes})
    opened = [
        (each.pool, step.operation)
        for each in decide(seen, memory, rules).pools
        for step in each.plan
        if isinstance(step, Create)
    ]
    return {name for name, operation in opened if isinstance(operation, Launch)}


def test_the_cheapest_pool_takes_the_pod_whatever_the_order():
    assert chosen(policy()) == {"small"}


def test_a_pod_that_only_one_pool_holds_goes_there():
    assert chosen(policy(), [waiting("big-0", requests=Resources(cpu=4000))]) == {"large"}


def test_the_price_of_the_part_that_the_pod_takes_is_compared():
    """Of a small node it takes half of the memory, of a large one a 32nd: 0.01 against 0.0125 On-Demand …"""
    cheap = (CATALOG[0], replace(CATALOG[1], hourly_usd=0.2, spot_usd=0.05))
    assert chosen(policy(), [waiting("web-0", requests=Resources(cpu=100, memory=GIB))], catalog=cheap) == {"large"}
    assert chosen(policy(), [waiting("web-0", requests=Resources())], catalog=cheap) == {"small"}


GPU = "nvidia.com/gpu"
ONE_GPU = InstanceType(
    name="g4dn.xlarge", resources=Resources(cpu=4000, memory=16 * GIB, pods=58, extended={GPU: 1}), hourly_usd=0.526
)
FOUR_GPUS = InstanceType(
    name="g4dn.12xlarge",
    resources=Resources(cpu=48000, memory=192 * GIB, pods=110, extended={GPU: 4}),
    hourly_usd=3.912,
)
TRAINING = [waiting(f"train-{n}", requests=Resources(cpu=1000, memory=GIB, extended={GPU: 1})) for n in range(6)]


@pytest.mark.parametrize("number", [1, 4, 6])
def test_of_a_node_with_gpus_a_pod_takes_its_part_of_them(number):
    """Its CPU alone would be a 48th of the large node, 0.08 USD, and a quarter of the small one, 0.13."""
    pools = (pool("large", "g4dn.12xlarge"), pool("small", "g4dn.xlarge"))
    assert chosen(Policy(pools=pools), TRAINING[:number], catalog=(ONE_GPU, FOUR_GPUS)) == {"small"}
    cheap = replace(FOUR_GPUS, hourly_usd=2.0)  # 0.5 for a GPU
    assert chosen(Policy(pools=pools), TRAINING[:4], catalog=(ONE_GPU, cheap)) == {"large"}


@pytest.mark.parametrize("types", [("g4dn.12xlarge", "g4dn.xlarge"), ("g4dn.xlarge", "g4dn.12xlarge")])
def test_of_the_types_of_one_pool_pods_with_gpus_get_the_cheapest_whatever_the_order(types):
    rules = Policy(pools=(replace(pool("small", types[0]), market=MarketMix(types=types, spot_percent=0)),))
    seen = look(0, pods=TRAINING, catalog=(ONE_GPU, FOUR_GPUS), targets=TARGETS)
    (decision,) = decide(
        seen, KNOWN, replace(rules, pools=(replace(rules.pools[0], limits=Limits(min=0, max=9)),))
    ).pools
    assert decision.target == len(TRAINING), "0.526 USD for each, and 7.82 for two large nodes"


def test_while_a_price_is_not_known_the_policys_order_decides():
    unpriced = (CATALOG[0], replace(CATALOG[1], hourly_usd=None, spot_usd=None))
    assert chosen(policy(), catalog=unpriced) == {"large"}


def test_a_pool_at_max_or_in_a_dry_run_is_passed_over():
    full = {"instances": [replace(instance(n), pool="small", launched_at=after(-30)) for n in range(1)]}
    assert chosen(policy(small={"limits": Limits(min=0, max=1)}), [waiting(f"w-{n}") for n in range(9)], **full) == {
        "large"
    }
    assert chosen(policy(small={"dry_run": True})) == {"large"}


NAMED: dict[str, str] = {"by": "jane", "reason": "", "pool": "small"}
TROUBLE = JoinTrouble(failures=2, delay=timedelta(seconds=60), next_probe=after(60))
OPEN = {"pool": "small", "name": "quiet", "until": after(3600)}


@pytest.mark.parametrize(
    "held",
    [
        {"commands": (Pause(until=None, **NAMED),)},
        {"commands": (Scale(nodes=0, until=after(3600), **NAMED),)},
        {"windows": (ActiveWindow(max=0, **OPEN),)},
        {"memory": Memory(pools={"small": PoolMemory(join_trouble=TROUBLE)})},
    ],
    ids=["paused", "an operator's size", "a window", "failed joins"],
)
def test_a_pool_that_may_not_have_a_node_more_now_is_passed_over(held):
    assert chosen(policy(), **held) == {"large"}


def test_pods_that_only_a_paused_pool_holds_wait_for_it():
    paused = Pause(until=None, by="jane", reason="", pool="large")
    assert chosen(policy(), [waiting("big-0", requests=Resources(cpu=4000))], commands=(paused,)) == set()


@pytest.mark.parametrize(
    ("market", "zones", "expected"),
    [
        (Market.ON_DEMAND, "ab", {"large"}),
        (Market.ON_DEMAND, "a", {"small"}),  # another zone has some
        (Market.SPOT, "ab", {"small"}),  # On-Demand can be had
    ],
)
def test_a_pool_whose_types_are_short_everywhere_is_passed_over(market, zones, expected):
    short = tuple(Shortage(pool="small", type="t3.small", zone=zone, market=market, until=after(60)) for zone in zones)
    memory = Memory(pools={"small": PoolMemory(shortages=short)})
    assert chosen(policy(), memory=memory) == expected


SINGLE_SHORT = tuple(
    Shortage(pool="small", type="g4dn.xlarge", zone=zone, market=market, until=after(60))
    for zone in "ab"
    for market in Market
)


def launches(rules, shortages=()):
    """What is launched for four training pods, by pool: types and nodes."""
    memory = Memory(pools={"small": PoolMemory(shortages=shortages)})
    catalog = (*CATALOG, ONE_GPU, FOUR_GPUS)
    found = []
    for decision in decide(look(0, pods=TRAINING[:4], catalog=catalog, targets=TARGETS), memory, rules).pools:
        own = [step.operation for step in decision.plan if isinstance(step, Create)]
        kinds = {each.types for each in own if isinstance(each, Launch)}
        nodes = sum(each.count for each in own if isinstance(each, Launch))
        found += [(decision.pool, kinds, nodes)] if nodes else []
    return found


def with_types(*types):
    return replace(pool("small", types[0]), market=MarketMix(types=types, spot_percent=0))


def test_a_pool_is_passed_over_that_can_launch_only_types_that_do_not_hold_the_pod():
    rules = Policy(pools=(with_types("t3.small", "g4dn.xlarge"), pool("large", "g4dn.12xlarge")))
    assert launches(rules) == [("small", {("g4dn.xlarge",)}, 4)]
    assert launches(rules, SINGLE_SHORT) == [("large", {("g4dn.12xlarge",)}, 1)]


def test_of_a_pool_whose_small_type_is_short_as_many_pods_share_a_large_node_as_it_holds():
    rules = Policy(pools=(with_types("g4dn.xlarge", "g4dn.12xlarge"),))
    assert launches(rules) == [("small", {("g4dn.xlarge",)}, 4)], "no large node takes the place of a small one"
    assert launches(rules, SINGLE_SHORT) == [("small", {("g4dn.12xlarge",)}, 1)]


def test_a_type_of_about_the_same_price_is_asked_for_together_with_the_planned_one():
    twin = replace(ONE_GPU, name="g5.xlarge", hourly_usd=2 * 0.526)
    seen = look(0, pods=TRAINING[:1], catalog=(ONE_GPU, twin, FOUR_GPUS), targets=TARGETS)
    (decision,) = decide(seen, KNOWN, Policy(pools=(with_types("g4dn.xlarge", "g5.xlarge", "g4dn.12xlarge"),))).pools
    (launch,) = (each.operation for each in decision.plan if isinstance(each, Create))
    assert launch.types == ("g4dn.xlarge", "g5.xlarge")


def test_a_pool_whose_only_type_is_short_still_says_so_and_its_pods_are_not_unplaceable():
    seen = look(0, pods=TRAINING[:1], catalog=(ONE_GPU,), targets=TARGETS)
    memory = Memory(pools={"small": PoolMemory(shortages=SINGLE_SHORT)})
    decision = decide(seen, memory, Policy(pools=(with_types("g4dn.xlarge"),)))
    alerts = [each.alert for each in decision.pools[0].plan if isinstance(each, SendAlert)]
    assert (alerts, decision.tells) == ([AlertKind.NO_CAPACITY], ())


def test_a_pool_without_a_launch_target_is_not_short():
    seen = look(0, pods=(), targets=())
    assert pools_without_capacity(seen, policy(), derive_workers(seen, policy()), KNOWN) == frozenset()
