"""From a frozen request to ready nodes.

The launch is stored before it is sent, so a run that dies leaves the request and its token behind. Whatever carries
the launch's tag is its own, even when EC2's answer was lost: nothing is bought twice and nothing is orphaned.

    the request                                  then
    no answer, before the deadline               sent again, byte for byte; not while Kubernetes is silent, nor
                                                 beyond max: more may be there by now than when it was decided
    its pool is no longer in the policy          not sent: closed if it never was, else what it made is followed
    no answer, but all that was asked for shows  counts as answered
    no answer, an interval past the deadline     nobody can send it any more: what shows is all there is
    answered, less than asked                    what was refused is learned and told, once, by its kind
    answered, every instance settled             closed: done if all that was asked for joined, else failed

What becomes of each instance is in `joining`.
Without EC2's list nothing moves. Without Kubernetes only EC2's facts count.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum

from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Instance, Market
from nodefleet.model.operations import (
    Close,
    Feedback,
    Joined,
    JoinFailed,
    Launch,
    MarkFailed,
    Outcome,
    Refusal,
    RefusalKind,
    Save,
    SendAlert,
    SendLaunch,
    Shortage,
    Shortfall,
    Step,
)
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import Memory
from nodefleet.operations.progress import NOTHING_YET, Progress, rules_of, save_if_changed, seconds, with_silence
from nodefleet.phases import count_workers, fleet_occupied, vanished_members
from nodefleet.policy.cluster import Policy

# ── joins ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# What became of each instance of a launch: each is learned and told once.
#
# seen                                          then
# its node is ready                             joined, even after it was given up
# not joined within the limit                   join failed: learned, told, marked and kept for an operator
# joined but never ready, and unhealthy by now  join failed: learned, told; the unhealthy node's removal does the rest
# ended or stopped                              lost: learned and told
# not shown by EC2 an interval after the answer lost: learned and told; sooner, EC2 may just be late
# EC2 takes it, or another operation has it     settled in silence: that operation speaks for it
# booting, or Kubernetes is silent              waited for; the join clock stands still in that silence


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


def track_joins(launch: Launch, seen: Observation, policy: Policy, fleet: Sequence[Worker]) -> tuple[Launch, Progress]:
    """The launch with every instance settled that can be, and what there is to say about those."""
    by_id = {worker.id: worker for worker in fleet}
    steps: list[Step] = []
    lessons: list[Feedback] = []
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
                unlisted = fate is _Fate.VANISHED
                lessons.append(JoinFailed(pool=launch.pool, instance=instance, at=seen.at, unlisted=unlisted))
                steps.extend(
                    _report_fate(launch, instance, fate, policy, markable=_may_be_marked(launch, policy, seen.at))
                )
    return launch, Progress(steps=tuple(steps), lessons=tuple(lessons))


def _fate(launch: Launch, worker: Worker | None, seen: Observation, policy: Policy) -> _Fate:
    if worker is None or (worker.instance is None and worker.phase is Phase.ORPHANED):
        # EC2 may be so late that a node has registered before its instance is listed.
        return _Fate.VANISHED if _should_show(launch, policy, seen.at) else _Fate.BOOTING
    if worker.notice or not isinstance(worker.operation, Launch | None):
        return _Fate.TAKEN
    fate = _FATES.get(worker.phase, _Fate.BOOTING)
    if fate is _Fate.LATE and isinstance(seen.kubernetes, Missing):
        return _Fate.BOOTING  # marked before, but its node may be ready by now
    return fate


def _should_show(launch: Launch, policy: Policy, now: datetime) -> bool:
    return now >= (launch.answered_at or launch.started) + policy.interval


def _may_be_marked(launch: Launch, policy: Policy, now: datetime) -> bool:
    """A tag that cannot be set must not keep the launch open: it is tried for as long as a join may take."""
    limit = rules_of(policy, launch.pool).health.join_limit
    return launch.marking_since is None or now - launch.marking_since < limit


def _report_fate(launch: Launch, instance: str, fate: _Fate, policy: Policy, *, markable: bool) -> tuple[Step, ...]:
    limit = seconds(rules_of(policy, launch.pool).health.join_limit)
    marked = "It is marked" if markable else "It is not marked"
    words = {
        _Fate.LATE: f"did not join within {limit}. {marked}: look at its console output and the K3s agent's log",
        _Fate.NEVER_READY: "joined, but its node never became ready. Look at what `kubectl describe node` says of it",
        _Fate.ENDED: "ended before it joined. Look at its state transition reason in EC2",
        _Fate.VANISHED: "was launched, but EC2 does not show it. Look for who terminated it or took its tags away",
    }
    text = f"{instance} in {launch.zone} {words[fate]}"
    told = SendAlert(alert=AlertKind.JOIN_FAILED, pool=launch.pool, subjects=(instance,), text=text)
    return (MarkFailed(instance), told) if fate is _Fate.LATE and markable else (told,)


# ── launch ───────────────────────────────────────────────────────────────────────────────────────────────────────────


_GENERALLY = {
    RefusalKind.CAPACITY: "If it stays so, give the pool more types or zones",
    RefusalKind.QUOTA: "Ask AWS for a higher quota, or lower limits.max",
    RefusalKind.PERMISSION: "Fix the autoscaler's role; `nodefleet doctor` names what it lacks",
    RefusalKind.INVALID: "Look at the launch template, its subnet and the pool's types",
}
_MARKETS = {Market.SPOT: "Spot", Market.ON_DEMAND: "On-Demand"}
_ALERTS = {
    RefusalKind.CAPACITY: AlertKind.NO_CAPACITY,
    RefusalKind.QUOTA: AlertKind.QUOTA,
    RefusalKind.PERMISSION: AlertKind.PERMISSION,
    RefusalKind.INVALID: AlertKind.LAUNCH_INVALID,
}
_WORDS = {
    RefusalKind.CAPACITY: "no capacity for",
    RefusalKind.QUOTA: "the account's quota is reached for",
    RefusalKind.PERMISSION: "the autoscaler may not launch",
    RefusalKind.INVALID: "the request is invalid for",
}


def record_answer(launch: Launch, instances: Sequence[str], refusals: Sequence[Refusal], at: datetime) -> Launch:
    """The launch after EC2's answer: these instances, and these types that it did not give."""
    return replace(
        launch,
        answered=True,
        answered_at=at,
        instances=_with_attempts(launch.instances, instances),
        refusals=tuple({refusal.type: refusal for refusal in refusals}.values()),
    )


