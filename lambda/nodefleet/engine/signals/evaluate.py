"""What the signals of all three layers say about one pool, and what they have to remember of it."""

from dataclasses import replace

from nodefleet.engine import context
from nodefleet.engine.context import PoolContext
from nodefleet.engine.signals import adaptive, custom, effectiveness, predictive, reactive
from nodefleet.engine.signals.pending_pods import PendingPods, evaluate_pending, immediate_size
from nodefleet.engine.signals.thresholds import Pace
from nodefleet.engine.signals.vote import ScaleUp, SignalResults, SignalVote
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BoundSource
from nodefleet.model.operations import SendAlert
from nodefleet.model.readings import Reading
from nodefleet.model.state import PoolMemory
from nodefleet.policy.pool import Pool, Utilisation


def evaluate_signals(ctx: PoolContext, waiting: PendingPods) -> SignalResults:
    pool, before, trust = ctx.pool, ctx.before, ctx.policy.trust
    offset = ctx.seen.utc_offset
    profile = before.profile
    if isinstance(ctx.cpu, Reading):
        profile = predictive.learn_profile(profile, ctx.cpu, ctx.look.covered, pool.predictive, offset)
    foreseen, forecast = predictive.evaluate_forecast(
        profile,
        before.forecast,
        ctx.look,
        predictive=pool.predictive,
        cpu=pool.reactive.cpu,
        utc_offset=offset,
    )
    pods = evaluate_pending(waiting.unschedulable, ctx.look_at_pods, pool, ctx.cpu_percent)
    memory_use = _utilisation(ctx, BoundSource.MEMORY.value, ctx.memory, pool.reactive.memory)
    sized = adaptive.evaluate(ctx) if adaptive.is_adaptive(pool) else None
    said = (
        *_of_load(ctx, sized, memory_use, foreseen, pods),
        *custom.evaluate_custom(
            pool, ctx.readings, before.cached, before.breaches, ctx.look, trust=trust, pace=Pace.of(ctx.policy)
        ),
    )
    grants, lost = effectiveness.judge_scale_ups(before.grants, said, ctx.look, effectiveness_rules(pool))
    opinions = effectiveness.mute_votes(said, grants)
    newly_lost = lost - {grant.signal for grant in before.grants if grant.lost}
    memory = replace(
        before,
        breaches={name: kept for opinion in said for name, kept in opinion.breaches.items()},
        profile=profile,
        forecast=None if sized else forecast,
        adaptive=sized.memory if sized else None,
        peaks=ctx.look.peaks,
        cached=context.update_cache(before.cached, ctx.readings, trust, ctx.seen.at, custom.counts_as_last(pool)),
        grants=grants,
        pod_grants=(),
        pending=waiting.votes.classes,
    )
    tells = [_without_vote(opinion, pool) for opinion in opinions if opinion.signal in newly_lost]
    return SignalResults(
        opinions=opinions,
        memory=memory,
        tells=(*tells, *waiting.tells),
        at_once=_at_once(immediate_size(pods, waiting.unschedulable, pool), sized),
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
    return sized.opinion, adaptive.consenting(memory), pods


def _at_once(pods: int | None, sized: adaptive.Forecasted | None) -> int | None:
    """What pending pods and the forecast ask for does not wait: both count the nodes that boot."""
    forecast = sized.opinion.vote.nodes if sized and isinstance(sized.opinion.vote, ScaleUp) else None
    return max((each for each in (pods, forecast) if each is not None), default=None)


def effectiveness_rules(pool: Pool) -> effectiveness.EffectivenessRules:
    return effectiveness.EffectivenessRules(benefit=pool.benefit, settle=pool.cooldown.up)


def _utilisation(ctx: PoolContext, name: str, seen: context.SignalInput, limits: Utilisation) -> SignalVote:
    pool = ctx.pool
    return reactive.evaluate_utilisation(
        name,
        seen,
        ctx.before.breaches,
        ctx.look,
        limits=limits,
        sustain=pool.sustain,
        steps=pool.steps,
        pace=Pace.of(ctx.policy),
    )


def _without_vote(opinion: SignalVote, pool: Pool) -> SendAlert:
    return SendAlert(
        alert=AlertKind.NO_BENEFIT,
        pool=pool.name,
        subjects=(opinion.signal,),
        text=f"{opinion.signal}: {opinion.vote.reason}",
    )


def record_growth(
    heard: SignalResults, ctx: PoolContext, waiting: PendingPods, *, nodes: int, memory: PoolMemory
) -> PoolMemory:
    """What is remembered of a growth to `nodes`: who asked for it and what it read then, and for which pods."""
    counts_pods_singly = waiting.unschedulable.nodes is not None
    growing = [
        opinion
        for opinion, floor in heard.floors
        if floor.nodes > ctx.count.capacity and not (opinion.signal == BoundSource.PODS and counts_pods_singly)
    ]
    return replace(
        memory,
        grants=effectiveness.record_scale_up(
            memory.grants, growing, ctx.look, effectiveness_rules(ctx.pool), nodes=nodes
        ),
        pending=waiting.record_purchase(nodes - ctx.count.capacity, ctx.seen.at, ctx.pool.benefit.classes),
    )
