"""What became of each instance of a launch: each is learned and told once.

seen                                          then
its node is ready                             joined, even after it was given up
not joined within the limit                   join failed: learned, told, marked and kept for a person
joined but never ready, and sick by now       join failed: learned, told; the sick node's removal does the rest
ended or stopped                              lost: learned and told
not shown by EC2 an interval after the answer lost: learned and told; sooner, EC2 may just be late
EC2 takes it, or another operation has it     settled in silence: that operation speaks for it
booting, or Kubernetes is silent              waited for; the join clock stands still in that silence
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum

from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Joined, JoinFailed, Launch, Lesson, MarkFailed, Step, Tell, silence
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.operations.progress import Progress, rules_of, seconds


class _Fate(Enum):
    BOOTING = "booting"
    LATE = "late"
    NEVER_READY = "never-ready"
    ENDED = "ended"
    VANISHED = "vanished"
    TAKEN = "taken"


_FATES = {
    Phase.JOIN_FAILED: _Fate.LATE,
    Phase.UNHEALTHY: _Fate.NEVER_READY,
    Phase.TERMINATING: _Fate.ENDED,
    Phase.GONE: _Fate.ENDED,
    Phase.ORPHANED: _Fate.ENDED,
    Phase.STOPPED: _Fate.ENDED,
}


def followed(launch: Launch, seen: Observation, policy: Policy, fleet: Sequence[Worker]) -> tuple[Launch, Progress]:
    """The launch with every instance settled that can be, and what there is to say about those."""
    by_id = {worker.id: worker for worker in fleet}
    steps: list[Step] = []
    lessons: list[Lesson] = []
    for instance in launch.instances:
        if instance in launch.joined:
            continue
        worker = by_id.get(instance)
        if worker and worker.instance and worker.node and worker.node.ready:
            took = (worker.node.ready_changed_at or seen.at) - worker.instance.launched_at
            lessons.append(Joined(pool=launch.pool, instance=instance, took=took, at=seen.at))
            lost = tuple(other for other in launch.lost if other != instance)
            launch = replace(launch, joined=(*launch.joined, instance), lost=lost)
        elif instance not in launch.lost and (fate := _fate(launch, worker, seen, policy)) is not _Fate.BOOTING:
            launch = replace(launch, lost=(*launch.lost, instance))
            if fate is not _Fate.TAKEN:
                lessons.append(JoinFailed(pool=launch.pool, instance=instance, at=seen.at))
                steps.extend(
                    _said(launch, instance, fate, policy, markable=_may_be_marked(launch, worker, seen, policy))
                )
    return launch, Progress(steps=tuple(steps), lessons=tuple(lessons))


def _fate(launch: Launch, worker: Worker | None, seen: Observation, policy: Policy) -> _Fate:
    if worker is None or (worker.instance is None and worker.phase is Phase.ORPHANED):
        # EC2 may be so late that a node has registered before its machine is listed.
        return _Fate.VANISHED if _should_show(launch, policy, seen.at) else _Fate.BOOTING
    if worker.notice or not isinstance(worker.operation, Launch | None):
        return _Fate.TAKEN
    fate = _FATES.get(worker.phase, _Fate.BOOTING)
    if fate is _Fate.LATE and isinstance(seen.kubernetes, Missing):
        return _Fate.BOOTING  # marked before, but its node may be ready by now
    return fate


def _should_show(launch: Launch, policy: Policy, now: datetime) -> bool:
    return now >= (launch.answered_at or launch.started) + policy.interval


def _may_be_marked(launch: Launch, worker: Worker | None, seen: Observation, policy: Policy) -> bool:
    """A tag that nobody may set must not keep the launch open: after as long again as a join may take it is left."""
    instance = worker.instance if worker else None
    limit = rules_of(policy, launch.pool).health.join_limit
    return instance is not None and seen.at - instance.launched_at - silence(launch, seen.at) < 2 * limit


def _said(launch: Launch, instance: str, fate: _Fate, policy: Policy, *, markable: bool) -> tuple[Step, ...]:
    limit = seconds(rules_of(policy, launch.pool).health.join_limit)
    marked = "It is marked" if markable else "It is not marked"
    words = {
        _Fate.LATE: f"did not join within {limit}. {marked}: look at its console output and the K3s agent's log",
        _Fate.NEVER_READY: "joined, but its node never became ready. Look at what `kubectl describe node` says of it",
        _Fate.ENDED: "ended before it joined. Look at its state transition reason in EC2",
        _Fate.VANISHED: "was launched, but EC2 does not show it. Look for who terminated it or took its tags away",
    }
    text = f"{instance} in {launch.zone} {words[fate]}"
    told = Tell(alert=AlertKind.JOIN_FAILED, pool=launch.pool, subjects=(instance,), text=text)
    return (MarkFailed(instance), told) if fate is _Fate.LATE and markable else (told,)
