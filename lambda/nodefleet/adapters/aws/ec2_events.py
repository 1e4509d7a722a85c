"""What EventBridge tells about EC2 instances: that one is taken, may be, will be, or has changed.

    event                    notice               urgent
    Spot warning             spot-interruption    yes: two minutes are left
    rebalance                rebalance            yes, if the policy drains for it
    AWS Health, EC2, a       scheduled-change,    yes: it is looked at once, and replaced in good time or let
    scheduled change         or its withdrawal    back in
    state change             none: EC2's own      if it stops or goes; a machine that starts is looked at
                             list says it all     by the next run anyway

The instance is read from the detail. The event's ARN has the zone where the region should be, and no account.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from nodefleet.domain.machines import InstanceState, Notice, NoticeKind
from nodefleet.errors import MalformedError

_EC2 = {
    "EC2 Spot Instance Interruption Warning": NoticeKind.SPOT_INTERRUPTION,
    "EC2 Instance Rebalance Recommendation": NoticeKind.REBALANCE,
    "EC2 Instance State-change Notification": NoticeKind.STATE_CHANGE,
}
_STARTING = (InstanceState.PENDING, InstanceState.RUNNING)
_INSTANCE = re.compile(r"i-[0-9A-Za-z]+")
_OLDEST = timedelta(days=1)  # EventBridge does not try longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    notices: tuple[Notice, ...] = ()
    instances: tuple[str, ...] = ()  # whom it concerns
    urgent: bool = False  # a look now could change something


NOTHING = Told()


def read(event: object, now: datetime) -> Told:
    """What an event says; nothing if it is about something else. MalformedError if it cannot be understood.

    A time that is missing or cannot be is taken to be `now`.
    """
    fields = _mapping(event, "The event")
    match _text(fields, "source"), _text(fields, "detail-type"):
        case "aws.ec2", kind if kind in _EC2:
            return _of_instance(_EC2[kind], _mapping(fields.get("detail"), "Its detail"), _event_time(fields, now))
        case "aws.health", "AWS Health Event":
            return _of_health(_mapping(fields.get("detail"), "Its detail"), _event_time(fields, now))
        case _:
            return NOTHING


def _of_instance(kind: NoticeKind, detail: Mapping[str, Any], at: datetime) -> Told:
    instance = _text(detail, "instance-id")
    if not _INSTANCE.fullmatch(instance):
        raise MalformedError(f"{instance!r} is no instance id")
    if kind is NoticeKind.STATE_CHANGE:
        return Told(instances=(instance,), urgent=_state(detail) not in _STARTING)
    return Told(notices=(Notice(instance=instance, kind=kind, at=at),), instances=(instance,), urgent=True)


def _of_health(detail: Mapping[str, Any], at: datetime) -> Told:
    """A later event of the same ARN may move the change, or close it: then it is withdrawn for all of its instances."""
    if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
        return NOTHING
    entities = detail.get("affectedEntities")
    if not isinstance(entities, list):
        raise MalformedError("The scheduled change names no affectedEntities")
    closed = detail.get("statusCode") == "closed"
    affected = [_affected(_mapping(entity, "An affected entity")) for entity in entities]
    over = {instance: closed or resolved for instance, resolved in filter(None, affected)}
    begins = max(at, _time(detail.get("startTime")) or at)
    event = detail.get("eventArn")
    notices = (
        Notice(
            instance=instance,
            kind=NoticeKind.SCHEDULED_CHANGE,
            at=begins,
            told_at=at,
            event=event if isinstance(event, str) else "",
            withdrawn=withdrawn,
        )
        for instance, withdrawn in over.items()
    )
    return Told(notices=tuple(notices), instances=tuple(over), urgent=bool(over))


def _affected(entity: Mapping[str, Any]) -> tuple[str, bool] | None:
    """The instance, and whether its change is done or called off; none for volumes, hosts and accounts."""
    value = entity.get("entityValue")
    if not isinstance(value, str) or not _INSTANCE.fullmatch(value):
        return None
    return value, entity.get("status") == "RESOLVED"


def _state(detail: Mapping[str, Any]) -> InstanceState:
    said = _text(detail, "state")
    try:
        return InstanceState(said)
    except ValueError:
        raise MalformedError(f"{said!r} is no state of an instance") from None


def _event_time(fields: Mapping[str, Any], now: datetime) -> datetime:
    at = _time(fields.get("time"))
    return at if at and now - _OLDEST <= at <= now else now


def _time(said: object) -> datetime | None:
    """EventBridge writes ISO 8601; AWS Health writes its start as in a mail."""
    if not isinstance(said, str):
        return None
    for understood in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            at = understood(said)
        except (ValueError, OverflowError):
            continue
        return at if at.tzinfo is not None else None
    return None


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise MalformedError(f"{what} is not an object but {type(value).__name__}")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedError(f"The event has no {name}")
    return value
