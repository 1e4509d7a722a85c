"""Stand-ins for what telling operators needs: a clock that can be moved, a table in memory, a messenger."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from nodefleet.errors import NodeFleetError
from nodefleet.model.names import Metric
from nodefleet.notifications.delivery import Busy, Claimed, DeliveryClaim
from nodefleet.notifications.incoming import Notifiable, Notification
from support.message_examples import AT


@dataclass
class Clock:
    at: datetime = AT
    end: datetime = AT + timedelta(seconds=120)
    slept: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    def remaining(self) -> timedelta:
        return self.end - self.at

    def sleep(self, duration: timedelta) -> None:
        self.slept.append(duration.total_seconds())
        self.at += duration


@dataclass
class Notes:
    """Telemetry that is read."""

    counted: list[tuple[Metric, float]] = field(default_factory=list)
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    warned: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def metric(self, metric: Metric, value: float) -> None:
        self.counted.append((metric, value))

    def line(self, message: str, **fields: Any) -> None:
        self.lines.append((message, fields))

    def warn(self, message: str, **fields: Any) -> None:
        self.warned.append((message, fields))

    def calls(self) -> int:
        return 0


class Crash(BaseException):
    """The process dies: nothing in our code may catch it."""


@dataclass
class Table:
    """Marks in memory, shared by the runs that are made of it. `away` is what it answers with instead."""

    marks: dict[str, tuple[str, datetime | None]] = field(default_factory=dict)  # id → owner and until; none: sent
    away: NodeFleetError | None = None
    asked: int = 0

    def run(self, owner: str = "me") -> "Marks":
        return Marks(self, owner)


@dataclass
class Marks:
    table: Table
    owner: str

    def _asked(self) -> None:
        self.table.asked += 1
        if self.table.away:
            raise self.table.away

    def claim(self, told: Notifiable, now: datetime, until: datetime) -> Claimed:
        self._asked()
        held = self.table.marks.get(told.id)
        if held and held[1] is None:
            return DeliveryClaim.TOLD
        if held and held[1] >= now and held[0] != self.owner:
            return Busy(until=held[1])
        self.table.marks[told.id] = (self.owner, until)
        return DeliveryClaim.MINE

    def release(self, told: Notifiable) -> None:
        self._asked()
        if self.table.marks.get(told.id, ("", None))[0] == self.owner:
            del self.table.marks[told.id]

    def mark_sent(self, told: Notifiable, forget: datetime) -> None:  # noqa: ARG002
        self._asked()
        self.table.marks[told.id] = (self.owner, None)


@dataclass
class Pigeon:
    """A messenger. `fails` holds what it raises, notification by notification; none: it gets through."""

    notifications: list[Notification] = field(default_factory=list)
    fails: list[BaseException | None] = field(default_factory=list)

    def send(self, notification: Notification) -> None:
        error = self.fails.pop(0) if self.fails else None
        if error:
            raise error
        self.notifications.append(notification)

    @property
    def told(self) -> list[str]:
        return [told.id for notification in self.notifications for told in notification.told]
