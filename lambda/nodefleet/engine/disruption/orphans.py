"""Orphans (instances that failed to join, nodes without an instance), and workers that no pool of the policy owns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from nodefleet.engine.cluster_context import ClusterContext
from nodefleet.engine.context import operation_id
from nodefleet.engine.disruption.candidates import new_removal, open_removal, select_candidates
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import KeepReason
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import InstanceState
from nodefleet.model.names import some
from nodefleet.model.operations import (
    Assign,
    Cleanup,
    Create,
    Launch,
    OrphanKind,
    Removal,
    RemovalReason,
    SendAlert,
    Step,
)
from nodefleet.model.snapshot import Adopt, Drain, Observation, Pause
from nodefleet.model.state import Memory, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool

# ── orphans ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# What is orphaned: instances that failed to join, and nodes without an instance.
#
# Destroying it needs two observations that agree, some time apart, and stops for an operator when it would be much.
# Then the time begins again: two observations agree only if neither of them saw much. Instances that we marked as
# failed to join never stop: a list with a gap marks none, and a fleet that they fill could not heal. So many as are
# cleaned up unasked go at a time, the next `cleanup_after` later; one that could not be cleaned up goes last.


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
    def target(self) -> str:
        """What its cleanup names: the Node, or the instance."""
        return self.worker.name if self.kind is OrphanKind.NODE else self.worker.id

    @property
    def is_certain(self) -> bool:
        """A Node whose instance EC2 itself shows as terminated: nothing can be lost any more."""
        instance = self.worker.instance
        return instance is not None and instance.state is InstanceState.TERMINATED

    @property
    def is_marked(self) -> bool:
        """An instance that we marked as failed to join, and that was not stopped."""
        return self.kind is OrphanKind.INSTANCE and not is_alone(self.worker)


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
    """Stopped, or running without a Node though it was not marked as failed to join: an operator deleted the Node. Its
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What is cleaned up now and what operators are told, and what the next iteration has to know of it."""

    steps: tuple[Step, ...]
    suspects: Mapping[str, datetime]  # what seems orphaned, by suspicion, and since when that can be believed
    cleanups: Mapping[str, datetime]  # when a cleanup of each target was last under way


def plan_cleanups(
    workers: Sequence[Worker], pool: Pool, before: PoolMemory, observation: Observation, most: int | None = None
) -> CleanupPlan:
    """Open cleanups for what two observations agree on. Much at once may be a list with a gap, and is for an operator
    to look at."""
    now, limit = observation.at, _cleanup_limit(workers, pool)
    left = find_orphans(workers, pool, most)
    doubtful = [each for each in left if not (each.is_certain or each.is_marked)]
    much = len(doubtful) > limit
    since = track_first_seen(left, doubtful if much else (), before.suspects, now)
    cleanups = _track_cleanups(left, pool, before.cleanups, observation)
    told: list[Step] = [
        _of_alone(each.worker, pool, since[each.suspicion])
        for each in left
        if is_alone(each.worker) and now - since[each.suspicion] >= pool.budgets.cleanup_after
    ]
    if much:
        told.append(_for_a_person(doubtful, workers, pool))
    due = [
        each
        for each in left
        if now - since[each.suspicion] >= _limit(each.worker, pool) and not isinstance(each.worker.operation, Cleanup)
    ]
    certain = [each for each in due if each.is_certain]
    chosen = _select_for_cleanup(due, () if much else doubtful, cleanups, now - pool.budgets.cleanup_after)[:limit]
    opened = [Create(_cleanup(each, pool, since[each.suspicion], observation)) for each in (*certain, *chosen)]
    return CleanupPlan(
        steps=(*told, *opened), suspects=since, cleanups=cleanups | {each.target: now for each in chosen}
    )


def track_first_seen(
    left: Sequence[Orphan], much: Sequence[Orphan], before: Mapping[str, datetime], now: datetime
) -> dict[str, datetime]:
    """The time of those that are too many at once begins again."""
    return {each.suspicion: now if each in much else before.get(each.suspicion, now) for each in left}


def _track_cleanups(
    left: Sequence[Orphan], pool: Pool, before: Mapping[str, datetime], observation: Observation
) -> dict[str, datetime]:
    """Cleanups of what is certainly gone count for nothing, and one that is over counts while the next waits for it,
    or its target is still there."""
    doubtful = {each.target for each in left if not each.is_certain}
    under_way = {each.target for each in observation.operations if isinstance(each, Cleanup) and each.pool == pool.name}
    known = {
        target: at
        for target, at in before.items()
        if target in doubtful or observation.at - at < pool.budgets.cleanup_after
    }
    return known | dict.fromkeys(sorted(under_way & (doubtful | before.keys())), observation.at)


def _select_for_cleanup(
    due: Sequence[Orphan], doubtful: Sequence[Orphan], cleanups: Mapping[str, datetime], last: datetime
) -> list[Orphan]:
    """None within some time of the cleanups before; then the doubtful ones before the marked ones, and those whose
    cleanup failed behind the others."""
    if any(at > last for at in cleanups.values()):
        return []
    turn = [each for each in due if each in doubtful] + [each for each in due if each.is_marked]
    return sorted(turn, key=lambda each: cleanups.get(each.target, datetime.min.replace(tzinfo=UTC)))


def _cleanup_limit(workers: Sequence[Worker], pool: Pool) -> int:
    fleet = sum(worker.occupies for worker in workers)
    return max(pool.budgets.cleanup_least, int(pool.budgets.cleanup_percent * fleet / 100))


def _for_a_person(doubtful: Sequence[Orphan], workers: Sequence[Worker], pool: Pool) -> SendAlert:
    limit = _cleanup_limit(workers, pool)
    text = (
        f"{len(doubtful)} workers seem orphaned ({some(each.worker.name for each in doubtful)}), more than the"
        f" {limit} that {'is' if limit == 1 else 'are'} cleaned up unasked. Look at them and remove them by hand."
    )
    return SendAlert(alert=AlertKind.CLEANUP_NEEDS_OPERATOR, pool=pool.name, subjects=(), text=text)


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


def _cleanup(left: Orphan, pool: Pool, first_seen: datetime, observation: Observation) -> Cleanup:
    worker, is_node = left.worker, left.kind is OrphanKind.NODE
    return Cleanup(
        id=operation_id(observation, "cleanup", worker.id),
        pool=pool.name,
        debris=left.kind,
        target=left.target,
        reason="its instance is gone" if is_node else _reason(worker),
        first_seen=first_seen,
        started=observation.at,
        deadline=observation.at + pool.removal.drain_timeout,
    )


# ── unowned workers ──────────────────────────────────────────────────────────────────────────────────────────────────
# Workers that no pool of the policy owns: their pool was renamed or removed. Nothing is done with them unasked.
#
# They count against `fleet.max`, so that no pool takes their room, and an operator is alerted and decides:
#
#     nodefleet adopt    the worker is labelled and tagged for a pool, and is that pool's capacity from then on
#     nodefleet drain    it leaves by the rules of every voluntary removal, with the built-in defaults; one that is
#                        unhealthy is removed as such, and what is left of a dead one is cleaned up


_WAITS_ITS_TURN = (KeepReason.CHOSEN, KeepReason.OUTRANKED, KeepReason.ONE_AT_A_TIME, KeepReason.NOT_ASKED)
_STOPPED = (Phase.STOPPED, Phase.WARM)
_REMAINS = (Phase.ORPHANED, *_STOPPED)
_NOT_YET = frozenset({Phase.REQUESTED, Phase.BOOTING, Phase.INTERRUPTED, Phase.TERMINATING, Phase.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposal:
    """What operators' commands ask for now, and what is remembered of pools that the policy no longer has."""

    plan: tuple[Step, ...] = ()
    memory: Mapping[str, PoolMemory] = field(default_factory=dict)
    requeue_reason: str = ""


