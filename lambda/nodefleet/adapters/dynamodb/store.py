"""ports.Store, ports.History and ports.RequestBudget on DynamoDB: lease, state, commits, history, request budget."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, TypeVar
from uuid import uuid4

from nodefleet.adapters.dynamodb import codec, records
from nodefleet.adapters.dynamodb.codec import Item, Scalar, Warn, decode_body, number, text, unreadable
from nodefleet.adapters.dynamodb.records import deployment_item, prices_item, tuning_item, version_in
from nodefleet.adapters.dynamodb.table import (
    ConditionError,
    Patience,
    Table,
    Writer,
    WriteRefused,
    WriteUnit,
    unit,
    write,
)
from nodefleet.errors import MalformedError, UnavailableError
from nodefleet.model.decision import DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Notice
from nodefleet.model.names import SHARED_PARTITION
from nodefleet.model.snapshot import Command, Deployment, KnownPrices, TuningResult
from nodefleet.model.state import Usage
from nodefleet.policy.cluster import BucketRules, RequestKind, TokenBucket, empty_bucket, take_token
from nodefleet.ports import Changes, Lease, LeaseHeld, State

# ── lease ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Who may act: one run at a time, by a number that only grows.
#
# owner, fence    who has it, and how often it has changed hands; every write that matters is on condition of both
# claim           one call of `acquire`. The SDK sends a call again when the answer is lost, and finds the lease held:
#                 by this very call. The same owner with another call, such as a run that was started again under its
#                 old name, takes the lease with a new fence, so that whatever is left of the old one is shut out
# expires         when others may take it, plus their allowance for clocks that differ. Deciding that and taking it is
#                 one conditional write, so two takers cannot both win
# wake            how many urgent runs came; releasing is on condition that the last iteration saw them all


_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MAY_TAKE = "attribute_not_exists(#owner) OR #expires_ms < :expired_before OR (#owner = :owner AND #claim <> :claim)"
_TAKE = (
    "SET #owner = :owner, #claim = :claim, #expires_ms = :expires_ms, #expires = :expires, #lock_acquired_at = :now,"
    " #scaling_in_progress = :true, #wake = if_not_exists(#wake, :zero) ADD #fence :one"
)
_OURS = "#owner = :owner AND #fence = :fence"
_LET_GO = "SET #scaling_in_progress = :false REMOVE #owner, #claim, #expires_ms, #expires"


def acquire(
    table: Table,
    owner: str,
    now: datetime,
    until: datetime,
    skew: timedelta,
    claim: Callable[[], str] = lambda: uuid4().hex,
) -> Lease | LeaseHeld:
    this_call = claim()
    values: dict[str, Scalar] = {
        ":owner": owner,
        ":claim": this_call,
        ":expires_ms": -((_EPOCH - until) // _MILLISECOND),  # rounded up: never earlier than its owner believes
        ":expires": until,
        ":expired_before": (now - skew - _EPOCH) // _MILLISECOND,
        ":now": now,
        ":true": True,
        ":zero": 0,
        ":one": 1,
    }
    try:
        item = table.update(codec.LEASE, _TAKE, values, _MAY_TAKE)
    except ConditionError as refused:
        item = refused.item
        if text(item, "claim") != this_call:
            return _decode_holder(item)
    return Lease(owner=owner, fence=number(item, "fence"), expires=until)


def _decode_holder(item: Item) -> LeaseHeld:
    owner, expires = text(item, "owner"), number(item, "expires_ms")
    if not owner or not expires:
        raise unreadable(
            item | {codec.SORT: {"S": codec.LEASE}}, "it says neither that it is free nor until when it is held"
        )
    return LeaseHeld(owner=owner, expires=_EPOCH + expires * _MILLISECOND)


def wake(table: Table) -> None:
    """Whether or not the lease is held or ever was."""
    table.update(codec.LEASE, "ADD #wake :one", {":one": 1})


def wakes(table: Table) -> int:
    return max((number(item, "wake") for item in table.read(codec.LEASE, codec.LEASE)), default=0)


def free_fence(table: Table) -> int | None:
    for item in table.read(codec.LEASE, codec.LEASE):
        return None if text(item, "owner") else number(item, "fence")
    return 0


def release(table: Table, lease: Lease, seen: int | None) -> bool:
    condition = _OURS if seen is None else f"{_OURS} AND #wake = :seen"
    values: dict[str, Scalar] = {":owner": lease.owner, ":fence": lease.fence, ":seen": seen or 0, ":false": False}
    try:
        table.update(codec.LEASE, _LET_GO, values, condition)
    except ConditionError as refused:
        still_ours = text(refused.item, "owner") == lease.owner and number(refused.item, "fence") == lease.fence
        return not still_ours
    return True


def guard(table: Table, lease: Lease) -> WriteUnit:
    """What every write that matters is on condition of."""
    check = Writer(table).check(codec.LEASE, _OURS, owner=lease.owner, fence=lease.fence)
    lost = f"the lease of {table.cluster} with fence {lease.fence} is no longer {lease.owner}'s"
    return unit(check, refused=WriteRefused.LOST, otherwise=lost)


# ── commits ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# What an iteration leaves behind, in the order in which it is written should it not fit into one transaction.
#
# operations            first: each is stored before its effect
# memory                with the last of them. A lesson whose operation is stored and that is itself lost can be
#                       learned again; one that is stored twice would count twice
# policy, retired notices, commands that ended or begin
# events, decision, usage


_NEW = f"attribute_not_exists(#{codec.SORT})"


def units_of(changes: Changes, writer: Writer, warn: Warn) -> list[WriteUnit]:
    """A record that is named twice is written once: DynamoDB takes no two actions on one."""
    cluster = writer.table.cluster
    gone = dict.fromkeys(changes.drop)
    put = {operation.id: operation for operation in changes.put if operation.id not in gone}
    return [
        *(unit(writer.put(records.operation_item(cluster, operation))) for operation in put.values()),
        *(unit(writer.delete(codec.operation_key(identity))) for identity in gone),
        *_memory(changes, writer, warn),
        *([policy_unit(changes.policy, writer)] if changes.policy else []),
        *(unit(writer.delete(key)) for key in dict.fromkeys(map(codec.notice_key, changes.retire))),
        *(_expire_command(command, writer) for command in {codec.order_key(it): it for it in changes.expired}.values()),
        *(
            unit(writer.put(records.order_item(cluster, command), _NEW))
            for command in {codec.order_key(it): it for it in changes.ordered}.values()
        ),
        *(event_unit(event, writer) for event in {event.id: event for event in changes.events}.values()),
        *([unit(writer.put(records.decision_item(cluster, changes.decision)))] if changes.decision else []),
        *(
            unit(writer.put(records.usage_item(cluster, hour)))
            for hour in {it.hour: it for it in changes.usage}.values()
        ),
    ]


def event_unit(event: Event, writer: Writer) -> WriteUnit:
    """Stored once by its id, whenever it comes again. The record itself is named by its time, so that operators can ask
    for a day; its id therefore has a record of its own, and who cannot make that one comes second."""
    cluster = writer.table.cluster
    return unit(writer.put(records.told_item(cluster, event), _NEW), writer.put(records.event_item(cluster, event)))


def policy_unit(version: PolicyVersion, writer: Writer) -> WriteUnit:
    """A version and its being in force. The same one again is no change."""
    cluster, key = writer.table.cluster, codec.policy_key(version.number)
    values: dict[str, Scalar] = {
        "number": version.number,
        "digest": version.digest,
        "source": version.source,
        "at": version.at,
    }
    same = "(#number = :number AND #digest = :digest AND #source = :source AND #at = :at)"
    return unit(
        writer.put(records.policy_item(cluster, version, key), f"{_NEW} OR {same}", **values),
        writer.put(
            records.policy_item(cluster, version, codec.POLICY), f"{_NEW} OR #number < :number OR {same}", **values
        ),
        refused=WriteRefused.CHANGED,
        otherwise=f"another writer put policy version {version.number} or a later one in force meanwhile: try again",
    )


def _memory(changes: Changes, writer: Writer, warn: Warn) -> Iterator[WriteUnit]:
    values = {} if changes.journal is None else records.journal_values(changes.journal, warn)
    values |= _seed(changes.seed)
    if values:
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in values)
        yield unit(writer.update(codec.MEMORY, update, **values))


def _seed(seed: Mapping[str, Any]) -> dict[str, Scalar]:
    unknown = [name for name in seed if name not in records.SEED]
    if unknown:
        raise MalformedError(
            f"the memory's record has no attribute {', '.join(unknown)}; it has {', '.join(records.SEED)}"
        )
    return {name: value for name, value in seed.items() if value is not None}


def _expire_command(command: Command, writer: Writer) -> WriteUnit:
    """Unless another order has taken its place."""
    condition = f"{_NEW} OR #digest = :digest"
    return unit(writer.delete(codec.order_key(command), condition, digest=records.digest(command)))


# ── store ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# ports.Store on DynamoDB.


class DynamoStore:
    """One cluster's records. `warn` hears of what was left out."""

    def __init__(self, client: Any, table: str, cluster: str, warn: Warn, *, patience: Patience | None = None) -> None:
        self._table = Table(client, table, cluster, patience)
        self._writer = Writer(self._table)
        self._warn = warn

    def wake(self) -> None:
        wake(self._table)

    def wakes(self) -> int:
        return wakes(self._table)

    def free_fence(self) -> int | None:
        return free_fence(self._table)

    def acquire(self, owner: str, now: datetime, until: datetime, skew: timedelta) -> Lease | LeaseHeld:
        return acquire(self._table, owner, now, until, skew)

    def release(self, lease: Lease, wake: int | None) -> bool:
        return release(self._table, lease, wake)

    def state(self) -> State:
        return records.state_in(self._table.read(codec.STATE, codec.past(codec.STATE)), self._warn)

    def commit(self, lease: Lease, changes: Changes) -> None:
        """Also a ChangedError, and nothing written, if another writer made the new policy's number meanwhile."""
        write(self._table, units_of(changes, self._writer, self._warn), guard(self._table, lease))

    def record(self, notice: Notice) -> None:
        self._table.put(records.notice_item(self._table.cluster, notice))

    def order(self, command: Command, event: Event) -> None:
        put = self._writer.put(records.order_item(self._table.cluster, command))
        write(self._table, [unit(put), event_unit(event, self._writer)])

    def withdraw(self, command: Command, event: Event) -> None:
        """Whatever stands there now of this kind and for this pool."""
        delete = self._writer.delete(codec.order_key(command))
        write(self._table, [unit(delete), event_unit(event, self._writer)])

    def tell(self, event: Event) -> None:
        write(self._table, [event_unit(event, self._writer)])


