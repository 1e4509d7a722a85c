"""How severe an event or an alarm is: by its kind, and by its level or state."""

from collections.abc import Iterable
from typing import assert_never

from nodefleet.domain.alerts import CATALOGUE, AlertKind, Severity
from nodefleet.domain.events import Event
from nodefleet.domain.memory import Level
from nodefleet.notifying.news import Alarm, AlarmState, Told


def urgency(told: Told) -> Severity:
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


def most_urgent(told: Iterable[Told]) -> Severity:
    return max(map(urgency, told))
