"""Shrinking is AND: every signal must be calm, nothing may wait, and the nodes that remain must bear the load."""

from collections.abc import Sequence

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.vote import Abstain, ScaleDownOk, ScaleUp, SignalVote
from nodefleet.engine.target.bounds import floor
from nodefleet.model.decision import Bound, BoundSource, Rank
from nodefleet.model.names import pluralize
from nodefleet.policy.pool import Reactive

# These say that nodes could go, and not how many: `steps.down` and the projection limit them.
_WITHOUT_NUMBER = (BoundSource.CPU, BoundSource.MEMORY, BoundSource.PODS)


def evaluate_gate(opinions: Sequence[SignalVote], look: FleetSize, reactive: Reactive, step: int) -> list[Bound]:
    """Floors that keep the fleet as it is; if no signal objects, one that lets it shrink by the agreed number."""
    # The forecast has a floor of its own.
    speaking = [opinion for opinion in opinions if opinion.signal != BoundSource.PREDICTIVE]
    against = [
        floor(look.capacity, opinion.signal, Rank.SIGNAL, opinion.vote.reason)
        for opinion in speaking
        if not isinstance(opinion.vote, ScaleDownOk | Abstain | ScaleUp)
    ]
    asking = [opinion.signal for opinion in speaking if isinstance(opinion.vote, ScaleUp)]
    if asking:
        against.append(floor(look.capacity, BoundSource.KEEP, Rank.SIGNAL, f"not calm: {', '.join(asking)}"))
    if against:
        return against
    calm = [opinion for opinion in opinions if isinstance(opinion.vote, ScaleDownOk)]
    if not calm:
        return [floor(look.capacity, BoundSource.KEEP, Rank.SIGNAL, "no signal is calm")]
    down = _agreed_step(calm, step)
    while down > 1 and too_much(opinions, look, reactive, down):
        down -= 1
    over = too_much(opinions, look, reactive, down)
    if over:
        return [floor(look.capacity, BoundSource.PROJECTION, Rank.SIGNAL, sentence) for sentence in over]
    sentence = "; ".join(opinion.vote.reason for opinion in calm)
    return [floor(max(0, look.capacity - down), BoundSource.CALM, Rank.SIGNAL, sentence)]


def _agreed_step(calm: Sequence[SignalVote], step: int) -> int:
    """`steps.down`, or fewer where a custom rule or the forecast can do without fewer only."""
    asked = [
        opinion.vote.down
        for opinion in calm
        if opinion.signal not in _WITHOUT_NUMBER and isinstance(opinion.vote, ScaleDownOk)
    ]
    return max(1, min([step, *asked]))


def too_much(opinions: Sequence[SignalVote], look: FleetSize, reactive: Reactive, down: int) -> list[str]:
    """Readings that would come too close to their growth threshold on the nodes that remain.

    The readings are the mean of the measured nodes, of which one leaves. Where none of them would remain, those whose
    exporters are silent are taken to carry as much.
    """
    if look.capacity <= down:
        return []  # the last one goes only where min is 0, and only if its pods fit elsewhere
    measured = look.covered if look.measured is None or look.measured <= down else look.measured
    remaining = measured - down
    thresholds = {
        BoundSource.CPU.value: ("CPU", reactive.cpu.up),
        BoundSource.MEMORY.value: ("memory", reactive.memory.up),
    }
    found = []
    for opinion in opinions:
        if opinion.signal not in thresholds or opinion.value is None:
            continue
        name, up = thresholds[opinion.signal]
        limit = up - reactive.projection_margin
        if remaining <= 0:
            found.append(f"no ready node would remain to carry {name} {opinion.value:.1f} %")
        elif opinion.value * measured / remaining > limit:
            projected = opinion.value * measured / remaining
            nodes = pluralize(remaining, "node", "nodes")
            found.append(f"{name} would be {projected:.1f} % on {nodes}, limit {limit:g} %")
    return found
