"""Bounds that operators set: min, max and fleet.max, schedule windows, a scale command. And replacing what was lost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nodefleet.engine.context import PoolContext
from nodefleet.engine.target.bounds import ceiling, floor
from nodefleet.model.decision import Bound, BoundSource, Rank
from nodefleet.model.fleet import Count
from nodefleet.model.names import pluralize, some
from nodefleet.model.snapshot import Observation, Scale
from nodefleet.model.state import Loss
from nodefleet.policy.pool import Pool


def limit_bounds(pool: Pool, count: Count) -> list[Bound]:
    """Min and max. What is not capacity but still there (draining, a kept failure) leaves less room to grow."""
    least, most = pool.limits.min, pool.limits.max
    return [
        floor(least, BoundSource.MIN, Rank.LIMIT, f"min is {least}, {pluralize(count.capacity, 'is', 'are')} there"),
        ceiling(_room(most, count), BoundSource.MAX, Rank.LIMIT, f"max is {most}, {_there(count)}"),
    ]


def fleet_bounds(ctx: PoolContext) -> list[Bound]:
    """Where fleet.max leaves the pool less than its own max."""
    if ctx.most >= ctx.pool.limits.max:
        return []
    sentence = f"fleet.max is {ctx.policy.fleet_max} and leaves this pool {ctx.most}, {_there(ctx.count)}"
    return [ceiling(_room(ctx.most, ctx.count), BoundSource.FLEET_MAX, Rank.LIMIT, sentence)]


def _room(most: int, count: Count) -> int:
    return max(min(count.capacity, most), most - (count.occupied - count.capacity))


def _there(count: Count) -> str:
    besides = count.occupied - count.capacity
    taken = f", {pluralize(besides, 'of them is', 'of them are')} no capacity" if besides > 0 else ""
    return f"{pluralize(count.occupied, 'is', 'are')} there{taken}"


def within_fleet(ctx: PoolContext, others: Sequence[PoolContext], room: int, surplus: Mapping[str, int]) -> PoolContext:
    """The pool with what fleet.max leaves it: `room` for new workers, of which the pools that come after it keep what
    they lack to min. Its `surplus` leaves. Workers that no pool owns only take room, and push nobody out.

    A limit that nobody wrote, the sum of the pools' max, keeps no pool below its min."""
    lacking = sum(max(0, each.pool.limits.min - each.count.capacity) for each in others)
    share = ctx.count.occupied + max(0, room - lacking) - surplus.get(ctx.pool.name, 0)
    if ctx.policy.fleet.max is None:
        share = max(share, ctx.pool.limits.min + ctx.count.occupied - ctx.count.capacity)
    return replace(ctx, most=min(ctx.pool.limits.max, share))


def fleet_surplus(cases: Sequence[PoolContext], most: int) -> Mapping[str, int]:
    """How many workers of each pool are too many for fleet.max, in the pools that have the most above min. The workers
    that other pools lack to min count as if they were there: they would never find room otherwise."""
    spare = Counter({each.pool.name: each.count.occupied - each.pool.limits.min for each in cases})
    surplus: Counter[str] = Counter()
    for _ in range(sum(max(each.count.occupied, each.pool.limits.min) for each in cases) - most):
        pool, above = max(spare.items(), key=lambda item: item[1])
        if above <= 0:
            break
        surplus[pool] += 1
        spare[pool] -= 1
    return surplus


def replacement_bounds(losses: Sequence[Loss], capacity: int) -> list[Bound]:
    if not losses:
        return []
    names = some(f"{loss.worker} ({loss.cause})" for loss in losses)
    return [floor(capacity + len(losses), BoundSource.REPLACE, Rank.LIMIT, f"{len(losses)} lost: {names}")]


def window_bounds(seen: Observation, pool: str) -> list[Bound]:
    bounds = []
    for window in seen.windows:
        if window.pool != pool or window.until <= seen.at:
            continue
        source, until = BoundSource.WINDOW.with_name(window.name), f"until {window.until:%Y-%m-%d %H:%M}"
        if window.min is not None:
            sentence = f"window {window.name} wants at least {window.min} {until}"
            bounds.append(floor(window.min, source, Rank.WINDOW, sentence, window.until))
        if window.max is not None:
            sentence = f"window {window.name} wants at most {window.max} {until}"
            bounds.append(ceiling(window.max, source, Rank.WINDOW, sentence, window.until))
    return bounds


def command_bounds(seen: Observation, pool: str) -> list[Bound]:
    """An operator's size, as floor and ceiling; the last one given counts."""
    scales = [each for each in seen.commands if isinstance(each, Scale) and each.pool == pool and seen.at < each.until]
    if not scales:
        return []
    asked = scales[-1]
    because = f": {asked.reason}" if asked.reason else ""
    sentence = f"{asked.by} asked for {asked.nodes} until {asked.until:%Y-%m-%d %H:%M}{because}"
    return [
        floor(asked.nodes, BoundSource.OPERATOR, Rank.OPERATOR, sentence, asked.until),
        ceiling(asked.nodes, BoundSource.OPERATOR, Rank.OPERATOR, sentence, asked.until),
    ]
