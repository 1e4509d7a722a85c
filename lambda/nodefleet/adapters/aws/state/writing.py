"""Several records together or not at all.

A transaction takes 100 actions and 4 MB. What is more goes into several, in the order in which it is given, each on
the same condition; a run that dies in between leaves a beginning of the list. So the list begins with what must not be
lost, and what rests on something else stands after it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from nodefleet.adapters.aws.state.attributes import Item, Scalar, expressions, size
from nodefleet.adapters.aws.state.items import keyed
from nodefleet.adapters.aws.state.table import Action, ConditionsError, Table
from nodefleet.errors import ChangedError, LostLeaseError, UnavailableError

MOST_ACTIONS = 100
MOST_BYTES = 3_500_000  # DynamoDB takes 4 MB, and counts more than the items


class Refused(Enum):
    """What it means when a condition does not hold."""

    LOST = auto()  # the lease is another's: LostLeaseError
    CHANGED = auto()  # somebody was quicker: ChangedError
    LEFT_OUT = auto()  # it is done or overtaken: the rest is written without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is never split: written whole, or not at all."""

    actions: tuple[Action, ...]
    bytes: int
    refused: Refused = Refused.LEFT_OUT
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
        return {"Key": keyed(self.table.cluster, record)}

    def _action(self, subject: dict[str, Any], values: dict[str, Scalar], **parts: str) -> dict[str, Any]:
        named = {f":{name}": value for name, value in values.items()}
        return {"TableName": self.table.name, **subject, **expressions(named, **parts)}


def unit(*actions: Action, refused: Refused = Refused.LEFT_OUT, otherwise: str = "") -> Unit:
    return Unit(actions=actions, bytes=sum(map(_bytes, actions)), refused=refused, otherwise=otherwise)


def write(table: Table, units: Sequence[Unit], guard: Unit | None = None) -> None:
    """The units in their order, each transaction on the guard's condition."""
    for part in _parts(units, guard):
        _write(table, part, guard)


def _write(table: Table, part: Sequence[Unit], guard: Unit | None) -> None:
    left = list(part)
    while left:
        sent = [guard, *left] if guard else left
        try:
            table.transact([action for each in sent for action in each.actions])
        except ConditionsError as error:
            refused = _refused(sent, error.places)
        else:
            return
        for each in refused:
            match each.refused:
                case Refused.LOST:
                    raise LostLeaseError(each.otherwise)
                case Refused.CHANGED:
                    raise ChangedError(each.otherwise)
        if not refused:
            raise UnavailableError("DynamoDB", "a transaction was refused for a condition that it does not have")
        left = [each for each in left if each not in refused]


def _refused(sent: Sequence[Unit], places: frozenset[int]) -> list[Unit]:
    """The units whose conditions do not hold; the guard is the first of them."""
    found, place = [], 0
    for each in sent:
        following = place + len(each.actions)
        if any(place <= one < following for one in places):
            found.append(each)
        place = following
    return found


def _parts(units: Sequence[Unit], guard: Unit | None) -> Iterator[list[Unit]]:
    most = MOST_ACTIONS - (len(guard.actions) if guard else 0)
    part: list[Unit] = []
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
