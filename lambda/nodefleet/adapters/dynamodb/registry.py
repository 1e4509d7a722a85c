"""The clusters that one deployment serves, in the table: one small record for each, in the partition of all clusters.

A deployment whose environment names its clusters needs none of this. With `NODEFLEET_CLUSTERS=*` the registry says
which clusters there are, so that one is added without a deployment, and no role or variable lists a thousand.
"""

from collections.abc import Collection, Iterator
from typing import Any

from nodefleet.adapters.dynamodb.codec import CLUSTERS, FLEET, Warn, decode_body, past
from nodefleet.adapters.dynamodb.records import registered_item
from nodefleet.adapters.dynamodb.table import Patience, Table, Writer, unit, write
from nodefleet.errors import MalformedError
from nodefleet.model.names import SHARED_PARTITION
from nodefleet.model.snapshot import FleetParts, RegisteredCluster


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
