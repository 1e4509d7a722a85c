"""One iteration: what is under way goes on first, then it is decided, then the steps are taken, then it is recorded.

All nodes that have to be cordoned are cordoned, and all launches are sent, before the first pod is evicted: a pod must
not land on the next interrupted node. What is opened in an iteration is begun in the same iteration.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodefleet.engine.decide import decide
from nodefleet.engine.requeue import remember_duration
from nodefleet.errors import LostLeaseError, NodeFleetError, UnavailableError
from nodefleet.model.actions import ExecutedAction
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, Decision, DecisionRecord, KeepReason, PoolDecision
from nodefleet.model.inventory import InstanceState, Notice
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
from nodefleet.model.state import Memory
from nodefleet.operations.advance import advance
from nodefleet.operations.removal import cancel_removal
from nodefleet.phases import derive_workers, in_force, is_false_alarm
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.ports import Changes, Lease, Runtime, State
from nodefleet.reconcile.audit import DecisionInput, is_eventful, make_record
from nodefleet.reconcile.executor import Executor, note
from nodefleet.reconcile.observe import observe
from nodefleet.reconcile.policy_source import ActivePolicy, resolve_policy, with_fleet
from nodefleet.reconcile.unit_of_work import UnitOfWork
from nodefleet.reconcile.usage import count_usage, price_of

# ── alerts about scaling ─────────────────────────────────────────────────────────────────────────────────────────────
# What operators hear of a decision: that the fleet changes and what it costs, and on a node why it cannot leave.


_DAY_HOURS = 24
_NOTES = 10  # events on nodes in one iteration: a big fleet must not flood the API server
_OUR_BUSINESS = frozenset(
    {KeepReason.NOT_ASKED, KeepReason.CHOSEN, KeepReason.OUTRANKED, KeepReason.ONE_AT_A_TIME, KeepReason.NOT_READY}
)


def alert_scaling(book: UnitOfWork, pool: PoolDecision, seen: Observation) -> None:
    if pool.action is Action.GROW:
        kind = AlertKind.SCALE_UP
    elif pool.action is Action.SHRINK and pool.dry_run:
        kind = AlertKind.SCALE_DOWN  # otherwise it is told when the node is gone
    else:
        return
    # A dry pool decides the same again and again: nothing comes of it.
    subjects = (f"to {pool.target}",)
    event = book.saying.event(kind, pool.pool, pool.reason, subjects) if pool.dry_run else None
    if event is None and pool.dry_run:
        return
    event = event or book.saying.make_event(kind, pool.pool, pool.reason, subjects)
    book.add_event(
        replace(
            event,
            nodes=pool.target,
            change=pool.target - pool.count.capacity,
            usd_per_day=_cost(pool, seen),
            details=pool.votes,
            level=book.memory.level,
            dry=pool.dry_run,
        )
    )


def _cost(pool: PoolDecision, seen: Observation) -> float | None:
    """USD a day that the launches of a plan add at most: the most expensive of each launch's types."""
    catalog = {kind.name: kind for kind in seen.catalog}
    launches = [step.operation for step in pool.plan if isinstance(step, Create) and isinstance(step.operation, Launch)]
    total = 0.0
    for launch in launches:
        prices = [price_of(name, launch.market, catalog) for name in launch.types]
        known = [price for price in prices if price is not None]
        if not known:
            return None
        total += max(known) * launch.count * _DAY_HOURS
    return total if launches else None


def explain_stays(parts: Runtime, book: UnitOfWork, decision: Decision) -> None:
    """Why a node cannot leave, on the node itself, for whoever describes it."""
    told = 0
    for pool in decision.pools:
        for stay in pool.stays:
            if stay.reason in _OUR_BUSINESS or told >= _NOTES:
                continue
            if book.saying.is_news(f"stay|{stay.worker}|{stay.reason.value}"):
                note(parts, stay.worker, "NodeFleetStays", f"cannot leave: {stay.detail or stay.reason.value}")
                told += 1


# ── expiry ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# What is over is let go of: notices of instances that are gone, and commands that have ended.


def expire_stale(book: UnitOfWork, seen: Observation, policy: Policy) -> None:
    """Let go of notices that are over and of commands that have ended."""
    open_on = {each.instance for each in book.operations.values() if isinstance(each, Removal)}
    # A withdrawal is kept until the time it speaks of: the word that it takes back may come once more.
    kept = {*in_force(seen.notices), *(notice for notice in seen.notices if notice.withdrawn)}
    book.retire(n for n in seen.notices if n.instance not in open_on and (n not in kept or _is_over(n, seen, policy)))
    book.expire(command for command in seen.commands if _has_ended(command, seen, policy))


