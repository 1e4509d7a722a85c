"""Standby: a pool takes over the demand of a cluster in another region that is seen to fail.

One of the pool's own readings tells how that cluster is, so nothing is needed of a region that is gone: a reading that
cannot be had counts as failed. The demand becomes a floor in this cluster's own records, the one that `nodefleet
failover` writes. It only adds capacity: while both clusters believe to be in charge nothing is taken from either.

    seen                                        then
    healthy for `after`, by `samples` readings  a failure counts from now on (armed)
    failed for as long, and armed               the floor is ordered, once
    the floor is in force                       not armed: only an operator ends it, whatever is seen meanwhile
    the floor has ended                         a failure counts again after it was seen healthy: no flapping
    failed, and not armed                       nothing moves; after `trust.blocked_after` it is an alert
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nodefleet.engine.context import PoolContext, usable_reading
from nodefleet.model.alerts import AlertKind
from nodefleet.model.names import figure, pluralize
from nodefleet.model.operations import SendAlert, TakeOver
from nodefleet.model.snapshot import AUTOSCALER, NOT_ASKED, Missing, Reading, Scale
from nodefleet.model.state import StandbyState
from nodefleet.policy.demand import Standby
from nodefleet.policy.sources import Prometheus


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyResult:
    memory: StandbyState | None = None
    take_over: TakeOver | None = None
    steps: tuple[TakeOver | SendAlert, ...] = ()
    requeue_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One reading of the other cluster's health."""

    at: datetime
    failed: bool
    cause: str = ""


NO_STANDBY = StandbyResult()


def evaluate_standby(ctx: PoolContext) -> StandbyResult:
    rules = ctx.pool.standby
    if rules.origin is None:
        return NO_STANDBY
    seen = _read_health(ctx, rules)
    state = _update(ctx, rules.origin, seen)
    orders = [each for each in ctx.observation.commands if isinstance(each, Scale) and each.pool == ctx.pool.name]
    in_force = next((each for each in orders if each.origin == rules.origin and ctx.observation.at < each.until), None)
    if in_force:
        return StandbyResult(memory=replace(state, armed=False), steps=_alert_in_force(ctx, in_force, state))
    if state.since is None or not _has_lasted(state, rules):
        waits = f"{rules.origin} seems to fail, and {rules.after.total_seconds():.0f} s decide"
        return StandbyResult(memory=state, requeue_reason=waits if state.failed and state.armed else "")
    if not state.failed:
        return StandbyResult(memory=replace(state, armed=True))
    if not state.armed:
        return StandbyResult(memory=state, steps=_alert_unseen(ctx, state, seen))
    return _move(ctx, rules.origin, state, orders, seen)


def _move(
    ctx: PoolContext, origin: str, state: StandbyState, orders: Sequence[Scale], seen: _Seen | None
) -> StandbyResult:
    failed = f"{origin} has failed since {state.since:%H:%M:%S}"
    if orders:  # an operator's size is not overwritten, and one that has ended is removed first
        held = f"{orders[-1].by} set the size of pool {ctx.pool.name} to {orders[-1].nodes}"
        text = f"{failed}, and {held}: nothing moves until that ends."
        return StandbyResult(memory=state, steps=(_alert(ctx, AlertKind.FAILOVER, text),))
    wanted = state.nodes + ctx.pool.standby.nodes
    taken = TakeOver(
        pool=ctx.pool.name,
        origin=origin,
        nodes=min(wanted, ctx.pool.limits.max),
        moved=max(0, min(wanted, ctx.pool.limits.max) - state.nodes),
        reason=failed,
        until=ctx.observation.at + ctx.pool.standby.lasting,
    )
    why = f" ({seen.cause})" if seen and seen.cause else ""
    alert = _alert(ctx, AlertKind.FAILOVER, f"{failed}{why}. {_describe_move(ctx, taken, wanted)}")
    return StandbyResult(memory=state, take_over=taken, steps=(taken, alert))


