"""The request budget in the table: one record for each kind of request, which belongs to all clusters together.

Each change is on condition of the version that was read, so of two runs that want the last request one gets it.
"""

from datetime import datetime, timedelta
from typing import Any

from nodefleet.adapters.dynamodb.codec import Item, Scalar
from nodefleet.adapters.dynamodb.table import ConditionError, Patience, Table
from nodefleet.errors import UnavailableError
from nodefleet.model.names import SHARED_PARTITION
from nodefleet.model.request_budget import BucketRules, RequestKind, TokenBucket, empty_bucket, take_token

_TRIES = 20  # each lost try means that another run's request was counted


class DynamoRequestBudget:
    """ports.RequestBudget for all clusters of one table."""

    def __init__(self, client: Any, table: str, patience: Patience | None = None) -> None:
        self._table = Table(client, table, SHARED_PARTITION, patience)

    def take(self, kind: RequestKind, rules: BucketRules, now: datetime) -> timedelta:
        found = next(iter(self._table.read(_record(kind), _record(kind))), {})
        for _ in range(_TRIES):
            bucket, wait = take_token(_bucket(found), rules, now)
            if wait:
                return wait
            try:
                self._write(kind, bucket, _version(found))
            except ConditionError as error:
                found = error.item
            else:
                return wait
        raise UnavailableError("DynamoDB", "other runs keep changing the request budget")

    def drain(self, kind: RequestKind, now: datetime) -> None:
        """Whatever others have counted meanwhile: EC2 has the last word."""
        self._table.update(
            _record(kind),
            "SET tokens = :tokens, taken_at = :at ADD version :one",
            {":tokens": "0", ":at": empty_bucket(now).at.isoformat(), ":one": 1},
        )

    def _write(self, kind: RequestKind, bucket: TokenBucket, version: int) -> None:
        values: dict[str, Scalar] = {":tokens": repr(bucket.tokens), ":at": bucket.at.isoformat(), ":one": 1}
        if version:
            values[":version"] = version
        self._table.update(
            _record(kind),
            "SET tokens = :tokens, taken_at = :at ADD version :one",
            values,
            "version = :version" if version else "attribute_not_exists(version)",
        )


def _record(kind: RequestKind) -> str:
    return f"requests#{kind.value}"


def _version(item: Item) -> int:
    return int(item["version"]["N"]) if "version" in item else 0


def _bucket(item: Item) -> TokenBucket | None:
    """What cannot be read counts as a full bucket: a budget that is broken must not stop a fleet from healing."""
    try:
        return TokenBucket(tokens=float(item["tokens"]["S"]), at=datetime.fromisoformat(item["taken_at"]["S"]))
    except (KeyError, ValueError):
        return None
