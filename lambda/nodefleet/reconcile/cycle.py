"""One reconcile iteration: advance open operations, decide, execute the plan, write the audit record.

All cordons are set and all launches are sent before the first pod is evicted: an evicted pod must not be scheduled onto
another node that is about to be drained. An operation that an iteration opens also starts in that iteration.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nodefleet.engine.decide import decide
from nodefleet.engine.requeue import remember_duration
from nodefleet.errors import LostLeaseError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, Decision, DecisionRecord, ExecutedAction, KeepReason, PoolDecision
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import InstanceState, Notice, price_of
from nodefleet.model.operations import (
    Assign,
    CancelRemoval,
    Create,
    Launch,
    Operation,
    Removal,
    Save,
    SendAlert,
    Step,
    Uncordon,
)
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import Adopt, Command, Drain, Observation, Recycle
from nodefleet.operations.advance import advance
from nodefleet.operations.removal import cancel_removal
from nodefleet.phases import derive_workers, in_force, is_false_alarm, operations_by_target
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.ports import Changes, Lease, Runtime, State
from nodefleet.reconcile.audit import (
    Bill,
    DecisionInput,
    archive_input,
    bill,
    figures,
    is_eventful,
    make_record,
    seed_attributes,
)
from nodefleet.reconcile.executor import Executor, record_node_event
from nodefleet.reconcile.observe import observe
from nodefleet.reconcile.policy_source import ActivePolicy, resolve_policy, with_fleet
from nodefleet.reconcile.unit_of_work import UnitOfWork
from nodefleet.reconcile.usage import count_usage

# ── alerts about scaling ─────────────────────────────────────────────────────────────────────────────────────────────
# Alerts say that the fleet changes and what the change costs. Events on a node say why that node cannot be removed.


_DAY_HOURS = 24
_MAX_NODE_EVENTS = 10  # in one iteration: the events of a large fleet must not flood the API server
_INTERNAL_REASONS = frozenset(
    {KeepReason.NOT_ASKED, KeepReason.CHOSEN, KeepReason.OUTRANKED, KeepReason.ONE_AT_A_TIME, KeepReason.NOT_READY}
)


def alert_scaling(uow: UnitOfWork, pool: PoolDecision, observation: Observation) -> None:
    if pool.action is Action.GROW:
        kind = AlertKind.SCALE_UP
    elif pool.action is Action.SHRINK and pool.dry_run:
        kind = AlertKind.SCALE_DOWN  # a real scale-down is announced when the node is gone
    else:
        return
    # A dry-run pool repeats its decision in every iteration, because the fleet never changes: deduplicate it.
    subjects = (f"to {pool.target}",)
    event = uow.alerts.event(kind, pool.pool, pool.reason, subjects) if pool.dry_run else None
    if event is None and pool.dry_run:
        return
    event = event or uow.alerts.make_event(kind, pool.pool, pool.reason, subjects)
    uow.add_event(
        replace(
            event,
            nodes=pool.target,
            change=pool.target - pool.count.capacity,
            usd_per_day=_cost(pool, observation),
            details=pool.votes,
            level=uow.memory.level,
            dry=pool.dry_run,
        )
    )


def _cost(pool: PoolDecision, observation: Observation) -> float | None:
    """The upper bound, in USD a day, of what the plan's launches add: each launch at its most expensive type."""
    catalog = observation.offers
    launches = [step.operation for step in pool.plan if isinstance(step, Create) and isinstance(step.operation, Launch)]
    total = 0.0
    for launch in launches:
        prices = [price_of(name, launch.market, catalog) for name in launch.types]
        known = [price for price in prices if price is not None]
        if not known:
            return None
        total += max(known) * launch.count * _DAY_HOURS
    return total if launches else None


def explain_stays(runtime: Runtime, uow: UnitOfWork, decision: Decision) -> None:
    """Record an event on each node that cannot be removed, so that `kubectl describe node` shows the reason."""
    recorded_events = 0
    for pool in decision.pools:
        for stay in pool.stays:
            if stay.reason in _INTERNAL_REASONS or recorded_events >= _MAX_NODE_EVENTS:
                continue
            if uow.alerts.is_news(f"stay|{stay.worker}|{stay.reason.value}"):
                record_node_event(
                    runtime, stay.worker, "NodeFleetStays", f"cannot leave: {stay.detail or stay.reason.value}"
                )
                recorded_events += 1


