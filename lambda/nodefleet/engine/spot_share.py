"""The Spot share heals: On-Demand above its share, left by interruptions and shortages, gives way to Spot.

    nothing under way, Spot not known to be short, room below max    a Spot node is launched
    it is ready                                                      an On-Demand node leaves as any other would
    it did not come, or made up for another loss                     none leaves, and the swap is given up in time
    none has left in time                                            given up; the next try waits twice as long

One at a time, `market.rebalance_after` apart. Only a pool that keeps its size heals: growing and shrinking see to the
share anyway.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nodefleet.capacity import market_of, on_demand_of, on_demand_share
from nodefleet.engine.context import PoolContext, RemovalContext, target_of
from nodefleet.engine.disruption.candidates import Selection, open_removal, select_candidates
from nodefleet.engine.provisioning import ANY, launch_of, place
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Bound, BoundSource, KeepReason, Rank, floor
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Market
from nodefleet.model.names import pluralize
from nodefleet.model.operations import Purpose, SendAlert, Step
from nodefleet.model.state import MarketSwap, PoolMemory
from nodefleet.policy.fields import doubled_pause
from nodefleet.policy.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketPlan:
    """What an iteration does for the share."""

    memory: PoolMemory
    steps: tuple[Step, ...] = ()
    leaving: Selection | None = None  # a node leaves now
    note: str = ""  # why nothing is done, if operators may wonder


def swap_bounds(ctx: PoolContext, swap: MarketSwap) -> list[Bound]:
    """While the Spot node boots no On-Demand node leaves for it."""
    if not swap.open or not ctx.count.booting or ctx.observation.at >= _ends(swap, ctx.pool):
        return []
    sentence = "a Spot node that takes the place of an On-Demand one is booting: no shrinking"
    return [floor(ctx.count.capacity, BoundSource.MARKET, Rank.SAFETY, sentence, _ends(swap, ctx.pool))]


def update_swap(swap: MarketSwap, workers: Sequence[Worker], pool: Pool, now: datetime) -> MarketSwap:
    """The swap after this iteration: over when an On-Demand node has left, given up when none has in time."""
    if not swap.open:
        return swap
    on_demand = on_demand_of(worker for worker in workers if worker.occupies)
    if on_demand < swap.on_demand:
        return replace(swap, open=False, failures=0)
    if now >= _ends(swap, pool):
        return replace(swap, open=False, failures=swap.failures + 1)
    return replace(swap, on_demand=on_demand)  # On-Demand nodes bought meanwhile: still one of them leaves, not two


def rebalance_market(
    ctx: PoolContext, memory: PoolMemory, bounds: Sequence[Bound], ground: Callable[[], RemovalContext]
) -> MarketPlan:
    """For a pool that keeps its size."""
    idle = MarketPlan(memory=memory)
    capacity = [worker for worker in ctx.workers if worker.is_capacity]
    on_demand = on_demand_of(capacity)
    swap = memory.swap
    more = swap is not None and swap.open and len(capacity) > swap.nodes  # by the Spot node that came
    surplus = on_demand - on_demand_share(len(capacity) - more, ctx.pool.market)
    under_way = ctx.count.booting or ctx.count.leaving or any(bound.rank is Rank.SAFETY for bound in bounds)
    if not ctx.pool.market.rebalance_after or surplus <= 0 or under_way:
        return idle
    leaving = select_candidates([w for w in capacity if market_of(w) is Market.ON_DEMAND], ctx.pool, 1, ground())
    if swap is not None and swap.open:
        if not _has_come(swap, capacity, ctx):
            return replace(idle, note="the Spot node that was asked for in the place of an On-Demand one is not there")
        if len(capacity) <= swap.nodes:
            return replace(idle, note="the Spot node that came for an On-Demand one makes up for another loss")
        return _other_leaves(ctx, memory, leaving)
    if ctx.observation.at < _begins(swap, capacity, ctx.pool):
        return idle
    above = f"{pluralize(surplus, 'On-Demand node', 'On-Demand nodes')} above the share"
    if ctx.count.occupied >= ctx.limit:
        return replace(idle, note=f"{above}, and max leaves no room to launch Spot first")
    if not (leaving.chosen or any(stay.reason is KeepReason.NOWHERE_TO_GO for stay in leaving.stays)):
        return replace(idle, note=f"{above}, and none of them can leave")
    return _spot_comes(ctx, memory, capacity, f"{above}, of {on_demand}")


def _spot_comes(ctx: PoolContext, memory: PoolMemory, capacity: Sequence[Worker], above: str) -> MarketPlan:
    pool, seen = ctx.pool, ctx.observation
    target = target_of(seen, pool)
    placed = place([ANY], capacity, sorted(target.subnets), pool.market, memory.shortages, seen.at)
    if [each.market for each in placed.launches] != [Market.SPOT]:
        return MarketPlan(memory=memory, note=f"{above}, and Spot lacks capacity")
    reason = f"{above}: Spot is launched, then one of them leaves"
    launch = launch_of(placed.launches[0], 0, Purpose.MARKET, reason, pool, target, seen, ctx.policy)
    failures = memory.swap.failures if memory.swap else 0
    occupying = on_demand_of(w for w in ctx.workers if w.occupies)
    swap = MarketSwap(at=seen.at, on_demand=occupying, nodes=len(capacity), failures=failures)
    subjects = (launch.operation.id,)  # each swap is told and counted
    told = SendAlert(alert=AlertKind.MARKET_RESTORED, pool=pool.name, subjects=subjects, text=f"{reason}.")
    return MarketPlan(memory=replace(memory, swap=swap), steps=(launch, told))


def _other_leaves(ctx: PoolContext, memory: PoolMemory, selection: Selection) -> MarketPlan:
    if not selection.chosen:
        return MarketPlan(memory=memory, note=f"Spot came for an On-Demand node, and {selection.obstacle}")
    (worker,) = selection.chosen
    reason = f"a Spot node takes the place of {worker.name}, which is On-Demand above the share"
    members = tuple(member for member in memory.members if member != worker.id)
    return MarketPlan(
        memory=replace(memory, members=members),
        steps=(open_removal(worker, ctx.pool, ctx.observation, reason),),
        leaving=selection,
    )


def _has_come(swap: MarketSwap, capacity: Sequence[Worker], ctx: PoolContext) -> bool:
    """Whether a Spot node that was launched since is capacity. It may be lost, and then no node may leave for it.
    EC2's clock differs from that of the function by less than an interval."""
    since = swap.at - ctx.policy.interval
    return any(w.instance and market_of(w) is Market.SPOT and w.instance.launched_at >= since for w in capacity)


def _begins(swap: MarketSwap | None, capacity: Sequence[Worker], pool: Pool) -> datetime:
    """After the newest On-Demand node and the last swap. Spot was short or taken when that node was bought."""
    pause = pool.market.rebalance_after
    bought = max(w.instance.launched_at for w in capacity if w.instance and market_of(w) is Market.ON_DEMAND)
    if swap is None:
        return bought + pause
    return max(bought + pause, swap.at + doubled_pause(pause, swap.failures, pool.market.rebalance_longest))


def _ends(swap: MarketSwap, pool: Pool) -> datetime:
    """Time for the new node to join, for a drain, and to try other nodes after it failed."""
    return swap.at + pool.health.join_limit + pool.market.rebalance_drains * pool.removal.drain_timeout
