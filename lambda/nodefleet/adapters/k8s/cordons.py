"""Nodes that leave, are let back in, change their pool and are forgotten: each write is checked against the node as
it is now.

Each reads the node, judges it, and writes on condition that nothing changed in between. If something did, it is read
and judged anew, a few times at most.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from nodefleet.adapters.k8s.calls import Api
from nodefleet.adapters.k8s.decoding import decoded
from nodefleet.adapters.k8s.nodes import node_from
from nodefleet.adapters.k8s.refusals import refusal
from nodefleet.adapters.k8s.resources import NODES, Request
from nodefleet.adapters.k8s.shapes import NodeShape, TaintedNode
from nodefleet.domain.machines import Node
from nodefleet.domain.names import LEAVING_TAINT, POOL_LABEL, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.domain.operations import Cordon
from nodefleet.domain.workload import Effect
from nodefleet.errors import ChangedError

_TRIES = 3
_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A node that was just read."""

    node: Node
    uid: str
    version: str
    annotated: str  # the removal that its annotation names, with or without our taint
    taints: list[dict[str, Any]]  # as they were written

    @property
    def has_our_taint(self) -> bool:
        return any(taint.get("key") == LEAVING_TAINT for taint in self.taints)

    @property
    def taints_of_others(self) -> list[dict[str, Any]]:
        return [taint for taint in self.taints if taint.get("key") != LEAVING_TAINT]


def find(api: Api, name: str) -> Found | None:
    request = NODES.get(name)
    answer = api.find(request)
    if answer is None:
        return None
    shape = decoded(request, answer.body, NodeShape)
    written = decoded(request, answer.body, TaintedNode)
    return Found(
        node=node_from(shape),
        uid=shape.metadata.uid,
        version=shape.metadata.resource_version,
        annotated=(shape.metadata.annotations or {}).get(REMOVAL_ANNOTATION, ""),
        taints=written.spec.taints or [],
    )


def cordon(api: Api, order: Cordon, instance: str) -> None:
    def patch(found: Found | None) -> Request:
        if found is None:
            raise ChangedError(f"node {order.node} is gone")
        _check_ours(found.node, instance)
        if found.node.cordoned and not found.has_our_taint:
            raise ChangedError(f"a person cordoned node {order.node}: it is theirs")
        ours = {"key": LEAVING_TAINT, "value": _stamp(order.deadline), "effect": Effect.NO_SCHEDULE.value}
        annotations = {REMOVAL_ANNOTATION: order.removal, REASON_ANNOTATION: _shortened(order.reason)}
        spec = {"unschedulable": True, "taints": [*found.taints_of_others, ours]}
        return _patch(found, annotations, spec)

    _write(api, order.node, patch)


def uncordon(api: Api, node: str, removal: str) -> None:
    def patch(found: Found | None) -> Request | None:
        if found is None or found.annotated != removal:
            return None
        annotations = {REMOVAL_ANNOTATION: None, REASON_ANNOTATION: None}
        # Without our taint a cordon is a person's, and only what we wrote beside it goes.
        ours = {"unschedulable": None, "taints": found.taints_of_others} if found.has_our_taint else {}
        return _patch(found, annotations, ours)

    _write(api, node, patch)


def assign(api: Api, node: str, instance: str, pool: str) -> None:
    def patch(found: Found | None) -> Request | None:
        if found is None:
            raise ChangedError(f"node {node} is gone")
        _check_ours(found.node, instance)
        if found.node.pool == pool:
            return None
        return NODES.patch(node, {"metadata": {"resourceVersion": found.version, "labels": {POOL_LABEL: pool}}})

    _write(api, node, patch)


def delete_node(api: Api, node: str, instance: str) -> None:
    def deletion(found: Found | None) -> Request | None:
        if found is None:
            return None
        _check_ours(found.node, instance)
        if found.node.ready:
            raise ChangedError(f"node {node} is ready: it is not deleted")
        return NODES.delete(node, {"preconditions": {"uid": found.uid, "resourceVersion": found.version}})

    _write(api, node, deletion)


def _write(api: Api, name: str, judged: Callable[[Found | None], Request | None]) -> None:
    """Send what `judged` makes of the node; none: nothing is to be done."""
    for _ in range(_TRIES):
        request = judged(find(api, name))
        if request is None:
            return
        answer = api.ask(request)
        if answer.fine:
            return
        if answer.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise refusal(request, answer.status, answer.body)
    raise ChangedError(f"node {name} changes faster than it can be written")


def _check_ours(node: Node, instance: str) -> None:
    """A worker of ours, and still this machine's. A node that names no machine is not another one's."""
    if node.control_plane or node.pool is None:
        raise ChangedError(f"node {node.name} is no worker of ours: it is never touched")
    if node.instance not in ("", instance):
        raise ChangedError(f"node {node.name} is {node.instance}'s by now, not {instance or 'a lost machine'}'s")


def _patch(found: Found, annotations: Mapping[str, str | None], spec: Mapping[str, Any]) -> Request:
    metadata = {"resourceVersion": found.version, "annotations": annotations}
    return NODES.patch(found.node.name, {"metadata": metadata, **({"spec": spec} if spec else {})})


def _stamp(deadline: datetime) -> str:
    """A taint's value is a label's: letters, digits, dots and dashes, but no colons."""
    return deadline.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _shortened(text: str) -> str:
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"
