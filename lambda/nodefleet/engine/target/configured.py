"""Bounds that operators set: min, max, fleet.max and the caps of the fleet, schedule windows, a scale command; and the
replacement of lost workers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor as rounded_down

from nodefleet.engine.context import CapRoom, PoolContext
from nodefleet.engine.target.bounds import ceiling, floor
from nodefleet.model.decision import Bound, BoundSource, Rank
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import InstanceType
from nodefleet.model.names import figure, pluralize, some
from nodefleet.model.operations import Create, Launch, Step
from nodefleet.model.snapshot import Observation, Scale
from nodefleet.model.state import Loss
from nodefleet.phases import Amounts, amounts_of, caps_of, largest_of
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
    they lack to min. Its `surplus` leaves. Workers that no pool owns only take room, and displace no worker.

    A limit that the policy does not state, the sum of the pools' max, keeps no pool below its min."""
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
    """An operator's size, as floor and ceiling, or as a floor only; the last one given counts."""
    scales = [each for each in seen.commands if isinstance(each, Scale) and each.pool == pool and seen.at < each.until]
    if not scales:
        return []
    asked = scales[-1]
    because = f": {asked.reason}" if asked.reason else ""
    more = " or more" if asked.at_least else ""
    sentence = f"{asked.by} asked for {asked.nodes}{more} until {asked.until:%Y-%m-%d %H:%M}{because}"
    least = floor(asked.nodes, BoundSource.OPERATOR, Rank.OPERATOR, sentence, asked.until)
    if asked.at_least:
        return [least]
    return [least, ceiling(asked.nodes, BoundSource.OPERATOR, Rank.OPERATOR, sentence, asked.until)]


# ── caps over all pools ──────────────────────────────────────────────────────────────────────────────────────────────
# Caps over all pools: CPU, memory, GPUs and cost per hour of every worker together.
#
# A cap stops growth; it removes nothing, and no pool is kept below its min by it. Pools of higher priority are
# decided first, so under a cap those of lower priority wait; what the later ones lack to min is kept for them, or
# restoring it would exceed the cap. A new node counts as the largest and most expensive of the types that it may be
# launched as: what EC2 chooses can then only be less.


_UNITS = {"cpu": "cores", "memory": "GiB", "gpus": "GPUs", "usd_per_hour": "USD/h"}


def by_priority(cases: Iterable[PoolContext]) -> list[PoolContext]:
    """Of pools of one priority those first that the policy names first."""
    return sorted(cases, key=lambda ctx: -ctx.pool.priority)


def with_launches(used: Amounts, plan: Iterable[Step], seen: Observation) -> Amounts:
    """The same after the launches of a plan."""
    catalog = {offer.name: offer for offer in seen.catalog}
    more = Counter(used)
    for step in plan:
        if isinstance(step, Create) and isinstance(step.operation, Launch):
            for _ in range(step.operation.count):
                more.update(amounts_of(step.operation.types, catalog, step.operation.market))
    return more


def within_caps(ctx: PoolContext, others: Sequence[PoolContext], used: Amounts) -> PoolContext:
    """The pool with what the tightest cap leaves it: of what is not in `used` the pools that come after it keep what
    they lack to min."""
    caps = caps_of(ctx.policy.fleet)
    if not caps:
        return ctx
    catalog = {offer.name: offer for offer in ctx.seen.catalog}
    unknown = [name for name in ctx.pool.market.types if name not in catalog]
    each, kept = largest_of(ctx.pool, catalog), _lacking(others, catalog)
    rooms = []
    for name, cap in caps.items():
        size = each[name]
        in_use = f"fleet.{name} is {figure(cap)} {_UNITS[name]}, {figure(used.get(name, 0.0))} are in use"
        if kept[name]:
            in_use += f" and {figure(kept[name])} are kept for the min of other pools"
        if unknown or (name == "usd_per_hour" and not _all_priced(ctx.pool.market.types, catalog)):
            named = ", ".join(unknown or ctx.pool.market.types)
            rooms.append(CapRoom(more=0, sentence=f"{in_use}, and what {named} would add is not known"))
        elif size:
            more = max(0, rounded_down((cap - used.get(name, 0.0) - kept[name]) / size + 1e-9))
            rooms.append(CapRoom(more=more, sentence=f"{in_use}, and a node of this pool may add {figure(size)}"))
    return replace(ctx, cap=min(rooms, key=lambda room: room.more, default=None))


def pools_at_a_cap(cases: Iterable[PoolContext], used: Amounts) -> frozenset[str]:
    """Pools that have their min, and that a cap leaves no room for a node more."""
    alone = (within_caps(each, (), used) for each in cases if each.count.capacity >= each.pool.limits.min)
    return frozenset(each.pool.name for each in alone if each.cap is not None and each.cap.more == 0)


def _lacking(others: Iterable[PoolContext], catalog: Mapping[str, InstanceType]) -> Counter[str]:
    """What these pools will launch to have their min, whatever the caps say."""
    lacking: Counter[str] = Counter()
    for each in others:
        if not each.pool.dry_run:
            for _ in range(each.pool.limits.min - each.count.capacity):
                lacking.update(largest_of(each.pool, catalog))
    return lacking


def cap_bounds(ctx: PoolContext) -> list[Bound]:
    """The ceiling of the cap that leaves the pool least."""
    if ctx.cap is None:
        return []
    nodes = max(ctx.count.capacity + ctx.cap.more, ctx.pool.limits.min)
    return [ceiling(nodes, BoundSource.FLEET_CAP, Rank.LIMIT, ctx.cap.sentence)] if nodes < ctx.most else []


def _all_priced(types: Iterable[str], catalog: Mapping[str, InstanceType]) -> bool:
    return all(catalog[name].hourly_usd is not None for name in types)
