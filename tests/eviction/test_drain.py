"""What becomes of each pod on a leaving node."""

from datetime import UTC, datetime, timedelta

import pytest

from nodefleet.eviction.drain import DrainCourse, DrainReason, PodPlan, is_stuck, is_unmanaged, plan_drain, pod_ref
from nodefleet.model.operations import PodRef, RemovalReason
from nodefleet.model.workload import DAEMON_POD, Owner, Pod, PodPhase, Rules, Toleration, Volume, VolumeKind
from nodefleet.policy.pool import RemovalRules
from support.wording import assert_wording

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
RULES = RemovalRules(stuck_after=timedelta(seconds=10))
STARTED = NOON - timedelta(seconds=60)
EVERYTHING = Rules(tolerations=(Toleration(operator="Exists"),))
CORDON_ALONE = Rules(tolerations=(Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),))
SCRATCH = (Volume(kind=VolumeKind.EMPTY_DIR, name="scratch"),)
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
DAEMON = {DAEMON_POD: "true"}
DONE, FAILED = PodPhase.SUCCEEDED, PodPhase.FAILED


def owned_by(kind: str, *, gone: bool = False) -> Owner:
    return Owner(kind=kind, name="it", gone=gone)


def pod(**changes) -> Pod:
    return Pod(**({"name": "bar", "uid": "u1", "owner": owned_by("ReplicaSet")} | changes))


def fate(one: Pod, why: RemovalReason = RemovalReason.VOLUNTARY, now: datetime = NOON) -> tuple[str, str]:
    """The one list of the plan in which the pod is, and the reason."""
    plan = plan_drain([one], why, RULES, now, since=STARTED)
    lists = {"evict": plan.evict, "wait": plan.wait, "leave": plan.leave, "blocked": plan.blocked}
    ((name, entry),) = [(name, entry) for name, entries in lists.items() for entry in entries]
    assert entry.pod == pod_ref(one)
    assert name.startswith(entry.course.value)
    return name, entry.reason.value


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"owner": owned_by("ReplicationController")}, ("evict", "managed")),
        ({"owner": owned_by("ReplicaSet")}, ("evict", "managed")),
        ({"owner": owned_by("StatefulSet")}, ("evict", "managed")),
        ({"owner": owned_by("Widget")}, ("evict", "managed")),
        ({"owner": owned_by("Job"), "volumes": SCRATCH}, ("evict", "managed")),
        ({"owner": owned_by("Job"), "volumes": SCRATCH, "phase": DONE}, ("evict", "finished")),
        ({"phase": PodPhase.PENDING}, ("evict", "managed")),
        ({"annotations": DAEMON}, ("leave", "daemon")),
        ({"annotations": DAEMON, "owner": None}, ("leave", "daemon")),
        ({"annotations": {DAEMON_POD: "false"}}, ("evict", "managed")),
        ({"owner": owned_by("Job", gone=True)}, ("blocked", "unmanaged")),
        # It came back: evicting it again would never end.
        ({"rules": EVERYTHING, "created_at": NOON}, ("leave", "returned")),
        ({"rules": EVERYTHING, "created_at": STARTED}, ("evict", "managed")),
        ({"rules": EVERYTHING}, ("evict", "managed")),
        ({"rules": EVERYTHING, "created_at": NOON, "deleted_at": NOON}, ("wait", "terminating")),
        ({"rules": EVERYTHING, "created_at": NOON, "owner": None}, ("blocked", "unmanaged")),
        ({"rules": CORDON_ALONE, "created_at": NOON}, ("evict", "managed")),
        ({"ready": False}, ("evict", "managed")),
        ({"owner": owned_by("DaemonSet")}, ("leave", "daemon")),
        ({"owner": owned_by("DaemonSet"), "volumes": SCRATCH}, ("leave", "daemon")),
        ({"owner": owned_by("DaemonSet"), "phase": DONE}, ("evict", "finished")),
        ({"owner": owned_by("DaemonSet"), "phase": FAILED}, ("evict", "finished")),
        ({"owner": owned_by("DaemonSet"), "deleted_at": NOON}, ("leave", "daemon")),
        ({"owner": owned_by("DaemonSet", gone=True)}, ("evict", "orphaned-daemon")),
        ({"owner": owned_by("DaemonSet", gone=True), "deleted_at": NOON}, ("wait", "terminating")),
        ({"mirror": True}, ("leave", "mirror")),
        ({"mirror": True, "owner": None}, ("leave", "mirror")),
        ({"mirror": True, "phase": DONE}, ("leave", "mirror")),
        ({"mirror": True, "deleted_at": NOON}, ("leave", "mirror")),
        ({"owner": None}, ("blocked", "unmanaged")),
        ({"owner": None, "volumes": SCRATCH}, ("blocked", "unmanaged")),
        ({"owner": None, "volumes": SCRATCH, "phase": FAILED}, ("evict", "finished")),
        ({"owner": None, "phase": PodPhase.PENDING}, ("blocked", "unmanaged")),
        ({"owner": None, "deleted_at": NOON}, ("wait", "terminating")),
        ({"owner": None, "annotations": SAFE}, ("evict", "marked-safe")),
        ({"owner": owned_by("ReplicaSet", gone=True)}, ("blocked", "unmanaged")),
        ({"owner": owned_by("ReplicaSet", gone=True), "phase": DONE}, ("evict", "finished")),
        ({"phase": DONE, "deleted_at": NOON}, ("wait", "terminating")),
    ],
)
def test_what_becomes_of_a_pod_when_we_remove_the_node_of_our_own_accord(change, expected):
    assert fate(pod(**change)) == expected


