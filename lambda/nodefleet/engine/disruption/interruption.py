"""Interruptions: removals for workers that EC2 takes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from nodefleet.engine.context import PoolContext, RemovalContext
from nodefleet.engine.disruption.candidates import is_held_fast, new_removal
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import KeepReason
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.operations import Create, Removal, RemovalReason, Save, SendAlert, Step
from nodefleet.model.snapshot import Observation
from nodefleet.phases import taken_at
from nodefleet.policy.pool import Pool


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


def held_alerts(ctx: PoolContext, ground: Callable[[], RemovalContext]) -> list[SendAlert]:
    """Workers with a scheduled change that something protects for long, or until shortly before: from its lead on they
    are drained as for any interruption, by force at the end, and operators can still make room for their pods."""
    pool, now, long = ctx.pool, ctx.observation.at, ctx.policy.trust.blocked_after
    found = []
    for worker in ctx.workers:
        notice = worker.planned
        if notice is None or notice.kind is not NoticeKind.SCHEDULED_CHANGE or worker.phase is not Phase.READY:
            continue
        begins = taken_at(notice, pool) - pool.health.scheduled_change_lead
        if worker.operation or now < min((notice.told_at or notice.at) + long, begins - long):
            continue
        kept = is_held_fast(worker, pool, ground())
        if kept and kept.reason is not KeepReason.BACKING_OFF:  # a drain that failed is told of by itself
            text = (
                f"{worker.name} ({worker.zone}): {notice.reason}, and it cannot leave before: {kept.sentence}. From"
                f" {begins:%Y-%m-%d %H:%M} UTC on it is drained all the same, by force at the end: let its pods move"
                " before."
            )
            about = (worker.name, notice.kind.value)
            found.append(SendAlert(alert=AlertKind.DRAIN_BLOCKED, pool=pool.name, subjects=about, text=text))
    return found


def force_from(notice: Notice, pool: Pool) -> datetime:
    """As long before the end as a warning's time leaves it."""
    return taken_at(notice, pool) - (pool.removal.notice - pool.removal.force_after)
