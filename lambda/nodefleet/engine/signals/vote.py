"""The vote of a signal. Only ScaleUp adds nodes; a fleet shrinks only if every signal votes ScaleDownOk or abstains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, TypeAlias

from nodefleet.model.operations import SendAlert
from nodefleet.model.state import Breaches, PoolMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUp:
    STORED_AS: ClassVar[str] = "floor"
    nodes: int  # an absolute count: repeating it buys nothing twice
    reason: str
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Above the limit, but not for long enough yet."""

    STORED_AS: ClassVar[str] = "waiting"

    reason: str


@dataclass(frozen=True, slots=True)
class WithinThresholds:
    """Between the limits: no more nodes, and no fewer."""

    STORED_AS: ClassVar[str] = "steady"

    reason: str


@dataclass(frozen=True, slots=True)
class BelowThreshold:
    """Below the lower limit, but not for long enough yet."""

    STORED_AS: ClassVar[str] = "settling"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownOk:
    """Below the lower limit for long enough: some nodes may go."""

    STORED_AS: ClassVar[str] = "calm"

    reason: str
    down: int = 1  # how many it could do without, up to the pool's step


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Configured but unreadable: the fleet may grow on other grounds, it must not shrink."""

    STORED_AS: ClassVar[str] = "veto"

    reason: str


@dataclass(frozen=True, slots=True)
class Abstain:
    """Not configured, or too little history: no say in either direction."""

    reason: str


Vote: TypeAlias = ScaleUp | AboveThreshold | WithinThresholds | BelowThreshold | ScaleDownOk | Unreadable | Abstain


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalVote:
    """The vote of one signal, and the streaks that it remembers."""

    signal: str
    vote: Vote
    value: float | None = None  # the figure that should improve when it gets nodes
    breaches: Mapping[str, Breaches] = field(default_factory=dict)  # by direction: "cpu:up", "cpu:down"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalResults:
    """The votes of all signals on one pool, and the pool's memory after them."""

    votes: tuple[SignalVote, ...]
    memory: PoolMemory
    alerts: tuple[SendAlert, ...]
    at_once: int | None = None  # a size that does not wait for the growth cooldown
    grade: str = ""  # `strategy: adaptive`: how good its forecast has been
    is_rising: bool = False  # `strategy: adaptive`: another look soon may be worth it

    @property
    def floors(self) -> tuple[tuple[SignalVote, ScaleUp], ...]:
        return tuple((opinion, opinion.vote) for opinion in self.votes if isinstance(opinion.vote, ScaleUp))
