"""Ready workers that give way to new ones, which are launched first: EC2 has announced to take them, they are ready and
yet no good (retirement); an operator asked for it, they are not what the pool would launch now, or they are old
(rotation).

    due                    why
    `nodefleet drain`      an operator wants it gone, and the pool cannot spare it: one that it can spare leaves at
                           once, and none is launched for it (`plan_drain`)
    `nodefleet recycle`    an operator asked for a new one; neither waits for `rotation.window`
    drift                  its launch template or version is not the pool's, or its type is none of the pool's
    age                    older than `rotation.max_age`, less its own part of `rotation.spread_percent`

Workers due for rotation can wait: nothing is begun while the pool changes its size, pods wait, a node boots, leaves or
is not well, data is missing, or the pool is paused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from nodefleet.engine.context import Due, PoolContext, RemovalContext, describe_drift, target_of
from nodefleet.engine.disruption.candidates import is_held_fast
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Bound, BoundSource, KeepReason, Rank, Side, TargetResult, floor
from nodefleet.model.fleet import Count, Phase, Worker
from nodefleet.model.names import pluralize, some
from nodefleet.model.operations import Removal, RemovalReason, SendAlert
from nodefleet.model.snapshot import Drain, Recycle
from nodefleet.model.state import Loss, PoolMemory, RotationState
from nodefleet.policy.fields import doubled_pause
from nodefleet.policy.pool import Pool

# ── replacement ──────────────────────────────────────────────────────────────────────────────────────────────────────
# Replacing ready workers: the replacement is launched first, then the worker is drained.
#
# Nothing is forced, so all the rules of a voluntary removal hold: max, budgets, protection, and pods that have
# somewhere to go. Where max leaves no room for a replacement the worker goes first, if its pods fit on the others.
# Which workers are due, and why, is said below for each reason: retirement and rotation.


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Workers that are due, and how many nodes were launched ahead for them."""

    due: tuple[Due, ...]  # in the order in which they go
    ahead: int  # launched for some of them, and not used up by a removal yet
    wanted: int  # to be launched now
    at_max: bool  # there is no room to launch first
    going: tuple[Due, ...]  # those of `due` that may leave now

    @property
    def next(self) -> tuple[Due, ...]:
        """Those for which nodes are launched now."""
        waiting = self.going[self.ahead :]
        return waiting[: self.wanted]

    def of(self, worker: Worker) -> Due:
        return next(each for each in self.due if each.worker.id == worker.id)


def plan_replacement(
    due: Sequence[Due],
    workers: Sequence[Worker],
    pool: Pool,
    count: Count,
    ahead: int,
    *,
    most: int | None = None,
    all_may_begin: bool = False,
    all_may_leave: bool = False,
) -> Replacement:
    """`most`: what fleet.max leaves the pool. Workers that can wait count only if that suits the pool: to launch for
    them (`all_may_begin`), and to have them leave (`all_may_leave`)."""
    under_way = sum(
        isinstance(worker.operation, Removal) and worker.operation.why is RemovalReason.VOLUNTARY for worker in workers
    )
    # At min no node is ahead: its launch was refused, or it was lost. Counted on, none would ever be launched again.
    ahead = min(ahead, len(due), max(0, count.capacity - pool.limits.min))
    begin = [each for each in due if all_may_begin or not each.can_wait]
    free = min(len(begin), pool.budgets.removals - under_way) - ahead
    room = (pool.limits.max if most is None else most) - count.occupied
    return Replacement(
        due=tuple(due),
        ahead=ahead,
        wanted=max(0, min(free, room)),
        at_max=room <= 0 and free > 0 and ahead == 0,
        going=tuple(each for each in due if all_may_leave or not each.can_wait),
    )


def replacement_floors(plan: Replacement, capacity: int) -> list[Bound]:
    if not plan.wanted:
        return []
    going = (*plan.going[: plan.ahead], *plan.next)
    names = some(f"{each.worker.name}: {each.reason}" for each in going)
    before = "it goes" if len(going) == 1 else "they go"
    return [floor(capacity + plan.wanted, BoundSource.RETIRE, Rank.LIMIT, f"replaced before {before}: {names}")]


def may_leave(plan: Replacement, pool: Pool, count: Count, settled_bounds: Sequence[Bound]) -> int:
    """How many may leave now: those whose replacement is ready, or one where max leaves no room for it."""
    capacity = count.capacity
    least = max((each.nodes for each in settled_bounds if _keeps_size(each)), default=0)
    if count.booting or least >= capacity > 0 or not plan.going:
        return 0
    if plan.ahead:
        return max(0, min(plan.ahead, capacity - pool.limits.min))
    return 1 if plan.at_max else 0