# ── deployments ──────────────────────────────────────────────────────────────────────────────────────────────────────
# Where a cluster's parts are, written by an operator: for those who have no stack that writes it.


def put_deployment(client: Any, table: str, deployment: Deployment, *, patience: Patience | None = None) -> None:
    """Whatever stood there is replaced. A stack that is deployed later writes its own again."""
    cluster = deployment.cluster
    Table(client, table, cluster, patience).put(deployment_item(cluster, deployment))


def put_prices(client: Any, table: str, cluster: str, prices: KnownPrices, *, patience: Patience | None = None) -> None:
    """Whatever was known before is replaced."""
    Table(client, table, cluster, patience).put(prices_item(cluster, prices))


def put_tuning(client: Any, table: str, cluster: str, found: TuningResult, *, patience: Patience | None = None) -> None:
    """Whatever was found for this pool before is replaced."""
    Table(client, table, cluster, patience).put(tuning_item(cluster, found))


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# ports.History on DynamoDB. A record that cannot be read is left out with a warning: operators read the others.


T = TypeVar("T")

_LARGEST_PAGE = 100
_MOMENT = timedelta(microseconds=1)


class DynamoHistory:
    """A span of time has its beginning in it and its end not, so that spans that follow each other share nothing."""

    def __init__(self, client: Any, table: str, cluster: str, warn: Warn, *, patience: Patience | None = None) -> None:
        self._table = Table(client, table, cluster, patience)
        self._warn = warn

    def decisions(self, limit: int, before: datetime | None = None) -> tuple[DecisionRecord, ...]:
        high = f"{codec.DECISIONS}{codec.stamp(before)}" if before else codec.past(codec.DECISIONS)
        page = min(max(limit, 1), _LARGEST_PAGE)
        found = self._read(codec.DECISIONS, high, self._holding(DecisionRecord), page)
        return tuple(islice(found, max(limit, 0)))

    def events(self, since: datetime, until: datetime) -> tuple[Event, ...]:
        return tuple(self._span(codec.EVENTS, since, until, self._holding(Event)))

    def usage(self, since: datetime, until: datetime) -> tuple[Usage, ...]:
        return tuple(self._span(codec.USAGE, since, until, self._holding(Usage)))

    def policies(self) -> tuple[PolicyVersion, ...]:
        return tuple(self._read(codec.POLICIES, codec.past(codec.POLICIES), version_in))

    def apply(self, version: PolicyVersion, event: Event) -> None:
        writer = Writer(self._table)
        write(self._table, [policy_unit(version, writer), event_unit(event, writer)])

    def _span(self, prefix: str, since: datetime, until: datetime, decode: Callable[[Item], T]) -> Iterator[T]:
        if since < until:
            last = codec.past(f"{prefix}{codec.stamp(until - _MOMENT)}")
            yield from self._read(f"{prefix}{codec.stamp(since)}", last, decode)

    def _holding(self, kind: type[T]) -> Callable[[Item], T]:
        def decode(item: Item) -> T:
            value: T = decode_body(kind, item, self._warn)
            return value

        return decode

    def _read(self, low: str, high: str, decode: Callable[[Item], T], page: int | None = None) -> Iterator[T]:
        for item in self._table.read(low, high, newest_first=True, page=page):
            try:
                yield decode(item)
            except MalformedError as problem:
                self._warn(f"left out: {problem}")


