"""Shares of tenants: whose pods get the nodes that a pool may still have."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from nodefleet.engine.cluster_context import ClusterContext
from nodefleet.engine.context import PoolContext
from nodefleet.engine.decide import decide
from nodefleet.engine.fleet_limits import share_new_nodes, tenant_of
from nodefleet.engine.signals.pending_pods import PendingIndex, collect_pending
from nodefleet.model.inventory import InstanceType, Market, Resources
from nodefleet.model.names import POOL_LABEL
from nodefleet.model.operations import Create, Launch, Shortage
from nodefleet.model.serialization import IssueCode
from nodefleet.model.snapshot import Pause
from nodefleet.model.state import PoolMemory
from nodefleet.model.workload import ZONE_LABEL, Rules
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import FleetLimits, Policy, Tenants
from nodefleet.policy.constraints import check
from nodefleet.policy.pool import Limits, MarketMix, Pool, Steps
from support.builders import GIB, SMALL, TARGET, after, instance, look, node, only, pod, waiting
from support.decisions import KNOWN, bought, opened

WHOLE = Resources(cpu=1900)
HALF = Tenants(shares={"a": 1, "b": 1})


def asking(tenant, number, **changes):
    """Pods that take a node each; as a list by name, those of tenant a come first."""
    return [waiting(f"{tenant}-{n}", namespace=tenant, **{"requests": WHOLE, **changes}) for n in range(number)]


def policy(tenants, most=20):
    return Policy(tenants=tenants, pools=(Pool(limits=Limits(min=0, max=most), steps=Steps(pending="packing")),))


def new_nodes(tenants, *pods, workers=0):
    """In the order in which they are bought."""
    given, rules = look(workers, pods=pods), policy(tenants)
    fleet = derive_workers(given, rules)
    ctx = PoolContext.of(rules.pools[0], rules, given, PoolMemory(), fleet)
    pending = collect_pending(ctx, ClusterContext.of(given, rules, fleet).packings, PendingIndex.of(pods))
    if not tenants.shares:
        return pending.new  # `decide` asks no further then
    shares = share_new_nodes([ctx], {"default": pending}, rules.fleet_max, {}, {"default": rules.fleet_max})
    return shares.pending["default"].new


def first(number, tenants, *pods, workers=0):
    """Whose pods the first so many new nodes are bought for."""
    found = new_nodes(tenants, *pods, workers=workers)[:number]
    return Counter(tenant_of(each, tenants) for node in found for each in node.pods)


@pytest.mark.parametrize(("high", "zone"), [("first", "a"), ("second", "b")])
def test_under_max_the_node_of_the_pod_with_the_highest_priority_is_bought(high, zone):
    pods = [
        waiting(
            name,
            requests=WHOLE,
            priority=1000 if name == high else 0,
            rules=Rules(node_selector={"topology.kubernetes.io/zone": place}),
        )
        for name, place in (("first", "a"), ("second", "b"))
    ]
    decision = decide(look(0, pods=pods), KNOWN, policy(Tenants(), most=1))
    assert [(launch.zone, launch.count) for launch in opened(decision, Launch)] == [(zone, 1)]


def test_of_one_tenant_the_pods_of_higher_priority_come_first():
    pods = [*asking("a", 2), *asking("a", 2, priority=5), *asking("b", 1)]
    found = [node.pods[0].priority for node in new_nodes(HALF, *pods) if node.pods[0].namespace == "a"]
    assert found == sorted(found, reverse=True)


def test_without_shares_nothing_is_ordered():
    assert first(4, Tenants(), *asking("a", 6), *asking("b", 2)) == {"a": 4}


def test_nodes_go_in_turn_to_tenants_of_equal_shares():
    assert first(4, HALF, *asking("a", 6), *asking("b", 6)) == {"a": 2, "b": 2}


def test_an_idle_share_is_lent():
    assert first(4, HALF, *asking("a", 6)) == {"a": 4}
    assert first(4, HALF, *asking("a", 6), *asking("b", 1)) == {"a": 3, "b": 1}


def test_shares_are_relative_and_others_have_one_of_their_own():
    tenants = Tenants(shares={"a": 3, "b": 1})
    assert first(8, tenants, *asking("a", 9), *asking("b", 9)) == {"a": 6, "b": 2}
    assert first(4, Tenants(shares={"a": 1}, others=3), *asking("a", 9), *asking("c", 9)) == {"a": 1, "c": 3}


def test_what_runs_already_counts():
    running = [pod(f"a-run-{n}", f"w00{n}", namespace="a", requests=WHOLE) for n in range(2)]
    assert first(2, HALF, *running, *asking("a", 4), *asking("b", 4), workers=2) == {"b": 2}


def test_tenants_by_label():
    tenants = Tenants(label="team", shares={"red": 1, "blue": 1})
    red = [waiting(f"a-{n}", labels={"team": "red"}, requests=WHOLE) for n in range(4)]
    blue = [waiting(f"b-{n}", labels={"team": "blue"}, requests=WHOLE) for n in range(4)]
    assert first(2, tenants, *red, *blue) == {"red": 1, "blue": 1}
    assert tenant_of(pod("x"), tenants) == ""


def test_pods_that_ask_for_nothing_take_turns_too():
    assert first(1, HALF, *asking("a", 2, requests=Resources())) == {"a": 2}


def test_all_are_bought_when_there_is_room_for_all():
    pods = [*asking("a", 3), *asking("b", 3)]
    assert bought(decide(look(0, pods=pods), KNOWN, policy(HALF))) == 6
    limited = decide(look(0, pods=pods), KNOWN, policy(HALF, most=2))
    assert (only(limited).target, bought(limited)) == (2, 2)


@pytest.mark.parametrize("share", [0, -1])
def test_a_share_of_nothing_is_refused(share):
    (problem,) = check(policy(Tenants(shares={"a": share})))
    assert (problem.path, problem.code) == ("tenants.shares.a", IssueCode.OUT_OF_RANGE)


@pytest.mark.parametrize("seed", range(40))
def test_no_tenant_that_waits_has_less_for_its_share_than_another_had_before_its_last_node(seed):
    """Whatever the shares, what runs and what asks, and however many of the nodes may be bought."""
    random = Random(seed)  # noqa: S311  # repeatable
    names = ("a", "b", "c")
    tenants = Tenants(shares={name: random.choice((0.5, 1, 2, 5)) for name in names[: random.randint(1, 3)]})
    held = dict.fromkeys(names, 0)
    running, asking_for = [], {name: random.randint(0, 5) for name in names}
    for number in range(random.randint(0, 4)):
        owner = random.choice(names)
        held[owner] += 1
        running.append(pod(f"run-{number}", f"w00{number}", namespace=owner, requests=WHOLE))
    pods = [each for name in names for each in asking(name, asking_for[name])]
    total = sum(asking_for.values())
    for bought_nodes in range(total + 1):
        got = first(bought_nodes, tenants, *running, *pods, workers=len(running))
        assert sum(got.values()) == bought_nodes, "a share that others lend is used"
        for waits in (name for name in names if got[name] < asking_for[name]):
            for served in (name for name in names if got[name]):
                before = (held[served] + got[served] - 1) / tenants.share_of(served)
                assert before <= (held[waits] + got[waits]) / tenants.share_of(waits) + 1e-9


# ── over all pools ───────────────────────────────────────────────────────────────────────────────────────────────────
# Tenant a asks for nodes of the pool that is decided first, tenant b for nodes of the other one.

BIG = InstanceType(name="m5.2xlarge", resources=Resources(cpu=8000, memory=32 * GIB, pods=100), hourly_usd=0.4)
OFFERS = (InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.006), BIG)
TARGETS = (replace(TARGET, pool="front"), replace(TARGET, pool="back"))


def pools(*, front=None, back=None):
    common = {"limits": Limits(min=0, max=20), "steps": Steps(pending="packing")}
    first = {
        "name": "front",
        "priority": 1,
        "market": MarketMix(types=("t3.small",), spot_percent=0),
        **common,
        **(front or {}),
    }
    second = {"name": "back", "market": MarketMix(types=("t3.small",), spot_percent=0), **common, **(back or {})}
    return Pool(**first), Pool(**second)


def asking_in(pool, tenant, number, **changes):
    rules = Rules(node_selector={POOL_LABEL: pool, **changes.pop("selector", {})})
    return asking(tenant, number, rules=rules, **changes)


def shared_out(pods, tenants=HALF, *, known=KNOWN, of=None, **limits):
    """How many nodes each pool buys under the fleet's limits."""
    rules = Policy(tenants=tenants, fleet=FleetLimits(**limits), pools=of or pools())
    given = look(0, pods=pods, targets=TARGETS, catalog=OFFERS)
    found = {}
    for each in decide(given, known, rules).pools:
        steps = [step.operation for step in each.plan if isinstance(step, Create)]
        found[each.pool] = sum(launch.count for launch in steps if isinstance(launch, Launch))
    return found["front"], found["back"]