@pytest.mark.parametrize("why", [RemovalReason.INTERRUPTED, RemovalReason.UNHEALTHY])
@pytest.mark.parametrize("owner", [None, owned_by("ReplicaSet", gone=True)])
def test_a_pod_without_a_controller_goes_when_the_node_is_lost_anyway(why, owner):
    assert fate(pod(owner=owner), why) == ("evict", "unmanaged")


@pytest.mark.parametrize("why", [RemovalReason.INTERRUPTED, RemovalReason.UNHEALTHY])
def test_a_lost_node_keeps_its_daemons_and_its_static_pods(why):
    assert fate(pod(owner=owned_by("DaemonSet")), why) == ("leave", "daemon")
    assert fate(pod(mirror=True), why) == ("leave", "mirror")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "wait"), (1, "wait"), (30, "wait"), (49, "wait"), (50, "wait"), (51, "leave"), (100, "leave")],
)
def test_a_terminating_pod_is_waited_for_until_its_grace_and_ten_seconds_are_over(seconds, expected):
    one = pod(deleted_at=NOON, grace=timedelta(seconds=40))
    assert fate(one, now=NOON + timedelta(seconds=seconds))[0] == expected


def test_a_pod_long_deleted_is_left_before_anything_else_is_asked():
    later = NOON + timedelta(hours=1)
    assert fate(pod(deleted_at=NOON, owner=None), now=later) == ("leave", "stuck")
    assert fate(pod(deleted_at=NOON, phase=DONE), now=later) == ("leave", "stuck")
    assert fate(pod(deleted_at=NOON, owner=owned_by("DaemonSet")), now=later) == ("leave", "stuck")


def test_a_pod_that_nobody_deleted_is_never_stuck():
    assert not is_stuck(pod(), RULES, NOON + timedelta(days=365))


@pytest.mark.parametrize(
    ("pods", "done"),
    [
        ([], True),
        ([pod(owner=owned_by("DaemonSet")), pod(mirror=True), pod(deleted_at=NOON - timedelta(hours=1))], True),
        ([pod()], False),
        ([pod(deleted_at=NOON)], False),
        ([pod(owner=None)], False),
        ([pod(phase=DONE)], False),
    ],
)
def test_a_drain_is_done_when_only_pods_that_stay_are_left(pods, done):
    assert plan_drain(pods, RemovalReason.VOLUNTARY, RULES, NOON, since=STARTED).done is done


def test_a_plan_keeps_the_order_and_names_pods_by_their_identity():
    pods = [pod(name="b", uid="2"), pod(name="d", mirror=True), pod(namespace="shop", name="a", uid="1")]
    plan = plan_drain(pods, RemovalReason.VOLUNTARY, RULES, NOON, since=STARTED)
    assert plan.to_evict == (
        PodRef(namespace="default", name="b", uid="2"),
        PodRef(namespace="shop", name="a", uid="1"),
    )
    assert plan.leave == (PodPlan(pod=pod_ref(pods[1]), course=DrainCourse.LEAVE, reason=DrainReason.MIRROR),)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (DrainReason.STUCK, "is stuck terminating and no longer waited for"),
        (DrainReason.DAEMON, "belongs to a daemonset and stays with its node"),
        (DrainReason.MIRROR, "is a static pod and stays with its node"),
        (DrainReason.TERMINATING, "is terminating"),
        (DrainReason.FINISHED, "has finished"),
        (DrainReason.ORPHANED_DAEMON, "belonged to a daemonset that is gone"),
        (DrainReason.MANAGED, "is made again by its controller"),
        (DrainReason.MARKED_SAFE, "has no controller and is marked as safe to evict"),
        (DrainReason.UNMANAGED, "has no controller: nothing would recreate it"),
    ],
)
def test_every_reason_reads_as_a_sentence(reason, words):
    plan = PodPlan(pod=pod_ref(pod(namespace="shop")), course=DrainCourse.LEAVE, reason=reason)
    assert_wording(plan.sentence)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"owner": None}, True),
        ({"owner": owned_by("ReplicaSet", gone=True)}, True),
        ({"owner": owned_by("DaemonSet", gone=True)}, False),
        ({"owner": None, "mirror": True}, False),
        ({"owner": None, "phase": DONE}, False),
    ],
)
def test_unmanaged_is_who_should_run_elsewhere_and_would_not(change, expected):
    assert is_unmanaged(pod(**change)) is expected
