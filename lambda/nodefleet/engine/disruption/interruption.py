"""Interruptions: removals for workers that EC2 takes, and the removals that other modules open."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from nodefleet.engine.context import operation_id
from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Notice
from nodefleet.model.operations import Create, Removal, RemovalReason, Save, SendAlert, Step
from nodefleet.model.snapshot import Observation
from nodefleet.phases import taken_at
from nodefleet.policy.pool import Pool


def open_removal(
    worker: Worker,
    pool: Pool,
    observation: Observation,
    reason: str,
    *,
    keeps: bool = False,
    rotated: bool = False,
    consolidates: bool = False,
    saves_usd: float | None = None,
) -> Create:
    """A voluntary removal: it ends by its deadline, one way or the other."""
    removal = new_removal(
        worker, RemovalReason.VOLUNTARY, reason, observation.at + pool.removal.drain_timeout, observation
    )
    return Create(
        replace(
            removal,
            keeps=keeps,
            rotated=rotated,
            consolidates=consolidates,
            saves_usd=saves_usd,
            notice=worker.planned.kind if worker.planned else None,
        )
    )


def plan_interruptions(workers: Sequence[Worker], pool: Pool, observation: Observation) -> list[Step]:
    """Open a removal for each worker that EC2 takes; one that was leaving anyway now leaves in a hurry."""
    steps: list[Step] = []
    for worker in workers:
        if worker.phase is not Phase.INTERRUPTED or worker.notice is None:
            continue
        if isinstance(worker.operation, Removal) and worker.operation.why is RemovalReason.INTERRUPTED:
            continue
        removal = _interrupted_removal(worker, worker.notice, pool, observation)
        steps.append(Save(removal) if isinstance(worker.operation, Removal) else Create(removal))
        text = f"{worker.name} ({worker.zone}): {removal.reason}. It is drained now and replaced."
        steps.append(SendAlert(alert=AlertKind.INTERRUPTED, pool=pool.name, subjects=(worker.name,), text=text))
    return steps


def _interrupted_removal(worker: Worker, notice: Notice, pool: Pool, observation: Observation) -> Removal:
    reason, deadline = notice.reason, taken_at(notice, pool)
    if isinstance(worker.operation, Removal):
        removal = replace(
            worker.operation,
            why=RemovalReason.INTERRUPTED,
            reason=reason,
            deadline=deadline,
            cancelled="",
            keeps=False,
        )
    else:
        removal = new_removal(worker, RemovalReason.INTERRUPTED, reason, deadline, observation)
    return replace(removal, force_from=force_from(notice, pool))


def force_from(notice: Notice, pool: Pool) -> datetime:
    """As long before the end as a warning's time leaves it."""
    return taken_at(notice, pool) - (pool.removal.notice - pool.removal.force_after)


def new_removal(
    worker: Worker, why: RemovalReason, reason: str, deadline: datetime, observation: Observation
) -> Removal:
    return Removal(
        id=operation_id(observation, why.value, worker.id),
        pool=worker.pool,
        instance=worker.id,
        node=worker.node.name if worker.node else "",
        why=why,
        reason=reason,
        started=observation.at,
        deadline=deadline,
    )
