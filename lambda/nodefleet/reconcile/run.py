"""One run: acquire the lease, reconcile, and requeue while another iteration could change something or a wake-up came.

An iteration starts only if it is expected to finish in the time left. The expectation is the longest of the recent
iterations, those of earlier runs included. The first iteration of a run that has its full time always starts;
otherwise a few slow iterations would stop the loop for good.

A run that finds the lease held ends at once. An urgent run first increments the wake counter on the lease, and the
holder does not release the lease before it has run one more iteration, so no wake-up is lost.
"""

from datetime import datetime, timedelta
from math import ceil

from nodefleet.engine.requeue import next_duration
from nodefleet.errors import LostLeaseError, NodeFleetError
from nodefleet.model.decision import BoundSource
from nodefleet.model.names import Metric
from nodefleet.model.readings import Missing
from nodefleet.model.state import Level
from nodefleet.policy.cluster import Burst, Policy
from nodefleet.ports import Lease, LeaseHeld, RunResult, Runtime
from nodefleet.reconcile.audit import LEVELS, MAJOR, forecast_metrics, mean, sentence
from nodefleet.reconcile.cycle import CycleResult, reconcile_once
from nodefleet.reconcile.policy_source import resolve_policy


def run(
    runtime: Runtime, *, owner: str, urgent: bool = False, scheduled: bool = False, requeues: bool = True
) -> RunResult:
    """Run the control loop of one cluster. An error is raised after the executed actions are recorded and the lease
    is released. Without `requeues` only a wake-up makes another iteration: others wait for this run's place."""
    started = runtime.time.now()
    runtime.telemetry.metric(Metric.INVOCATIONS, 1)
    if scheduled:  # alerts and interruption warnings also start runs and must not hide a schedule that has stopped
        runtime.telemetry.metric(Metric.SCHEDULED_RUNS, 1)
    try:
        if urgent:
            runtime.store.wake()
        policy = _lease_policy(runtime)
        lease = _acquire(runtime, owner, policy)
    except NodeFleetError:
        runtime.telemetry.metric(Metric.LEVEL, MAJOR)
        raise
    if isinstance(lease, LeaseHeld):
        runtime.telemetry.metric(Metric.LEASE_HELD, 1)
        runtime.telemetry.line("Another run is at work", owner=lease.owner, until=lease.expires.isoformat())
        return RunResult(held=lease)
    try:
        result = _run_iterations(runtime, lease, policy, started, requeues=requeues)
    except LostLeaseError:
        raise  # the lease belongs to another run: there is nothing to release
    except BaseException:
        _release(runtime, lease)
        raise
    took = (runtime.time.now() - started).total_seconds()
    runtime.telemetry.metric(Metric.DURATION, took)
    runtime.telemetry.metric(Metric.CALLS, runtime.telemetry.calls())
    return result


def _lease_policy(runtime: Runtime) -> Policy:
    """The policy that sets the duration of the lease. Each iteration resolves the policy again."""
    return resolve_policy(runtime.store.state(), runtime.policies, runtime.time.now()).policy


def _acquire(runtime: Runtime, owner: str, policy: Policy) -> Lease | LeaseHeld:
    """Acquire the lease for no longer than this run can last, so that a crashed run blocks the next one briefly."""
    now = runtime.time.now()
    until = now + min(policy.lease, runtime.time.remaining() + policy.trust.clock_skew)
    return runtime.store.acquire(owner, now, until, policy.trust.clock_skew)


def _run_iterations(runtime: Runtime, lease: Lease, policy: Policy, started: datetime, *, requeues: bool) -> RunResult:
    did: tuple[str, ...] = ()
    iterations = 0
    took: list[int] = []  # seconds that each iteration of this run took
    while True:
        began = runtime.time.now()
        state = runtime.store.state()
        if state.fence != lease.fence:
            raise LostLeaseError(f"another run holds the cluster: fence {state.fence}, ours was {lease.fence}")
        if iterations == 0 and not _can_start_iteration(
            runtime, policy, next_duration(state.journal.iterations, policy.burst)
        ):
            runtime.store.release(lease, None)
            runtime.telemetry.line("An iteration may take longer than this run has left: the next run looks")
            return RunResult(awake=True)
        iterations += 1
        result = reconcile_once(runtime, lease, state, iterations)
        did += result.did
        _report(runtime, result, iterations, started)
        rules = result.policy.burst
        took.append(ceil((runtime.time.now() - began).total_seconds()))
        expected = next_duration([*state.journal.iterations, *took][-rules.remembered :], rules)
        pause = timedelta(0) if result.at_once else rules.every
        if requeues and result.requeue_reason and _has_time(runtime, rules, started, pause, expected):
            _pause(runtime, pause, rules, state.wake)
            continue
        if runtime.store.release(lease, state.wake):
            return RunResult(iterations=iterations, decision=result.decision, did=did)
        if not _has_time(runtime, rules, started, timedelta(0), expected):
            runtime.store.release(lease, None)
            runtime.telemetry.line("Somebody woke this run, and its time is up: the next run looks again")
            return RunResult(iterations=iterations, decision=result.decision, did=did, awake=True)


