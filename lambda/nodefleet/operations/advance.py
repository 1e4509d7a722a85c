"""The entry points of this package: the next steps of an operation, and the observation after a step.

Launches and removals have a module each. Cleanups are short and are advanced here.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Instance, InstanceState, Node
from nodefleet.model.operations import (
    Assign,
    Cleanup,
    Close,
    Cordon,
    DeleteNode,
    Evict,
    ForceDelete,
    KeepWarm,
    Launch,
    MarkFailed,
    Operation,
    OrphanKind,
    Outcome,
    PodRef,
    Removal,
    Save,
    SendAlert,
    Step,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import Missing, Observation
from nodefleet.model.state import NOTHING_REMEMBERED, Memory
from nodefleet.operations.launch import advance_launch
from nodefleet.operations.progress import NOTHING_YET, Progress, rules_of, seconds
from nodefleet.operations.removal import advance_removal
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy

# ── cleanup ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Cleanup of an orphan: a Node whose instance is gone, or an instance that belongs to no node.
#
# Deletion cannot be undone, so the orphan is checked again before each step, and only the id that the cleanup names is
# ever touched.
#
#     the Node                              the instance                            action
#     is gone                               is terminated or gone                   closed as done
#     -                                     is shutting down                        waits
#     has its instance back, or is no       has a ready node, is no worker, is a    closed as cancelled
#     worker                                member or may still join
#     is past the deadline                  is past the deadline                    alert, closed as failed
#     is orphaned for too short a time      is orphaned for too short a time        waits
#     is ready, but EC2 lists no instance   -                                       waits: EC2's list may be wrong
#     is still orphaned                     is still orphaned                       deleted or terminated until gone
#
# Without EC2's list the cleanup does not advance. Without Kubernetes nothing is deleted and no deadline passes.

_UNOWNED_PHASES = frozenset({Phase.JOIN_FAILED, Phase.STOPPED, Phase.WARM})


def advance_cleanup(cleanup: Cleanup, observation: Observation, policy: Policy, fleet: Sequence[Worker]) -> Progress:
    if isinstance(observation.instances, Missing):
        return NOTHING_YET
    match cleanup.debris:
        case OrphanKind.NODE:
            return _clean_node(cleanup, observation, policy, fleet)
        case OrphanKind.INSTANCE:
            return _clean_instance(cleanup, observation, observation.instances, policy, fleet)
        case _:
            assert_never(cleanup.debris)


def _clean_node(cleanup: Cleanup, observation: Observation, policy: Policy, fleet: Sequence[Worker]) -> Progress:
    if isinstance(observation.kubernetes, Missing):
        return NOTHING_YET
    node = next((node for node in observation.kubernetes.nodes if node.name == cleanup.target), None)
    if node is None:
        return _close_cleanup(cleanup, Outcome.DONE, f"node {cleanup.target} is gone")
    worker = next((worker for worker in fleet if worker.node and worker.node.name == cleanup.target), None)
    if worker is None:
        return _close_cleanup(cleanup, Outcome.CANCELLED, f"node {node.name} is not ours to delete")
    if worker.phase is not Phase.ORPHANED:
        return _close_cleanup(cleanup, Outcome.CANCELLED, f"node {node.name} is not orphaned: {worker.phase.value}")
    return _destroy(cleanup, observation, policy, DeleteNode(node.name), wait=node.ready)


def _clean_instance(
    cleanup: Cleanup, observation: Observation, instances: Sequence[Instance], policy: Policy, fleet: Sequence[Worker]
) -> Progress:
    instance = next((instance for instance in instances if instance.id == cleanup.target), None)
    if instance is None or instance.state is InstanceState.TERMINATED:
        return _close_cleanup(cleanup, Outcome.DONE, f"instance {cleanup.target} is gone")
    if instance.state is InstanceState.SHUTTING_DOWN or isinstance(observation.kubernetes, Missing):
        return NOTHING_YET
    worker = next((worker for worker in fleet if worker.instance and worker.id == cleanup.target), None)
    if worker is None:
        return _close_cleanup(cleanup, Outcome.CANCELLED, f"instance {instance.id} is not ours to terminate")
    if worker.node and worker.node.ready:
        return _close_cleanup(
            cleanup, Outcome.CANCELLED, f"instance {instance.id} is the ready node {worker.node.name}"
        )
    if policy.pool(instance.pool) and worker.phase not in _UNOWNED_PHASES:
        return _close_cleanup(
            cleanup, Outcome.CANCELLED, f"instance {instance.id} is not orphaned: {worker.phase.value}"
        )
    return _destroy(cleanup, observation, policy, Terminate(instance.id, cleanup.reason), wait=False)


def _destroy(
    cleanup: Cleanup, observation: Observation, policy: Policy, step: DeleteNode | Terminate, *, wait: bool
) -> Progress:
    if observation.at >= cleanup.deadline:
        text = (
            f"{cleanup.debris.value} {cleanup.target} could not be cleaned up within"
            f" {seconds(cleanup.deadline - cleanup.started)} ({cleanup.reason}). Look at it and remove it by hand"
        )
        alert = SendAlert(
            alert=AlertKind.CLEANUP_NEEDS_OPERATOR, pool=cleanup.pool, subjects=(cleanup.target,), text=text
        )
        detail = f"{cleanup.debris.value} {cleanup.target} is still there"
        return Progress(steps=(alert, Close(operation=cleanup.id, outcome=Outcome.FAILED, detail=detail)))
    if wait or observation.at - cleanup.first_seen < rules_of(policy, cleanup.pool).budgets.cleanup_after:
        return NOTHING_YET
    return Progress(steps=(Save(replace(cleanup, attempts=cleanup.attempts + 1)), step))


def _close_cleanup(cleanup: Cleanup, outcome: Outcome, detail: str) -> Progress:
    return Progress(steps=(Close(operation=cleanup.id, outcome=outcome, detail=detail),))


# ── =entry points ────────────────────────────────────────────────────────────────────────────────────────────────────


def advance(
    operation: Operation,
    observation: Observation,
    policy: Policy,
    fleet: Sequence[Worker] | None = None,
    memory: Memory = NOTHING_REMEMBERED,
) -> Progress:
    """The next steps of the operation and its feedback. `fleet` is the result of derive_workers, for callers that
    already have it. A launch needs the memory to count instances that EC2 does not list but that may still exist."""
    fleet = derive_workers(observation, policy) if fleet is None else fleet
    match operation:
        case Launch():
            return advance_launch(operation, observation, policy, fleet, memory)
        case Removal():
            return advance_removal(operation, observation, policy, fleet)
        case Cleanup():
            return advance_cleanup(operation, observation, policy, fleet)
        case _:
            assert_never(operation)


# ── the observation after a step ─────────────────────────────────────────────────────────────────────────────────────
# `apply_step` updates the observation with the certain effects of an executed step, so that the decision of this
# iteration does not rest on stale state: a terminated instance is shutting down, an evicted pod is being deleted.
# Indirect effects appear in the next observation.


T = TypeVar("T")


def apply_step(observation: Observation, step: Step) -> Observation:
    match step:
        case Cordon():
            return _change_node(observation, step.node, lambda node: replace(node, cordoned=True, removal=step.removal))
        case Uncordon(name, removal):
            return _change_node(observation, name, lambda node: _mark_schedulable(node, removal))
        case DeleteNode(name):
            return _change_node(observation, name, lambda _: None)
        case Evict() | ForceDelete():
            return _mark_pods_deleted(observation, frozenset(step.pods))
        case Terminate(identity, _):
            return _change_instance(observation, identity, lambda it: replace(it, state=InstanceState.SHUTTING_DOWN))
        case KeepWarm(identity, _):
            return _change_instance(
                observation, identity, lambda it: replace(it, state=InstanceState.STOPPING, warm=True)
            )
        case Assign():
            labelled = _change_node(observation, step.node, lambda node: replace(node, pool=step.pool))
            return _change_instance(labelled, step.instance, lambda it: replace(it, pool=step.pool))
        case MarkFailed(identity):
            return _change_instance(observation, identity, lambda it: replace(it, failed=True))
        case _:
            return observation


def _mark_schedulable(node: Node, removal: str) -> Node:
    return replace(node, cordoned=False, removal="") if node.removal == removal else node


def _change_node(observation: Observation, name: str, change: Callable[[Node], Node | None]) -> Observation:
    if isinstance(observation.kubernetes, Missing):
        return observation
    nodes = _replace_items(observation.kubernetes.nodes, lambda node: node.name == name, change)
    return replace(observation, kubernetes=replace(observation.kubernetes, nodes=nodes))


def _mark_pods_deleted(observation: Observation, evicted: frozenset[PodRef]) -> Observation:
    if isinstance(observation.kubernetes, Missing) or observation.kubernetes.pods is None:
        return observation
    uids = {ref.uid for ref in evicted}
    pods = _replace_items(
        observation.kubernetes.pods,
        lambda pod: pod.uid in uids and pod.deleted_at is None,
        lambda pod: replace(pod, deleted_at=observation.at),
    )
    return replace(observation, kubernetes=replace(observation.kubernetes, pods=pods))


def _change_instance(observation: Observation, identity: str, change: Callable[[Instance], Instance]) -> Observation:
    if isinstance(observation.instances, Missing):
        return observation
    return replace(observation, instances=_replace_items(observation.instances, lambda it: it.id == identity, change))


def _replace_items(items: tuple[T, ...], which: Callable[[T], bool], change: Callable[[T], T | None]) -> tuple[T, ...]:
    changed = (change(item) if which(item) else item for item in items)
    return tuple(item for item in changed if item is not None)
