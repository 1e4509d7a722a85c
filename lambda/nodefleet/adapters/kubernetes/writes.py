"""Writes: cordons, evictions, deletions, and events on Node objects. Each is checked against the object first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import msgspec

from nodefleet.adapters.kubernetes.client import Api, Response, Status, decode, refusal_error, status_in
from nodefleet.adapters.kubernetes.objects import Meta, NodeShape, TaintedNode
from nodefleet.adapters.kubernetes.reads import node_from
from nodefleet.adapters.kubernetes.resources import EVENTS, NODES, PODS, Request
from nodefleet.errors import ChangedError
from nodefleet.model.inventory import Effect, Node
from nodefleet.model.names import LEAVING_TAINT, POOL_LABEL, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.model.operations import Cordon, PodRef
from nodefleet.ports import Eviction, EvictionOutcome

# ── cordons ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Nodes that leave, are uncordoned, change their pool and are forgotten: each write is checked against the node as
# it is now.
#
# Each reads the node, judges it, and writes on condition that nothing changed in between. If something did, it is read
# and judged again, a few times at most.


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
    shape = decode(request, answer.body, NodeShape)
    written = decode(request, answer.body, TaintedNode)
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
            raise ChangedError(f"an operator cordoned node {order.node}: it is theirs")
        ours = {"key": LEAVING_TAINT, "value": _stamp(order.deadline), "effect": Effect.NO_SCHEDULE.value}
        annotations = {REMOVAL_ANNOTATION: order.removal, REASON_ANNOTATION: _shorten_reason(order.reason)}
        spec = {"unschedulable": True, "taints": [*found.taints_of_others, ours]}
        return _patch(found, annotations, spec)

    _write(api, order.node, patch)


def uncordon(api: Api, node: str, removal: str) -> None:
    def patch(found: Found | None) -> Request | None:
        if found is None or found.annotated != removal:
            return None
        annotations = {REMOVAL_ANNOTATION: None, REASON_ANNOTATION: None}
        # Without our taint a cordon is an operator's, and only what we wrote beside it goes.
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


def annotate(api: Api, node: str, annotations: Mapping[str, str | None]) -> None:
    """For operators: none takes an annotation off."""

    def patch(found: Found | None) -> Request:
        if found is None:
            raise ChangedError(f"node {node} is gone")
        return _patch(found, annotations, {})

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
            raise refusal_error(request, answer.status, answer.body)
    raise ChangedError(f"node {name} changes faster than it can be written")


def _check_ours(node: Node, instance: str) -> None:
    """A worker of ours, and still this instance's. A node that names no instance is not another one's."""
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


def _shorten_reason(text: str) -> str:
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"


# ── evictions ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Pods on their way out: evicted as their budgets allow, or deleted by force. Only the pod with this uid is meant.
#
# The Eviction API speaks in codes that mean several things: 429 is a budget's refusal or a busy server, 403 a namespace
# that is being deleted, a budget in disorder, or a missing permission, 409 another pod of that name or a mere race.


_BUDGET_CAUSE = "DisruptionBudget"
_NAMESPACE_CAUSE = "NamespaceTerminating"
_BUDGET_KIND = "poddisruptionbudget"
_SEVERAL = "more than one PodDisruptionBudget"
_ADMISSION = ("admission webhook", "ValidatingAdmissionPolicy")  # how a rule of the cluster's own begins its refusal


class _Whose(msgspec.Struct):
    metadata: Meta


def evict(api: Api, pod: PodRef) -> EvictionOutcome:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    request = PODS.create_under(pod.name, "eviction", body, pod.namespace)
    # A pod of that name with another uid would hold us up: the API server tries for ten seconds before it says so.
    if not _still_there(api, pod):
        return EvictionOutcome(result=Eviction.GONE)
    answer = api.ask(request)
    if answer.fine:
        return EvictionOutcome(result=Eviction.EVICTED)
    said = status_in(answer.body)
    result = _interpret(answer, said)
    if result is None and answer.status == HTTPStatus.CONFLICT and not _still_there(api, pod):
        result = Eviction.GONE
    if result is None:
        raise refusal_error(request, answer.status, answer.body)
    return EvictionOutcome(result=result, detail=_words(said))


def delete_pod(api: Api, pod: PodRef) -> None:
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
    request = PODS.delete(pod.name, options, pod.namespace)
    answer = api.ask(request)
    if not answer.fine and answer.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        raise refusal_error(request, answer.status, answer.body)


def _interpret(answer: Response, said: Status) -> Eviction | None:
    match answer.status:
        case HTTPStatus.NOT_FOUND:
            return Eviction.GONE
        case HTTPStatus.TOO_MANY_REQUESTS if said.cause(_BUDGET_CAUSE):
            return Eviction.REFUSED
        case HTTPStatus.FORBIDDEN if said.cause(_NAMESPACE_CAUSE):
            return Eviction.WAITS
        case HTTPStatus.FORBIDDEN if said.about.lower() == _BUDGET_KIND:
            return Eviction.REFUSED  # its figures are in disorder, and its controller fixes them
        case HTTPStatus.INTERNAL_SERVER_ERROR if _SEVERAL in said.message:
            return Eviction.SEVERAL_BUDGETS
        case code if code in _CLIENT_ERRORS and any(word in said.message for word in _ADMISSION):
            return Eviction.REFUSED
        case _:
            return None


_CLIENT_ERRORS = range(400, 500)


def _still_there(api: Api, pod: PodRef) -> bool:
    """The very pod that was meant, not another one of its name."""
    request = PODS.get(pod.name, pod.namespace)
    answer = api.find(request)
    return answer is not None and decode(request, answer.body, _Whose).metadata.uid == pod.uid


def _words(said: Status) -> str:
    """The budget's own words say more than the message above them."""
    cause = said.cause(_BUDGET_CAUSE)
    return (cause.message if cause else "") or said.message