def _can_start_iteration(runtime: Runtime, policy: Policy, expected: timedelta) -> bool:
    """Whether the first iteration may start. It always may in a run that has its full time."""
    left = runtime.time.remaining()
    return left >= min(policy.burst.budget, expected + policy.burst.reserve)


def _has_time(runtime: Runtime, rules: Burst, started: datetime, pause: timedelta, expected: timedelta) -> bool:
    """Whether a pause and an iteration fit into this run's share of the tick and end before the function's timeout."""
    used = runtime.time.now() - started
    return used + pause < rules.budget and runtime.time.remaining() > pause + expected + rules.reserve


def _pause(runtime: Runtime, pause: timedelta, rules: Burst, wakes: int) -> None:
    """Sleep until the next iteration is due, or until the wake counter differs from `wakes`."""
    until = runtime.time.now() + pause
    while (left := until - runtime.time.now()) > timedelta(0):
        runtime.time.sleep(min(left, rules.wake_check))
        if runtime.time.now() < until and _woken(runtime, wakes):
            return


def _woken(runtime: Runtime, wakes: int) -> bool:
    try:
        return runtime.store.wakes() != wakes
    except NodeFleetError as error:
        runtime.telemetry.warn(
            f"Whether an urgent run came cannot be read; the next iteration is not begun early: {error}"
        )
        return False


def _release(runtime: Runtime, lease: Lease) -> None:
    try:
        runtime.store.release(lease, None)
    except NodeFleetError as error:
        runtime.telemetry.warn(f"The lease could not be released; it expires at {lease.expires:%H:%M:%S} UTC: {error}")


def _report(runtime: Runtime, result: CycleResult, iterations: int, started: datetime) -> None:
    """Emit the metrics of an iteration and the log line that summarises it for operators."""
    decision, observation, telemetry = result.decision, result.observation, runtime.telemetry
    if decision.level is not Level.PARTIAL:
        telemetry.metric(Metric.CURRENT_NODE_COUNT, sum(pool.count.capacity for pool in decision.pools))
        telemetry.metric(Metric.PENDING_PODS, result.figures["unschedulable_pods"])
    for metric, name in ((Metric.CPU, "cpu"), (Metric.MEMORY, "memory")):
        value = mean(observation, decision, name)
        if value is not None:
            telemetry.metric(metric, value)
    for metric, count in (
        (Metric.SCALE_UPS, result.launched),
        (Metric.SCALE_DOWNS, result.removed),
        (Metric.FAILURES, result.failures),
        (Metric.LEVEL, LEVELS[decision.level]),
        (Metric.API_SERVER_AWAY, int(isinstance(observation.kubernetes, Missing))),
        (Metric.EC2_AWAY, int(isinstance(observation.instances, Missing))),
        (Metric.EVICTIONS, sum(result.evictions.values())),
    ):
        telemetry.metric(metric, count)
    for metric, times in ((Metric.JOIN_LATENCY, result.joins), (Metric.DRAIN_TIME, result.drains)):
        for seconds in times:
            telemetry.metric(metric, seconds)
    if result.costs:
        telemetry.metric(Metric.HOURLY_COST, result.costs.hourly_usd)
        telemetry.metric(Metric.SPOT_SHARE, result.costs.spot_percent)
    for metric, value in forecast_metrics(decision):
        telemetry.metric(metric, value)
    at_max = any(over.by == BoundSource.MAX for pool in decision.pools for over in pool.overruled)
    telemetry.metric(Metric.AT_MAX, float(at_max))
    telemetry.line(
        sentence(decision),
        look=iterations,
        trust=decision.level.value,
        votes={pool.pool: pool.votes for pool in decision.pools},
        did=result.did,
        actions=[action.kind.value for action in result.actions],
        evictions=result.evictions,
        joins=result.joins,
        drains=result.drains,
        failures=result.failures,
        look_again=result.requeue_reason,
        figures=result.figures,
        calls=telemetry.calls(),
        seconds=round((runtime.time.now() - started).total_seconds(), 2),
    )
