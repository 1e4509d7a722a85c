"""Floors and ceilings, the one rule that makes a target of them, and the bounds of cooldowns.

Everything that has a say is a bound: min and max, what signals ask for, windows, cooldowns, an operator, safety. Bounds
are applied rank by rank from the weakest to the strongest, so the stronger one has the last word; within a rank a
ceiling beats a floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.model.decision import Bound, BoundSource, Overruled, Rank, Side
from nodefleet.model.state import PoolMemory
from nodefleet.policy.pool import Pool


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


# ── cooldowns and the step down ──────────────────────────────────────────────────────────────────────────────────────
# Against flapping: cooldowns by direction, and the step down.
#
# | after …                  | growing waits | shrinking waits |
# |--------------------------|---------------|-----------------|
# | growing                  | up (300 s)    | down (600 s)    |
# | shrinking                | –             | down (600 s)    |
# | restoring min, replacing | –             | –               |
#
# Pending pods that are sized by packing (`steps.pending: packing`) do not wait either: what boots is counted, so a
# cooldown would only make them wait.
#
# How far a signal grows at once is part of its own floor; min, replacements, windows and operators outrank this.


def cooldown_bounds(
    pool: Pool, memory: PoolMemory, capacity: int, now: datetime, at_once: int | None = None
) -> list[Bound]:
    """`at_once` is a size that does not wait for the growth cooldown."""
    down = pool.steps.down
    if pool.strategy == "adaptive":  # it weighs what a removal saves against the chance that it is undone
        return _growth(pool, memory, capacity, now, at_once)
    bounds = [floor(max(0, capacity - down), BoundSource.STEP, Rank.DAMPING, f"at most {down} fewer at once")]
    bounds += _growth(pool, memory, capacity, now, at_once)
    grown = memory.last_grow
    scaled = max((time for time in (grown, memory.last_shrink) if time is not None), default=None)
    if scaled is not None and now - scaled < pool.cooldown.down:
        ends = scaled + pool.cooldown.down
        sentence = (
            f"cooldown: scaled {_ago(scaled, now)} ago, shrinking waits {(ends - now).total_seconds():.0f} s more"
        )
        bounds.append(floor(capacity, BoundSource.COOLDOWN_DOWN, Rank.DAMPING, sentence, ends))
    return bounds


def _growth(pool: Pool, memory: PoolMemory, capacity: int, now: datetime, at_once: int | None) -> list[Bound]:
    grown = memory.last_grow
    if grown is None or now - grown >= pool.cooldown.up:
        return []
    ends = grown + pool.cooldown.up
    sentence = f"cooldown: grew {_ago(grown, now)} ago, {(ends - now).total_seconds():.0f} s left"
    return [ceiling(max(capacity, at_once or 0), BoundSource.COOLDOWN, Rank.DAMPING, sentence, ends)]


def _ago(then: datetime, now: datetime) -> str:
    return f"{(now - then).total_seconds():.0f} s"
