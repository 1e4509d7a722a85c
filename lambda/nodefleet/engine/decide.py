"""`decide`, the entry point of the engine: an observation, the memory and the policy give an explained decision and the
next memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from nodefleet.capacity import PoolMembers, amounts_in_use, fleet_occupied, track_members
from nodefleet.engine import data_quality, provisioning
from nodefleet.engine.cluster_context import ClusterContext, headroom_bounds
from nodefleet.engine.context import DataQuality, PoolContext
from nodefleet.engine.data_quality import Inconsistencies, find_inconsistencies
from nodefleet.engine.disruption import consolidation, interruption, orphans, rotation, unhealthy
from nodefleet.engine.disruption.candidates import not_asked
from nodefleet.engine.disruption.orphans import Disposal, dispose_unowned, find_unowned, unowned_alerts
from nodefleet.engine.disruption.rotation import replacement_floors as replacing
from nodefleet.engine.disruption.unhealthy import resting_alerts, resting_since
from nodefleet.engine.fleet_limits import (
    NONE_SHARED,
    allowed_growth,
    by_priority,
    find_outranking,
    fitting_first,
    fleet_surplus,
    share_new_nodes,
    with_launches,
    within_caps,
    within_fleet,
)
from nodefleet.engine.pool_plan import (
    PoolPlan,
    plan_consolidation,
    plan_drain,
    plan_growth,
    plan_hold,
    plan_retirement,
    plan_scale_down,
    plan_turnover,
    select_drained,
    with_note,
)
from nodefleet.engine.signals.evaluate import evaluate_signals, record_growth
from nodefleet.engine.signals.pending_pods import (
    PendingIndex,
    PendingPods,
    PendingVotes,
    after_packing,
    alert_unplaceable,
    before_packing,
    collect_pending,
    used_otherwise,
)
from nodefleet.engine.signals.vote import SignalResults
from nodefleet.engine.spot_share import swap_bounds, update_swap
from nodefleet.engine.standby import NO_STANDBY, evaluate_standby, with_take_over
from nodefleet.engine.target import (
    alert_at_max,
    cap_bounds,
    command_bounds,
    cooldown_bounds,
    evaluate_gate,
    explain_hold,
    fleet_bounds,
    hold_bounds,
    limit_bounds,
    render_votes,
    replacement_bounds,
    resolve_target,
    safety_bounds,
    window_bounds,
)
from nodefleet.model.decision import Action, Bound, BoundSource, Decision, PoolDecision, Rank, TargetResult, floor
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.names import pluralize
from nodefleet.model.operations import Create, Launch, Operation, Removal, Save, Step
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.state import Level, Loss, Memory, PoolMemory
from nodefleet.model.workload import Pod
from nodefleet.phases import derive_workers, silent_for
from nodefleet.policy.cluster import Policy
from nodefleet.scheduling.templates import observed_sizes

# ── one pool ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# One pool's decision: evaluate the signals, collect the bounds, resolve the target, plan the steps, explain.


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolResult:
    decision: PoolDecision
    memory: PoolMemory
    requeue_reason: str = ""


def decide_pool(
    ctx: PoolContext, cluster: ClusterContext, pending: PendingPods, cluster_memory: Memory, quality: DataQuality
) -> PoolResult:
    standby, swap = (evaluate_standby(ctx) if ctx.pool.standby.origin else NO_STANDBY), ctx.before.swap
    ctx = with_take_over(ctx, standby.take_over) if standby.take_over else ctx
    signals = evaluate_signals(ctx, pending)
    keep = evaluate_gate(signals.votes, ctx.fleet_size, ctx.pool.reactive, _most_fewer(ctx))
    membership = _membership(ctx, keep, cluster_memory)
    held = unhealthy.brake(ctx.workers, ctx.pool, ctx.before.braked_since, ctx.observation.at)
    doubt = find_inconsistencies(ctx, signals.votes)
    owed = unhealthy.to_replace(membership.losses, held, ctx.pool)
    others = [
        *_bounds(ctx, signals, keep, owed, cluster_memory, quality, doubt),
        *headroom_bounds(ctx, cluster, _could_go(ctx, keep)),
    ]
    spared = select_drained(ctx, cluster, keep, others, signals.votes, doubt)
    replaced = partial(
        plan_turnover,
        ctx,
        cluster,
        signals,
        pending,
        keep,
        others,
        membership.losses,
        braked=held.since is not None,
        drained=spared.chosen,
    )
    turn = replaced()
    due = turn.plan
    is_full = ctx.is_full_for(pending.unschedulable)
    bounds = [*others, *replacing(due, ctx.count.capacity)]
    resolved = resolve_target(bounds)
    cleaning = orphans.plan_cleanups(ctx.workers, ctx.pool, ctx.before, ctx.observation, ctx.limit)
    memory = replace(
        signals.memory,
        members=membership.members,
        losses=membership.losses,
        suspects=cleaning.suspects,
        cleanups=cleaning.cleanups,
        vanished=ctx.vanished,
        ahead=due.ahead,
        rotation=turn.rotation,
        braked_since=held.since,
        standby=standby.memory,
        swap=update_swap(swap, ctx.workers, ctx.pool, ctx.observation.at) if swap else None,
        doubtful=doubt.since,
        under_used={}
        if signals.asks_for_pods and not is_full
        else consolidation.first_seen(ctx, signals.votes, membership.losses, cluster.pods_by_node, is_full=is_full),
        sizes=observed_sizes(ctx.pool, ctx.observation, ctx.before.sizes),
    )
    if resolved.target > ctx.count.capacity:
        pool_plan = plan_growth(ctx, pending, resolved, memory, due, partial(record_growth, signals, ctx, pending))
    elif spared.chosen:
        pool_plan = plan_drain(ctx, cluster, spared, memory)
    elif resolved.target < ctx.count.capacity:
        pool_plan = plan_scale_down(ctx, cluster, resolved, bounds, memory, doubt, due)
        if pool_plan.action is Action.HOLD:
            turn = replaced(stuck=True)
            pool_plan = with_note(pool_plan, turn.note)
        if turn.plan.wanted and pool_plan.action is Action.HOLD:
            bounds = [*others, *replacing(turn.plan, ctx.count.capacity)]
            resolved = resolve_target(bounds)
            pool_plan = plan_growth(
                ctx, pending, resolved, memory, turn.plan, partial(record_growth, signals, ctx, pending)
            )
    else:
        reason = explain_hold(ctx.count.capacity, resolved, bounds, signals.votes)
        retirement = plan_retirement(ctx, cluster, due, bounds, memory)
        pool_plan = (
            retirement
            or plan_consolidation(ctx, cluster, keep, others, memory, turn, doubt, signals.votes, is_full=is_full)
            or plan_hold(ctx, cluster, reason, bounds, memory, turn)
        )
    ground = partial(cluster.ground, ctx, ctx.before.backoffs)  # its budgets count all pods, for few workers at most
    kept = (*rotation.drain_alerts(ctx, ground), *(interruption.held_alerts(ctx, ground) if ctx.is_announced else ()))
    signals = replace(signals, alerts=(*signals.alerts, *doubt.alerts, *turn.alerts, *kept))
    steps = (*cleaning.steps, *standby.steps)
    decision = _decision(ctx, signals, bounds, resolved, pool_plan, membership.losses, held, steps)
    return PoolResult(
        decision=decision,
        memory=pool_plan.memory,
        requeue_reason=_requeue_reason(ctx, pending, resolved, decision.plan)
        or standby.requeue_reason
        or _rising(ctx, signals),
    )


def hold_blind(ctx: PoolContext, cluster_memory: Memory, quality: DataQuality) -> PoolResult:
    """Without EC2 or Kubernetes nothing is done, and nothing is learned."""
    bounds = safety_bounds(ctx.observation, cluster_memory, ctx.policy, ctx.pool, ctx.count, quality, (), ())
    capacity = ctx.count.capacity
    decision = PoolDecision(
        pool=ctx.pool.name,
        action=Action.HOLD,
        count=ctx.count,
        target=capacity,
        reason=f"Holding {capacity}: {bounds[0].sentence}",
        bounds=tuple(bounds),
        stays=not_asked(ctx.workers).stays,
        dry_run=ctx.pool.dry_run,
    )
    return PoolResult(decision=decision, memory=ctx.before)


def _most_fewer(ctx: PoolContext) -> int:
    """How many nodes may go at once."""
    return ctx.fleet_size.capacity if ctx.pool.is_adaptive else ctx.pool.steps.down


def _could_go(ctx: PoolContext, keep: Sequence[Bound]) -> int:
    """How many nodes the signals would let go."""
    return max(0, ctx.count.capacity - max(bound.nodes for bound in keep))


def _membership(ctx: PoolContext, keep: Sequence[Bound], cluster_memory: Memory) -> PoolMembers:
    """Who is capacity, and whose loss has to be made up for."""
    before = ctx.before
    membership = track_members(ctx.workers, before.members, before.losses, ctx.observation.at, cluster_memory.looked_at)
    could_spare_one = keep[0].kind is BoundSource.CALM and not ctx.observation.hold
    if could_spare_one:
        return replace(membership, losses=())
    return membership


def _bounds(
    ctx: PoolContext,
    signals: SignalResults,
    keep: Sequence[Bound],
    losses: Sequence[Loss],
    cluster_memory: Memory,
    quality: DataQuality,
    inconsistencies: Inconsistencies,
) -> list[Bound]:
    capacity = ctx.count.capacity
    asked = [
        floor(vote.nodes, opinion.signal, Rank.SIGNAL, vote.reason, vote.expires) for opinion, vote in signals.floors
    ]
    return [
        *keep,
        *asked,
        *cooldown_bounds(ctx.pool, ctx.before, capacity, ctx.observation.at, signals.at_once),
        *window_bounds(ctx.observation, ctx.pool.name),
        *command_bounds(ctx.observation, ctx.pool.name),
        *limit_bounds(ctx.pool, ctx.count),
        *fleet_bounds(ctx),
        *cap_bounds(ctx),
        *replacement_bounds(losses, capacity),
        *safety_bounds(
            ctx.observation,
            cluster_memory,
            ctx.policy,
            ctx.pool,
            ctx.count,
            quality,
            inconsistencies.sentences,
            ctx.unreadable,
        ),
        *hold_bounds(ctx.observation, ctx.pool, capacity, losses),
        *(swap_bounds(ctx, ctx.before.swap) if ctx.before.swap else ()),
    ]


def _decision(
    ctx: PoolContext,
    signals: SignalResults,
    bounds: Sequence[Bound],
    resolved: TargetResult,
    pool_plan: PoolPlan,
    lost: Sequence[Loss],
    held: unhealthy.Brake,
    cleanups: Sequence[Step],
) -> PoolDecision:
    pool, seen = ctx.pool, ctx.observation
    return PoolDecision(
        pool=pool.name,
        action=pool_plan.action,
        count=ctx.count,
        target=pool_plan.target,
        reason=pool_plan.reason,
        bounds=tuple(bounds),
        overruled=resolved.overruled,
        votes=(*render_votes(signals.votes), *([f"forecast: {signals.grade}"] if signals.grade else ())),
        plan=(
            *(interruption.plan_interruptions(ctx.workers, pool, seen) if ctx.is_announced else ()),
            *rotation.retirement_alerts(ctx.workers, pool),
            *unhealthy.uncordon_stale(ctx.workers, pool),
            *unhealthy.plan_replacements(ctx.workers, pool, ctx.count, lost, held, seen, most=ctx.limit),
            *pool_plan.steps,
            *cleanups,
            *provisioning.plan_surplus(ctx),
            *signals.alerts,
            *alert_at_max(ctx, resolved, bounds),
        ),
        stays=pool_plan.leaving.stays,
        dry_run=pool.dry_run,
    )


# ── requeue ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Whether another iteration in a few seconds could change something. If nothing could, the run ends and costs nothing.


def _requeue_reason(ctx: PoolContext, pending: PendingPods, settled: TargetResult, plan: Sequence[Step]) -> str:
    """Why another iteration follows soon; empty: it could change nothing."""
    own = [each for each in ctx.observation.operations if each.pool == ctx.pool.name]
    opened: list[Operation] = [step.operation for step in plan if isinstance(step, Create | Save)]
    draining = sum(isinstance(each, Removal) and _moves(each, ctx) for each in [*own, *opened])
    if draining:
        return f"{pluralize(draining, 'node is', 'nodes are')} on the way out"
    silent = sum(_falls_silent(worker, ctx) for worker in ctx.workers)
    if silent:
        return f"{pluralize(silent, 'node has', 'nodes have')} gone silent"
    pods = pending.unschedulable.count
    if not pods:
        return ""
    booting = ctx.count.booting + sum(each.count for each in opened if isinstance(each, Launch))
    if booting:
        return f"{pluralize(booting, 'node is', 'nodes are')} booting for {pluralize(pods, 'pod', 'pods')}"
    if any(each.bound.kind is BoundSource.PODS for each in settled.overruled):
        return ""  # at max, in a cooldown or paused: looking does not help
    if pending.unschedulable.nodes is None or pending.votes.room_is_new(ctx):
        return f"{pluralize(pods, 'pod is', 'pods are')} about to find a place"
    return ""  # a ready node has had room for a while: whatever keeps them is not about to change


def _falls_silent(worker: Worker, ctx: PoolContext) -> bool:
    """It is not ready, and will soon have been silent for too long."""
    silent = silent_for(worker.node, ctx.pool.health, ctx.observation.at) if worker.node else timedelta(0)
    return worker.phase is Phase.UNREADY and silent > timedelta(0)


def _moves(removal: Removal, ctx: PoolContext) -> bool:
    """It has just begun, or its time is near. In between, where a budget holds up a removal whose time is far, or EC2
    does not take what it said, the schedule is often enough."""
    near = ctx.pool.removal.drain_timeout
    return ctx.observation.at - removal.started < near or abs(removal.deadline - ctx.observation.at) < near


def _rising(ctx: PoolContext, signals: SignalResults) -> str:
    return (
        "load rises, and a fresher reading may ask for more"
        if signals.is_rising and ctx.count.capacity < ctx.limit
        else ""
    )


# ── the decision ─────────────────────────────────────────────────────────────────────────────────────────────────────


def decide(
    observation: Observation, memory: Memory, policy: Policy, fleet: tuple[Worker, ...] | None = None
) -> Decision:
    """`fleet`: the workers of the observation, if the caller has derived them already."""
    fleet = derive_workers(observation, policy) if fleet is None else fleet
    contexts = [PoolContext.of(pool, policy, observation, memory.pool(pool.name), fleet) for pool in policy.pools]
    trust = data_quality.assess(observation, memory, policy, [each for ctx in contexts for each in ctx.unreadable])
    if trust.level is Level.PARTIAL:
        results = [hold_blind(ctx, memory, trust) for ctx in contexts]
        unplaceable, disposal = [], Disposal()
    else:
        pending = PendingIndex.of(_pods(observation))
        used = amounts_in_use(fleet, observation, policy, memory)
        own = {ctx.pool.name: allowed_growth(ctx, memory, trust, used) for ctx in contexts}
        stopped = frozenset(pool for pool, more in own.items() if not more)
        cluster, votes = _pack_pending(
            ClusterContext.of(observation, policy, fleet, memory, stopped), contexts, pending
        )
        decided: dict[str, PoolResult] = {}
        room = policy.fleet_max - fleet_occupied(fleet, observation, policy, memory)
        surplus = fleet_surplus(contexts, policy.fleet_max)
        ordered = by_priority(contexts)
        waiting: Mapping[str, PendingPods] = {
            ctx.pool.name: collect_pending(ctx, cluster.packings, pending, votes[ctx.pool.name]) for ctx in contexts
        }
        kept: Mapping[str, int] = NONE_SHARED
        if policy.tenants.shares or (len(ordered) > 1 and find_outranking(ordered, waiting)):
            shares = share_new_nodes(ordered, waiting, room, used, own)
            waiting, kept = shares.pending, shares.kept
        for index, context in enumerate(ordered):
            later = ordered[index + 1 :]
            ctx = within_fleet(context, later, room, surplus, kept)
            ctx = within_caps(ctx, later, used, kept)
            own_pods = _within_caps_first(ctx, waiting[ctx.pool.name])
            ctx = within_caps(ctx, later, used, kept, own_pods.asks(len(own_pods.new)))
            result = decided[ctx.pool.name] = decide_pool(ctx, cluster, own_pods, memory, trust)
            room -= _count_launched(result.decision)
            used = with_launches(used, () if result.decision.dry_run else result.decision.plan, observation)
        results = [decided[pool.name] for pool in policy.pools]
        disposal = dispose_unowned(fleet, cluster, observation, policy, memory)
        unplaceable = alert_unplaceable(cluster.packings.unplaceable, "") if cluster.packings else []
    resting = resting_since(fleet, policy, observation, memory.resting)
    return Decision(
        at=observation.at,
        cluster=observation.cluster,
        level=trust.level,
        pools=tuple(result.decision for result in results),
        tells=(
            *trust.alerts,
            *unowned_alerts(fleet, policy),
            *unplaceable,
            *resting_alerts(fleet, policy, resting, observation.at),
        ),
        memory=Memory(
            level=trust.level,
            recovered_at=trust.recovered_at,
            looked_at=observation.at,
            pools={
                **_keep_known(observation, memory, fleet, policy),
                **disposal.memory,
                **{result.decision.pool: result.memory for result in results},
            },
            resting=resting,
        ),
        plan=disposal.plan,
        look_again="; ".join(filter(None, (*(result.requeue_reason for result in results), disposal.requeue_reason))),
    )


def _within_caps_first(ctx: PoolContext, pending: PendingPods) -> PendingPods:
    if ctx.cap is None:
        return pending
    order = fitting_first(ctx, pending.asks(len(pending.new)))
    return replace(pending, new=tuple(pending.new[index] for index in order))


def _keep_known(
    observation: Observation, memory: Memory, fleet: Iterable[Worker], policy: Policy
) -> dict[str, PoolMemory]:
    """What is known of pools stays known while the policy that names them cannot be read, and while they have workers
    though the policy does not have them any more."""
    gone = {worker.pool for worker in find_unowned(fleet, policy)}
    return {name: known for name, known in memory.pools.items() if observation.hold or name in gone}


def _count_launched(decision: PoolDecision) -> int:
    """How many workers more it asks for."""
    opened = (step.operation for step in decision.plan if isinstance(step, Create) and not decision.dry_run)
    return sum(each.count for each in opened if isinstance(each, Launch))


def _pods(observation: Observation) -> tuple[Pod, ...]:
    view = observation.kubernetes
    return (view.pods or ()) if isinstance(view, ClusterView) else ()


def _pack_pending(
    cluster: ClusterContext, contexts: Sequence[PoolContext], pending: PendingIndex
) -> tuple[ClusterContext, Mapping[str, PendingVotes]]:
    """Who speaks for which pool. Pods without a vote are left out when the others are packed; who loses it by what
    packing shows is left out of a second packing."""
    votes = {ctx.pool.name: before_packing(ctx, pending, cluster.templates(ctx.pool.name)) for ctx in contexts}
    in_vain = any(used_otherwise(votes[ctx.pool.name], ctx) for ctx in contexts)
    first = cluster.without(_left_out(votes), used_otherwise=in_vain)
    if first.packings is None:
        return first, votes
    packed = first.packings.by_pool
    after = {
        ctx.pool.name: after_packing(votes[ctx.pool.name], ctx, pending, packed[ctx.pool.name]) for ctx in contexts
    }
    left_out = _left_out(after)
    return (first if left_out == _left_out(votes) else first.without(left_out)), after


def _left_out(votes: Mapping[str, PendingVotes]) -> frozenset[str]:
    return frozenset(uid for each in votes.values() for uid in each.silent | each.held)
