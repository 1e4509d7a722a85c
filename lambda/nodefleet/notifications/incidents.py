"""Incidents: which notifications belong to one thread.

alarm of CloudWatch or Prometheus        by its name, until it is OK again
degraded, recovered                      one incident of the cluster
warning or critical alert                by kind, pool and subjects: its reminders belong to it
scale-ups, reports, what operators did   none: each stands by itself
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import assert_never

from nodefleet.model.alerts import AlertKind, Severity
from nodefleet.model.events import Event
from nodefleet.notifications.grouping import highest_severity, severity_of
from nodefleet.notifications.incoming import Alarm, AlarmState, Notifiable


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    key: str
    over: bool = False  # this notification says that it has ended
    in_channel: bool = False  # worth showing in the channel too, beside the thread


def incident_of(told: Sequence[Notifiable]) -> Incident | None:
    """The incident that all of these belong to, if there is one."""
    keys = {_key(each) for each in told}
    if len(keys) != 1 or None in keys:
        return None
    (key,) = keys
    over = _is_over(told[-1])
    return Incident(key=str(key), over=over, in_channel=over or highest_severity(told) is Severity.CRITICAL)


def _key(told: Notifiable) -> str | None:
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