def _has_ended(command: Command, seen: Observation, policy: Policy) -> bool:
    """Its time is over, or what it asked for is done."""
    if command.until is not None and command.until <= seen.at:
        return True
    if not isinstance(command, Adopt | Drain | Recycle) or isinstance(seen.instances, Missing):
        return False
    instance = next((each for each in seen.instances if each.id == command.instance), None)
    if instance is None:
        return False  # EC2's list may be behind
    owned = policy.pool(instance.pool) is not None
    return instance.state is InstanceState.TERMINATED or (owned and not isinstance(command, Recycle))


def _is_over(notice: Notice, seen: Observation, policy: Policy) -> bool:
    """Its instance is gone, or by no pool's rules it means anything any more."""
    if all(is_false_alarm(notice, rules, seen.at) for rules in (*policy.pools, Pool())):
        return True
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    ended = (each.id for each in instances if each.state is InstanceState.TERMINATED)
    return notice.instance in ended


def without_retired(seen: Observation, book: UnitOfWork) -> Observation:
    """What is over is not seen any more, though its node may still say it."""
    return replace(seen, notices=tuple(notice for notice in seen.notices if notice not in book.retired))


# ── the iteration ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """What came of an iteration."""

    policy: Policy
    seen: Observation
    decision: Decision
    again: str = ""  # why another iteration could change something
    at_once: bool = False  # … and there is no need to wait for it
    actions: tuple[ExecutedAction, ...] = ()
    failures: int = 0
    given: int = 0
    removed: int = 0
    joins: tuple[float, ...] = ()  # seconds that each took
    drains: tuple[float, ...] = ()
    evictions: dict[str, int]

    @property
    def did(self) -> tuple[str, ...]:
        """A sentence each."""
        return tuple(str(action) for action in self.actions)


def reconcile_once(parts: Runtime, lease: Lease, state: State, number: int) -> CycleResult:
    """The run's look of this number: it makes names unique within the run."""
    rules = resolve_policy(state, parts.policies, parts.time.now())
    seen = observe(parts, state, rules.policy, f"{lease.fence}.{number}", within=rules.policy.burst.every)
    rules = with_fleet(rules, state, seen, parts.time.now())
    policy = rules.policy
    seen = replace(seen, hold=rules.hold)
    book = UnitOfWork(parts.store, lease, state.journal, policy, seen)
    if state.deployment:
        book.own_monthly_usd = sum(state.deployment.own_usd.values())
    hands = Executor(parts, lease, policy, seen, book)
    try:
        return _iterate(parts, rules, book, hands, lease)
    except (LostLeaseError, UnavailableError):
        raise  # nothing can be written any more
    except Exception:
        book.flush()  # what was done is recorded, whatever went wrong then
        raise


def _iterate(parts: Runtime, rules: ActivePolicy, book: UnitOfWork, hands: Executor, lease: Lease) -> CycleResult:
    policy = rules.policy
    _govern(book, rules)
    late = _advance(hands, book, policy, hands.seen.operations)
    expire_stale(book, hands.seen, policy)
    hands.seen = without_retired(hands.seen, book)
    asked = replace(hands.seen, operations=tuple(book.operations.values()))
    question = DecisionInput(observation=asked, memory=book.memory, policy=policy)
    decision = decide(asked, book.memory, policy)
    book.add_decision(decision)
    begun = _write(book, decision, asked)
    record, content = make_record(
        question,
        decision,
        fence=lease.fence,
        version=rules.version,
        actions=hands.actions,
        eventful=is_eventful(decision) or bool(hands.actions),
    )
    book.audit(record)
    for step in begun.at_once:
        hands.execute(None, step)
    fresh = [book.operations[identity] for identity in begun.operations if identity in book.operations]
    late |= _advance(hands, book, policy, fresh)
    for identity, steps in late.items():
        hands.late(identity, steps)
    explain_stays(parts, book, decision)
    _finish(parts, book, hands, decision, question, record, content, rules.version)
    return CycleResult(
        policy=policy,
        seen=asked,
        decision=decision,
        again="EC2 gave fewer than asked for" if hands.short else decision.look_again,
        at_once=hands.short,
        actions=tuple(hands.actions),
        failures=hands.failures + book.failures,
        given=hands.given,
        removed=book.removed,
        joins=tuple(book.joins),
        drains=tuple(book.drains),
        evictions=dict(hands.evictions),
    )


