"""Events on Node objects, so that `kubectl describe node` tells why a node leaves or cannot.

An event's name is made from what it says: saying the same again counts up instead of filling the list. Kubernetes
forgets events after an hour.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import msgspec

from nodefleet.adapters.k8s.calls import Api
from nodefleet.adapters.k8s.decoding import decoded
from nodefleet.adapters.k8s.refusals import refusal
from nodefleet.adapters.k8s.resources import EVENTS

NAMESPACE = "default"  # where events on objects without a namespace belong
_SOURCE = "node-fleet"
_MESSAGE_LENGTH = 1024
_REASON_LENGTH = 128
_NAME_LENGTH = 253
_DIGITS = 16


class _Counted(msgspec.Struct):
    count: int | None = None


def note(api: Api, node: str, reason: str, message: str, *, warning: bool, now: datetime) -> None:
    event = _event(node, reason[:_REASON_LENGTH], _cut(message), warning=warning, now=now)
    name = event["metadata"]["name"]
    create = EVENTS.create(event, NAMESPACE)
    answer = api.ask(create)
    if answer.fine:
        return
    if answer.status != HTTPStatus.CONFLICT:
        raise refusal(create, answer.status, answer.body)
    look = EVENTS.get(name, NAMESPACE)
    told = decoded(look, api.do(look).body, _Counted)
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