# ── request budget ───────────────────────────────────────────────────────────────────────────────────────────────────
# The request budget in the table: one record for each kind of request and region, which belongs to all its
# clusters.
#
# Each change is on condition of the version that was read, so of two runs that want the last request one gets it.


_TRIES = 20  # each lost try means that another run's request was counted


class DynamoRequestBudget:
    """ports.RequestBudget for all clusters of one table in a region; empty: the functions' own. So EC2 counts too."""

    def __init__(self, client: Any, table: str, patience: Patience | None = None, *, region: str = "") -> None:
        self._table = Table(client, table, SHARED_PARTITION, patience)
        self._of = f"#{region}" if region else ""

    def take(self, kind: RequestKind, rules: BucketRules, now: datetime) -> timedelta:
        found = next(iter(self._table.read(self._record(kind), self._record(kind))), {})
        for _ in range(_TRIES):
            bucket, wait = take_token(_bucket(found), rules, now)
            if wait:
                return wait
            try:
                self._write(kind, bucket, _budget_version(found))
            except ConditionError as error:
                found = error.item
            else:
                return wait
        raise UnavailableError("DynamoDB", "other runs keep changing the request budget")

    def drain(self, kind: RequestKind, now: datetime) -> None:
        """Whatever others have counted meanwhile: EC2 has the last word."""
        self._table.update(
            self._record(kind),
            "SET tokens = :tokens, taken_at = :at ADD version :one",
            {":tokens": "0", ":at": empty_bucket(now).at.isoformat(), ":one": 1},
        )

    def _record(self, kind: RequestKind) -> str:
        return f"requests#{kind.value}{self._of}"

    def _write(self, kind: RequestKind, bucket: TokenBucket, version: int) -> None:
        values: dict[str, Scalar] = {":tokens": repr(bucket.tokens), ":at": bucket.at.isoformat(), ":one": 1}
        if version:
            values[":version"] = version
        self._table.update(
            self._record(kind),
            "SET tokens = :tokens, taken_at = :at ADD version :one",
            values,
            "version = :version" if version else "attribute_not_exists(version)",
        )


def _budget_version(item: Item) -> int:
    return int(item["version"]["N"]) if "version" in item else 0


def _bucket(item: Item) -> TokenBucket | None:
    """What cannot be read counts as a full bucket: a budget that is broken must not stop a fleet from healing."""
    try:
        return TokenBucket(tokens=float(item["tokens"]["S"]), at=datetime.fromisoformat(item["taken_at"]["S"]))
    except (KeyError, ValueError):
        return None
