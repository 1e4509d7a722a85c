"""From what a rule found in its readings to its vote.

Every rule finds the same three things: above its limit, between, or below its lower limit. Whether that has lasted is
the same question for all of them, so it is asked here and the rules stay formulas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from nodefleet.decide.signals.votes import Calm, Floor, Opinion, Settling, Steady, Veto, Vote, Waiting
from nodefleet.decide.sustain import NO_BREACHES, HowLong, Lasted, Pace, lasted
from nodefleet.domain.memory import Breaches
from nodefleet.domain.readings import Reading


@dataclass(frozen=True, slots=True)
class Above:
    nodes: int  # the count it asks for


@dataclass(frozen=True, slots=True)
class Between:
    pass


@dataclass(frozen=True, slots=True)
class Below:
    down: int = 1  # how many nodes it could do without


Zone: TypeAlias = Above | Between | Below


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    zone: Zone
    value: float  # the figure that should improve when it gets nodes
    sentence: str
    up: HowLong  # how long it must be above
    down: HowLong  # how long it must be below


def opinion(signal: str, found: Finding, at: datetime, before: Mapping[str, Breaches], pace: Pace) -> Opinion:
    """The vote on a finding whose readings were sampled at `at`, and the breaches to remember."""
    sample = Reading(found.value, at)
    above, below = isinstance(found.zone, Above), isinstance(found.zone, Below)
    up_key, down_key = _keys(signal)
    up = lasted(before.get(up_key, NO_BREACHES), sample, beyond=above, lasting=found.up, pace=pace)
    down = lasted(before.get(down_key, NO_BREACHES), sample, beyond=below, lasting=found.down, pace=pace)
    breaches = {up_key: up.breaches, down_key: down.breaches}
    return Opinion(signal=signal, vote=_vote(found, up, down), value=found.value, breaches=breaches)


def unreadable(signal: str, cause: str, before: Mapping[str, Breaches]) -> Opinion:
    """No reading: no shrinking. A streak is kept as it is; if the silence lasts, the gap ends it."""
    breaches = {key: before.get(key, NO_BREACHES) for key in _keys(signal)}
    return Opinion(signal=signal, vote=Veto(cause), breaches=breaches)


def figure(value: float) -> str:
    """A number as a person writes it: 120, 0.25, 1234567."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _keys(signal: str) -> tuple[str, str]:
    return f"{signal}:up", f"{signal}:down"


def _vote(found: Finding, up: Lasted, down: Lasted) -> Vote:
    match found.zone:
        case Above(nodes):
            seen = f"{found.sentence}, {up.progress}"
            return Floor(nodes=nodes, reason=seen) if up.held else Waiting(f"{seen}: waiting for {_what(up)}")
        case Between():
            return Steady(found.sentence)
        case Below(spare):
            seen = f"{found.sentence}, {down.progress}"
            return Calm(reason=seen, down=spare) if down.held else Settling(seen)


def _what(up: Lasted) -> str:
    return "a second" if len(up.breaches.times) == 1 else "more"
