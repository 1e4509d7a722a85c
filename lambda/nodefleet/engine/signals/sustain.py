"""A spike is not load: how long a reading has stood beyond its limit.

Readings count by sample time. Two observations ten seconds apart see the same minute of load, so a sample counts only
if it is at least three quarters of an interval younger than the last counted one; a gap starts again.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from nodefleet.model.arithmetic import add_up
from nodefleet.model.readings import Reading
from nodefleet.model.state import Breaches
from nodefleet.policy.cluster import Policy
from nodefleet.policy.fields import Lasting, Readings, Score

NO_BREACHES = Breaches()

# How long it must stay so: in readings, as a score, or for a time. AT_ONCE is no time at all.
HowLong: TypeAlias = Lasting | timedelta
AT_ONCE = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How far apart readings are meant to be."""

    interval: timedelta
    spacing: float  # × interval: closer ones count once
    gap: float  # × interval: a longer silence starts again

    @classmethod
    def of(cls, policy: Policy) -> "Pace":
        return cls(interval=policy.interval, spacing=policy.trust.spacing, gap=policy.trust.gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    breaches: Breaches
    held: bool  # beyond the limit now, and for long enough
    progress: str  # "1 of 2 readings", "score 1.25 of 2", "for 120 of 300 s"


def evaluate_sustain(before: Breaches, sample: Reading, *, beyond: bool, lasting: HowLong, pace: Pace) -> Sustained:
    """The breaches after this sample, and whether they have lasted."""
    if before.last is not None and sample.at < before.last:
        # An older sample than one already seen is no news of that time: it must neither count nor weigh more than 1.
        sample = replace(sample, at=before.last)
    match lasting:
        case Readings(count=needed):
            breaches = _streak(before, sample, beyond=beyond, pace=pace, keep=needed)
            seen = len(breaches.times)
            return Sustained(breaches=breaches, held=seen >= needed, progress=f"{seen} of {needed} readings")
        case Score():
            breaches = _score_breaches(before, sample, beyond=beyond, lasting=lasting, pace=pace)
            score = score_of(breaches, sample, lasting)
            held = beyond and score >= lasting.threshold
            return Sustained(breaches=breaches, held=held, progress=f"score {score:.2f} of {lasting.threshold:g}")
        case timedelta():
            breaches = _streak(before, sample, beyond=beyond, pace=pace, keep=1)
            stood = sample.at - (breaches.since or sample.at)
            held = beyond and stood >= lasting
            return Sustained(breaches=breaches, held=held, progress=_describe_elapsed(stood, lasting))


def _describe_elapsed(stood: timedelta, lasting: timedelta) -> str:
    if not lasting:
        return "at once"
    seconds = f"{stood.total_seconds():.0f}"
    return f"for {seconds} s" if stood >= lasting else f"for {seconds} of {lasting.total_seconds():.0f} s"


def score_of(breaches: Breaches, sample: Reading, lasting: Score) -> float:
    """Σ 0.5^(age / half-life) over the breaches in the window."""
    return float(add_up(0.5 ** ((sample.at - time) / lasting.half_life) for time in breaches.times))


def _streak(before: Breaches, sample: Reading, *, beyond: bool, pace: Pace, keep: int) -> Breaches:
    if not beyond:
        return Breaches(last=sample.at)
    if _begins(before, sample, pace):
        return Breaches(times=(sample.at,), since=sample.at, last=sample.at)
    times = before.times
    if _is_new(times, sample, pace):
        times = (*times, sample.at)
    # Older than needed is not kept: the memory stays small however long it lasts.
    return Breaches(times=times[-keep:], since=before.since, last=sample.at)


def _score_breaches(before: Breaches, sample: Reading, *, beyond: bool, lasting: Score, pace: Pace) -> Breaches:
    times = tuple(time for time in before.times if sample.at - time <= lasting.window)
    if not beyond:
        return Breaches(times=times, last=sample.at)
    if _is_new(times, sample, pace):
        times = (*times, sample.at)
    return Breaches(times=times, since=sample.at if _begins(before, sample, pace) else before.since, last=sample.at)


def _begins(before: Breaches, sample: Reading, pace: Pace) -> bool:
    """The sample before was on the other side, or the silence since it was too long."""
    return before.since is None or before.last is None or sample.at - before.last > pace.gap * pace.interval


def _is_new(times: tuple[datetime, ...], sample: Reading, pace: Pace) -> bool:
    return not times or sample.at - times[-1] >= pace.spacing * pace.interval
