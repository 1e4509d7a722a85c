"""Floors and ceilings, the one rule that makes a target of them, and the bounds that no signal asks for: cooldowns,
what operators set, caps over all pools, safety, and the gate that lets the fleet shrink.

Everything that has a say is a bound: min and max, what signals ask for, windows, cooldowns, an operator, safety. Bounds
are applied rank by rank from the weakest to the strongest, so the stronger one has the last word; within a rank a
ceiling beats a floor.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import floor as rounded_down
from types import MappingProxyType

from nodefleet.capacity import ROUNDING, Amounts, FleetSize, amounts_of, caps_of, largest_of
from nodefleet.engine.context import CapRoom, DataQuality, PlacementRequest, PoolContext
from nodefleet.engine.signals.vote import Abstain, ScaleDownOk, ScaleUp, SignalVote, find_overload
from nodefleet.model.decision import Bound, BoundSource, Overruled, Rank, Side
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import InstanceType, Market
from nodefleet.model.names import figure, pluralize, some
from nodefleet.model.operations import Create, Launch, Step
from nodefleet.model.snapshot import Observation, Pause, Scale
from nodefleet.model.state import JoinTrouble, Level, Loss, Memory, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Health, Pool, Reactive

NONE_SHARED: Mapping[str, int] = MappingProxyType({})


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
# Against flapping:
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


# ── what operators set ───────────────────────────────────────────────────────────────────────────────────────────────
# Min, max, fleet.max and the caps of the fleet, schedule windows, a scale command; and the
# replacement of lost workers.


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


def within_fleet(
    ctx: PoolContext,
    others: Sequence[PoolContext],
    room: int,
    surplus: Mapping[str, int],
    shared: Mapping[str, int] = NONE_SHARED,
) -> PoolContext:
    """The pool with what fleet.max leaves it: `room` for new workers, of which the pools that come after it keep what
    they lack to min, or what their pending pods get by tenants' shares or by priority (`shared`, nodes by pool). Its
    `surplus` leaves. Workers that no pool owns only take room, and displace no worker.

    A limit that the policy does not state, the sum of the pools' max, keeps no pool below its min."""
    lacking = sum(max(each.lacking, shared.get(each.pool.name, 0)) for each in others)
    share = ctx.count.occupied + max(0, room - lacking) - surplus.get(ctx.pool.name, 0)
    if ctx.policy.fleet.max is None:
        share = max(share, ctx.pool.limits.min + ctx.count.occupied - ctx.count.capacity)
    return replace(ctx, most=min(ctx.pool.limits.max, share))


def fleet_surplus(contexts: Sequence[PoolContext], most: int) -> Mapping[str, int]:
    """How many workers of each pool are too many for fleet.max, in the pools that have the most above min. The workers
    that other pools lack to min count as if they were there: they would never find room otherwise."""
    spare = Counter({each.pool.name: each.count.occupied - each.pool.limits.min for each in contexts})
    surplus: Counter[str] = Counter()
    for _ in range(sum(max(each.count.occupied, each.pool.limits.min) for each in contexts) - most):
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


def window_bounds(observation: Observation, pool: str) -> list[Bound]:
    bounds = []
    for window in observation.windows:
        if window.pool != pool or window.until <= observation.at:
            continue
        source, until = BoundSource.WINDOW.with_name(window.name), f"until {window.until:%Y-%m-%d %H:%M}"
        if window.min is not None:
            sentence = f"window {window.name} wants at least {window.min} {until}"
            bounds.append(floor(window.min, source, Rank.WINDOW, sentence, window.until))
        if window.max is not None:
            sentence = f"window {window.name} wants at most {window.max} {until}"
            bounds.append(ceiling(window.max, source, Rank.WINDOW, sentence, window.until))
    return bounds