BOTH = (*asking_in("front", "a", 6), *asking_in("back", "b", 6))


@pytest.mark.parametrize("limits", [{"max": 4}, {"cpu": 8}, {"memory": 8}, {"usd_per_hour": 0.08}])
def test_under_a_limit_of_the_fleet_tenants_share_over_all_pools(limits):
    assert shared_out(BOTH, **limits) == (2, 2)
    assert shared_out(BOTH, Tenants(shares={"a": 1, "b": 3}), **limits) == (1, 3)
    assert shared_out(BOTH, Tenants(), **limits) == (4, 0), "without shares the priority of the pools decides"


@pytest.mark.parametrize("limits", [{"max": 4}, {"cpu": 8}, {"memory": 8}, {"usd_per_hour": 0.08}])
def test_under_a_limit_of_the_fleet_pods_of_high_priority_come_first_in_pools_of_one_priority(limits):
    front = asking_in("front", "a", 6)
    back = [*asking_in("back", "b", 3, priority=9), *asking_in("back", "c", 3)]
    alike = pools(front={"priority": 0})
    assert shared_out([*front, *back], Tenants(), of=alike, **limits) == (1, 3)
    assert shared_out([*front, *back], Tenants(), **limits) == (4, 0), "a pool's own priority goes before"
    higher = asking_in("front", "d", 2, priority=10)
    assert shared_out([*front, *higher, *back], Tenants(), of=alike, **limits) == (2, 2)
    assert shared_out([*front, *asking_in("back", "c", 6)], Tenants(), of=alike, **limits) == (4, 0)


