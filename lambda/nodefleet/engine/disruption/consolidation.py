"""Nodes that pods' requests leave under-used: a node is removed whose pods fit on others, or a cheaper one takes the
place of one or a few.

    consolidation.mode    which nodes
    off                   none: only the signals shrink the pool
    empty                 nodes without pods to move whose CPU is idle
    underutilised         all nodes whose pods fit on the others, ranked by what is saved for each pod that moves;
                          if there is none, a node, or a few of one zone and market, whose pods a node of a type
                          would hold that costs less: that one is launched first

The signals need not be calm for it: CPU and memory may lie between their thresholds. A node is removed only if those
that remain stay below the growth threshold by its margin, and replaced only if the cheaper node does so with the CPU
that is used on the other. All other bounds hold: min, windows, operators, cooldowns, forecasts, headroom, safety.
Nothing is begun while nodes boot, leave or are not well, nor while pods wait; but at max a node leaves for the one that
they wait for, as no node of the pool can hold them: with `empty`, too, one whose pods fit on the others.

It cannot loop. A removal moves pods to nodes that the simulation finds room on in any order, so none of them buys a
node; and each step makes the fleet cheaper by at least `consolidation.savings_percent` of what it replaces. What one
new node replaces together is known by `RotationState.together`: no others leave for it, and each of them leaves only if
that would be safe without all the others.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from nodefleet.capacity import market_of
from nodefleet.engine.context import Due, PlacementRequest, PoolContext, RemovalContext
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
from nodefleet.model.inventory import NOTHING, Market, Resources, price_of, total
from nodefleet.model.names import pluralize, some
from nodefleet.model.state import Loss, RotationState
from nodefleet.model.workload import Pod
from nodefleet.scheduling.templates import Template

CAUSE = "consolidated"
ALL = ""  # any of the pool's workers may be removed
REPLACED = "replaced"  # … or be replaced by a cheaper one, for which the load need not allow one node less
PodsByNode: TypeAlias = Mapping[str, Sequence[Pod]]
_UTILISATION = (BoundSource.CPU, BoundSource.MEMORY)  # signals that may be between their thresholds
_TRIALS = 10  # sets of nodes whose pods are placed again, so that an iteration of a thousand nodes stays fast
_NOT_WELL = frozenset({Phase.UNREADY, Phase.UNHEALTHY, Phase.INTERRUPTED, Phase.UNLISTED})


def obstacle(
    ctx: PoolContext,
    votes: Sequence[SignalVote],
    losses: Sequence[Loss],
    *,
    is_full: bool = False,
    begun: bool = False,
) -> str:
    """Why no node is consolidated now, neither removed nor replaced; empty: one may be. `is_full`: pods that wait are a
    reason for it, and none against it. `begun`: a node came for several, of which the rest is to leave, in the window
    or after it."""
    pool, count = ctx.pool, ctx.count
    if pool.consolidation.mode == "off":
        return "consolidation is off"
    if not begun and not _in_window(ctx):
        return f"window {pool.consolidation.window} is not open"
    if count.booting or count.leaving:
        return "nodes boot or leave"
    if losses or any(worker.phase in _NOT_WELL for worker in ctx.workers):
        return "nodes are not well"
    if ctx.before.swap and ctx.before.swap.open:
        return "a Spot node takes the place of an On-Demand one"
    times = [each for each in (ctx.before.last_grow, ctx.before.last_shrink, ctx.before.last_left) if each]
    if not begun and times and ctx.observation.at - max(times) < pool.consolidation.after:
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
    elif is_full and any(_is_candidate(each, ctx, pods.get(each.name, ()), is_full=True) for each in ctx.workers):
        found.append(ALL)  # what waits is worth more than that no pod moves
    if not bears:
        found = [key for key in found if key == REPLACED]
    return {key: before.get(key, now) for key in found}


def rank_candidates(
    ctx: PoolContext, removal_context: RemovalContext, since: Mapping[str, datetime], *, is_full: bool = False
) -> list[Worker]:
    """Workers that consolidation may remove now, the largest saving for each pod that moves first."""
    pods, ends = removal_context.pods or {}, ctx.observation.at - ctx.pool.consolidation.after
    lasting = {key for key, first in since.items() if first <= ends}
    return sorted(
        (
            worker
            for worker in ctx.workers
            if lasting & {ALL, worker.id} and _is_candidate(worker, ctx, pods.get(worker.name, ()), is_full=is_full)
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
    fewer: int = 0,
    begun: bool = False,
) -> list[Due]:
    """The worker, or the workers, whose replacement by a cheaper type saves most for each pod that moves; nothing if
    there is none.

    `one_may_leave`: the load lets a node leave without a replacement, which saves more. `fewer`: so many nodes fewer
    would do for all that decides the size. `begun`: the cheaper node was launched, so it is neither waited nor asked
    whether a node could simply leave.
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
    if fewer and not begun and (since := ctx.before.under_used.get(ALL)):
        ranked = rank_candidates(ctx, removal_context, {ALL: since})
        found += _for_one(ctx, removal_context, templates, ranked, fewer + 1)
    if not found or (not begun and one_may_leave and _one_can_leave(ctx, removal_context, ranked)):
        return []
    return sorted(found, key=lambda due: -(due.saves_usd or 0.0) / (1 + _count_moving(_pods_of(due.workers, pods))))[:1]


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