def with_take_over(ctx: PoolContext, taken: TakeOver) -> PoolContext:
    """The pool as the next iteration will find it: the floor holds from the iteration on that orders it."""
    order = order_of(taken)
    return replace(ctx, observation=replace(ctx.observation, commands=(*ctx.observation.commands, order)))


def order_of(taken: TakeOver) -> Scale:
    """A floor like that of `nodefleet failover`, which also ends it."""
    return Scale(
        pool=taken.pool,
        nodes=taken.nodes,
        at_least=True,
        origin=taken.origin,
        moved=taken.moved,
        by=AUTOSCALER,
        reason=taken.reason,
        until=taken.until,
    )


def _read_health(ctx: PoolContext, rules: Standby) -> _Seen | None:
    """None: nothing can be told. A Prometheus that has no figures of this pool either is itself away, and says nothing
    of another cluster."""
    now, name = ctx.observation.at, rules.reading or ""
    got = usable_reading(ctx.readings.custom.get(name, NOT_ASKED), None, ctx.policy.trust, now)
    if isinstance(got, Reading):
        failed = got.value < rules.healthy
        return _Seen(at=got.at, failed=failed, cause=f"{name} is {figure(got.value)}" if failed else "")
    if isinstance(ctx.pool.readings.get(name), Prometheus) and isinstance(ctx.readings.cpu, Missing):
        return None
    return _Seen(at=now, failed=True, cause=got.cause)


def _update(ctx: PoolContext, origin: str, seen: _Seen | None) -> StandbyState:
    before = ctx.before.standby
    state = before if before and before.origin == origin else StandbyState(origin=origin)
    if seen is None or (state.last is not None and seen.at <= state.last):
        return state
    gap = ctx.policy.trust.gap * ctx.policy.interval
    if state.last is None or seen.failed is not state.failed or seen.at - state.last > gap:
        state = replace(state, failed=seen.failed, since=seen.at, samples=0, nodes=ctx.count.capacity)
    return replace(state, samples=state.samples + 1, last=seen.at)


def _has_lasted(state: StandbyState, rules: Standby) -> bool:
    if state.since is None or state.last is None:
        return False
    return state.samples >= rules.samples and state.last - state.since >= rules.after


def _describe_move(ctx: PoolContext, taken: TakeOver, wanted: int) -> str:
    short = wanted - taken.nodes
    lacking = f" max leaves {pluralize(short, 'node', 'nodes')} of its demand out." if short > 0 else ""
    return (
        f"Pool {taken.pool} is kept at {taken.nodes} or more for its demand.{lacking}"
        f" `nodefleet failover {taken.origin} {ctx.observation.cluster} --back` ends it."
    )


def _alert_in_force(ctx: PoolContext, order: Scale, state: StandbyState) -> tuple[SendAlert, ...]:
    """An operator's own failover is no news to operators."""
    if order.by != AUTOSCALER:
        return ()
    now = "still fails" if state.failed else "is healthy again"
    text = (
        f"{order.reason}, and {now}. Pool {order.pool} is kept at {order.nodes} or more for its demand."
        f" `nodefleet failover {order.origin} {ctx.observation.cluster} --back` ends it."
    )
    return (_alert(ctx, AlertKind.FAILOVER, text),)


def _alert_unseen(ctx: PoolContext, state: StandbyState, seen: _Seen | None) -> tuple[SendAlert, ...]:
    if state.since is None or ctx.observation.at - state.since < ctx.policy.trust.blocked_after:
        return ()
    why = f": {seen.cause}" if seen and seen.cause else ""
    text = (
        f"{state.origin} has not been seen healthy since {state.since:%Y-%m-%d %H:%M}{why}."
        f" Its demand would not move to pool {ctx.pool.name} by itself."
    )
    return (_alert(ctx, AlertKind.STANDBY_BLIND, text),)


def _alert(ctx: PoolContext, kind: AlertKind, text: str) -> SendAlert:
    return SendAlert(alert=kind, pool=ctx.pool.name, subjects=(ctx.pool.standby.origin or "",), text=text)
