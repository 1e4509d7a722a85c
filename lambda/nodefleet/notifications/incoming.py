"""Incoming notifications (our events, alarms of CloudWatch and Prometheus): limits of delivery, groups, severity."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import ClassVar, TypeAlias, assert_never

from nodefleet.model.alerts import CATALOGUE, STANDS_OUT, AlertKind, Severity
from nodefleet.model.decision import Event
from nodefleet.model.state import Level

# ── notifications ────────────────────────────────────────────────────────────────────────────────────────────────────
# What there is to tell: an event of ours, or an alarm of CloudWatch or Prometheus.


class AlarmState(Enum):
    """By CloudWatch's own words."""

    ALARM = "ALARM"
    OK = "OK"
    NO_DATA = "INSUFFICIENT_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm that changed its state. It reaches operators even if nothing else of ours works."""

    kind: ClassVar[AlertKind] = AlertKind.ALARM
    dry: ClassVar[bool] = False

    id: str  # the same for the same change of state, however often and by whichever topic it comes
    at: datetime
    cluster: str = ""  # empty: it does not say
    pool: str = ""
    name: str
    state: AlarmState
    description: str = ""  # as the alarm's author wrote it
    source: str = "CloudWatch"  # who watches
    reason: str = ""  # its own words, with figures
    rule: str = ""  # Sum of ScalingFailures ≥ 3 within 15 min
    console: str = ""  # a link


Notifiable: TypeAlias = Event | Alarm


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingItem:
    receipt: str  # how its sender knows it; given back when it could not be told
    told: Notifiable


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedItem:
    """Something that came and cannot be understood. Trying again would not help."""

    key: str  # enough to find it
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingBatch:
    """A batch as it came."""

    news: tuple[IncomingItem, ...] = ()
    spoiled: tuple[MalformedItem, ...] = ()


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# The limits of delivery.


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    # ── a flood ──────────────────────────────────────────────────────────────────────────────────────────────────
    alone: int = 3  # news of one kind, cluster and batch; more than this is one notification
    notifications: int = 10  # of one cluster and batch; beyond this only what stands out has a notification of its own
    shown: int = 3  # news of a folded notification that is given in its own words; the rest is counted
    shown_outstanding: int = 10  # the same for what stands out
    old_after: timedelta = timedelta(hours=6)  # what happened longer ago is only counted

    # ── each once ────────────────────────────────────────────────────────────────────────────────────────────────
    claim: timedelta = timedelta(seconds=60)  # longer than a message takes at worst, with all tries and waits
    look_again: timedelta = timedelta(seconds=2)  # while another run has the claim
    remember: timedelta = timedelta(days=7)  # the stream gives nothing that is older than a day

    # ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────
    thread: timedelta = timedelta(days=2)  # after its last message an incident's thread is not continued

    # ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────
    approval: timedelta = timedelta(hours=4)  # a question without an answer by then means no
    approval_workers: int = 50  # more than a message can name are for the command line
    approved: timedelta = timedelta(days=1)  # after the question's end a drain that was not possible is given up

    # ── one message ──────────────────────────────────────────────────────────────────────────────────────────────
    connect: timedelta = timedelta(seconds=3)
    answer: timedelta = timedelta(seconds=5)
    tries: int = 3  # only while Slack asks to wait
    longest_wait: timedelta = timedelta(seconds=10)  # that Slack may ask for between two of them
    reserve: timedelta = timedelta(seconds=10)  # with less time left than this nothing is begun


# ── groups ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# A flood becomes a few notifications, in the order in which things happened.
#
#     events and alarms                                           notification
#     older than some hours                                       one for each cluster: counted
#     more of one kind and cluster than an operator reads singly  one for the kind: counted, the first few worded
#     more notifications of one cluster than an operator reads    one for the rest; never a kind that stands out
#     everything else                                             one each
#
# Executed actions and those of a dry run are never in one notification, unless it only counts.


