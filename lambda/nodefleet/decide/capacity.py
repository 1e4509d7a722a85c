"""What the pool's workers are worth: capacity, what counts against max, and who was lost since the last look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodefleet.domain.decision import Count
from nodefleet.domain.fleet import LEAVES, READY_OR_NEARLY, Phase, Worker, unseen_launches
from nodefleet.domain.memory import Loss, Memory, PoolMemory
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Launch, Removal, Why
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.readings import Missing, Reading, Sample

_FAILED = (Phase.JOIN_FAILED, Phase.UNHEALTHY)


def counted(workers: Sequence[Worker], seen: Observation, pool: str) -> Count:
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    unseen = unseen_launches(seen.operations, instances, pool)
    return Count(
        ready=sum(worker.is_capacity and worker.phase in READY_OR_NEARLY for worker in workers),
        booting=sum(worker.is_capacity and worker.phase is Phase.BOOTING for worker in workers) + unseen,
        leaving=sum(worker.phase in LEAVES for worker in workers),
        interrupted=sum(worker.phase is Phase.INTERRUPTED for worker in workers),
        failed=sum(worker.phase in _FAILED for worker in workers),
        occupied=sum(worker.occupies for worker in workers) + unseen,
    )


def fleet_occupied(fleet: Sequence[Worker], seen: Observation, policy: Policy, memory: Memory) -> int:
    """What counts against fleet.max: the workers of all pools and of none, launches that are not seen yet, and members
    that EC2 does not list, for a while."""
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    asking = {each.pool for each in seen.operations if isinstance(each, Launch)}
    unseen = sum(unseen_launches(seen.operations, instances, pool) for pool in asking)
    gone = sum(
        len(vanished_members([w for w in fleet if w.pool == pool.name], pool, seen, memory.pool(pool.name)))
        for pool in policy.pools
    )
    return sum(worker.occupies for worker in fleet) + unseen + gone


def vanished_members(
    workers: Sequence[Worker], pool: Pool, seen: Observation, before: PoolMemory
) -> dict[str, datetime]:
    """Members of the pool that EC2 does not list, and since when; while it does not answer, those of before."""
    if isinstance(seen.instances, Missing):
        return dict(before.vanished)
    return vanished(workers, before.members, before.vanished, seen.at, pool.budgets.cleanup_after)


def vanished(
    workers: Sequence[Worker], members: Sequence[str], before: Mapping[str, datetime], now: datetime, doubt: timedelta
) -> dict[str, datetime]:
    """Members that nobody shows any more though nobody said that they ended, and since when.

    EC2 shows what ended for an hour, so its list may be behind: for some time they count against max all the same.
    """
    shown = {worker.id for worker in workers}
    since = {**dict.fromkeys(members, now), **before}
    return {identity: at for identity, at in since.items() if identity not in shown and now - at < doubt}


def covered(workers: Sequence[Worker], sample: Sample) -> int:
    """Ready workers that were there when the reading was taken: what it says, it says of them."""
    ready = [worker for worker in workers if worker.is_capacity and worker.phase in READY_OR_NEARLY]
    if not isinstance(sample, Reading):
        return len(ready)
    return sum(_was_ready(worker, sample.at) for worker in ready)


def _was_ready(worker: Worker, at: datetime) -> bool:
    since = worker.node.ready_changed_at if worker.node else None
    return since is None or worker.phase is Phase.UNREADY or since <= at


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Who is capacity now, and who was and is not any more."""

    members: tuple[str, ...]
    losses: tuple[Loss, ...]


def membership(
    workers: Sequence[Worker],
    before: Sequence[str],
    losses: Sequence[Loss],
    now: datetime,
    looked_at: datetime | None = None,
) -> Membership:
    """Losses are workers that went without our doing and without a person holding them back; they are replaced.

    `before` are the members at the last look. A worker that came after it and is taken already is one of them too.
    """
    by_id = {worker.id: worker for worker in workers}
    before = [*before, *(worker.id for worker in workers if _came_and_goes(worker, looked_at))]
    members = tuple(worker.id for worker in workers if worker.is_capacity)
    present = frozenset(members)
    open_losses = [loss for loss in losses if loss.worker not in present and (not loss.expires or now < loss.expires)]
    known = {loss.worker for loss in open_losses}
    for identity in before:
        worker = by_id.get(identity)
        if identity not in present and identity not in known and not _went_by_will(worker):
            cause = worker.phase.value if worker else Phase.GONE.value
            open_losses.append(Loss(worker=identity, at=now, cause=cause))
    return Membership(members=members, losses=tuple(open_losses))


def _came_and_goes(worker: Worker, looked_at: datetime | None) -> bool:
    came_since = bool(looked_at and worker.instance and worker.instance.launched_at > looked_at)
    return came_since and worker.phase is Phase.INTERRUPTED


def _went_by_will(worker: Worker | None) -> bool:
    if worker is None:
        return False
    leaving = isinstance(worker.operation, Removal) and worker.operation.why is Why.VOLUNTARY and not worker.notice
    return leaving or worker.held_by_person
