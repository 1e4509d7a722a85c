"""How many pods a budget lets go, as the cluster's own controller counts, and what the Eviction API then answers."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.eviction.budgets import (
    BudgetTracker,
    EvictionPermitted,
    EvictionRefusal,
    EvictionRefused,
    covers,
    is_healthy,
)
from nodefleet.model.workload import (
    Budget,
    BudgetStatus,
    Operator,
    Owner,
    Pod,
    PodPhase,
    Requirement,
    Selector,
    UnhealthyPodPolicy,
)
from support.builders import allowance
from support.wording import assert_wording

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
ALWAYS = UnhealthyPodPolicy.ALWAYS_ALLOW
IF_HEALTHY = UnhealthyPodPolicy.IF_HEALTHY_BUDGET
WEB = Selector(labels={"app": "web"})


def budget(**changes) -> Budget:
    return Budget(**({"namespace": "shop", "name": "web", "selector": WEB} | changes))


def pod(name="web-1", **changes) -> Pod:
    return Pod(**({"namespace": "shop", "name": name, "labels": {"app": "web"}} | changes))


def stands(allowed, current, desired, expected) -> BudgetStatus:
    return BudgetStatus(
        disruptions_allowed=allowed, current_healthy=current, desired_healthy=desired, expected_pods=expected
    )


def replica_set(number: int, replicas: int | None) -> Owner:
    return Owner(kind="ReplicaSet", name=f"web-{number}", uid=f"uid-{number}", replicas=replicas)


def web_pods(replicas=(), *, ready=0, unready=0, naked=0) -> list[Pod]:
    """So many pods, dealt out to controllers of these sizes in turn, and ready ones without a controller."""
    owners = [replica_set(number, size) for number, size in enumerate(replicas)] or [None]
    states = [True] * ready + [False] * unready
    managed = [pod(f"web-{n}", ready=state, owner=owners[n % len(owners)]) for n, state in enumerate(states)]
    return managed + [pod(f"naked-{n}") for n in range(naked)]


# ── the arithmetic ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limit", "replicas", "ready", "unready", "status"),
    [
        # a count of minAvailable is held against the pods that are there
        ({"min_available": "3"}, (), 0, 0, stands(0, 0, 3, 0)),
        ({"min_available": "3"}, (), 1, 0, stands(0, 1, 3, 1)),
        ({"min_available": "3"}, (), 2, 0, stands(0, 2, 3, 2)),
        ({"min_available": "3"}, (), 3, 0, stands(0, 3, 3, 3)),
        ({"min_available": "3"}, (), 4, 0, stands(1, 4, 3, 4)),
        ({"min_available": "3"}, (), 3, 1, stands(0, 3, 3, 4)),
        ({"min_available": "0"}, (), 1, 0, stands(1, 1, 0, 1)),
        # maxUnavailable and percentages are held against what the controllers ask for
        ({"max_unavailable": "2"}, (7,), 1, 0, stands(0, 1, 5, 7)),
        ({"max_unavailable": "2"}, (5,), 1, 0, stands(0, 1, 3, 5)),
        ({"max_unavailable": "5"}, (10,), 4, 0, stands(0, 4, 5, 10)),
        ({"max_unavailable": "1"}, (2,), 2, 0, stands(1, 2, 1, 2)),
        ({"max_unavailable": "3"}, (2,), 2, 0, stands(2, 2, 0, 2)),
        ({"max_unavailable": "0"}, (2,), 2, 0, stands(0, 2, 2, 2)),
        ({"max_unavailable": "1"}, (1,), 2, 0, stands(2, 2, 0, 1)),
        ({"max_unavailable": "1"}, (0,), 1, 0, stands(0, 1, 0, 0)),
        ({"max_unavailable": "1"}, (), 1, 0, stands(0, 1, 0, 0)),
        ({"min_available": "28%"}, (), 1, 0, stands(0, 1, 0, 0)),
        ({"min_available": "34%"}, (), 0, 0, stands(0, 0, 0, 0)),
        # both kinds of percentage round up
        ({"max_unavailable": "30%"}, (7,), 1, 0, stands(0, 1, 4, 7)),
        ({"max_unavailable": "30%"}, (3,), 1, 0, stands(0, 1, 2, 3)),
        ({"min_available": "20%"}, (10,), 1, 0, stands(0, 1, 2, 10)),
        ({"min_available": "34%"}, (3,), 1, 0, stands(0, 1, 2, 3)),
        ({"min_available": "34%"}, (3,), 2, 0, stands(0, 2, 2, 3)),
        ({"min_available": "34%"}, (3,), 3, 0, stands(1, 3, 2, 3)),
        ({"min_available": "28%"}, (11,), 0, 11, stands(0, 0, 4, 11)),
        ({"min_available": "28%"}, (11,), 1, 10, stands(0, 1, 4, 11)),
        ({"min_available": "28%"}, (11,), 2, 9, stands(0, 2, 4, 11)),
        ({"min_available": "28%"}, (11,), 3, 8, stands(0, 3, 4, 11)),
        ({"min_available": "28%"}, (11,), 4, 7, stands(0, 4, 4, 11)),
        ({"min_available": "28%"}, (11,), 5, 6, stands(1, 5, 4, 11)),
        ({"min_available": "1%"}, (1,), 2, 0, stands(1, 2, 1, 1)),
        ({"min_available": "0%"}, (2,), 2, 0, stands(2, 2, 0, 2)),
        ({"min_available": "100%"}, (2,), 2, 0, stands(0, 2, 2, 2)),
        ({"min_available": "90%"}, (100,), 100, 0, stands(10, 100, 90, 100)),
        ({"min_available": "90%"}, (95,), 95, 0, stands(9, 95, 86, 95)),
        # several controllers add up
        ({"min_available": "28%"}, (11, 11), 5, 17, stands(0, 5, 7, 22)),
        ({"min_available": "28%"}, (11, 11), 6, 16, stands(0, 6, 7, 22)),
        ({"min_available": "28%"}, (11, 11), 7, 15, stands(0, 7, 7, 22)),
        ({"min_available": "28%"}, (11, 11), 8, 14, stands(1, 8, 7, 22)),
        ({"min_available": "28%"}, (11, 11), 9, 13, stands(2, 9, 7, 22)),
        # the stricter kind first, should both be there; neither allows nothing
        ({"min_available": "0", "max_unavailable": "0"}, (2,), 2, 0, stands(0, 2, 2, 2)),
        ({}, (2,), 2, 0, stands(0, 2, 0, 0)),
    ],
)
def test_how_a_budget_stands(limit, replicas, ready, unready, status):
    assert allowance(budget(**limit), web_pods(replicas, ready=ready, unready=unready)) == status


def test_a_stray_pod_without_a_controller_counts_as_healthy_but_asks_for_nothing():
    pods = web_pods((3,), ready=3, naked=1)
    assert allowance(budget(min_available="34%"), pods) == stands(2, 4, 2, 3)
    assert allowance(budget(min_available="34%"), reversed(pods)) == stands(2, 4, 2, 3)


def test_a_controller_is_counted_once_by_uid_and_without_one_by_kind_and_name():
    same_name = [pod(str(n), owner=Owner(kind="ReplicaSet", name="web", uid=f"u{n}", replicas=2)) for n in range(2)]
    assert allowance(budget(max_unavailable="1"), same_name).expected_pods == 4
    kinds = ("ReplicaSet", "StatefulSet", "ReplicaSet")
    no_uid = [pod(str(n), owner=Owner(kind=kind, name="web", replicas=2)) for n, kind in enumerate(kinds)]
    assert allowance(budget(max_unavailable="1"), no_uid).expected_pods == 4


@pytest.mark.parametrize("limit", ["30%0", "%", "a%", "a", "40#", "40%%", "90#", "#%", "", "-1", "1.5", " 1", "²"])
@pytest.mark.parametrize("field", ["min_available", "max_unavailable"])
def test_a_limit_that_is_no_count_allows_nothing_and_says_so(field, limit):
    pods = web_pods((4,), ready=4)
    ledger = BudgetTracker([budget(**{field: limit})], pods)
    assert ledger.status(budget()) == stands(0, 4, 0, 0)
    assert_wording(ledger.verdict(pods[0]).sentence)


@pytest.mark.parametrize(("limit", "needed"), [("200", 200), ("40%", 2), ("123", 123), ("007", 7)])
def test_counts_and_percentages_are_read(limit, needed):
    assert allowance(budget(min_available=limit), web_pods((4,), ready=4)).desired_healthy == needed


@pytest.mark.parametrize(
    "owner",
    [
        Owner(kind="Widget", name="w"),
        Owner(kind="ReplicaSet", name="w", replicas=3, gone=True),
        Owner(kind="DaemonSet", name="w"),
    ],
)
def test_a_controller_of_unknown_scale_allows_nothing_unless_the_cluster_knows_better(owner):
    pods = [pod(owner=owner), pod("web-2", owner=replica_set(1, 2))]
    assert allowance(budget(max_unavailable="1"), pods).disruptions_allowed == 0
    assert allowance(budget(min_available="1"), pods).disruptions_allowed == 1
    told = budget(max_unavailable="1", status=stands(1, 3, 2, 3))
    assert allowance(told, pods) == stands(1, 3, 2, 3)


@pytest.mark.parametrize(
    ("limit", "owner", "trouble"),
    [
        ({}, replica_set(0, 2), "it sets neither minAvailable nor maxUnavailable"),
        ({"max_unavailable": "1"}, None, "no controller asks for any of its pods"),
        ({"max_unavailable": "1"}, replica_set(0, 0), "no controller asks for any of its pods"),
        (
            {"max_unavailable": "1"},
            Owner(kind="Widget", name="w"),
            "the scale of Widget w, which owns pod shop/web-1, is not known",
        ),
    ],
)
def test_why_a_budget_allows_nothing_whatever_the_health_of_its_pods(limit, owner, trouble):
    refused = BudgetTracker([budget(**limit)], [pod(owner=owner)]).verdict(pod(owner=owner))
    assert_wording(refused.sentence)


@pytest.mark.parametrize(
    ("cluster", "status"),
    [
        (stands(0, 2, 2, 3), stands(0, 2, 2, 3)),
        (stands(1, 3, 2, 3), stands(1, 3, 2, 3)),
        (stands(2, 4, 2, 3), stands(1, 3, 2, 3)),
        (stands(1, 2, 2, 3), stands(1, 2, 2, 3)),  # as many, but fewer healthy
        (stands(1, 5, 2, 5), stands(1, 3, 2, 3)),
        (stands(1, 3, 3, 3), stands(1, 3, 3, 3)),  # as many, but more needed
    ],
)
def test_the_smaller_of_our_own_and_the_clusters_figure_counts(cluster, status):
    assert allowance(budget(min_available="2", status=cluster), web_pods((3,), ready=3)) == status


def test_a_pod_that_was_evicted_a_moment_ago_is_in_the_clusters_figure():
    pods = [pod("p1", deleted_at=NOON), pod("p2"), pod("p3")]
    assert allowance(budget(min_available="1"), pods).disruptions_allowed == 1
    assert allowance(budget(min_available="1", status=stands(0, 1, 1, 3)), pods).disruptions_allowed == 0


def test_a_bad_limit_is_named_even_if_the_cluster_has_a_figure():
    bad = budget(min_available="a", status=stands(0, 1, 3, 3))
    assert "minAvailable 'a'" in BudgetTracker([bad], [pod()]).verdict(pod()).sentence


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({}, True),
        ({"ready": False}, False),
        ({"deleted_at": NOON}, False),
        ({"phase": PodPhase.FAILED}, True),  # with its instance, so nobody took its Ready condition away
        ({"phase": PodPhase.SUCCEEDED}, True),
        ({"phase": PodPhase.FAILED, "ready": False}, False),
    ],
)
def test_healthy_is_ready_and_not_going_whatever_the_phase(change, counts):
    assert is_healthy(pod(**change)) is counts


@pytest.mark.parametrize(
    ("selector", "namespace", "covered"),
    [
        (WEB, "shop", True),
        (WEB, "other", False),
        (Selector(labels={"app": "web", "tier": "front"}), "shop", False),
        (Selector(), "shop", True),
        (Selector(), "other", False),
        (None, "shop", False),
        (Selector(expressions=(Requirement(key="app", values=("web", "api")),)), "shop", True),
        (Selector(expressions=(Requirement(key="app", operator=Operator.NOT_IN, values=("web",)),)), "shop", False),
        (Selector(expressions=(Requirement(key="tier", operator=Operator.NOT_IN, values=("x",)),)), "shop", True),
        (Selector(expressions=(Requirement(key="app", operator=Operator.EXISTS),)), "shop", True),
        (Selector(expressions=(Requirement(key="app", operator=Operator.DOES_NOT_EXIST),)), "shop", False),
    ],
)
def test_whom_a_budget_covers(selector, namespace, covered):
    chosen = budget(namespace=namespace, selector=selector, min_available="0")
    assert covers(chosen, pod()) is covered
    assert allowance(chosen, [pod()]).expected_pods == int(covered)
    assert BudgetTracker([chosen], [pod()]).covering(pod()) == ((chosen,) if covered else ())


def test_pods_that_differ_only_in_labels_nobody_selects_by_are_told_apart_where_it_matters():
    api = budget(name="api", selector=Selector(labels={"app": "api"}), min_available="0")
    ledger = BudgetTracker([budget(min_available="0"), api], [])
    names = [
        [held.name for held in ledger.covering(pod(labels={"app": app, "hash": app_hash}))]
        for app in ("web", "api", "db")
        for app_hash in ("1", "2")
    ]
    assert names == [["web"], ["web"], ["api"], ["api"], [], []]


# ── what the Eviction API answers ────────────────────────────────────────────────────────────────────────────────

NONE_ALLOWED = stands(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("change", "status", "policy", "goes"),
    [
        ({}, NONE_ALLOWED, IF_HEALTHY, False),
        ({"phase": PodPhase.PENDING}, NONE_ALLOWED, IF_HEALTHY, True),
        ({"phase": PodPhase.SUCCEEDED}, NONE_ALLOWED, IF_HEALTHY, True),
        ({"phase": PodPhase.FAILED}, NONE_ALLOWED, IF_HEALTHY, True),
        ({"deleted_at": NOON}, NONE_ALLOWED, IF_HEALTHY, True),
        ({"labels": {"app": "other"}}, NONE_ALLOWED, IF_HEALTHY, True),
        ({"namespace": "other"}, NONE_ALLOWED, IF_HEALTHY, True),
        ({}, stands(1, 0, 0, 0), IF_HEALTHY, True),
        ({}, stands(1, 3, 3, 3), IF_HEALTHY, True),
        ({}, stands(0, 2, 2, 3), IF_HEALTHY, False),
        ({}, stands(0, 2, 2, 3), ALWAYS, False),  # ready pods do not profit from the policy
        ({}, stands(0, 4, 3, 4), IF_HEALTHY, False),
        ({}, stands(-1, 4, 3, 4), IF_HEALTHY, False),
        ({"ready": False}, stands(0, 2, 2, 3), IF_HEALTHY, True),
        ({"ready": False}, stands(0, 1, 2, 3), IF_HEALTHY, False),
        ({"ready": False}, NONE_ALLOWED, IF_HEALTHY, False),  # a budget that needs nobody yet is not healthy
        ({"ready": False}, NONE_ALLOWED, ALWAYS, True),
        ({"ready": False}, stands(0, 1, 2, 3), ALWAYS, True),
        ({"ready": False}, stands(1, 0, 0, 1), IF_HEALTHY, True),
    ],
)
def test_whether_a_pod_may_go(change, status, policy, goes):
    # Enough pods and no demand of ours, so that only the cluster's figure decides.
    plenty = web_pods(ready=9)
    asked = budget(min_available="0", status=status, unhealthy_policy=policy)
    verdict = BudgetTracker([asked], plenty).verdict(pod(**change))
    assert isinstance(verdict, EvictionPermitted) is goes


def test_a_refusal_says_how_the_budget_stands():
    pods = web_pods((2,), ready=2)
    assert BudgetTracker([budget(min_available="2")], pods).verdict(pods[1]) == EvictionRefused(
        pod=pods[1],
        why=EvictionRefusal.NONE_LEFT,
        budgets=("shop/web",),
        sentence="budget shop/web allows 0 disruptions: 2 of 2 healthy, 2 needed",
    )


def test_a_pod_with_several_budgets_cannot_be_evicted_however_much_they_allow():
    both = [budget(name="web", min_available="0"), budget(name="all", selector=Selector(), min_available="0")]
    assert BudgetTracker(both, [pod()]).verdict(pod()) == EvictionRefused(
        pod=pod(),
        why=EvictionRefusal.SEVERAL_BUDGETS,
        budgets=("shop/all", "shop/web"),
        sentence="pod shop/web-1 is covered by 2 budgets (shop/all, shop/web), so it cannot be evicted",
    )
    assert isinstance(BudgetTracker(both, []).verdict(pod(phase=PodPhase.PENDING)), EvictionPermitted)


def test_pods_go_in_order_until_the_budget_is_used_up():
    pods = web_pods((4,), ready=4)
    first, second, third, fourth = BudgetTracker([budget(min_available="2")], pods).verdicts(pods)
    assert first == EvictionPermitted(pod=pods[0], budget="shop/web", left=1)
    assert second == EvictionPermitted(pod=pods[1], budget="shop/web", left=0)
    assert_wording(third.sentence)
    assert isinstance(fourth, EvictionRefused)


def test_an_unready_pod_of_a_healthy_budget_uses_up_nothing():
    unready, ready, last = pod("a", ready=False), pod("b"), pod("c")
    ledger = BudgetTracker([budget(min_available="1")], [unready, ready, last])
    assert ledger.verdicts([unready, ready, last]) == (
        EvictionPermitted(pod=unready),
        EvictionPermitted(pod=ready, budget="shop/web", left=0),
        EvictionRefused(
            pod=last,
            why=EvictionRefusal.NONE_LEFT,
            budgets=("shop/web",),
            sentence="budget shop/web allows 1 disruption, and 1 pod before this one uses it",
        ),
    )


def test_an_unready_pod_that_no_rule_lets_go_needs_and_uses_a_disruption():
    asked = budget(min_available="0", status=stands(1, 0, 0, 2))
    pods = web_pods(unready=1, ready=1)
    unready, ready = sorted(pods, key=lambda each: each.ready)
    verdicts = BudgetTracker([asked], pods).verdicts([unready, ready])
    assert verdicts[0] == EvictionPermitted(pod=unready, budget="shop/web", left=0)
    assert isinstance(verdicts[1], EvictionRefused)


def test_budgets_do_not_share_disruptions():
    api = budget(name="api", selector=Selector(labels={"app": "api"}), min_available="1")
    pods = [pod("web-1"), pod("web-2"), pod("api-1", labels={"app": "api"}), pod("api-2", labels={"app": "api"})]
    verdicts = BudgetTracker([budget(min_available="1"), api], pods).verdicts(pods)
    assert [isinstance(verdict, EvictionPermitted) for verdict in verdicts] == [True, False, True, False]


def test_asking_does_not_use_anything_up():
    pods = web_pods((3,), ready=3)
    ledger = BudgetTracker([budget(min_available="2")], pods)
    assert ledger.verdicts(pods) == ledger.verdicts(pods)
    assert all(isinstance(ledger.verdict(each), EvictionPermitted) for each in pods)
    assert ledger.status(budget()) == stands(1, 3, 2, 3)


def test_two_pods_of_a_budget_that_allows_one_at_a_time_do_not_block_a_drain_but_cannot_go_at_once():
    pods = web_pods((3,), ready=3)
    ledger = BudgetTracker([budget(min_available="2")], pods)
    assert all(isinstance(ledger.verdict(each), EvictionPermitted) for each in pods)
    first, second, _ = ledger.verdicts(pods)
    assert (type(first), type(second)) == (EvictionPermitted, EvictionRefused)


def test_a_pod_that_cannot_go_at_all_blocks_a_drain():
    pods = [pod("free", labels={}), *web_pods((2,), ready=2)]
    ledger = BudgetTracker([budget(min_available="2")], pods)
    assert [type(ledger.verdict(each)) for each in pods] == [EvictionPermitted, EvictionRefused, EvictionRefused]
    assert ledger.verdicts(pods)[1] == ledger.verdict(pods[1])


# ── what holds for all ───────────────────────────────────────────────────────────────────────────────────────────

limits = st.one_of(
    st.integers(0, 6).map(lambda count: {"min_available": str(count)}),
    st.integers(0, 100).map(lambda share: {"min_available": f"{share}%"}),
    st.integers(0, 6).map(lambda count: {"max_unavailable": str(count)}),
    st.integers(0, 100).map(lambda share: {"max_unavailable": f"{share}%"}),
)
some_pods = st.lists(
    st.builds(
        pod,
        ready=st.booleans(),
        phase=st.sampled_from(PodPhase),
        deleted_at=st.sampled_from([None, None, NOON]),
        labels=st.sampled_from([{"app": "web"}, {"app": "web", "tier": "front"}, {"app": "api"}]),
        owner=st.sampled_from([None, replica_set(0, 5), replica_set(1, 2)]),
    ),
    max_size=12,
).map(lambda pods: [replace(each, name=f"pod-{n}") for n, each in enumerate(pods)])
some_budgets = st.lists(
    st.tuples(
        limits,
        st.sampled_from([WEB, Selector(labels={"app": "api"}), Selector()]),
        st.sampled_from([*UnhealthyPodPolicy]),
    ),
    max_size=3,
).map(
    lambda rows: [
        budget(name=f"b{n}", selector=selector, unhealthy_policy=policy, **limit)
        for n, (limit, selector, policy) in enumerate(rows)
    ]
)


@given(budgets=some_budgets, pods=some_pods, data=st.data())
def test_what_may_go_one_after_the_other_never_leaves_a_budget_short(budgets, pods, data):
    ledger = BudgetTracker(budgets, pods)
    order = data.draw(st.permutations(pods))
    permitted = [verdict.pod for verdict in ledger.verdicts(order) if isinstance(verdict, EvictionPermitted)]
    # A pod that is pending or finished goes past its budgets, even if somebody left it a Ready condition.
    gone = {one.name for one in permitted if one.phase is PodPhase.RUNNING}
    for each in budgets:
        covered = [one for one in pods if covers(each, one)]
        before = sum(is_healthy(one) for one in covered)
        after = sum(is_healthy(one) for one in covered if one.name not in gone)
        # A budget that is short already loses nothing more.
        assert after >= min(before, allowance(each, pods).desired_healthy)


@given(budgets=some_budgets, pods=some_pods)
def test_the_ledger_knows_the_same_as_each_budget_asked_alone(budgets, pods):
    ledger = BudgetTracker(budgets, pods)
    assert [ledger.status(each) for each in budgets] == [allowance(each, pods) for each in budgets]
    assert [[held.name for held in ledger.covering(one)] for one in pods] == [
        [each.name for each in budgets if covers(each, one)] for one in pods
    ]


@given(budgets=some_budgets, pods=some_pods)
def test_who_may_go_with_others_may_go_alone(budgets, pods):
    ledger = BudgetTracker(budgets, pods)
    for together in ledger.verdicts(pods):
        if isinstance(together, EvictionPermitted):
            assert isinstance(ledger.verdict(together.pod), EvictionPermitted)
