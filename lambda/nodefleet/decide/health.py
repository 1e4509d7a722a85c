"""Workers that are beyond repair: EC2 takes them, or they are sick. And those that were cordoned and forgotten.

An unhealthy node is replaced first and then removed, one at a time. When many are unhealthy it is the master or the
network: an operator is told, and for some time none is replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nodefleet.decide.naming import operation_id
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import Count
from nodefleet.domain.fleet import Phase, Worker, taken_at
from nodefleet.domain.machines import Notice, NoticeKind
from nodefleet.domain.memory import Loss
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Keep, Open, Removal, Step, Tell, Uncordon, Why
from nodefleet.domain.policy import Pool
from nodefleet.domain.wording import some


def voluntary(worker: Worker, pool: Pool, seen: Observation, reason: str) -> Open:
    """A removal that nobody forces on us: it ends by its deadline, one way or the other."""
    removal = removal_of(worker, Why.VOLUNTARY, reason, seen.at + pool.removal.drain_timeout, seen)
    return Open(replace(removal, notice=worker.planned.kind if worker.planned else None))


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
    reason, deadline = reason_of(notice), taken_at(notice, pool)
    if isinstance(worker.operation, Removal):
        removal = replace(worker.operation, why=Why.INTERRUPTED, reason=reason, deadline=deadline, cancelled="")
    else:
        removal = removal_of(worker, Why.INTERRUPTED, reason, deadline, seen)
    return replace(removal, force_from=force_from(notice, pool))


def reason_of(notice: Notice) -> str:
    """In words, with the date of what is not said to happen at once."""
    match notice.kind:
        case NoticeKind.SCHEDULED_CHANGE:
            return f"EC2 has a scheduled change on {notice.at:%Y-%m-%d at %H:%M} UTC"
        case NoticeKind.REBALANCE:
            return f"EC2 recommends to move off it, since {notice.at:%H:%M:%S}"
        case _:
            return f"EC2 takes it: {notice.kind.value} at {notice.at:%H:%M:%S}"


def force_from(notice: Notice, pool: Pool) -> datetime:
    """As long before the end as a warning's time leaves it."""
    return taken_at(notice, pool) - (pool.removal.notice - pool.removal.force_after)


def forgotten(workers: Sequence[Worker], pool: Pool) -> list[Step]:
    """Let nodes back in that carry our own cordon while no operation is open on them: nobody else would."""
    steps: list[Step] = []
    for worker in workers:
        node = worker.node
        if worker.phase is Phase.CORDONED and worker.operation is None and node and node.removal:
            text = f"{node.name} was cordoned by {node.removal}, which is no longer open. Its cordon is taken off."
            steps += [
                Uncordon(node.name, node.removal),
                Tell(alert=AlertKind.READMITTED, pool=pool.name, subjects=(node.name,), text=text),
            ]
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """Many are unhealthy at once: more likely the control plane or the network than each of them."""

    since: datetime | None = None  # none: they are few
    until: datetime | None = None  # none: it does not hold, or no longer

    @property
    def holds(self) -> bool:
        return self.until is not None


def brake(workers: Sequence[Worker], pool: Pool, since: datetime | None, now: datetime) -> Brake:
    """One unhealthy worker may always be replaced. Of many none is, for some time; then one at a time, each only when
    its replacement is ready: a control plane that lets nodes join is not what is wrong."""
    ill = len(_ill(workers))
    total = sum(worker.occupies for worker in workers)
    if ill <= max(1, total // pool.health.sick_one_in):
        return Brake()
    since = since or now
    until = since + pool.health.brake_limit
    return Brake(since=since, until=until if now < until else None)


def to_replace(losses: Sequence[Loss], held: Brake, pool: Pool) -> Sequence[Loss]:
    """The losses that ask for a replacement now."""
    if held.holds:
        return ()
    return losses[: pool.budgets.sick] if held.since else losses


def sick(
    workers: Sequence[Worker],
    pool: Pool,
    count: Count,
    losses: Sequence[Loss],
    held: Brake,
    seen: Observation,
    *,
    most: int | None = None,
) -> list[Step]:
    """Open removals for unhealthy workers whose replacement is there, or for which max leaves no room. `most`: what
    fleet.max leaves the pool."""
    ill = [worker for worker in workers if worker.phase is Phase.UNHEALTHY]
    told: list[Step] = [_many(_ill(workers), workers, pool, held)] if held.since else []
    if held.holds:
        return told
    under_way = sum(isinstance(w.operation, Removal) and w.operation.why is Why.SICK for w in workers)
    awaited = {loss.worker for loss in losses}
    full = count.occupied >= (pool.limits.max if most is None else most)
    settled = count.booting == 0 and count.capacity >= pool.limits.min
    ready_to_go = [worker for worker in ill if full or (settled and worker.id not in awaited)]
    steps: list[Step] = []
    for worker in ready_to_go[: max(0, pool.budgets.sick - under_way)]:
        reason = _unhealthy(worker)
        removal = removal_of(worker, Why.SICK, reason, seen.at + pool.removal.drain_timeout, seen)
        text = f"{worker.name} is {reason}; it is removed" + (" first, because max is reached." if full else ".")
        steps += [Open(removal), Tell(alert=AlertKind.SICK, pool=pool.name, subjects=(worker.name,), text=text)]
    return told + steps


def _ill(workers: Sequence[Worker]) -> list[Worker]:
    return [worker for worker in workers if worker.phase is Phase.UNHEALTHY or worker.ailment]


def _unhealthy(worker: Worker) -> str:
    node = worker.node
    since = f"{node.ready_changed_at:%H:%M:%S}" if node and node.ready_changed_at else "some time"
    heard = f", last heard of at {node.heartbeat_at:%H:%M:%S}" if node and node.heartbeat_at else ""
    return f"not ready since {since}{heard}"


def _many(ill: Sequence[Worker], workers: Sequence[Worker], pool: Pool, held: Brake) -> Tell:
    total = sum(worker.occupies for worker in workers)
    then = (
        f"None of them is removed, and none beyond min replaced, until {held.until:%H:%M:%S}"
        if held.until
        else f"They are replaced now, {pool.budgets.sick} at a time, as replacements become ready"
    )
    text = (
        f"{len(ill)} of {total} workers are unhealthy ({some(worker.name for worker in ill)}). {then}: "
        "look at the master and the network first."
    )
    return Tell(alert=AlertKind.MANY_SICK, pool=pool.name, subjects=(), text=text)


def removal_of(worker: Worker, why: Why, reason: str, deadline: datetime, seen: Observation) -> Removal:
    return Removal(
        id=operation_id(seen, why.value, worker.id),
        pool=worker.pool,
        instance=worker.id,
        node=worker.node.name if worker.node else "",
        why=why,
        reason=reason,
        started=seen.at,
        deadline=deadline,
    )