# ── before the decision ──────────────────────────────────────────────────────────────────────────────────────────


def _govern(book: UnitOfWork, rules: ActivePolicy) -> None:
    if rules.adopted:
        book.adopt(rules.adopted)
    if rules.refused:
        book.refuse(rules.refused)
    for news in rules.news:
        book.news(news.kind, "", news.text, (news.subject,))


def _advance(
    hands: Executor, book: UnitOfWork, policy: Policy, operations: Iterable[Operation]
) -> dict[str, tuple[Step, ...]]:
    """Each operation a step further. Gives what has to wait until all cordons are set."""
    advancing = tuple(operations)
    if not advancing:
        return {}
    seen = replace(hands.seen, operations=tuple(book.operations.values()))
    fleet = derive_workers(seen, policy)
    late = {}
    for operation in advancing:
        pool = policy.pool(operation.pool)
        if pool and pool.dry_run:
            continue  # it waits until the pool is no longer dry
        late[operation.id] = hands.early(operation, advance(operation, seen, policy, fleet, book.memory))
    return late


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Advanced:
    operations: tuple[str, ...]  # opened or changed by the plan, to be begun now
    at_once: tuple[Uncordon | Assign, ...]  # no operation is needed for them


def _write(book: UnitOfWork, decision: Decision, seen: Observation) -> _Advanced:
    """Write the plan down. A dry pool's is only told."""
    operations: list[str] = []
    at_once: list[Uncordon | Assign] = []
    for pool in (*decision.pools, None):
        if pool:
            alert_scaling(book, pool, seen)
        plan, dry_run = (pool.plan, pool.dry_run) if pool else (decision.plan, False)
        for step in plan:
            match step:
                case SendAlert():
                    book.tell(step, dry=dry_run)
                case _ if dry_run:
                    continue
                case Create(operation) | Save(operation):
                    book.put(operation)
                    operations.append(operation.id)
                case CancelRemoval():
                    removal = book.operations.get(step.operation)
                    if isinstance(removal, Removal):
                        book.put(cancel_removal(removal, step.reason))
                        operations.append(removal.id)
                case Uncordon() | Assign():
                    at_once.append(step)
                case _:
                    raise AssertionError(f"a plan does not hold {type(step).__name__}")
    for tell in decision.tells:
        book.tell(tell)
    return _Advanced(operations=tuple(dict.fromkeys(operations)), at_once=tuple(at_once))


# ── after it ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _finish(
    parts: Runtime,
    book: UnitOfWork,
    hands: Executor,
    decision: Decision,
    question: DecisionInput,
    record: DecisionRecord,
    content: bytes | None,
    version: int,
) -> None:
    """Usage, the archive, and what was done, in one last transaction."""
    if hands.actions and content is None:
        record, content = make_record(
            question, decision, fence=record.fence, version=version, actions=hands.actions, eventful=True
        )
    archived = record.archived
    if content is not None:
        archived = _archive(parts, record.archived, content)
    final = replace(record, did=tuple(hands.did), actions=tuple(hands.actions), archived=archived)
    if final != record or hands.actions:
        book.audit(final)
    usage = count_usage(
        book.journal.usage,
        question.observation,
        decision,
        book.events,
        question.policy,
        own_monthly_usd=book.own_monthly_usd,
    )
    took = parts.time.now() - question.observation.at
    durations = remember_duration(book.journal.iterations, took, question.policy.burst)
    book.journal = replace(book.journal, usage=usage.running, iterations=durations)
    book.finish(Changes(usage=usage.over, seed=_seed(decision, book.memory)))
    book.flush()


def _archive(parts: Runtime, key: str, content: bytes) -> str:
    """Where it is kept. Scaling does not fail for want of an archive."""
    try:
        parts.archive.keep(key, content)
    except NodeFleetError as error:
        parts.telemetry.warn(f"The iteration could not be archived, so this decision cannot be replayed: {error}")
        return ""
    return key


def _seed(decision: Decision, memory: Memory) -> dict[str, object]:
    """The attributes that the system's first description names."""
    times = [
        (at, action)
        for pool in memory.pools.values()
        for at, action in ((pool.last_grow, "scale_up"), (pool.last_shrink, "scale_down"))
        if at is not None
    ]
    seed: dict[str, object] = {"node_count": sum(pool.count.capacity for pool in decision.pools)}
    if times:
        at, action = max(times)
        seed |= {"last_scale_time": at.isoformat(), "last_scale_action": action}
    return seed
