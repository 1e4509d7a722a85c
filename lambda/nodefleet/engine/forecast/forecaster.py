"""Three forecasts, each the vote of three forecasters whose weight is what they were worth in the last hours.

    full      regression on all features
    recent    regression on the last three hours only: right again sooner when the rhythm of the days breaks
    last      the mean of the last three minutes: hard to beat while nothing is known

A forecast is graded when its time has come. A forecaster that does badly loses its vote by itself; no operator has to
see that the load has changed.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from itertools import accumulate
from math import erfc, exp, expm1, log1p, sqrt
from operator import mul, neg

from nodefleet.engine.forecast.history import COUNT, MISSING, RECENT, UNIT, LoadHistory, encode, features
from nodefleet.model.snapshot import add_up

# ── learning rates ───────────────────────────────────────────────────────────────────────────────────────────────────
# The figures by which the forecaster learns. They are the same for every pool: nothing here is fitted to one load.


class ForecastWindow(IntEnum):
    """What is forecast of the minutes to come."""

    LEVEL = 0  # the mean when a node launched now would serve: for scale-up
    SOON = 1  # the highest minute of the next few: for scale-down
    LATER = 2  # the highest minute until a removed node would have been worth it: for scale-down


@dataclass(frozen=True, slots=True)
class Prior:
    """What is expected of errors before there are any, and a tail for those that were never seen: a normal curve."""

    mean: float  # of z
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    interval: int = 2  # minutes between two rows: the pace of the scheduled runs
    join: int = 3  # minutes until a node that is launched now serves
    soon: int = 4  # minutes: a node that was removed cannot be back earlier
    later: int = 20  # minutes: a removal that is undone earlier saved nothing
    half_life: float = 7 * 1440  # minutes after which a row weighs half: two weeks still count, two months do not
    ridge: float = 1e-3
    least: int = 360  # rows, twelve hours: fewer are not regressed on
    solve_every: int = 30  # minutes: the equations hardly change within
    grade_half_life: float = 360.0  # minutes: a forecaster that was good yesterday and is bad now loses its vote
    quantile: float = 0.95  # at which forecasters are graded: too low costs more than too high
    temperature: float = 0.1  # of the best loss: a forecaster that is worse by this has 1/e of the best one's vote
    # Rows between two errors that are kept. Seven, which 30 and 5 are no multiple of: every tenth minute sees only
    # some minutes of the hour, and a job that runs at five past would never be among the errors.
    error_rows: int = 7
    error_days: float = 7.0
    near: float = 0.25  # of z: errors made when the forecast was so close to today's count half …
    floor: float = 0.05  # … and all others so much
    prior_weight: float = 6.0  # errors
    priors: tuple[Prior, Prior, Prior] = (Prior(0.0, 0.10), Prior(0.05, 0.12), Prior(0.12, 0.20))
    saturated: float = 0.97  # of all CPU: above it the true demand is hidden …
    hidden: float = 0.40  # … and taken to be so much more, in z

    @property
    def horizon(self) -> int:
        """Minutes after which all windows of a forecast are past."""
        return max(self.soon, self.later, self.join + self.interval - 1)


DEFAULT = Learning()


# ── probability of a shortfall ───────────────────────────────────────────────────────────────────────────────────────
# From past errors to the chance that so many nodes do not suffice.
#
# No shape is assumed: the chance is the weighted share of past errors that would have taken today's forecast above the
# limit. Errors made at a similar level count most, because a quiet night says little about a busy noon. A small normal
# prior covers the first hours and keeps a tail beyond what was seen.


_PER_LEVEL = 16  # steps of z: levels that are closer than this count as the same
_LEVELS = 0xFFFF // _PER_LEVEL
_MOST = 0x7FFF  # an error beyond it would be a load 3,000 times as high as expected


@dataclass(slots=True)
class Errors:
    """Forecasts and how far the truth was above them, oldest first, in steps of z."""

    forecasts: "array[int]"
    errors: "array[int]"
    _ranked: tuple[list[int], list[int]] | None = field(default=None, compare=False, repr=False)

    def rank(self) -> tuple[list[int], list[int]]:
        """The errors with their signs turned, the largest error first, and the forecast of each in steps of levels."""
        if self._ranked is None:
            pairs = sorted(zip(map(neg, self.errors), self.forecasts, strict=True))
            self._ranked = [error for error, _ in pairs], [forecast // _PER_LEVEL for _, forecast in pairs]
        return self._ranked

    def add(self, forecast: float, error: float, most: int) -> None:
        """Keep one more, and at most so many."""
        self.forecasts.append(min(2 * _MOST, max(0, round(forecast * UNIT))))
        self.errors.append(min(_MOST, max(-_MOST, round(error * UNIT))))
        self._ranked = None
        if len(self.errors) > most:
            del self.forecasts[:-most], self.errors[:-most]


def shortfalls(
    forecast: float, past: Errors, learning: Learning, window: ForecastWindow, most: int, limit: float
) -> list[float]:
    """The chance that the load exceeds `limit` × n, for n from 0 to `most`."""
    turned, forecasts = past.rank()
    likeness, center = (
        _likeness(learning.near, learning.floor),
        max(0, min(_LEVELS, round(forecast * UNIT / _PER_LEVEL))),
    )
    weights = [likeness[then - center] for then in forecasts]
    above = list(accumulate(weights, initial=0.0))  # weight of so many of the largest errors
    prior, total = learning.priors[window], above[-1] + learning.prior_weight
    found = []
    for nodes in range(most + 1):
        enough = log1p(limit * nodes) - forecast
        seen = above[bisect_left(turned, -enough * UNIT)]
        found.append((seen + learning.prior_weight * _above(enough - prior.mean, prior.deviation)) / total)
    return found


@cache
def _likeness(near: float, floor: float) -> list[float]:
    """What an error counts that was made so many levels above today's forecast; below it, counted from the end."""
    levels = [apart * _PER_LEVEL / (near * UNIT) for apart in (*range(_LEVELS + 1), *range(_LEVELS, 0, -1))]
    return [floor + 1.0 / (1.0 + apart**4) for apart in levels]


