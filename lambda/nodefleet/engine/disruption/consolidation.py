"""Nodes that pods' requests leave under-used: a node is removed whose pods fit on others, or replaced by a cheaper one.

    consolidation.mode    which nodes
    off                   none: only the signals shrink the pool
    empty                 nodes without pods to move whose CPU is idle
    underutilised         all nodes whose pods fit on the others, ranked by what is saved for each pod that moves;
                          if there is none, a node whose pods a cheaper type would hold: that one is launched first

The signals need not be calm for it: CPU and memory may lie between their thresholds. A node is removed only if those
that remain stay below the growth threshold by its margin, and replaced only if the cheaper node does so with the CPU
that is used on the other. All other bounds hold: min, windows, operators, cooldowns, forecasts, headroom, safety.
Nothing is begun while nodes boot, leave or are not well, nor while pods wait; but at max a node leaves for the one that
they wait for, as no node of the pool can hold them.

It cannot loop. A removal moves pods to nodes that the simulation finds room on in any order, so none of them buys a
node; and each step makes the fleet cheaper by at least `consolidation.savings_percent` of what it replaces.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from nodefleet.capacity import market_of
from nodefleet.engine.context import Due, PlacementRequest, PoolContext, RemovalContext, UnschedulableCount
from nodefleet.engine.disruption.candidates import Selection, is_held_fast, select_candidates
from nodefleet.engine.signals.vote import (
    Abstain,
    BelowThreshold,
    ScaleDownOk,
    SignalVote,
    WithinThresholds,
    find_overload,
)
from nodefleet.model.decision import BoundSource
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import price_of
from nodefleet.model.names import pluralize
from nodefleet.model.state import Loss
from nodefleet.model.workload import Pod
from nodefleet.scheduling.templates import Template

CAUSE = "consolidated"
ALL = ""  # any of the pool's workers may be removed
REPLACED = "replaced"  # … or be replaced by a cheaper one, for which the load need not allow one node less
PodsByNode: TypeAlias = Mapping[str, Sequence[Pod]]
_UTILISATION = (BoundSource.CPU, BoundSource.MEMORY)  # signals that may be between their thresholds
_NOT_WELL = frozenset({Phase.UNREADY, Phase.UNHEALTHY, Phase.INTERRUPTED, Phase.UNLISTED})


def is_full_for(ctx: PoolContext, pending: UnschedulableCount) -> bool:
    """Pods wait for new nodes, which max or a cap forbids, and the nodes that there are cannot hold them: an under-used
    one is only in their way."""
    return bool(pending.nodes) and ctx.count.capacity >= ctx.limit


def obstacle(ctx: PoolContext, votes: Sequence[SignalVote], losses: Sequence[Loss], *, is_full: bool = False) -> str:
    """Why no node is consolidated now, neither removed nor replaced; empty: one may be. `is_full`: pods that wait are a
    reason for it, and none against it."""
    pool, count = ctx.pool, ctx.count
    if pool.consolidation.mode == "off":
        return "consolidation is off"
    if not _in_window(ctx):
        return f"window {pool.consolidation.window} is not open"
    if count.booting or count.leaving:
        return "nodes boot or leave"
    if losses or any(worker.phase in _NOT_WELL for worker in ctx.workers):
        return "nodes are not well"
    if ctx.before.swap and ctx.before.swap.open:
        return "a Spot node takes the place of an On-Demand one"
    times = [each for each in (ctx.before.last_grow, ctx.before.last_shrink, ctx.before.last_left) if each]
    if times and ctx.observation.at - max(times) < pool.consolidation.after:
        return "nodes came or went a short while ago"
    against = [
        opinion.signal
        for opinion in votes
        if not (_allows(opinion) or (is_full and opinion.signal == BoundSource.PODS))
    ]
    if against:
        return f"{', '.join(against)} does not allow it"
    return ""


def bears_fewer(ctx: PoolContext, votes: Sequence[SignalVote], number: int = 1) -> bool:
    """The load lets so many nodes leave without a replacement."""
    return not find_overload(votes, ctx.fleet_size, ctx.pool.reactive, number)


def first_seen(
    ctx: PoolContext,
    votes: Sequence[SignalVote],
    losses: Sequence[Loss],
    pods: PodsByNode | None,
    *,
    is_full: bool = False,
) -> Mapping[str, datetime]:
    """Since when consolidation could act: for each empty worker, or for the whole pool, as any of its workers may be
    under-used. Whatever stands against it starts the time again."""
    if pods is None or obstacle(ctx, votes, losses, is_full=is_full):
        return {}
    bears = bears_fewer(ctx, votes)
    before, now = ctx.before.under_used, ctx.observation.at
    found = [worker.id for worker in ctx.workers if _is_candidate(worker, ctx, pods.get(worker.name, ()))]
    if ctx.pool.consolidation.mode == "underutilised":
        found = [ALL, REPLACED] if found else []
    if not bears:
        found = [key for key in found if key == REPLACED]
    return {key: before.get(key, now) for key in found}


def rank_candidates(ctx: PoolContext, removal_context: RemovalContext, since: Mapping[str, datetime]) -> list[Worker]:
    """Workers that consolidation may remove now, the largest saving for each pod that moves first."""
    pods, ends = removal_context.pods or {}, ctx.observation.at - ctx.pool.consolidation.after
    lasting = {key for key, first in since.items() if first <= ends}
    return sorted(
        (
            worker
            for worker in ctx.workers
            if lasting & {ALL, worker.id} and _is_candidate(worker, ctx, pods.get(worker.name, ()))
        ),
        key=lambda worker: (-_saving_per_pod(worker, pods.get(worker.name, ()), ctx), worker.name),
    )


def select_leaving(ctx: PoolContext, removal_context: RemovalContext, ranked: Sequence[Worker], most: int) -> Selection:
    """As many of these, in their order, as may leave at the same time: their pods look for places together."""
    simulation = removal_context.simulation
    mark = simulation.mark()
    for number in range(most, 0, -1):
        selection = select_candidates(ctx.workers, ctx.pool, number, removal_context, ranked=ranked)
        if len(selection.chosen) <= 1:
            return selection
        simulation.roll_back(mark)
        if simulation.try_drain(*(worker.name for worker in selection.chosen)) is None:
            return selection
    return Selection()


def list_due(
    ctx: PoolContext,
    removal_context: RemovalContext,
    templates: Sequence[Template],
    *,
    one_may_leave: bool = True,
    begun: bool = False,
) -> list[Due]:
    """The worker whose replacement by a cheaper type saves most for each pod that moves; nothing if there is none.

    `one_may_leave`: the load lets a node leave without a replacement, which saves more. `begun`: the cheaper node was
    launched, so it is neither waited nor asked whether a node could simply leave.
    """
    if ctx.pool.consolidation.mode != "underutilised":
        return []
    pods = removal_context.pods or {}
    first = ctx.observation.at - ctx.pool.consolidation.after if begun else ctx.before.under_used.get(REPLACED)
    ranked = rank_candidates(ctx, removal_context, {ALL: first} if first else {})
    found = [
        due
        for worker in ranked
        for due in _cheaper(worker, pods.get(worker.name, ()), ctx, templates)
        if is_held_fast(worker, ctx.pool, removal_context) is None
    ]
    if not found or (not begun and one_may_leave and _one_can_leave(ctx, removal_context, ranked)):
        return []
    return sorted(found, key=lambda due: -(due.saves_usd or 0.0) / (1 + _count_moving(pods.get(due.worker.name, ()))))[
        :1
    ]


def _one_can_leave(ctx: PoolContext, removal_context: RemovalContext, ranked: Sequence[Worker]) -> bool:
    """A node that is removed saves more than one that is replaced."""
    mark = removal_context.simulation.mark()
    selection = select_candidates(ctx.workers, ctx.pool, 1, removal_context, ranked=ranked)
    removal_context.simulation.roll_back(mark)
    return bool(selection.chosen)


def _per_day(hourly: float) -> str:
    return f"{hourly * 24:.2f} USD a day"


def describe(worker: Worker, pods: Sequence[Pod], ctx: PoolContext) -> str:
    """Why it leaves."""
    moved = _count_moving(pods)
    why = f"its {pluralize(moved, 'pod fits', 'pods fit')} on other nodes" if moved else "no pods run on it"
    price = hourly_usd(worker, ctx)
    return f"{worker.name} is not needed: {why}" + (f", and it costs {_per_day(price)}" if price else "")


def hourly_usd(worker: Worker, ctx: PoolContext) -> float | None:
    return price_of(worker.instance.type, market_of(worker), ctx.observation.offers) if worker.instance else None


def _allows(vote: SignalVote) -> bool:
    if isinstance(vote.vote, ScaleDownOk | Abstain) or vote.signal == BoundSource.PREDICTIVE:
        return True  # the forecast has a floor of its own
    return vote.signal in _UTILISATION and isinstance(vote.vote, WithinThresholds | BelowThreshold)


def _in_window(ctx: PoolContext) -> bool:
    name = ctx.pool.consolidation.window
    return not name or any(
        each.pool == ctx.pool.name and each.name == name and ctx.observation.at < each.until
        for each in ctx.observation.windows
    )


def _is_candidate(worker: Worker, ctx: PoolContext, pods: Sequence[Pod]) -> bool:
    rules = ctx.pool.consolidation
    if worker.phase is not Phase.READY or worker.operation or worker.planned or worker.ailment:
        return False
    if ctx.observation.at - _ready_since(worker, ctx.observation.at) < rules.min_age:
        return False
    if rules.mode == "underutilised":
        return True
    return not _count_moving(pods) and ctx.readings.idle.get(worker.name, 0.0) >= rules.idle_percent


def _ready_since(worker: Worker, now: datetime) -> datetime:
    node, instance = worker.node, worker.instance
    times = [node.ready_changed_at if node else None, instance.launched_at if instance else None]
    return max((time for time in times if time), default=now)


def _count_moving(pods: Sequence[Pod]) -> int:
    return sum(pod.movable for pod in pods)


def _saving_per_pod(worker: Worker, pods: Sequence[Pod], ctx: PoolContext) -> float:
    """An unknown price counts as one, as all of a pool's are then compared by their pods alone."""
    prices = [hourly_usd(each, ctx) for each in ctx.workers if each.instance]
    price = hourly_usd(worker, ctx) if all(each is not None for each in prices) else None
    return (1.0 if price is None else price) / (1 + _count_moving(pods))


