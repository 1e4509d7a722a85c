"""What the load of a day looks like: curves that add up, and what happens to them.

A load is a list of shapes. Curves (steady, daily, steps, trace) add up; the others (flash sale, morning spike, release
storm, noise) multiply what the curves say. Noise is drawn from the seed and the time alone, so that the same seed gives
the same load to every fleet that is compared.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import cos, pi
from random import Random
from typing import TypeAlias, assert_never

from nodefleet.model.snapshot import add_up
from nodefleet_tools.sim.times_of_day import midnight, moment, since_midnight
from nodefleet_tools.sim.traces import Points

Demand: TypeAlias = Callable[[datetime], float]  # requests per second, or whatever is counted

_DAY = timedelta(days=1)
_SATURDAY = 5

# ── curves: they add up ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The same all day."""

    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """A day's curve through these points, the same every day; between them it goes smoothly."""

    points: Mapping[str, float]  # time of day → rate
    weekend: float = 1.0  # × on Saturdays and Sundays


@dataclass(frozen=True, slots=True, kw_only=True)
class Stairs:
    """From each time on the value beside it, without a ramp. Before the first one the first value holds."""

    points: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A user's own measurements: a CSV with the columns timestamp and value."""

    file: str  # beside the scenario file, unless it is a whole path
    peak: float | None = None  # scaled so that this is its highest value; none: as it is
    start: str = "00:00"  # when its first row is …
    before: timedelta = timedelta(0)  # … or so much earlier: that part is history


# ── what happens to them: they multiply ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashSale:
    """Once: up within `rise`, so many times the load for `lasting`, and away within `fall`."""

    at: str
    times: float
    rise: timedelta = timedelta(minutes=4)
    lasting: timedelta = timedelta(minutes=30)
    fall: timedelta = timedelta(minutes=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class MorningSpike:
    """Every workday: work begins, everybody at once."""

    at: str = "09:00"
    times: float = 3.0
    ramp: timedelta = timedelta(minutes=5)
    lasting: timedelta = timedelta(minutes=30)
    fall: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseStorm:
    """Once, from one moment to the next."""

    at: str
    times: float = 10.0
    lasting: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Up and down by some percent, from the seed."""

    percent: float
    every: timedelta = timedelta(seconds=60)


Curve: TypeAlias = Steady | Daily | Stairs | Trace
Factor: TypeAlias = FlashSale | MorningSpike | ReleaseStorm | Noise
Shape: TypeAlias = Steady | Daily | Stairs | Trace | FlashSale | MorningSpike | ReleaseStorm | Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What shapes need besides themselves."""

    starts: datetime
    seed: str = "0"
    traces: Mapping[str, Points] | None = None  # by the file's name


def demand(shapes: Sequence[Shape], ground: Ground) -> Demand:
    """The load at any time, also before the start: that is how the days before are played."""
    curves = [_curve(shape, ground) for shape in shapes if isinstance(shape, Curve)]
    factors = [_factor(shape, ground, index) for index, shape in enumerate(shapes) if isinstance(shape, Factor)]

    def at(now: datetime) -> float:
        value = add_up(curve(now) for curve in curves)
        for factor in factors:
            value *= factor(now)
        return max(0.0, value)

    return at


def _curve(shape: Curve, ground: Ground) -> Demand:
    match shape:
        case Steady(rate=rate):
            return lambda _: rate
        case Daily():
            return _daily(shape)
        case Stairs():
            return _stairs(shape, ground.starts)
        case Trace():
            points = (ground.traces or {})[shape.file]
            return points.scaled(shape.peak).from_(moment(shape.start, ground.starts) - shape.before)
        case _:
            assert_never(shape)


def _factor(shape: Factor, ground: Ground, index: int) -> Demand:
    match shape:
        case FlashSale():
            begins = moment(shape.at, ground.starts)
            return lambda now: 1 + (shape.times - 1) * _plateau(now - begins, shape.rise, shape.lasting, shape.fall)
        case MorningSpike():
            return _morning(shape)
        case ReleaseStorm():
            begins = moment(shape.at, ground.starts)
            return lambda now: shape.times if begins <= now < begins + shape.lasting else 1.0
        case Noise():
            return _noise(shape, f"{ground.seed}/{index}")
        case _:
            assert_never(shape)


def _daily(shape: Daily) -> Demand:
    known = _sorted(shape.points)
    (first, low), (last, high) = known[0], known[-1]
    around = [(last - _DAY, high), *known, (first + _DAY, low)]
    times = [since for since, _ in around]

    def at(now: datetime) -> float:
        since = now - midnight(now)
        right = min(bisect_right(times, since), len(around) - 1)
        (begins, before), (ends, after) = around[right - 1], around[right]
        share = (since - begins) / (ends - begins)
        value = before + (after - before) * (1 - cos(pi * share)) / 2
        return value * (shape.weekend if now.weekday() >= _SATURDAY else 1.0)

    return at


def _stairs(shape: Stairs, starts: datetime) -> Demand:
    known = _sorted(shape.points)
    times = [midnight(starts) + since for since, _ in known]
    return lambda now: known[max(0, bisect_right(times, now) - 1)][1]


def _sorted(points: Mapping[str, float]) -> list[tuple[timedelta, float]]:
    return sorted((since_midnight(text) or timedelta(0), value) for text, value in points.items())


def _morning(shape: MorningSpike) -> Demand:
    opens = since_midnight(shape.at) or timedelta(0)

    def at(now: datetime) -> float:
        if now.weekday() >= _SATURDAY:
            return 1.0
        since = now - midnight(now) - opens
        return 1 + (shape.times - 1) * _plateau(since, shape.ramp, shape.lasting, shape.fall)

    return at


def _plateau(since: timedelta, rise: timedelta, lasting: timedelta, fall: timedelta) -> float:
    """0 before, up to 1 within `rise`, 1 until `lasting` is over, and down to 0 again within `fall`."""
    if since < timedelta(0):
        return 0.0
    if since < rise:
        return since / rise
    if since <= lasting:
        return 1.0
    return max(0.0, 1 - (since - lasting) / fall) if fall else 0.0


def _noise(shape: Noise, seed: str) -> Demand:
    step = shape.every.total_seconds()
    drawn: dict[int, float] = {}

    def knot(number: int) -> float:
        # One draw for each step of time, in whatever order it is asked for.
        if number not in drawn:
            drawn[number] = Random(f"{seed}/{number}").gauss(0.0, shape.percent / 100)  # noqa: S311  # repeatable
        return drawn[number]

    def at(now: datetime) -> float:
        number, rest = divmod(now.timestamp(), step)
        before, after = knot(int(number)), knot(int(number) + 1)
        return max(0.0, 1 + before + (after - before) * rest / step)

    return at