def _is_candidate(worker: Worker, ctx: PoolContext, pods: Sequence[Pod], *, is_full: bool = False) -> bool:
    rules = ctx.pool.consolidation
    if worker.phase is not Phase.READY or worker.operation or worker.planned or worker.ailment:
        return False
    if ctx.observation.at - _ready_since(worker, ctx.observation.at) < rules.min_age:
        return False
    moving = _count_moving(pods)
    if rules.mode == "underutilised" or (is_full and moving):
        return True
    least = min(rules.idle_percent, 100 - ctx.pool.reactive.cpu.down) if is_full else rules.idle_percent
    return not moving and ctx.readings.idle.get(worker.name, 0.0) >= least


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
        if each.zone == worker.zone and each.can_hold_all(moving) and _bears_load(each, (worker,), ctx)
    ]
    costs = {each.type: price_of(each.type, market, ctx.observation.offers) for each in holding}
    types = {name: cost for name, cost in costs.items() if cost is not None and cost <= most}
    if types:
        saves = price - max(types.values())
        yield _due((worker,), types, saves, len(moving))


def _due(workers: Sequence[Worker], types: Collection[str], saves: float, moving: int) -> Due:
    first, *others = workers
    beside = f"with {some(each.name for each in others)}, " if others else ""
    their = "their" if others else "its"
    return Due(
        worker=first,
        reason=f"{beside}{' or '.join(types)} would hold {their} {pluralize(moving, 'pod', 'pods')} for"
        f" {_per_day(saves)} less",
        cause=CAUSE,
        can_wait=True,
        ask=PlacementRequest(zones=(first.zone,), types=tuple(types), market=market_of(first)),
        saves_usd=saves,
        together=tuple(others),
    )


def _bears_load(template: Template, workers: Sequence[Worker], ctx: PoolContext) -> bool:
    """The CPU that the workers use, where it is measured, stays below the growth threshold by its margin."""
    idle, reactive = ctx.readings.idle, ctx.pool.reactive
    used = sum(
        (100 - idle[each.name]) * each.node.allocatable.cpu for each in workers if each.node and each.name in idle
    )
    return used / max(template.node.allocatable.cpu, 1) <= reactive.cpu.up - reactive.projection_margin


# ── one cheaper node for several ─────────────────────────────────────────────────────────────────────────────────────
# The new node is of the zone and the market of all whose place it takes, so that no zone and no share loses by it.
# Neighbours by how full they are make a set: there are as many sets as nodes, not as pairs.


def _for_one(
    ctx: PoolContext,
    removal_context: RemovalContext,
    templates: Sequence[Template],
    ranked: Sequence[Worker],
    most: int,
) -> list[Due]:
    """The set of workers, `most` at most, whose replacement by one node saves most for each pod that moves."""
    pods = removal_context.pods or {}
    found = []
    for (zone, market), those in _alike(ctx, removal_context, ranked).items():
        offers = [each for each in templates if each.zone == zone and each.market in (None, market)]
        for size in range(2, min(most, _spared_by_base(market, ctx)) + 1):
            for start in range(len(those) - size + 1):
                workers = those[start : start + size]
                if able := _able(workers, market, offers, pods, ctx):
                    found.append((workers, able))

    def saving_per_pod(each: tuple[Sequence[Worker], Mapping[str, tuple[Template, float]]]) -> float:
        workers, able = each
        saves = max(saving for _, saving in able.values())
        return saves / (1 + _count_moving(_pods_of(workers, pods)))

    trials = _TRIALS
    for workers, able in sorted(found, key=lambda each: -saving_per_pod(each)):
        moving = [pod for pod in _pods_of(workers, pods) if pod.movable]
        types: dict[str, float] = {}
        for name, (template, saves) in able.items():
            if trials and template.can_hold_all(moving):
                trials -= 1
                if _hold_all(template, workers, removal_context):
                    types[name] = saves
        if types:
            return [_due(workers, types, min(types.values()), len(moving))]
    return []


