"""ports.Store on DynamoDB."""

from datetime import datetime, timedelta
from typing import Any

from nodefleet.adapters.aws.state import items, keys, reading
from nodefleet.adapters.aws.state import lease as leases
from nodefleet.adapters.aws.state.codec import Warn
from nodefleet.adapters.aws.state.commit import event_unit, units_of
from nodefleet.adapters.aws.state.table import Patience, Table
from nodefleet.adapters.aws.state.writing import Writer, unit, write
from nodefleet.domain.events import Event
from nodefleet.domain.machines import Notice
from nodefleet.domain.observation import Command
from nodefleet.ports import Changes, Held, Lease, State


class DynamoStore:
    """One cluster's records. `warn` hears of what was left out."""

    def __init__(self, client: Any, table: str, cluster: str, warn: Warn, *, patience: Patience | None = None) -> None:
        self._table = Table(client, table, cluster, patience)
        self._writer = Writer(self._table)
        self._warn = warn

    def wake(self) -> None:
        leases.wake(self._table)

    def acquire(self, owner: str, now: datetime, until: datetime, skew: timedelta) -> Lease | Held:
        return leases.acquire(self._table, owner, now, until, skew)

    def release(self, lease: Lease, wake: int | None) -> bool:
        return leases.release(self._table, lease, wake)

    def state(self) -> State:
        return reading.state_in(self._table.read(keys.STATE, keys.past(keys.STATE)), self._warn)

    def commit(self, lease: Lease, changes: Changes) -> None:
        """Also a ChangedError, and nothing written, if somebody else made the new policy's number meanwhile."""
        write(self._table, units_of(changes, self._writer, self._warn), leases.guard(self._table, lease))

    def record(self, notice: Notice) -> None:
        self._table.put(items.notice_item(self._table.cluster, notice))

    def order(self, command: Command, event: Event) -> None:
        put = self._writer.put(items.order_item(self._table.cluster, command))
        write(self._table, [unit(put), event_unit(event, self._writer)])

    def withdraw(self, command: Command, event: Event) -> None:
        """Whatever stands there now of this kind and for this pool."""
        delete = self._writer.delete(keys.order_key(command))
        write(self._table, [unit(delete), event_unit(event, self._writer)])

    def tell(self, event: Event) -> None:
        write(self._table, [event_unit(event, self._writer)])
