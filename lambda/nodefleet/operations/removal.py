"""Removal of a node: cordon, drain, terminate or stop, delete the Node; or uncordon it.

The first matching row applies. Each iteration derives the steps from the observation, so each step is safe to repeat.

    observed                                             voluntary       interrupted     unhealthy
    an interrupted removal has the same instance         cancelled       -               cancelled
    EC2 or Kubernetes is unavailable                     clock stopped   drains on [1]   clock stopped
    the instance or node is not a worker of ours         cancelled       cancelled       cancelled
    EC2 does not list the instance, for less than 120 s  waits           waits           waits
    the same, and its node is ready                      waits           waits           waits
    the instance is gone, its Node is not                Node deleted    Node deleted    Node deleted
    both are gone                                        done            done            done
    shutting down                                        waits           waits           waits
    EC2 withdrew its notice                              uncordoned      uncordoned      -
    cancelled before the termination was requested       uncordoned      -               uncordoned
    the node is ready again                              -               -               uncordoned
    cordoned by an operator                              cancelled       drains          drains
    something blocks the drain, or the deadline [2]      failed [5]      -               -
    an operator removed our cordon                       waits [6]       cordoned again  cordoned again
    long past the deadline, and the instance still runs  -               uncordoned      -
    EC2 was asked to terminate it and has not            failed [5]      -               failed [5]
    not cordoned                                         cordoned        cordoned        cordoned
    past `force_from`, pods left [4]                     -               forced, alert   -
    past the deadline, pods left                         -               -               terminated [3]
    pods left                                            evicted as budgets permit now; the rest waits
    pods left, but no Node object                        waits: Kubernetes deletes them itself
    uncordon failing for drain_timeout                   failed, alert   failed, alert   failed, alert
    no pods left, with or without a Node                 terminated      terminated      terminated

[1] only if EC2 alone is unavailable; the instance is not terminated and the removal not closed then. The removal waits
    if EC2 has withdrawn the notice or is overdue with the interruption.
[2] see the blockers in `draining`. [3] the kubelet of a dead node cannot end its pods.
[4] except terminating StatefulSet pods on a ready node: their replacements would run beside them.
[5] the node is uncordoned and the removal closed as failed.
[6] for an interval if our taint is gone, too, as a stale view shows the same; then the removal is cancelled.
A removal that `keeps` its instance has it stopped instead of terminated; it ends when that is so and the Node deleted.
Uncordoning removes our own cordon only. After the termination was requested, the node is uncordoned only if EC2 does
not carry it out.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import InstanceState
from nodefleet.model.operations import (
    Close,
    Cordon,
    DeleteNode,
    DrainFailed,
    Evict,
    Feedback,
    ForceDelete,
    KeepWarm,
    Outcome,
    Readmitted,
    Removal,
    RemovalReason,
    Save,
    SendAlert,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import ClusterView, Missing, Observation
from nodefleet.operations.draining import Blocker, DrainingNode, blocker, instance_of, is_ours, node_of, not_terminated
from nodefleet.operations.progress import Progress, pods_are, rules_of, save_if_changed, seconds, with_silence
from nodefleet.phases import is_overdue
from nodefleet.policy.cluster import Policy


def cancel_removal(removal: Removal, reason: str) -> Removal:
    """The cancelled removal; the next iteration uncordons the node unless its termination was already requested."""
    return replace(removal, cancelled=removal.cancelled or reason)


def advance_removal(removal: Removal, observation: Observation, policy: Policy, fleet: Sequence[Worker]) -> Progress:
    if not _is_worker(removal, observation):
        return _close_removal(removal, Outcome.CANCELLED, f"{removal.instance} is not a worker of ours")
    if removal.why is not RemovalReason.INTERRUPTED and (interrupted := _turn_interrupted(removal, observation)):
        return _close_removal(
            removal, Outcome.CANCELLED, f"EC2 takes {removal.instance}: {interrupted.id} goes on with it"
        )
    view = None if isinstance(observation.kubernetes, Missing) else observation.kubernetes
    unseen = isinstance(observation.instances, Missing)
    pods = view.pods if view else None
    noted = with_silence(replace(removal, unlisted_since=None), observation.at, silent=unseen or pods is None)
    if removal.readmitting_since:  # no run could try while the API server did not answer
        noted = replace(noted, readmitting_since=removal.readmitting_since + noted.silent - removal.silent)
    waiting = Progress(steps=save_if_changed(removal, noted))

    instance = instance_of(removal, observation)
    if policy.pool(removal.pool) is None and instance and instance.state is InstanceState.RUNNING:
        noted = replace(noted, keeps=False)  # no pool would start it again
    if not unseen and instance is None:
        noted = replace(noted, unlisted_since=removal.unlisted_since or observation.at)
        return _advance_unlisted(removal, noted, observation, view, policy)
    if not unseen and instance and instance.state is InstanceState.TERMINATED:
        return _delete_node(removal, observation, view, policy) or waiting
    if instance and instance.state is InstanceState.SHUTTING_DOWN:
        return waiting
    if removal.keeps and removal.terminating and instance and instance.warm:
        if instance.state is InstanceState.STOPPED:
            return _delete_node(removal, observation, view, policy) or waiting
        if instance.state is InstanceState.STOPPING:
            return waiting
    if view is None or pods is None or (unseen and removal.why is not RemovalReason.INTERRUPTED):
        return waiting
    progress = _advance_node(removal, DrainingNode.of(noted, observation, view, pods, policy), fleet)
    silence_ended = removal.silent_since is not None and noted.silent_since is None
    if silence_ended and progress.steps and not isinstance(progress.steps[0], Save | Close):
        # Stored before a step that may fail permanently: otherwise the deadline would stay extended until it succeeds.
        return replace(progress, steps=(Save(noted), *progress.steps))
    return progress


def _advance_node(removal: Removal, draining: DrainingNode, fleet: Sequence[Worker]) -> Progress:
    match removal.why:
        case RemovalReason.VOLUNTARY:
            return _advance_voluntary(removal, draining, fleet)
        case RemovalReason.INTERRUPTED:
            return _advance_interrupted(removal, draining)
        case RemovalReason.UNHEALTHY:
            return _advance_unhealthy(removal, draining)
        case _:
            assert_never(removal.why)


def _is_worker(removal: Removal, observation: Observation) -> bool:
    instance = instance_of(removal, observation)
    node = None if isinstance(observation.kubernetes, Missing) else node_of(removal, observation.kubernetes)
    return (instance is None or instance.worker) and (node is None or is_ours(node))


def _turn_interrupted(removal: Removal, observation: Observation) -> Removal | None:
    """The removal that continues with this instance, because EC2 interrupts it."""
    for other in observation.operations:
        if isinstance(other, Removal) and other.why is RemovalReason.INTERRUPTED and other.instance == removal.instance:
            return other
    return None


def _advance_unlisted(
    before: Removal, noted: Removal, observation: Observation, view: ClusterView | None, policy: Policy
) -> Progress:
    """EC2 does not list the instance. A list may be incomplete, so the instance counts as gone only when a later
    observation agrees and the node is not ready."""
    node = node_of(noted, view) if view else None
    since = noted.unlisted_since or observation.at
    agreed = observation.at - since >= rules_of(policy, noted.pool).budgets.cleanup_after
    if agreed and not (node and node.ready):
        return _delete_node(noted, observation, view, policy) or Progress(steps=save_if_changed(before, noted))
    return Progress(steps=save_if_changed(before, noted))


def _delete_node(
    removal: Removal, observation: Observation, view: ClusterView | None, policy: Policy
) -> Progress | None:
    """The instance is gone: delete its Node. Without Kubernetes only the removal of an instance that never joined ends.

    A Node that cannot be deleted (a finalizer, a failing webhook) does not keep the removal open for ever: it becomes
    an orphan, and a cleanup that fails alerts operators.
    """
    if view is None and removal.node:
        return None
    node = node_of(removal, view) if view else None
    if node:
        since = removal.undeleted_since or observation.at
        if observation.at - since >= rules_of(policy, removal.pool).removal.drain_timeout:
            return _close_removal(
                removal, Outcome.DONE, f"{removal.instance} is gone, and {node.name} could not be deleted"
            )
        return Progress(
            steps=(*save_if_changed(removal, replace(removal, undeleted_since=since)), DeleteNode(node.name))
        )
    name = removal.node or removal.instance
    done = f"{name} is stopped and kept warm" if _is_kept(removal, observation) else f"{name} is gone"
    return _close_removal(removal, Outcome.DONE, done)


def _is_kept(removal: Removal, observation: Observation) -> bool:
    instance = instance_of(removal, observation)
    return removal.keeps and instance is not None and instance.state is InstanceState.STOPPED


# ── the three reasons to leave ───────────────────────────────────────────────────────────────────────────────────


def _advance_voluntary(before: Removal, draining: DrainingNode, fleet: Sequence[Worker]) -> Progress:
    removal, node = draining.removal, draining.node
    if not draining.ends:
        if removal.notice and draining.withdrawn:
            return _advance_withdrawn(draining)
        if removal.cancelled and (node or not removal.node):
            return _uncordon(draining, Outcome.CANCELLED, removal.cancelled, lessons=(_readmit(draining),))
        if node and node.cordoned and not node.removal:
            return _close_removal(removal, Outcome.CANCELLED, f"an operator cordoned {node.name}: it is theirs")
        # Checked before an operator's uncordon: after a crash, the missing cordon may come from our own aborted drain.
        if found := blocker(draining, fleet):
            return _give_up(draining, found)
        if node and removal.cordoned and not node.cordoned:
            since = removal.uncordoned_since or draining.now
            # Without our taint too: a stale view shows the time before our cordon, `kubectl uncordon` leaves the taint.
            if not draining.ours and draining.now - since < draining.interval:
                return Progress(steps=save_if_changed(before, replace(removal, uncordoned_since=since)))
            text = f"An operator uncordoned {node.name} while it was drained ({removal.reason}): it stays"
            return _uncordon(
                draining, Outcome.CANCELLED, f"an operator uncordoned {node.name}", text, lessons=(_readmit(draining),)
            )
    return _advance_drain(before, draining)


def _advance_interrupted(before: Removal, draining: DrainingNode) -> Progress:
    removal = draining.removal
    overdue = is_overdue(removal, draining.rules, draining.now)
    if draining.instance is None and (draining.withdrawn or overdue):
        return Progress(
            steps=save_if_changed(before, removal)
        )  # EC2 is unavailable: the node is uncordoned once EC2 shows that the instance runs
    if draining.runs and not draining.ends and draining.withdrawn:
        return _advance_withdrawn(draining)
    if draining.runs and not draining.ends and overdue:
        late = seconds(draining.now - removal.deadline)
        text = (
            f"EC2 did not take {removal.instance}: {late} after its time it still runs."
            f" {draining.name} takes pods again"
        )
        return _uncordon(draining, Outcome.CANCELLED, f"EC2 did not take it: it runs {late} after its time", text)
    if draining.node and draining.left and draining.now >= (removal.force_from or removal.deadline):
        return _force_evictions(before, draining)
    return _advance_drain(before, draining)


def _advance_withdrawn(draining: DrainingNode) -> Progress:
    text = f"EC2 has withdrawn the scheduled change of {draining.removal.instance}. {draining.name} takes pods again"
    return _uncordon(draining, Outcome.CANCELLED, "EC2 has withdrawn the scheduled change", text)


def _advance_unhealthy(before: Removal, draining: DrainingNode) -> Progress:
    removal = draining.removal
    if not draining.ends:
        if draining.node and draining.node.ready:
            return _uncordon(draining, Outcome.CANCELLED, "ready again")
        if removal.cancelled:
            return _uncordon(draining, Outcome.CANCELLED, removal.cancelled)
        if removal.terminating:
            refused = not_terminated(draining)
            text = f"Unhealthy node {draining.name} is still there: {refused.sentence}. {refused.remedy}"
            return _uncordon(
                draining,
                Outcome.FAILED,
                refused.sentence,
                text,
                alert=AlertKind.UNHEALTHY,
                about=f"{draining.name} {refused.name}",
            )
    if draining.now >= draining.deadline:
        return _terminate(before, draining)
    return _advance_drain(before, draining)


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _advance_drain(before: Removal, draining: DrainingNode) -> Progress:
    """The next step of the drain: cordon, then evict as budgets permit, then terminate."""
    draining = replace(draining, removal=replace(draining.removal, readmitting_since=None))
    if not draining.cordoned:
        return Progress(steps=(*save_if_changed(before, draining.removal), _cordon(draining)))
    if draining.plan.done:
        return _terminate(before, draining)
    pods_to_evict = draining.may_go
    evict = (Evict(node=draining.name, pods=pods_to_evict),) if pods_to_evict else ()
    after = replace(draining.removal, evicting=draining.removal.evicting or bool(pods_to_evict))
    return Progress(steps=(*save_if_changed(before, after), *evict))


def _force_evictions(before: Removal, draining: DrainingNode) -> Progress:
    """EC2 interrupts the node within seconds: a pod that is not deleted now would be lost a little later anyway."""
    pods = draining.to_force
    if not pods:
        return _advance_drain(before, draining)
    text = (
        f"EC2 takes {draining.name} at {draining.removal.deadline:%H:%M:%S}: {pods_are(len(pods))} deleted by"
        f" force, first {pods[0].namespace}/{pods[0].name}"
    )
    alerts = () if draining.removal.forced else (_alert(draining, AlertKind.FORCED, text),)
    cordon = () if draining.cordoned else (_cordon(draining),)
    delete = ForceDelete(node=draining.name, pods=pods)
    after = replace(draining.removal, evicting=True, forced=True, readmitting_since=None)
    return Progress(steps=(*alerts, *save_if_changed(before, after), *cordon, delete))


def _terminate(before: Removal, draining: DrainingNode) -> Progress:
    removal = draining.removal
    if draining.instance is None:
        return Progress(steps=save_if_changed(before, removal))
    after = replace(
        removal,
        terminating=True,
        asked_at=removal.asked_at if removal.terminating else draining.now,
        attempts=removal.attempts + 1,
    )
    end = KeepWarm if removal.keeps else Terminate
    return Progress(steps=(Save(after), end(draining.instance.id, removal.reason)))


def _give_up(draining: DrainingNode, found: Blocker) -> Progress:
    removal = draining.removal
    text = f"{draining.name} could not be drained: {found.sentence}. It takes pods again. {found.remedy}"
    lesson = DrainFailed(pool=removal.pool, node=draining.name, blocker=found.name, at=draining.now)
    return _uncordon(
        draining,
        Outcome.FAILED,
        found.sentence,
        text,
        alert=AlertKind.DRAIN_BLOCKED,
        about=found.name,
        lessons=(lesson,),
    )


def _uncordon(
    draining: DrainingNode,
    outcome: Outcome,
    detail: str,
    text: str = "",
    *,
    alert: AlertKind = AlertKind.READMITTED,
    about: str = "",
    lessons: tuple[Feedback, ...] = (),
) -> Progress:
    """Remove our own cordon and close the removal; an operator's cordon stays.

    A cordon that cannot be removed (a failing webhook) does not keep the removal open for ever: operators are alerted,
    and it becomes a stale cordon, which every iteration tries to remove. Feedback is given once, with the record of the
    first attempt.
    """
    removal, node = draining.removal, draining.node
    alerts = (_alert(draining, alert, text, about),) if text else ()
    close = Close(operation=removal.id, outcome=outcome, detail=detail)
    if node is None or not draining.ours:
        return Progress(steps=(*alerts, close), lessons=lessons)
    since = removal.readmitting_since
    if since is not None and draining.now - since >= draining.rules.drain_timeout:
        return _still_cordoned(draining, since)
    first = () if since else (Save(replace(removal, readmitting_since=draining.now)),)
    steps = (*first, Uncordon(draining.name, node.removal), *alerts, close)
    return Progress(steps=steps, lessons=() if since else lessons)


def _still_cordoned(draining: DrainingNode, since: datetime) -> Progress:
    text = (
        f"{draining.name} could not be uncordoned since {since:%H:%M:%S} and takes no pods. It is tried again. Look at"
        " admission webhooks and at the right to patch nodes"
    )
    close = Close(operation=draining.removal.id, outcome=Outcome.FAILED, detail="its cordon could not be taken off")
    return Progress(steps=(_alert(draining, AlertKind.CLEANUP_NEEDS_OPERATOR, text), close))


def _close_removal(removal: Removal, outcome: Outcome, detail: str) -> Progress:
    return Progress(steps=(Close(operation=removal.id, outcome=outcome, detail=detail),))


def _cordon(draining: DrainingNode) -> Cordon:
    removal = draining.removal
    return Cordon(node=draining.name, removal=removal.id, reason=removal.reason, deadline=removal.deadline)


def _readmit(draining: DrainingNode) -> Readmitted:
    return Readmitted(pool=draining.removal.pool, node=draining.name, at=draining.now)


def _alert(draining: DrainingNode, alert: AlertKind, text: str, about: str = "") -> SendAlert:
    return SendAlert(alert=alert, pool=draining.removal.pool, subjects=(about or draining.name,), text=text)