def command_bounds(observation: Observation, pool: str) -> list[Bound]:
    """An operator's size, as floor and ceiling, or as a floor only; the last one given counts."""
    scales = [
        each
        for each in observation.commands
        if isinstance(each, Scale) and each.pool == pool and observation.at < each.until
    ]
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
# CPU, memory, GPUs and cost per hour of every worker together.
#
# A cap stops growth; it removes nothing, and no pool is kept below its min by it. Pools of higher priority are
# decided first, so under a cap those of lower priority wait, and of pools of one priority the pods of a lower one; what
# the later ones lack to min is kept for them, or restoring it would exceed the cap. A new node counts as the largest
# and most expensive of the types that it may be launched as: what EC2 chooses can then only be less. For pending pods
# those are the types that they are planned on, else all of the pool's.


_UNITS = {"cpu": "cores", "memory": "GiB", "gpus": "GPUs", "usd_per_hour": "USD/h"}


def by_priority(contexts: Iterable[PoolContext]) -> list[PoolContext]:
    """Of pools of one priority those first that the policy names first."""
    return sorted(contexts, key=lambda ctx: -ctx.pool.priority)


def with_launches(used: Amounts, plan: Iterable[Step], observation: Observation) -> Amounts:
    """The same after the launches of a plan."""
    catalog = observation.offers
    more = Counter(used)
    for step in plan:
        if isinstance(step, Create) and isinstance(step.operation, Launch):
            for _ in range(step.operation.count):
                more.update(amounts_of(step.operation.types, catalog, step.operation.market))
    return more


def within_caps(
    ctx: PoolContext,
    others: Sequence[PoolContext],
    used: Amounts,
    shared: Mapping[str, int] = NONE_SHARED,
    asks: Sequence[PlacementRequest] = (),
) -> PoolContext:
    """The pool with what the caps leave it: of what is not in `used` the pools that come after it keep what they lack
    to min, or what their pending pods get by tenants' shares or by priority (`shared`). `asks`: of its own pending
    pods, in the order in which nodes are bought for them."""
    caps = caps_of(ctx.policy.fleet)
    if not caps:
        return ctx
    catalog = ctx.observation.offers
    unknown = [name for name in ctx.pool.market.types if name not in catalog]
    each, kept = largest_of(ctx.pool, catalog), _lacking(others, catalog, shared)
    whom = "the min of other pools"
    if any(shared.get(other.pool.name) for other in others):
        whom = f"pending pods {'of other tenants' if ctx.policy.tenants.shares else 'with a higher priority'}"
    left = {name: cap - used.get(name, 0.0) - kept[name] for name, cap in caps.items()}
    planned = _amounts_planned(ctx, asks)
    rooms = []
    for name, cap in caps.items():
        size = each[name]
        in_use = f"fleet.{name} is {figure(cap)} {_UNITS[name]}, {figure(used.get(name, 0.0))} are in use"
        if kept[name]:
            in_use += f" and {figure(kept[name])} are kept for {whom}"
        if unknown or (name == "usd_per_hour" and not _all_priced(ctx.pool.market.types, catalog)):
            named = ", ".join(unknown or ctx.pool.market.types)
            sentence = f"{in_use}, and what {named} would add is not known"
            rooms.append(CapRoom(more=0, for_pods=0, left=left, sentence=sentence))
        elif size:
            for_pods = _count_within(left[name], [of_node[name] for of_node in planned], size)
            largest = max([of_node[name] for of_node in planned[: for_pods + 1]], default=size)
            sentence = f"{in_use}, and a node of this pool may add {figure(largest)}"
            more = _count_within(left[name], (), size)
            rooms.append(CapRoom(more=more, for_pods=for_pods, left=left, sentence=sentence))
    if not rooms:
        return replace(ctx, cap=None)
    tightest = min(rooms, key=lambda room: room.for_pods)
    return replace(ctx, cap=replace(tightest, more=min(room.more for room in rooms)))


