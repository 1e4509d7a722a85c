"""Calls to DynamoDB with retries, transactions of several records, and the registry of clusters."""

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import THROTTLES, calling, code_of
from nodefleet.adapters.dynamodb.codec import (
    CLUSTERS,
    FLEET,
    PARTITION,
    SORT,
    Item,
    Scalar,
    Warn,
    decode_body,
    expressions,
    past,
    size,
)
from nodefleet.adapters.dynamodb.records import record_key, registered_item
from nodefleet.errors import (
    ChangedError,
    LostLeaseError,
    MalformedError,
    MisconfiguredError,
    ThrottledError,
    UnavailableError,
)
from nodefleet.model.names import SHARED_PARTITION
from nodefleet.model.snapshot import FleetParts, RegisteredCluster

# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# The calls to DynamoDB. A write that met another one on the same record is tried again, for a second or two.
#
# An urgent run counts up on the lease's record while its holder writes on condition of the same record. DynamoDB
# refuses one of the two then, and nothing is wrong with either.


T = TypeVar("T")
Action: TypeAlias = dict[str, dict[str, Any]]  # of a transaction: {"Put": {…}}

PART = "DynamoDB"
_FAILED = "ConditionalCheckFailed"
_CONFLICT = "TransactionConflict"
_THROTTLED = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded", *THROTTLES})
_BUSY = frozenset({_CONFLICT, "TransactionConflictException", "TransactionInProgressException", *_THROTTLED})


@dataclass(eq=False)
class ConditionError(Exception):
    """The record is not as the write's condition wants it."""

    item: Item  # as it is; empty if it is not there


@dataclass(eq=False)
class ConditionsError(Exception):
    """Some conditions of a transaction do not hold, so none of it was written."""

    places: frozenset[int]


@dataclass(eq=False)
class _BusyError(Exception):
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often a write is tried, and how long is waited in between: anything up to a limit that doubles."""

    tries: int = 8
    first: float = 0.02  # seconds
    longest: float = 0.4
    sleep: Callable[[float], None] = time.sleep
    luck: Callable[[], float] = random.random  # 0 … 1

    def waits(self) -> Iterator[float]:
        for number in range(self.tries - 1):
            yield self.luck() * min(self.longest, self.first * 2**number)


class Table:
    """The part of the table that belongs to one cluster."""

    def __init__(self, client: Any, name: str, cluster: str, patience: Patience | None = None) -> None:
        self._client = client
        self._patience = patience or Patience()
        self.name = name
        self.cluster = cluster

    def read(self, low: str, high: str, *, newest_first: bool = False, page: int | None = None) -> Iterator[Item]:
        """The records with names from `low` to `high`, page after page, each as it is now."""
        query = {
            "TableName": self.name,
            "ConsistentRead": True,
            "ScanIndexForward": not newest_first,
            **({"Limit": page} if page else {}),
            **expressions(
                {":cluster": self.cluster, ":low": low, ":high": high},
                KeyConditionExpression=f"#{PARTITION} = :cluster AND #{SORT} BETWEEN :low AND :high",
            ),
        }
        while True:
            with calling(PART):
                try:
                    answer = self._client.query(**query)
                except ClientError as problem:
                    if code_of(problem) == "ResourceNotFoundException":  # which AWS does not name
                        raise MisconfiguredError(
                            f"{PART}: there is no table {self.name}. Check its name, the account and the region"
                        ) from problem
                    raise
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def put(self, item: Item) -> None:
        self._patiently(lambda: self._client.put_item(TableName=self.name, Item=item))

    def update(self, record: str, update: str, values: Mapping[str, Scalar], condition: str = "") -> Item:
        """The record as it is after the update; ConditionError otherwise."""
        answer = self._patiently(
            lambda: self._client.update_item(
                TableName=self.name,
                Key=record_key(self.cluster, record),
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **expressions(values, UpdateExpression=update, ConditionExpression=condition),
            )
        )
        item: Item = answer["Attributes"]
        return item

    def transact(self, actions: Sequence[Action]) -> None:
        """All of them or none; ConditionsError says which did not hold.

        The token lets the SDK send it again without a second effect: the first may have had one without an answer."""
        token = uuid4().hex
        self._patiently(lambda: self._client.transact_write_items(TransactItems=actions, ClientRequestToken=token))

    def _patiently(self, call: Callable[[], T]) -> T:
        waits = self._patience.waits()
        while True:
            try:
                return self._once(call)
            except _BusyError as busy:
                wait = next(waits, None)
                if wait is None:
                    raise _gave_up(busy.code) from busy
            self._patience.sleep(wait)

    def _once(self, call: Callable[[], T]) -> T:
        with calling(PART):
            try:
                return call()
            except ClientError as problem:
                code = code_of(problem)
                if code == "ConditionalCheckFailedException":
                    raise ConditionError(problem.response.get("Item", {})) from problem
                if code == "TransactionCanceledException":
                    raise _cancellation_error(problem.response.get("CancellationReasons", [])) from problem
                if code in _BUSY - _THROTTLED:  # the SDK has tried again for throttles
                    raise _BusyError(code) from problem
                raise


def _cancellation_error(reasons: Sequence[Mapping[str, str]]) -> Exception:
    """A transaction's reasons, one for each action; the SDK does not look into them."""
    codes = [reason.get("Code", "None") for reason in reasons]
    failed = frozenset(place for place, code in enumerate(codes) if code == _FAILED)
    if failed:
        return ConditionsError(failed)
    busy = [code for code in codes if code in _BUSY]
    if busy:
        return _BusyError(busy[0])
    said = [f"{reason.get('Code')}: {reason.get('Message', '')}" for reason in reasons if reason.get("Code") != "None"]
    if said:
        return MalformedError(f"{PART} does not take this transaction: {'; '.join(said)}")
    return UnavailableError(PART, "a transaction was cancelled, and no reason given")


