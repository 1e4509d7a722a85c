"""`warm`: stopped instances of a pool, which are started before others are launched.

    a worker leaves    stopped instead of terminated if it is On-Demand, of the pool's template and types, young enough,
                       and fewer than `warm.size` are kept
    the pool grows     On-Demand nodes are started from what is kept, where zone and type fit; the rest is launched
    no longer fit      too old, drifted, or more than `warm.size`: terminated, the oldest first

A warm instance is no capacity and does not count against max, caps or the On-Demand share until it is started.
"""

from collections.abc import Sequence
from datetime import datetime

from nodefleet.engine.context import PoolContext, describe_drift, operation_id, target_of
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import InstanceState, Market
from nodefleet.model.operations import Cleanup, Create, OrphanKind, Removal
from nodefleet.model.snapshot import LaunchTarget, Observation
from nodefleet.policy.pool import Pool


def startable(workers: Sequence[Worker], pool: Pool, observation: Observation) -> list[Worker]:
    """What can be started now, the youngest first: it has the most time left."""
    target = target_of(observation, pool)
    found = [
        worker
        for worker in _list_warm(workers)
        if worker.operation is None
        and worker.instance is not None
        and worker.instance.state is InstanceState.STOPPED
        and not _why_not_kept(worker, pool, target, observation.at)
    ]
    return found[: pool.warm.size]


def choose_kept(leaving: Sequence[Worker], ctx: PoolContext) -> frozenset[str]:
    """Those of the leaving workers that are stopped and kept. Removals that keep theirs have their place already."""
    places = ctx.pool.warm.size - len(_list_warm(ctx.workers)) - sum(_will_be_kept(worker) for worker in ctx.workers)
    target = target_of(ctx.observation, ctx.pool)
    fit = [
        worker.id
        for worker in leaving
        if worker.instance is not None
        and worker.instance.market is Market.ON_DEMAND
        and worker.planned is None
        and not worker.ailment
        and not _why_not_kept(worker, ctx.pool, target, ctx.observation.at)
    ]
    return frozenset(fit[: max(0, places)])


def plan_surplus(ctx: PoolContext) -> list[Create]:
    """Cleanups of what no longer fits. Like every cleanup they wait for a second observation before they destroy it."""
    target = target_of(ctx.observation, ctx.pool)
    opened = []
    for number, worker in enumerate(_list_warm(ctx.workers)):
        reason = _why_not_kept(worker, ctx.pool, target, ctx.observation.at)
        if not reason and number >= ctx.pool.warm.size:
            reason = f"more than {ctx.pool.warm.size} are kept warm"
        if reason and worker.operation is None:
            opened.append(Create(_cleanup(worker, reason, ctx)))
    return opened


def _list_warm(workers: Sequence[Worker]) -> list[Worker]:
    warm = [
        (each.instance.first_launched_at, each.id, each)
        for each in workers
        if each.phase is Phase.WARM and each.instance
    ]
    return [each[2] for each in sorted(warm, reverse=True)]


def _will_be_kept(worker: Worker) -> bool:
    return worker.phase is not Phase.WARM and isinstance(worker.operation, Removal) and worker.operation.keeps


def _why_not_kept(worker: Worker, pool: Pool, target: LaunchTarget, now: datetime) -> str:
    if worker.instance and now - worker.instance.first_launched_at >= pool.warm.max_age:
        return f"warm.max_age is {pool.warm.max_age.total_seconds() / 3600:.0f} h"
    return describe_drift(worker, pool, target)


def _cleanup(worker: Worker, reason: str, ctx: PoolContext) -> Cleanup:
    return Cleanup(
        id=operation_id(ctx.observation, "cleanup", worker.id),
        pool=ctx.pool.name,
        debris=OrphanKind.INSTANCE,
        target=worker.id,
        reason=f"it was kept warm, and is no longer: {reason}",
        first_seen=ctx.observation.at,
        started=ctx.observation.at,
        deadline=ctx.observation.at + ctx.pool.budgets.cleanup_after + ctx.pool.removal.drain_timeout,
    )
