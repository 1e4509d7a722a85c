"""Load traces for the backtest: one value per minute, in busy nodes.

A recorded series is rarely one value per minute. Coarse data is interpolated; the noise that a real minute has around
its five-minute mean is added from a seed, because a policy that is only tried on smooth lines looks better than it is.
Times without data stay without data: nothing is invented for them, and they are not scored.
"""

import csv
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite, nan
from pathlib import Path
from random import Random
from statistics import median

MINUTE = 60
_COLUMNS = 2
_FEWEST = 2
NOISE = 0.05  # of the value, standard deviation: what real one-minute CPU means scatter around their five-minute mean
PERCENTILE = 99.5  # of the minutes …
SHARE_OF_MAX = 0.56  # … are at or below this share of the largest fleet
_GAP_STEPS = 3  # a hole of more steps than this is a gap: a line across it would be invented
_GAP_LEAST = 900  # seconds; a shorter hole in a fine series is a few lost scrapes
_HISTORY = 7 * 1440  # minutes
_LATEST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()  # a number beyond it counts milliseconds, as browsers do …
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC).timestamp()  # … if that gives a time since then; else it is no time
_LONGEST = 3 * 366 * 1440  # minutes: a single wrong date would make a trace of decades
_FORM = "a line is `timestamp,value` with ISO-8601 or seconds (or milliseconds) since 1970, and a decimal point"


class TraceError(ValueError):
    """A trace that cannot be used, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    name: str
    start: datetime  # the first minute
    load: Sequence[float]  # busy nodes by minute; nan: no data
    step: float  # seconds between the readings it was made of
    gaps: tuple[tuple[datetime, datetime], ...] = ()
    negatives: int = 0  # readings, which count as no load

    @property
    def minutes(self) -> int:
        return len(self.load)

    @property
    def history(self) -> int:
        """Minutes that are only learned from: seven days, or half of a shorter trace."""
        return min(_HISTORY, self.minutes // 2)

    @property
    def first_minute(self) -> int:
        """Minutes since the epoch."""
        return int(self.start.timestamp()) // MINUTE


def read_csv(path: Path) -> list[tuple[float, float]]:
    """(seconds since the epoch, value) of the rows `timestamp,value`; the first line may be a heading. A row without a
    value is missing. Columns after the value are not looked at, but no row may have more than the first: it may be a
    decimal comma that cuts the value in two."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: is not UTF-8 text (byte {error.start}); save it as CSV in UTF-8") from error
    except FileNotFoundError as error:
        raise TraceError(f"{path}: there is no such file") from error
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from error
    rows: list[tuple[float, float]] = []
    short, begun, width = 0, False, 0
    for number, row in enumerate(csv.reader(text.replace("\0", "").splitlines()), start=1):
        if len(row) < _COLUMNS:
            short = short or (number if row else 0)
            continue
        begun, width = True, width or len(row)
        if any(cell.strip() for cell in row[width:]):
            raise TraceError(f"{path.name}, line {number}: has {len(row)} columns, the first {width}; {_FORM}")
        at, value = _seconds(row[0]), _number(row[1].strip() or "nan")
        if at is None or value is None:
            if number == 1:
                continue
            wrong = f"{row[0]!r} is not a time" if at is None else f"{row[1]!r} is not a number"
            raise TraceError(f"{path.name}, line {number}: {wrong}; {_FORM}")
        if isfinite(value):
            rows.append((at, value))
    if short and not begun:
        raise TraceError(f"{path.name}, line {short}: has one column; {_FORM}")
    return rows


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _seconds(text: str) -> float | None:
    """ISO-8601, UTC where no zone is given, or seconds or milliseconds since the epoch; none for what is neither."""
    seconds = _number(text)
    if seconds is None:
        try:
            at = datetime.fromisoformat(text.strip())
        except ValueError:
            return None
        seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    elif _EARLIEST <= seconds / 1000 < _LATEST <= seconds:
        seconds /= 1000
    return seconds if 0 <= seconds < _LATEST else None


