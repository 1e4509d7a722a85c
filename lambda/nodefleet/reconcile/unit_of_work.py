"""The unit of work collects the changes of an iteration and commits them before the next step relies on them. It sends
alerts once for each condition."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256

from nodefleet.engine.standby import order_of
from nodefleet.model.alerts import CRITICAL, NEVER_HELD_BACK, SEEN_ON_ATTEMPTS, AlertKind
from nodefleet.model.decision import (
    Action,
    Decision,
    DecisionRecord,
    Event,
    KeepReason,
    KeptNode,
    PolicyVersion,
    PoolDecision,
)
from nodefleet.model.inventory import Notice, price_of
from nodefleet.model.operations import (
    Close,
    Create,
    Feedback,
    Joined,
    JoinFailed,
    Launch,
    Operation,
    Outcome,
    Removal,
    RemovalReason,
    SendAlert,
    Shortfall,
    TakeOver,
)
from nodefleet.model.snapshot import Command, Observation
from nodefleet.model.state import AlertRecord, Level, LoopState, Memory
from nodefleet.operations.progress import apply_feedback, join_backoffs
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Messages, Policy
from nodefleet.ports import Changes, Lease, Store
from nodefleet.reconcile.usage import CONSOLIDATED, ROTATED

# ── deduplication of alerts ──────────────────────────────────────────────────────────────────────────────────────────
# Deduplication: an alert is sent once for each condition, not once for each iteration.
#
# Kind, pool and subjects identify an alert; figures, pod names and the wording do not. An alert with several subjects
# is new when one of its subjects is new. An alert is sent again
#
#     when                                                     after
#     the condition lasts                                      remind_after; remind_critical if it is critical
#     the condition ended for a while and is back              over_after; a condition that is visible only when
#                                                              a launch or a drain is attempted again counts as lasting
#
# Of many new alerts of one kind and pool with different subjects, `most` are sent within remind_after, and the last
# of them says until when the others are held back. Interruptions, forced deletions and readmissions are never held
# back: each happens to a node once, and EC2 limits their number.
#
# A scale-up is announced when it is decided. While EC2 refuses its instances, or none of them joins, it is decided
# again and again: such a repetition is no news unless it wants more nodes than the one that was announced.


def key_of(kind: str, pool: str, subject: str) -> str:
    return sha256(f"{kind}|{pool}|{subject}".encode()).hexdigest()[:16]


def event_id(cluster: str, key: str, at: datetime) -> str:
    return f"{key}-{sha256(f'{cluster}|{key}|{at.isoformat()}'.encode()).hexdigest()[:12]}"


@dataclass(slots=True)
class AlertDeduplicator:
    """The alerts sent so far, and those of this iteration."""

    cluster: str
    now: datetime
    rules: Messages
    records: dict[str, AlertRecord] = field(default_factory=dict)

    @classmethod
    def since(
        cls, records: Mapping[str, AlertRecord], cluster: str, now: datetime, rules: Messages
    ) -> "AlertDeduplicator":
        """Restore the stored records. Conditions not observed for remind_after are dropped: they count as new."""
        kept = {key: each for key, each in records.items() if now - each.seen_at < rules.remind_after}
        return cls(cluster=cluster, now=now, rules=rules, records=kept)

    def is_news(self, key: str) -> bool:
        """Whether a condition is new or due for a reminder. Records that it was observed now."""
        known = self.records.get(key)
        news = known is None or self._is_back(known) or self._is_due(known, self.rules.remind_after)
        self._remember(key, alerted=news)
        return news

    def event(
        self, kind: AlertKind, pool: str, text: str, subjects: Iterable[str] = (), *, critical: bool = False
    ) -> Event | None:
        """The event to send; None if the alert repeats a known condition or is held back."""
        unique = tuple(dict.fromkeys(subjects))
        keys = [key_of(kind.value, pool, subject) for subject in sorted(unique) or [""]]
        known = [self.records.get(key) for key in keys]
        is_critical = critical or kind in CRITICAL
        remind = self.rules.remind_critical if is_critical else self.rules.remind_after
        back = any(each is None or (kind not in SEEN_ON_ATTEMPTS and self._is_back(each)) for each in known)
        if back and not self._has_room(kind, pool):
            for key, each in zip(keys, known, strict=True):
                if each is not None:
                    self._remember(key, alerted=False)
            return None
        news = back or any(each is not None and self._is_due(each, remind) for each in known)
        for key in keys:
            self._remember(key, alerted=news)
        if not news:
            return None
        text += self._count_alert(kind, pool) if back else ""
        return self.make_event(kind, pool, text, unique, key=keys[0])

    def make_event(
        self, kind: AlertKind, pool: str, text: str, subjects: Iterable[str] = (), *, key: str = ""
    ) -> Event:
        """An event without deduplication, for something that happened just now. Subjects distinguish two events of the
        same kind, pool and time."""
        unique = tuple(subjects)
        key = key or key_of(kind.value, pool, ",".join(unique))
        return Event(
            id=event_id(self.cluster, key, self.now),
            at=self.now,
            cluster=self.cluster,
            kind=kind,
            pool=pool,
            subjects=unique,
            text=text,
        )

    def is_new_growth(self, pool: str, target: int, *, in_vain: bool) -> bool:
        """Whether to announce a growth to `target`. `in_vain`: nothing came of the last one."""
        key = key_of(AlertKind.SCALE_UP.value, pool, "announced")
        known = self.records.get(key)
        if in_vain and known is not None:
            repeated = known.times >= target and not self._is_due(known, self.rules.remind_after)
            if repeated or not self._has_room(AlertKind.SCALE_UP, pool):
                self.records[key] = replace(known, seen_at=self.now)
                return False
            self._count_alert(AlertKind.SCALE_UP, pool)
        self.records[key] = AlertRecord(told_at=self.now, seen_at=self.now, times=target)
        return True

    def note_refusal(self, pool: str) -> None:
        """EC2 gave fewer instances than a launch asked for."""
        self._remember(key_of(AlertKind.SCALE_UP.value, pool, "refused"), alerted=True)

    def forget_refusal(self, pool: str) -> None:
        self.records.pop(key_of(AlertKind.SCALE_UP.value, pool, "refused"), None)

    def is_refused(self, pool: str, lasting: timedelta) -> bool:
        """Whether the last launch was refused, no longer ago than this, and no node has joined since."""
        known = self.records.get(key_of(AlertKind.SCALE_UP.value, pool, "refused"))
        return known is not None and self.now - known.seen_at < lasting

    # ── frequency ────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_back(self, known: AlertRecord) -> bool:
        return self.now - known.seen_at >= self.rules.over_after

    def _is_due(self, known: AlertRecord, remind: timedelta) -> bool:
        return self.now - known.told_at >= remind

    def _remember(self, key: str, *, alerted: bool) -> None:
        known = self.records.get(key)
        told_at = self.now if alerted or known is None else known.told_at
        self.records[key] = AlertRecord(told_at=told_at, seen_at=self.now)

    def _window(self, kind: AlertKind, pool: str) -> tuple[str, AlertRecord]:
        """The record that counts new alerts of this kind and pool; `told_at` is when the count started."""
        key = key_of(kind.value, pool, "*")
        known = self.records.get(key)
        if known is None or self._is_due(known, self.rules.remind_after):
            known = AlertRecord(told_at=self.now, seen_at=self.now)
        return key, known

    def _has_room(self, kind: AlertKind, pool: str) -> bool:
        return kind in NEVER_HELD_BACK or self._window(kind, pool)[1].times < self.rules.most

    def _count_alert(self, kind: AlertKind, pool: str) -> str:
        """Count a new alert. Returns the text to append to the last alert before the others are held back."""
        if kind in NEVER_HELD_BACK:
            return ""
        key, window = self._window(kind, pool)
        self.records[key] = replace(window, seen_at=self.now, times=window.times + 1)
        if window.times + 1 < self.rules.most:
            return ""
        until = window.told_at + self.rules.remind_after
        return f" (Further new alerts of this kind are held back until {until:%H:%M} UTC.)"


# ── the unit of work ─────────────────────────────────────────────────────────────────────────────────────────────────


_DAY_HOURS = 24
_COUNTED = frozenset(
    {AlertKind.JOIN_FAILED, AlertKind.DRAIN_BLOCKED}
)  # counted for the weekly report even when the alert is a repetition


class UnitOfWork:
    def __init__(
        self, store: Store, lease: Lease, journal: LoopState, policy: Policy, observation: Observation
    ) -> None:
        self._store = store
        self._lease = lease
        self._policy = policy
        self._observation = observation
        self._committed = journal
        self._pending = Changes()
        self.journal = journal
        self.alerts = AlertDeduplicator.since(journal.said, observation.cluster, observation.at, policy.messages)
        self.operations: dict[str, Operation] = {each.id: each for each in observation.operations}
        self.events: list[
            Event
        ] = []  # of this iteration, committed or not, including those that are counted but not sent
        self.joins: list[float] = []  # seconds that each new node took to join
        self.drains: list[float] = []  # seconds of each completed voluntary removal
        self.missing: Counter[str] = Counter()  # instances that EC2 did not give, by pool
        self.failures = 0
        self.removed = 0
        self.retired: tuple[Notice, ...] = ()  # in this iteration, committed or not
        self.own_monthly_usd = 0.0  # cost of the autoscaler itself, as the deployment states it

    @property
    def memory(self) -> Memory:
        return self.journal.memory

    # ── operations ───────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, operation: Operation) -> None:
        self.operations[operation.id] = operation
        others = tuple(each for each in self._pending.put if each.id != operation.id)
        self._pending = replace(self._pending, put=(*others, operation))

    def close(self, close: Close) -> None:
        operation = self.operations.pop(close.operation, None)
        others = tuple(each for each in self._pending.put if each.id != close.operation)
        self._pending = replace(self._pending, put=others, drop=(*self._pending.drop, close.operation))
        if operation is None:
            return
        if close.outcome is Outcome.FAILED:
            self.failures += 1
        if isinstance(operation, Removal):
            self._count_removal(operation, close)

    def _count_removal(self, removal: Removal, close: Close) -> None:
        if removal.why is RemovalReason.VOLUNTARY and close.outcome is Outcome.DONE:
            self.removed += 1
            self.drains.append((self._observation.at - removal.started).total_seconds())
            self.add_event(self._scale_down_event(removal))

    def _scale_down_event(self, removal: Removal) -> Event:
        name = removal.node or removal.instance
        left = "drained and stopped; it is kept warm" if removal.keeps else "drained and removed"
        text = f"{name} was {left}. {removal.reason}"
        kinds = ((CONSOLIDATED, removal.consolidates), (ROTATED, removal.rotated))
        subjects = (name, *(kind for kind, applies in kinds if applies))
        event = self.alerts.make_event(AlertKind.SCALE_DOWN, removal.pool, text, subjects)
        return replace(event, nodes=self._capacity[removal.pool], change=-1, usd_per_day=self._saved_usd(removal))

    @cached_property
    def _capacity(self) -> Counter[str]:
        """How many workers were capacity when the iteration began, by pool."""
        workers = derive_workers(self._observation, self._policy)
        return Counter(worker.pool for worker in workers if worker.is_capacity)

    def _saved_usd(self, removal: Removal) -> float | None:
        if removal.saves_usd is not None:
            return -removal.saves_usd * _DAY_HOURS
        instances = self._observation.instances if isinstance(self._observation.instances, tuple) else ()
        prices = self._observation.offers
        for instance in instances:
            if instance.id == removal.instance:
                hourly = price_of(instance.type, instance.market, prices)
                return None if hourly is None else -hourly * _DAY_HOURS
        return None

    def add_feedback(self, feedback: Iterable[Feedback]) -> None:
        """Apply feedback to the memory, in the same transaction as the change of the operation that produced it."""
        feedback = tuple(feedback)
        before = self.memory
        after = apply_feedback(before, feedback, self._policy, self._observation.at)
        self.journal = replace(self.journal, memory=after)
        self.joins += [lesson.took.total_seconds() for lesson in feedback if isinstance(lesson, Joined)]
        self.failures += sum(isinstance(lesson, JoinFailed) for lesson in feedback)
        for lesson in feedback:
            match lesson:
                case Shortfall(pool=pool, missing=missing):
                    self.missing[pool] += missing
                    self.alerts.note_refusal(pool)
                case Joined(pool=pool):
                    self.alerts.forget_refusal(pool)
                case _:
                    pass
        for alert in join_backoffs(before, after, self._policy):
            self.send_alert(alert)

    # ── alerts ───────────────────────────────────────────────────────────────────────────────────────────────────

    def send_alert(self, alert: SendAlert, *, dry: bool = False) -> None:
        """Send the alert unless it repeats one that was already sent."""
        kind = alert.alert
        critical = kind is AlertKind.DEGRADED and self.memory.level is Level.PARTIAL
        event = self.alerts.event(kind, alert.pool, alert.text, alert.subjects, critical=critical)
        if event:
            self.add_event(replace(event, dry=dry, level=self.memory.level))
        elif kind in _COUNTED and not dry:
            self.events.append(self.alerts.make_event(kind, alert.pool, alert.text, alert.subjects))

    def news(self, kind: AlertKind, pool: str, text: str, subjects: Iterable[str] = ()) -> None:
        event = self.alerts.event(kind, pool, text, subjects)
        if event:
            self.add_event(event)

    def announce_growth(self, event: Event) -> None:
        """Send the event of a growth, or only count it if it repeats one of which nothing came."""
        if self.alerts.is_new_growth(event.pool, event.nodes or 0, in_vain=self._grows_in_vain(event.pool)):
            self.add_event(event)
        else:
            self.events.append(event)

    def _grows_in_vain(self, pool: str) -> bool:
        """Whether EC2 refused the pool's last launch, or new nodes keep failing to join."""
        rules, known = self._policy.pool(pool), self.memory.pools.get(pool)
        if rules is None:
            return False
        lasting = rules.market.remember_shortage + self._policy.messages.over_after
        trouble = known.join_trouble if known else None
        probing = trouble is not None and trouble.failures >= rules.health.failed_joins
        return probing or self.alerts.is_refused(pool, lasting)

    def add_event(self, event: Event) -> None:
        self.events.append(event)
        self._pending = replace(self._pending, events=(*self._pending.events, event))

    # ── decision, notices, commands, policy ──────────────────────────────────────────────────────────────────────

    def add_decision(self, decision: Decision) -> None:
        self.journal = replace(self.journal, memory=decision.memory)

    def audit(self, record: DecisionRecord) -> None:
        self._pending = replace(self._pending, decision=record)

    def retire(self, notices: Iterable[Notice]) -> None:
        expired = tuple(notices)
        self.retired += expired
        self._pending = replace(self._pending, retire=(*self._pending.retire, *expired))

    def expire(self, commands: Iterable[Command]) -> None:
        self._pending = replace(self._pending, expired=tuple(commands))

    def take_over(self, step: TakeOver) -> None:
        self._pending = replace(self._pending, ordered=(*self._pending.ordered, order_of(step)))

    def adopt(self, version: PolicyVersion) -> None:
        self.journal = replace(self.journal, adopted_policy=version.digest, refused_policy="")
        self._pending = replace(self._pending, policy=version)

    def refuse(self, version: PolicyVersion) -> None:
        self.journal = replace(self.journal, refused_policy=version.digest)

    def finish(self, changes: Changes) -> None:
        """Add the usage of complete hours and the figures of the state item's seed attributes."""
        self._pending = replace(self._pending, usage=changes.usage, seed=changes.seed)

    def flush(self) -> None:
        """Commit the pending changes on condition of the lease's fence. Nothing is written if nothing changed."""
        self.journal = replace(self.journal, said=dict(self.alerts.records))
        changed = self.journal != self._committed
        changes = replace(self._pending, journal=self.journal if changed else None)
        if changes == Changes():
            return
        self._store.commit(self._lease, changes)
        self._committed, self._pending = self.journal, Changes()


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
    event = replace(
        event or uow.alerts.make_event(kind, pool.pool, pool.reason, subjects),
        nodes=pool.target,
        change=pool.target - pool.count.capacity,
        usd_per_day=_cost(pool, observation),
        details=pool.votes,
        level=uow.memory.level,
        dry=pool.dry_run,
    )
    if pool.dry_run:
        uow.add_event(event)
    else:
        uow.announce_growth(event)


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


def new_stays(uow: UnitOfWork, decision: Decision) -> Iterator[KeptNode]:
    """The nodes that cannot be removed for a reason that no event has said lately."""
    events = 0
    for pool in decision.pools:
        for stay in pool.stays:
            if stay.reason in _INTERNAL_REASONS or events >= _MAX_NODE_EVENTS:
                continue
            if uow.alerts.is_news(f"stay|{stay.worker}|{stay.reason.value}"):
                yield stay
                events += 1
