"""A launch, from a stored request to ready nodes.

The launch is stored before it is sent, so the request and its token survive a crashed run. Every instance with the
launch's tag belongs to it, even when EC2's answer was lost: no instance is launched twice, and none is orphaned.

    the request                                  action
    no answer, before the deadline               sent again, byte for byte; not while Kubernetes is unavailable, and
                                                 not beyond max: the fleet may have grown since the decision
    its pool is no longer in the policy          not sent: closed if it never was, else its instances are tracked
    no answer, but all instances are listed      counts as answered
    no answer, an interval past the deadline     no run sends it any more: the listed instances are all there are
    answered, fewer instances than requested     feedback and alerts about the refusals, once for each kind
    answered, every instance settled             closed: done if all requested instances joined, else failed

A launch of warm instances goes the same way: EC2 is asked to start them, and starting what runs changes nothing.

`track_joins` follows each instance.
Without EC2's list the launch does not advance. Without Kubernetes only EC2's data count.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum

from nodefleet.capacity import count_workers, exceeds_caps, fleet_occupied, vanished_members
from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Instance, InstanceState, Market
from nodefleet.model.names import pluralize
from nodefleet.model.operations import (
    Close,
    Feedback,
    Joined,
    JoinFailed,
    Launch,
    MarkFailed,
    Outcome,
    Purpose,
    Refusal,
    RefusalKind,
    Save,
    SendAlert,
    SendLaunch,
    Shortage,
    Shortfall,
    Step,
)
from nodefleet.model.snapshot import Missing, Observation
from nodefleet.model.state import Memory
from nodefleet.operations.progress import NOTHING_YET, Progress, rules_of, save_if_changed, seconds, with_silence
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool

# ── joins ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Each instance of a launch is settled once; a failure gives feedback and one alert.
#
# observed                                      result
# its node is ready                             joined, even after it counted as lost
# not joined within the limit                   join failed: feedback, alert; tagged as failed and kept for an operator
# joined but never ready, and unhealthy         join failed: feedback, alert; the unhealthy node's removal follows
# terminated or stopped                         lost: feedback, alert
# not listed by EC2 an interval after the answer  lost: feedback, alert; before that, EC2's list may be stale
# interrupted, or in another operation          lost without an alert: the other operation reports it
# booting, or Kubernetes is unavailable         waits; the join timeout does not run while Kubernetes is unavailable


class _Fate(Enum):
    BOOTING = "booting"
    LATE = "late"
    NEVER_READY = "never-ready"
    ENDED = "ended"
    VANISHED = "vanished"
    TAKEN = "taken"


_STOPPED = (InstanceState.STOPPING, InstanceState.STOPPED)
_RUNS = (InstanceState.PENDING, InstanceState.RUNNING)
_FATES = {
    Phase.JOIN_FAILED: _Fate.LATE,
    Phase.UNHEALTHY: _Fate.NEVER_READY,
    Phase.TERMINATING: _Fate.ENDED,
    Phase.GONE: _Fate.ENDED,
    Phase.ORPHANED: _Fate.ENDED,
    Phase.STOPPED: _Fate.ENDED,
}


def track_joins(
    launch: Launch, observation: Observation, policy: Policy, fleet: Sequence[Worker]
) -> tuple[Launch, Progress]:
    """Settle every instance that has joined or failed; returns the launch with the steps and feedback for them."""
    by_id = {worker.id: worker for worker in fleet}
    steps: list[Step] = []
    lessons: list[Feedback] = []
    for instance in launch.instances:
        if instance in launch.joined:
            continue
        worker = by_id.get(instance)
        if worker and worker.instance and worker.node and worker.node.ready:
            took = (worker.node.ready_changed_at or observation.at) - worker.instance.launched_at
            lessons.append(Joined(pool=launch.pool, instance=instance, took=took, at=observation.at))
            lost = tuple(other for other in launch.lost if other != instance)
            launch = replace(launch, joined=(*launch.joined, instance), lost=lost)
        elif instance not in launch.lost and (fate := _fate(launch, worker, observation, policy)) is not _Fate.BOOTING:
            launch = replace(launch, lost=(*launch.lost, instance))
            if fate is not _Fate.TAKEN:
                unlisted = fate is _Fate.VANISHED
                lessons.append(JoinFailed(pool=launch.pool, instance=instance, at=observation.at, unlisted=unlisted))
                steps.extend(
                    _report_fate(
                        launch, instance, fate, policy, markable=_may_be_marked(launch, policy, observation.at)
                    )
                )
    return launch, Progress(steps=tuple(steps), lessons=tuple(lessons))


def _fate(launch: Launch, worker: Worker | None, observation: Observation, policy: Policy) -> _Fate:
    if worker is None or (worker.instance is None and worker.phase is Phase.ORPHANED):
        # A node may register before EC2's eventually consistent list shows its instance.
        return _Fate.VANISHED if _should_show(launch, policy, observation.at) else _Fate.BOOTING
    if worker.notice or not isinstance(worker.operation, Launch | None):
        return _Fate.TAKEN
    if launch.starts and worker.instance and worker.instance.state in _STOPPED:
        # EC2 took the request to start it; its list may be stale for a while.
        return _Fate.ENDED if _should_show(launch, policy, observation.at) else _Fate.BOOTING
    fate = _FATES.get(worker.phase, _Fate.BOOTING)
    if fate is _Fate.LATE and isinstance(observation.kubernetes, Missing):
        return _Fate.BOOTING  # tagged as failed before, but its node may have become ready
    return fate


def _should_show(launch: Launch, policy: Policy, now: datetime) -> bool:
    return now >= (launch.answered_at or launch.started) + policy.interval


def _may_be_marked(launch: Launch, policy: Policy, now: datetime) -> bool:
    """Whether tagging is still attempted. A tag that cannot be set must not keep the launch open, so the attempts end
    after the join timeout."""
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
    alert = SendAlert(alert=AlertKind.JOIN_FAILED, pool=launch.pool, subjects=(instance,), text=text)
    return (MarkFailed(instance), alert) if fate is _Fate.LATE and markable else (alert,)


# ── launch ───────────────────────────────────────────────────────────────────────────────────────────────────────────


_GENERAL_REMEDIES = {
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
    """The launch after EC2's answer: the launched instances, and the refusals by instance type."""
    return replace(
        launch,
        answered=True,
        answered_at=at,
        instances=_with_attempts(launch.instances, instances),
        refusals=tuple({refusal.type: refusal for refusal in refusals}.values()),
    )


