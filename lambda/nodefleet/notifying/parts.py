"""What telling people needs of the world."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol, TypeAlias

from nodefleet.notifying.folding import Letter
from nodefleet.notifying.limits import Limits
from nodefleet.notifying.news import Told
from nodefleet.ports import Telemetry, Time


class Claim(Enum):
    MINE = "mine"  # nobody else tells it until the claim ends
    TOLD = "told"  # long ago, or just now by another run


@dataclass(frozen=True, slots=True)
class Busy:
    """Another run is about to tell it, or died while it did."""

    until: datetime


Claimed: TypeAlias = Claim | Busy


class Sent(Protocol):
    """Who has told what. Any NodeFleetError may come of it."""

    def claim(self, told: Told, now: datetime, until: datetime) -> Claimed: ...

    def release(self, told: Told) -> None:
        """Give the claim back, if it is still ours."""
        ...

    def done(self, told: Told, forget: datetime) -> None: ...


class Messenger(Protocol):
    def send(self, letter: Letter) -> None:
        """UnavailableError: not now. DeniedError: not before a person mends something. MalformedError: never."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    sent: Sent
    messenger: Messenger
    time: Time
    telemetry: Telemetry
    limits: Limits = field(default_factory=Limits)
