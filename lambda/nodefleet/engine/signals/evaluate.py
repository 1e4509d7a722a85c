"""The votes of all signals on one pool: utilisation, pending pods, forecasts and custom rules; and whether nodes that
a signal was given helped it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from math import ceil
from statistics import fmean

from nodefleet.capacity import FleetSize
from nodefleet.engine import context
from nodefleet.engine.context import Cached, PoolContext, SignalInput
from nodefleet.engine.signals import adaptive, demand_rules
from nodefleet.engine.signals.pending_pods import PendingPods, evaluate_pending, immediate_size
from nodefleet.engine.signals.vote import (
    Above,
    AboveThreshold,
    Abstain,
    Band,
    Below,
    Between,
    Evaluation,
    Pace,
    ScaleUp,
    SignalResults,
    SignalVote,
    Unreadable,
    WithinThresholds,
    from_cache,
    unreadable_vote,
    vote_on,
)
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BoundSource
from nodefleet.model.names import figure, percent, pluralize
from nodefleet.model.operations import SendAlert
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.model.state import Breaches, Forecast, HourLoad, PoolMemory, ScaleUpRecord
from nodefleet.policy.demand import Sustain
from nodefleet.policy.pool import Benefit, Pool, Predictive, Steps, Utilisation

# ── effectiveness ────────────────────────────────────────────────────────────────────────────────────────────────────
# Whether nodes helped. A slow database must not buy nodes to the limit.
#
# What a signal read when it was given nodes is remembered. Once they are ready and have had time to take load, a signal
# that still asks and has not improved gets a strike; with enough strikes in a row it loses its vote until it clears.
# That time is the pool's growth cooldown: before its end nothing more is bought anyway. Pods that wait are judged by
# themselves: see `pending_pods`.


def judge_scale_ups(
    records: Sequence[ScaleUpRecord], votes: Sequence[SignalVote], fleet_size: FleetSize, pool: Pool
) -> tuple[tuple[ScaleUpRecord, ...], frozenset[str]]:
    """The grants that still matter, and the signals that have no vote. Comes before `record_scale_up`."""
    by_signal = {opinion.signal: opinion for opinion in votes}
    kept = []
    for grant in records:
        opinion = by_signal.get(grant.signal)
        # A reading that went missing has not cleared: missing is not zero.
        if opinion is not None and isinstance(opinion.vote, ScaleUp | AboveThreshold | Unreadable):
            kept.append(grant if grant.lost else _judge_record(grant, opinion, fleet_size, pool))
    return tuple(kept), frozenset(grant.signal for grant in kept if grant.lost)


def mute_votes(votes: Sequence[SignalVote], records: Sequence[ScaleUpRecord]) -> tuple[SignalVote, ...]:
    """The opinions, with the floors of signals without a vote taken out. They neither buy nor let the fleet shrink."""
    lost = {grant.signal: grant for grant in records if grant.lost}
    return tuple(_mute_vote(opinion, lost.get(opinion.signal)) for opinion in votes)


def record_scale_up(
    records: Sequence[ScaleUpRecord],
    growing: Sequence[SignalVote],
    fleet_size: FleetSize,
    pool: Pool,
    *,
    nodes: int,
) -> tuple[ScaleUpRecord, ...]:
    """The grants after a growth to `nodes` that the opinions in `growing` set."""
    known = {grant.signal: grant for grant in records}
    for opinion in growing:
        before = known.get(opinion.signal)
        if opinion.value is not None and not (before and before.lost):
            strikes = _strikes(before, opinion, fleet_size, pool) if before else 0
            known[opinion.signal] = ScaleUpRecord(
                signal=opinion.signal, value=opinion.value, at=fleet_size.now, nodes=nodes, strikes=strikes
            )
    return tuple(known.values())


def _judge_record(record: ScaleUpRecord, vote: SignalVote, fleet_size: FleetSize, pool: Pool) -> ScaleUpRecord:
    # Strikes are only written down with the next growth or with the loss: each growth counts once, not each iteration.
    strikes = _strikes(record, vote, fleet_size, pool)
    lost = 0 < _limit(record.signal, pool.benefit) <= strikes
    return replace(record, strikes=strikes, lost=True) if lost else record


def _strikes(record: ScaleUpRecord, vote: SignalVote, fleet_size: FleetSize, pool: Pool) -> int:
    """Growths in a row that changed nothing, this one among them as soon as that can be said."""
    if not isinstance(vote.vote, ScaleUp) or vote.value is None:
        return record.strikes
    if fleet_size.covered < record.nodes or fleet_size.now - record.at < pool.cooldown.up:
        return record.strikes
    fell = record.value - vote.value
    improved = fell >= record.value * pool.benefit.improvement_percent / 100
    return 0 if improved else record.strikes + 1


def _limit(signal: str, benefit: Benefit) -> int:
    """How many growths without effect a signal may have; 0 is any number."""
    match signal:
        case "cpu":
            return benefit.cpu
        case "memory":
            return benefit.memory
        case "pods":  # where they can only be counted
            return benefit.pods
        case _:
            return benefit.custom


def _mute_vote(vote: SignalVote, record: ScaleUpRecord | None) -> SignalVote:
    if record is None or not isinstance(vote.vote, ScaleUp):
        return vote
    now = "unknown" if vote.value is None else figure(vote.value)
    reason = (
        f"{vote.vote.reason}; has no vote until it clears: {record.strikes} of its growths in a row changed "
        f"nothing; {figure(record.value)} when it got the last of {pluralize(record.nodes, 'node', 'nodes')}, {now} now"
    )
    return replace(vote, vote=WithinThresholds(reason))


# ── the reactive layer ───────────────────────────────────────────────────────────────────────────────────────────────
# CPU and memory, now.
#
# Utilisation must stay beyond its limit for some readings. It is a mean over the nodes that were measured, so it asks
# for a step more than those: nodes that still boot are part of that step, and a repeat buys nothing twice.


_LABELS: Mapping[str, str] = {"cpu": "CPU", "memory": "memory"}


def evaluate_utilisation(
    name: str,
    seen: SignalInput,
    breaches: Mapping[str, Breaches],
    fleet_size: FleetSize,
    *,
    limits: Utilisation,
    sustain: Sustain,
    steps: Steps,
    pace: Pace,
) -> SignalVote:
    """A step more than the covered nodes when `name` (cpu or memory) has stood above its limit."""
    label = _LABELS[name]
    match seen:
        case Missing(cause):
            return unreadable_vote(name, f"{label} unknown: {cause}", breaches)
        case Cached(reading, cause):
            found = _evaluate(label, reading.value, fleet_size, limits, sustain, steps)
            return from_cache(vote_on(name, found, reading.at, breaches, pace), breaches, f"{label} unknown: {cause}")
        case Reading(value, at):
            found = _evaluate(label, value, fleet_size, limits, sustain, steps)
            return vote_on(name, found, at, breaches, pace)


def _evaluate(
    label: str, value: float, fleet_size: FleetSize, limits: Utilisation, sustain: Sustain, steps: Steps
) -> Evaluation:
    zone: Band = Between()
    compared = f"{percent(value)} between {limits.down:g} % and {limits.up:g} %"
    if value > limits.up:
        zone, compared = Above(fleet_size.covered + steps.up), f"{percent(value, limits.up)} > {limits.up:g} %"
    elif value < limits.down:
        zone, compared = Below(), f"{percent(value, limits.down)} < {limits.down:g} %"
    return Evaluation(zone=zone, value=value, sentence=f"{label} {compared}", up=sustain.up, down=sustain.down)


# ── the predictive layer ─────────────────────────────────────────────────────────────────────────────────────────────
# What the coming hour was like on the last days.
#
# The profile holds load (utilisation × nodes), not utilisation: a busy hour that was met with more nodes must not look
# like a quiet one. Late in the hour the coming one is looked up; if it would be too much for the present nodes, a floor
# of a step more, or of as many nodes as that load needs, lasts until that hour is over. Each hour is decided once, so
# nodes that join do not raise it.


_HOUR = timedelta(hours=1)
_SATURDAY = 5
_WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


@dataclass(frozen=True, slots=True)
class _Basis:
    """The days that a prediction rests on."""

    days: Sequence[HourLoad]
    kind: str  # Mondays, workdays, …

    @property
    def load(self) -> float:
        return fmean(day.load for day in self.days)


def learn_profile(
    profile: Sequence[HourLoad], reading: Reading, covered: int, predictive: Predictive, utc_offset: timedelta
) -> tuple[HourLoad, ...]:
    """The profile with this CPU reading in the mean of its hour. A sample that is in it already changes nothing."""
    kept = _recent(profile, predictive, reading.at)
    if covered <= 0:
        return kept
    local = reading.at.astimezone(timezone(utc_offset))
    day, load = local.date().isoformat(), reading.value / 100 * covered
    entry = next((entry for entry in kept if (entry.day, entry.hour) == (day, local.hour)), None)
    if entry is None:
        entry = HourLoad(day=day, hour=local.hour, load=load, samples=1, last=reading.at)
    elif reading.at > entry.last:
        mean = entry.load + (load - entry.load) / (entry.samples + 1)
        entry = replace(entry, load=mean, samples=entry.samples + 1, last=reading.at)
    others = [other for other in kept if (other.day, other.hour) != (day, local.hour)]
    return tuple(sorted([*others, entry], key=lambda hour: (hour.day, hour.hour)))


def evaluate_forecast(
    profile: Sequence[HourLoad],
    forecast: Forecast | None,
    fleet_size: FleetSize,
    *,
    predictive: Predictive,
    cpu: Utilisation,
    utc_offset: timedelta,
) -> tuple[SignalVote, Forecast | None]:
    """What the coming hour asks for, and the forecast to remember. A calm hour has no say: it blocks no shrinking."""
    if not predictive.enabled:
        return _abstain("predictive scaling is off"), None
    running = forecast if forecast and fleet_size.now < forecast.expires else None
    local = fleet_size.now.astimezone(timezone(utc_offset))
    coming = local.replace(minute=0, second=0, microsecond=0) + _HOUR
    if local.minute < predictive.from_minute:
        return _upheld(running, f"looks at the coming hour from minute {predictive.from_minute}")
    if running and running.hour == coming:
        return _upheld(running, "")
    basis = _basis(_recent(profile, predictive, fleet_size.now), coming, predictive.min_days)
    if len(basis.days) < predictive.min_days:
        return _upheld(
            running, f"{len(basis.days)} of {pluralize(predictive.min_days, 'day', 'days')} of data for {coming:%H:%M}"
        )
    if fleet_size.covered <= 0:
        return _upheld(running, "no ready node to predict for")
    expected = 100 * basis.load / fleet_size.covered
    compared = ">" if expected > cpu.up else "≤"
    sentence = (
        f"predicted CPU {percent(expected, cpu.up)} {compared} {cpu.up:g} % for {coming:%H:%M} "
        f"(load {figure(basis.load)} on {pluralize(fleet_size.covered, 'node', 'nodes')},"
        f" {len(basis.days)} {basis.kind})"
    )
    if expected <= cpu.up:
        return _upheld(running, sentence)
    # The hour that still runs keeps what it was promised.
    nodes = max(fleet_size.covered + predictive.step, running.nodes if running else 0)
    if predictive.sizing == "forecast":
        nodes = max(nodes, nodes_for(basis.load, cpu.up))
    start = coming.astimezone(UTC)
    return _upheld(Forecast(nodes=nodes, hour=start, expires=start + _HOUR, sentence=sentence), "")


def nodes_for(load: float, limit: float) -> int:
    """The fewest nodes that carry so many busy nodes without more CPU (percent) than the limit."""
    return ceil(100 * load / limit - 1e-9)


def _recent(profile: Sequence[HourLoad], predictive: Predictive, now: datetime) -> tuple[HourLoad, ...]:
    return tuple(entry for entry in profile if now - entry.last <= timedelta(days=predictive.history_days))


def _basis(profile: Sequence[HourLoad], coming: datetime, enough: int) -> _Basis:
    """The most alike days of which there are enough: that weekday, that kind of day, else all days."""
    days = [entry for entry in profile if entry.hour == coming.hour]
    weekday, weekend = coming.weekday(), coming.weekday() >= _SATURDAY
    alike = (
        _Basis([day for day in days if day.weekday == weekday], _WEEKDAYS[weekday]),
        _Basis(
            [day for day in days if (day.weekday >= _SATURDAY) == weekend], "weekend days" if weekend else "workdays"
        ),
    )
    return next((basis for basis in alike if len(basis.days) >= enough), _Basis(days, "days"))


def _upheld(forecast: Forecast | None, otherwise: str) -> tuple[SignalVote, Forecast | None]:
    if forecast is None:
        return _abstain(otherwise), None
    floor = ScaleUp(nodes=forecast.nodes, reason=forecast.sentence, expires=forecast.expires)
    return SignalVote(signal=BoundSource.PREDICTIVE.value, vote=floor), forecast


def _abstain(reason: str) -> SignalVote:
    return SignalVote(signal=BoundSource.PREDICTIVE.value, vote=Abstain(reason))


# ── all layers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def evaluate_signals(ctx: PoolContext, pending: PendingPods) -> SignalResults:
    pool, before, trust = ctx.pool, ctx.before, ctx.policy.trust
    offset = ctx.observation.utc_offset
    profile = before.profile
    if isinstance(ctx.cpu, Reading):
        profile = learn_profile(profile, ctx.cpu, ctx.fleet_size.covered, pool.predictive, offset)
    foreseen, forecast = evaluate_forecast(
        profile,
        before.forecast,
        ctx.fleet_size,
        predictive=pool.predictive,
        cpu=pool.reactive.cpu,
        utc_offset=offset,
    )
    pods = evaluate_pending(pending.unschedulable, ctx.fleet_size_for_pods, pool, ctx.cpu_percent)
    memory_use = _utilisation(ctx, BoundSource.MEMORY.value, ctx.memory, pool.reactive.memory)
    sized = adaptive.evaluate(ctx) if pool.is_adaptive else None
    said = (
        *_of_load(ctx, sized, memory_use, foreseen, pods),
        *(_of_demand(ctx) if pool.custom else ()),
    )
    grants, lost = judge_scale_ups(before.grants, said, ctx.fleet_size, pool)
    opinions = mute_votes(said, grants)
    newly_lost = lost - {grant.signal for grant in before.grants if grant.lost}
    memory = replace(
        before,
        breaches={name: kept for opinion in said for name, kept in opinion.breaches.items()},
        profile=profile,
        forecast=None if sized else forecast,
        adaptive=sized.memory if sized else None,
        peaks=ctx.fleet_size.peaks,
        cached=context.update_cache(
            before.cached,
            ctx.readings,
            trust,
            ctx.observation.at,
            demand_rules.counts_as_last(pool) if pool.custom else (),
        ),
        grants=grants,
        pod_grants=(),
        pending=pending.votes.classes,
    )
    tells = [_without_vote(opinion, pool) for opinion in opinions if opinion.signal in newly_lost]
    return SignalResults(
        votes=opinions,
        memory=memory,
        alerts=(*tells, *pending.alerts),
        at_once=_at_once(immediate_size(pods, pending.unschedulable, pool), sized),
        grade=sized.grade if sized else "",
        is_rising=bool(sized and sized.is_rising),
    )


def _of_load(
    ctx: PoolContext, sized: adaptive.Forecasted | None, memory: SignalVote, foreseen: SignalVote, pods: SignalVote
) -> tuple[SignalVote, ...]:
    """CPU thresholds and the hourly profile, or the forecast instead of both."""
    if sized is None:
        cpu = _utilisation(ctx, BoundSource.CPU.value, ctx.cpu, ctx.pool.reactive.cpu)
        return cpu, memory, pods, foreseen
    return sized.vote, adaptive.consenting(memory), pods


def _of_demand(ctx: PoolContext) -> tuple[SignalVote, ...]:
    before, trust, pace = ctx.before, ctx.policy.trust, Pace.of(ctx.policy)
    return demand_rules.evaluate_custom(
        ctx.pool, ctx.readings, before.cached, before.breaches, ctx.fleet_size, trust=trust, pace=pace
    )


def _at_once(pods: int | None, sized: adaptive.Forecasted | None) -> int | None:
    """What pending pods and the forecast ask for does not wait: both count the nodes that boot."""
    forecast = sized.vote.vote.nodes if sized and isinstance(sized.vote.vote, ScaleUp) else None
    return max((each for each in (pods, forecast) if each is not None), default=None)


def _utilisation(ctx: PoolContext, name: str, seen: context.SignalInput, limits: Utilisation) -> SignalVote:
    pool = ctx.pool
    return evaluate_utilisation(
        name,
        seen,
        ctx.before.breaches,
        ctx.fleet_size,
        limits=limits,
        sustain=pool.sustain,
        steps=pool.steps,
        pace=Pace.of(ctx.policy),
    )


def _without_vote(vote: SignalVote, pool: Pool) -> SendAlert:
    return SendAlert(
        alert=AlertKind.NO_BENEFIT,
        pool=pool.name,
        subjects=(vote.signal,),
        text=f"{vote.signal}: {vote.vote.reason}",
    )


def record_growth(
    signals: SignalResults, ctx: PoolContext, pending: PendingPods, memory: PoolMemory, nodes: int
) -> PoolMemory:
    """What is remembered of a growth to `nodes`: who asked for it and what it read then, and for which pods."""
    counts_pods_singly = pending.unschedulable.nodes is not None
    growing = [
        opinion
        for opinion, floor in signals.floors
        if floor.nodes > ctx.count.capacity and not (opinion.signal == BoundSource.PODS and counts_pods_singly)
    ]
    return replace(
        memory,
        grants=record_scale_up(memory.grants, growing, ctx.fleet_size, ctx.pool, nodes=nodes),
        pending=pending.record_purchase(nodes - ctx.count.capacity, ctx.observation.at, ctx.pool.benefit.classes),
    )