def _gave_up(code: str) -> UnavailableError:
    if code in _THROTTLED:
        return ThrottledError(PART, f"the table is asked too often: {code}")
    return UnavailableError(PART, f"others keep writing the same record: {code}")


# ── transactions ─────────────────────────────────────────────────────────────────────────────────────────────────────
# Several records together or not at all.
#
# A transaction takes 100 actions and 4 MB. What is more goes into several, in the order in which it is given, each on
# the same condition; a run that dies in between leaves a beginning of the list. So the list begins with what must not
# be lost, and what rests on something else stands after it.


MOST_ACTIONS = 100
MOST_BYTES = 3_500_000  # DynamoDB takes 4 MB, and counts more than the items


class WriteRefused(Enum):
    """What it means when a condition does not hold."""

    LOST = auto()  # the lease is another's: LostLeaseError
    CHANGED = auto()  # another writer was quicker: ChangedError
    LEFT_OUT = auto()  # it is done or overtaken: the rest is written without it


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteUnit:
    """What is never split: written whole, or not at all."""

    actions: tuple[Action, ...]
    bytes: int
    refused: WriteRefused = WriteRefused.LEFT_OUT
    otherwise: str = ""  # the sentence of the error


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes the actions of one table."""

    table: Table

    def put(self, item: Item, condition: str = "", **values: Scalar) -> Action:
        return {"Put": self._action({"Item": item}, values, ConditionExpression=condition)}

    def delete(self, record: str, condition: str = "", **values: Scalar) -> Action:
        return {"Delete": self._action(self._key(record), values, ConditionExpression=condition)}

    def update(self, record: str, update: str, **values: Scalar) -> Action:
        return {"Update": self._action(self._key(record), values, UpdateExpression=update)}

    def check(self, record: str, condition: str, **values: Scalar) -> Action:
        return {"ConditionCheck": self._action(self._key(record), values, ConditionExpression=condition)}

    def _key(self, record: str) -> dict[str, Any]:
        return {"Key": record_key(self.table.cluster, record)}

    def _action(self, subject: dict[str, Any], values: dict[str, Scalar], **parts: str) -> dict[str, Any]:
        named = {f":{name}": value for name, value in values.items()}
        return {"TableName": self.table.name, **subject, **expressions(named, **parts)}


def unit(*actions: Action, refused: WriteRefused = WriteRefused.LEFT_OUT, otherwise: str = "") -> WriteUnit:
    return WriteUnit(actions=actions, bytes=sum(map(_bytes, actions)), refused=refused, otherwise=otherwise)


def write(table: Table, units: Sequence[WriteUnit], guard: WriteUnit | None = None) -> None:
    """The units in their order, each transaction on the guard's condition."""
    for part in _parts(units, guard):
        _write(table, part, guard)