def advance_launch(
    launch: Launch, observation: Observation, policy: Policy, fleet: Sequence[Worker], memory: Memory
) -> Progress:
    if isinstance(observation.instances, Missing):
        return NOTHING_YET
    silent = isinstance(observation.kubernetes, Missing)
    now = _adopt_instances(launch, observation.instances, policy, observation.at)
    now = with_silence(
        now, observation.at, silent=silent and bool(now.instances)
    )  # no join timeout runs before the first instance
    pool_is_gone = policy.pool(now.pool) is None
    if pool_is_gone and not (now.answered or now.attempts or now.instances):
        detail = f"not sent: the policy has no pool {now.pool} any more"
        return Progress(steps=(Close(operation=now.id, outcome=Outcome.CANCELLED, detail=detail),))
    now, shortfall = _report_shortfall(now, policy)
    now, joins = track_joins(now, observation, policy, fleet)
    steps, lessons = shortfall.steps + joins.steps, shortfall.lessons + joins.lessons
    if any(isinstance(step, MarkFailed) for step in steps):
        # Tagging may fail permanently and postpone the steps after it. So the start of the attempts and the end of an
        # outage are stored before it.
        tried = replace(launch, marking_since=launch.marking_since or observation.at)
        steps = (*save_if_changed(launch, with_silence(tried, observation.at, silent=False)), *steps)
    now = replace(now, marking_since=None)

    if now.answered and set(now.instances) <= {*now.joined, *now.lost}:
        return Progress(steps=(*steps, _close_launch(now)), lessons=lessons)
    may_send = not (now.answered or silent or pool_is_gone) and observation.at < now.deadline
    if may_send and _has_room(now, observation, policy, fleet, memory):
        now = replace(now, attempts=now.attempts + 1)
        return Progress(steps=(*steps, Save(now), SendLaunch(now)), lessons=lessons)
    return Progress(steps=(*steps, *save_if_changed(launch, now)), lessons=lessons)