def advance_launch(
    launch: Launch, seen: Observation, policy: Policy, fleet: Sequence[Worker], memory: Memory
) -> Progress:
    if isinstance(seen.instances, Missing):
        return NOTHING_YET
    silent = isinstance(seen.kubernetes, Missing)
    now = _adopt_instances(launch, seen.instances, policy, seen.at)
    now = with_silence(now, seen.at, silent=silent and bool(now.instances))  # no join clock runs before there is one
    pool_is_gone = policy.pool(now.pool) is None
    if pool_is_gone and not (now.answered or now.attempts or now.instances):
        detail = f"not sent: the policy has no pool {now.pool} any more"
        return Progress(steps=(Close(operation=now.id, outcome=Outcome.CANCELLED, detail=detail),))
    now, lacked = _lacking(now, policy)
    now, became = track_joins(now, seen, policy, fleet)
    steps, lessons = lacked.steps + became.steps, lacked.lessons + became.lessons
    if any(isinstance(step, MarkFailed) for step in steps):
        # Stored before a mark, which may fail for ever and hold back what comes after it: since when it is tried, and
        # that a silence is over.
        tried = replace(launch, marking_since=launch.marking_since or seen.at)
        steps = (*save_if_changed(launch, with_silence(tried, seen.at, silent=False)), *steps)
    now = replace(now, marking_since=None)

    if now.answered and set(now.instances) <= {*now.joined, *now.lost}:
        return Progress(steps=(*steps, _close_launch(now)), lessons=lessons)
    may_send = not (now.answered or silent or pool_is_gone) and seen.at < now.deadline
    if may_send and _has_room(now, seen, policy, fleet, memory):
        now = replace(now, attempts=now.attempts + 1)
        return Progress(steps=(*steps, Save(now), SendLaunch(now)), lessons=lessons)
    return Progress(steps=(*steps, *save_if_changed(launch, now)), lessons=lessons)


