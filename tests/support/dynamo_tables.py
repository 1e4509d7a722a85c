"""Tables for tests: on moto always, and on Amazon's own DynamoDB Local when its address is given."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config

from nodefleet.adapters.dynamodb.codec import PARTITION, SORT
from nodefleet.adapters.dynamodb.records import declared_item, deployment_item
from nodefleet.adapters.dynamodb.store import DynamoHistory, DynamoStore
from nodefleet.adapters.dynamodb.table import Patience
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.snapshot import Deployment

LOCAL = "NODEFLEET_DYNAMODB_LOCAL"
NO_WAITING = Patience(sleep=lambda _: None)


def dynamodb(address: str | None = None) -> Any:
    """A client with made-up credentials; enough connections for many threads."""
    return boto3.client(
        "dynamodb",
        endpoint_url=address,
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106  # not one
        config=Config(max_pool_connections=64, retries={"mode": "standard", "total_max_attempts": 3}),
    )


class Client:
    """A DynamoDB client that can be made to misbehave, and that notes what it was asked.

    `before` and `after` are called around each call with its name and arguments, and may raise. moto checks a condition
    and writes in two steps, which threads can come between, so its calls are made one at a time."""

    def __init__(self, real: Any, *, one_at_a_time: bool = False) -> None:
        self._real = real
        self._lock = threading.Lock() if one_at_a_time else None
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.before: Callable[[str, Mapping[str, Any]], None] = lambda *_: None
        self.after: Callable[[str, Mapping[str, Any]], None] = lambda *_: None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            self.calls.append((name, arguments))
            self.before(name, arguments)
            answer = self.send(name, arguments)
            self.after(name, arguments)
            return answer

        return call

    def send(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Past `before` and `after`: what a second try of the SDK does."""
        if self._lock is None:
            return getattr(self._real, name)(**arguments)
        with self._lock:
            return getattr(self._real, name)(**arguments)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@dataclass(slots=True)
class TableWorld:
    """One table, and a hand in it."""

    client: Client
    table: str
    warnings: list[str] = field(default_factory=list)

    def store(self, cluster: str = "shop") -> DynamoStore:
        return DynamoStore(self.client, self.table, cluster, self.warnings.append, patience=NO_WAITING)

    def history(self, cluster: str = "shop") -> DynamoHistory:
        return DynamoHistory(self.client, self.table, cluster, self.warnings.append, patience=NO_WAITING)

    def declare(self, declared: PolicyVersion, deployment: Deployment, cluster: str = "shop") -> None:
        self.write(declared_item(cluster, declared))
        self.write(deployment_item(cluster, deployment))

    def write(self, item: Mapping[str, Any]) -> None:
        self.client.send("put_item", {"TableName": self.table, "Item": item})

    def forget(self, record: str, cluster: str = "shop") -> None:
        """Somebody deletes a record by hand."""
        key = {PARTITION: {"S": cluster}, SORT: {"S": record}}
        self.client.send("delete_item", {"TableName": self.table, "Key": key})

    def item(self, record: str, cluster: str = "shop") -> dict[str, Any]:
        key = {PARTITION: {"S": cluster}, SORT: {"S": record}}
        answer = self.client.send("get_item", {"TableName": self.table, "Key": key, "ConsistentRead": True})
        return answer.get("Item", {})

    def change(self, record: str, **attributes: Mapping[str, Any]) -> None:
        """Somebody edits a record by hand."""
        self.write(self.item(record) | attributes)


@contextmanager
def table_on(client: Client) -> Iterator[TableWorld]:
    """A table of its own, gone afterwards."""
    name = f"table-{uuid4().hex}"
    client.send(
        "create_table",
        {
            "TableName": name,
            "KeySchema": [
                {"AttributeName": PARTITION, "KeyType": "HASH"},
                {"AttributeName": SORT, "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [
                {"AttributeName": PARTITION, "AttributeType": "S"},
                {"AttributeName": SORT, "AttributeType": "S"},
            ],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )
    try:
        yield TableWorld(client, name)
    finally:
        client.send("delete_table", {"TableName": name})
