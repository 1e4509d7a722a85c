"""Workers that no pool of the policy owns: their pool was renamed or removed. Nothing is done with them unasked.

They count against `fleet.max`, so that no pool takes their room, and an operator is alerted and decides:

    nodefleet adopt    the worker is labelled and tagged for a pool, and is that pool's capacity from then on
    nodefleet drain    it leaves by the rules of every voluntary removal, with the built-in defaults; one that is
                       unhealthy is removed as such, and what is left of a dead one is cleaned up
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodefleet.engine.context import ClusterContext
from nodefleet.engine.disruption import interruption, orphans
from nodefleet.engine.disruption.candidates import select_candidates
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import KeepReason
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.names import some
from nodefleet.model.operations import Assign, Create, Removal, RemovalReason, SendAlert, Step
from nodefleet.model.snapshot import Adopt, Drain, Observation, Pause
from nodefleet.model.state import Memory, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool

_WAITS_ITS_TURN = (KeepReason.CHOSEN, KeepReason.OUTRANKED, KeepReason.ONE_AT_A_TIME, KeepReason.NOT_ASKED)
_NOT_YET = frozenset({Phase.REQUESTED, Phase.BOOTING, Phase.INTERRUPTED, Phase.TERMINATING, Phase.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Disposal:
    """What operators' commands ask for now, and what is remembered of pools that the policy no longer has."""

    plan: tuple[Step, ...] = ()
    memory: Mapping[str, PoolMemory] = field(default_factory=dict)
    look_again: str = ""


def find_unowned(fleet: Iterable[Worker], policy: Policy) -> list[Worker]:
    owners = {pool.name for pool in policy.pools}
    return [worker for worker in fleet if worker.pool not in owners]


def unowned_alerts(fleet: Iterable[Worker], policy: Policy) -> list[SendAlert]:
    """Unowned workers and their remains are not removed: an operator decides."""
    found = [each for each in find_unowned(fleet, policy) if each.occupies or each.phase is Phase.ORPHANED]
    if not found:
        return []
    names = some(f"{worker.name} (pool {worker.pool})" for worker in found)
    text = (
        f"No pool of the policy owns {names}. They count against fleet.max ({policy.fleet_max}). Name the pool again,"
        " hand them to a pool with `nodefleet adopt`, or remove them with `nodefleet drain`."
    )
    subjects = tuple(worker.name for worker in found)
    return [SendAlert(alert=AlertKind.CLEANUP_NEEDS_PERSON, pool="", subjects=subjects, text=text)]


def dispose_unowned(
    fleet: Sequence[Worker], scene: ClusterContext, seen: Observation, policy: Policy, memory: Memory
) -> Disposal:
    """Nothing while the policy cannot be followed: then it is unknown which workers are unowned."""
    if seen.hold:
        return Disposal()
    workers = find_unowned(fleet, policy)
    handed = _handed_over(workers, seen, policy)
    given = {step.instance for step in handed}
    plan: list[Step] = list(handed)
    remembered = {}
    for name in sorted({worker.pool for worker in workers}):
        own = [worker for worker in workers if worker.pool == name]
        steps, known = _plan_drains(own, given, scene, seen, memory.pool(name))
        plan += steps
        remembered[name] = known
    return Disposal(plan=tuple(plan), memory=remembered, look_again=_requeue_reason(workers, plan))


def _handed_over(workers: Iterable[Worker], seen: Observation, policy: Policy) -> list[Assign]:
    """By the last command for each. One that boots still joins with its old label, and waits."""
    asked = {each.instance: each for each in seen.commands if isinstance(each, Adopt) and seen.at < each.until}
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
    workers: Sequence[Worker], given: set[str], scene: ClusterContext, seen: Observation, before: PoolMemory
) -> tuple[list[Step], PoolMemory]:
    """The workers of one pool that is gone: those that an operator wants removed, as far as they may leave now."""
    commands = {each.instance: each for each in seen.commands if isinstance(each, Drain) and seen.at < each.until}
    asked = [worker for worker in workers if worker.id in commands and worker.id not in given]
    pool = _rules(workers[0].pool)
    suspects = orphans.track_first_seen(asked, pool, before.suspects, seen.at)
    known = PoolMemory(backoffs=before.backoffs, last_left=before.last_left, suspects=suspects)
    if not asked or _is_paused(seen):
        return [], known
    steps = orphans.plan_cleanups(asked, pool, suspects, seen)
    under_way = sum(isinstance(each.operation, Removal) for each in workers)
    ill = [worker for worker in asked if worker.phase is Phase.UNHEALTHY and worker.operation is None]
    for worker in ill[: max(0, pool.budgets.sick - under_way)]:
        deadline = seen.at + pool.removal.drain_timeout
        steps.append(
            Create(
                interruption.new_removal(
                    worker, RemovalReason.UNHEALTHY, _describe_command(commands[worker.id]), deadline, seen
                )
            )
        )
    leaving = select_candidates(workers, pool, len(asked), scene.ground_of(workers, before, pool), due=asked)
    steps += [
        interruption.open_removal(each, pool, seen, _describe_command(commands[each.id])) for each in leaving.chosen
    ]
    named = {worker.name: worker for worker in asked if worker.phase is Phase.READY or worker.held_by_person}
    for stay in leaving.stays:
        if stay.worker in named and stay.reason not in _WAITS_ITS_TURN:
            text = (
                f"{stay.worker} cannot leave yet: {stay.detail}. {_describe_command(commands[named[stay.worker].id])}."
            )
            steps.append(SendAlert(alert=AlertKind.DRAIN_BLOCKED, pool=pool.name, subjects=(stay.worker,), text=text))
    return steps, replace(known, last_left=seen.at) if leaving.chosen else known


def _rules(pool: str) -> Pool:
    """Of a pool that is gone: the defaults, and no failure is kept for an operator who wants it removed."""
    defaults = Pool(name=pool)
    return replace(defaults, health=replace(defaults.health, keep_failed=0))


def _is_paused(seen: Observation) -> bool:
    return any(
        isinstance(each, Pause) and each.pool is None and (each.until is None or seen.at < each.until)
        for each in seen.commands
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
