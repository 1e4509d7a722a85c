"""Approvals in Slack: a message asks, a reaction of an allowed user answers, silence means no.

    question       workers that no pool owns: shall they be drained? Asked with a bot token and named approvers
    ✅             an approver wants it: the same records that `nodefleet drain` writes, with the approver's name
    ❌             an approver does not; it outranks every ✅
    no answer      by the end of the question it means no, also when Slack could not be asked in time
    message gone   no

Nothing listens for Slack: a schedule has the reactions read. The worker is checked again by the run that executes the
command, which drains nothing that a pool owns by then. Every step may be repeated: commands and events have names
that come of the question, so a run that dies between them is carried on by the next one.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from nodefleet.errors import NodeFleetError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.names import pluralize
from nodefleet.model.snapshot import Command, Drain
from nodefleet.notifications.incoming import DeliveryLimits, Notification, NotificationForm
from nodefleet.ports import Telemetry

READ_APPROVALS = {"approvals": True}  # what the schedule says to `notify`
YES, NO = "white_check_mark", "x"  # Slack's names of ✅ and ❌


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question that stands: which workers, in which message, until when."""

    id: str  # of the event that asks
    cluster: str
    instances: tuple[str, ...]
    message: str  # Slack's id of it
    asked: datetime
    until: datetime


class Answer(Enum):
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"  # the message was deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    answer: Answer
    by: str = ""  # Slack's id of the user


class OpenApprovals(Protocol):
    """The questions that stand. Any NodeFleetError may come of it."""

    def keep(self, approval: Approval) -> None: ...

    def all(self) -> tuple[Approval, ...]: ...

    def drop(self, approval: Approval) -> None: ...


class Reactions(Protocol):
    def of(self, message: str) -> Mapping[str, Collection[str]] | None:
        """Users by reaction; none if the message does not exist. UnavailableError, DeniedError."""
        ...

    def reply(self, message: str, text: str) -> None: ...


class Orders(Protocol):
    def order(self, command: Command, event: Event) -> None: ...


def instances_to_approve(notification: Notification, limits: DeliveryLimits) -> tuple[str, ...]:
    """The workers that the message asks about: those that no pool owns, if it can name all of them. Other cleanups have
    no command."""
    told = notification.first
    if notification.form is not NotificationForm.SINGLE or not isinstance(told, Event) or told.dry:
        return ()
    unowned = told.kind is AlertKind.CLEANUP_NEEDS_OPERATOR and not told.pool
    return told.subjects if unowned and len(told.subjects) <= limits.approval_workers else ()


def ask(notification: Notification, message: str, now: datetime, limits: DeliveryLimits) -> Approval:
    told = notification.first
    instances = instances_to_approve(notification, limits)
    return Approval(
        id=told.id, cluster=told.cluster, instances=instances, message=message, asked=now, until=now + limits.approval
    )


def settle(
    approval: Approval,
    reactions: Mapping[str, Collection[str]] | None,
    approvers: Collection[str],
    now: datetime,
) -> Settled | None:
    """Nothing while the question is open. A reaction has no time, so after the end none counts."""
    if now >= approval.until:
        return Settled(answer=Answer.EXPIRED)
    if reactions is None:
        return Settled(answer=Answer.WITHDRAWN)
    for reaction, answer in ((NO, Answer.DENIED), (YES, Answer.APPROVED)):
        allowed = sorted(set(reactions.get(reaction, ())) & set(approvers))
        if allowed:
            return Settled(answer=answer, by=allowed[0])
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approver:
    """Reads the answers to the questions that stand, and orders what was approved."""

    approvals: OpenApprovals
    reactions: Reactions
    orders: Callable[[str], Orders]  # by cluster
    approvers: tuple[str, ...]
    limits: DeliveryLimits
    telemetry: Telemetry

    def poll(self, now: datetime) -> dict[str, list[str]]:
        """The questions that were settled, by answer. One question's trouble keeps no other from its answer; while
        Slack is unavailable they stand, and only an error that an operator has to fix fails the run."""
        settled: dict[str, list[str]] = {}
        errors: list[NodeFleetError] = []
        for approval in self.approvals.all():
            try:
                found = self._settle(approval, now)
            except NodeFleetError as error:
                self.telemetry.warn("an approval's answer is not known yet", question=approval.id, cause=str(error))
                errors += [] if isinstance(error, UnavailableError) else [error]
                continue
            if found:
                settled.setdefault(found.answer.value, []).append(approval.id)
        if errors:
            raise errors[0]
        return settled

    def _settle(self, approval: Approval, now: datetime) -> Settled | None:
        expired = now >= approval.until
        found = settle(approval, {} if expired else self.reactions.of(approval.message), self.approvers, now)
        if found is None:
            return None
        if found.answer is Answer.APPROVED:
            for instance in approval.instances:
                command = drain_of(approval, instance, found.by, self.limits.approved)
                self.orders(approval.cluster).order(command, event_of(approval, command))
        self.approvals.drop(approval)
        self.telemetry.line(f"a question in Slack is {found.answer.value}", question=approval.id, by=found.by)
        self._reply(approval, found)
        return found

    def _reply(self, approval: Approval, found: Settled) -> None:
        """The answer stands already: that it is not shown is a nuisance only."""
        if found.answer is Answer.WITHDRAWN:
            return
        try:
            self.reactions.reply(approval.message, outcome(approval, found))
        except NodeFleetError as error:
            self.telemetry.warn("an approval's outcome is not shown in Slack", question=approval.id, cause=str(error))


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def drain_of(approval: Approval, instance: str, by: str, lasting: timedelta) -> Drain:
    """The same however often it is made: its times are those of the question."""
    return Drain(
        instance=instance,
        at=approval.asked,
        by=f"Slack user {by}",
        reason="approved in Slack",
        until=approval.until + lasting,
    )


def event_of(approval: Approval, command: Drain) -> Event:
    text = (
        f"{command.by} approved that {command.instance} is drained and removed."
        f" The next run begins; it is given up at {command.until:%Y-%m-%d %H:%M} UTC."
    )
    return Event(
        id=f"approval-{approval.id}-{command.instance}",
        at=approval.asked,
        cluster=approval.cluster,
        kind=AlertKind.HANDED_OVER,
        subjects=(command.instance,),
        text=text,
    )


# ── texts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def question(instances: Collection[str], until: datetime) -> str:
    return (
        f"To have {', '.join(instances)} drained and removed, an approver reacts with ✅ before {until:%H:%M} UTC;"
        " ❌ or no answer means no."
    )


def outcome(approval: Approval, found: Settled) -> str:
    number = pluralize(len(approval.instances), "worker", "workers")
    match found.answer:
        case Answer.APPROVED:
            return (
                f"<@{found.by}> approved: {number} drained and removed by the next runs. `nodefleet commands` shows it."
            )
        case Answer.DENIED:
            return f"<@{found.by}> denied: nothing is drained."
        case _:
            return "No approver answered in time, which means no: nothing is drained. `nodefleet drain` still does it."
