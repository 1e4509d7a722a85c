"""One look: what is under way goes on first, then it is decided, then the steps are taken, then it is recorded.

All nodes that have to be cordoned are cordoned, and all launches are sent, before the first pod is evicted: a pod must
not land on the next doomed node. What is opened in a look is begun in the same look.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nodefleet.decide.burst import remember_duration
from nodefleet.decide.engine import decide
from nodefleet.domain.actions import ExecutedAction
from nodefleet.domain.decision import Decision
from nodefleet.domain.fleet import workers
from nodefleet.domain.memory import Memory
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import (
    Assign,
    CancelRemoval,
    Keep,
    Open,
    Operation,
    Removal,
    Step,
    Tell,
    Uncordon,
)
from nodefleet.domain.policy import Policy
from nodefleet.domain.records import DecisionRecord, Question
from nodefleet.errors import LostLeaseError, NodeFleetError, UnavailableError
from nodefleet.loop.book import Book
from nodefleet.loop.carry_out import Hands
from nodefleet.loop.governing import Governing, governing, with_fleet
from nodefleet.loop.observe import observe
from nodefleet.loop.parts import Parts
from nodefleet.loop.record import is_eventful, recorded
from nodefleet.loop.telling import explain_stays, tell_of_scaling
from nodefleet.loop.tidy import tidy, without_retired
from nodefleet.loop.usage import counted
from nodefleet.operations.advance import advance
from nodefleet.operations.removal import cancelled
from nodefleet.ports import Changes, Lease, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What came of a look."""

    policy: Policy
    seen: Observation
    decision: Decision
    again: str = ""  # why another look could change something
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


def look(parts: Parts, lease: Lease, state: State, number: int) -> Look:
    """The run's look of this number: it makes names unique within the run."""
    rules = governing(state, parts.policies, parts.time.now())
    seen = observe(parts, state, rules.policy, f"{lease.fence}.{number}", within=rules.policy.burst.every)
    rules = with_fleet(rules, state, seen, parts.time.now())
    policy = rules.policy
    seen = replace(seen, hold=rules.hold)
    book = Book(parts.store, lease, state.journal, policy, seen)
    if state.deployment:
        book.own_monthly_usd = sum(state.deployment.own_usd.values())
    hands = Hands(parts, lease, policy, seen, book)
    try:
        return _looked(parts, rules, book, hands, lease)
    except (LostLeaseError, UnavailableError):
        raise  # nothing can be written any more
    except Exception:
        book.flush()  # what was done is recorded, whatever went wrong then
        raise


def _looked(parts: Parts, rules: Governing, book: Book, hands: Hands, lease: Lease) -> Look:
    policy = rules.policy
    _govern(book, rules)
    late = _advance(hands, book, policy, hands.seen.operations)
    tidy(book, hands.seen, policy)
    hands.seen = without_retired(hands.seen, book)
    asked = replace(hands.seen, operations=tuple(book.operations.values()))
    question = Question(observation=asked, memory=book.memory, policy=policy)
    decision = decide(asked, book.memory, policy)
    book.decided(decision)
    begun = _write(book, decision, asked)
    record, content = recorded(
        question,
        decision,
        fence=lease.fence,
        version=rules.version,
        actions=hands.actions,
        eventful=is_eventful(decision) or bool(hands.actions),
    )
    book.audit(record)
    for step in begun.at_once:
        hands.take(None, step)
    fresh = [book.operations[identity] for identity in begun.operations if identity in book.operations]
    late |= _advance(hands, book, policy, fresh)
    for identity, steps in late.items():
        hands.late(identity, steps)
    explain_stays(parts, book, decision)
    _finish(parts, book, hands, decision, question, record, content, rules.version)
    return Look(
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


def _govern(book: Book, rules: Governing) -> None:
    if rules.adopted:
        book.adopt(rules.adopted)
    if rules.refused:
        book.refuse(rules.refused)
    for news in rules.news:
        book.news(news.kind, "", news.text, (news.subject,))


def _advance(hands: Hands, book: Book, policy: Policy, operations: Iterable[Operation]) -> dict[str, tuple[Step, ...]]:
    """Each operation a step further. Gives what has to wait until all cordons are set."""
    advancing = tuple(operations)
    if not advancing:
        return {}
    seen = replace(hands.seen, operations=tuple(book.operations.values()))
    fleet = workers(seen, policy)
    late = {}
    for operation in advancing:
        pool = policy.pool(operation.pool)
        if pool and pool.dry_run:
            continue  # it waits until the pool is no longer dry
        late[operation.id] = hands.early(operation, advance(operation, seen, policy, fleet, book.memory))
    return late


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    operations: tuple[str, ...]  # opened or changed by the plan, to be begun now
    at_once: tuple[Uncordon | Assign, ...]  # no operation is needed for them


def _write(book: Book, decision: Decision, seen: Observation) -> _Begun:
    """Write the plan down. A dry pool's is only told."""
    operations: list[str] = []
    at_once: list[Uncordon | Assign] = []
    for pool in (*decision.pools, None):
        if pool:
            tell_of_scaling(book, pool, seen)
        plan, dry_run = (pool.plan, pool.dry_run) if pool else (decision.plan, False)
        for step in plan:
            match step:
                case Tell():
                    book.tell(step, dry=dry_run)
                case _ if dry_run:
                    continue
                case Open(operation) | Keep(operation):
                    book.put(operation)
                    operations.append(operation.id)
                case CancelRemoval():
                    removal = book.operations.get(step.operation)
                    if isinstance(removal, Removal):
                        book.put(cancelled(removal, step.reason))
                        operations.append(removal.id)
                case Uncordon() | Assign():
                    at_once.append(step)
                case _:
                    raise AssertionError(f"a plan does not hold {type(step).__name__}")
    for tell in decision.tells:
        book.tell(tell)
    return _Begun(operations=tuple(dict.fromkeys(operations)), at_once=tuple(at_once))


# ── after it ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _finish(
    parts: Parts,
    book: Book,
    hands: Hands,
    decision: Decision,
    question: Question,
    record: DecisionRecord,
    content: bytes | None,
    version: int,
) -> None:
    """Usage, the archive, and what was done, in one last transaction."""
    if hands.actions and content is None:
        record, content = recorded(
            question, decision, fence=record.fence, version=version, actions=hands.actions, eventful=True
        )
    archived = record.archived
    if content is not None:
        archived = _archived(parts, record.archived, content)
    final = replace(record, did=tuple(hands.did), actions=tuple(hands.actions), archived=archived)
    if final != record or hands.actions:
        book.audit(final)
    usage = counted(
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


def _archived(parts: Parts, key: str, content: bytes) -> str:
    """Where it is kept. Scaling does not fail for want of an archive."""
    try:
        parts.archive.keep(key, content)
    except NodeFleetError as error:
        parts.telemetry.warn(f"The look could not be archived, so this decision cannot be replayed: {error}")
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
