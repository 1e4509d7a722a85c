"""From a frozen request to ready nodes.

The launch is stored before it is sent, so a run that dies leaves the request and its token behind. Whatever carries
the launch's tag is its own, even when EC2's answer was lost: nothing is bought twice and nothing is left behind.

    the request                                  then
    no answer, before the deadline               sent again, byte for byte; not while Kubernetes is silent
    no answer, but all that was asked for shows  counts as answered
    no answer, an interval past the deadline     nobody can send it any more: what shows is all there is
    answered, less than asked                    what lacked capacity is learned and told, once
    answered, every instance settled             closed: done if all that was asked for joined, else failed

What becomes of each instance is in `joining`.
Without EC2's list nothing moves. Without Kubernetes only EC2's facts count.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from nodefleet.domain.fleet import Worker
from nodefleet.domain.machines import Instance
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import AlertKind, Close, Keep, Launch, Outcome, SendLaunch, Shortage, Shortfall, Tell
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.operations.joining import followed
from nodefleet.operations.progress import NOTHING_YET, Progress, kept, rules_of, with_silence


def answered(launch: Launch, instances: Sequence[str], shortages: Sequence[str], at: datetime) -> Launch:
    """The launch after EC2's answer: these instances, and these types that lacked capacity."""
    return replace(
        launch,
        answered=True,
        answered_at=at,
        instances=_with(launch.instances, instances),
        shortage=_with((), shortages),
    )


def advance_launch(launch: Launch, seen: Observation, policy: Policy, fleet: Sequence[Worker]) -> Progress:
    if isinstance(seen.instances, Missing):
        return NOTHING_YET
    silent = isinstance(seen.kubernetes, Missing)
    now = _adopted(launch, seen.instances, policy, seen.at)
    now = with_silence(now, seen.at, silent=silent and bool(now.instances))  # no join clock runs before there is one
    now, lacked = _lacking(now, policy)
    now, became = followed(now, seen, policy, fleet)
    steps, lessons = lacked.steps + became.steps, lacked.lessons + became.lessons

    if now.answered and set(now.instances) <= {*now.joined, *now.lost}:
        return Progress(steps=(*steps, _closed(now)), lessons=lessons)
    if not now.answered and seen.at < now.deadline and not silent:
        now = replace(now, attempts=now.attempts + 1)
        return Progress(steps=(*steps, Keep(now), SendLaunch(now)), lessons=lessons)
    return Progress(steps=(*steps, *kept(launch, now)), lessons=lessons)


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
        Shortage(pool=launch.pool, type=name, zone=launch.zone, market=launch.market, until=until)
        for name in launch.shortage
    )
    missing = launch.count - len(launch.instances)
    learned = replace(launch, learned=True)
    if missing <= 0:
        return learned, Progress(lessons=lessons)
    owed = Shortfall(pool=launch.pool, launch=launch.id, missing=missing, at=launch.answered_at)
    tell = Tell(alert=AlertKind.NO_CAPACITY, pool=launch.pool, text=_short(launch))
    return learned, Progress(steps=(tell,), lessons=(*lessons, owed))


def _short(launch: Launch) -> str:
    given = f"EC2 gave {len(launch.instances)} of {launch.count} {launch.market.value} nodes in {launch.zone}"
    if launch.shortage:
        lacked = ", ".join(launch.shortage)
        return f"{given}: no capacity for {lacked}. If it stays so, give the pool more types or zones"
    return f"{given} and no reason. If it stays so, look at the account's quota and the launch template"


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
