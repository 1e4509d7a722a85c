"""Why a node must not be removed of our own accord.

Each rule is a function of a pod that gives a sentence or nothing; they are asked from the plainest word of an operator
to the most general caution, so that the reason given is the one an operator would look at first. An emptyDir does not
protect: what is in it is lost with any restart of the pod.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from nodefleet.eviction.budgets import BudgetTracker, EvictionRefused
from nodefleet.eviction.drain import is_stuck, is_unmanaged, marked_safe, orphaned_daemon
from nodefleet.model.decision import KeepReason
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Node
from nodefleet.model.state import Backoff
from nodefleet.model.workload import DO_NOT_DISRUPT, SAFE_TO_EVICT, SCALE_DOWN_DISABLED, Pod, Volume, VolumeKind
from nodefleet.policy.pool import RemovalRules

KUBE_SYSTEM = "kube-system"

_BOUND_KINDS = {VolumeKind.HOST_PATH: "hostPath", VolumeKind.LOCAL: "local volume"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProtection:
    reason: KeepReason
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProtectionRules:
    """What the rules may know besides the pod."""

    ledger: BudgetTracker
    rules: RemovalRules


_Rule: TypeAlias = Callable[[Pod, _ProtectionRules], str | None]


def find_protection(
    worker: Worker,
    pods: Iterable[Pod],
    ledger: BudgetTracker,
    rules: RemovalRules,
    backoffs: Iterable[Backoff],
    now: datetime,
) -> NodeProtection | None:
    """The first reason why this worker, with these pods on it, stays; none if nothing protects it."""
    return (
        _of_node(worker)
        or _of_pods(
            [pod for pod in pods if not is_stuck(pod, rules, now)], _ProtectionRules(ledger=ledger, rules=rules)
        )
        or _of_backoff(worker, backoffs, now)
    )


def _of_node(worker: Worker) -> NodeProtection | None:
    opted_out = _opt_out(worker.node) if worker.node else None
    if opted_out:
        sentence = f"node {worker.name} is annotated {opted_out}=true"
        return NodeProtection(reason=KeepReason.OPTED_OUT, sentence=sentence)
    if worker.held_by_person:
        return NodeProtection(
            reason=KeepReason.CORDONED_BY_OPERATOR, sentence=f"an operator cordoned node {worker.name}"
        )
    return None


def _opt_out(node: Node) -> str | None:
    """The annotation that opts the node out. The first one that is there has the word, ours before those of others."""
    spoken = next((name for name in SCALE_DOWN_DISABLED if name in node.annotations), None)
    return spoken if spoken and node.annotations[spoken] == "true" else None


def _of_pods(pods: Sequence[Pod], grounds: _ProtectionRules) -> NodeProtection | None:
    movable = [pod for pod in pods if pod.movable]
    # A daemonset's leftover is evicted like others: caution does not apply to it, its budget does.
    evicted = [pod for pod in pods if pod.movable or orphaned_daemon(pod)]
    for reason, rule in _RULES:
        for pod in evicted if rule is _budget else movable:
            sentence = rule(pod, grounds)
            if sentence:
                return NodeProtection(reason=reason, sentence=sentence)
    return None


def _of_backoff(worker: Worker, backoffs: Iterable[Backoff], now: datetime) -> NodeProtection | None:
    for backoff in backoffs:
        if backoff.node == worker.name and now < backoff.until:
            times = "once" if backoff.failures == 1 else f"{backoff.failures} times"
            sentence = (
                f"node {worker.name} could not be drained ({backoff.blocker}), {times} so far;"
                f" it is tried again at {backoff.until:%H:%M:%S}"
            )
            return NodeProtection(reason=KeepReason.BACKING_OFF, sentence=sentence)
    return None


def _pod_opted_out(pod: Pod, _: _ProtectionRules) -> str | None:
    if pod.deleted_at is not None:
        return None  # it is terminating already, and waiting for that disrupts nothing
    if pod.says(SAFE_TO_EVICT) == "false":
        return f"pod {pod.key} is marked as not safe to evict"
    if pod.says(DO_NOT_DISRUPT) == "true":
        return f"pod {pod.key} is marked as not to be disrupted"
    return None


def _kube_system(pod: Pod, grounds: _ProtectionRules) -> str | None:
    applies = grounds.rules.kube_system and pod.namespace == KUBE_SYSTEM and not marked_safe(pod)
    if not applies or grounds.ledger.covering(pod):
        return None
    return f"pod {pod.key} has no budget that says how many of it are needed"


def _unmanaged_pod(pod: Pod, _: _ProtectionRules) -> str | None:
    if not is_unmanaged(pod) or marked_safe(pod):
        return None
    return f"pod {pod.key} has no controller: nothing would recreate it"


def _local_data(pod: Pod, _: _ProtectionRules) -> str | None:
    if marked_safe(pod):
        return None
    bound = next((volume for volume in pod.volumes if volume.kind in _BOUND_KINDS or volume.node), None)
    return f"pod {pod.key} has its data on this node: {_show_volume(bound)}" if bound else None


def _budget(pod: Pod, grounds: _ProtectionRules) -> str | None:
    verdict = grounds.ledger.verdict(pod)
    return verdict.sentence if isinstance(verdict, EvictionRefused) else None


def _only_stateful_pod(pod: Pod, _: _ProtectionRules) -> str | None:
    owner = pod.owner
    if owner is None or owner.kind != "StatefulSet" or marked_safe(pod):
        return None
    if owner.replicas is None:  # an unknown number of replicas protects
        return f"pod {pod.key} may be the only one of StatefulSet {owner.name}: its replicas are not known"
    return f"pod {pod.key} is the only one of StatefulSet {owner.name}" if owner.replicas <= 1 else None


def _single_replica(pod: Pod, grounds: _ProtectionRules) -> str | None:
    owner = pod.owner
    if not grounds.rules.keep_single_replicas or owner is None or marked_safe(pod):
        return None
    is_single = owner.replicas is not None and owner.replicas <= 1
    return f"pod {pod.key} is the only one of {owner.kind} {owner.name}" if is_single else None


def _show_volume(volume: Volume) -> str:
    kind = _BOUND_KINDS.get(volume.kind, "volume")
    return f"{kind} {volume.name}" if volume.name else kind


_RULES: tuple[tuple[KeepReason, _Rule], ...] = (
    (KeepReason.POD_OPTED_OUT, _pod_opted_out),
    (KeepReason.KUBE_SYSTEM, _kube_system),
    (KeepReason.UNMANAGED_POD, _unmanaged_pod),
    (KeepReason.LOCAL_DATA, _local_data),
    (KeepReason.BUDGET, _budget),
    (KeepReason.ONLY_STATEFUL_POD, _only_stateful_pod),
    (KeepReason.SINGLE_REPLICA, _single_replica),
)
