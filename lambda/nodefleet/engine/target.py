"""Floors and ceilings, the one rule that makes a target of them, and the bounds that no signal asks for: cooldowns,
what operators set, caps over all pools, safety, and the gate that lets the fleet shrink.

Everything that has a say is a bound: min and max, what signals ask for, windows, cooldowns, an operator, safety. Bounds
are applied rank by rank from the weakest to the strongest, so the stronger one has the last word; within a rank a
ceiling beats a floor.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from nodefleet.capacity import ROUNDING, FleetSize, amounts_of
from nodefleet.engine.context import DataQuality, PoolContext
from nodefleet.engine.signals.vote import AboveThreshold, Abstain, ScaleDownOk, ScaleUp, SignalVote, find_overload
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Bound, BoundSource, Overruled, Rank, Side, TargetResult, ceiling, floor
from nodefleet.model.fleet import Count
from nodefleet.model.inventory import Market
from nodefleet.model.names import pluralize, some
from nodefleet.model.operations import Create, Launch, Removal, RemovalReason, SendAlert, Step
from nodefleet.model.serialization import kind_of
from nodefleet.model.snapshot import Observation, Pause, Scale
from nodefleet.model.state import JoinTrouble, Level, Loss, Memory, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Health, Pool, Reactive


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


def cap_bounds(ctx: PoolContext) -> list[Bound]:
    """The ceiling of the cap that leaves the pool least."""
    if ctx.cap is None:
        return []
    nodes = max(ctx.count.capacity + ctx.cap.for_pods, ctx.pool.limits.min)
    return [ceiling(nodes, BoundSource.FLEET_CAP, Rank.LIMIT, ctx.cap.sentence)] if nodes < ctx.most else []


def exceeds_room(ctx: PoolContext, plan: Iterable[Step]) -> bool:
    """Pods are planned on some of the types; where EC2 lacks those, or another rule asks, any may be launched."""
    if ctx.cap is None:
        return False
    added: Counter[str] = Counter()
    for step in plan:
        if isinstance(step, Create) and isinstance(step.operation, Launch):
            for _ in range(step.operation.count):
                added.update(amounts_of(step.operation.types, ctx.observation.offers, Market.ON_DEMAND))
    return any(added[name] > room + ROUNDING for name, room in ctx.cap.left.items())


def _room(most: int, count: Count) -> int:
    return max(min(count.capacity, most), most - (count.occupied - count.capacity))


def _there(count: Count) -> str:
    besides = count.occupied - count.capacity
    taken = f", {pluralize(besides, 'of them is', 'of them are')} no capacity" if besides > 0 else ""
    return f"{pluralize(count.occupied, 'is', 'are')} there{taken}"


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


# ── the decision in one sentence ─────────────────────────────────────────────────────────────────────────────────────
# With its figures: what happens, who wanted it, and who overruled whom.


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


def alert_at_max(ctx: PoolContext, resolved: TargetResult, bounds: Sequence[Bound]) -> list[SendAlert]:
    """Operators should know when the limit keeps the fleet from what it needs. That a worker leaves of our own accord
    before the one comes that takes its place is no news."""
    least = max(resolved.target, ctx.count.capacity)  # a bound that only keeps the size asks for no more
    leaving = sum(isinstance(w.operation, Removal) and w.operation.why is RemovalReason.VOLUNTARY for w in ctx.workers)
    wanting = [
        each
        for each in resolved.overruled
        if each.by in (BoundSource.MAX, BoundSource.FLEET_MAX, BoundSource.FLEET_CAP)
        and each.bound.kind is not BoundSource.HEADROOM  # what is kept free beyond max is lacked by nothing that runs
        and each.bound.nodes > least + leaving * (each.bound.kind in (BoundSource.MIN, BoundSource.REPLACE))
    ]
    if not wanting:
        return []
    most = max(wanting, key=lambda each: each.bound.nodes)
    asked = most.bound
    if most.by == BoundSource.FLEET_MAX:
        cause = next(bound.sentence for bound in bounds if bound.kind is BoundSource.FLEET_MAX)
        remedy = "Consider a higher fleet.max, or dispose of workers that no pool owns: `nodefleet adopt`, `drain`."
    elif most.by == BoundSource.FLEET_CAP:
        cause = next(bound.sentence for bound in bounds if bound.kind is BoundSource.FLEET_CAP)
        remedy = (
            "Consider a higher cap, or other `tenants.shares`."
            if ctx.policy.tenants.shares
            else "Consider a higher cap, or another `priority` of the pools: those of higher priority come first."
        )
    else:
        cause, remedy = f"max is {ctx.pool.limits.max}", "Consider a higher limits.max."
    text = f"At max: {asked.sentence} (asks for {asked.nodes}), but {cause}. {remedy}"
    return [SendAlert(alert=AlertKind.AT_MAX, pool=ctx.pool.name, subjects=(), text=text)]
