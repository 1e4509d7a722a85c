"""Each record as it stands in the table, and the state that one query reads."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, TypeAlias, assert_never

from nodefleet.adapters.dynamodb import codec
from nodefleet.adapters.dynamodb.codec import (
    BODY,
    FORMAT,
    VERSION,
    Item,
    Scalar,
    Warn,
    attributes,
    body,
    decode_body,
    is_item,
    number,
    pack,
    text,
    to_attribute,
    unreadable,
    with_tag,
)
from nodefleet.errors import MalformedError
from nodefleet.model.decision import Decision, DecisionRecord, Event, PolicyVersion, PoolDecision
from nodefleet.model.inventory import Notice
from nodefleet.model.names import SHARED_PARTITION
from nodefleet.model.operations import Cleanup, Launch, Operation, Removal
from nodefleet.model.serialization import Plain, from_plain, kind_of, to_plain
from nodefleet.model.snapshot import (
    Adopt,
    Command,
    Deployment,
    Drain,
    FleetParts,
    KnownPrices,
    Pause,
    Recycle,
    RegisteredCluster,
    Scale,
    TuningResult,
)
from nodefleet.model.state import LoopState, Memory, Usage, compactions
from nodefleet.ports import State

# ── items ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Each record as it stands in the table: the whole of it, and beside that what an operator who looks wants to read.


KEEP_OVER = timedelta(days=1)  # notices, and commands that have ended
KEEP_RECORDS = timedelta(days=30)  # events and decisions
KEEP_USAGE = timedelta(days=35)  # a month, and the week that a report is about

LARGEST_BODY = 350_000  # bytes; DynamoDB takes 400 KB for a record, and an operator wants to read some of it
LARGEST_MEMORY = 300_000  # bytes; there is room left for what the next version adds
LONGEST_KEY = 1024  # bytes
_LARGEST_EVENT = 50_000  # bytes of JSON
_LARGEST_DECISION = 100_000
_FEW = 40  # of a long list, when a record is shortened
_LONGEST_TEXT = 1_000  # characters of a readable attribute; the whole text is in the body

Readable: TypeAlias = Mapping[str, Scalar | None]

SEED = ("last_scale_time", "last_scale_action", "node_count")  # the names that the first description gave


def record_key(cluster: str, record: str) -> Item:
    if len(record.encode()) > LONGEST_KEY:
        raise MalformedError(f"the name {record[:80]}… is longer than the {LONGEST_KEY} bytes that DynamoDB takes")
    return {codec.PARTITION: {"S": cluster}, codec.SORT: {"S": record}}


def _make_item(cluster: str, record: str, plain: Plain, readable: Readable, forget: datetime | None = None) -> Item:
    """A record: the whole of it, what an operator reads, and when DynamoDB may delete it."""
    shown = {name: _short(value) if isinstance(value, str) else value for name, value in readable.items()}
    whole = {BODY: _pack_body(record, plain), VERSION: FORMAT, codec.TTL: forget and int(forget.timestamp())}
    return {**attributes({**shown, **whole}), **record_key(cluster, record)}


def _pack_body(record: str, plain: Plain) -> str | bytes:
    """A stack writes its records as JSON, which has no bytes: those are text, however long."""
    try:
        body = pack(plain, LARGEST_BODY) if record.startswith(codec.STACK) else pack(plain)
    except MalformedError as problem:
        raise MalformedError(f"the record {record}: {problem}") from problem
    if len(body) > LARGEST_BODY:
        raise MalformedError(f"the record {record} has {len(body):,} bytes, and only {LARGEST_BODY:,} fit into one")
    return body


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST_TEXT else f"{words[: _LONGEST_TEXT - 1]}…"


# ── what an iteration needs ──────────────────────────────────────────────────────────────────────────────────────


def journal_values(journal: LoopState, warn: Warn) -> dict[str, Scalar]:
    """The attributes of the memory's record. It is changed in place, so that the seed's attributes beside it stay."""
    return {
        BODY: _fitting(journal, warn),
        VERSION: FORMAT,
        "level": journal.memory.level.value,
    }


def _fitting(journal: LoopState, warn: Warn) -> str | bytes:
    """The memory of a very large fleet, without what can be learned again, long before the record is full."""
    body = pack(to_plain(journal))
    if len(body) <= LARGEST_MEMORY:
        return body
    whole, lost = len(body), ""
    for each in compactions(journal):
        body, lost = pack(to_plain(each.journal)), each.lost
        if len(body) <= LARGEST_MEMORY:
            break
    else:
        body = _pack_body(codec.MEMORY, to_plain(each.journal))
    if lost:
        warn(f"{codec.MEMORY} had {whole:,} bytes of {LARGEST_MEMORY:,}, so this is dropped and learned again: {lost}")
    return body


def operation_item(cluster: str, operation: Operation) -> Item:
    match operation:
        case Launch():
            target = f"{operation.count} × {', '.join(operation.types)} {operation.market.value} in {operation.zone}"
        case Removal():
            target = operation.node or operation.instance
        case Cleanup():
            target = operation.target
        case _:
            assert_never(operation)
    readable: Readable = {
        "kind": kind_of(type(operation)),
        "pool": operation.pool,
        "target": target,
        "reason": operation.reason,
        "started": operation.started,
        "deadline": operation.deadline,
    }
    return _make_item(cluster, codec.operation_key(operation.id), with_tag(operation), readable)


def notice_item(cluster: str, notice: Notice) -> Item:
    readable: Readable = {"instance": notice.instance, "kind": notice.kind.value, "at": notice.at}
    return _make_item(cluster, codec.notice_key(notice), to_plain(notice), readable, notice.at + KEEP_OVER)


def order_item(cluster: str, command: Command) -> Item:
    readable: Readable = {
        "kind": kind_of(type(command)),
        "pool": None if isinstance(command, Recycle) else command.pool or None,
        "instance": command.instance if isinstance(command, Adopt | Drain | Recycle) else None,
        "nodes": command.nodes if isinstance(command, Scale) else None,
        "by": command.by,
        "reason": command.reason,
        "until": command.until,
        "digest": digest(command),
    }
    forget = None if command.until is None else command.until + KEEP_OVER
    return _make_item(cluster, codec.order_key(command), with_tag(command), readable, forget)


def digest(command: Command) -> str:
    """Tells a command from the one that took its place."""
    return sha256(json.dumps(with_tag(command), sort_keys=True).encode()).hexdigest()


def policy_item(cluster: str, version: PolicyVersion, record: str) -> Item:
    """The version in force, one of the earlier ones or the declared one: the record's name says which."""
    readable: Readable = {
        "number": version.number,
        "source": version.source,
        "at": version.at,
        "digest": version.digest,
    }
    return _make_item(cluster, record, version.data, readable)