def _write(table: Table, part: Sequence[WriteUnit], guard: WriteUnit | None) -> None:
    left = list(part)
    while left:
        sent = [guard, *left] if guard else left
        try:
            table.transact([action for each in sent for action in each.actions])
        except ConditionsError as error:
            refused = _refused_units(sent, error.places)
        else:
            return
        for each in refused:
            match each.refused:
                case WriteRefused.LOST:
                    raise LostLeaseError(each.otherwise)
                case WriteRefused.CHANGED:
                    raise ChangedError(each.otherwise)
        if not refused:
            raise UnavailableError("DynamoDB", "a transaction was refused for a condition that it does not have")
        left = [each for each in left if each not in refused]


def _refused_units(sent: Sequence[WriteUnit], places: frozenset[int]) -> list[WriteUnit]:
    """The units whose conditions do not hold; the guard is the first of them."""
    found, place = [], 0
    for each in sent:
        following = place + len(each.actions)
        if any(place <= one < following for one in places):
            found.append(each)
        place = following
    return found


def _parts(units: Sequence[WriteUnit], guard: WriteUnit | None) -> Iterator[list[WriteUnit]]:
    most = MOST_ACTIONS - (len(guard.actions) if guard else 0)
    part: list[WriteUnit] = []
    for each in units:
        actions = sum(len(one.actions) for one in part) + len(each.actions)
        if part and (actions > most or sum(one.bytes for one in part) + each.bytes > MOST_BYTES):
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _bytes(action: Action) -> int:
    (subject,) = action.values()
    return sum(size(subject.get(part, {})) for part in ("Item", "Key", "ExpressionAttributeValues"))


# ── the registry ─────────────────────────────────────────────────────────────────────────────────────────────────────
# The clusters that one deployment serves: one small record for each, in the partition of all clusters. A deployment
# whose environment names its clusters needs none of this. With `NODEFLEET_CLUSTERS=*` the registry says which clusters
# there are, so that one is added without a deployment, and no role or variable lists a thousand.


class DynamoRegistry(Collection[str]):
    """A collection of names: asking for one reads one record, and only listing reads all."""

    def __init__(self, client: Any, table: str, warn: Warn, patience: Patience | None = None) -> None:
        self._table = Table(client, table, SHARED_PARTITION, patience)
        self._warn = warn

    def parts(self) -> FleetParts | None:
        """None: no stack for many clusters has written into this table."""
        found = next(iter(self._table.read(FLEET, FLEET)), None)
        parts: FleetParts | None = None if found is None else decode_body(FleetParts, found, self._warn)
        return parts

    def find(self, name: str) -> RegisteredCluster | None:
        key = f"{CLUSTERS}{name}"
        return next(self._read(key, key), None)

    def clusters(self) -> tuple[RegisteredCluster, ...]:
        return tuple(self._read(CLUSTERS, past(CLUSTERS)))

    def put(self, cluster: RegisteredCluster) -> None:
        self._table.put(registered_item(cluster))

    def remove(self, name: str) -> None:
        write(self._table, [unit(Writer(self._table).delete(f"{CLUSTERS}{name}"))])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(name) and self.find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in self.clusters())

    def __len__(self) -> int:
        return len(self.clusters())

    def _read(self, low: str, high: str) -> Iterator[RegisteredCluster]:
        for item in self._table.read(low, high):
            try:
                yield decode_body(RegisteredCluster, item, self._warn)
            except MalformedError as problem:
                self._warn(f"left out: {problem}")
