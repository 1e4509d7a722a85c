"""Workers that are beyond repair: EC2 takes them, or they are sick. And those that were cordoned and forgotten.

A sick node is replaced first and then removed, one at a time, and not when many are sick: then it is the master or
the network, and a person must look.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from nodefleet.decide.naming import operation_id
from nodefleet.domain.decision import Count
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.machines import Notice
from nodefleet.domain.memory import Loss
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import AlertKind, Keep, Open, Removal, Step, Tell, Uncordon, Why
from nodefleet.domain.policy import Pool
from nodefleet.domain.wording import some


def voluntary(worker: Worker, pool: Pool, seen: Observation, reason: str) -> Open:
    """A removal that nobody forces on us: it ends by its deadline, one way or the other."""
    return Open(_removal(worker, Why.VOLUNTARY, reason, seen.at, seen.at + pool.removal.drain_timeout, seen))


def doomed(workers: Sequence[Worker], pool: Pool, seen: Observation) -> list[Step]:
    """Open a removal for each worker that EC2 takes; one that was leaving anyway now leaves in a hurry."""
    steps: list[Step] = []
    for worker in workers:
        if worker.phase is not Phase.INTERRUPTED or worker.notice is None:
            continue
        if isinstance(worker.operation, Removal) and worker.operation.why is Why.INTERRUPTED:
            continue
        removal = _hurried(worker, worker.notice, pool, seen)
        steps.append(Keep(removal) if isinstance(worker.operation, Removal) else Open(removal))
        text = f"{worker.name} ({worker.zone}): {removal.reason}. It is drained now and replaced."
        steps.append(Tell(alert=AlertKind.INTERRUPTED, pool=pool.name, subjects=(worker.name,), text=text))
    return steps


def _hurried(worker: Worker, notice: Notice, pool: Pool, seen: Observation) -> Removal:
    reason = f"EC2 takes it: {notice.kind.value} at {notice.at:%H:%M:%S}"
    deadline = notice.at + pool.removal.notice
    force_from = notice.at + pool.removal.force_after
    if isinstance(worker.operation, Removal):
        removal = replace(worker.operation, why=Why.INTERRUPTED, reason=reason, deadline=deadline, cancelled="")
    else:
        removal = _removal(worker, Why.INTERRUPTED, reason, seen.at, deadline, seen)
    return replace(removal, force_from=force_from)


def forgotten(workers: Sequence[Worker], pool: Pool) -> list[Step]:
    """Let nodes back in that carry our own cordon while no operation is open on them: nobody else would."""
    steps: list[Step] = []
    for worker in workers:
        node = worker.node
        if worker.phase is Phase.CORDONED and worker.operation is None and node and node.removal:
            text = f"{node.name} was cordoned by {node.removal}, which is no longer open. It is let back in."
            steps += [
                Uncordon(node.name, node.removal),
                Tell(alert=AlertKind.READMITTED, pool=pool.name, subjects=(node.name,), text=text),
            ]
    return steps


def too_many_sick(workers: Sequence[Worker], pool: Pool) -> bool:
    ill = sum(worker.phase is Phase.UNHEALTHY for worker in workers)
    return ill * pool.health.sick_one_in > sum(worker.occupies for worker in workers)


def sick(workers: Sequence[Worker], pool: Pool, count: Count, losses: Sequence[Loss], seen: Observation) -> list[Step]:
    """Open removals for sick workers whose replacement is there, or for which max leaves no room."""
    ill = [worker for worker in workers if worker.phase is Phase.UNHEALTHY]
    if ill and too_many_sick(workers, pool):
        names = some(worker.name for worker in ill)
        total = sum(worker.occupies for worker in workers)
        text = (
            f"{len(ill)} of {total} workers are not ready ({names}). None is replaced: "
            "look at the master and the network first."
        )
        return [Tell(alert=AlertKind.MANY_SICK, pool=pool.name, subjects=(), text=text)]
    under_way = sum(isinstance(w.operation, Removal) and w.operation.why is Why.SICK for w in workers)
    awaited = {loss.worker for loss in losses}
    full = count.occupied >= pool.limits.max
    settled = count.booting == 0 and count.capacity >= pool.limits.min
    ready_to_go = [worker for worker in ill if full or (settled and worker.id not in awaited)]
    steps: list[Step] = []
    for worker in ready_to_go[: max(0, pool.budgets.sick - under_way)]:
        reason = f"not ready for {pool.health.not_ready_limit.total_seconds():.0f} s or more"
        removal = _removal(worker, Why.SICK, reason, seen.at, seen.at + pool.removal.drain_timeout, seen)
        text = f"{worker.name} is {reason}; it is removed" + (" first, because max is reached." if full else ".")
        steps += [Open(removal), Tell(alert=AlertKind.SICK, pool=pool.name, subjects=(worker.name,), text=text)]
    return steps


def _removal(
    worker: Worker, why: Why, reason: str, started: datetime, deadline: datetime, seen: Observation
) -> Removal:
    return Removal(
        id=operation_id(seen, why.value, worker.id),
        pool=worker.pool,
        instance=worker.id,
        node=worker.node.name if worker.node else "",
        why=why,
        reason=reason,
        started=started,
        deadline=deadline,
    )
