"""The reactive layer: what the cluster feels right now.

Utilisation must stay beyond its limit for some readings. It is a mean over the nodes that were measured, so it asks
for a step more than those: nodes that still boot are part of that step, and a repeat buys nothing twice.
"""

from collections.abc import Mapping

from nodefleet.decide.inputs import Cached, Input, upheld
from nodefleet.decide.signals.verdict import Above, Below, Between, Finding, Zone, opinion, unreadable
from nodefleet.decide.signals.votes import Look, Opinion
from nodefleet.decide.sustain import Pace
from nodefleet.domain.memory import Breaches
from nodefleet.domain.policy import Steps, Sustain, Utilisation
from nodefleet.domain.readings import Missing, Reading

_LABELS: Mapping[str, str] = {"cpu": "CPU", "memory": "memory"}


def utilisation(
    name: str,
    seen: Input,
    breaches: Mapping[str, Breaches],
    look: Look,
    *,
    limits: Utilisation,
    sustain: Sustain,
    steps: Steps,
    pace: Pace,
) -> Opinion:
    """A step more than the covered nodes when `name` (cpu or memory) has stood above its limit."""
    label = _LABELS[name]
    match seen:
        case Missing(cause):
            return unreadable(name, f"{label} unknown: {cause}", breaches)
        case Cached(reading, cause):
            found = _found(label, reading.value, look, limits, sustain, steps)
            return upheld(opinion(name, found, reading.at, breaches, pace), breaches, f"{label} unknown: {cause}")
        case Reading(value, at):
            found = _found(label, value, look, limits, sustain, steps)
            return opinion(name, found, at, breaches, pace)


def _found(label: str, value: float, look: Look, limits: Utilisation, sustain: Sustain, steps: Steps) -> Finding:
    zone: Zone = Between()
    compared = f"between {limits.down:g} % and {limits.up:g} %"
    if value > limits.up:
        zone, compared = Above(look.covered + steps.up), f"> {limits.up:g} %"
    elif value < limits.down:
        zone, compared = Below(), f"< {limits.down:g} %"
    return Finding(
        zone=zone, value=value, sentence=f"{label} {value:.1f} % {compared}", up=sustain.up, down=sustain.down
    )
