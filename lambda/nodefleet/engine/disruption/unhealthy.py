"""Unhealthy workers, replaced one at a time, and nodes with a stale cordon.

An unhealthy node is replaced first and then removed. When many are unhealthy it is the control plane or the network: an
operator is alerted, and for some time none is replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.engine.disruption.interruption import new_removal
from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Count, Phase, Worker
from nodefleet.model.names import some
from nodefleet.model.operations import Create, Removal, RemovalReason, SendAlert, Step, Uncordon
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import Loss
from nodefleet.policy.pool import Pool


def uncordon_stale(workers: Sequence[Worker], pool: Pool) -> list[Step]:
    """Uncordon nodes that carry our own cordon while no operation is open on them: no other rule does."""
    steps: list[Step] = []
    for worker in workers:
        node = worker.node
        if worker.phase is Phase.CORDONED and worker.operation is None and node and node.removal:
            text = f"{node.name} was cordoned by {node.removal}, which is no longer open. Its cordon is taken off."
            steps += [
                Uncordon(node.name, node.removal),
                SendAlert(alert=AlertKind.READMITTED, pool=pool.name, subjects=(node.name,), text=text),
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
    ill = len(_list_unhealthy(workers))
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


def plan_replacements(
    workers: Sequence[Worker],
    pool: Pool,
    count: Count,
    losses: Sequence[Loss],
    held: Brake,
    observation: Observation,
    *,
    most: int | None = None,
) -> list[Step]:
    """Open removals for unhealthy workers whose replacement is there, or for which max leaves no room. `most`: what
    fleet.max leaves the pool."""
    ill = [worker for worker in workers if worker.phase is Phase.UNHEALTHY]
    told: list[Step] = [_many_unhealthy(_list_unhealthy(workers), workers, pool, held)] if held.since else []
    if held.holds:
        return told
    under_way = sum(isinstance(w.operation, Removal) and w.operation.why is RemovalReason.UNHEALTHY for w in workers)
    awaited = {loss.worker for loss in losses}
    full = count.occupied >= (pool.limits.max if most is None else most)
    settled = count.booting == 0 and count.capacity >= pool.limits.min
    ready_to_go = [worker for worker in ill if full or (settled and worker.id not in awaited)]
    steps: list[Step] = []
    for worker in ready_to_go[: max(0, pool.budgets.sick - under_way)]:
        reason = _describe_unhealthy(worker)
        removal = new_removal(
            worker, RemovalReason.UNHEALTHY, reason, observation.at + pool.removal.drain_timeout, observation
        )
        text = f"{worker.name} is {reason}; it is removed" + (" first, because max is reached." if full else ".")
        steps += [
            Create(removal),
            SendAlert(alert=AlertKind.UNHEALTHY, pool=pool.name, subjects=(worker.name,), text=text),
        ]
    return told + steps


def _list_unhealthy(workers: Sequence[Worker]) -> list[Worker]:
    return [worker for worker in workers if worker.phase is Phase.UNHEALTHY or worker.ailment]


def _describe_unhealthy(worker: Worker) -> str:
    node = worker.node
    since = f"{node.ready_changed_at:%H:%M:%S}" if node and node.ready_changed_at else "some time"
    heard = f", last heard of at {node.heartbeat_at:%H:%M:%S}" if node and node.heartbeat_at else ""
    return f"not ready since {since}{heard}"


def _many_unhealthy(ill: Sequence[Worker], workers: Sequence[Worker], pool: Pool, held: Brake) -> SendAlert:
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
    return SendAlert(alert=AlertKind.MANY_UNHEALTHY, pool=pool.name, subjects=(), text=text)
