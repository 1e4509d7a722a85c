"""What starts a function: the schedule, SNS, manual calls, and EC2 events from EventBridge."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from nodefleet.errors import MalformedError
from nodefleet.model.inventory import InstanceState, Notice, NoticeKind
from nodefleet.model.names import some

# ── triggers of a run ────────────────────────────────────────────────────────────────────────────────────────────────
# Who starts a run, and for which cluster: the schedule, Alertmanager or an operator through SNS, or a manual call.
#
# {"cluster": "shop", "scheduled": true}                     the schedule's constant input
# {"cluster": "shop"}                                        by hand, as the schedule would
# {"cluster": "shop", "urgent": true}                        by hand
# {"cluster": "shop", "daily": true}                         the report's: of yesterday instead of the week
# {"Records": [{"EventSource": "aws:sns", "Sns": {…}}]}      urgent; the cluster is a message attribute or in the text
# {"source": "aws.events", …}                                a schedule without input: the only cluster there is
# {"cluster": "shop", "scheduled": true, "tick": "…"}        the schedule's, through the queue of a fleet


_LONGEST = 64  # characters of a value that are repeated in an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    cluster: str
    urgent: bool = False
    scheduled: bool = False  # the schedule itself asks: these runs are counted
    daily: bool = False  # a report of yesterday alone
    late: bool = False  # it waited in the queue of a fleet that has fewer places than runs


def triggers_in(event: Any, clusters: Collection[str]) -> tuple[Trigger, ...]:
    """The runs that an event asks for, each cluster once."""
    if not isinstance(event, dict):
        raise MalformedError("the event is not an object")
    if "Records" in event:
        found = [_from_sns(record, clusters) for record in _list(event["Records"])]
    elif "cluster" in event:
        urgent, scheduled = event.get("urgent") is True, event.get("scheduled") is True
        name, daily = _known_cluster(event["cluster"], clusters), event.get("daily") is True
        found = [Trigger(cluster=name, urgent=urgent, scheduled=scheduled, daily=daily)]
    elif event.get("source") == "aws.events":
        found = [Trigger(cluster=_only(clusters), scheduled=True)]
    else:
        raise MalformedError('the event names no cluster: send {"cluster": "<name>"}')
    return tuple(dict.fromkeys(found))


def _from_sns(record: Any, clusters: Collection[str]) -> Trigger:
    match record:
        case {"Sns": {"MessageAttributes": {"cluster": {"Value": str(name)}}}}:
            return Trigger(cluster=_known_cluster(name, clusters), urgent=True)
        case {"Sns": {"Message": str(text)}}:
            return Trigger(cluster=_in_text(text, clusters), urgent=True)
        case _:
            raise MalformedError("a record is not an SNS message")


def _in_text(text: str, clusters: Collection[str]) -> str:
    try:
        content = json.loads(text)
    except ValueError:
        return _only(clusters)
    name = content.get("cluster") if isinstance(content, dict) else None
    return _known_cluster(name, clusters) if name is not None else _only(clusters)


def _known_cluster(name: Any, clusters: Collection[str]) -> str:
    if name not in clusters:
        raise MalformedError(f"no cluster {str(name)[:_LONGEST]!r} here: known are {some(clusters)}")
    return str(name)


def _only(clusters: Collection[str]) -> str:
    if len(clusters) != 1:
        raise MalformedError(f"the event names no cluster, and there are several: {some(clusters)}")
    return next(iter(clusters))


def _list(records: Any) -> list[Any]:
    if not isinstance(records, list) or not records:
        raise MalformedError("Records is not a list of messages")
    return records


# ── EC2 events ───────────────────────────────────────────────────────────────────────────────────────────────────────
# What EventBridge tells about EC2 instances: that one is taken, may be, will be, or has changed.
#
#     event                    notice               urgent
#     Spot warning             spot-interruption    yes: two minutes are left
#     rebalance                rebalance            yes, if the policy drains for it
#     AWS Health, EC2, a       scheduled-change,    yes: it is looked at once, and replaced in good time or let
#     scheduled change         or its withdrawal    back in
#     state change             none: EC2's own      if it stops or goes; an instance that starts is looked at
#                              list says it all     by the next run anyway
#
# The instance is read from the detail. The event's ARN has the zone where the region should be, and no account.


_EC2 = {
    "EC2 Spot Instance Interruption Warning": NoticeKind.SPOT_INTERRUPTION,
    "EC2 Instance Rebalance Recommendation": NoticeKind.REBALANCE,
    "EC2 Instance State-change Notification": NoticeKind.STATE_CHANGE,
}
_STARTING = (InstanceState.PENDING, InstanceState.RUNNING)
_INSTANCE = re.compile(r"i-[0-9A-Za-z]+")
_OLDEST = timedelta(days=1)  # EventBridge does not try longer


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvents:
    notices: tuple[Notice, ...] = ()
    instances: tuple[str, ...] = ()  # whom it concerns
    region: str = ""  # where they are; empty: it does not say
    urgent: bool = False  # an iteration now could change something


NO_EVENTS = InstanceEvents()


def read_events(event: object, now: datetime) -> InstanceEvents:
    """What an event says; nothing if it is about something else. MalformedError if it cannot be understood.

    A time that is missing or cannot be is taken to be `now`.
    """
    fields = _mapping(event, "The event")
    match _text(fields, "source"), _text(fields, "detail-type"):
        case "aws.ec2", kind if kind in _EC2:
            said = _of_instance(_EC2[kind], _mapping(fields.get("detail"), "Its detail"), _event_time(fields, now))
        case "aws.health", "AWS Health Event":
            said = _of_health(_mapping(fields.get("detail"), "Its detail"), _event_time(fields, now))
        case _:
            return NO_EVENTS
    region = fields.get("region")
    return replace(said, region=region) if said.instances and isinstance(region, str) else said


def _of_instance(kind: NoticeKind, detail: Mapping[str, Any], at: datetime) -> InstanceEvents:
    instance = _text(detail, "instance-id")
    if not _INSTANCE.fullmatch(instance):
        raise MalformedError(f"{instance!r} is no instance id")
    if kind is NoticeKind.STATE_CHANGE:
        return InstanceEvents(instances=(instance,), urgent=_state(detail) not in _STARTING)
    return InstanceEvents(notices=(Notice(instance=instance, kind=kind, at=at),), instances=(instance,), urgent=True)


def _of_health(detail: Mapping[str, Any], at: datetime) -> InstanceEvents:
    """A later event of the same ARN may move the change, or close it: then it is withdrawn for all of its instances."""
    if detail.get("service") != "EC2" or detail.get("eventTypeCategory") != "scheduledChange":
        return NO_EVENTS
    entities = detail.get("affectedEntities")
    if not isinstance(entities, list):
        raise MalformedError("The scheduled change names no affectedEntities")
    closed = detail.get("statusCode") == "closed"
    affected = [_affected_instance(_mapping(entity, "An affected entity")) for entity in entities]
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
    return InstanceEvents(notices=tuple(notices), instances=tuple(over), urgent=bool(over))


def _affected_instance(entity: Mapping[str, Any]) -> tuple[str, bool] | None:
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


# ── batches from a queue ─────────────────────────────────────────────────────────────────────────────────────────────
# Events that come through a queue: Lambda gives several of them at once, each as the body of a message.
#
# What comes again is named by its message, so that one cluster's trouble does not bring back what others have done.


_SOURCE = "aws:sqs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    id: str
    body: str
    sent_at: datetime | None = None  # when it came into the queue

    def event(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise MalformedError("the body of a message is not JSON") from None


def messages_in(event: Any) -> tuple[Message, ...] | None:
    """The messages of a batch; none if the event did not come through a queue."""
    match event:
        case {"Records": [{"eventSource": source}, *_] as records} if source == _SOURCE:
            return tuple(_message(record) for record in records)
        case _:
            return None


def come_again(messages: Iterable[Message]) -> list[dict[str, str]]:
    """As Lambda wants them named (ReportBatchItemFailures)."""
    return [{"itemIdentifier": message.id} for message in messages]


def _message(record: Any) -> Message:
    match record:
        case {"messageId": str(identity), "body": str(body)}:
            return Message(id=identity, body=body, sent_at=_sent_at(record))
        case _:
            raise MalformedError("a record is not a message of SQS")


def _sent_at(record: Mapping[str, Any]) -> datetime | None:
    """SQS counts milliseconds, as text."""
    match record:
        case {"attributes": {"SentTimestamp": str(sent)}} if sent.isdecimal():
            return datetime.fromtimestamp(int(sent) / 1000, UTC)
        case _:
            return None
