"""What becomes of each pod on a node that leaves.

The rules are those of `kubectl drain --ignore-daemonsets --delete-emptydir-data --force`, asked in its order: pods long
deleted, daemonsets, mirror pods, pods without a controller. One thing is stricter: nothing recreates a pod without a
controller again, so it goes only when the node is lost anyway, and otherwise blocks the removal.

A pod that tolerates every taint is evicted once like any other, and the scheduler may put its successor right back:
cordon and taint keep others off, not this one. Evicting it again would go on until the deadline, so it is left and ends
with the node; its place elsewhere was found before the node was chosen.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from nodefleet.model.operations import PodRef, RemovalReason
from nodefleet.model.workload import SAFE_TO_EVICT, Pod
from nodefleet.policy.pool import RemovalRules
from nodefleet.scheduling.predicates import tolerates_leaving


class DrainCourse(Enum):
    EVICT = "evict"
    WAIT = "wait"  # it goes by itself
    LEAVE = "leave"  # it does not hold up the drain
    BLOCK = "block"  # the node must not be drained


class DrainReason(Enum):
    STUCK = "stuck"
    DAEMON = "daemon"
    MIRROR = "mirror"
    TERMINATING = "terminating"
    FINISHED = "finished"
    ORPHANED_DAEMON = "orphaned-daemon"
    MANAGED = "managed"
    RETURNED = "returned"
    MARKED_SAFE = "marked-safe"
    UNMANAGED = "unmanaged"


_WORDS = {
    DrainReason.STUCK: "is stuck terminating and no longer waited for",
    DrainReason.DAEMON: "belongs to a daemonset and stays with its node",
    DrainReason.MIRROR: "is a static pod and stays with its node",
    DrainReason.TERMINATING: "is terminating",
    DrainReason.FINISHED: "has finished",
    DrainReason.ORPHANED_DAEMON: "belonged to a daemonset that is gone",
    DrainReason.MANAGED: "is made again by its controller",
    DrainReason.RETURNED: "tolerates every taint and came back: it ends with its node",
    DrainReason.MARKED_SAFE: "has no controller and is marked as safe to evict",
    DrainReason.UNMANAGED: "has no controller: nothing would recreate it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    pod: PodRef
    course: DrainCourse
    reason: DrainReason

    @property
    def sentence(self) -> str:
        return f"pod {self.pod.namespace}/{self.pod.name} {_WORDS[self.reason]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    evict: tuple[PodPlan, ...] = ()
    wait: tuple[PodPlan, ...] = ()
    leave: tuple[PodPlan, ...] = ()
    blocked: tuple[PodPlan, ...] = ()

    @property
    def to_evict(self) -> tuple[PodRef, ...]:
        return tuple(plan.pod for plan in self.evict)

    @property
    def returned(self) -> tuple[PodRef, ...]:
        return tuple(plan.pod for plan in self.leave if plan.reason is DrainReason.RETURNED)

    def waiting_for(self, pods: Collection[PodRef]) -> "DrainPlan":
        """The same, but these must not end with the node yet."""
        held = tuple(replace(plan, course=DrainCourse.WAIT) for plan in self.leave if plan.pod in pods)
        left = tuple(plan for plan in self.leave if plan.pod not in pods)
        return replace(self, wait=(*self.wait, *held), leave=left)

    @property
    def done(self) -> bool:
        """Nothing is left on the node that has to move."""
        return not (self.evict or self.wait or self.blocked)


def plan_drain(
    pods: Iterable[Pod], why: RemovalReason, rules: RemovalRules, now: datetime, *, since: datetime
) -> DrainPlan:
    """What becomes of the pods on a node that leaves `since` then. Budgets are asked apart from this."""
    plans: dict[DrainCourse, list[PodPlan]] = {course: [] for course in DrainCourse}
    for pod in pods:
        course, reason = _course(pod, why, rules, now, since)
        plans[course].append(PodPlan(pod=pod_ref(pod), course=course, reason=reason))
    return DrainPlan(
        evict=tuple(plans[DrainCourse.EVICT]),
        wait=tuple(plans[DrainCourse.WAIT]),
        leave=tuple(plans[DrainCourse.LEAVE]),
        blocked=tuple(plans[DrainCourse.BLOCK]),
    )


def pod_ref(pod: Pod) -> PodRef:
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def is_stuck(pod: Pod, rules: RemovalRules, now: datetime) -> bool:
    """It was to be gone long ago; its kubelet or a finalizer does not let go, and waiting does not help."""
    return pod.deleted_at is not None and now > pod.deleted_at + pod.grace + rules.stuck_after


def is_unmanaged(pod: Pod) -> bool:
    """No controller would make it again elsewhere."""
    return pod.movable and (pod.owner is None or pod.owner.gone)


def orphaned_daemon(pod: Pod) -> bool:
    """Its daemonset is gone: nothing ties it to the node any more."""
    return pod.owner is not None and pod.is_daemon and pod.owner.gone and not pod.mirror


def marked_safe(pod: Pod) -> bool:
    """Its owner's word that it may be moved; it outweighs every rule of caution, but no budget."""
    return pod.says(SAFE_TO_EVICT) == "true"


def _course(
    pod: Pod, why: RemovalReason, rules: RemovalRules, now: datetime, since: datetime
) -> tuple[DrainCourse, DrainReason]:
    if is_stuck(pod, rules, now):
        return DrainCourse.LEAVE, DrainReason.STUCK
    if pod.is_daemon and not pod.finished and not orphaned_daemon(pod):
        return DrainCourse.LEAVE, DrainReason.DAEMON
    if pod.mirror:
        return DrainCourse.LEAVE, DrainReason.MIRROR
    if pod.deleted_at is not None:
        return DrainCourse.WAIT, DrainReason.TERMINATING
    if pod.finished:
        return DrainCourse.EVICT, DrainReason.FINISHED
    if orphaned_daemon(pod):
        return DrainCourse.EVICT, DrainReason.ORPHANED_DAEMON
    if not is_unmanaged(pod):
        return _course_of_managed(pod, since)
    if marked_safe(pod):
        return DrainCourse.EVICT, DrainReason.MARKED_SAFE
    return (DrainCourse.BLOCK if why is RemovalReason.VOLUNTARY else DrainCourse.EVICT), DrainReason.UNMANAGED


def _course_of_managed(pod: Pod, since: datetime) -> tuple[DrainCourse, DrainReason]:
    if pod.created_at is not None and pod.created_at > since and tolerates_leaving(pod.rules):
        return DrainCourse.LEAVE, DrainReason.RETURNED
    return DrainCourse.EVICT, DrainReason.MANAGED