def _above(value: float, deviation: float) -> float:
    """The share of a normal curve around 0 above this."""
    return 0.5 * erfc(value / (deviation * sqrt(2.0)))


# ── regression ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Linear regression with exponential forgetting, in plain Python.
#
# Kept are the weighted sums of products (the normal equations), not the rows: 406 numbers for 28 features. Features are
# standardised when the equations are solved, and a small ridge keeps those that say the same from fighting.
#
# A model on the first features alone needs no sums of its own: they are a corner of the same matrix, and its Cholesky
# factor is a corner of the same factor.


_LEAST_VARIANCE = 1e-10  # a feature that never changes says nothing


class Regression:
    """Of several targets on the same features. The first feature must be the constant 1."""

    __slots__ = ("moments", "products")

    def __init__(self, features: int, targets: int) -> None:
        self.products = [[0.0] * (row + 1) for row in range(features)]  # lower triangle of Σ w·x·xᵀ
        self.moments = [[0.0] * features for _ in range(targets)]  # Σ w·x·y of each target

    def learn(self, row: Sequence[float], targets: Sequence[float], keep: float) -> None:
        """One more row; all earlier ones weigh `keep` of what they did."""
        products = self.products
        for index, value in enumerate(row):
            products[index] = [old * keep + value * other for old, other in zip(products[index], row, strict=False)]
        self.moments = [
            [old * keep + target * value for old, value in zip(moments, row, strict=True)]
            for moments, target in zip(self.moments, targets, strict=True)
        ]

    def solve(self, ridge: float, sizes: Sequence[int]) -> list[list[list[float]]]:
        """Coefficients by size (a model on that many of the first features) and target."""
        total = self.products[0][0]
        means = [row[0] / total for row in self.products]
        spread = [self._spread(index, means[index], total) for index in range(len(means))]
        factor = self._factor(means, spread, total, ridge)
        return [
            [self._solution(moments, means, spread, factor[: size - 1], total) for moments in self.moments]
            for size in sizes
        ]

    def _spread(self, index: int, mean: float, total: float) -> float:
        variance = self.products[index][index] / total - mean * mean
        return sqrt(variance) if index and variance > _LEAST_VARIANCE else 0.0

    def _factor(self, means: Sequence[float], spread: Sequence[float], total: float, ridge: float) -> list[list[float]]:
        """The Cholesky factor of the correlations of all features but the constant, plus the ridge."""
        factor: list[list[float]] = []
        for row in range(1, len(means)):
            built: list[float] = []
            for column in range(1, row + 1):
                if row == column:
                    value = 1.0 + ridge - add_up(map(mul, built, built))
                    built.append(sqrt(max(value, 1e-12)))
                    break
                scale = spread[row] * spread[column]
                value = (self.products[row][column] / total - means[row] * means[column]) / scale if scale else 0.0
                other = factor[column - 1]
                built.append((value - add_up(map(mul, built, other))) / other[-1])
            factor.append(built)
        return factor

    def _solution(
        self,
        moments: Sequence[float],
        means: Sequence[float],
        spread: Sequence[float],
        factor: Sequence[Sequence[float]],
        total: float,
    ) -> list[float]:
        mean = moments[0] / total
        count = len(factor)
        forward: list[float] = []
        for index in range(count):
            scale = spread[index + 1]
            value = (moments[index + 1] / total - means[index + 1] * mean) / scale if scale else 0.0
            forward.append((value - add_up(map(mul, forward, factor[index]))) / factor[index][-1])
        back = [0.0] * count
        for index in range(count - 1, -1, -1):
            rest = add_up(factor[other][index] * back[other] for other in range(index + 1, count))
            back[index] = (forward[index] - rest) / factor[index][index]
        slopes = [value / spread[i + 1] if spread[i + 1] else 0.0 for i, value in enumerate(back)]
        return [mean - add_up(map(mul, slopes, means[1:])), *slopes]


