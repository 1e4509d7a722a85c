"""What there is to tell: an event of ours, or an alarm of CloudWatch or Prometheus."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import ClassVar, TypeAlias

from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.events import Event


class AlarmState(Enum):
    """By CloudWatch's own words."""

    ALARM = "ALARM"
    OK = "OK"
    NO_DATA = "INSUFFICIENT_DATA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm that changed its state. It reaches people even if nothing else of ours works."""

    kind: ClassVar[AlertKind] = AlertKind.ALARM
    dry: ClassVar[bool] = False

    id: str  # the same for the same change of state, however often and by whichever topic it comes
    at: datetime
    cluster: str = ""  # empty: it does not say
    pool: str = ""
    name: str
    state: AlarmState
    description: str = ""  # as whoever made the alarm wrote it
    source: str = "CloudWatch"  # who watches
    reason: str = ""  # its own words, with figures
    rule: str = ""  # Sum of ScalingFailures ≥ 3 within 15 min
    console: str = ""  # a link


Told: TypeAlias = Event | Alarm


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    receipt: str  # how its sender knows it; given back when it could not be told
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """Something that came and cannot be understood. Trying again would not help."""

    key: str  # enough to find it
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A batch as it came."""

    news: tuple[News, ...] = ()
    spoiled: tuple[Spoiled, ...] = ()
