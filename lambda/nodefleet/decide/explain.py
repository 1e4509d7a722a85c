"""The decision in one sentence with its figures: what happens, who wanted it, and who overruled whom."""

from collections.abc import Sequence

from nodefleet.decide.bounds import Settled
from nodefleet.decide.signals.votes import Abstain, Floor, Opinion, Waiting
from nodefleet.domain.decision import Bound, Rank, Side


def grown(capacity: int, settled: Settled) -> str:
    short = _unmet_floor(settled)
    limited = f", though {short.source} asks for {short.nodes}" if short else ""
    return f"Growing {capacity} → {settled.target}: {_sentence(settled)}{limited}"


def shrunk(capacity: int, settled: Settled, bounds: Sequence[Bound], leaving: Sequence[str]) -> str:
    return f"Shrinking {capacity} → {settled.target}: {_why_fewer(settled, bounds)}; {', '.join(leaving)} leaves"


def stuck(capacity: int, settled: Settled, bounds: Sequence[Bound], obstacle: str) -> str:
    return f"Holding {capacity}: {settled.target} would do ({_why_fewer(settled, bounds)}), but {obstacle}"


def held(capacity: int, settled: Settled, bounds: Sequence[Bound], opinions: Sequence[Opinion]) -> str:
    wanted = _unmet_floor(settled)
    if wanted is not None:
        return f"Holding {capacity}: {wanted.sentence} (asks for {wanted.nodes}), but {_sentence(settled)}"
    fewer = min((b for b in bounds if b.rank is Rank.SIGNAL), key=lambda bound: bound.nodes, default=None)
    all_agree = fewer is not None and all(b.nodes < capacity for b in bounds if b.rank is Rank.SIGNAL)
    if fewer is not None and all_agree:
        return f"Holding {capacity}: {fewer.sentence}, but {_sentence(settled)}"
    return f"Holding {capacity}: {_said(opinions) or _sentence(settled)}"


def votes(opinions: Sequence[Opinion]) -> tuple[str, ...]:
    return tuple(
        f"{opinion.signal}: {type(opinion.vote).__name__.lower()}, {opinion.vote.reason}" for opinion in opinions
    )


def _said(opinions: Sequence[Opinion]) -> str:
    """What the signals say, those that ask or wait first."""
    speaking = [opinion for opinion in opinions if not isinstance(opinion.vote, Abstain)]
    speaking.sort(key=lambda opinion: not isinstance(opinion.vote, Floor | Waiting))
    return "; ".join(opinion.vote.reason for opinion in speaking)


def _why_fewer(settled: Settled, bounds: Sequence[Bound]) -> str:
    """A ceiling that pushes the fleet down, or the signals that agree."""
    if settled.by is not None and settled.by.side is Side.CEILING:
        return settled.by.sentence
    calm = next((bound.sentence for bound in bounds if bound.source == "calm"), "")
    return calm or _sentence(settled)


def _unmet_floor(settled: Settled) -> Bound | None:
    """The highest floor that did not get what it asked for."""
    floors = [each.bound for each in settled.overruled if each.bound.side is Side.FLOOR]
    return max(floors, key=lambda bound: bound.nodes, default=None)


def _sentence(settled: Settled) -> str:
    return settled.by.sentence if settled.by else f"nothing asks for more than {settled.target}"
