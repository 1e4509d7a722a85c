"""What a look would show after a step that was just taken, so that the decision does not rest on a world that is gone.

Only what is certain is changed. A terminated machine is shutting down, an evicted pod is on its way out; whatever else
comes of it the next look shows.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from nodefleet.domain.machines import Instance, InstanceState, Node
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import (
    Assign,
    Cordon,
    DeleteNode,
    Evict,
    ForceDelete,
    MarkFailed,
    PodRef,
    Step,
    Terminate,
    Uncordon,
)
from nodefleet.domain.readings import Missing

T = TypeVar("T")


def aftermath(seen: Observation, step: Step) -> Observation:
    match step:
        case Cordon():
            return _nodes(seen, step.node, lambda node: replace(node, cordoned=True, removal=step.removal))
        case Uncordon(name, removal):
            return _nodes(seen, name, lambda node: _let_in(node, removal))
        case DeleteNode(name):
            return _nodes(seen, name, lambda _: None)
        case Evict() | ForceDelete():
            return _pods(seen, frozenset(step.pods))
        case Terminate(identity, _):
            return _instances(seen, identity, lambda it: replace(it, state=InstanceState.SHUTTING_DOWN))
        case Assign():
            labelled = _nodes(seen, step.node, lambda node: replace(node, pool=step.pool))
            return _instances(labelled, step.instance, lambda it: replace(it, pool=step.pool))
        case MarkFailed(identity):
            return _instances(seen, identity, lambda it: replace(it, failed=True))
        case _:
            return seen


def _let_in(node: Node, removal: str) -> Node:
    return replace(node, cordoned=False, removal="") if node.removal == removal else node


def _nodes(seen: Observation, name: str, change: Callable[[Node], Node | None]) -> Observation:
    if isinstance(seen.kubernetes, Missing):
        return seen
    nodes = _changed(seen.kubernetes.nodes, lambda node: node.name == name, change)
    return replace(seen, kubernetes=replace(seen.kubernetes, nodes=nodes))


def _pods(seen: Observation, going: frozenset[PodRef]) -> Observation:
    if isinstance(seen.kubernetes, Missing) or seen.kubernetes.pods is None:
        return seen
    uids = {ref.uid for ref in going}
    pods = _changed(
        seen.kubernetes.pods,
        lambda pod: pod.uid in uids and pod.deleted_at is None,
        lambda pod: replace(pod, deleted_at=seen.at),
    )
    return replace(seen, kubernetes=replace(seen.kubernetes, pods=pods))


def _instances(seen: Observation, identity: str, change: Callable[[Instance], Instance]) -> Observation:
    if isinstance(seen.instances, Missing):
        return seen
    return replace(seen, instances=_changed(seen.instances, lambda it: it.id == identity, change))


def _changed(items: tuple[T, ...], which: Callable[[T], bool], change: Callable[[T], T | None]) -> tuple[T, ...]:
    changed = (change(item) if which(item) else item for item in items)
    return tuple(item for item in changed if item is not None)