def fitting_first(ctx: PoolContext, asks: Sequence[PlacementRequest]) -> list[int]:
    """The nodes of pending pods, by their place in `asks`, in the order in which the caps leave room for them. What is
    left of a cap that has no room for one node is kept for it: only nodes that take nothing of it go before."""
    if ctx.cap is None:
        return list(range(len(asks)))
    left, fitting, waiting = dict(ctx.cap.left), list[int](), list[int]()
    blocked = set[str]()
    for index, amounts in enumerate(_amounts_planned(ctx, asks)):
        over = {name for name, room in left.items() if amounts[name] > room + ROUNDING}
        if over or any(amounts[name] for name in blocked):
            blocked |= over
            waiting.append(index)
        else:
            left = {name: room - amounts[name] for name, room in left.items()}
            fitting.append(index)
    return [*fitting, *waiting]


def _amounts_planned(ctx: PoolContext, asks: Sequence[PlacementRequest]) -> list[Counter[str]]:
    """Of the largest of the types that each node is asked for as, at first."""
    types, catalog = ctx.pool.market.types, ctx.observation.offers
    return [amounts_of(ask.preferred or ask.types or types, catalog, Market.ON_DEMAND) for ask in asks]


def _count_within(left: float, planned: Sequence[float], size: float) -> int:
    """How many nodes a cap leaves: the planned ones first, and then nodes of that size."""
    number = 0
    for each in planned:
        if each > left + ROUNDING:
            return number
        number, left = number + 1, left - each
    return number + max(0, rounded_down(left / size + ROUNDING))


def allowed_growth(ctx: PoolContext, memory: Memory, quality: DataQuality, used: Amounts) -> int:
    """How many nodes more the pool may buy for pending pods now, if no other pool takes what the limits leave."""
    seen, pool, capacity = ctx.observation, ctx.pool, ctx.count.capacity
    asked = floor(ctx.policy.fleet_max + capacity, BoundSource.PODS, Rank.SIGNAL, "")
    outranking = [
        *window_bounds(seen, pool.name),
        *command_bounds(seen, pool.name),
        *safety_bounds(seen, memory, ctx.policy, pool, ctx.count, quality, (), ()),
        *hold_bounds(seen, pool, capacity, ()),
    ]
    allowed = resolve_target([asked, *outranking]).target - capacity
    cap = within_caps(ctx, (), used).cap
    by_cap = allowed if cap is None else max(cap.more, ctx.lacking)
    return 0 if pool.dry_run else max(0, min(allowed, by_cap, pool.limits.max - ctx.count.occupied))


def _lacking(
    others: Iterable[PoolContext], catalog: Mapping[str, InstanceType], shared: Mapping[str, int]
) -> Counter[str]:
    """What these pools will launch to have their min, whatever the caps say, and what is kept for their pods."""
    lacking: Counter[str] = Counter()
    for each in others:
        if not each.pool.dry_run:
            for _ in range(max(each.lacking, shared.get(each.pool.name, 0))):
                lacking.update(largest_of(each.pool, catalog))
    return lacking


def cap_bounds(ctx: PoolContext) -> list[Bound]:
    """The ceiling of the cap that leaves the pool least."""
    if ctx.cap is None:
        return []
    nodes = max(ctx.count.capacity + ctx.cap.for_pods, ctx.pool.limits.min)
    return [ceiling(nodes, BoundSource.FLEET_CAP, Rank.LIMIT, ctx.cap.sentence)] if nodes < ctx.most else []


def _all_priced(types: Iterable[str], catalog: Mapping[str, InstanceType]) -> bool:
    return all(catalog[name].hourly_usd is not None for name in types)


# ── safety ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Missing data, recovery, pauses, a policy that cannot be followed, probes after failed joins.