@pytest.mark.parametrize("back", [{"limits": Limits(min=0, max=1)}, {"dry_run": True}])
def test_nothing_is_kept_for_pods_of_high_priority_that_their_pool_cannot_buy_for(back):
    pods = [*asking_in("front", "a", 6), *asking_in("back", "b", 3, priority=9)]
    most = 0 if "dry_run" in back else 1
    assert shared_out(pods, Tenants(), of=pools(front={"priority": 0}, back=back), max=4)[0] == 4 - most


def test_of_one_tenant_too_pods_of_high_priority_come_first_in_pools_of_one_priority():
    pods = [*asking_in("front", "a", 6), *asking_in("back", "a", 3, priority=9), *asking_in("back", "b", 4)]
    assert shared_out(pods, of=pools(front={"priority": 0}), max=4) == (0, 4)


def test_over_all_pools_too_an_idle_share_is_lent():
    assert shared_out([*asking_in("front", "a", 6), *asking_in("back", "b", 1)], max=4) == (3, 1)
    assert shared_out([*asking_in("front", "a", 1), *asking_in("back", "b", 6)], max=4) == (1, 3)
    assert shared_out(BOTH, max=12) == (6, 6)


def test_what_a_tenant_runs_in_one_pool_counts_in_the_other():
    of_front = [replace(node(n), labels={**node(n).labels, POOL_LABEL: "front"}) for n in range(2)]
    running = [pod(f"a-run-{n}", f"w00{n}", namespace="a", requests=WHOLE) for n in range(2)]
    rules = Policy(tenants=HALF, fleet=FleetLimits(max=6), pools=pools())
    pods = [*running, *asking_in("back", "a", 5), *asking_in("back", "b", 5)]
    given = look(0, pods=pods, targets=TARGETS, catalog=OFFERS, nodes=of_front)
    given = replace(given, instances=tuple(instance(n, pool="front") for n in range(2)))
    fleet = derive_workers(given, rules)
    contexts = [PoolContext.of(each, rules, given, PoolMemory(), fleet) for each in rules.pools]
    packed = ClusterContext.of(given, rules, fleet).packings
    pending = {ctx.pool.name: collect_pending(ctx, packed, PendingIndex.of(pods)) for ctx in contexts}
    shares = share_new_nodes(contexts, pending, 4, {}, {"front": 20, "back": 20})
    bought_for = [node.pods[0].namespace for node in shares.pending["back"].new[:4]]
    assert Counter(bought_for) == {"a": 1, "b": 3}, "with what runs three for each"


def test_a_node_counts_by_what_it_takes_of_the_limit():
    of = pools(back={"market": MarketMix(types=("m5.2xlarge",))})
    large = asking_in("back", "b", 4, requests=Resources(cpu=7000))
    pods = [*asking_in("front", "a", 20), *large]
    assert shared_out(pods, of=of, max=4) == (2, 2)
    assert shared_out(pods, of=of, cpu=32) == (8, 2)


def test_the_min_of_other_pools_is_kept_once():
    of = pools(back={"limits": Limits(min=2, max=20)})
    assert shared_out(BOTH, of=of, max=4) == (2, 2)
    assert shared_out(BOTH, of=of, cpu=8) == (2, 2)


@pytest.mark.parametrize("back", [{"limits": Limits(min=0, max=1)}, {"dry_run": True}])
def test_a_share_that_its_pool_cannot_take_is_lent(back):
    most = 0 if "dry_run" in back else 1
    assert shared_out(BOTH, of=pools(back=back), max=4)[0] == 4 - most


def test_a_share_in_a_paused_pool_is_lent():
    paused = (Pause(pool="back", by="anna"),)
    rules = Policy(tenants=HALF, fleet=FleetLimits(max=4), pools=pools())
    given = look(0, pods=BOTH, targets=TARGETS, catalog=OFFERS, commands=paused)
    decision = decide(given, KNOWN, rules)
    assert [each.target for each in decision.pools] == [4, 0]


def test_a_share_without_capacity_at_ec2_is_lent():
    short = tuple(
        Shortage(pool="back", type="t3.small", zone="a", market=market, until=after(600)) for market in Market
    )
    known = replace(KNOWN, pools={"back": PoolMemory(shortages=short)})
    in_zone = asking_in("back", "b", 6, selector={ZONE_LABEL: "a"})
    assert shared_out([*asking_in("front", "a", 6), *in_zone], known=known, max=4) == (4, 0)
