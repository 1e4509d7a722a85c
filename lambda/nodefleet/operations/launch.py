"""From a frozen request to ready nodes.

The launch is stored before it is sent, so a run that dies leaves the request and its token behind. Whatever carries
the launch's tag is its own, even when EC2's answer was lost: nothing is bought twice and nothing is left behind.

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

from nodefleet.decide.capacity import counted, fleet_occupied, vanished_members
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.fleet import Worker
from nodefleet.domain.machines import Instance, Market
from nodefleet.domain.memory import Memory
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import (
    Close,
    Keep,
    Launch,
    MarkFailed,
    Outcome,
    Refusal,
    RefusalKind,
    SendLaunch,
    Shortage,
    Shortfall,
    Tell,
)
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.operations.joining import followed
from nodefleet.operations.progress import NOTHING_YET, Progress, kept, rules_of, with_silence

_GENERALLY = {
    RefusalKind.CAPACITY: "If it stays so, give the pool more types or zones",
    RefusalKind.QUOTA: "Ask AWS for a higher quota, or lower limits.max",
    RefusalKind.PERMISSION: "Mend the autoscaler's role; `nodefleet doctor` names what it lacks",
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


def answered(launch: Launch, instances: Sequence[str], refusals: Sequence[Refusal], at: datetime) -> Launch:
    """The launch after EC2's answer: these instances, and these types that it did not give."""
    return replace(
        launch,
        answered=True,
        answered_at=at,
        instances=_with(launch.instances, instances),
        refusals=tuple({refusal.type: refusal for refusal in refusals}.values()),
    )


def advance_launch(
    launch: Launch, seen: Observation, policy: Policy, fleet: Sequence[Worker], memory: Memory
) -> Progress:
    if isinstance(seen.instances, Missing):
        return NOTHING_YET
    silent = isinstance(seen.kubernetes, Missing)
    now = _adopted(launch, seen.instances, policy, seen.at)
    now = with_silence(now, seen.at, silent=silent and bool(now.instances))  # no join clock runs before there is one
    homeless = policy.pool(now.pool) is None
    if homeless and not (now.answered or now.attempts or now.instances):
        detail = f"not sent: the policy has no pool {now.pool} any more"
        return Progress(steps=(Close(operation=now.id, outcome=Outcome.CANCELLED, detail=detail),))
    now, lacked = _lacking(now, policy)
    now, became = followed(now, seen, policy, fleet)
    steps, lessons = lacked.steps + became.steps, lacked.lessons + became.lessons
    if launch.silent_since and not silent and any(isinstance(step, MarkFailed) for step in steps):
        # The silence is over: that is noted before a mark, which may fail for ever and would hold the note back.
        return Progress(steps=(Keep(with_silence(launch, seen.at, silent=False)),))

    if now.answered and set(now.instances) <= {*now.joined, *now.lost}:
        return Progress(steps=(*steps, _closed(now)), lessons=lessons)
    may_send = not (now.answered or silent or homeless) and seen.at < now.deadline
    if may_send and _has_room(now, seen, policy, fleet, memory):
        now = replace(now, attempts=now.attempts + 1)
        return Progress(steps=(*steps, Keep(now), SendLaunch(now)), lessons=lessons)
    return Progress(steps=(*steps, *kept(launch, now)), lessons=lessons)


def _has_room(launch: Launch, seen: Observation, policy: Policy, fleet: Sequence[Worker], memory: Memory) -> bool:
    """With all that it asked for, neither the pool nor the fleet is above its max. Members that EC2 does not list count
    for a while: its list may be behind, and a launch that was stored before must not take their place while they may
    still be there."""
    rules = rules_of(policy, launch.pool)
    own = [worker for worker in fleet if worker.pool == launch.pool]
    gone = vanished_members(own, rules, seen, memory.pool(launch.pool))
    count = counted(own, seen, launch.pool)
    if count.occupied + len(gone) > rules.limits.max:
        return False
    restores_min = policy.fleet.max is None and count.capacity <= rules.limits.min
    return restores_min or fleet_occupied(fleet, seen, policy, memory) <= policy.fleet_max


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────


def _adopted(launch: Launch, instances: Sequence[Instance], policy: Policy, now: datetime) -> Launch:
    """With every instance that carries its tag; answered if no more can come."""
    tagged = [instance.id for instance in instances if instance.worker and instance.operation == launch.id]
    launch = replace(launch, instances=_with(launch.instances, sorted(tagged)))
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


def _short(launch: Launch) -> tuple[Tell, ...]:
    """What people are told, by who can do something about it."""
    market = _MARKETS[launch.market]
    asked = f"{launch.count} {market} {'node' if launch.count == 1 else 'nodes'}"
    given = f"EC2 gave {len(launch.instances)} of {asked} in {launch.zone}"
    where = f"{launch.zone} {launch.market.value}"
    if not launch.refusals:
        text = f"{given} and no reason. If it stays so, look at the account's quota and the launch template"
        return (Tell(alert=AlertKind.NO_CAPACITY, pool=launch.pool, subjects=(where,), text=text),)
    told = []
    for kind in RefusalKind:
        of_kind = [refusal for refusal in launch.refusals if refusal.kind is kind]
        if of_kind:
            lacked = ", ".join(refusal.type for refusal in of_kind)
            codes = ", ".join(sorted({refusal.code for refusal in of_kind if refusal.code}))
            remedy = next((refusal.remedy for refusal in of_kind if refusal.remedy), _GENERALLY[kind])
            text = f"{given}: {_WORDS[kind]} {lacked}{f' ({codes})' if codes else ''}. {remedy}"
            told.append(Tell(alert=_ALERTS[kind], pool=launch.pool, subjects=(where,), text=text))
    return tuple(told)


def _closed(launch: Launch) -> Close:
    joined, lost, missing = len(launch.joined), len(launch.lost), launch.count - len(launch.instances)
    detail = f"{joined} of {launch.count} joined"
    if lost:
        detail += f", {lost} did not join"
    if missing > 0:
        detail += f", {missing} not given by EC2" if launch.answered_at else f", EC2 never answered for {missing}"
    return Close(operation=launch.id, outcome=Outcome.DONE if joined >= launch.count else Outcome.FAILED, detail=detail)


def _with(known: tuple[str, ...], more: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *more)))