# ── expiry ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Notices of instances that are gone and commands that have ended are removed from the table.


def expire_stale(uow: UnitOfWork, observation: Observation, policy: Policy) -> None:
    """Retire notices that no longer apply, and expire commands that have ended."""
    open_on = {each.instance for each in uow.operations.values() if isinstance(each, Removal)}
    # A withdrawal is kept until the time that it names: EC2 may deliver the withdrawn notice once more.
    kept = {*in_force(observation.notices), *(notice for notice in observation.notices if notice.withdrawn)}
    uow.retire(
        n
        for n in observation.notices
        if n.instance not in open_on and (n not in kept or _is_over(n, observation, policy))
    )
    uow.expire(command for command in observation.commands if _has_ended(command, observation, policy))


def _has_ended(command: Command, observation: Observation, policy: Policy) -> bool:
    """Whether the command has passed its end time or has been carried out."""
    if command.until is not None and command.until <= observation.at:
        return True
    if not isinstance(command, Adopt | Drain | Recycle) or isinstance(observation.instances, Missing):
        return False
    instance = next((each for each in observation.instances if each.id == command.instance), None)
    if instance is None:
        return False  # EC2's list is eventually consistent and may not show the instance yet
    owned = policy.pool(instance.pool) is not None
    return instance.state is InstanceState.TERMINATED or (owned and not isinstance(command, Recycle))


def _is_over(notice: Notice, observation: Observation, policy: Policy) -> bool:
    """Whether the notice's instance is gone, or every pool's rules treat the notice as a false alarm."""
    if all(is_false_alarm(notice, rules, observation.at) for rules in (*policy.pools, Pool())):
        return True
    instances = () if isinstance(observation.instances, Missing) else observation.instances
    ended = (each.id for each in instances if each.state is InstanceState.TERMINATED)
    return notice.instance in ended


def without_retired(observation: Observation, uow: UnitOfWork) -> Observation:
    """The observation without retired notices, which a drained node may still carry."""
    return replace(observation, notices=tuple(notice for notice in observation.notices if notice not in uow.retired))


# ── the iteration ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """The outcome of an iteration."""

    policy: Policy
    observation: Observation
    decision: Decision
    requeue_reason: str = ""  # why another iteration could change something
    at_once: bool = False  # that iteration starts without a pause
    actions: tuple[ExecutedAction, ...] = ()
    failures: int = 0
    launched: int = 0
    removed: int = 0
    joins: tuple[float, ...] = ()  # seconds that each new node took to join
    drains: tuple[float, ...] = ()  # seconds of each completed voluntary removal
    evictions: dict[str, int]
    costs: Bill | None  # what the workers cost now; none: not known
    figures: Mapping[str, float]

    @property
    def did(self) -> tuple[str, ...]:
        """One sentence for each executed action."""
        return tuple(str(action) for action in self.actions)


def reconcile_once(runtime: Runtime, lease: Lease, state: State, number: int) -> CycleResult:
    """Run one iteration. Its `number` within the run makes the ids of new operations unique."""
    rules = resolve_policy(state, runtime.policies, runtime.time.now())
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
    expire_stale(uow, executor.observation, policy)
    executor.observation = without_retired(executor.observation, uow)
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
    """The workers of an iteration: derived again only if the operation or a notice of one of them has changed."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._known: tuple[object, tuple[Worker, ...]] | None = None

    def workers(self, observation: Observation) -> tuple[Worker, ...]:
        # Observations of one iteration share their parts, so comparing them costs next to nothing. A launch without
        # instances concerns no worker.
        parts = observation.instances, observation.kubernetes, observation.notices
        basis = parts, operations_by_target(observation.operations)
        if self._known is None or self._known[0] != basis:
            self._known = basis, derive_workers(observation, self.policy)
        return self._known[1]


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
        own_monthly_usd=uow.own_monthly_usd,
    )
    took = runtime.time.now() - decision_input.observation.at
    durations = remember_duration(uow.journal.iterations, took, decision_input.policy.burst)
    uow.journal = replace(uow.journal, usage=usage.running, iterations=durations)
    uow.finish(Changes(usage=usage.over, seed=seed_attributes(decision, uow.memory)))
    uow.flush()
