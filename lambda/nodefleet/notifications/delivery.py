"""Each notification once: claimed, sent, remembered. What could not be sent is given back to the caller.

    before sending     every event of the notification is claimed for a minute; those that were sent drop out of it
    another has it     waited for: that one sends it, or its claim ends because it died
    sent               remembered for days, so that no redelivery sends it again
    not sent           the claim is given back, and delivery stops: what follows would not get through either
    refused for good   set aside with a line in the log: nothing may block what comes after it

A run that dies between sending and remembering doubles one message at worst. When the table does not answer, the
message is sent all the same: that one comes twice is a nuisance, that none comes hides an outage, and a table that is
away is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol, TypeAlias, assert_never

from nodefleet.errors import DeniedError, MalformedError, NodeFleetError, UnavailableError
from nodefleet.model.decision import Event
from nodefleet.model.names import Metric
from nodefleet.notifications.incoming import DeliveryLimits, IncomingItem, Notifiable, Notification, group_news
from nodefleet.ports import Telemetry, Time

# ── runtime ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# What the delivery of messages needs of the world.


class DeliveryClaim(Enum):
    MINE = "mine"  # no other sender sends it until the claim ends
    TOLD = "told"  # long ago, or just now by another run


@dataclass(frozen=True, slots=True)
class Busy:
    """Another run is about to tell it, or died while it did."""

    until: datetime


Claimed: TypeAlias = DeliveryClaim | Busy


class DeliveryLog(Protocol):
    """Who has told what. Any NodeFleetError may come of it."""

    def claim(self, told: Notifiable, now: datetime, until: datetime) -> Claimed: ...

    def release(self, told: Notifiable) -> None:
        """Give the claim back, if it is still ours."""
        ...

    def mark_sent(self, told: Notifiable, forget: datetime) -> None: ...


class Messenger(Protocol):
    def send(self, notification: Notification) -> None:
        """UnavailableError: not now. DeniedError: not before an operator fixes something. MalformedError: never."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRuntime:
    sent: DeliveryLog
    messenger: Messenger
    time: Time
    telemetry: Telemetry
    limits: DeliveryLimits = field(default_factory=DeliveryLimits)


# ── delivery ─────────────────────────────────────────────────────────────────────────────────────────────────────────


_LOGGED = 500  # characters of each event


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    messages: int = 0
    left: tuple[IncomingItem, ...] = ()  # not told, in their order
    error: NodeFleetError | None = None  # why


def deliver(items: Sequence[IncomingItem], parts: DeliveryRuntime) -> DeliveryResult:
    notifications = group_news(items, parts.time.now(), parts.limits)
    marks = _Claims(parts)
    messages = 0
    for place, notification in enumerate(notifications):
        try:
            messages += _send(notification, marks, parts)
        except (UnavailableError, DeniedError) as error:
            ids = {told.id for untold in notifications[place:] for told in untold.told}
            left = tuple(each for each in items if each.told.id in ids)
            return DeliveryResult(messages=messages, left=left, error=error)
    return DeliveryResult(messages=messages)


def _send(notification: Notification, marks: "_Claims", parts: DeliveryRuntime) -> int:
    """How many messages that took: none if everything in it had been told."""
    if parts.time.remaining() < parts.limits.reserve:
        raise UnavailableError("Slack", "this run has no time left for another message")
    mine = marks.claim(notification.news)
    if not mine:
        return 0
    sent = 1
    try:
        parts.messenger.send(notification.only(mine))
    except (UnavailableError, DeniedError):
        marks.release(mine)
        raise
    except MalformedError as refused:
        sent = 0
        parts.telemetry.metric(Metric.MALFORMED, len(mine))
        parts.telemetry.warn(
            "a message that Slack does not take is set aside",
            cause=str(refused),
            events=[each.told.id for each in mine],
        )
    marks.mark_sent(mine)
    if len(mine) > 1:
        parts.telemetry.line("several events in one message", events=[_in_short(each.told) for each in mine])
    return sent


def _in_short(told: Notifiable) -> str:
    """For the log, which has each of them where a message only counts."""
    said = told.text if isinstance(told, Event) else told.name
    return f"{told.at.isoformat()} {told.kind.value} {told.pool} {said}"[:_LOGGED]


class _Claims:
    """The table's memory of what was told. Once it does not answer, this run asks it no more."""

    def __init__(self, parts: DeliveryRuntime) -> None:
        self._parts = parts
        self._away = False

    def claim(self, items: Sequence[IncomingItem]) -> tuple[IncomingItem, ...]:
        """Those that are ours to tell now; UnavailableError if another run does not let go of one."""
        mine: list[IncomingItem] = []
        try:
            for each in items:
                if self._away or self._is_ours(each):
                    mine.append(each)  # noqa: PERF401  # what was claimed before an error must be known
        except UnavailableError:
            self.release(mine)
            raise
        return tuple(mine)

    def _is_ours(self, each: IncomingItem) -> bool:
        time, limits = self._parts.time, self._parts.limits
        while True:
            now = time.now()
            try:
                claimed = self._parts.sent.claim(each.told, now, now + limits.claim)
            except NodeFleetError as error:
                self._note_lost(error)
                return True
            match claimed:
                case DeliveryClaim.MINE:
                    return True
                case DeliveryClaim.TOLD:
                    return False
                case Busy(until=until):
                    pause = min(limits.look_again, max(until - now, limits.look_again / 10))
                    if time.remaining() - pause < limits.reserve:
                        raise UnavailableError("Slack", f"another run has been sending {each.told.id} for too long")
                    time.sleep(pause)
                case _:
                    assert_never(claimed)

    def release(self, items: Sequence[IncomingItem]) -> None:
        for each in items:
            if self._away:
                return
            try:
                self._parts.sent.release(each.told)
            except NodeFleetError as error:
                self._note_lost(error)

    def mark_sent(self, items: Sequence[IncomingItem]) -> None:
        forget = self._parts.time.now() + self._parts.limits.remember
        for each in items:
            if self._away:
                return
            try:
                self._parts.sent.mark_sent(each.told, forget)
            except NodeFleetError as error:
                self._note_lost(error)

    def _note_lost(self, error: NodeFleetError) -> None:
        self._away = True
        self._parts.telemetry.warn("what was told cannot be remembered: a message may come twice", cause=str(error))
