"""The Spot share heals: On-Demand above its share, left by interruptions and shortages, gives way to Spot.

    nothing under way, Spot not known to be short, room below max    a Spot node is launched
    it is ready                                                      an On-Demand node leaves as any other would
    none has left in time                                            given up; the next try waits twice as long

One at a time, `market.rebalance_after` apart. Only a pool that keeps its size heals: growing and shrinking see to the
share anyway.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nodefleet.decide.bounds import floor
from nodefleet.decide.case import Case
from nodefleet.decide.growing import launch_of, target_of
from nodefleet.decide.health import voluntary
from nodefleet.decide.placement import ANY, market_of, on_demand_of, on_demand_share, place
from nodefleet.decide.removal import Ground, Leaving, choose
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import Bound, BoundSource, Rank, StayReason
from nodefleet.domain.fleet import Worker
from nodefleet.domain.machines import Market
from nodefleet.domain.memory import MarketSwap, PoolMemory
from nodefleet.domain.operations import Purpose, Step, Tell
from nodefleet.domain.policy import Pool
from nodefleet.domain.policy.settings import doubled
from nodefleet.domain.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapping:
    """What a look does for the share."""

    memory: PoolMemory
    steps: tuple[Step, ...] = ()
    leaving: Leaving | None = None  # a node leaves now
    note: str = ""  # why nothing is done, if people may wonder


def swap_bounds(this: Case) -> list[Bound]:
    """While the Spot node boots nobody leaves for it."""
    swap = this.before.swap
    if swap is None or not swap.open or not this.count.booting or this.seen.at >= _ends(swap, this.pool):
        return []
    sentence = "a Spot node that takes the place of an On-Demand one is booting: no shrinking"
    return [floor(this.count.capacity, BoundSource.MARKET, Rank.SAFETY, sentence, _ends(swap, this.pool))]


def settled_swap(swap: MarketSwap | None, workers: Sequence[Worker], pool: Pool, now: datetime) -> MarketSwap | None:
    """The swap after this look: over when an On-Demand node has left, given up when none has in time."""
    if swap is None or not swap.open:
        return swap
    if on_demand_of(worker for worker in workers if worker.occupies) < swap.on_demand:
        return replace(swap, open=False, failures=0)
    if now >= _ends(swap, pool):
        return replace(swap, open=False, failures=swap.failures + 1)
    return swap


def heal(this: Case, memory: PoolMemory, bounds: Sequence[Bound], ground: Callable[[], Ground]) -> Swapping:
    """For a pool that keeps its size."""
    idle = Swapping(memory=memory)
    capacity = [worker for worker in this.workers if worker.is_capacity]
    on_demand = on_demand_of(capacity)
    surplus = on_demand - on_demand_share(len(capacity), this.pool.market)
    swap = memory.swap
    under_way = this.count.booting or this.count.leaving or any(bound.rank is Rank.SAFETY for bound in bounds)
    if not this.pool.market.rebalance_after or surplus <= 0 or under_way:
        return idle
    leaving = choose([w for w in capacity if market_of(w) is Market.ON_DEMAND], this.pool, 1, ground())
    if swap is not None and swap.open:
        return _other_leaves(this, memory, leaving)
    if this.seen.at < _begins(swap, capacity, this.pool):
        return idle
    above = f"{counted(surplus, 'On-Demand node', 'On-Demand nodes')} above the share"
    if this.count.occupied >= this.most:
        return replace(idle, note=f"{above}, and max leaves no room to launch Spot first")
    if not (leaving.chosen or any(stay.reason is StayReason.NOWHERE_TO_GO for stay in leaving.stays)):
        return replace(idle, note=f"{above}, and none of them can leave")
    return _spot_comes(this, memory, capacity, f"{above}, of {on_demand}")


def _spot_comes(this: Case, memory: PoolMemory, capacity: Sequence[Worker], above: str) -> Swapping:
    pool, seen = this.pool, this.seen
    target = target_of(seen, pool)
    placed = place([ANY], capacity, sorted(target.subnets), pool.market, memory.shortages, seen.at)
    if [each.market for each in placed.launches] != [Market.SPOT]:
        return Swapping(memory=memory, note=f"{above}, and Spot lacks capacity")
    reason = f"{above}: Spot is launched, then one of them leaves"
    launch = launch_of(placed.launches[0], 0, Purpose.MARKET, reason, pool, target, seen, this.policy)
    failures = memory.swap.failures if memory.swap else 0
    swap = MarketSwap(at=seen.at, on_demand=on_demand_of(w for w in this.workers if w.occupies), failures=failures)
    subjects = (launch.operation.id,)  # each swap is told and counted
    told = Tell(alert=AlertKind.MARKET_RESTORED, pool=pool.name, subjects=subjects, text=f"{reason}.")
    return Swapping(memory=replace(memory, swap=swap), steps=(launch, told))


def _other_leaves(this: Case, memory: PoolMemory, leaving: Leaving) -> Swapping:
    if not leaving.chosen:
        return Swapping(memory=memory, note=f"Spot came for an On-Demand node, and {leaving.obstacle}")
    (worker,) = leaving.chosen
    reason = f"a Spot node takes the place of {worker.name}, which is On-Demand above the share"
    members = tuple(member for member in memory.members if member != worker.id)
    return Swapping(
        memory=replace(memory, members=members),
        steps=(voluntary(worker, this.pool, this.seen, reason),),
        leaving=leaving,
    )


def _begins(swap: MarketSwap | None, capacity: Sequence[Worker], pool: Pool) -> datetime:
    """After the newest On-Demand node and the last swap. Spot was short or taken when that node was bought."""
    pause = pool.market.rebalance_after
    bought = max(w.instance.launched_at for w in capacity if w.instance and market_of(w) is Market.ON_DEMAND)
    if swap is None:
        return bought + pause
    return max(bought + pause, swap.at + doubled(pause, swap.failures, pool.market.rebalance_longest))


def _ends(swap: MarketSwap, pool: Pool) -> datetime:
    """Time for the new node to join, for a drain, and to try other nodes after it failed."""
    return swap.at + pool.health.join_limit + pool.market.rebalance_drains * pool.removal.drain_timeout