def predict(coefficients: Sequence[float], row: Sequence[float]) -> float:
    """A model on the first features takes as many of the row as it has coefficients."""
    return float(add_up(map(mul, coefficients, row)))


# ── forecasters ──────────────────────────────────────────────────────────────────────────────────────────────────────


FORECASTERS = ("full", "recent", "last")
_LAST = FORECASTERS.index("last")
_LEAST_LOSS = 1e-9
_RISING = 0.001  # of z


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A forecast whose time has not come."""

    minute: int
    single: tuple[tuple[float, ...], ...]  # by window and forecaster
    mixed: tuple[float, ...]  # by window


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is expected after one minute."""

    minute: int
    mixed: tuple[float, ...]  # z by window
    votes: tuple[tuple[float, ...], ...]  # share by window and forecaster
    errors: tuple[Errors, ...]
    learning: Learning

    def shortfalls(self, window: ForecastWindow, most: int, limit: float, more: float = 0.0) -> list[float]:
        """The chance that n nodes exceed `limit` (a share), for n from 0 to `most`. `more`: added to the forecast."""
        return shortfalls(self.mixed[window] + more, self.errors[window], self.learning, window, most, limit)


class Forecaster:
    """Learns from one load per minute. `learning.join` may change from minute to minute as it is learned."""

    __slots__ = (
        "coefficients",
        "errors",
        "history",
        "learned",
        "learning",
        "losses",
        "pending",
        "regression",
        "rows",
        "scores",
    )

    def __init__(self, learning: Learning = DEFAULT) -> None:
        self.learning = learning
        self.history = LoadHistory()
        self.regression = Regression(COUNT, len(ForecastWindow))
        self.coefficients: list[list[list[float]]] = []  # by model (full, recent) and window; empty: too few rows
        self.losses = [[0.0] * len(FORECASTERS) for _ in ForecastWindow]  # weighted sums
        self.scores = 0.0  # weight of the sums
        self.pending: deque[Pending] = deque()
        self.rows: dict[int, tuple[int, list[float]]] = {}  # join and features by minute; not stored
        self.errors = tuple(Errors(array("H"), array("h")) for _ in ForecastWindow)
        self.learned = 0  # rows

    @classmethod
    def of(cls, readings: Iterable[tuple[int, float | None]], learning: Learning = DEFAULT) -> "Forecaster":
        """What it would know had it seen these readings (minute, load in busy nodes), oldest first."""
        forecaster = cls(learning)
        for minute, load in readings:
            forecaster.observe(minute, load)
        return forecaster

    def observe(self, minute: int, load: float | None) -> None:
        """The reading of a minute. One that is not newer than the last changes nothing."""
        last = self.history.last
        if last is not None and minute <= last:
            return
        self.history.add(minute, load)
        if minute % self.learning.interval:
            return
        self._mature(minute)
        single = self._single(minute, kept=True)
        if single is None:
            return
        self.pending.append(Pending(minute=minute, single=single, mixed=self._mix(single)[0]))
        if minute % self.learning.solve_every == 0 and self.learned >= self.learning.least:
            self.coefficients = self.regression.solve(self.learning.ridge, (COUNT, RECENT))

    def outlook(self, fresher: float | None = None) -> Outlook | None:
        """The forecasts after the newest minute; none if its reading is missing. `fresher`: a later reading of that
        minute, which counts for these forecasts if it is higher, and is not learned."""
        minute = self.history.last
        if minute is None:
            return None
        made = self.pending[-1] if self.pending and self.pending[-1].minute == minute else None
        if fresher is not None and self.history.values[-1] < encode(fresher) < MISSING:
            single = self._with_last(fresher, minute)
        else:
            single = made.single if made else self._single(minute)
        if single is None:
            return None
        mixed, votes = self._mix(single)
        return Outlook(minute=minute, mixed=mixed, votes=votes, errors=self.errors, learning=self.learning)

    def busy_load(self) -> float:
        """The load of the busiest hours of the last week, in busy nodes; 0 before anything is known."""
        return expm1(self.history.busy() or 0.0)

    def _with_last(self, load: float, minute: int) -> tuple[tuple[float, ...], ...] | None:
        """The forecasts as if the newest minute had this load."""
        values = self.history.values
        learned, values[-1] = values[-1], encode(load)
        single = self._single(minute)
        values[-1] = learned
        return single

    def is_rising(self) -> bool:
        """The newest minute is above the mean of the last three: worth a decision before the next scheduled one."""
        minute = self.history.last
        now = None if minute is None else self.history.at(minute)
        level = None if minute is None else self.history.mean(minute - 2, minute + 1)
        return now is not None and level is not None and now > level + _RISING

    def _mix(self, single: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
        """The forecast by window, and the share that each forecaster has in it."""
        votes = tuple(self._votes(window) for window in ForecastWindow)
        return tuple(add_up(map(mul, *pair)) for pair in zip(votes, single, strict=True)), votes

    def _single(self, minute: int, *, kept: bool = False) -> tuple[tuple[float, ...], ...] | None:
        """The forecast of each forecaster, by window. `kept`: its features are needed again when its time has come."""
        row = self._features(minute)
        if row is None:
            return None
        if kept:
            self.rows[minute] = self.learning.join, row
        level = row[1]
        if not self.coefficients:
            return tuple((level,) * len(FORECASTERS) for _ in ForecastWindow)
        full, recent = self.coefficients
        return tuple((predict(full[w], row), predict(recent[w], row), level) for w in ForecastWindow)

    def _features(self, minute: int) -> list[float] | None:
        return features(self.history, minute, self.learning.join, self.learning.interval)

    def _votes(self, window: ForecastWindow) -> tuple[float, ...]:
        losses = self.losses[window]
        best = max(min(losses), _LEAST_LOSS)
        weights = [exp((best - loss) / (self.learning.temperature * best)) for loss in losses]
        # Worse than the last value: no vote at all. It takes no regression to do badly.
        weights = [weight if loss <= losses[_LAST] else 0.0 for weight, loss in zip(weights, losses, strict=True)]
        total = add_up(weights)
        return tuple(weight / total for weight in weights)

    def _mature(self, minute: int) -> None:
        """Learn from the forecasts whose time has come."""
        learning = self.learning
        while self.pending and self.pending[0].minute + learning.horizon <= minute:
            past = self.pending.popleft()
            truth = self._truth(past.minute)
            join, row = self.rows.pop(past.minute, (None, None))
            if join != learning.join:  # not kept, or of another join time
                row = self._features(past.minute)
            if truth is None or row is None:
                continue
            self._grade(past, truth)
            self.regression.learn(row, truth, 0.5 ** (learning.interval / learning.half_life))
            self.learned += 1

    def _truth(self, minute: int) -> tuple[float, ...] | None:
        learning, history = self.learning, self.history
        level = history.mean(minute + learning.join, minute + learning.join + learning.interval)
        soon = history.highest(minute + 1, minute + 1 + learning.soon)
        later = history.highest(minute + 1, minute + 1 + learning.later)
        return None if level is None or soon is None or later is None else (level, soon, later)

    def _grade(self, past: Pending, truth: Sequence[float]) -> None:
        learning = self.learning
        keep = 0.5 ** (learning.interval / learning.grade_half_life)
        self.scores = self.scores * keep + 1
        for window in ForecastWindow:
            self.losses[window] = [
                old * keep + pinball(truth[window] - forecast, learning.quantile)
                for old, forecast in zip(self.losses[window], past.single[window], strict=True)
            ]
        if self.learned % learning.error_rows == 0:
            most = int(learning.error_days * 1440 / (learning.interval * learning.error_rows))
            came = (self._one_minute(past.minute, truth[ForecastWindow.LEVEL]), *truth[1:])
            for window in ForecastWindow:
                self.errors[window].add(past.mixed[window], came[window] - past.mixed[window], most)

    def _one_minute(self, minute: int, mean: float) -> float:
        """One of the minutes that the level is the mean of, in turn. A violation is a minute, and single minutes
        scatter more than their mean: errors of the mean promise too few violations."""
        turn = self.learned // self.learning.error_rows % self.learning.interval
        value = self.history.at(minute + self.learning.join + turn)
        return mean if value is None else value

    def grades(self) -> tuple[tuple[float, ...], ...]:
        """The mean loss of each forecaster in the last hours, by window; what the weights rest on."""
        weight = self.scores or 1.0
        return tuple(tuple(loss / weight for loss in losses) for losses in self.losses)


def pinball(error: float, quantile: float) -> float:
    """The loss of a forecast that should be exceeded in 1 − quantile of all cases."""
    return quantile * error if error > 0 else (quantile - 1) * error