def _keeps_size(bound: Bound) -> bool:
    """Missing data, a doubt or a pause: nothing leaves of our own accord."""
    return bound.rank is Rank.SAFETY and bound.side is Side.FLOOR


# ── retirement ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Workers that are to be replaced in good time: a scheduled change is announced, EC2 recommends to move off them, or
# they are ready and yet no good (pressure, crashing pods).
#
# What could not be done by then is an interruption from shortly before its time on (`is_imminent`).


def retiring(workers: Sequence[Worker], *, braked: bool = False) -> list[Due]:
    """The earliest first. `braked`: many are unhealthy at once, and then those that are ready stay."""
    going = [worker for worker in workers if is_due(worker) and (worker.planned or not braked)]
    going.sort(key=lambda worker: (_time(worker), worker.id))
    return [
        Due(worker=each, reason=retirement_reason(each), cause=each.planned.kind.value if each.planned else "unhealthy")
        for each in going
    ]


def retirement_reason(worker: Worker) -> str:
    return worker.planned.reason if worker.planned else worker.ailment


def is_due(worker: Worker) -> bool:
    reason = worker.planned is not None or worker.ailment
    return bool(reason) and worker.phase is Phase.READY and worker.operation is None


def _time(worker: Worker) -> str:
    return worker.planned.at.isoformat() if worker.planned else ""  # what is no good now comes first


def retirement_alerts(workers: Sequence[Worker], pool: Pool) -> list[SendAlert]:
    """Once for each worker: what is planned, with its date, or what is wrong with it, and what is done about it."""
    return [
        SendAlert(
            alert=AlertKind.INTERRUPTED if worker.planned else AlertKind.UNHEALTHY,
            pool=pool.name,
            subjects=(worker.name, worker.planned.kind.value if worker.planned else "ailment"),
            text=f"{worker.name} ({worker.zone}): {retirement_reason(worker)}. It is replaced, and then drained.",
        )
        for worker in workers
        if is_due(worker)
    ]


# ── rotation ─────────────────────────────────────────────────────────────────────────────────────────────────────────


CAUSE = "rotated"
_NOT_WELL = frozenset({Phase.UNREADY, Phase.UNHEALTHY, Phase.INTERRUPTED, Phase.UNLISTED})
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


def list_due(ctx: PoolContext) -> list[Due]:
    """Everyone who is due, window or not: what operators ask for first, then drift, then age; the oldest first."""
    drained = drain_requests(ctx)
    asked = {
        each.instance: each
        for each in ctx.observation.commands
        if isinstance(each, Recycle) and ctx.observation.at < each.until
    }
    target = target_of(ctx.observation, ctx.pool)
    found = []
    for worker in ctx.workers:
        if worker.phase is not Phase.READY or worker.operation is not None or worker.instance is None:
            continue
        if worker.planned or worker.ailment or worker.held_by_person:
            continue
        reasons = (
            describe_drain(drained.get(worker.id)),
            describe_recycle(asked.get(worker.id)),
            describe_drift(worker, ctx.pool, target) if ctx.pool.rotation.drift else "",
            _age(worker, ctx.pool, ctx.observation.at),
        )
        order = next((number for number, reason in enumerate(reasons) if reason), None)
        if order is not None:
            due = Due(worker=worker, reason=reasons[order], cause=CAUSE, can_wait=True)
            found.append(((order, worker.instance.first_launched_at, worker.id), due))
    return [due for _, due in sorted(found, key=lambda each: each[0])]


def drain_requests(ctx: PoolContext) -> Mapping[str, Drain]:
    """Operators' commands that remove workers of this pool, by instance. What was meant for a worker that no pool, or
    another one, owned is none of them."""
    return {
        each.instance: each
        for each in ctx.observation.commands
        if isinstance(each, Drain) and each.pool == ctx.pool.name and ctx.observation.at < each.until
    }


def due_at(worker: Worker, pool: Pool) -> datetime | None:
    """When it is old enough; none: never."""
    rules = pool.rotation
    if not rules.max_age or worker.instance is None:
        return None
    return worker.instance.first_launched_at + rules.max_age * (1 - rules.spread_percent / 100 * _part(worker.id))


