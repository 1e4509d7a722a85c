"""One run: acquire the lease, reconcile, and requeue while another iteration could change something or a wake-up came.

An iteration starts only if it is expected to finish in the time left. The expectation is the longest of the recent
iterations, those of earlier runs included. The first iteration of a run that has its full time always starts;
otherwise a few slow iterations would stop the loop for good.

A run that finds the lease held ends at once. An urgent run first increments the wake counter on the lease, and the
holder does not release the lease before it has run one more iteration, so no wake-up is lost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil

from nodefleet.engine.decide import decide
from nodefleet.errors import LostLeaseError, NodeFleetError, UnavailableError
from nodefleet.model.decision import Decision, DecisionRecord
from nodefleet.model.fleet import Worker
from nodefleet.model.names import Metric
from nodefleet.model.operations import (
    Assign,
    CancelRemoval,
    Create,
    Operation,
    Removal,
    Save,
    SendAlert,
    Step,
    TakeOver,
    Uncordon,
)
from nodefleet.model.snapshot import Observation
from nodefleet.operations.advance import advance
from nodefleet.operations.removal import cancel_removal
from nodefleet.phases import derive_workers, rederive_workers
from nodefleet.policy.cluster import Burst, Policy
from nodefleet.ports import Changes, Lease, LeaseHeld, RunResult, Runtime, State
from nodefleet.reconcile.audit import (
    MAJOR,
    CycleResult,
    DecisionInput,
    archive_input,
    bill,
    figures,
    is_eventful,
    make_record,
    report_iteration,
    seed_attributes,
)
from nodefleet.reconcile.executor import Executor, record_node_event
from nodefleet.reconcile.observe import ActivePolicy, ended_commands, observe, resolve_policy, stale_notices, with_fleet
from nodefleet.reconcile.unit_of_work import UnitOfWork, alert_scaling, new_stays
from nodefleet.reconcile.usage import count_usage


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
        before = _read_start(runtime)
        lease = _acquire(runtime, owner, before.rules.policy)
    except NodeFleetError:
        runtime.telemetry.metric(Metric.LEVEL, MAJOR)
        raise
    if isinstance(lease, LeaseHeld):
        runtime.telemetry.metric(Metric.LEASE_HELD, 1)
        runtime.telemetry.line("Another run is at work", owner=lease.owner, until=lease.expires.isoformat())
        return RunResult(held=lease)
    try:
        result = _run_iterations(runtime, lease, before, started, requeues=requeues)
    except LostLeaseError:
        raise  # the lease belongs to another run: there is nothing to release
    except BaseException:
        _release(runtime, lease)
        raise
    took = (runtime.time.now() - started).total_seconds()
    runtime.telemetry.metric(Metric.DURATION, took)
    runtime.telemetry.metric(Metric.CALLS, runtime.telemetry.calls())
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The state as it was right before the lease: its policy sets the duration of the lease."""

    fence: int | None  # of the free lease
    state: State
    rules: ActivePolicy

    def is_current(self, lease: Lease) -> bool:
        """Whether no other run can have written meanwhile: none held the lease from before the state was read until we
        acquired it. What is written without the lease, such as a notice, comes with a wake-up."""
        return self.fence is not None and lease.fence == self.fence + 1


def _read_start(runtime: Runtime) -> _Start:
    """The lease is read first, because a query of several records is no snapshot: a run that held the lease then may
    write and end while the others are read."""
    fence = runtime.store.free_fence()
    state = runtime.store.state()
    return _Start(fence=fence, state=state, rules=resolve_policy(state, runtime.policies, runtime.time.now()))


def _acquire(runtime: Runtime, owner: str, policy: Policy) -> Lease | LeaseHeld:
    """Acquire the lease for no longer than this run can last, so that a crashed run blocks the next one briefly."""
    now = runtime.time.now()
    until = now + min(policy.lease, runtime.time.remaining() + policy.trust.clock_skew)
    return runtime.store.acquire(owner, now, until, policy.trust.clock_skew)