class NotificationForm(Enum):
    SINGLE = "single"
    MANY = "many"  # of one kind
    MIXED = "mixed"  # of several kinds
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What one message tells of: news of one cluster, in its order."""

    form: NotificationForm
    news: tuple[IncomingItem, ...]

    @property
    def told(self) -> tuple[Notifiable, ...]:
        return tuple(each.told for each in self.news)

    @property
    def first(self) -> Notifiable:
        return self.news[0].told

    @property
    def stands_out(self) -> bool:
        return any(told.kind in STANDS_OUT for told in self.told)

    def only(self, items: Sequence[IncomingItem]) -> "Notification":
        """The notification with just these of its news: the others have been told."""
        form = NotificationForm.SINGLE if len(items) == 1 and self.form is not NotificationForm.OLD else self.form
        return replace(self, form=form, news=tuple(items))


def group_news(items: Iterable[IncomingItem], now: datetime, limits: DeliveryLimits) -> tuple[Notification, ...]:
    distinct = list({each.told.id: each for each in reversed(list(items))}.values())[::-1]  # the first one of each id
    places = {each.told.id: place for place, each in enumerate(distinct)}
    notifications = [*_old(distinct, now, limits), *_fresh(distinct, now, limits)]
    by_cluster: defaultdict[str, list[Notification]] = defaultdict(list)
    for notification in sorted(notifications, key=lambda notification: places[notification.first.id]):
        by_cluster[notification.first.cluster].append(notification)
    quiet = [notification for crowd in by_cluster.values() for notification in _limit_notifications(crowd, limits)]
    return tuple(sorted(quiet, key=lambda notification: places[notification.first.id]))


def _is_old(each: IncomingItem, now: datetime, limits: DeliveryLimits) -> bool:
    return now - each.told.at > limits.old_after


def _old(items: Sequence[IncomingItem], now: datetime, limits: DeliveryLimits) -> Iterable[Notification]:
    by_cluster: defaultdict[str, list[IncomingItem]] = defaultdict(list)
    for each in items:
        if _is_old(each, now, limits):
            by_cluster[each.told.cluster].append(each)
    return [Notification(form=NotificationForm.OLD, news=tuple(members)) for members in by_cluster.values()]


def _fresh(items: Sequence[IncomingItem], now: datetime, limits: DeliveryLimits) -> Iterable[Notification]:
    alike: defaultdict[object, list[IncomingItem]] = defaultdict(list)
    for each in items:
        if not _is_old(each, now, limits):
            alike[each.told.cluster, each.told.kind, each.told.dry].append(each)
    for members in alike.values():
        if len(members) > limits.alone:
            yield Notification(form=NotificationForm.MANY, news=tuple(members))
        else:
            yield from (Notification(form=NotificationForm.SINGLE, news=(each,)) for each in members)


def _limit_notifications(notifications: Sequence[Notification], limits: DeliveryLimits) -> list[Notification]:
    """At most so many notifications, except for what stands out."""
    if len(notifications) <= limits.notifications:
        return list(notifications)
    plain = [
        notification
        for notification in notifications
        if not notification.stands_out and notification.form is not NotificationForm.OLD
    ]
    room = max(0, limits.notifications - 1 - (len(notifications) - len(plain)))
    rest = plain[room:]
    if len(rest) < 2:  # noqa: PLR2004  # one alone is no crowd
        return list(notifications)
    merged = Notification(
        form=NotificationForm.MIXED, news=tuple(each for notification in rest for each in notification.news)
    )
    return [notification for notification in notifications if notification not in rest] + [merged]


# ── severity ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# How severe an event or an alarm is: by its kind, and by its level or state.


def severity_of(told: Notifiable) -> Severity:
    match told:
        case Alarm(state=AlarmState.OK):
            return Severity.OVER
        case Alarm(state=AlarmState.NO_DATA):
            return Severity.WARNING
        case Event(kind=AlertKind.DEGRADED, level=Level.PARTIAL):
            return Severity.CRITICAL  # without EC2 or Kubernetes nothing grows and nothing heals
        case Event() | Alarm():
            return CATALOGUE[told.kind].severity
        case _:
            assert_never(told)


def highest_severity(told: Iterable[Notifiable]) -> Severity:
    return max(map(severity_of, told))


# ── incidents ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Incidents: which notifications belong to one thread.
#
# alarm of CloudWatch or Prometheus        by its name, until it is OK again
# degraded, recovered                      one incident of the cluster
# warning or critical alert                by kind, pool and subjects: its reminders belong to it
# scale-ups, reports, what operators did   none: each stands by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    key: str
    over: bool = False  # this notification says that it has ended
    in_channel: bool = False  # worth showing in the channel too, beside the thread


def incident_of(told: Sequence[Notifiable]) -> Incident | None:
    """The incident that all of these belong to, if there is one."""
    keys = {_incident_key(each) for each in told}
    if len(keys) != 1 or None in keys:
        return None
    (key,) = keys
    over = _is_over(told[-1])
    return Incident(key=str(key), over=over, in_channel=over or highest_severity(told) is Severity.CRITICAL)


def _incident_key(told: Notifiable) -> str | None:
    match told:
        case Alarm(name=name):
            return f"alarm/{name}"
        case Event(dry=True):
            return None
        case Event(kind=AlertKind.DEGRADED | AlertKind.RECOVERED):
            return AlertKind.DEGRADED.value
        case Event(kind=kind, pool=pool, subjects=subjects):
            if severity_of(told) < Severity.WARNING:
                return None
            about = sha256("\0".join(subjects).encode()).hexdigest()[:16]  # a key has a limited length, names have not
            return f"{kind.value}/{pool}/{about}"
        case _:
            assert_never(told)


def _is_over(told: Notifiable) -> bool:
    return told.kind is AlertKind.RECOVERED or (isinstance(told, Alarm) and told.state is AlarmState.OK)