def find_unowned(fleet: Iterable[Worker], policy: Policy) -> list[Worker]:
    owners = {pool.name for pool in policy.pools}
    return [worker for worker in fleet if worker.pool not in owners]


def unowned_alerts(fleet: Iterable[Worker], policy: Policy) -> list[SendAlert]:
    """Unowned workers and their remains are not removed, nor are stopped ones: an operator decides."""
    found = [each for each in find_unowned(fleet, policy) if each.occupies or each.phase in _REMAINS]
    if not found:
        return []
    names = some(f"{worker.name} (pool {worker.pool})" for worker in found)
    runs = all(worker.phase not in _STOPPED for worker in found)
    if len(found) == 1:
        them, counting = "it", "It counts" if runs else "While it runs it counts"
    else:
        them, counting = "them", "They count" if runs else "Those that run count"
    text = (
        f"No pool of the policy owns {names}. {counting} against fleet.max ({policy.fleet_max}). Name the pool again,"
        f" hand {them} to a pool with `nodefleet adopt`, or remove {them} with `nodefleet drain`."
    )
    subjects = tuple(worker.id for worker in found)  # as `nodefleet drain` and an approval name them
    return [SendAlert(alert=AlertKind.CLEANUP_NEEDS_OPERATOR, pool="", subjects=subjects, text=text)]


