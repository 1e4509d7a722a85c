"""Alarms from SNS and events from the table's stream, as Lambda delivers them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from nodefleet.adapters.dynamodb import codec
from nodefleet.errors import MalformedError
from nodefleet.model.decision import Event
from nodefleet.notifications.alarm_catalog import is_reminder
from nodefleet.notifications.incoming import Alarm, AlarmState, IncomingBatch, IncomingItem, MalformedItem

# ── alarms ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Alarms of CloudWatch as SNS brings them to Lambda.
#
# Only what a message is made of is read, and only the alarm's name, state and time must be there: composite alarms,
# metric maths and whatever AWS adds some day still give a message. That an alarm was just made and finds everything
# well is no news: a deployment would bring a dozen of them.
#
# What Prometheus watches comes in the same form, from Alertmanager, with `Source` beside it.


ALARM_SOURCE = "aws:sns"
CLOUDWATCH = "CloudWatch"
_CONSOLES = {
    "aws": "{region}.console.aws.amazon.com",
    "aws-cn": "{region}.console.amazonaws.cn",
    "aws-us-gov": "{region}.console.amazonaws-us-gov.com",
}
_ARN = re.compile(r"arn:(aws[a-z-]*):cloudwatch:([a-z0-9-]+):\d*:alarm:.+", re.DOTALL)
_COMPARISONS = {
    "GreaterThanOrEqualToThreshold": "≥",
    "GreaterThanThreshold": ">",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "≤",
}
_CLUSTER = frozenset({"cluster", "clusterid", "clustername"})
_POOL = frozenset({"pool", "poolname"})
_MINUTE = 60


class _Dimension(msgspec.Struct):
    name: str = ""
    value: str = ""


class _Metric(msgspec.Struct, rename="pascal"):
    dimensions: list[_Dimension] = []


class _Stat(msgspec.Struct, rename="pascal"):
    metric: _Metric | None = None


class _Query(msgspec.Struct, rename="pascal"):
    metric_stat: _Stat | None = None


class _Trigger(msgspec.Struct, rename="pascal"):
    metric_name: str = ""
    statistic: str | None = None
    extended_statistic: str | None = None
    period: float = 0
    evaluation_periods: float = 1
    comparison_operator: str = ""
    threshold: float | None = None
    dimensions: list[_Dimension] = []
    metrics: list[_Query] = []  # of metric maths


class _Change(msgspec.Struct, rename="pascal"):
    alarm_name: str
    new_state_value: AlarmState
    state_change_time: str
    old_state_value: str = ""
    alarm_arn: str = ""
    alarm_description: str | None = None
    source: str = CLOUDWATCH
    new_state_reason: str | None = None
    trigger: msgspec.Raw = msgspec.Raw(b"null")


def decode_alarms(records: Sequence[Any]) -> IncomingBatch:
    news: list[IncomingItem] = []
    spoiled: list[MalformedItem] = []
    for record in records:
        match record:
            case {"Sns": {"Message": str(message), **others}}:
                receipt = str(others.get("MessageId", "?"))
                try:
                    alarm = _alarm(message)
                except ValueError as error:  # msgspec's are among them
                    spoiled.append(MalformedItem(key=receipt, cause=f"not an alarm: {error}"[:500]))
                else:
                    news += [IncomingItem(receipt=receipt, told=alarm)] if alarm else []
            case _:
                spoiled.append(MalformedItem(key=str(record)[:200], cause="not a message of SNS"))
    return IncomingBatch(news=tuple(news), spoiled=tuple(spoiled))


def _alarm(message: str) -> Alarm | None:
    change = msgspec.json.decode(message, type=_Change)
    at = datetime.fromisoformat(change.state_change_time)
    if at.tzinfo is None:
        raise ValueError(f"{change.state_change_time} is a time without a zone")
    if not change.alarm_name:
        raise ValueError("it has no name")
    if is_reminder(change.alarm_name):
        return None
    if change.new_state_value is AlarmState.OK and change.old_state_value == AlarmState.NO_DATA.value:
        return None
    trigger = _trigger(change.trigger)
    identity = "|".join((change.alarm_arn or change.alarm_name, change.new_state_value.value, at.isoformat()))
    return Alarm(
        id=f"alarm-{sha256(identity.encode()).hexdigest()[:24]}",
        at=at,
        cluster=_dimension(trigger, _CLUSTER),
        pool=_dimension(trigger, _POOL),
        name=change.alarm_name,
        state=change.new_state_value,
        description=change.alarm_description or "",
        source=change.source,
        reason=change.new_state_reason or "",
        rule=_rule(trigger),
        console=_console(change.alarm_arn, change.alarm_name),
    )


def _trigger(raw: msgspec.Raw) -> _Trigger:
    """The figures behind the alarm. Without them there still is an alarm."""
    try:
        return msgspec.json.decode(raw, type=_Trigger | None, strict=False) or _Trigger()
    except msgspec.ValidationError:
        return _Trigger()


def _dimension(trigger: _Trigger, names: frozenset[str]) -> str:
    metrics = (query.metric_stat.metric for query in trigger.metrics if query.metric_stat)
    held: Iterable[_Dimension] = (each for metric in metrics if metric for each in metric.dimensions)
    found = [each.value for each in (*trigger.dimensions, *held) if each.name.lower().replace("_", "") in names]
    return found[0] if len(set(found)) == 1 else ""


def _rule(trigger: _Trigger) -> str:
    """Sum of ScalingFailures ≥ 3 within 15 min"""
    comparison = _COMPARISONS.get(trigger.comparison_operator)
    if not (trigger.metric_name and comparison and trigger.threshold is not None):
        return ""
    statistic = trigger.extended_statistic or (trigger.statistic or "").capitalize()
    of = f"{statistic} of " if statistic else ""
    seconds = trigger.period * trigger.evaluation_periods
    within = f" within {seconds / _MINUTE:g} min" if seconds > 0 else ""
    return f"{of}{trigger.metric_name} {comparison} {trigger.threshold:g}{within}"


def _console(arn: str, name: str) -> str:
    """The alarm's page. The region's name in the message is for operators, so it is taken from the ARN."""
    parts = _ARN.fullmatch(arn)
    if not parts or parts[1] not in _CONSOLES:
        return ""
    host = _CONSOLES[parts[1]].format(region=parts[2])
    return f"https://{host}/cloudwatch/home?region={parts[2]}#alarmsV2:alarm/{quote(name, safe='')}"


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Events as the table's stream brings them to Lambda.
#
# The mapping is filtered to new event records; whatever else comes is passed over. A record that cannot be read is set
# aside, because the stream would bring it again and again and nothing after it would ever be told.


STREAM_SOURCE = "aws:dynamodb"
_NEW = "INSERT"

Reader: TypeAlias = Callable[[Mapping[str, Any]], Event]  # of a record's image, as the stream has it


def decode_stream(records: Sequence[Any], event_in: Reader) -> IncomingBatch:
    news: list[IncomingItem] = []
    spoiled: list[MalformedItem] = []
    for record in records:
        match record:
            case {
                "eventName": str(name),
                "dynamodb": {"SequenceNumber": str(receipt), "Keys": {codec.SORT: {"S": str(key)}} as named} as change,
            } if receipt:
                if name != _NEW or not key.startswith(codec.EVENTS):
                    continue
                try:
                    news.append(IncomingItem(receipt=receipt, told=event_in(change["NewImage"])))
                # RefusedError is a ValueError; the others are what a reader stumbles over.
                except (MalformedError, ValueError, LookupError, TypeError, AttributeError) as error:
                    spoiled.append(MalformedItem(key=f"{_text(named.get(codec.PARTITION))} {key}", cause=_words(error)))
            case _:
                spoiled.append(MalformedItem(key=str(record)[:200], cause="not a record of a DynamoDB stream"))
    return IncomingBatch(news=tuple(news), spoiled=tuple(spoiled))


def stream_failures(left: Sequence[IncomingItem]) -> dict[str, Any]:
    """What Lambda is answered: it brings these again, and with them all that came after the first of them."""
    return {"batchItemFailures": [{"itemIdentifier": each.receipt} for each in left]}


def _text(attribute: Any) -> str:
    return str(attribute.get("S", "?")) if isinstance(attribute, Mapping) else "?"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