def in_window(due: Sequence[Due], ctx: PoolContext) -> list[Due]:
    """Those that may go at this time. What was begun is finished, though its window may be over."""
    name, state = ctx.pool.rotation.window, ctx.before.rotation
    is_open = any(
        each.pool == ctx.pool.name and each.name == name and ctx.observation.at < each.until
        for each in ctx.observation.windows
    )
    if not name or is_open or (state and state.begun_at):
        return list(due)
    asked = {each.instance for each in ctx.observation.commands if isinstance(each, Recycle)}
    return [each for each in due if each.worker.id in asked | drain_requests(ctx).keys()]


def next_state(ctx: PoolContext, due: Sequence[Due]) -> RotationState | None:
    """After this iteration: given up when no worker could leave in time for a node that was launched ahead. Of several
    that it replaces each has that time after the one before it."""
    state, now = ctx.before.rotation or RotationState(), ctx.observation.at
    here = {worker.id for worker in ctx.workers if worker.is_capacity}
    together = tuple(each for each in state.together if each in here)
    if not due and not together:
        rests = RotationState(failures=state.failures, failed_at=state.failed_at)
        return rests if _rests(ctx, state) else None
    state = replace(state, since=state.since or now if due else None, together=together)
    times = [each for each in (state.begun_at, ctx.before.last_left if together else None) if each]
    if state.begun_at and now >= _ends(max(times), ctx.pool):
        return replace(state, begun_at=None, nodes=0, together=(), failures=state.failures + 1, failed_at=now)
    return state


def record_start(state: RotationState | None, nodes: int, now: datetime, due: Sequence[Due]) -> RotationState:
    together = tuple(worker.id for each in due if each.together for worker in each.workers)
    return replace(state or RotationState(), begun_at=now, nodes=nodes, together=together)


def record_progress(memory: PoolMemory, gone: Collection[Worker]) -> PoolMemory:
    """Workers that were due leave. The rest of those that one node replaces follow."""
    ids, state = {worker.id for worker in gone}, memory.rotation
    rest = tuple(each for each in state.together if each not in ids) if state else ()
    if state and rest:
        return replace(memory, rotation=replace(state, together=rest))
    return replace(memory, rotation=RotationState() if state else None)


def explain_together(ctx: PoolContext, state: RotationState | None) -> str:
    """For operators who wonder what the new node is for."""
    waiting = [worker.name for worker in ctx.workers if state and worker.id in state.together]
    return f"one cheaper node takes the place of {some(waiting)}" if waiting else ""


def obstacle(
    ctx: PoolContext,
    state: RotationState | None,
    *,
    pods: int,
    bounds: Sequence[Bound],
    settled: TargetResult,
    losses: Sequence[Loss],
    stuck: bool,
) -> str:
    """Why no worker is rotated now. `pods`: how many wait for the pool. `stuck`: it would shrink, and no node can
    leave; that may stay so for ever."""
    capacity, count = ctx.count.capacity, ctx.count
    under_way = state is not None and state.begun_at is not None
    held = [each.sentence for each in bounds if _holds(each, capacity, under_way=under_way)]
    unwell = [worker.name for worker in ctx.workers if worker.phase in _NOT_WELL]
    if held:
        return held[0]
    if pods:
        return pluralize(pods, "pod waits", "pods wait")
    if count.booting:
        return pluralize(count.booting, "node is booting", "nodes are booting")
    if count.leaving:
        return pluralize(count.leaving, "node is on the way out", "nodes are on the way out")
    if unwell or losses:
        return f"not well: {some(unwell or [loss.worker for loss in losses])}"
    if settled.target != capacity and not (stuck and settled.target < capacity):
        return f"the pool is to have {settled.target}, not {capacity}"
    if under_way:
        return "" if state and capacity > state.nodes else "the new node has not come"
    if ctx.before.swap and ctx.before.swap.open:
        return "a Spot node takes the place of an On-Demand one"
    return _rest(ctx, state)


def obstacle_at_max(ctx: PoolContext, bounds: Sequence[Bound], too_much: Sequence[str]) -> str:
    """Why none goes before its replacement comes, where max leaves no room to launch first."""
    ranks = (Rank.WINDOW, Rank.OPERATOR)
    asked = [b.sentence for b in bounds if b.rank in ranks and b.side is Side.FLOOR and b.nodes >= ctx.count.capacity]
    return next(iter([*asked, *too_much]), "")


def explain_wait(due: Sequence[Due], why_not: str) -> str:
    """For operators who wonder why they are still there."""
    number = pluralize(len(due), "worker is", "workers are")
    names = some((f"{each.worker.name}: {each.reason}" for each in due), "; ", 2)
    return f"{number} due for rotation ({names}), but {why_not}"


