"""The load of the last days, one value per minute.

All arithmetic is on z = ln(1 + load), load in busy nodes: an error of ten percent weighs the same on five nodes and on
fifty, and a load of zero is no special case. Values are kept as sixteen bits, which is what is stored, so a forecaster
that was stored and read again decides exactly like one that was not.
"""

from array import array
from math import cos, expm1, isfinite, log1p, pi, sin

from nodefleet.model.snapshot import add_up

WEEK = 7 * 1440
KEPT = WEEK + 480  # minutes: last week's values are looked up around minutes that are up to some hours old
UNIT = 4096  # steps of z: 0.02 % of the load
MISSING = 0xFFFF
_HIGHEST = MISSING - 1
DAY = 1440
HOUR = 60
_BUSY = 0.98  # of all minutes
_SAMPLE = 7  # minutes between two that are looked at, which no hourly job keeps pace with


def encode(load: float | None) -> int:
    """The load as it is kept; none and what is no number are missing."""
    if load is None or not isfinite(load):
        return MISSING
    return min(_HIGHEST, round(log1p(max(0.0, load)) * UNIT))


def decode(value: int) -> float:
    return expm1(value / UNIT)


class LoadHistory:
    """Minutes in a row. The newest is `last`; one without a reading is missing, not zero."""

    __slots__ = ("_busy", "first", "pasts", "values")

    def __init__(self, first: int = 0, values: "array[int] | None" = None) -> None:
        self.first = first  # minute of values[0], since the epoch
        self.values = array("H") if values is None else values
        self._busy: tuple[int, float | None] | None = None  # until which minute, and what it was
        self.pasts: dict[tuple[int, int, int], _Past | None] = {}  # what followed a minute, as it is looked up again

    @property
    def last(self) -> int | None:
        return self.first + len(self.values) - 1 if self.values else None

    def add(self, minute: int, load: float | None) -> None:
        """The load of a minute after `last`. Minutes that were skipped are missing; older than a week is forgotten."""
        value = encode(load)
        if self.last is None or minute - self.last > KEPT:
            self.first, self.values = minute, array("H", [value])
            return
        for _ in range(minute - self.last - 1):
            self.values.append(MISSING)
        self.values.append(value)
        if len(self.values) >= KEPT + 1440:  # cut seldom: each cut moves everything
            self.first += len(self.values) - KEPT
            del self.values[:-KEPT]
            self.pasts = {key: past for key, past in self.pasts.items() if key[0] >= self.first}

    def at(self, minute: int) -> float | None:
        """z of one minute."""
        index = minute - self.first
        if not 0 <= index < len(self.values) or self.values[index] == MISSING:
            return None
        return self.values[index] / UNIT

    def mean(self, begin: int, end: int) -> float | None:
        """The mean z of the minutes from begin, without end; none if nothing is known of them."""
        low, high = max(0, begin - self.first), end - self.first
        if high <= low:
            return None
        part = self.values[low:high]
        if MISSING in part:
            known = [value for value in part if value != MISSING]
            return sum(known) / (len(known) * UNIT) if known else None
        return sum(part) / (len(part) * UNIT) if part else None

    def busy(self) -> float | None:
        """z that all but the busiest 2 % of the last week's minutes stay below; none before an hour is known. It is of
        whole hours, so that it need not be worked out again in every minute."""
        until = self.first + len(self.values) - (self.first + len(self.values)) % HOUR
        if self._busy is None or self._busy[0] != until:
            part = self.values[max(0, until - WEEK - self.first) : max(0, until - self.first) : _SAMPLE]
            known = sorted(value for value in part if value != MISSING)
            self._busy = until, known[int(len(known) * _BUSY)] / UNIT if known else None
        return self._busy[1]

    def highest(self, begin: int, end: int) -> float | None:
        """The highest z of these minutes; none if more than half of them are not known."""
        part = self.values[max(0, begin - self.first) : max(0, end - self.first)]
        missing = part.count(MISSING)
        if (len(part) - missing) * 2 <= end - begin:
            return None
        return (max(value for value in part if value != MISSING) if missing else max(part)) / UNIT


# ── features ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# What the minutes up to now tell about those to come: 28 numbers.
#
# The first nine are of the last three hours; the others are the same time yesterday, last week and on the mean of the
# last seven days, the last hours, the time of day, and the highest minutes of the last hour. Of the past not only the
# level counts but the rise that followed: a load that doubles at nine every morning does so from whatever level it has
# today.


RECENT = 9  # features of the last three hours, which come first
COUNT = 28
_LEVEL = 3  # minutes on either side: one minute of yesterday is mostly noise
_NEXT = 30  # minutes: where the load went after
_DAYS = 7  # whose mean is less noisy than yesterday alone
_PEAKS = (10, 30, 60)  # minutes: how high the noise reaches above the mean

_Past = tuple[float, float, float]  # level, rise to when a node would serve, rise to the mean of the half hour after


def features(history: LoadHistory, minute: int, join: int, interval: int) -> list[float] | None:
    """The features of a minute, whose reading is the last one known; none without it. `join`: minutes until a node
    launched now serves. `interval`: minutes until the next one could."""
    now = history.at(minute)
    level = history.mean(minute - 2, minute + 1)
    if now is None or level is None:
        return None
    recent = [
        1.0,
        level,
        *(_or(history.mean(minute + 1 - span, minute + 1), level) for span in (10, 30, 60, 180)),
        now,
        _or(history.at(minute - 2), level),
        _or(history.at(minute - 5), level),
    ]
    unknown = (level, 0.0, 0.0)
    days = [_past(history, minute - DAY * ago, join, interval) for ago in range(1, _DAYS + 1)]
    yesterday = days[0] or unknown
    last_week = days[-1] or yesterday
    hours = [_past(history, minute - HOUR * ago, join, interval) for ago in (1, 2, 3)]
    rises = [hour[1] for hour in hours if hour]
    hour = hours[0] or unknown
    angle = 2 * pi * (minute % DAY) / DAY
    return [
        *recent,
        *yesterday,
        *last_week,
        hour[1],
        add_up(rises) / len(rises) if rises else 0.0,
        hour[0],
        sin(angle),
        cos(angle),
        sin(2 * angle),
        cos(2 * angle),
        *(_mean_of([day for day in days if day]) or unknown),
        *(_or(history.highest(minute + 1 - span, minute + 1), level) for span in _PEAKS),
    ]


def _mean_of(days: "list[_Past]") -> "_Past | None":
    if not days:
        return None
    levels, served, after = zip(*days, strict=True)
    return add_up(levels) / len(days), add_up(served) / len(days), add_up(after) / len(days)


def _past(history: LoadHistory, minute: int, join: int, interval: int) -> "_Past | None":
    """Level, rise to when a node launched then would have served, and rise to the mean of the half hour after. What
    lies wholly in the past is worked out once."""
    key = (minute, join, interval)
    if key in history.pasts:
        return history.pasts[key]
    past = _work_out(history, minute, join, interval)
    if minute + max(join + interval, _NEXT) < (history.last or 0):
        history.pasts[key] = past
    return past


def _work_out(history: LoadHistory, minute: int, join: int, interval: int) -> "_Past | None":
    if minute - _LEVEL < history.first:
        return None
    level = history.mean(minute - _LEVEL, minute + _LEVEL + 1)
    served = history.mean(minute + join - 1, minute + join + interval + 1)
    after = history.mean(minute + 1, minute + 1 + _NEXT)
    if level is None or served is None or after is None:
        return None
    return level, served - level, after - level


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
