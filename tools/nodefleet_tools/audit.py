"""Finding recorded decisions: the newest ones, and one by its id or its time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from nodefleet.model.decision import DecisionRecord
from nodefleet.ports import History

PAGE = 100  # records read at once
NOT_KEPT = "only its figures were kept, as nothing came of this iteration or there was no bucket"
_EARLIEST, _LATEST = "0001-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999"  # a shortened time is filled up from
_LENGTHS = tuple(map(len, ("2026-11-16", "2026-11-16T12", "2026-11-16T12:00", "2026-11-16T12:00:00", _LATEST)))
_TICK = timedelta(microseconds=1)


def decisions(
    history: History, *, oldest: datetime | None = None, before: datetime | None = None
) -> Iterator[DecisionRecord]:
    """Newest first, a page at a time; none that is older than `oldest`."""

    def recent(record: DecisionRecord) -> bool:
        return oldest is None or record.at >= oldest

    return takewhile(recent, _pages(history, before))


def _pages(history: History, before: datetime | None) -> Iterator[DecisionRecord]:
    while page := history.decisions(PAGE, before):
        yield from page
        before = page[-1].at


def record_named(history: History, identity: str) -> DecisionRecord | None:
    """The decision with this id, or the newest of this day, hour, minute or second. One that was kept whole comes
    first: that is the one worth asking for."""
    wanted = identity.strip().replace(" ", "T", 1)
    time, _, fence = wanted.partition("Z")
    if len(time) not in _LENGTHS:
        return None
    try:
        oldest, after = _moment(time, _EARLIEST), _moment(time, _LATEST) + _TICK
    except (ValueError, OverflowError):
        return None
    near = decisions(history, oldest=oldest, before=after)
    found = [record for record in near if record.id.startswith(wanted if fence else time)]
    return next((record for record in found if record.archived), next(iter(found), None))


def _moment(time: str, rest: str) -> datetime:
    return datetime.fromisoformat(time + rest[len(time) :]).replace(tzinfo=UTC)