def declared_item(cluster: str, version: PolicyVersion) -> Item:
    """What the stack writes to declare a policy."""
    return policy_item(cluster, version, codec.STACK_POLICY)


def prices_item(cluster: str, prices: KnownPrices) -> Item:
    return _make_item(cluster, codec.PRICES, to_plain(prices), {"region": prices.region, "at": prices.at.isoformat()})


def tuning_item(cluster: str, found: TuningResult) -> Item:
    readable: Readable = {"pool": found.pool, "at": found.at.isoformat(), "settings": found.settings}
    return _make_item(cluster, f"{codec.TUNINGS}{found.pool}", to_plain(found), readable)


def deployment_item(cluster: str, deployment: Deployment) -> Item:
    """What the stack writes to say where the cluster's parts are."""
    return _make_item(cluster, codec.STACK_DEPLOYMENT, to_plain(deployment), {"api_server": deployment.api_server})


def fleet_item(parts: FleetParts) -> Item:
    """What the stack writes to say how clusters are added to it."""
    return _make_item(SHARED_PARTITION, codec.FLEET, to_plain(parts), {"queue": parts.queue})


def registered_item(cluster: RegisteredCluster) -> Item:
    return _make_item(
        SHARED_PARTITION, f"{codec.CLUSTERS}{cluster.name}", to_plain(cluster), {"region": cluster.region}
    )