# ── events on nodes ──────────────────────────────────────────────────────────────────────────────────────────────────
# Events on Node objects, so that `kubectl describe node` tells why a node leaves or cannot.
#
# An event's name is made from what it says: saying the same again counts up instead of filling the list. Kubernetes
# forgets events after an hour.


NAMESPACE = "default"  # where events on objects without a namespace belong
_SOURCE = "node-fleet"
_MESSAGE_LENGTH = 1024
_REASON_LENGTH_NOTES = 128
_NAME_LENGTH = 253
_DIGITS = 16


class _Counted(msgspec.Struct):
    count: int | None = None


def note(api: Api, node: str, reason: str, message: str, *, warning: bool, now: datetime) -> None:
    event = _event(node, reason[:_REASON_LENGTH_NOTES], _cut(message), warning=warning, now=now)
    name = event["metadata"]["name"]
    create = EVENTS.create(event, NAMESPACE)
    answer = api.ask(create)
    if answer.fine:
        return
    if answer.status != HTTPStatus.CONFLICT:
        raise refusal_error(create, answer.status, answer.body)
    look = EVENTS.get(name, NAMESPACE)
    told = decode(look, api.do(look).body, _Counted)
    api.do(EVENTS.patch(name, {"count": (told.count or 1) + 1, "lastTimestamp": _time(now)}, NAMESPACE))


def _event(node: str, reason: str, message: str, *, warning: bool, now: datetime) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": _name(node, reason, message), "namespace": NAMESPACE},
        # The kubelet writes a node's name where its uid would be, and kubectl looks for both.
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "count": 1,
        "firstTimestamp": _time(now),
        "lastTimestamp": _time(now),
        "source": {"component": _SOURCE},
        "reportingComponent": _SOURCE,
    }


def _name(node: str, reason: str, message: str) -> str:
    digest = sha256(f"{node}\n{reason}\n{message}".encode()).hexdigest()[:_DIGITS]
    return f"{node[: _NAME_LENGTH - _DIGITS - 1]}.{digest}"


def _cut(message: str) -> str:
    return message if len(message) <= _MESSAGE_LENGTH else message[: _MESSAGE_LENGTH - 1] + "…"


def _time(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
