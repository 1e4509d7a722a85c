"""Shrinking is AND: every signal must be calm, nothing may wait, and the nodes that remain must bear the load."""

from collections.abc import Sequence

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.vote import Abstain, ScaleDownOk, ScaleUp, SignalVote, find_overload
from nodefleet.engine.target.bounds import floor
from nodefleet.model.decision import Bound, BoundSource, Rank
from nodefleet.policy.pool import Reactive

# These say that nodes could go, and not how many: `steps.down` and the projection limit them.
_WITHOUT_NUMBER = (BoundSource.CPU, BoundSource.MEMORY, BoundSource.PODS)


def evaluate_gate(votes: Sequence[SignalVote], fleet_size: FleetSize, reactive: Reactive, step: int) -> list[Bound]:
    """Floors that keep the fleet as it is; if no signal objects, one that lets it shrink by the agreed number."""
    # The forecast has a floor of its own.
    speaking = [opinion for opinion in votes if opinion.signal != BoundSource.PREDICTIVE]
    against = [
        floor(fleet_size.capacity, opinion.signal, Rank.SIGNAL, opinion.vote.reason)
        for opinion in speaking
        if not isinstance(opinion.vote, ScaleDownOk | Abstain | ScaleUp)
    ]
    asking = [opinion.signal for opinion in speaking if isinstance(opinion.vote, ScaleUp)]
    if asking:
        against.append(floor(fleet_size.capacity, BoundSource.KEEP, Rank.SIGNAL, f"not calm: {', '.join(asking)}"))
    if against:
        return against
    calm = [opinion for opinion in votes if isinstance(opinion.vote, ScaleDownOk)]
    if not calm:
        return [floor(fleet_size.capacity, BoundSource.KEEP, Rank.SIGNAL, "no signal is calm")]
    down = _agreed_step(calm, step)
    while down > 1 and find_overload(votes, fleet_size, reactive, down):
        down -= 1
    over = find_overload(votes, fleet_size, reactive, down)
    if over:
        return [floor(fleet_size.capacity, BoundSource.PROJECTION, Rank.SIGNAL, sentence) for sentence in over]
    sentence = "; ".join(opinion.vote.reason for opinion in calm)
    return [floor(max(0, fleet_size.capacity - down), BoundSource.CALM, Rank.SIGNAL, sentence)]


def _agreed_step(calm: Sequence[SignalVote], step: int) -> int:
    """`steps.down`, or fewer where a custom rule or the forecast can do without fewer only."""
    asked = [
        opinion.vote.down
        for opinion in calm
        if opinion.signal not in _WITHOUT_NUMBER and isinstance(opinion.vote, ScaleDownOk)
    ]
    return max(1, min([step, *asked]))