def dispose_unowned(
    fleet: Sequence[Worker], cluster: ClusterContext, observation: Observation, policy: Policy, memory: Memory
) -> Disposal:
    """Nothing while the policy cannot be followed: then it is unknown which workers are unowned."""
    if observation.hold:
        return Disposal()
    workers = find_unowned(fleet, policy)
    handed = _handed_over(workers, observation, policy)
    given = {step.instance for step in handed}
    plan: list[Step] = list(handed)
    remembered = {}
    for name in sorted({worker.pool for worker in workers}):
        own = [worker for worker in workers if worker.pool == name]
        steps, known = _plan_drains(own, given, cluster, observation, memory.pool(name))
        plan += steps
        remembered[name] = known
    return Disposal(plan=tuple(plan), memory=remembered, requeue_reason=_requeue_reason(workers, plan))


def _handed_over(workers: Iterable[Worker], observation: Observation, policy: Policy) -> list[Assign]:
    """By the last command for each. One that boots still joins with its old label, and waits."""
    asked = {
        each.instance: each for each in observation.commands if isinstance(each, Adopt) and observation.at < each.until
    }
    steps = []
    for worker in workers:
        command = asked.get(worker.id)
        pool = policy.pool(command.pool) if command else None
        if command is None or pool is None or pool.dry_run or worker.instance is None:
            continue
        if worker.operation is None and worker.phase not in _NOT_YET:
            node = worker.node.name if worker.node else ""
            steps.append(Assign(instance=worker.id, node=node, pool=pool.name, reason=_describe_command(command)))
    return steps


def _plan_drains(
    workers: Sequence[Worker], given: set[str], cluster: ClusterContext, observation: Observation, before: PoolMemory
) -> tuple[list[Step], PoolMemory]:
    """The workers of one pool that is gone: those that an operator wants removed, as far as they may leave now."""
    commands = {
        each.instance: each
        for each in observation.commands
        if isinstance(each, Drain) and not each.pool and observation.at < each.until
    }
    asked = [worker for worker in workers if worker.id in commands and worker.id not in given]
    pool = _rules(workers[0].pool)
    # No rule starts what no pool owns.
    asked = [replace(each, phase=Phase.STOPPED) if each.phase is Phase.WARM else each for each in asked]
    cleaning = plan_cleanups(asked, pool, before, observation)
    known = PoolMemory(
        backoffs=before.backoffs, last_left=before.last_left, suspects=cleaning.suspects, cleanups=cleaning.cleanups
    )
    if not asked or _is_paused(observation):
        return [], known
    steps = list(cleaning.steps)
    under_way = sum(isinstance(each.operation, Removal) for each in workers)
    ill = [worker for worker in asked if worker.phase is Phase.UNHEALTHY and worker.operation is None]
    for worker in ill[: max(0, pool.budgets.sick - under_way)]:
        deadline = observation.at + pool.removal.drain_timeout
        steps.append(
            Create(
                new_removal(
                    worker, RemovalReason.UNHEALTHY, _describe_command(commands[worker.id]), deadline, observation
                )
            )
        )
    leaving = select_candidates(workers, pool, len(asked), cluster.ground_of(workers, before, pool), due=asked)
    steps += [open_removal(each, pool, observation, _describe_command(commands[each.id])) for each in leaving.chosen]
    named = {worker.name: worker for worker in asked if worker.phase is Phase.READY or worker.held_by_person}
    for stay in leaving.stays:
        if stay.worker in named and stay.reason not in _WAITS_ITS_TURN:
            text = (
                f"{stay.worker} cannot leave yet: {stay.detail}. {_describe_command(commands[named[stay.worker].id])}."
            )
            steps.append(SendAlert(alert=AlertKind.DRAIN_BLOCKED, pool=pool.name, subjects=(stay.worker,), text=text))
    return steps, replace(known, last_left=observation.at) if leaving.chosen else known


def _rules(pool: str) -> Pool:
    """Of a pool that is gone: the defaults, and no failure is kept for an operator who wants it removed."""
    defaults = Pool(name=pool)
    return replace(defaults, health=replace(defaults.health, keep_failed=0))


def _is_paused(observation: Observation) -> bool:
    return any(
        isinstance(each, Pause) and each.pool is None and (each.until is None or observation.at < each.until)
        for each in observation.commands
    )


def _describe_command(command: Adopt | Drain) -> str:
    what = f"to be handed to pool {command.pool}" if isinstance(command, Adopt) else "to be drained"
    because = f": {command.reason}" if command.reason else ""
    return f"{command.by} asked for {command.instance} {what}{because}"


def _requeue_reason(workers: Iterable[Worker], plan: Sequence[Step]) -> str:
    if any(isinstance(step, Assign) for step in plan):
        return "workers change their pool"
    opens = any(isinstance(step, Create) and isinstance(step.operation, Removal) for step in plan)
    if opens or any(isinstance(worker.operation, Removal) for worker in workers):
        return "workers that no pool owns are on the way out"
    return ""
