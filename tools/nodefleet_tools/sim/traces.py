"""A CSV of a user's own measurements: two columns, a timestamp and a value, with a heading or without."""

import csv
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path

_COLUMNS = 2
_SHOWN = 3  # so many bad lines are named


class UnreadableTraceError(Exception):
    """A trace that cannot be used, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Measurements in the order of time. Between two of them the value goes straight; outside it stays."""

    times: tuple[datetime, ...]
    values: tuple[float, ...]

    @property
    def lasts(self) -> timedelta:
        return self.times[-1] - self.times[0]

    @property
    def highest(self) -> float:
        return max(self.values)

    def scaled(self, peak: float | None) -> "Points":
        """With this as the highest value; as they are without one, or where nothing was measured but zero."""
        if peak is None or not self.highest:
            return self
        return replace(self, values=tuple(value * peak / self.highest for value in self.values))

    def from_(self, start: datetime) -> Callable[[datetime], float]:
        """The value at any time, with the first measurement at `start`."""
        moved = start - self.times[0]
        times = [at + moved for at in self.times]
        values = self.values

        def at(now: datetime) -> float:
            right = bisect_right(times, now)
            if right == 0:
                return values[0]
            if right == len(times):
                return values[-1]
            begins, ends = times[right - 1], times[right]
            share = (now - begins) / (ends - begins)
            return values[right - 1] + (values[right] - values[right - 1]) * share

        return at


def read_trace(path: Path) -> Points:
    """The measurements of a file, or an UnreadableTraceError that says what to fix."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UnreadableTraceError("there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableTraceError(f"cannot be read: {error}") from None
    return _points(csv.reader(text.splitlines()))


def _points(rows: Iterable[list[str]]) -> Points:
    found: dict[datetime, float] = {}
    bad: list[str] = []
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        read = _row(cells)
        if read is None:
            if number > 1:  # the first line may be a heading
                bad.append(f"line {number}: {', '.join(cells)[:60]}")
            continue
        at, value = read
        found[at] = value
    if bad:
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        raise UnreadableTraceError(
            f"{'; '.join(bad[:_SHOWN])}{more}: each line holds a time such as 2026-11-16T09:00:00Z (or seconds since"
            " 1970) and a number of 0 or more"
        )
    if len(found) < _COLUMNS:
        raise UnreadableTraceError("holds fewer than two measurements; write lines such as 2026-11-16T09:00:00Z,120")
    times = sorted(found)
    return Points(times=tuple(times), values=tuple(found[at] for at in times))


def _row(cells: list[str]) -> tuple[datetime, float] | None:
    if len(cells) < _COLUMNS:
        return None
    at = _time(cells[0])
    try:
        value = float(cells[1])
    except ValueError:
        return None
    return (at, value) if at is not None and isfinite(value) and value >= 0 else None


def _time(text: str) -> datetime | None:
    try:
        seconds = float(text)
    except ValueError:
        seconds = None
    try:
        at = datetime.fromisoformat(text) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
