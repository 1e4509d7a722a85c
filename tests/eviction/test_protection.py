"""Why a node stays though the fleet could do with fewer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.eviction.budgets import BudgetTracker, EvictionRefused
from nodefleet.eviction.drain import plan_drain
from nodefleet.eviction.protection import NodeProtection, find_protection
from nodefleet.model.decision import KeepReason
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Node
from nodefleet.model.operations import RemovalReason
from nodefleet.model.state import Backoff
from nodefleet.model.workload import (
    DO_NOT_DISRUPT,
    Budget,
    BudgetStatus,
    Owner,
    Pod,
    PodPhase,
    Selector,
    Volume,
    VolumeKind,
)
from nodefleet.policy.pool import RemovalRules
from support.wording import assert_wording

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
RULES = RemovalRules()
STRICT = RemovalRules(keep_single_replicas=True)
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
WEB = Owner(kind="ReplicaSet", name="web", replicas=3)
HOST_PATH = (Volume(kind=VolumeKind.HOST_PATH, name="logs"),)
NONE_ALLOWED = Budget(
    namespace="shop",
    name="web",
    selector=Selector(),
    min_available="1",
    status=BudgetStatus(disruptions_allowed=0, current_healthy=1, desired_healthy=1, expected_pods=1),
)


def worker(**changes) -> Worker:
    return Worker(id="i-1", pool="default", phase=Phase.READY, node=Node(name="w1", **changes))


def pod(**changes) -> Pod:
    return Pod(**({"namespace": "shop", "name": "web-1", "owner": WEB, "node": "w1"} | changes))


def protected(*pods, on=None, budgets=(), rules=RULES, backoffs=(), now=NOON) -> NodeProtection | None:
    return find_protection(on or worker(), pods, BudgetTracker(budgets, pods), rules, backoffs, now)


def reason(*pods, **more) -> KeepReason | None:
    found = protected(*pods, **more)
    return found.reason if found else None


def test_a_node_with_ordinary_pods_is_not_protected():
    assert protected(pod(), pod(name="web-2")) is None


def test_an_empty_node_is_not_protected():
    assert protected() is None


# ── the node ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "annotation",
    [
        "node-fleet.io/scale-down-disabled",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "karpenter.sh/do-not-disrupt",
    ],
)
def test_a_node_may_be_opted_out(annotation):
    assert protected(on=worker(annotations={annotation: "true"})) == NodeProtection(
        reason=KeepReason.OPTED_OUT, sentence=f"node w1 is annotated {annotation}=true"
    )
    assert protected(on=worker(annotations={annotation: "false"})) is None


def test_our_own_annotation_has_the_word_before_those_of_others():
    ours, other = "node-fleet.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"
    assert reason(on=worker(annotations={other: "true", ours: "false"})) is None
    assert reason(on=worker(annotations={other: "false", ours: "true"})) is KeepReason.OPTED_OUT


def test_what_a_person_cordoned_is_theirs_and_what_we_cordoned_is_ours():
    assert protected(on=worker(cordoned=True)) == NodeProtection(
        reason=KeepReason.CORDONED_BY_OPERATOR, sentence="an operator cordoned node w1"
    )
    assert protected(on=worker(cordoned=True, removal="r-1")) is None


@pytest.mark.parametrize(("until", "backs_off"), [(NOON + SECOND, True), (NOON, False), (NOON - SECOND, False)])
def test_a_node_that_could_not_be_drained_is_left_alone_for_a_while(until, backs_off):
    backoff = Backoff(node="w1", blocker="budget shop/web", failures=2, until=until)
    assert (reason(backoffs=[backoff]) is KeepReason.BACKING_OFF) is backs_off


def test_the_backoff_of_one_node_does_not_keep_another():
    others = Backoff(node="w2", blocker="", failures=1, until=NOON + SECOND)
    own = replace(others, node="w1")
    assert reason(backoffs=[others]) is None
    assert reason(backoffs=[others, own]) is KeepReason.BACKING_OFF


@pytest.mark.parametrize(("failures", "times"), [(1, "once"), (2, "2 times")])
def test_a_backoff_says_what_was_in_the_way_and_when_it_ends(failures, times):
    backoff = Backoff(node="w1", blocker="budget shop/web", failures=failures, until=NOON + timedelta(minutes=10))
    assert_wording(protected(backoffs=[backoff]).sentence)


def test_a_worker_without_a_node_has_only_its_backoff():
    gone = Worker(id="i-1", pool="default", phase=Phase.JOIN_FAILED)
    assert protected(on=gone) is None


# ── its pods ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("annotations", "sentence"),
    [
        ({"node-fleet.io/safe-to-evict": "false"}, "is marked as not safe to evict"),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, "is marked as not safe to evict"),
        ({"node-fleet.io/do-not-disrupt": "true"}, "is marked as not to be disrupted"),
        ({"karpenter.sh/do-not-disrupt": "true"}, "is marked as not to be disrupted"),
        ({"karpenter.sh/do-not-disrupt": "true"} | SAFE, "is marked as not to be disrupted"),
        ({"karpenter.sh/do-not-disrupt": "false"}, None),
        (SAFE, None),
    ],
)
def test_a_pod_may_opt_its_node_out(annotations, sentence):
    expected = sentence and NodeProtection(reason=KeepReason.POD_OPTED_OUT, sentence=f"pod shop/web-1 {sentence}")
    assert protected(pod(annotations=annotations)) == expected


DNS = pod(namespace="kube-system", name="dns")


def test_a_kube_system_pod_without_a_budget_keeps_its_node():
    assert protected(DNS) == NodeProtection(
        reason=KeepReason.KUBE_SYSTEM, sentence="pod kube-system/dns has no budget that says how many of it are needed"
    )


@pytest.mark.parametrize("namespace", ["kube-system", "shop"])
def test_only_a_budget_of_the_same_namespace_frees_a_kube_system_pod(namespace):
    some = Budget(namespace=namespace, name="all", selector=Selector(), min_available="0")
    assert reason(DNS, budgets=[some]) is (None if namespace == "kube-system" else KeepReason.KUBE_SYSTEM)


def test_a_kube_system_pod_is_like_others_when_it_is_marked_safe_or_the_policy_says_so():
    assert reason(replace(DNS, annotations=SAFE)) is None
    assert reason(DNS, rules=RemovalRules(kube_system=False)) is None


@pytest.mark.parametrize("owner", [None, replace(WEB, gone=True)])
def test_a_pod_without_a_controller_keeps_its_node(owner):
    assert protected(pod(owner=owner)) == NodeProtection(
        reason=KeepReason.UNMANAGED_POD, sentence="pod shop/web-1 has no controller: nothing would recreate it"
    )
    assert protected(pod(owner=owner, annotations=SAFE)) is None


@pytest.mark.parametrize(
    ("volume", "shown"),
    [
        (Volume(kind=VolumeKind.HOST_PATH, name="logs"), "hostPath logs"),
        (Volume(kind=VolumeKind.HOST_PATH), "hostPath"),
        (Volume(kind=VolumeKind.LOCAL, name="data", node="w1"), "local volume data"),
        (Volume(kind=VolumeKind.LOCAL, name="data"), "local volume data"),
        (Volume(kind=VolumeKind.CLAIM, name="data", node="w1"), "volume data"),
        (Volume(kind=VolumeKind.CLAIM, name="data", zones=("a",)), None),
        (Volume(kind=VolumeKind.EMPTY_DIR, name="scratch"), None),
    ],
)
def test_data_that_is_only_on_this_node_keeps_it(volume, shown):
    volumes = (Volume(kind=VolumeKind.EMPTY_DIR), volume)
    sentence = f"pod shop/web-1 has its data on this node: {shown}"
    assert protected(pod(volumes=volumes)) == (
        NodeProtection(reason=KeepReason.LOCAL_DATA, sentence=sentence) if shown else None
    )
    assert protected(pod(volumes=volumes, annotations=SAFE)) is None


def test_a_budget_that_lets_nobody_go_keeps_the_node_even_if_the_pod_is_marked_safe():
    expected = NodeProtection(
        reason=KeepReason.BUDGET, sentence="budget shop/web allows 0 disruptions: 1 of 1 healthy, 1 needed"
    )
    assert protected(pod(), budgets=[NONE_ALLOWED]) == expected
    assert protected(pod(annotations=SAFE), budgets=[NONE_ALLOWED]) == expected


def test_two_pods_of_a_budget_that_allows_one_at_a_time_do_not_keep_the_node():
    one_at_a_time = Budget(namespace="shop", name="web", selector=Selector(), max_unavailable="1")
    pods = [pod(name=f"web-{n}") for n in range(3)]
    assert protected(*pods, budgets=[one_at_a_time]) is None


def test_a_pod_with_several_budgets_keeps_the_node():
    budgets = [Budget(namespace="shop", name=name, selector=Selector(), min_available="0") for name in "ab"]
    assert reason(pod(), budgets=budgets) is KeepReason.BUDGET


@pytest.mark.parametrize(
    ("replicas", "sentence"),
    [
        (0, "pod shop/web-1 is the only one of StatefulSet db"),
        (1, "pod shop/web-1 is the only one of StatefulSet db"),
        (None, "pod shop/web-1 may be the only one of StatefulSet db: its replicas are not known"),
        (2, None),
    ],
)
def test_the_only_pod_of_a_statefulset_keeps_its_node(replicas, sentence):
    owner = Owner(kind="StatefulSet", name="db", replicas=replicas)
    assert protected(pod(owner=owner)) == (
        NodeProtection(reason=KeepReason.ONLY_STATEFUL_POD, sentence=sentence) if sentence else None
    )
    assert protected(pod(owner=owner, annotations=SAFE)) is None


@pytest.mark.parametrize(("replicas", "kept"), [(0, True), (1, True), (2, False), (None, False)])
def test_other_workloads_with_one_replica_keep_their_node_only_if_the_policy_says_so(replicas, kept):
    single = pod(owner=replace(WEB, replicas=replicas))
    assert protected(single) is None
    expected = NodeProtection(
        reason=KeepReason.SINGLE_REPLICA, sentence="pod shop/web-1 is the only one of ReplicaSet web"
    )
    assert protected(single, rules=STRICT) == (expected if kept else None)
    assert protected(replace(single, annotations=SAFE), rules=STRICT) is None


# ── who is not asked, and who is asked first ─────────────────────────────────────────────────────────────────────

DAEMON = Owner(kind="DaemonSet", name="agent")
WORST = pod(namespace="kube-system", owner=None, volumes=HOST_PATH, annotations={"karpenter.sh/do-not-disrupt": "true"})


@pytest.mark.parametrize(
    "change",
    [
        {"phase": PodPhase.SUCCEEDED},
        {"phase": PodPhase.FAILED},
        {"mirror": True},
        {"owner": DAEMON},
        {"owner": replace(DAEMON, gone=True)},
        {"deleted_at": NOON - timedelta(seconds=41), "grace": timedelta(seconds=30)},
    ],
)
def test_pods_that_need_not_be_moved_protect_nothing(change):
    assert reason(WORST) is KeepReason.POD_OPTED_OUT
    assert reason(replace(WORST, **change)) is None


def test_a_terminating_pod_still_counts_until_it_is_given_up():
    """Its successor may need what is on this node. Its word not to be disrupted is over: it goes already."""
    going = replace(WORST, deleted_at=NOON, grace=timedelta(seconds=30))
    assert reason(going, now=NOON + timedelta(seconds=40)) is KeepReason.KUBE_SYSTEM
    assert reason(going, now=NOON + timedelta(seconds=41)) is None


@pytest.mark.parametrize("annotation", DO_NOT_DISRUPT)
def test_a_terminating_pod_that_is_not_to_be_disrupted_does_not_keep_its_node(annotation):
    marked = pod(annotations={annotation: "true"}, grace=timedelta(days=30))
    assert reason(marked) is KeepReason.POD_OPTED_OUT
    assert reason(replace(marked, deleted_at=NOON)) is None


def test_the_leftover_of_a_deleted_daemonset_is_evicted_so_its_budget_counts():
    leftover = pod(owner=replace(DAEMON, gone=True), volumes=HOST_PATH)
    assert reason(leftover, budgets=[NONE_ALLOWED]) is KeepReason.BUDGET
    assert reason(replace(leftover, owner=DAEMON), budgets=[NONE_ALLOWED]) is None
    assert reason(replace(leftover, mirror=True), budgets=[NONE_ALLOWED]) is None


def test_a_persons_word_is_given_before_the_rules_of_caution_whatever_the_order_of_pods():
    single = pod(name="db-0", owner=Owner(kind="StatefulSet", name="db", replicas=1))
    naked = pod(name="naked", owner=None, volumes=HOST_PATH)
    asked = pod(name="asked", annotations={"karpenter.sh/do-not-disrupt": "true"})
    system = replace(DNS, owner=None)
    on_disk = pod(name="disk", volumes=HOST_PATH)
    backoff = Backoff(node="w1", blocker="", failures=1, until=NOON + SECOND)
    late_first = [pod(name="one", owner=replace(WEB, replicas=1)), single, on_disk, naked, system, asked]
    more = {"budgets": [NONE_ALLOWED], "rules": STRICT, "backoffs": [backoff]}
    opted_out = worker(cordoned=True, annotations={"karpenter.sh/do-not-disrupt": "true"})

    assert reason(*late_first, on=opted_out, **more) is KeepReason.OPTED_OUT
    assert reason(*late_first, on=worker(cordoned=True), **more) is KeepReason.CORDONED_BY_OPERATOR
    given_reasons = [reason(*late_first[:count], **more) for count in (6, 5, 4, 3, 2)]
    assert given_reasons == [
        KeepReason.POD_OPTED_OUT,
        KeepReason.KUBE_SYSTEM,
        KeepReason.UNMANAGED_POD,
        KeepReason.LOCAL_DATA,
        KeepReason.BUDGET,
    ]
    assert reason(*late_first[:2], rules=STRICT, backoffs=[backoff]) is KeepReason.ONLY_STATEFUL_POD
    assert reason(*late_first[:1], rules=STRICT, backoffs=[backoff]) is KeepReason.SINGLE_REPLICA
    assert reason(*late_first[:1], backoffs=[backoff]) is KeepReason.BACKING_OFF


# ── what holds for all ───────────────────────────────────────────────────────────────────────────────────────────

any_pod = st.builds(
    pod,
    namespace=st.sampled_from(["shop", "kube-system"]),
    owner=st.sampled_from([None, WEB, replace(WEB, gone=True), DAEMON, replace(DAEMON, gone=True)]),
    phase=st.sampled_from(PodPhase),
    ready=st.booleans(),
    mirror=st.booleans(),
    deleted_at=st.sampled_from([None, NOON - timedelta(hours=1), NOON]),
    annotations=st.sampled_from([{}, SAFE, {"node-fleet.io/safe-to-evict": "false"}]),
)
any_rules = st.builds(RemovalRules, keep_single_replicas=st.booleans(), kube_system=st.booleans())


@given(pods=st.lists(any_pod, max_size=4), rules=any_rules)
def test_a_node_whose_drain_would_be_blocked_is_always_protected(pods, rules):
    if plan_drain(pods, RemovalReason.VOLUNTARY, rules, NOON, since=NOON).blocked:
        assert protected(*pods, rules=rules) is not None


@given(pods=st.lists(any_pod, min_size=1, max_size=4), rules=any_rules)
def test_a_node_with_a_pod_to_evict_that_its_budget_keeps_is_always_protected(pods, rules):
    pods = [replace(each, name=f"p{n}") for n, each in enumerate(pods)]
    evicted = {plan.pod.name for plan in plan_drain(pods, RemovalReason.VOLUNTARY, rules, NOON, since=NOON).evict}
    ledger = BudgetTracker([NONE_ALLOWED], pods)
    if any(isinstance(ledger.verdict(each), EvictionRefused) for each in pods if each.name in evicted):
        assert find_protection(worker(), pods, ledger, rules, (), NOON) is not None