# ── what was recorded ────────────────────────────────────────────────────────────────────────────────────────────


def event_item(cluster: str, event: Event) -> Item:
    event = _fitting_event(event)
    readable: Readable = {
        "id": event.id,
        "at": event.at,
        "kind": event.kind.value,
        "pool": event.pool,
        "text": event.text,
        "nodes": event.nodes,
        "change": event.change,
        "usd_per_day": None if event.usd_per_day is None else round(event.usd_per_day, 4),
        "level": event.level.value,
        "dry": event.dry,
    }
    return _make_item(cluster, codec.event_key(event.at, event.id), to_plain(event), readable, event.at + KEEP_RECORDS)


def told_item(cluster: str, event: Event) -> Item:
    """Stands for the event's id: a writer that cannot create it comes second."""
    forget = to_attribute(int((event.at + KEEP_RECORDS).timestamp()))
    return {**record_key(cluster, codec.told_key(event.id)), "at": to_attribute(event.at), codec.TTL: forget}


def event_in(image: Any) -> Event:
    """The event in a record of the table's stream (NEW_IMAGE); MalformedError if there is none."""
    if not is_item(image) or not text(image, codec.SORT).startswith(codec.EVENTS):
        raise MalformedError(f"this record of the stream holds no event: filter the stream to {codec.EVENTS}…")
    event: Event = decode_body(Event, image, lambda _: None)
    return event


def _fitting_event(event: Event) -> Event:
    if len(json.dumps(to_plain(event))) <= _LARGEST_EVENT:
        return event
    details = tuple(_short(detail) for detail in event.details[:_FEW])
    left = len(event.details) - len(details)
    more = (f"… and {left} more",) if left else ()
    return replace(event, text=_short(event.text), details=(*details, *more))


def decision_item(cluster: str, record: DecisionRecord) -> Item:
    record = _fitting_decision(record)
    pools = record.decision.pools
    readable: Readable = {
        "at": record.at,
        "fence": record.fence,
        "policy": record.policy,
        "action": _by_pool(pools, lambda pool: pool.action.value),
        "nodes": sum(pool.count.capacity for pool in pools),
        "target": sum(pool.target for pool in pools),
        "reason": _by_pool(pools, lambda pool: pool.reason),
        "did": "; ".join(record.did),
        "archived": record.archived,
        "dry": record.dry,
    }
    forget = record.at + KEEP_RECORDS
    return _make_item(cluster, codec.decision_key(record.at, record.id), to_plain(record), readable, forget)


def _by_pool(pools: Sequence[PoolDecision], word: Callable[[PoolDecision], str]) -> str:
    if len(pools) == 1:
        return word(pools[0])
    return " | ".join(f"{pool.pool}: {word(pool)}" for pool in pools)


def _fitting_decision(record: DecisionRecord) -> DecisionRecord:
    """Decisions are shortened before they are recorded; should one be too long all the same, its core is better than
    none."""
    if len(json.dumps(to_plain(record))) <= _LARGEST_DECISION:
        return record
    core = Decision(
        at=record.decision.at,
        cluster=record.decision.cluster,
        level=record.decision.level,
        pools=tuple(
            PoolDecision(
                pool=pool.pool,
                action=pool.action,
                count=pool.count,
                target=pool.target,
                reason=_short(pool.reason),
                dry_run=pool.dry_run,
            )
            for pool in record.decision.pools
        ),
        memory=Memory(),
        look_again=_short(record.decision.look_again),
    )
    return replace(record, decision=core, did=tuple(map(_short, record.did[:_FEW])), actions=(), cut=True)


def usage_item(cluster: str, usage: Usage) -> Item:
    pools = usage.pools.values()
    readable: Readable = {
        "hour": usage.hour,
        "node_hours": round(sum(pool.spot_seconds + pool.on_demand_seconds for pool in pools) / 3600, 3),
        "usd": round(sum(pool.usd for pool in pools), 4),
        "own_usd": round(usage.own_usd, 4),
    }
    return _make_item(cluster, codec.usage_key(usage.hour), to_plain(usage), readable, usage.hour + KEEP_USAGE)


