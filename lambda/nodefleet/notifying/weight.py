"""How urgent each kind of news is, and which kinds are never lost in a crowd."""

from collections.abc import Iterable
from enum import IntEnum
from typing import assert_never

from nodefleet.domain.events import Event, EventKind
from nodefleet.domain.memory import Level
from nodefleet.notifying.news import Alarm, AlarmState, Told


class Urgency(IntEnum):
    OVER = 0  # something bad has ended
    KNOW = 1  # nothing to do
    LOOK = 2  # in working hours
    ACT = 3  # now: it does not mend itself


_URGENCY = {
    EventKind.SCALE_UP: Urgency.KNOW,
    EventKind.SCALE_DOWN: Urgency.KNOW,
    EventKind.AT_MAX: Urgency.LOOK,
    EventKind.JOIN_FAILED: Urgency.LOOK,
    EventKind.JOIN_BACKOFF: Urgency.ACT,
    EventKind.DRAIN_BLOCKED: Urgency.LOOK,
    EventKind.FORCED: Urgency.LOOK,
    EventKind.INTERRUPTED: Urgency.KNOW,
    EventKind.NO_CAPACITY: Urgency.LOOK,
    EventKind.QUOTA: Urgency.ACT,
    EventKind.PERMISSION: Urgency.ACT,
    EventKind.LAUNCH_INVALID: Urgency.ACT,
    EventKind.MANY_SICK: Urgency.ACT,
    EventKind.SICK: Urgency.LOOK,
    EventKind.CANNOT_HOLD: Urgency.LOOK,
    EventKind.PODS_REFUSED: Urgency.LOOK,
    EventKind.NO_BENEFIT: Urgency.LOOK,
    EventKind.SCALE_DOWN_BLOCKED: Urgency.LOOK,
    EventKind.NODE_IN_DOUBT: Urgency.LOOK,
    EventKind.CLEANUP_NEEDS_PERSON: Urgency.LOOK,
    EventKind.DEGRADED: Urgency.LOOK,
    EventKind.RECOVERED: Urgency.OVER,
    EventKind.RESTING_COST: Urgency.LOOK,
    EventKind.MARKET_RESTORED: Urgency.KNOW,
    EventKind.READMITTED: Urgency.KNOW,
    EventKind.PAUSED: Urgency.KNOW,
    EventKind.RESUMED: Urgency.KNOW,
    EventKind.SCALED_BY_PERSON: Urgency.KNOW,
    EventKind.HANDED_OVER: Urgency.KNOW,
    EventKind.POLICY_CHANGED: Urgency.KNOW,
    EventKind.POLICY_REFUSED: Urgency.LOOK,
    EventKind.POLICY_UNUSABLE: Urgency.ACT,
    EventKind.ALARM: Urgency.ACT,
    EventKind.REPORT: Urgency.KNOW,
}

# These have a letter of their own however much else happens. Recovered is among them because degraded is: who was
# woken by the one must hear the other.
STANDS_OUT = frozenset(
    {
        EventKind.INTERRUPTED,
        EventKind.MANY_SICK,
        EventKind.PERMISSION,
        EventKind.QUOTA,
        EventKind.LAUNCH_INVALID,
        EventKind.JOIN_BACKOFF,
        EventKind.POLICY_UNUSABLE,
        EventKind.DEGRADED,
        EventKind.RECOVERED,
        EventKind.ALARM,
        EventKind.REPORT,
    }
)


def urgency(told: Told) -> Urgency:
    match told:
        case Alarm(state=AlarmState.OK):
            return Urgency.OVER
        case Alarm(state=AlarmState.NO_DATA):
            return Urgency.LOOK
        case Event(kind=EventKind.DEGRADED, level=Level.PARTIAL):
            return Urgency.ACT  # without EC2 or Kubernetes nothing grows and nothing heals
        case Event() | Alarm():
            return _URGENCY[told.kind]
        case _:
            assert_never(told)


def most_urgent(told: Iterable[Told]) -> Urgency:
    return max(map(urgency, told))
