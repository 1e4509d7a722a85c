"""The load of the last days, one value per minute.

All arithmetic is on z = ln(1 + load), load in busy nodes: an error of ten percent weighs the same on five nodes and on
fifty, and a load of zero is no special case. Values are kept as sixteen bits, which is what is stored, so a forecaster
that was stored and read again decides exactly like one that was not.
"""

from array import array
from math import expm1, isfinite, log1p

WEEK = 7 * 1440
KEPT = WEEK + 480  # minutes: last week's values are looked up around minutes that are up to some hours old
UNIT = 4096  # steps of z: 0.02 % of the load
MISSING = 0xFFFF
_HIGHEST = MISSING - 1


def encode(load: float | None) -> int:
    """The load as it is kept; none and what is no number are missing."""
    if load is None or not isfinite(load):
        return MISSING
    return min(_HIGHEST, round(log1p(max(0.0, load)) * UNIT))


def decode(value: int) -> float:
    return expm1(value / UNIT)


class LoadHistory:
    """Minutes in a row. The newest is `last`; one without a reading is missing, not zero."""

    __slots__ = ("first", "values")

    def __init__(self, first: int = 0, values: "array[int] | None" = None) -> None:
        self.first = first  # minute of values[0], since the epoch
        self.values = array("H") if values is None else values

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

    def highest(self, begin: int, end: int) -> float | None:
        """The highest z of these minutes; none if more than half of them are not known."""
        part = [value for value in self.values[max(0, begin - self.first) : end - self.first] if value != MISSING]
        return max(part) / UNIT if len(part) * 2 > end - begin else None
