"""One run: under one lease, look, and look again while that could change something or somebody woke us.

No look is begun that may not finish: the longest of the last ones, of earlier runs too, says how long it may take. Only
the first iteration of a whole run is begun in any case, so that slow ones are forgotten when they are over.

A run that finds the lease held leaves at once. Whoever is urgent says so on the lease first, and the holder does not
let go before it has looked again, so no wake-up is lost.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from nodefleet.engine.requeue import next_duration
from nodefleet.errors import LostLeaseError, NodeFleetError
from nodefleet.model.decision import BoundSource, Decision
from nodefleet.model.names import Metric
from nodefleet.model.readings import Missing
from nodefleet.model.state import Level
from nodefleet.policy.cluster import Burst, Policy
from nodefleet.ports import Lease, LeaseHeld, Runtime
from nodefleet.reconcile.audit import LEVELS, MAJOR, bill, figures, forecast_metrics, mean, sentence
from nodefleet.reconcile.cycle import CycleResult, reconcile_once
from nodefleet.reconcile.policy_source import resolve_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of a run."""

    held: LeaseHeld | None = None  # another run was at work
    looks: int = 0
    decision: Decision | None = None  # the last one
    did: tuple[str, ...] = ()
    awake: bool = False  # somebody woke us and there was no time left to look again: the next run does


def run(parts: Runtime, *, owner: str, urgent: bool = False, scheduled: bool = False) -> RunResult:
    """One cluster's run. Raises after the lease is released and what was done is recorded."""
    started = parts.time.now()
    parts.telemetry.metric(Metric.INVOCATIONS, 1)
    if scheduled:  # a schedule that has stopped must not be hidden by alerts and warnings that still start runs
        parts.telemetry.metric(Metric.SCHEDULED_RUNS, 1)
    try:
        if urgent:
            parts.store.wake()
        policy = _policy(parts)
        lease = _acquire(parts, owner, policy)
    except NodeFleetError:
        parts.telemetry.metric(Metric.LEVEL, MAJOR)
        raise
    if isinstance(lease, LeaseHeld):
        parts.telemetry.metric(Metric.LEASE_HELD, 1)
        parts.telemetry.line("Another run is at work", owner=lease.owner, until=lease.expires.isoformat())
        return RunResult(held=lease)
    try:
        ran = _looks(parts, lease, policy, started)
    except LostLeaseError:
        raise  # there is nothing to let go of
    except BaseException:
        _let_go(parts, lease)
        raise
    took = (parts.time.now() - started).total_seconds()
    parts.telemetry.metric(Metric.DURATION, took)
    parts.telemetry.metric(Metric.CALLS, parts.telemetry.calls())
    return ran


def _policy(parts: Runtime) -> Policy:
    """For the lease only: each iteration reads it again."""
    return resolve_policy(parts.store.state(), parts.policies, parts.time.now()).policy


def _acquire(parts: Runtime, owner: str, policy: Policy) -> Lease | LeaseHeld:
    """Never for longer than this run can last, so that nobody has to wait for one that died."""
    now = parts.time.now()
    until = now + min(policy.lease, parts.time.remaining() + policy.trust.clock_skew)
    return parts.store.acquire(owner, now, until, policy.trust.clock_skew)


def _looks(parts: Runtime, lease: Lease, policy: Policy, started: datetime) -> RunResult:
    did: tuple[str, ...] = ()
    looks = 0
    took: list[int] = []  # seconds, of this run's looks
    while True:
        began = parts.time.now()
        state = parts.store.state()
        if state.fence != lease.fence:
            raise LostLeaseError(f"another run holds the cluster: fence {state.fence}, ours was {lease.fence}")
        if looks == 0 and not _may_look(parts, policy, next_duration(state.journal.iterations, policy.burst)):
            parts.store.release(lease, None)
            parts.telemetry.line("An iteration may take longer than this run has left: the next run looks")
            return RunResult(awake=True)
        looks += 1
        came = reconcile_once(parts, lease, state, looks)
        did += came.did
        _report(parts, came, looks, started)
        rules = came.policy.burst
        took.append(ceil((parts.time.now() - began).total_seconds()))
        ahead = next_duration([*state.journal.iterations, *took][-rules.remembered :], rules)
        pause = timedelta(0) if came.at_once else rules.every
        if came.again and _has_time(parts, rules, started, pause, ahead):
            _pause(parts, pause, rules, state.wake)
            continue
        if parts.store.release(lease, state.wake):
            return RunResult(looks=looks, decision=came.decision, did=did)
        if not _has_time(parts, rules, started, timedelta(0), ahead):
            parts.store.release(lease, None)
            parts.telemetry.line("Somebody woke this run, and its time is up: the next run looks again")
            return RunResult(looks=looks, decision=came.decision, did=did, awake=True)