def safety_bounds(
    observation: Observation,
    memory: Memory,
    policy: Policy,
    pool: Pool,
    count: Count,
    quality: DataQuality,
    doubts: Sequence[str],
    unreadable: Sequence[str],
) -> list[Bound]:
    """Bounds that outrank everything. `unreadable` names what is missing of this pool: what is missing of another pool
    alone does not hold this one."""
    bounds = []
    now = count.capacity
    if quality.level is Level.PARTIAL:
        sentence = f"{quality.why}: nothing is launched, drained or cleaned up"
        bounds += [
            floor(now, BoundSource.LEVEL, Rank.SAFETY, sentence),
            ceiling(now, BoundSource.LEVEL, Rank.SAFETY, sentence),
        ]
    elif quality.level is Level.DEGRADED and unreadable:
        bounds.append(floor(now, BoundSource.LEVEL, Rank.SAFETY, f"{'; '.join(unreadable)}: no shrinking"))
    elif quality.level is Level.RECOVERY and quality.recovered_at is not None:
        left = policy.trust.recovery_hold - (observation.at - quality.recovered_at)
        sentence = (
            f"data was missing until {quality.recovered_at:%H:%M:%S}: no shrinking for {left.total_seconds():.0f} s"
        )
        bounds.append(floor(now, BoundSource.RECOVERY, Rank.SAFETY, sentence))
    if doubts:
        bounds.append(floor(now, BoundSource.DOUBT, Rank.SAFETY, f"{some(doubts, '; ')}: no shrinking"))
    bounds += _pause_bounds(observation, pool, now)
    bounds += _probe_bounds(memory.pool(pool.name).join_trouble, pool.health, count, observation.at)
    return bounds


def hold_bounds(observation: Observation, pool: Pool, capacity: int, losses: Sequence[Loss]) -> list[Bound]:
    """The policy cannot be followed: the pool keeps its size. What it loses is replaced, and min is restored."""
    if not observation.hold:
        return []
    sentence = f"{observation.hold}: the pool keeps its size"
    most = max(capacity + len(losses), pool.limits.min)
    return [
        floor(capacity, BoundSource.HOLD, Rank.SAFETY, sentence),
        ceiling(most, BoundSource.HOLD, Rank.SAFETY, sentence),
    ]


def _pause_bounds(observation: Observation, pool: Pool, capacity: int) -> list[Bound]:
    """A floor, and a ceiling unless only the scale-down is paused. Of two pauses the one that stops more counts."""
    pauses = [
        each
        for each in observation.commands
        if isinstance(each, Pause) and each.pool in (None, pool.name) and _in_force(each.until, observation.at)
    ]
    if not pauses:
        return []
    pause = min(pauses, key=lambda each: each.scale_down_only)
    what = "scale-down paused" if pause.scale_down_only else "paused"
    until = f" until {pause.until:%Y-%m-%d %H:%M}" if pause.until else ""
    sentence = f"{what} by {pause.by}{until}" + (f": {pause.reason}" if pause.reason else "")
    bounds = [floor(capacity, BoundSource.PAUSE, Rank.SAFETY, sentence, pause.until)]
    if not pause.scale_down_only:
        most = max(capacity, pool.limits.min)
        bounds.append(ceiling(most, BoundSource.PAUSE, Rank.SAFETY, sentence, pause.until))
    return bounds


def _in_force(until: datetime | None, now: datetime) -> bool:
    return until is None or now < until


def _probe_bounds(trouble: JoinTrouble | None, health: Health, count: Count, now: datetime) -> list[Bound]:
    """After failed joins one node at a time is tried, with growing pauses."""
    if trouble is None or trouble.failures < health.failed_joins:
        return []
    failed = f"{pluralize(trouble.failures, 'node', 'nodes in a row')} did not join"
    if count.booting:
        return [
            ceiling(count.capacity, BoundSource.PROBE, Rank.SAFETY, f"{failed}: waiting for the probe that is booting")
        ]
    if now < trouble.next_probe:
        wait = (trouble.next_probe - now).total_seconds()
        return [ceiling(count.capacity, BoundSource.PROBE, Rank.SAFETY, f"{failed}: next probe in {wait:.0f} s")]
    return [ceiling(count.capacity + 1, BoundSource.PROBE, Rank.SAFETY, f"{failed}: one probe at a time")]


# ── the scale-down gate ──────────────────────────────────────────────────────────────────────────────────────────────
# Shrinking is AND: every signal must be calm, nothing may wait, and the nodes that remain must bear the load.


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
