"""The plan of one pool: how it gets to its target, or what is done besides while it keeps its size.

grow      nodes are launched, or come back from a removal
drain     a node leaves that an operator wants gone, if the pool can spare it
shrink    nodes leave; those that are due for replacement anyway go first
keep      what is due is replaced, under-used nodes are consolidated, the Spot share heals: the first that applies
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nodefleet.engine import provisioning
from nodefleet.engine.cluster_context import ClusterContext, headroom_bounds, list_placeholders
from nodefleet.engine.context import Due, PoolContext
from nodefleet.engine.data_quality import Inconsistencies
from nodefleet.engine.disruption import consolidation, rotation
from nodefleet.engine.disruption.candidates import Selection, is_held_fast, not_asked, open_removal, select_candidates
from nodefleet.engine.disruption.rotation import Replacement, may_leave, plan_replacement, replacement_floors
from nodefleet.engine.provisioning import ScaleUpRequest, plan_scale_up
from nodefleet.engine.signals.pending_pods import PendingPods
from nodefleet.engine.signals.vote import SignalResults, SignalVote, find_overload
from nodefleet.engine.spot_share import rebalance_market
from nodefleet.engine.target import exceeds_room, explain_scale_down, explain_scale_up, explain_stuck, resolve_target
from nodefleet.model.decision import Action, Bound, BoundSource, Rank, TargetResult, floor
from nodefleet.model.fleet import Worker
from nodefleet.model.names import some
from nodefleet.model.operations import SendAlert, Step
from nodefleet.model.state import Loss, PoolMemory, RotationState

# ── the plan of one pool ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """The action of a pool, with its steps and the memory after it."""

    action: Action
    target: int
    reason: str
    memory: PoolMemory
    steps: tuple[Step, ...] = ()
    leaving: Selection


def hold(ctx: PoolContext, reason: str, memory: PoolMemory) -> PoolPlan:
    return PoolPlan(
        action=Action.HOLD,
        target=ctx.count.capacity,
        reason=reason,
        memory=memory,
        leaving=not_asked(ctx.workers),
    )


def with_note(pool_plan: PoolPlan, *notes: str) -> PoolPlan:
    """With what operators may wonder about besides."""
    said = "; ".join(filter(None, notes))
    return replace(pool_plan, reason=f"{pool_plan.reason}. Also: {said}") if said else pool_plan


def _plan_removals(
    ctx: PoolContext,
    selection: Selection,
    reason: str,
    memory: PoolMemory,
    of_each: Callable[[Worker], str],
    rotated: Collection[str] = (),
    savings: Mapping[str, float | None] = MappingProxyType({}),
) -> PoolPlan:
    """Those that are chosen leave now. `of_each`: the reason that its removal carries. `savings`: of those that are
    consolidated, USD an hour."""
    gone = {worker.id for worker in selection.chosen}
    ended = {*rotated, *rotation.drain_requests(ctx)}  # never kept warm: they are to be gone
    kept = provisioning.choose_kept([worker for worker in selection.chosen if worker.id not in ended], ctx)
    return PoolPlan(
        action=Action.SHRINK,
        target=ctx.count.capacity - len(gone),
        reason=reason,
        memory=replace(
            memory,
            last_left=ctx.observation.at,
            ahead=max(0, memory.ahead - len(gone)),
            members=tuple(member for member in memory.members if member not in gone),
        ),
        steps=tuple(
            open_removal(
                each,
                ctx.pool,
                ctx.observation,
                of_each(each),
                keeps=each.id in kept,
                rotated=each.id in rotated,
                consolidates=each.id in savings,
                saves_usd=savings.get(each.id),
            )
            for each in selection.chosen
        ),
        leaving=selection,
    )


# ── nodes that come ───────────────────────────────────────────────────────────────────────────────────────────────────


def plan_growth(
    ctx: PoolContext,
    pending: PendingPods,
    resolved: TargetResult,
    memory: PoolMemory,
    due: Replacement,
    record: Callable[[PoolMemory, int], PoolMemory],
) -> PoolPlan:
    """Launches up to the target. `record` adds to the memory which signals asked for how many nodes."""
    capacity, least = ctx.count.capacity, ctx.pool.limits.min
    more = resolved.target - capacity
    restoring = min(more, max(least - capacity, len(memory.losses), due.wanted, 0))
    reason = explain_scale_up(capacity, resolved, resolved.target)
    need = ScaleUpRequest(
        more=more,
        restoring=restoring,
        on_demand=min(len(memory.losses), max(0, least - capacity)),
        asks=tuple(each.ask for each in due.next if each.ask) or pending.asks(more),
        replacing=frozenset(worker.id for each in (*due.going[: due.ahead], *due.next) for worker in each.workers),
        reason=reason,
    )
    growth = plan_scale_up(need, ctx.workers, ctx.pool, memory, ctx.observation, ctx.policy)
    while need.more > ctx.lacking and exceeds_room(ctx, growth.steps):
        need = replace(need, more=need.more - 1, restoring=min(need.restoring, need.more - 1))
        growth = plan_scale_up(need, ctx.workers, ctx.pool, memory, ctx.observation, ctx.policy)
    obstacle = ctx.cap.sentence if ctx.cap and need.more < more else growth.obstacle
    growth = replace(growth, obstacle=obstacle)
    if 0 < growth.nodes < more:  # the reason of the launches, too, names what is really launched
        reason = explain_scale_up(capacity, resolved, capacity + growth.nodes, growth.obstacle)
        growth = plan_scale_up(replace(need, reason=reason), ctx.workers, ctx.pool, memory, ctx.observation, ctx.policy)
    ahead = 0 if any(each.together for each in due.next) else min(due.wanted, growth.nodes)
    memory = replace(memory, losses=memory.losses[growth.nodes :], ahead=memory.ahead + ahead)
    if growth.nodes and any(each.can_wait for each in due.next):
        begun = rotation.record_start(memory.rotation, capacity, ctx.observation.at, due.next)
        memory = replace(memory, rotation=begun)
    if growth.nodes == 0:
        return replace(hold(ctx, f"Holding {capacity}: {growth.obstacle}", memory), steps=growth.steps)
    if growth.nodes > restoring:
        memory = record(memory, capacity + growth.nodes)
        memory = replace(memory, last_grow=ctx.observation.at)
    return PoolPlan(
        action=Action.GROW,
        target=capacity + growth.nodes,
        reason=reason,
        memory=memory,
        steps=growth.steps,
        leaving=not_asked(ctx.workers),
    )


# ── turnover ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Which workers are to be replaced, and whether it is begun now.
#
# What EC2 announced to take, and what is no good, is replaced at once; what is due for rotation when it suits the
# pool.


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """Workers that are to be replaced, and how far that is."""

    plan: Replacement
    rotation: RotationState | None
    note: str = ""  # why those that are due for rotation stay
    alerts: tuple[SendAlert, ...] = ()


def plan_turnover(
    ctx: PoolContext,
    cluster: ClusterContext,
    signals: SignalResults,
    pending: PendingPods,
    keep: Sequence[Bound],
    others: Sequence[Bound],
    losses: Sequence[Loss],
    *,
    braked: bool,
    drained: Sequence[Worker] = (),
    stuck: bool = False,
) -> Turnover:
    """`others`: all bounds but those that come of it, with `keep`, by which the signals keep the size. `drained`: they
    leave first, and nothing is launched for them. `stuck`: the pool would be smaller, but no node can leave."""
    before, gone = ctx.before, {worker.id for worker in drained}
    urgent = _free(rotation.retiring(ctx.workers, braked=braked), ctx, cluster)
    if before.rotation and before.rotation.together:
        state = rotation.next_state(ctx, ())
        plan = plan_replacement(urgent, ctx.workers, ctx.pool, ctx.count, before.ahead, most=ctx.limit)
        return Turnover(plan=plan, rotation=state, note=rotation.explain_together(ctx, state))
    every = [each for each in rotation.list_due(ctx) if each.worker.id not in gone]
    firm = [] if urgent else [bound for bound in others if bound not in keep]
    every = every or ([] if drained else _list_cheaper(ctx, cluster, signals, pending, firm, losses))
    rotates = all(each.cause == rotation.CAUSE for each in every)
    state = rotation.next_state(ctx, every)
    given_up = state is not None and before.rotation is not None and state.failures > before.rotation.failures
    ahead = min(before.ahead, len(urgent)) if given_up else before.ahead
    plan = plan_replacement([*urgent, *every], ctx.workers, ctx.pool, ctx.count, ahead, most=ctx.limit)
    if not every:
        return Turnover(plan=plan, rotation=state)
    settled = resolve_target([*others, *replacement_floors(plan, ctx.count.capacity)])
    why_not = rotation.obstacle(
        ctx, state, pods=pending.unschedulable.count, bounds=others, settled=settled, losses=losses, stuck=stuck
    )
    due = rotation.in_window(every, ctx) if rotates else every
    if drained:
        why_not = f"{some(worker.name for worker in drained)} is drained first"
    if not why_not and not due:
        why_not = f"window {ctx.pool.rotation.window} is not open"
    if not why_not:
        free = _free(due, ctx, cluster)
        plan, why_not = _with_rotation(ctx, signals, others, urgent, free, ahead, state)
        if not free:
            why_not = _describe_kept(due, ctx, cluster)
    return Turnover(
        plan=plan,
        rotation=state,
        note=rotation.explain_wait(every, why_not) if why_not and rotates else "",
        alerts=tuple(rotation.rotation_alerts(ctx, state, every, why_not)) if rotates else (),
    )


def _list_cheaper(
    ctx: PoolContext,
    cluster: ClusterContext,
    signals: SignalResults,
    pending: PendingPods,
    firm: Sequence[Bound],
    losses: Sequence[Loss],
) -> list[Due]:
    """The worker, or the workers, that a cheaper node is to replace. What was begun goes on while its new node boots.
    `firm`: what decides the size besides the signals; without any, one node replaces one."""
    begun = ctx.before.rotation is not None and ctx.before.rotation.begun_at is not None
    if pending.unschedulable.count or (not begun and consolidation.obstacle(ctx, signals.votes, losses)):
        return []
    ground = cluster.ground(ctx, ctx.before.backoffs)
    firm = [bound for bound in firm if bound.kind is not BoundSource.STEP]  # each leaves by a step of its own
    most = ctx.pool.consolidation.nodes_for_one - 1 if firm else 0
    ground = replace(ground, headroom=list_placeholders(ctx, cluster)) if most else ground
    return consolidation.list_due(
        ctx,
        ground,
        cluster.templates(ctx.pool.name),
        one_may_leave=consolidation.bears_fewer(ctx, signals.votes),
        fewer=next((number for number in range(most, 0, -1) if _would_do(ctx, firm, signals.votes, number)), 0),
        begun=begun,
    )


def _with_rotation(
    ctx: PoolContext,
    signals: SignalResults,
    others: Sequence[Bound],
    urgent: Sequence[Due],
    free: Sequence[Due],
    ahead: int,
    state: RotationState | None,
) -> tuple[Replacement, str]:
    """The plan with those that can wait, if max lets one of them go first."""
    due = [*urgent, *free]
    under_way = state is not None and state.begun_at is not None
    plan = plan_replacement(
        due, ctx.workers, ctx.pool, ctx.count, ahead, most=ctx.limit, all_may_begin=not under_way, all_may_leave=True
    )
    why_not = ""
    if plan.at_max and any(each.ask for each in free):
        why_not = "max leaves no room to launch a cheaper node first"
    elif plan.at_max and not urgent:
        over = find_overload(signals.votes, ctx.fleet_size, ctx.pool.reactive, 1)
        why_not = rotation.obstacle_at_max(ctx, others, over)
    if why_not:
        plan = plan_replacement(due, ctx.workers, ctx.pool, ctx.count, ahead, most=ctx.limit)
    return plan, why_not


def _free(due: Sequence[Due], ctx: PoolContext, cluster: ClusterContext) -> list[Due]:
    """Those that only a lack of room may keep: a node that is launched for another one would only be given back and
    launched again."""
    if not due:
        return []
    ground = cluster.ground(ctx, ctx.before.backoffs)
    return [each for each in due if is_held_fast(each.worker, ctx.pool, ground) is None]


def _describe_kept(due: Sequence[Due], ctx: PoolContext, cluster: ClusterContext) -> str:
    ground = cluster.ground(ctx, ctx.before.backoffs)
    kept = (is_held_fast(each.worker, ctx.pool, ground) for each in due)
    return some((each.sentence for each in kept if each), "; ", 2)


# ── nodes that leave ──────────────────────────────────────────────────────────────────────────────────────────────────


def select_drained(
    ctx: PoolContext,
    cluster: ClusterContext,
    keep: Sequence[Bound],
    others: Sequence[Bound],
    votes: Sequence[SignalVote],
    inconsistencies: Inconsistencies,
) -> Selection:
    """Workers that operators want gone and that the pool can spare. The signals need not agree to it, nor does it wait
    for a cooldown; every other bound holds, and the load and the pods have room on the others. Those that it cannot
    spare are due for rotation: a new one comes first."""
    wanted = rotation.drain_requests(ctx)
    due = [each.worker for each in rotation.list_due(ctx) if each.worker.id in wanted] if wanted else []
    state = ctx.before.rotation
    if not due or ctx.count.booting or ctx.before.ahead or (state and state.begun_at):
        return Selection()
    firm = [bound for bound in others if bound not in keep and bound.rank is not Rank.DAMPING]
    most = _most_spared(ctx, cluster, firm, votes)
    ground = cluster.ground(ctx, ctx.before.backoffs, inconsistencies.unmeasured)
    ground, mark = replace(ground, headroom=list_placeholders(ctx, cluster)), ground.simulation.mark()
    leaving = consolidation.select_leaving(ctx, ground, due, most)
    ground.simulation.roll_back(mark)
    return leaving


def plan_drain(ctx: PoolContext, cluster: ClusterContext, selection: Selection, memory: PoolMemory) -> PoolPlan:
    """They leave by the rules of every voluntary removal, and are terminated."""
    cluster.room.try_drain(*(worker.name for worker in selection.chosen))
    wanted, capacity = rotation.drain_requests(ctx), ctx.count.capacity

    def describe(worker: Worker) -> str:
        return f"{worker.name}, {rotation.describe_drain(wanted[worker.id])}"

    reason = f"Shrinking {capacity} → {capacity - len(selection.chosen)}: {some(map(describe, selection.chosen), '; ')}"
    memory = replace(memory, last_shrink=ctx.observation.at)
    return _plan_removals(ctx, selection, reason, memory, describe)


def _most_spared(
    ctx: PoolContext, cluster: ClusterContext, bounds: Sequence[Bound], votes: Sequence[SignalVote]
) -> int:
    """How many nodes may leave at once without a replacement, `budgets.removals` at most."""

    def allows(number: int) -> bool:
        return _would_do(ctx, [*bounds, *headroom_bounds(ctx, cluster, number)], votes, number)

    return next((number for number in range(ctx.pool.budgets.removals, 0, -1) if allows(number)), 0)


def _would_do(ctx: PoolContext, bounds: Sequence[Bound], votes: Sequence[SignalVote], number: int) -> bool:
    """So many nodes fewer, by these bounds and by the load."""
    least = ctx.count.capacity - number
    fewer = floor(least, BoundSource.CALM, Rank.SIGNAL, "nodes may leave")
    return resolve_target([*bounds, fewer]).target <= least and consolidation.bears_fewer(ctx, votes, number)


def plan_scale_down(
    ctx: PoolContext,
    cluster: ClusterContext,
    resolved: TargetResult,
    bounds: Sequence[Bound],
    memory: PoolMemory,
    inconsistencies: Inconsistencies,
    due: Replacement,
) -> PoolPlan:
    """Who is to be replaced anyway goes first: neither its zone nor the On-Demand base keeps it. Of those that can wait
    the same is true once a new node has come for one of them."""
    capacity, ground = ctx.count.capacity, cluster.ground(ctx, memory.backoffs, inconsistencies.unmeasured)
    ground = replace(ground, rotating=frozenset(each.worker.id for each in due.due if each.can_wait))
    if all(bound.nodes <= resolved.target for bound in bounds if bound.kind is BoundSource.HEADROOM):
        ground = replace(ground, headroom=list_placeholders(ctx, cluster))  # else max or an operator overrules it
    fewer = capacity - resolved.target
    first = [each.worker for each in due.due if not each.can_wait or _has_come(memory.rotation, capacity)]
    together = consolidation.list_together(ctx, ground, memory.rotation) if memory.rotation else []
    first += together
    leaving = select_candidates(ctx.workers, ctx.pool, fewer, ground, due=first)
    if not leaving.chosen:
        leaving = select_candidates(ctx.workers, ctx.pool, fewer, ground)
    if not leaving.chosen:
        reason = explain_stuck(capacity, resolved, bounds, leaving.obstacle)
        return replace(hold(ctx, reason, memory), leaving=leaving)
    reason = explain_scale_down(capacity, resolved, bounds, [worker.name for worker in leaving.chosen])
    merged = [worker for worker in leaving.chosen if worker in together]
    savings = consolidation.savings(ctx, merged, memory.rotation)
    memory = replace(memory, last_shrink=ctx.observation.at)
    if merged or ground.rotating & {worker.id for worker in leaving.chosen}:
        memory = rotation.record_progress(memory, leaving.chosen)
    return _plan_removals(ctx, leaving, reason, memory, lambda _: reason, savings=savings)


def _has_come(state: RotationState | None, capacity: int) -> bool:
    return state is not None and state.begun_at is not None and capacity > state.nodes


def plan_retirement(
    ctx: PoolContext, cluster: ClusterContext, due: Replacement, bounds: Sequence[Bound], memory: PoolMemory
) -> PoolPlan | None:
    """What EC2 has announced to take goes once its replacement is ready, by the rules of every voluntary removal."""
    number = may_leave(due, ctx.pool, ctx.count, bounds)
    if not number:
        return None
    going = [each.worker for each in due.going]
    leaving = select_candidates(ctx.workers, ctx.pool, number, cluster.ground(ctx, memory.backoffs), due=going)
    if not leaving.chosen:
        return None
    owed = tuple(
        Loss(worker=worker.id, at=ctx.observation.at, cause=due.of(worker).cause)
        for worker in leaving.chosen
        if due.at_max
    )

    def describe(worker: Worker) -> str:
        return f"{worker.name}, {due.of(worker).reason}"

    order = "it goes first, as max leaves no room" if due.at_max else "its replacement is ready"
    capacity, names = ctx.count.capacity, some(map(describe, leaving.chosen), "; ")
    reason = f"Shrinking {capacity} → {capacity - len(leaving.chosen)}: {names}; {order}"
    memory = replace(memory, losses=(*memory.losses, *owed))
    chosen = [due.of(worker) for worker in leaving.chosen]
    rotated = frozenset(each.worker.id for each in chosen if each.can_wait and each.ask is None)
    savings = {each.worker.id: each.saves_usd for each in chosen if each.ask is not None}
    if rotated or savings:
        memory = rotation.record_progress(memory, leaving.chosen)
    return _plan_removals(ctx, leaving, reason, memory, describe, rotated, savings)


def plan_consolidation(
    ctx: PoolContext,
    cluster: ClusterContext,
    keep: Sequence[Bound],
    others: Sequence[Bound],
    memory: PoolMemory,
    turn: Turnover,
    inconsistencies: Inconsistencies,
    votes: Sequence[SignalVote],
    *,
    is_full: bool = False,
) -> PoolPlan | None:
    """Under-used nodes leave although the signals would keep the size, `budgets.removals` at a time; every other bound
    holds. While one new node replaces several, only these. `is_full`: for pods that wait, which grow the pool again in
    the next iteration."""
    capacity, state = ctx.count.capacity, turn.rotation
    if turn.plan.ahead or any(not each.can_wait for each in turn.plan.due):
        return None
    ground = cluster.ground(ctx, memory.backoffs, inconsistencies.unmeasured)
    together = state if state and state.together else None
    if together:
        stays = consolidation.obstacle(ctx, votes, memory.losses, begun=True)
        ranked = [] if stays else consolidation.list_together(ctx, ground, together)
    elif state and state.begun_at:
        return None
    else:
        ranked = consolidation.rank_candidates(ctx, ground, memory.under_used, is_full=is_full)
    if not ranked:
        return None
    without_gate = [bound for bound in others if bound not in keep and not (is_full and bound.kind is BoundSource.PODS)]
    most = _most_spared(ctx, cluster, without_gate, votes)
    ground = replace(ground, headroom=list_placeholders(ctx, cluster))
    leaving = consolidation.select_leaving(ctx, ground, ranked, most)
    if is_full and most and not leaving.chosen:  # its zone and the On-Demand base get the node that comes for it
        leaving = select_candidates(ctx.workers, ctx.pool, 1, ground, due=ranked)
    if not leaving.chosen:
        return None
    reasons = {
        worker.id: consolidation.describe_together(worker, ctx, together)
        if together
        else consolidation.describe(worker, (ground.pods or {}).get(worker.name, ()), ctx)
        for worker in leaving.chosen
    }
    if together:
        memory = rotation.record_progress(memory, leaving.chosen)
    if not together or capacity - len(reasons) < together.nodes:
        memory = replace(memory, last_shrink=ctx.observation.at)
    room = "; at max it makes room for pods that no node of the pool can hold" if is_full else ""
    return _plan_removals(
        ctx,
        leaving,
        f"Shrinking {capacity} → {capacity - len(reasons)}: {some(reasons.values(), '; ')}{room}",
        memory,
        lambda worker: reasons[worker.id],
        savings={} if is_full else consolidation.savings(ctx, leaving.chosen, together),
    )


def plan_hold(
    ctx: PoolContext, cluster: ClusterContext, reason: str, bounds: Sequence[Bound], memory: PoolMemory, turn: Turnover
) -> PoolPlan:
    """Holding, and healing the Spot share meanwhile."""
    healed = rebalance_market(ctx, memory, bounds, lambda: cluster.ground(ctx, memory.backoffs))
    pool_plan = replace(hold(ctx, reason, healed.memory), steps=healed.steps)
    pool_plan = with_note(pool_plan, healed.note, turn.note)
    return replace(pool_plan, leaving=healed.leaving) if healed.leaving else pool_plan