def by_minute(
    name: str,
    rows: Iterable[tuple[float, float]],
    *,
    noise: float = NOISE,
    seed: int = 0,
    scaled_to: float | None = 5.6,
) -> Trace:
    """The trace of some readings. `scaled_to`: what its 99.5th percentile becomes, in busy nodes; none keeps it."""
    rows = list(rows)
    points = _unique(rows)
    if len(points) < _FEWEST:
        raise TraceError(f"{name}: fewer than two readings; {_FORM}")
    negatives = sum(value < 0 for _, value in rows)
    step = median(after[0] - before[0] for before, after in itertools.pairwise(points))
    longest = max(_GAP_STEPS * step, _GAP_LEAST)
    first = int(points[0][0] // MINUTE)
    count = int(points[-1][0] // MINUTE) - first + 1
    if count > _LONGEST:
        times = [datetime.fromtimestamp(at, UTC) for at in (points[0][0], points[-1][0])]
        raise TraceError(f"{name}: from {times[0]:%Y-%m-%d} to {times[1]:%Y-%m-%d} is more than three years")
    load = _interpolated(points, first, count, longest) if step >= MINUTE else _averaged(points, first, count, longest)
    if noise and step > MINUTE:
        random = Random(f"{name}:{seed}")  # noqa: S311  # noise, reproducible
        load = [value * max(0.0, random.gauss(1.0, noise)) for value in load]
    if scaled_to is not None:
        load = _scaled(name, load, scaled_to)
    start = datetime.fromtimestamp(first * MINUTE, UTC)
    return Trace(name=name, start=start, load=load, step=step, gaps=_gaps(load, first), negatives=negatives)


def load_directory(directory: Path, *, noise: float = NOISE, seed: int = 0, most: int = 10) -> list[Trace]:
    """All CSV files of a directory, scaled for a fleet of at most `most` nodes."""
    paths = sorted(directory.glob("*.csv"))
    if not paths:
        raise TraceError(f"no *.csv in {directory}")
    return [
        by_minute(path.stem, read_csv(path), noise=noise, seed=seed, scaled_to=SHARE_OF_MAX * most) for path in paths
    ]


def _unique(rows: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """In order of time, without negative values; of two readings of one time the later row counts."""
    return sorted({at: (at, max(0.0, value)) for at, value in rows}.values())


def _interpolated(points: Sequence[tuple[float, float]], first: int, count: int, longest: float) -> list[float]:
    load, index = [], 0
    for minute in range(first, first + count):
        at = minute * MINUTE
        while index + 1 < len(points) and points[index + 1][0] <= at:
            index += 1
        before, after = points[index], points[min(index + 1, len(points) - 1)]
        if at <= before[0] or after[0] <= before[0]:
            load.append(before[1] if abs(at - before[0]) <= longest else nan)
        elif after[0] - before[0] > longest:
            load.append(before[1] if at - before[0] < MINUTE else nan)
        else:
            share = (at - before[0]) / (after[0] - before[0])
            load.append(before[1] + (after[1] - before[1]) * share)
    return load


def _averaged(points: Sequence[tuple[float, float]], first: int, count: int, longest: float) -> list[float]:
    """The mean of each minute's readings; a minute without one takes the last while that is young."""
    sums, counts = [0.0] * count, [0] * count
    for at, value in points:
        sums[int(at // MINUTE) - first] += value
        counts[int(at // MINUTE) - first] += 1
    load, last, age = [], nan, 0
    for total, number in zip(sums, counts, strict=True):
        age = 0 if number else age + MINUTE
        last = total / number if number else last
        load.append(last if age <= longest else nan)
    return load


def _scaled(name: str, load: Sequence[float], target: float) -> list[float]:
    known = sorted(value for value in load if isfinite(value))
    high = known[min(len(known) - 1, int(len(known) * PERCENTILE / 100))]
    if high <= 0:
        raise TraceError(f"{name}: no load at all")
    return [value * target / high for value in load]


def _gaps(load: Sequence[float], first: int) -> tuple[tuple[datetime, datetime], ...]:
    gaps: list[tuple[datetime, datetime]] = []
    since: int | None = None
    for index, value in enumerate([*load, 0.0]):
        if not isfinite(value):
            since = index if since is None else since
        elif since is not None:
            edges = [datetime.fromtimestamp((first + edge) * MINUTE, UTC) for edge in (since, index)]
            gaps.append((edges[0], edges[1]))
            since = None
    return tuple(gaps)
