"""From what a rule found in its readings to its vote.

Every rule finds the same three things: above its limit, between, or below its lower limit. Whether that has lasted is
the same question for all of them, so it is asked here and the rules stay formulas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from nodefleet.engine.signals.sustain import NO_BREACHES, HowLong, Pace, Sustained, evaluate_sustain
from nodefleet.engine.signals.vote import (
    AboveThreshold,
    BelowThreshold,
    ScaleDownOk,
    ScaleUp,
    SignalVote,
    Unreadable,
    Vote,
    WithinThresholds,
)
from nodefleet.model.readings import Reading
from nodefleet.model.state import Breaches


def from_cache(opinion: SignalVote, before: Mapping[str, Breaches], cause: str) -> SignalVote:
    """What remains of an opinion that was formed on a cached reading.

    A Floor stands if the reading had counted already when it was fresh. Everything else becomes a Veto, nothing is
    added to the breaches, and there is no value: a cached figure says nothing about whether new nodes helped.
    """
    known = {name: before.get(name, NO_BREACHES) for name in opinion.breaches}
    counted_anew = any(set(after.times) - set(known[name].times) for name, after in opinion.breaches.items())
    kept = replace(opinion, value=None, breaches=known)
    match opinion.vote:
        case ScaleUp() as floor if not counted_anew:
            return replace(kept, vote=replace(floor, reason=f"{floor.reason} ({cause}: last good reading)"))
        case vote:
            return replace(kept, vote=Unreadable(f"{cause}; last good reading: {vote.reason}"))


# ── verdict ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Above:
    nodes: int  # the count it asks for


@dataclass(frozen=True, slots=True)
class Between:
    pass


@dataclass(frozen=True, slots=True)
class Below:
    down: int = 1  # how many nodes it could do without


Band: TypeAlias = Above | Between | Below


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    zone: Band
    value: float  # the figure that should improve when it gets nodes
    sentence: str
    up: HowLong  # how long it must be above
    down: HowLong  # how long it must be below


def vote_on(signal: str, found: Evaluation, at: datetime, before: Mapping[str, Breaches], pace: Pace) -> SignalVote:
    """The vote on a finding whose readings were sampled at `at`, and the breaches to remember."""
    sample = Reading(found.value, at)
    above, below = isinstance(found.zone, Above), isinstance(found.zone, Below)
    up_key, down_key = _keys(signal)
    up = evaluate_sustain(before.get(up_key, NO_BREACHES), sample, beyond=above, lasting=found.up, pace=pace)
    down = evaluate_sustain(before.get(down_key, NO_BREACHES), sample, beyond=below, lasting=found.down, pace=pace)
    breaches = {up_key: up.breaches, down_key: down.breaches}
    return SignalVote(signal=signal, vote=_vote(found, up, down), value=found.value, breaches=breaches)


def unreadable_vote(signal: str, cause: str, before: Mapping[str, Breaches]) -> SignalVote:
    """No reading: no shrinking. A streak is kept as it is; if the silence lasts, the gap ends it."""
    breaches = {key: before.get(key, NO_BREACHES) for key in _keys(signal)}
    return SignalVote(signal=signal, vote=Unreadable(cause), breaches=breaches)


def _keys(signal: str) -> tuple[str, str]:
    return f"{signal}:up", f"{signal}:down"


def _vote(found: Evaluation, up: Sustained, down: Sustained) -> Vote:
    match found.zone:
        case Above(nodes):
            seen = f"{found.sentence}, {up.progress}"
            return ScaleUp(nodes=nodes, reason=seen) if up.held else AboveThreshold(f"{seen}: waiting for {_what(up)}")
        case Between():
            return WithinThresholds(found.sentence)
        case Below(spare):
            seen = f"{found.sentence}, {down.progress}"
            return ScaleDownOk(reason=seen, down=spare) if down.held else BelowThreshold(seen)


def _what(up: Sustained) -> str:
    return "a second" if len(up.breaches.times) == 1 else "more"
