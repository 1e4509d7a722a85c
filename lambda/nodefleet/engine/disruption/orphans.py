"""Orphans (instances that failed to join, nodes without an instance) and instances that cost without being capacity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodefleet.engine.context import operation_id
from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import InstanceState
from nodefleet.model.names import pluralize, some
from nodefleet.model.operations import Cleanup, Create, Launch, OrphanKind, SendAlert, Step
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import Observation
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool

# ── orphans ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# What is orphaned: instances that failed to join, and nodes without an instance.
#
# Destroying it needs two observations that agree, some time apart, and stops for an operator when it would be much.
# Then the time begins again: two observations agree only if neither of them saw much.


@dataclass(frozen=True, slots=True)
class Orphan:
    """A worker, and what is left of it."""

    worker: Worker
    kind: OrphanKind

    @property
    def suspicion(self) -> str:
        """What two observations have to agree on: the same worker, and the same thing that is left of it."""
        return f"{self.kind.value} {self.worker.id}"

    @property
    def is_certain(self) -> bool:
        """A Node whose instance EC2 itself shows as terminated: nothing can be lost any more."""
        instance = self.worker.instance
        return instance is not None and instance.state is InstanceState.TERMINATED


def find_orphans(workers: Sequence[Worker], pool: Pool, most: int | None = None) -> list[Orphan]:
    """Nodes without an instance, and instances that failed to join and are not kept for an operator.

    None is kept that takes the room of a worker that min needs: both count against max, and against `most`, which is
    what fleet.max leaves the pool.
    """
    orphans = [Orphan(worker, OrphanKind.NODE) for worker in workers if worker.phase is Phase.ORPHANED]
    alone = [worker for worker in workers if is_alone(worker)]
    failed = [
        (worker.instance.launched_at, worker.id, worker)
        for worker in workers
        if worker.phase is Phase.JOIN_FAILED and worker.instance and worker not in alone
    ]
    room = (pool.limits.max if most is None else most) - pool.limits.min
    kept = max(0, min(pool.health.keep_failed, room))
    oldest = sorted(failed)[: max(0, len(failed) - kept)]
    return orphans + [Orphan(worker, OrphanKind.INSTANCE) for worker in (*alone, *(each[2] for each in oldest))]


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


def track_first_seen(
    workers: Sequence[Worker], pool: Pool, before: Mapping[str, datetime], now: datetime, most: int | None = None
) -> dict[str, datetime]:
    """What seems orphaned, by suspicion, and since when that can be believed."""
    left = find_orphans(workers, pool, most)
    much = _is_much(left, workers, pool)
    believed = (each for each in left if each.is_certain or not much)
    return dict.fromkeys((each.suspicion for each in left), now) | {
        each.suspicion: before.get(each.suspicion, now) for each in believed
    }


def plan_cleanups(
    workers: Sequence[Worker], pool: Pool, since: Mapping[str, datetime], seen: Observation, most: int | None = None
) -> list[Step]:
    """Open cleanups for what two observations agree on, by the suspects of this iteration. Much at once may be a list
    with a gap, and is for an operator to look at."""
    left = find_orphans(workers, pool, most)
    told: list[Step] = [
        _of_alone(each.worker, pool, since[each.suspicion])
        for each in left
        if is_alone(each.worker) and seen.at - since[each.suspicion] >= pool.budgets.cleanup_after
    ]
    if _is_much(left, workers, pool):
        told.append(_for_a_person(_doubtful(left), workers, pool))
        left = [each for each in left if each.is_certain]
    return told + [
        Create(_cleanup(each, pool, first_seen, seen))
        for each in left
        if seen.at - (first_seen := since[each.suspicion]) >= _limit(each.worker, pool)
        and not isinstance(each.worker.operation, Cleanup)
    ]


def _doubtful(left: Sequence[Orphan]) -> list[Orphan]:
    return [each for each in left if not each.is_certain]


def _is_much(left: Sequence[Orphan], workers: Sequence[Worker], pool: Pool) -> bool:
    return len(_doubtful(left)) > _cleanup_limit(workers, pool)


def _cleanup_limit(workers: Sequence[Worker], pool: Pool) -> int:
    fleet = sum(worker.occupies for worker in workers)
    return max(pool.budgets.cleanup_least, int(pool.budgets.cleanup_percent * fleet / 100))


def _for_a_person(doubtful: Sequence[Orphan], workers: Sequence[Worker], pool: Pool) -> SendAlert:
    text = (
        f"{len(doubtful)} workers seem orphaned ({some(each.worker.name for each in doubtful)}), more than the"
        f" {_cleanup_limit(workers, pool)} that are cleaned up unasked. Look at them and remove them by hand."
    )
    return SendAlert(alert=AlertKind.CLEANUP_NEEDS_PERSON, pool=pool.name, subjects=(), text=text)


def _of_alone(worker: Worker, pool: Pool, since: datetime) -> SendAlert:
    stopped = worker.phase is Phase.STOPPED
    what = "is stopped" if stopped else "runs, but its Node was deleted"
    way_out = "it is started" if stopped else "its agent is restarted and it joins"
    text = (
        f"{worker.id} ({worker.zone}) {what}. It is no capacity and still costs money, so it is terminated at"
        f" {since + _limit(worker, pool):%H:%M:%S} unless {way_out} before."
    )
    return SendAlert(alert=AlertKind.UNHEALTHY, pool=pool.name, subjects=(worker.id, worker.phase.value), text=text)


def _reason(worker: Worker) -> str:
    if worker.phase is Phase.STOPPED:
        return "it has been stopped for too long"
    return "its Node was deleted" if is_alone(worker) else "it never joined, and enough failures are kept"


def _cleanup(left: Orphan, pool: Pool, first_seen: datetime, seen: Observation) -> Cleanup:
    worker, is_node = left.worker, left.kind is OrphanKind.NODE
    return Cleanup(
        id=operation_id(seen, "cleanup", worker.id),
        pool=pool.name,
        debris=left.kind,
        target=worker.name if is_node else worker.id,
        reason="its instance is gone" if is_node else _reason(worker),
        first_seen=first_seen,
        started=seen.at,
        deadline=seen.at + pool.removal.drain_timeout,
    )


# ── resting cost ─────────────────────────────────────────────────────────────────────────────────────────────────────
# Resting cost: instances that are paid for and are no capacity. Few, and for a short time, or an operator is alerted.
#
# Interrupted, failed, unhealthy and stopped workers, those with a cordon of ours that no removal needs any more and
# that nobody can take off, and workers of a pool that the policy does not have. Most of them end by other rules; this
# one notices when they do not, whatever the cause.


_NO_CAPACITY = frozenset({Phase.INTERRUPTED, Phase.JOIN_FAILED, Phase.UNHEALTHY, Phase.STOPPED})
_ENDING = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


def resting_since(
    fleet: Sequence[Worker], policy: Policy, seen: Observation, before: Mapping[str, datetime]
) -> dict[str, datetime]:
    """Instances that rest, and since when. What cannot be seen now rests on."""
    if isinstance(seen.instances, Missing) or isinstance(seen.kubernetes, Missing):
        return dict(before)
    return {worker.id: before.get(worker.id, seen.at) for worker in fleet if _rests(worker, policy)}


def resting_alerts(
    fleet: Sequence[Worker], policy: Policy, since: Mapping[str, datetime], now: datetime
) -> tuple[SendAlert, ...]:
    rules = policy.resting
    late = {identity for identity, at in since.items() if now - at >= rules.longest}
    if not late and len(since) <= rules.most:
        return ()
    found = [worker for worker in fleet if worker.id in (late or since)]
    names = some(f"{worker.name} ({worker.phase.value}, pool {worker.pool})" for worker in found)
    long = f" for {rules.longest.total_seconds():.0f} s or longer" if late else ""
    text = (
        f"{pluralize(len(late or since), 'instance is', 'instances are')} paid for and no capacity{long}: {names}."
        " Find out why they stay, and terminate those that nobody needs."
    )
    return (SendAlert(alert=AlertKind.RESTING_COST, pool="", text=text, subjects=tuple(worker.id for worker in found)),)


def _rests(worker: Worker, policy: Policy) -> bool:
    if worker.instance is None or worker.instance.state in _ENDING:
        return False
    return worker.phase in _NO_CAPACITY or _is_stale_cordon(worker) or policy.pool(worker.pool) is None


def _is_stale_cordon(worker: Worker) -> bool:
    return worker.phase is Phase.CORDONED and worker.operation is None and not worker.held_by_person
