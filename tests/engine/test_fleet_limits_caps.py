"""Caps over all pools: growth stops, pools of lower priority wait and say so."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.capacity import amounts_in_use, caps_of
from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, BoundSource
from nodefleet.model.inventory import InstanceState, InstanceType, Market, Resources
from nodefleet.model.operations import Create, Launch, Removal, SendAlert, Shortage
from nodefleet.model.snapshot import Missing
from nodefleet.model.state import Memory, PoolMemory
from nodefleet.model.workload import Rules
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import FleetLimits, Policy
from nodefleet.policy.pool import Limits, MarketMix, Pool, Steps
from support.builders import GIB, NOON, SMALL, TARGET, instance, look, node, only, waiting
from support.decisions import KNOWN, alerts, bought, filled
from support.operation_builders import launch, removal
from support.wording import assert_wording

GPU = "nvidia.com/gpu"
BIG = Resources(cpu=8000, memory=32 * GIB, pods=100, extended={GPU: 2})
CATALOG = (
    InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.006),
    InstanceType(name="g4dn.2xlarge", resources=BIG, hourly_usd=0.75),
)
STEPS = Steps(pending="packing")


def pool(name="default", types=("t3.small",), **changes):
    given = {"limits": Limits(min=1, max=20), "steps": STEPS, "market": MarketMix(types=types), **changes}
    return Pool(name=name, **given)


def policy(*pools, **caps):
    return Policy(fleet=FleetLimits(**caps), pools=pools or (pool(),))


def asking(nodes, name="default"):
    """Pods that fill so many nodes of a pool."""
    rules = Rules(node_selector={"node-fleet.io/pool": name})
    return [waiting(f"{name}-{n}", requests=Resources(cpu=1900), rules=rules) for n in range(nodes)]


def seen(workers=2, pods=(), **changes):
    return look(workers, pods=[*filled(workers), *pods], **{"catalog": CATALOG, **changes})


def test_without_caps_nothing_is_bounded():
    decision = decide(seen(2, asking(3)), KNOWN, policy())
    assert bought(decision) == 3
    assert BoundSource.FLEET_CAP not in [bound.kind for bound in only(decision).bounds]


@pytest.mark.parametrize(
    ("caps", "more"),
    [
        ({"cpu": 8}, 2),  # two nodes of two cores are there
        ({"cpu": 9.9}, 2),
        ({"cpu": 4}, 0),
        ({"cpu": 3}, 0),  # over it already: nothing is removed
        ({"memory": 6}, 1),
        ({"cpu": 100, "memory": 8}, 2),  # the tightest counts
        ({"usd_per_hour": 0.066}, 2),  # one On-Demand and one Spot cost 0.026, a new one 0.02
        ({"gpus": 0}, 3),  # nodes without GPUs are not concerned
    ],
)
def test_a_cap_stops_growth(caps, more):
    decision = decide(seen(2, asking(3)), KNOWN, policy(**caps))
    assert bought(decision) == more
    assert only(decision).action is (Action.GROW if more else Action.HOLD)


def test_a_pool_that_waits_says_so_and_is_alerted():
    decision = decide(seen(2, asking(3)), KNOWN, policy(cpu=4))
    assert alerts(decision) == [AlertKind.AT_MAX]
    assert_wording(only(decision).reason)
    assert_wording(next(step.text for step in only(decision).plan if isinstance(step, SendAlert)))


def test_gpus_are_counted_by_the_largest_type_that_may_come():
    training = [waiting(f"t-{n}", requests=Resources(cpu=100, extended={GPU: 1})) for n in range(6)]
    both = pool(types=("t3.small", "g4dn.2xlarge"))
    assert bought(decide(seen(0, training), KNOWN, policy(both, gpus=5))) == 2
    assert bought(decide(seen(0, training), KNOWN, policy(both, gpus=1))) == 1, "min is restored all the same"


SINGLE = InstanceType(
    name="g4dn.xlarge", resources=Resources(cpu=4000, memory=16 * GIB, pods=58, extended={GPU: 1}), hourly_usd=0.526
)
FOURFOLD = InstanceType(
    name="g4dn.12xlarge",
    resources=Resources(cpu=48000, memory=192 * GIB, pods=110, extended={GPU: 4}),
    hourly_usd=3.912,
)


def gpu_pool(*types, **changes):
    given = {"limits": Limits(min=0, max=20), "market": MarketMix(types=types, spot_percent=0), **changes}
    return pool(**given)


def training(number, gpus=1):
    return [
        waiting(f"train-{n}", requests=Resources(cpu=3000, memory=GIB, extended={GPU: gpus})) for n in range(number)
    ]


def launched(decision):
    """Nodes by their types."""
    found = Counter()
    for step in only(decision).plan:
        if isinstance(step, Create) and isinstance(step.operation, Launch):
            found[step.operation.types] += step.operation.count
    return found


@pytest.mark.parametrize(("cap", "expected"), [(1, 1), (3, 3), (4, 4), (9, 6)])
@pytest.mark.parametrize("types", [("g4dn.xlarge", "g4dn.12xlarge"), ("g4dn.12xlarge", "g4dn.xlarge")])
def test_nodes_count_as_the_types_that_their_pods_are_planned_on(cap, expected, types):
    """The pool could launch nodes of four GPUs, too, and by those a cap of three would leave no node."""
    decision = decide(seen(0, training(6), catalog=(SINGLE, FOURFOLD)), KNOWN, policy(gpu_pool(*types), gpus=cap))
    assert launched(decision) == {("g4dn.xlarge",): expected}


@pytest.mark.parametrize(("cap", "expected"), [(4, {("g4dn.12xlarge",): 1}), (3, {})])
def test_where_ec2_lacks_the_planned_type_no_larger_one_exceeds_the_cap(cap, expected):
    short = tuple(
        Shortage(pool="default", type="g4dn.xlarge", zone=zone, market=market, until=NOON + timedelta(seconds=60))
        for zone in "ab"
        for market in Market
    )
    memory = Memory(pools={"default": PoolMemory(shortages=short)})
    rules = policy(gpu_pool("g4dn.xlarge", "g4dn.12xlarge"), gpus=cap)
    assert launched(decide(seen(0, training(6), catalog=(SINGLE, FOURFOLD)), memory, rules)) == expected


def test_a_cap_on_gpus_holds_up_no_node_without_them():
    """Pods without GPUs come behind those with some by their name, and get their nodes."""
    pods = [*training(4), *(waiting(f"web-{n}", requests=Resources(cpu=1900)) for n in range(3))]
    rules = policy(gpu_pool("t3.small", "g4dn.xlarge", steps=replace(STEPS, pending_spare=0)), gpus=2)
    decision = decide(seen(0, pods, catalog=(CATALOG[0], SINGLE)), KNOWN, rules)
    assert launched(decision) == {("g4dn.xlarge",): 2, ("t3.small",): 3}
    assert alerts(decision) == [AlertKind.AT_MAX]


def test_what_is_left_of_a_cap_is_kept_for_the_pod_of_highest_priority():
    """It asks for a node of four cores, and there is room for one of two."""
    large = InstanceType(name="c5.xlarge", resources=Resources(cpu=4000, memory=8 * GIB, pods=58), hourly_usd=0.17)
    pods = [waiting("big-0", requests=Resources(cpu=3500), priority=9), waiting("web-0", requests=Resources(cpu=1900))]
    rules = policy(gpu_pool("t3.small", "c5.xlarge"), cpu=3)
    assert launched(decide(seen(0, pods, catalog=(CATALOG[0], large)), KNOWN, rules)) == {}


def test_min_is_restored_beyond_a_cap():
    decision = decide(seen(0), KNOWN, policy(pool(limits=Limits(min=3)), cpu=2))
    assert bought(decision) == 3


def test_launches_that_ec2_does_not_show_yet_count():
    first = decide(seen(2, asking(3)), KNOWN, policy(cpu=8))
    launched = tuple(step.operation for step in only(first).plan if isinstance(step, Create))
    later = decide(seen(2, asking(5), operations=launched), first.memory, policy(cpu=8))
    assert bought(later) == 0


def test_a_type_of_unknown_size_or_price_is_not_launched_under_a_cap():
    strange = pool(types=("t3.small", "x9.huge"))
    decision = decide(seen(2, asking(3)), KNOWN, policy(strange, cpu=100))
    assert bought(decision) == 0
    assert_wording(only(decision).reason)
    unpriced = (replace(CATALOG[0], hourly_usd=None),)
    assert bought(decide(seen(2, asking(3), catalog=unpriced), KNOWN, policy(usd_per_hour=9))) == 0
    assert bought(decide(seen(2, asking(3), catalog=unpriced), KNOWN, policy(cpu=100))) == 3


# ── priorities ───────────────────────────────────────────────────────────────────────────────────────────────────────

TARGETS = (replace(TARGET, pool="batch"), replace(TARGET, pool="web"))


def grown(decision):
    found = {}
    for each in decision.pools:
        opened = [step.operation for step in each.plan if isinstance(step, Create)]
        found[each.pool] = sum(launch.count for launch in opened if isinstance(launch, Launch))
    return found


@pytest.mark.parametrize(
    ("priorities", "expected"),
    [
        ((0, 0), {"batch": 3, "web": 1}),  # the policy's order
        ((0, 5), {"batch": 1, "web": 3}),
        ((5, 0), {"batch": 3, "web": 1}),
    ],
)
def test_pools_of_higher_priority_come_first(priorities, expected):
    pools = [
        pool(name, limits=Limits(min=0, max=9), priority=priority)
        for name, priority in zip(("batch", "web"), priorities, strict=True)
    ]
    pods = [*asking(3, "batch"), *asking(3, "web")]
    decision = decide(seen(0, pods, targets=TARGETS), KNOWN, policy(*pools, cpu=8))
    assert grown(decision) == expected
    assert [each.pool for each in decision.pools] == ["batch", "web"], "told in the policy's order"


def test_what_a_pool_that_only_pretends_would_launch_takes_no_room():
    pools = [pool("batch", limits=Limits(min=0), dry_run=True, priority=1), pool("web", limits=Limits(min=0))]
    pods = [*asking(3, "batch"), *asking(3, "web")]
    assert grown(decide(seen(0, pods, targets=TARGETS), KNOWN, policy(*pools, cpu=6)))["web"] == 3


def test_what_other_pools_lack_to_their_min_is_kept_for_them():
    """Restoring it is not stopped by a cap, so it would be exceeded."""
    pools = [pool("web", limits=Limits(min=0), priority=1), pool("batch", limits=Limits(min=2))]
    decision = decide(seen(0, asking(3, "web"), targets=TARGETS), KNOWN, policy(*pools, cpu=6))
    assert grown(decision) == {"web": 1, "batch": 2}
    assert_wording(decision.pools[0].reason)
    pretending = [pools[0], replace(pools[1], dry_run=True)]
    given = seen(0, asking(3, "web"), targets=TARGETS)
    assert grown(decide(given, KNOWN, policy(*pretending, cpu=6)))["web"] == 3


@pytest.mark.parametrize(("limits", "caps"), [(Limits(min=0, max=9), {"memory": 10}), (Limits(min=0, max=0), {})])
def test_pods_do_not_wait_for_a_node_that_another_pool_may_not_launch(limits, caps):
    """It would hold them beside the pods that it is for, and a cap or max forbids it."""
    training = [waiting(f"t-{n}", requests=Resources(cpu=100, extended={GPU: 1})) for n in range(2)]
    others = [waiting(f"p-{n}", requests=Resources(cpu=1000)) for n in range(2)]
    pools = [pool("web", limits=Limits(min=0, max=9)), pool("batch", types=("g4dn.2xlarge",), limits=limits)]
    decision = decide(seen(0, [*training, *others], targets=TARGETS), KNOWN, policy(*pools, **caps))
    assert grown(decision) == {"web": 1, "batch": 0}


# ── what else launches ───────────────────────────────────────────────────────────────────────────────────────────────


def removed(decision):
    opened = [step.operation for step in only(decision).plan if isinstance(step, Create)]
    return [each.instance for each in opened if isinstance(each, Removal)]


@pytest.mark.parametrize(("cores", "leaves"), [(4, True), (6, False)])
def test_an_unhealthy_worker_goes_first_where_a_cap_leaves_no_room_for_its_replacement(cores, leaves):
    """It would wait for a replacement for ever."""
    unhealthy = node(1, ready=False, ready_changed_at=NOON - timedelta(hours=1))
    given = seen(1, instances=[instance(1)], nodes=[unhealthy])
    known = replace(KNOWN, pools={"default": PoolMemory(members=("i-000", "i-001"))})
    decision = decide(given, known, policy(pool(), cpu=cores))
    assert removed(decision) == (["i-001"] if leaves else [])
    assert bought(decision) == (0 if leaves else 1)


@pytest.mark.parametrize(("cores", "launched"), [(4, 0), (6, 1)])
def test_spot_is_not_launched_ahead_of_on_demand_beyond_a_cap(cores, launched):
    on_demand = [instance(n, market=Market.ON_DEMAND, launched_at=NOON - timedelta(days=1)) for n in range(2)]
    rules = pool(limits=Limits(min=2, max=20), market=MarketMix(types=("t3.small",), on_demand_base=0))
    decision = decide(seen(0, instances=on_demand, nodes=[node(n) for n in range(2)]), KNOWN, policy(rules, cpu=cores))
    assert bought(decision) == launched


# ── amounts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_use(given, rules):
    return amounts_in_use(derive_workers(given, rules), given, rules, KNOWN)


def test_amounts_in_use():
    given = seen(0, instances=[instance(0), instance(1, type="g4dn.2xlarge", market=Market.SPOT)])
    found = in_use(given, policy(cpu=1))
    assert found == {"cpu": 10, "memory": 34, "gpus": 2, "usd_per_hour": pytest.approx(0.77)}
    assert in_use(given, policy()) == {}


@pytest.mark.parametrize("types", [("t3.small", "g4dn.2xlarge"), ("g4dn.2xlarge", "t3.small")])
def test_a_launch_that_ec2_does_not_show_yet_counts_as_the_largest_type_that_it_may_give(types):
    asked = launch(types=types, count=2, market=Market.SPOT)
    assert in_use(seen(0, operations=(asked,)), policy(cpu=1))["cpu"] == 16


def test_types_that_the_catalogue_lacks_and_an_ec2_that_is_away_count_nothing():
    given = seen(0, instances=[instance(0, type="x9.huge")])
    found = in_use(given, policy(cpu=1))
    assert {*found.values()} == {0}
    away = replace(given, instances=Missing("away"))
    assert not any(amounts_in_use((), away, policy(cpu=1), KNOWN).values())


def test_only_caps_that_are_set():
    assert caps_of(FleetLimits(max=4, cpu=8, gpus=0)) == {"cpu": 8, "gpus": 0}


def test_removals_and_workers_that_are_gone_count_nothing():
    gone = instance(1, state=InstanceState.TERMINATED)
    given = seen(1, instances=[gone], operations=(removal(),))
    found = in_use(given, policy(cpu=1))
    assert found["cpu"] == 2


def test_workers_that_ec2_does_not_show_count_as_the_largest_of_their_pool():
    unlisted = seen(0, nodes=[node(0)])
    assert in_use(unlisted, policy(cpu=1))["cpu"] == 2
    rules = policy(cpu=8)
    known = replace(KNOWN, pools={"default": PoolMemory(members=("i-001", "i-002"))})
    assert bought(decide(seen(0, asking(5)), known, rules)) == 2, "two members have vanished a moment ago"