def _run_iterations(runtime: Runtime, lease: Lease, before: _Start, started: datetime, *, requeues: bool) -> RunResult:
    did: tuple[str, ...] = ()
    iterations = 0
    took: list[int] = []  # seconds that each iteration of this run took
    while True:
        began = runtime.time.now()
        if iterations == 0 and before.is_current(lease):
            state, rules = replace(before.state, fence=lease.fence), before.rules
        else:
            state = _read_state(runtime, lease)
            rules = resolve_policy(state, runtime.policies, runtime.time.now())
        if iterations == 0 and not _can_start_iteration(
            runtime, rules.policy, next_duration(state.journal.iterations, rules.policy.burst)
        ):
            runtime.store.release(lease, None)
            runtime.telemetry.line("An iteration may take longer than this run has left: the next run begins it")
            return RunResult(awake=True)
        iterations += 1
        result = reconcile_once(runtime, lease, state, rules, iterations)
        did += result.did
        report_iteration(runtime, result, iterations, started)
        burst = result.policy.burst
        took.append(ceil((runtime.time.now() - began).total_seconds()))
        expected = next_duration([*state.journal.iterations, *took][-burst.remembered :], burst)
        pause = timedelta(0) if result.at_once else burst.every
        if requeues and result.requeue_reason and _has_time(runtime, burst, started, pause, expected):
            _pause(runtime, pause, burst, state.wake)
            continue
        if runtime.store.release(lease, state.wake):
            return RunResult(iterations=iterations, decision=result.decision, did=did)
        if not _has_time(runtime, burst, started, timedelta(0), expected):
            runtime.store.release(lease, None)
            runtime.telemetry.line("A wake-up came, and the time of this run is up: the next run answers it")
            return RunResult(iterations=iterations, decision=result.decision, did=did, awake=True)


def _read_state(runtime: Runtime, lease: Lease) -> State:
    state = runtime.store.state()
    if state.fence != lease.fence:
        raise LostLeaseError(f"another run holds the cluster: fence {state.fence}, ours was {lease.fence}")
    return state


def _can_start_iteration(runtime: Runtime, policy: Policy, expected: timedelta) -> bool:
    """Whether the first iteration may start. It always may in a run that has its full time."""
    left = runtime.time.remaining()
    return left >= min(policy.burst.budget, expected + policy.burst.reserve)


def _has_time(runtime: Runtime, rules: Burst, started: datetime, pause: timedelta, expected: timedelta) -> bool:
    """Whether a pause and an iteration fit into this run's share of the tick and end before the function's timeout."""
    used = runtime.time.now() - started
    return used + pause < rules.budget and runtime.time.remaining() > pause + expected + rules.reserve


def next_duration(durations: Sequence[int], rules: Burst) -> timedelta:
    """How long the next iteration may take, by the longest of the last ones. Without any, nothing is known."""
    return timedelta(seconds=max(durations, default=0) * rules.margin)


def remember_duration(durations: tuple[int, ...], took: timedelta, rules: Burst) -> tuple[int, ...]:
    """The last iterations with this one, in whole seconds, rounded up."""
    return (*durations, ceil(took.total_seconds()))[-rules.remembered :]


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


# ── one iteration ────────────────────────────────────────────────────────────────────────────────────────────────────
# Advance open operations, decide, execute the plan, write the audit record. All cordons are set and all launches are
# sent before the first pod is evicted: an evicted pod must not be scheduled onto another node that is about to be
# drained. An operation that an iteration opens also starts in that iteration.


