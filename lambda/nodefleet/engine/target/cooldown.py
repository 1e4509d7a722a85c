"""Against to and fro: cooldowns by direction, and the step down.

| after …                  | growing waits | shrinking waits |
|--------------------------|---------------|-----------------|
| growing                  | up (300 s)    | down (600 s)    |
| shrinking                | –             | down (600 s)    |
| restoring min, replacing | –             | –               |

Pending pods that are sized by packing (`steps.pending: packing`) do not wait either: what boots is counted, so a
cooldown would only make them wait.

How far a signal grows at once is part of its own floor; min, replacements, windows and operators outrank this.
"""

from datetime import datetime

from nodefleet.engine.target.bounds import ceiling, floor
from nodefleet.model.decision import Bound, BoundSource, Rank
from nodefleet.model.state import PoolMemory
from nodefleet.policy.pool import Pool


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
