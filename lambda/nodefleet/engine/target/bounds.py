"""Floors and ceilings, and the one rule that makes a target of them.

Everything that has a say is a bound: min and max, what signals ask for, windows, cooldowns, an operator, safety. Bounds
are applied rank by rank from the weakest to the strongest, so the stronger one has the last word; within a rank a
ceiling beats a floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.model.decision import Bound, Overruled, Rank, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    target: int
    by: Bound | None  # the bound that gave the target its value
    overruled: tuple[Overruled, ...]


def floor(nodes: int, source: str, rank: Rank, sentence: str, expires: datetime | None = None) -> Bound:
    return Bound(side=Side.FLOOR, nodes=nodes, source=str(source), rank=rank, sentence=sentence, expires=expires)


def ceiling(nodes: int, source: str, rank: Rank, sentence: str, expires: datetime | None = None) -> Bound:
    return Bound(side=Side.CEILING, nodes=nodes, source=str(source), rank=rank, sentence=sentence, expires=expires)


def resolve_target(bounds: Sequence[Bound]) -> TargetResult:
    """The target that the strongest bounds leave, and who did not get what they asked for."""
    target, by = 0, None
    for rank in Rank:
        highest = max((b for b in bounds if b.rank is rank and b.side is Side.FLOOR), key=_nodes, default=None)
        if highest is not None and highest.nodes > target:
            target, by = highest.nodes, highest
        lowest = min((b for b in bounds if b.rank is rank and b.side is Side.CEILING), key=_nodes, default=None)
        if lowest is not None and lowest.nodes < target:
            target, by = lowest.nodes, lowest
    if by is None:
        return TargetResult(target=0, by=None, overruled=())
    unmet = tuple(Overruled(bound=bound, by=by.source) for bound in bounds if not is_met(bound, target))
    return TargetResult(target=target, by=by, overruled=unmet)


def is_met(bound: Bound, target: int) -> bool:
    return bound.nodes <= target if bound.side is Side.FLOOR else bound.nodes >= target


def _nodes(bound: Bound) -> int:
    return bound.nodes