def reconcile_once(runtime: Runtime, lease: Lease, state: State, rules: ActivePolicy, number: int) -> CycleResult:
    """Run one iteration. Its `number` within the run makes the ids of new operations unique."""
    observation = observe(runtime, state, rules.policy, f"{lease.fence}.{number}", within=rules.policy.burst.every)
    rules = with_fleet(rules, state, observation, runtime.time.now())
    policy = rules.policy
    observation = replace(observation, hold=rules.hold)
    uow = UnitOfWork(runtime.store, lease, state.journal, policy, observation)
    if state.deployment:
        uow.own_monthly_usd = sum(state.deployment.own_usd.values())
    executor = Executor(runtime, lease, policy, observation, uow)
    try:
        return _iterate(runtime, rules, uow, executor, lease)
    except (LostLeaseError, UnavailableError):
        raise  # the table cannot be written
    except Exception:
        uow.flush()  # record the actions that were executed before the error
        raise


def _iterate(runtime: Runtime, rules: ActivePolicy, uow: UnitOfWork, executor: Executor, lease: Lease) -> CycleResult:
    policy = rules.policy
    _adopt_policy(uow, rules)
    fleet = _Fleet(policy)
    deferred = _advance(executor, uow, fleet, executor.observation.operations)
    uow.retire(stale_notices(executor.observation, uow.operations.values(), policy))
    uow.expire(ended_commands(executor.observation, policy))
    # A drained node may still carry a notice that is retired.
    executor.observation = replace(
        executor.observation, notices=tuple(each for each in executor.observation.notices if each not in uow.retired)
    )
    observation = replace(executor.observation, operations=tuple(uow.operations.values()))
    decision_input = DecisionInput(observation=observation, memory=uow.memory, policy=policy)
    decision = decide(observation, uow.memory, policy, fleet.workers(observation))
    uow.add_decision(decision)
    planned = _record_plan(uow, decision, observation)
    costs = bill(observation)
    values = figures(observation, decision, costs)
    record, content = make_record(
        decision_input,
        decision,
        fence=lease.fence,
        version=rules.version,
        actions=executor.actions,
        values=values,
        eventful=is_eventful(decision) or bool(executor.actions),
    )
    uow.audit(record)
    for step in planned.at_once:
        executor.execute(None, step)
    fresh = [uow.operations[identity] for identity in planned.operations if identity in uow.operations]
    deferred |= _advance(executor, uow, fleet, fresh)
    for identity, steps in deferred.items():
        executor.execute_late(identity, steps)
    explain_stays(runtime, uow, decision)
    _finish(runtime, uow, executor, decision, decision_input, record, content, rules.version)
    return CycleResult(
        policy=policy,
        observation=observation,
        decision=decision,
        requeue_reason="EC2 gave fewer than asked for" if executor.short else decision.look_again,
        at_once=executor.short,
        actions=tuple(executor.actions),
        failures=executor.failures + uow.failures,
        launched=executor.launched,
        removed=uow.removed,
        joins=tuple(uow.joins),
        drains=tuple(uow.drains),
        evictions=dict(executor.evictions),
        costs=costs,
        figures=values,
    )


# ── before the decision ──────────────────────────────────────────────────────────────────────────────────────────


def _adopt_policy(uow: UnitOfWork, rules: ActivePolicy) -> None:
    if rules.adopted:
        uow.adopt(rules.adopted)
    if rules.refused:
        uow.refuse(rules.refused)
    for alert in rules.news:
        uow.news(alert.kind, "", alert.text, (alert.subject,))


