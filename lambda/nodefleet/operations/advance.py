"""The entry points of this package: the next steps of an operation, and the observation after a step."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Instance, InstanceState, Node
from nodefleet.model.operations import (
    Assign,
    Cleanup,
    Cordon,
    DeleteNode,
    Evict,
    ForceDelete,
    KeepWarm,
    Launch,
    MarkFailed,
    Operation,
    PodRef,
    Removal,
    Step,
    Terminate,
    Uncordon,
)
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import NOTHING_REMEMBERED, Memory
from nodefleet.operations.cleanup import advance_cleanup
from nodefleet.operations.launch import advance_launch
from nodefleet.operations.progress import Progress
from nodefleet.operations.removal import advance_removal
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy


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
# Its certain effects, so that the decision of this iteration does not rest on stale state: a terminated instance is
# shutting down, an evicted pod is being deleted. Indirect effects appear in the next observation.


# ── the snapshot after a step ────────────────────────────────────────────────────────────────────────────────────────
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