def _has_room(
    launch: Launch, observation: Observation, policy: Policy, fleet: Sequence[Worker], memory: Memory
) -> bool:
    """Whether the pool and the fleet stay within max and the caps with all requested instances.

    Members that EC2 does not list count for a while: the list may be stale, and a launch that was stored earlier must
    not take their place while they may still exist.
    """
    rules = rules_of(policy, launch.pool)
    own = [worker for worker in fleet if worker.pool == launch.pool]
    gone = vanished_members(own, rules, observation, memory.pool(launch.pool))
    count = count_workers(own, observation, launch.pool)
    if count.occupied + len(gone) > rules.limits.max:
        return False
    restores_min = count.capacity <= rules.limits.min
    if not restores_min and exceeds_caps(fleet, observation, policy, memory):
        return False
    unlimited = restores_min and policy.fleet.max is None
    return unlimited or fleet_occupied(fleet, observation, policy, memory) <= policy.fleet_max


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────


def _adopt_instances(launch: Launch, instances: Sequence[Instance], policy: Policy, now: datetime) -> Launch:
    """The launch with every instance that carries its tag; answered if no more instances can appear."""
    tagged = [instance.id for instance in instances if instance.worker and _is_of(launch, instance)]
    launch = replace(launch, instances=_with_attempts(launch.instances, sorted(tagged)))
    past_sending = now >= launch.deadline + policy.interval  # EC2 shows a new instance some seconds late
    if not launch.answered and (past_sending or len(launch.instances) >= launch.count):
        return replace(launch, answered=True)
    return launch


def _is_of(launch: Launch, instance: Instance) -> bool:
    """A started instance still carries the tag of the launch that once made it."""
    if launch.starts:
        return instance.id in launch.starts and instance.state in _RUNS
    return instance.operation == launch.id


def _report_shortfall(launch: Launch, policy: Policy) -> tuple[Launch, Progress]:
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
    if launch.purpose is Purpose.MARKET:  # the pool is as large as it has to be: nothing is owed
        return learned, Progress(steps=_shortfall_alerts(launch), lessons=lessons)
    owed = Shortfall(
        pool=launch.pool,
        launch=launch.id,
        missing=missing,
        at=launch.answered_at,
        packed_again=_was_for_pods(launch, rules_of(policy, launch.pool)),
    )
    return learned, Progress(steps=_shortfall_alerts(launch), lessons=(*lessons, owed))


def _was_for_pods(launch: Launch, pool: Pool) -> bool:
    """It was bought for certain pods, and they ask again at once, perhaps for fewer and larger nodes."""
    at_once = pool.steps.pending == "packing" or pool.is_adaptive
    return at_once and launch.purpose is Purpose.GROW and set(launch.types) < set(pool.market.types)


def _shortfall_alerts(launch: Launch) -> tuple[SendAlert, ...]:
    """The alerts about missing instances, one for each kind of refusal, since each kind has its own remedy."""
    market = _MARKETS[launch.market]
    asked = pluralize(launch.count, f"{market} node", f"{market} nodes")
    given = f"EC2 gave {len(launch.instances)} of {asked} in {launch.zone}"
    where = f"{launch.zone} {launch.market.value}"
    if not launch.refusals:
        text = f"{given} and no reason. If it stays so, look at the account's quota and the launch template"
        return (SendAlert(alert=AlertKind.NO_CAPACITY, pool=launch.pool, subjects=(where,), text=text),)
    alerts = []
    for kind in RefusalKind:
        of_kind = [refusal for refusal in launch.refusals if refusal.kind is kind]
        if of_kind:
            types = ", ".join(refusal.type for refusal in of_kind)
            codes = ", ".join(sorted({refusal.code for refusal in of_kind if refusal.code}))
            remedy = next((refusal.remedy for refusal in of_kind if refusal.remedy), _GENERAL_REMEDIES[kind])
            text = f"{given}: {_WORDS[kind]} {types}{f' ({codes})' if codes else ''}. {remedy}"
            alerts.append(SendAlert(alert=_ALERTS[kind], pool=launch.pool, subjects=(where,), text=text))
    return tuple(alerts)


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
