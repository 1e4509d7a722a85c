"""Three forecasts, each the vote of three forecasters whose weight is what they were worth in the last hours.

    full      regression on all features
    recent    regression on the last three hours only: right again sooner when the rhythm of the days breaks
    last      the mean of the last three minutes: hard to beat while nothing is known

A forecast is graded when its time has come. A forecaster that does badly loses its vote by itself; nobody has to see
that the load has changed.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp
from operator import mul

from nodefleet.decide.forecast.features import COUNT, RECENT, features
from nodefleet.decide.forecast.history import LoadHistory
from nodefleet.decide.forecast.learning import DEFAULT, Learning, Window
from nodefleet.decide.forecast.probability import Errors, shortfalls
from nodefleet.decide.forecast.regression import Regression, predict

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

    def shortfalls(self, window: Window, most: int, limit: float, more: float = 0.0) -> list[float]:
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
        "scores",
    )

    def __init__(self, learning: Learning = DEFAULT) -> None:
        self.learning = learning
        self.history = LoadHistory()
        self.regression = Regression(COUNT, len(Window))
        self.coefficients: list[list[list[float]]] = []  # by model (full, recent) and window; empty: too few rows
        self.losses = [[0.0] * len(FORECASTERS) for _ in Window]  # weighted sums
        self.scores = 0.0  # weight of the sums
        self.pending: deque[Pending] = deque()
        self.errors = tuple(Errors(array("H"), array("h")) for _ in Window)
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
        single = self._single(minute)
        if single is None:
            return
        self.pending.append(Pending(minute=minute, single=single, mixed=self._mixed(single)[0]))
        if minute % self.learning.solve_every == 0 and self.learned >= self.learning.least:
            self.coefficients = self.regression.solve(self.learning.ridge, (COUNT, RECENT))

    def outlook(self) -> Outlook | None:
        """The forecasts after the newest minute; none if its reading is missing."""
        minute = self.history.last
        if minute is None:
            return None
        made = self.pending[-1] if self.pending and self.pending[-1].minute == minute else None
        single = made.single if made else self._single(minute)
        if single is None:
            return None
        mixed, votes = self._mixed(single)
        return Outlook(minute=minute, mixed=mixed, votes=votes, errors=self.errors, learning=self.learning)

    def is_rising(self) -> bool:
        """The newest minute is above the mean of the last three: worth another look before the next scheduled run."""
        minute = self.history.last
        now = None if minute is None else self.history.at(minute)
        level = None if minute is None else self.history.mean(minute - 2, minute + 1)
        return now is not None and level is not None and now > level + _RISING

    def _mixed(self, single: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
        """The forecast by window, and the share that each forecaster has in it."""
        votes = tuple(self._votes(window) for window in Window)
        return tuple(sum(map(mul, *pair)) for pair in zip(votes, single, strict=True)), votes

    def _single(self, minute: int) -> tuple[tuple[float, ...], ...] | None:
        """The forecast of each forecaster, by window."""
        row = self._features(minute)
        if row is None:
            return None
        level = row[1]
        if not self.coefficients:
            return tuple((level,) * len(FORECASTERS) for _ in Window)
        full, recent = self.coefficients
        return tuple((predict(full[w], row), predict(recent[w], row), level) for w in Window)

    def _features(self, minute: int) -> list[float] | None:
        return features(self.history, minute, self.learning.join, self.learning.interval)

    def _votes(self, window: Window) -> tuple[float, ...]:
        losses = self.losses[window]
        best = max(min(losses), _LEAST_LOSS)
        weights = [exp((best - loss) / (self.learning.temperature * best)) for loss in losses]
        # Worse than the last value: no vote at all. It takes no regression to do badly.
        weights = [weight if loss <= losses[_LAST] else 0.0 for weight, loss in zip(weights, losses, strict=True)]
        total = sum(weights)
        return tuple(weight / total for weight in weights)

    def _mature(self, minute: int) -> None:
        """Learn from the forecasts whose time has come."""
        learning = self.learning
        while self.pending and self.pending[0].minute + learning.horizon <= minute:
            past = self.pending.popleft()
            truth = self._truth(past.minute)
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
        for window in Window:
            self.losses[window] = [
                old * keep + pinball(truth[window] - forecast, learning.quantile)
                for old, forecast in zip(self.losses[window], past.single[window], strict=True)
            ]
        if self.learned % learning.error_rows == 0:
            most = int(learning.error_days * 1440 / (learning.interval * learning.error_rows))
            for window in Window:
                self.errors[window].add(past.mixed[window], truth[window] - past.mixed[window], most)

    def grades(self) -> tuple[tuple[float, ...], ...]:
        """The mean loss of each forecaster in the last hours, by window; what the weights rest on."""
        weight = self.scores or 1.0
        return tuple(tuple(loss / weight for loss in losses) for losses in self.losses)


def pinball(error: float, quantile: float) -> float:
    """The loss of a forecast that should be exceeded in 1 − quantile of all cases."""
    return quantile * error if error > 0 else (quantile - 1) * error