def _may_look(parts: Runtime, policy: Policy, ahead: timedelta) -> bool:
    """A run that has its whole time always looks once."""
    left = parts.time.remaining()
    return left >= min(policy.burst.budget, ahead + policy.burst.reserve)


def _has_time(parts: Runtime, rules: Burst, started: datetime, pause: timedelta, ahead: timedelta) -> bool:
    """For a pause and an iteration: within this run's share of the tick, and before it is stopped from outside."""
    used = parts.time.now() - started
    return used + pause < rules.budget and parts.time.remaining() > pause + ahead + rules.reserve


def _pause(parts: Runtime, pause: timedelta, rules: Burst, seen: int) -> None:
    """Until the next iteration is due, or an urgent run came since this one counted `seen` of them."""
    until = parts.time.now() + pause
    while (left := until - parts.time.now()) > timedelta(0):
        parts.time.sleep(min(left, rules.wake_check))
        if parts.time.now() < until and _woken(parts, seen):
            return


def _woken(parts: Runtime, seen: int) -> bool:
    try:
        return parts.store.wakes() != seen
    except NodeFleetError as error:
        parts.telemetry.warn(
            f"Whether an urgent run came cannot be read; the next iteration is not begun early: {error}"
        )
        return False


def _let_go(parts: Runtime, lease: Lease) -> None:
    try:
        parts.store.release(lease, None)
    except NodeFleetError as error:
        parts.telemetry.warn(f"The lease could not be released; it expires at {lease.expires:%H:%M:%S} UTC: {error}")


def _report(parts: Runtime, came: CycleResult, looks: int, started: datetime) -> None:
    """The metrics, and the line that an operator reads."""
    decision, seen, telemetry = came.decision, came.seen, parts.telemetry
    if decision.level is not Level.PARTIAL:
        telemetry.metric(Metric.CURRENT_NODE_COUNT, sum(pool.count.capacity for pool in decision.pools))
        telemetry.metric(Metric.PENDING_PODS, figures(seen, decision)["unschedulable_pods"])
    for metric, name in ((Metric.CPU, "cpu"), (Metric.MEMORY, "memory")):
        value = mean(seen, decision, name)
        if value is not None:
            telemetry.metric(metric, value)
    for metric, count in (
        (Metric.SCALE_UPS, came.given),
        (Metric.SCALE_DOWNS, came.removed),
        (Metric.FAILURES, came.failures),
        (Metric.LEVEL, LEVELS[decision.level]),
        (Metric.API_SERVER_AWAY, int(isinstance(seen.kubernetes, Missing))),
        (Metric.EC2_AWAY, int(isinstance(seen.instances, Missing))),
        (Metric.EVICTIONS, sum(came.evictions.values())),
    ):
        telemetry.metric(metric, count)
    for metric, times in ((Metric.JOIN_LATENCY, came.joins), (Metric.DRAIN_TIME, came.drains)):
        for seconds in times:
            telemetry.metric(metric, seconds)
    costs = bill(seen)
    if costs:
        telemetry.metric(Metric.HOURLY_COST, costs.hourly_usd)
        telemetry.metric(Metric.SPOT_SHARE, costs.spot_percent)
    for metric, value in forecast_metrics(decision):
        telemetry.metric(metric, value)
    at_max = any(over.by == BoundSource.MAX for pool in decision.pools for over in pool.overruled)
    telemetry.metric(Metric.AT_MAX, float(at_max))
    telemetry.line(
        sentence(decision),
        look=looks,
        trust=decision.level.value,
        votes={pool.pool: pool.votes for pool in decision.pools},
        did=came.did,
        actions=[action.kind.value for action in came.actions],
        evictions=came.evictions,
        joins=came.joins,
        drains=came.drains,
        failures=came.failures,
        look_again=came.again,
        figures=figures(seen, decision),
        calls=telemetry.calls(),
        seconds=round((parts.time.now() - started).total_seconds(), 2),
    )
