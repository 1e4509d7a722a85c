"""What a signal may say. Only a Floor buys nodes; the fleet shrinks only when every signal is Calm or abstains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from nodefleet.domain.memory import Breaches


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    nodes: int  # an absolute count: repeating it buys nothing twice
    reason: str
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Above the limit, but not for long enough yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Steady:
    """Between the limits: no more nodes, and no fewer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Settling:
    """Below the lower limit, but not for long enough yet."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calm:
    """Below the lower limit for long enough: some nodes may go."""

    reason: str
    down: int = 1  # how many it could do without, up to the pool's step


@dataclass(frozen=True, slots=True)
class Veto:
    """Configured but unreadable: the fleet may grow on other grounds, it must not shrink."""

    reason: str


@dataclass(frozen=True, slots=True)
class Abstain:
    """Not configured, or too little history: no say in either direction."""

    reason: str


Vote: TypeAlias = Floor | Waiting | Steady | Settling | Calm | Veto | Abstain


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What one signal said, and what it has to remember."""

    signal: str
    vote: Vote
    value: float | None = None  # the figure that should improve when it gets nodes
    breaches: Mapping[str, Breaches] = field(default_factory=dict)  # by direction: "cpu:up", "cpu:down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What every signal may know of the fleet besides its own readings."""

    now: datetime
    covered: int  # ready workers that the readings cover
    capacity: int  # ready and booting workers
    peaks: Mapping[str, int] = field(default_factory=dict)  # the highest capacity of the last days, by UTC date
