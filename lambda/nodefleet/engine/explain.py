"""The decision in one sentence with its figures: what happens, who wanted it, and who overruled whom."""

from collections.abc import Sequence

from nodefleet.engine.signals.vote import AboveThreshold, Abstain, ScaleUp, SignalVote
from nodefleet.engine.target import TargetResult, is_met
from nodefleet.model.decision import Bound, BoundSource, Side
from nodefleet.model.names import some
from nodefleet.model.serialization import kind_of

_OF_NODES = (BoundSource.CPU, BoundSource.MEMORY)  # without a node there is none to measure, and nothing is unknown


def explain_scale_up(capacity: int, settled: TargetResult, target: int, obstacle: str = "") -> str:
    """`target` is what the plan reaches; the obstacle is why that is less than was settled on."""
    short = _unmet_floor(settled)
    limited = f", though {short.source} asks for {short.nodes}" if short else ""
    fewer = f"; {obstacle}" if target != settled.target else ""
    return f"Growing {capacity} → {target}: {_sentence(settled)}{limited}{fewer}"


def explain_scale_down(capacity: int, settled: TargetResult, bounds: Sequence[Bound], leaving: Sequence[str]) -> str:
    who = f"{some(leaving)} {'leaves' if len(leaving) == 1 else 'leave'}"
    return f"Shrinking {capacity} → {capacity - len(leaving)}: {_why_fewer(settled, bounds)}; {who}"


def explain_stuck(capacity: int, settled: TargetResult, bounds: Sequence[Bound], obstacle: str) -> str:
    return f"Holding {capacity}: {settled.target} would do ({_why_fewer(settled, bounds)}), but {obstacle}"


def explain_hold(capacity: int, settled: TargetResult, bounds: Sequence[Bound], votes: Sequence[SignalVote]) -> str:
    wanted = _unmet_floor(settled)
    if wanted is not None:
        return f"Holding {capacity}: {wanted.sentence} (asks for {wanted.nodes}), but {_sentence(settled)}"
    calm = _agreement(bounds)
    if calm is not None:
        return f"Holding {capacity}: {calm.sentence}, but {_sentence(settled)}"
    pauses = [bound for bound in bounds if bound.kind is BoundSource.PAUSE and bound.side is Side.FLOOR]
    paused = "".join(f"; {bound.sentence}" for bound in pauses)
    projected = [bound.sentence for bound in bounds if bound.kind is BoundSource.PROJECTION]
    if projected:
        return f"Holding {capacity}: {_join_reasons(votes)}, but {'; '.join(projected)}{paused}"
    speaking = [each for each in votes if capacity or each.signal not in _OF_NODES]
    return f"Holding {capacity}: {_join_reasons(speaking) or _sentence(settled)}{paused}"


def render_votes(votes: Sequence[SignalVote]) -> tuple[str, ...]:
    return tuple(f"{opinion.signal}: {kind_of(type(opinion.vote))}, {opinion.vote.reason}" for opinion in votes)


def _join_reasons(votes: Sequence[SignalVote]) -> str:
    """What the signals say, those that ask or wait first."""
    speaking = [opinion for opinion in votes if not isinstance(opinion.vote, Abstain)]
    speaking.sort(key=lambda opinion: not isinstance(opinion.vote, ScaleUp | AboveThreshold))
    return "; ".join(opinion.vote.reason for opinion in speaking)


def _why_fewer(settled: TargetResult, bounds: Sequence[Bound]) -> str:
    """A ceiling that pushes the fleet down, or the signals that agree."""
    calm = _agreement(bounds)
    return calm.sentence if calm is not None and is_met(calm, settled.target) else _sentence(settled)


def _agreement(bounds: Sequence[Bound]) -> Bound | None:
    """The agreement of all signals that fewer would do."""
    return next((bound for bound in bounds if bound.kind is BoundSource.CALM), None)


def _unmet_floor(settled: TargetResult) -> Bound | None:
    """The highest floor that did not get what it asked for."""
    floors = [each.bound for each in settled.overruled if each.bound.side is Side.FLOOR]
    return max(floors, key=lambda bound: bound.nodes, default=None)


def _sentence(settled: TargetResult) -> str:
    return settled.by.sentence if settled.by else f"nothing asks for more than {settled.target}"
