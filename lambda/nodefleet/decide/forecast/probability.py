"""From past errors to the chance that so many nodes do not suffice.

No shape is assumed: the chance is the weighted share of past errors that would have taken today's forecast above the
limit. Errors made at a similar level count most, because a quiet night says little about a busy noon. A small normal
prior covers the first hours and keeps a tail beyond what was seen.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import erfc, log1p, sqrt
from typing import TYPE_CHECKING

from nodefleet.decide.forecast.history import UNIT
from nodefleet.decide.forecast.learning import Learning, Window

if TYPE_CHECKING:
    from array import array

_MOST = 0x7FFF  # an error beyond it would be a load 3,000 times as high as expected


@dataclass(frozen=True, slots=True)
class Errors:
    """Forecasts and how far the truth was above them, oldest first, in steps of z."""

    forecasts: "array[int]"
    errors: "array[int]"

    def add(self, forecast: float, error: float, most: int) -> None:
        """Keep one more, and at most so many."""
        self.forecasts.append(min(2 * _MOST, max(0, round(forecast * UNIT))))
        self.errors.append(min(_MOST, max(-_MOST, round(error * UNIT))))
        if len(self.errors) > most:
            del self.forecasts[:-most], self.errors[:-most]


def shortfalls(
    forecast: float, past: Errors, learning: Learning, window: Window, most: int, limit: float
) -> list[float]:
    """The chance that the load exceeds `limit` × n, for n from 0 to `most`."""
    enough = [(log1p(limit * nodes) - forecast) * UNIT for nodes in range(most + 1)]
    weights = [0.0] * (most + 2)  # by the smallest number of nodes that would have sufficed
    center, near, floor = forecast * UNIT, learning.near * UNIT, learning.floor
    for then, error in zip(past.forecasts, past.errors, strict=True):
        apart = (then - center) / near
        apart *= apart
        weights[bisect_left(enough, error)] += floor + 1.0 / (1.0 + apart * apart)
    prior = learning.priors[window]
    total = sum(weights) + learning.prior_weight
    found, beyond = [0.0] * (most + 1), weights[most + 1]
    for nodes in range(most, -1, -1):
        unseen = _above(enough[nodes] / UNIT - prior.mean, prior.deviation)
        found[nodes] = (beyond + learning.prior_weight * unseen) / total
        beyond += weights[nodes]
    return found


def _above(value: float, deviation: float) -> float:
    """The share of a normal curve around 0 above this."""
    return 0.5 * erfc(value / (deviation * sqrt(2.0)))