def rotation_alerts(ctx: PoolContext, state: RotationState | None, due: Sequence[Due], why_not: str) -> list[SendAlert]:
    """Workers are due for long, and none could be replaced: an operator should look."""
    if state is None or state.since is None or ctx.observation.at - state.since < ctx.pool.rotation.alert_after:
        return []
    them, none_left = ("it", "it could not leave") if len(due) == 1 else ("them", "none of them could leave")
    text = (
        f"{explain_wait(due, why_not or none_left)}. That is so since {state.since:%Y-%m-%d %H:%M}."
        f" Look at what keeps {them}: `nodefleet explain` names it for each node."
    )
    return [SendAlert(alert=AlertKind.ROTATION_BLOCKED, pool=ctx.pool.name, subjects=(), text=text)]


def drain_alerts(ctx: PoolContext, ground: Callable[[], RemovalContext]) -> list[SendAlert]:
    """Workers that operators want gone and that something protects, whatever room there is. That a drain has failed was
    told when it did."""
    wanted = drain_requests(ctx)
    found = []
    for worker in ctx.workers:
        if worker.id not in wanted or worker.operation is not None:
            continue
        why = ""
        if worker.held_by_person:
            why = "an operator cordoned it; `kubectl uncordon` it, and it is drained"
        elif worker.phase is Phase.READY:
            kept = is_held_fast(worker, ctx.pool, ground())
            why = kept.sentence if kept and kept.reason is not KeepReason.BACKING_OFF else ""
        if why:
            text = f"{worker.name} cannot leave yet: {why}. {describe_drain(wanted[worker.id])}."
            found.append(
                SendAlert(alert=AlertKind.DRAIN_BLOCKED, pool=ctx.pool.name, subjects=(worker.name,), text=text)
            )
    return found


def _holds(bound: Bound, capacity: int, *, under_way: bool) -> bool:
    """A floor of safety, or a ceiling that leaves no room: a cooldown, a window, an operator's size, a pause. Max is
    none of them, as a worker may go first there."""
    if bound.side is Side.FLOOR:
        return bound.rank is Rank.SAFETY and bound.nodes >= capacity
    return bound.rank is not Rank.LIMIT and bound.nodes <= capacity and not under_way


def _rest(ctx: PoolContext, state: RotationState | None) -> str:
    """Pods that moved settle before the next ones move, and what failed is tried ever more rarely."""
    memory, pool, now = ctx.before, ctx.pool, ctx.observation.at
    times = [each for each in (memory.last_grow, memory.last_shrink, memory.last_left) if each]
    until = max(times) + pool.cooldown.down if times else now
    if until > now:
        return f"nodes came or went a short while ago: {(until - now).total_seconds():.0f} s more"
    if state and (again := _rests(ctx, state)):
        return f"no worker could leave for the last new node: it is tried again at {again:%Y-%m-%d %H:%M:%S}"
    return ""


def _rests(ctx: PoolContext, state: RotationState) -> datetime | None:
    """Until when nothing is launched again, after none could leave for the last new node; none: it may be."""
    if state.failed_at is None:
        return None
    pause = doubled_pause(ctx.pool.removal.retry_first, state.failures - 1, ctx.pool.rotation.retry_longest)
    until = state.failed_at + pause
    return until if until > ctx.observation.at else None


def describe_drain(command: Drain | None) -> str:
    if command is None:
        return ""
    return f"{command.by} asked for it to be drained" + (f" ({command.reason})" if command.reason else "")


def describe_recycle(command: Recycle | None) -> str:
    if command is None:
        return ""
    return f"{command.by} asked for a new one" + (f" ({command.reason})" if command.reason else "")


def _age(worker: Worker, pool: Pool, now: datetime) -> str:
    due = due_at(worker, pool)
    if due is None or worker.instance is None or now < due:
        return ""
    return f"{_span(now - worker.instance.first_launched_at)} old, max_age is {_span(pool.rotation.max_age)}"


def _span(time: timedelta) -> str:
    return f"{time / _DAY:.1f} days" if time >= 2 * _DAY else f"{time / _HOUR:.1f} h"


def _part(identity: str) -> float:
    """Between 0 and 1, the same for the same worker, and different for those of one launch."""
    return int.from_bytes(sha256(identity.encode()).digest()[:4], "big") / 2**32


def _ends(at: datetime, pool: Pool) -> datetime:
    """Time for the new node to join, for a drain, and to try other nodes after it failed: as for a market swap."""
    return at + pool.health.join_limit + pool.market.rebalance_drains * pool.removal.drain_timeout