def _cheaper(worker: Worker, pods: Sequence[Pod], ctx: PoolContext, templates: Sequence[Template]) -> Iterator[Due]:
    """The replacement of this worker by the types that hold its pods for less, in its zone and market."""
    price, market = hourly_usd(worker, ctx), market_of(worker)
    if price is None:
        return
    moving = [pod for pod in pods if pod.movable]
    most = price * (1 - ctx.pool.consolidation.savings_percent / 100)
    holding = [
        each
        for each in templates
        if each.zone == worker.zone and each.can_hold_all(moving) and _bears_load(each, worker, ctx)
    ]
    costs = {each.type: price_of(each.type, market, ctx.observation.offers) for each in holding}
    types = {name: cost for name, cost in costs.items() if cost is not None and cost <= most}
    if types:
        saves = price - max(types.values())
        yield Due(
            worker=worker,
            reason=f"{' or '.join(types)} would hold its {pluralize(len(moving), 'pod', 'pods')} for"
            f" {_per_day(saves)} less",
            cause=CAUSE,
            can_wait=True,
            ask=PlacementRequest(zones=(worker.zone,), types=tuple(types), market=market),
            saves_usd=saves,
        )


def _bears_load(template: Template, worker: Worker, ctx: PoolContext) -> bool:
    """The CPU that the worker uses, where it is measured, stays below the growth threshold by its margin."""
    idle, reactive = ctx.readings.idle.get(worker.name), ctx.pool.reactive
    if idle is None or worker.node is None:
        return True
    used = (100 - idle) * worker.node.allocatable.cpu / max(template.node.allocatable.cpu, 1)
    return used <= reactive.cpu.up - reactive.projection_margin
