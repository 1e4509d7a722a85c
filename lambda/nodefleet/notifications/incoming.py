"""Incoming notifications (our events, alarms of CloudWatch and Prometheus), and the limits of delivery."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import ClassVar, TypeAlias

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event

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
# The figures of telling operators.


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

    # ── one message ──────────────────────────────────────────────────────────────────────────────────────────────
    connect: timedelta = timedelta(seconds=3)
    answer: timedelta = timedelta(seconds=5)
    tries: int = 3  # only while Slack asks to wait
    longest_wait: timedelta = timedelta(seconds=10)  # that Slack may ask for between two of them
    reserve: timedelta = timedelta(seconds=10)  # with less time left than this nothing is begun
