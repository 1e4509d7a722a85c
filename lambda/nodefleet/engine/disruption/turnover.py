"""Which workers are to be replaced, and whether it is begun now.

What EC2 announced to take, and what is no good, is replaced at once; what is due for rotation when it suits the pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.engine.context import ClusterContext, PoolContext
from nodefleet.engine.disruption import consolidation, replacement, rotation
from nodefleet.engine.disruption.candidates import is_held_fast
from nodefleet.engine.disruption.replacement import Due, Replacement, plan_replacement, replacement_floors
from nodefleet.engine.signals.evaluate import SignalResults
from nodefleet.engine.signals.pending_pods import PendingPods
from nodefleet.engine.target.bounds import resolve_target
from nodefleet.engine.target.scale_down_gate import too_much
from nodefleet.model.decision import Bound
from nodefleet.model.names import some
from nodefleet.model.operations import SendAlert
from nodefleet.model.state import Loss, RotationState


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """Workers that are to be replaced, and how far that is."""

    plan: Replacement
    rotation: RotationState | None
    note: str = ""  # why those that are due for rotation stay
    tells: tuple[SendAlert, ...] = ()


def plan_turnover(
    ctx: PoolContext,
    scene: ClusterContext,
    heard: SignalResults,
    waiting: PendingPods,
    others: Sequence[Bound],
    losses: Sequence[Loss],
    *,
    braked: bool,
    stuck: bool = False,
) -> Turnover:
    """`others`: all bounds but those that come of it. `stuck`: the pool would be smaller, but nobody can leave."""
    before = ctx.before
    urgent = _free(replacement.retiring(ctx.workers, braked=braked), ctx, scene)
    every = rotation.list_due(ctx) or _cheaper(ctx, scene, heard, waiting, losses)
    rotates = all(each.cause == rotation.CAUSE for each in every)
    state = rotation.next_state(ctx, every)
    given_up = state is not None and before.rotation is not None and state.failures > before.rotation.failures
    ahead = min(before.ahead, len(urgent)) if given_up else before.ahead
    plan = plan_replacement([*urgent, *every], ctx.workers, ctx.pool, ctx.count, ahead, most=ctx.most)
    if not every:
        return Turnover(plan=plan, rotation=None)
    settled = resolve_target([*others, *replacement_floors(plan, ctx.count.capacity)])
    why_not = rotation.obstacle(
        ctx, state, pods=waiting.unschedulable.count, bounds=others, settled=settled, losses=losses, stuck=stuck
    )
    due = rotation.in_window(every, ctx) if rotates else every
    if not why_not and not due:
        why_not = f"window {ctx.pool.rotation.window} is not open"
    if not why_not:
        free = _free(due, ctx, scene)
        plan, why_not = _with_rotation(ctx, heard, others, urgent, free, ahead, state)
        if not free:
            why_not = _describe_kept(due, ctx, scene)
    return Turnover(
        plan=plan,
        rotation=state,
        note=rotation.explain_wait(every, why_not) if why_not and rotates else "",
        tells=tuple(rotation.rotation_alerts(ctx, state, every, why_not)) if rotates else (),
    )


def _cheaper(
    ctx: PoolContext, scene: ClusterContext, heard: SignalResults, waiting: PendingPods, losses: Sequence[Loss]
) -> list[Due]:
    """The worker that a cheaper node is to replace. What was begun goes on while its new node boots."""
    begun = ctx.before.rotation is not None and ctx.before.rotation.begun_at is not None
    if waiting.unschedulable.count or (not begun and consolidation.obstacle(ctx, heard.opinions, losses)):
        return []
    ground = scene.ground(ctx, ctx.before.backoffs)
    return consolidation.list_due(ctx, ground, scene.templates(ctx.pool.name), begun=begun)


def _with_rotation(
    ctx: PoolContext,
    heard: SignalResults,
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
        due, ctx.workers, ctx.pool, ctx.count, ahead, most=ctx.most, all_may_begin=not under_way, all_may_leave=True
    )
    why_not = ""
    if plan.at_max and any(each.ask for each in free):
        why_not = "max leaves no room to launch a cheaper node first"
    elif plan.at_max and not urgent:
        over = too_much(heard.opinions, ctx.look, ctx.pool.reactive, 1)
        why_not = rotation.obstacle_at_max(ctx, others, over)
    if why_not:
        plan = plan_replacement(due, ctx.workers, ctx.pool, ctx.count, ahead, most=ctx.most)
    return plan, why_not


def _free(due: Sequence[Due], ctx: PoolContext, scene: ClusterContext) -> list[Due]:
    """Those that only a lack of room may keep: a node that is launched for another one would only be given back and
    launched again."""
    if not due:
        return []
    ground = scene.ground(ctx, ctx.before.backoffs)
    return [each for each in due if is_held_fast(each.worker, ctx.pool, ground) is None]


def _describe_kept(due: Sequence[Due], ctx: PoolContext, scene: ClusterContext) -> str:
    ground = scene.ground(ctx, ctx.before.backoffs)
    kept = (is_held_fast(each.worker, ctx.pool, ground) for each in due)
    return some((each.sentence for each in kept if each), "; ", 2)