def _has_room(launch: Launch, seen: Observation, policy: Policy, fleet: Sequence[Worker], memory: Memory) -> bool:
    """With all that it asked for, neither the pool nor the fleet is above its max. Members that EC2 does not list count
    for a while: its list may be behind, and a launch that was stored before must not take their place while they may
    still be there."""
    rules = rules_of(policy, launch.pool)
    own = [worker for worker in fleet if worker.pool == launch.pool]
    gone = vanished_members(own, rules, seen, memory.pool(launch.pool))
    count = count_workers(own, seen, launch.pool)
    if count.occupied + len(gone) > rules.limits.max:
        return False
    restores_min = policy.fleet.max is None and count.capacity <= rules.limits.min
    return restores_min or fleet_occupied(fleet, seen, policy, memory) <= policy.fleet_max


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────


def _adopt_instances(launch: Launch, instances: Sequence[Instance], policy: Policy, now: datetime) -> Launch:
    """With every instance that carries its tag; answered if no more can come."""
    tagged = [instance.id for instance in instances if instance.worker and instance.operation == launch.id]
    launch = replace(launch, instances=_with_attempts(launch.instances, sorted(tagged)))
    nobody_sends = now >= launch.deadline + policy.interval  # EC2 shows a new instance some seconds late
    if not launch.answered and (nobody_sends or len(launch.instances) >= launch.count):
        return replace(launch, answered=True)
    return launch


def _lacking(launch: Launch, policy: Policy) -> tuple[Launch, Progress]:
    if launch.answered_at is None or launch.learned:
        return launch, NOTHING_YET
    remember = rules_of(policy, launch.pool).market.remember_shortage
    until = launch.answered_at + remember
    lessons = tuple(
        Shortage(pool=launch.pool, type=refusal.type, zone=launch.zone, market=launch.market, until=until)
        for refusal in launch.refusals
    )
    missing = launch.count - len(launch.instances)
    learned = replace(launch, learned=True)
    if missing <= 0:
        return learned, Progress(lessons=lessons)
    owed = Shortfall(pool=launch.pool, launch=launch.id, missing=missing, at=launch.answered_at)
    return learned, Progress(steps=_short(launch), lessons=(*lessons, owed))


def _short(launch: Launch) -> tuple[SendAlert, ...]:
    """What operators are told, by who can do something about it."""
    market = _MARKETS[launch.market]
    asked = f"{launch.count} {market} {'node' if launch.count == 1 else 'nodes'}"
    given = f"EC2 gave {len(launch.instances)} of {asked} in {launch.zone}"
    where = f"{launch.zone} {launch.market.value}"
    if not launch.refusals:
        text = f"{given} and no reason. If it stays so, look at the account's quota and the launch template"
        return (SendAlert(alert=AlertKind.NO_CAPACITY, pool=launch.pool, subjects=(where,), text=text),)
    told = []
    for kind in RefusalKind:
        of_kind = [refusal for refusal in launch.refusals if refusal.kind is kind]
        if of_kind:
            lacked = ", ".join(refusal.type for refusal in of_kind)
            codes = ", ".join(sorted({refusal.code for refusal in of_kind if refusal.code}))
            remedy = next((refusal.remedy for refusal in of_kind if refusal.remedy), _GENERALLY[kind])
            text = f"{given}: {_WORDS[kind]} {lacked}{f' ({codes})' if codes else ''}. {remedy}"
            told.append(SendAlert(alert=_ALERTS[kind], pool=launch.pool, subjects=(where,), text=text))
    return tuple(told)


def _close_launch(launch: Launch) -> Close:
    joined, lost, missing = len(launch.joined), len(launch.lost), launch.count - len(launch.instances)
    detail = f"{joined} of {launch.count} joined"
    if lost:
        detail += f", {lost} did not join"
    if missing > 0:
        detail += f", {missing} not given by EC2" if launch.answered_at else f", EC2 never answered for {missing}"
    return Close(operation=launch.id, outcome=Outcome.DONE if joined >= launch.count else Outcome.FAILED, detail=detail)


def _with_attempts(known: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *more)))