# ── the state of one query ───────────────────────────────────────────────────────────────────────────────────────────
# Everything that an iteration needs, of one query.
#
# What is broken is not left out in silence, and it does not always stop everything:
#
#     lease, memory, operation, policy in force, deployment    an error: an operation that is overlooked is a leaked
#                                                              instance, a policy that is overlooked is a wrong size
#     pause                                                    it pauses: who stopped scaling had a reason
#     other command, notice, declared policy, prices, tuning, unknown record   left out, with a warning


@dataclass(slots=True)
class _StateRecords:
    fence: int = 0
    wake: int = 0
    journal: LoopState = field(default_factory=LoopState)
    operations: list[Operation] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    policy: PolicyVersion | None = None
    declared: PolicyVersion | None = None
    deployment: Deployment | None = None
    prices: KnownPrices | None = None
    tuned: list[TuningResult] = field(default_factory=list)


def state_in(items: Iterable[Item], warn: Warn) -> State:
    found = _StateRecords()
    for item in items:
        _note(found, text(item, codec.SORT), item, warn)
    return State(
        fence=found.fence,
        wake=found.wake,
        journal=found.journal,
        operations=tuple(found.operations),
        notices=tuple(found.notices),
        commands=tuple(found.commands),
        policy=found.policy,
        declared=found.declared,
        deployment=found.deployment,
        prices=found.prices,
        tuned=tuple(found.tuned),
    )


def _note(found: _StateRecords, record: str, item: Item, warn: Warn) -> None:
    if record == codec.LEASE:
        found.fence, found.wake = number(item, "fence"), number(item, "wake")
    elif record == codec.MEMORY:
        found.journal = decode_body(LoopState, item, warn) if BODY in item else LoopState()
    elif record.startswith(codec.OPERATIONS):
        found.operations.append(decode_body(Operation, item, warn))
    elif record == codec.POLICY:
        found.policy = version_in(item)
    elif record == codec.STACK_DEPLOYMENT:
        found.deployment = decode_body(Deployment, item, warn)
    else:
        try:
            _note_what_may_lack(found, record, item, warn)
        except MalformedError as problem:
            warn(f"left out: {problem}")


def _note_what_may_lack(found: _StateRecords, record: str, item: Item, warn: Warn) -> None:
    if record.startswith(codec.PAUSES):
        found.commands.append(_pause(record, item, warn))
    elif record.startswith(codec.ORDERS):
        found.commands.append(decode_body(Command, item, warn))
    elif record.startswith(codec.NOTICES):
        found.notices.append(decode_body(Notice, item, warn))
    elif record == codec.STACK_POLICY:
        found.declared = version_in(item)
    elif record == codec.PRICES:
        found.prices = decode_body(KnownPrices, item, warn)
    elif record.startswith(codec.TUNINGS):
        found.tuned.append(decode_body(TuningResult, item, warn))
    else:
        raise unreadable(item, "this version knows no such record")


def _pause(record: str, item: Item, warn: Warn) -> Pause:
    try:
        pause: Pause = decode_body(Pause, item, warn)
    except MalformedError as problem:
        warn(f"taken for a pause without an end: {problem}")
        return Pause(
            pool=codec.pool_of(record),
            by=text(item, "by") or "unknown",
            reason="the order cannot be read, so scaling stays paused; resume it to end this",
        )
    return pause


def version_in(item: Item) -> PolicyVersion:
    source, digest = text(item, "source"), text(item, "digest")
    if not source or not digest:
        raise unreadable(item, "it does not say whose it is, or lacks its digest")
    try:
        at, version = from_plain(datetime, text(item, "at")), number(item, "number")
    except ValueError as problem:
        raise unreadable(item, str(problem)) from problem
    return PolicyVersion(number=version, source=source, at=at, data=body(item), digest=digest)
