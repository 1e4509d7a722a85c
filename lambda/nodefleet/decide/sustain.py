"""A spike is not load: how long a reading has stood beyond its limit.

Readings count by sample time. Two looks ten seconds apart see the same minute of load, so a sample counts only if it
is at least three quarters of an interval younger than the last counted one; a gap starts anew.
"""

from dataclasses import dataclass
from datetime import timedelta

from nodefleet.domain.memory import Breaches
from nodefleet.domain.policy import Policy, Readings, Score
from nodefleet.domain.policy.settings import Lasting
from nodefleet.domain.readings import Reading

NO_BREACHES = Breaches()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far apart readings are meant to be."""

    interval: timedelta
    spacing: float  # × interval: closer ones count once
    gap: float  # × interval: a longer silence starts anew

    @classmethod
    def of(cls, policy: Policy) -> "Pace":
        return cls(interval=policy.interval, spacing=policy.trust.spacing, gap=policy.trust.gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasted:
    breaches: Breaches
    held: bool  # beyond the limit now, and for long enough
    progress: str  # "1 of 2 readings", "score 1.25 of 2"


def lasted(before: Breaches, sample: Reading, *, beyond: bool, lasting: Lasting, pace: Pace) -> Lasted:
    """The breaches after this sample, and whether they have lasted."""
    match lasting:
        case Readings(count=needed):
            breaches = _streak(before, sample, beyond=beyond, pace=pace, keep=needed)
            seen = len(breaches.times)
            return Lasted(breaches=breaches, held=seen >= needed, progress=f"{seen} of {needed} readings")
        case Score():
            breaches = _scored(before, sample, beyond=beyond, lasting=lasting, pace=pace)
            score = score_of(breaches, sample, lasting)
            held = beyond and score >= lasting.threshold
            return Lasted(breaches=breaches, held=held, progress=f"score {score:.2f} of {lasting.threshold:g}")


def score_of(breaches: Breaches, sample: Reading, lasting: Score) -> float:
    """Σ 0.5^(age / half-life) over the breaches in the window."""
    return float(sum(0.5 ** ((sample.at - time) / lasting.half_life) for time in breaches.times))


def highest_score(lasting: Score, interval: timedelta) -> float:
    """What uninterrupted breaches can reach at most; a threshold above it never triggers."""
    fitting = int(lasting.window / interval)
    return float(sum(0.5 ** (age * interval / lasting.half_life) for age in range(fitting + 1)))


def _streak(before: Breaches, sample: Reading, *, beyond: bool, pace: Pace, keep: int) -> Breaches:
    if not beyond:
        return Breaches(last=sample.at)
    if not before.times or sample.at - before.times[-1] > pace.gap * pace.interval:
        return Breaches(times=(sample.at,), since=sample.at, last=sample.at)
    if sample.at - before.times[-1] < pace.spacing * pace.interval:
        return before
    # Older than needed is not kept: the memory stays small however long it lasts.
    return Breaches(times=(*before.times, sample.at)[-keep:], since=before.since, last=sample.at)


def _scored(before: Breaches, sample: Reading, *, beyond: bool, lasting: Score, pace: Pace) -> Breaches:
    times = tuple(time for time in before.times if sample.at - time <= lasting.window)
    is_new = not times or sample.at - times[-1] >= pace.spacing * pace.interval
    if beyond and is_new:
        times = (*times, sample.at)
    since = (before.since or sample.at) if beyond and times else None
    return Breaches(times=times, since=since, last=sample.at)
