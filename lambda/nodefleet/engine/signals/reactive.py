"""The reactive layer: what the cluster feels right now.

Utilisation must stay beyond its limit for some readings. It is a mean over the nodes that were measured, so it asks
for a step more than those: nodes that still boot are part of that step, and a repeat buys nothing twice.
"""

from collections.abc import Mapping

from nodefleet.capacity import FleetSize
from nodefleet.engine.context import Cached, SignalInput
from nodefleet.engine.signals.thresholds import (
    Above,
    Band,
    Below,
    Between,
    Evaluation,
    Pace,
    from_cache,
    unreadable_vote,
    vote_on,
)
from nodefleet.engine.signals.vote import SignalVote
from nodefleet.model.readings import Missing, Reading
from nodefleet.model.state import Breaches
from nodefleet.policy.fields import Sustain
from nodefleet.policy.pool import Steps, Utilisation

_LABELS: Mapping[str, str] = {"cpu": "CPU", "memory": "memory"}


def evaluate_utilisation(
    name: str,
    seen: SignalInput,
    breaches: Mapping[str, Breaches],
    look: FleetSize,
    *,
    limits: Utilisation,
    sustain: Sustain,
    steps: Steps,
    pace: Pace,
) -> SignalVote:
    """A step more than the covered nodes when `name` (cpu or memory) has stood above its limit."""
    label = _LABELS[name]
    match seen:
        case Missing(cause):
            return unreadable_vote(name, f"{label} unknown: {cause}", breaches)
        case Cached(reading, cause):
            found = _evaluate(label, reading.value, look, limits, sustain, steps)
            return from_cache(vote_on(name, found, reading.at, breaches, pace), breaches, f"{label} unknown: {cause}")
        case Reading(value, at):
            found = _evaluate(label, value, look, limits, sustain, steps)
            return vote_on(name, found, at, breaches, pace)


def _evaluate(
    label: str, value: float, look: FleetSize, limits: Utilisation, sustain: Sustain, steps: Steps
) -> Evaluation:
    zone: Band = Between()
    compared = f"between {limits.down:g} % and {limits.up:g} %"
    if value > limits.up:
        zone, compared = Above(look.covered + steps.up), f"> {limits.up:g} %"
    elif value < limits.down:
        zone, compared = Below(), f"< {limits.down:g} %"
    return Evaluation(
        zone=zone, value=value, sentence=f"{label} {value:.1f} % {compared}", up=sustain.up, down=sustain.down
    )