def _alike(
    ctx: PoolContext, removal_context: RemovalContext, ranked: Sequence[Worker]
) -> Mapping[tuple[str, Market | None], list[Worker]]:
    """Workers that may leave and whose price and load are known, the emptiest first, by zone and market."""
    pods, idle = removal_context.pods or {}, ctx.readings.idle
    found = defaultdict(list)
    for worker in ranked:
        known = hourly_usd(worker, ctx) is not None and worker.node is not None and (not idle or worker.name in idle)
        if known and is_held_fast(worker, ctx.pool, removal_context) is None:
            found[worker.zone, market_of(worker)].append(worker)

    def fullness(worker: Worker) -> tuple[float, str]:
        asked, node = _total_requests((worker,), pods), worker.node.allocatable if worker.node else NOTHING
        return max(asked.cpu / max(node.cpu, 1), asked.memory / max(node.memory, 1)), worker.name

    return {place: sorted(workers, key=fullness) for place, workers in found.items()}


def _able(
    workers: Sequence[Worker],
    market: Market | None,
    offers: Sequence[Template],
    pods: PodsByNode,
    ctx: PoolContext,
) -> Mapping[str, tuple[Template, float]]:
    """By type, a new node that costs little enough and is large enough for what the workers' pods ask for and the CPU
    that they use, and what it saves an hour."""
    price = sum(hourly_usd(each, ctx) or 0.0 for each in workers)
    asked, most = _total_requests(workers, pods), price * (1 - ctx.pool.consolidation.savings_percent / 100)
    costs = {each.type: price_of(each.type, market, ctx.observation.offers) for each in offers}
    return {
        each.type: (each, price - cost)
        for each in offers
        if (cost := costs[each.type]) is not None
        and cost <= most
        and each.empty.has(asked)
        and _bears_load(each, workers, ctx)
    }


def _hold_all(template: Template, workers: Sequence[Worker], removal_context: RemovalContext) -> bool:
    """With the new node, their pods find places in any order, and the headroom has room."""
    simulation = removal_context.simulation
    mark = simulation.mark()
    simulation.add(template.with_name(f"{template.node.name} for several"), template.daemons)
    stuck = simulation.try_drain(*(worker.name for worker in workers))
    fits = stuck is None and all(map(simulation.fits_all, removal_context.headroom))
    simulation.roll_back(mark)
    return fits


def _spared_by_base(market: Market | None, ctx: PoolContext) -> int:
    """How many workers of the market may give way to one before the On-Demand base would keep the last of them."""
    ready = Counter(market_of(each) for each in ctx.workers if each.phase is Phase.READY)
    if market is not Market.ON_DEMAND or not ready[Market.SPOT]:
        return len(ctx.workers)
    return ready[market] - ctx.pool.market.on_demand_base + 1


def list_together(ctx: PoolContext, removal_context: RemovalContext, state: RotationState) -> list[Worker]:
    """Those that one new node replaces and that have not left, once it is there: the largest saving for each pod
    first."""
    if not new_nodes(ctx, state):
        return []
    lasting = {ALL: ctx.observation.at - ctx.pool.consolidation.after}
    return [each for each in rank_candidates(ctx, removal_context, lasting) if each.id in state.together]


def new_nodes(ctx: PoolContext, state: RotationState) -> list[Worker]:
    """Workers that are ready and that were launched since. EC2's clock differs by less than an interval."""
    since = state.begun_at - ctx.policy.interval if state.begun_at else ctx.observation.at
    return [
        each
        for each in ctx.workers
        if each.phase is Phase.READY and each.instance and each.instance.launched_at >= since
    ]


def savings(ctx: PoolContext, chosen: Sequence[Worker], state: RotationState | None) -> Mapping[str, float | None]:
    """USD an hour by worker. The first that leaves for a node that replaces several pays for it."""
    saved = {worker.id: hourly_usd(worker, ctx) for worker in chosen}
    left = ctx.before.last_left
    if chosen and state and state.together and state.begun_at and (left is None or left < state.begun_at):
        first, costs = chosen[0].id, [hourly_usd(each, ctx) or 0.0 for each in new_nodes(ctx, state)]
        saved[first] = (saved[first] or 0.0) - max(costs, default=0.0)
    return saved


def describe_together(worker: Worker, ctx: PoolContext, state: RotationState) -> str:
    """Why one of several leaves."""
    others = [each.name for each in ctx.workers if each.id in state.together and each.id != worker.id]
    new = [f"{each.name} ({each.instance.type})" for each in new_nodes(ctx, state) if each.instance]
    beside = f"with {some(others)} " if others else ""
    return f"{worker.name} {beside}gives way to {' or '.join(new)}, which costs less"


def _pods_of(workers: Sequence[Worker], pods: PodsByNode) -> list[Pod]:
    return [pod for worker in workers for pod in pods.get(worker.name, ())]


def _total_requests(workers: Sequence[Worker], pods: PodsByNode) -> Resources:
    return total(pod.requests for pod in _pods_of(workers, pods) if pod.movable)