class _Fleet:
    """The workers of an iteration, derived again only as far as operations, notices or steps have changed them."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._known: tuple[Observation, tuple[Worker, ...]] | None = None

    def workers(self, observation: Observation) -> tuple[Worker, ...]:
        if self._known is None:
            workers = derive_workers(observation, self.policy)
        else:
            before, workers = self._known
            workers = rederive_workers(workers, before, observation, self.policy)
        self._known = observation, workers
        return workers


def _advance(
    executor: Executor, uow: UnitOfWork, fleet: _Fleet, operations: Iterable[Operation]
) -> dict[str, tuple[Step, ...]]:
    """Advance each operation and execute its early steps. Returns the steps of each that wait for all cordons."""
    advancing = tuple(operations)
    if not advancing:
        return {}
    observation = replace(executor.observation, operations=tuple(uow.operations.values()))
    workers = fleet.workers(observation)
    deferred = {}
    for operation in advancing:
        pool = fleet.policy.pool(operation.pool)
        if pool and pool.dry_run:
            continue  # the operation waits until dry_run is off
        deferred[operation.id] = executor.execute_early(
            operation, advance(operation, observation, fleet.policy, workers, uow.memory)
        )
    return deferred


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Advanced:
    operations: tuple[str, ...]  # created or changed by the plan; they start in this iteration
    at_once: tuple[Uncordon | Assign, ...]  # steps that need no operation


def _record_plan(uow: UnitOfWork, decision: Decision, observation: Observation) -> _Advanced:
    """Add the plan to the unit of work. Of a dry-run pool's plan only the alerts are added."""
    operations: list[str] = []
    at_once: list[Uncordon | Assign] = []
    for pool in (*decision.pools, None):
        if pool:
            alert_scaling(uow, pool, observation)
        plan, dry_run = (pool.plan, pool.dry_run) if pool else (decision.plan, False)
        for step in plan:
            match step:
                case SendAlert():
                    uow.send_alert(step, dry=dry_run)
                case _ if dry_run:
                    continue
                case Create(operation) | Save(operation):
                    uow.put(operation)
                    operations.append(operation.id)
                case CancelRemoval():
                    removal = uow.operations.get(step.operation)
                    if isinstance(removal, Removal):
                        uow.put(cancel_removal(removal, step.reason))
                        operations.append(removal.id)
                case TakeOver():
                    uow.take_over(step)
                case Uncordon() | Assign():
                    at_once.append(step)
                case _:
                    raise AssertionError(f"a plan does not hold {type(step).__name__}")
    for alert in decision.tells:
        uow.send_alert(alert)
    return _Advanced(operations=tuple(dict.fromkeys(operations)), at_once=tuple(at_once))


# ── after the decision ───────────────────────────────────────────────────────────────────────────────────────────


def _finish(
    runtime: Runtime,
    uow: UnitOfWork,
    executor: Executor,
    decision: Decision,
    decision_input: DecisionInput,
    record: DecisionRecord,
    content: bytes | None,
    version: int,
) -> None:
    """Archive the decision input, then commit usage, iteration durations and executed actions in one transaction."""
    if executor.actions and content is None:
        record, content = make_record(
            decision_input,
            decision,
            fence=record.fence,
            version=version,
            actions=executor.actions,
            values=record.figures,
            eventful=True,
        )
    archived = record.archived
    if content is not None:
        archived = archive_input(runtime, record.archived, content)
    final = replace(record, did=tuple(executor.did), actions=tuple(executor.actions), archived=archived)
    if final != record or executor.actions:
        uow.audit(final)
    usage = count_usage(
        uow.journal.usage,
        decision_input.observation,
        decision,
        uow.events,
        decision_input.policy,
        missing=uow.missing,
        own_monthly_usd=uow.own_monthly_usd,
    )
    took = runtime.time.now() - decision_input.observation.at
    durations = remember_duration(uow.journal.iterations, took, decision_input.policy.burst)
    uow.journal = replace(uow.journal, usage=usage.running, iterations=durations)
    uow.finish(Changes(usage=usage.over, seed=seed_attributes(decision, uow.memory)))
    uow.flush()


def explain_stays(runtime: Runtime, uow: UnitOfWork, decision: Decision) -> None:
    """Record an event on each node that cannot be removed, so that `kubectl describe node` shows the reason."""
    for stay in new_stays(uow, decision):
        detail = stay.detail or stay.reason.value
        record_node_event(runtime, stay.worker, "NodeFleetStays", f"cannot leave: {detail}")
