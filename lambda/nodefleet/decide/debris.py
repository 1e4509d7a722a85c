"""What is left behind: machines that failed to join, and nodes without a machine.

Destroying it needs two looks that agree, some time apart, and stops for a person when it would be much. Then the time
begins anew: two looks agree only if neither of them saw much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodefleet.decide.naming import operation_id
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.machines import InstanceState
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Cleanup, Debris, Launch, Open, Step, Tell
from nodefleet.domain.policy import Pool
from nodefleet.domain.wording import some


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A worker, and what is left of it."""

    worker: Worker
    kind: Debris

    @property
    def suspicion(self) -> str:
        """What two looks have to agree on: the same worker, and the same thing that is left of it."""
        return f"{self.kind.value} {self.worker.id}"

    @property
    def is_certain(self) -> bool:
        """A Node whose machine EC2 itself shows as terminated: nothing can be lost any more."""
        instance = self.worker.instance
        return instance is not None and instance.state is InstanceState.TERMINATED


def left_behind(workers: Sequence[Worker], pool: Pool) -> list[LeftBehind]:
    """Nodes without a machine, and machines that failed to join and are not kept for a person.

    None is kept that takes the room of a worker that min needs: both count against max.
    """
    orphans = [LeftBehind(worker, Debris.NODE) for worker in workers if worker.phase is Phase.ORPHANED]
    alone = [worker for worker in workers if is_alone(worker)]
    failed = [
        (worker.instance.launched_at, worker.id, worker)
        for worker in workers
        if worker.phase is Phase.JOIN_FAILED and worker.instance and worker not in alone
    ]
    kept = min(pool.health.keep_failed, pool.limits.max - pool.limits.min)
    oldest = sorted(failed)[: max(0, len(failed) - kept)]
    return orphans + [LeftBehind(worker, Debris.INSTANCE) for worker in (*alone, *(each[2] for each in oldest))]


def is_alone(worker: Worker) -> bool:
    """Stopped, or running without a Node though nobody marked it as failed to join: somebody deleted the Node. Its
    replacement is launched like that of every loss, and it must not go on costing in silence."""
    deleted = (
        worker.phase is Phase.JOIN_FAILED
        and worker.instance is not None
        and not worker.instance.failed
        and not isinstance(worker.operation, Launch)
    )
    return deleted or worker.phase is Phase.STOPPED


def _limit(worker: Worker, pool: Pool) -> timedelta:
    """How long it must have been so before it is destroyed."""
    if worker.phase is Phase.STOPPED:
        return max(pool.health.stopped_limit, pool.budgets.cleanup_after)
    if is_alone(worker):
        return max(pool.health.rejoin_limit, pool.budgets.cleanup_after)
    return pool.budgets.cleanup_after


def suspects(
    workers: Sequence[Worker], pool: Pool, before: Mapping[str, datetime], now: datetime
) -> dict[str, datetime]:
    """What looks left behind, by suspicion, and since when that can be believed."""
    left = left_behind(workers, pool)
    much = _is_much(left, workers, pool)
    believed = (each for each in left if each.is_certain or not much)
    return dict.fromkeys((each.suspicion for each in left), now) | {
        each.suspicion: before.get(each.suspicion, now) for each in believed
    }


def cleanups(workers: Sequence[Worker], pool: Pool, since: Mapping[str, datetime], seen: Observation) -> list[Step]:
    """Open cleanups for what two looks agree on, by the suspects of this look. Much at once may be a list with a gap,
    and is for a person to look at."""
    left = left_behind(workers, pool)
    told: list[Step] = [
        _of_alone(each.worker, pool, since[each.suspicion])
        for each in left
        if is_alone(each.worker) and seen.at - since[each.suspicion] >= pool.budgets.cleanup_after
    ]
    if _is_much(left, workers, pool):
        told.append(_for_a_person(_doubtful(left), workers, pool))
        left = [each for each in left if each.is_certain]
    return told + [
        Open(_cleanup(each, pool, first_seen, seen))
        for each in left
        if seen.at - (first_seen := since[each.suspicion]) >= _limit(each.worker, pool)
        and not isinstance(each.worker.operation, Cleanup)
    ]


def _doubtful(left: Sequence[LeftBehind]) -> list[LeftBehind]:
    return [each for each in left if not each.is_certain]


def _is_much(left: Sequence[LeftBehind], workers: Sequence[Worker], pool: Pool) -> bool:
    return len(_doubtful(left)) > _allowed(workers, pool)


def _allowed(workers: Sequence[Worker], pool: Pool) -> int:
    fleet = sum(worker.occupies for worker in workers)
    return max(pool.budgets.cleanup_least, int(pool.budgets.cleanup_percent * fleet / 100))


def _for_a_person(doubtful: Sequence[LeftBehind], workers: Sequence[Worker], pool: Pool) -> Tell:
    text = (
        f"{len(doubtful)} workers look left behind ({some(each.worker.name for each in doubtful)}), more than the"
        f" {_allowed(workers, pool)} that are cleaned up unasked. Look at them and remove them by hand."
    )
    return Tell(alert=AlertKind.CLEANUP_NEEDS_PERSON, pool=pool.name, subjects=(), text=text)


def _of_alone(worker: Worker, pool: Pool, since: datetime) -> Tell:
    stopped = worker.phase is Phase.STOPPED
    what = "is stopped" if stopped else "runs, but its Node was deleted"
    way_out = "it is started" if stopped else "its agent is restarted and it joins"
    text = (
        f"{worker.id} ({worker.zone}) {what}. It is no capacity and still costs money, so it is terminated at"
        f" {since + _limit(worker, pool):%H:%M:%S} unless {way_out} before."
    )
    return Tell(alert=AlertKind.SICK, pool=pool.name, subjects=(worker.id, worker.phase.value), text=text)


def _reason(worker: Worker) -> str:
    if worker.phase is Phase.STOPPED:
        return "it has been stopped for too long"
    return "its Node was deleted" if is_alone(worker) else "it never joined, and enough failures are kept"


def _cleanup(left: LeftBehind, pool: Pool, first_seen: datetime, seen: Observation) -> Cleanup:
    worker, is_node = left.worker, left.kind is Debris.NODE
    return Cleanup(
        id=operation_id(seen, "cleanup", worker.id),
        pool=pool.name,
        debris=left.kind,
        target=worker.name if is_node else worker.id,
        reason="its machine is gone" if is_node else _reason(worker),
        first_seen=first_seen,
        started=seen.at,
        deadline=seen.at + pool.removal.drain_timeout,
    )
