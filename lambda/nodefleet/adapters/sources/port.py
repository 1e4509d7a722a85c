"""The port of demand sources: entries of the policy in, samples out."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from nodefleet.model.readings import Sample
from nodefleet.policy.demand import Source

E = TypeVar("E")
K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When readings are taken, and how long that may take."""

    now: datetime
    deadline: float  # by the monotonic clock
    stale_after: timedelta
    may_change: bool = False  # whether a source may also clean up after itself

    @property
    def left(self) -> timedelta:
        return timedelta(seconds=self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class SourceCall:
    """One request, or several on one connection, that reads some entries. If it raises, all of them are Missing."""

    service: str  # as messages name it
    entries: tuple[Source, ...]
    read: Callable[[], Sequence[Sample]]  # in the order of the entries


class SourceAdapter(Protocol):
    def calls(self, entries: Sequence[Any], moment: Moment) -> Iterator[SourceCall]:
        """The calls that read these entries, each of which is of the adapter's own kind and named once."""
        ...


def group(entries: Sequence[E], key: Callable[[E], K]) -> dict[K, tuple[E, ...]]:
    """Entries that one call can read, by their key."""
    found: dict[K, list[E]] = {}
    for entry in entries:
        found.setdefault(key(entry), []).append(entry)
    return {each: tuple(alike) for each, alike in found.items()}
