"""ports.History on DynamoDB. A record that cannot be read is left out with a warning: people read the others."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from nodefleet.adapters.aws.state import keys
from nodefleet.adapters.aws.state.attributes import Item
from nodefleet.adapters.aws.state.codec import Warn, held
from nodefleet.adapters.aws.state.commit import event_unit, policy_unit
from nodefleet.adapters.aws.state.reading import version_in
from nodefleet.adapters.aws.state.table import Patience, Table
from nodefleet.adapters.aws.state.writing import Writer, write
from nodefleet.domain.events import Event
from nodefleet.domain.journal import Usage
from nodefleet.domain.records import DecisionRecord, PolicyVersion
from nodefleet.errors import MalformedError

T = TypeVar("T")

_LARGEST_PAGE = 100
_MOMENT = timedelta(microseconds=1)


class DynamoHistory:
    """A span of time has its beginning in it and its end not, so that spans that follow each other share nothing."""

    def __init__(self, client: Any, table: str, cluster: str, warn: Warn, *, patience: Patience | None = None) -> None:
        self._table = Table(client, table, cluster, patience)
        self._warn = warn

    def decisions(self, limit: int, before: datetime | None = None) -> tuple[DecisionRecord, ...]:
        high = f"{keys.DECISIONS}{keys.stamp(before)}" if before else keys.past(keys.DECISIONS)
        page = min(max(limit, 1), _LARGEST_PAGE)
        found = self._read(keys.DECISIONS, high, self._holding(DecisionRecord), page)
        return tuple(islice(found, max(limit, 0)))

    def events(self, since: datetime, until: datetime) -> tuple[Event, ...]:
        return tuple(self._span(keys.EVENTS, since, until, self._holding(Event)))

    def usage(self, since: datetime, until: datetime) -> tuple[Usage, ...]:
        return tuple(self._span(keys.USAGE, since, until, self._holding(Usage)))

    def policies(self) -> tuple[PolicyVersion, ...]:
        return tuple(self._read(keys.POLICIES, keys.past(keys.POLICIES), version_in))

    def apply(self, version: PolicyVersion, event: Event) -> None:
        writer = Writer(self._table)
        write(self._table, [policy_unit(version, writer), event_unit(event, writer)])

    def _span(self, prefix: str, since: datetime, until: datetime, made: Callable[[Item], T]) -> Iterator[T]:
        if since < until:
            last = keys.past(f"{prefix}{keys.stamp(until - _MOMENT)}")
            yield from self._read(f"{prefix}{keys.stamp(since)}", last, made)

    def _holding(self, kind: type[T]) -> Callable[[Item], T]:
        def made(item: Item) -> T:
            value: T = held(kind, item, self._warn)
            return value

        return made

    def _read(self, low: str, high: str, made: Callable[[Item], T], page: int | None = None) -> Iterator[T]:
        for item in self._table.read(low, high, newest_first=True, page=page):
            try:
                yield made(item)
            except MalformedError as problem:
                self._warn(f"left out: {problem}")
