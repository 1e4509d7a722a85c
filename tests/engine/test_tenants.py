"""Shares of tenants: whose pods get the nodes that a pool may still have."""

from collections import Counter
from random import Random

import pytest

from nodefleet.engine.cluster_context import ClusterContext
from nodefleet.engine.context import PoolContext
from nodefleet.engine.decide import decide
from nodefleet.engine.signals.pending_pods import PendingIndex, collect_pending
from nodefleet.engine.tenants import order_by_share, share_new_nodes, tenant_of
from nodefleet.model.inventory import Resources
from nodefleet.model.operations import Launch
from nodefleet.model.serialization import IssueCode
from nodefleet.model.state import PoolMemory
from nodefleet.model.workload import Rules
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy, Tenants
from nodefleet.policy.constraints import check
from nodefleet.policy.pool import Limits, Pool, Steps
from support.builders import look, only, pod, waiting
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
    found = share_new_nodes(
        ctx, collect_pending(ctx, ClusterContext.of(given, rules, fleet).packings, PendingIndex.of(pods))
    )
    return found.new


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


def test_one_node_needs_no_order():
    assert order_by_share((), [], HALF) == ()


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
