"""Which reading a signal may use: a fresh one, the last good one, or none.

Missing is not zero. A reading that is too old counts as missing too; the last good one stands in for it while it is
young. That one may uphold growth that had already lasted. It never adds to a streak and never lets the fleet shrink.

A source that answers and has no data is another matter: often that is the idle state. What that counts as stands in
the policy (`when_missing`). One that cannot be asked is never replaced by anything.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import TypeAlias

from nodefleet.decide.signals.verdict import figure
from nodefleet.decide.signals.votes import Floor, Opinion, Veto
from nodefleet.decide.sustain import NO_BREACHES
from nodefleet.domain.decision import BoundSource
from nodefleet.domain.memory import Breaches
from nodefleet.domain.policy import Trust
from nodefleet.domain.policy.demand import WhenMissing
from nodefleet.domain.readings import Missing, PoolReadings, Reading, Sample


@dataclass(frozen=True, slots=True)
class Cached:
    """The last good reading, and why there is no newer one."""

    reading: Reading
    cause: str


@dataclass(frozen=True, slots=True)
class Assumed:
    """Stands for a reading whose source has no data, by its `when_missing`."""

    reading: Reading
    cause: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A reading without data that the rule is to do without."""

    cause: str


Input: TypeAlias = Reading | Cached | Missing


def custom_name(name: str) -> str:
    """How a custom rule or reading is called beside `cpu` and `memory`, which a user may take as names too."""
    return BoundSource.CUSTOM.named(name)


def fresh(sample: Sample, cached: Reading | None, trust: Trust, now: datetime) -> Input:
    """The sample if it can be trusted, else the last good one while that is young, else what is wrong."""
    wrong = sample.cause if isinstance(sample, Missing) else _wrong(sample, trust, now)
    if isinstance(sample, Reading) and not wrong:
        return sample
    return Cached(cached, wrong) if cached is not None and _young(cached, trust, now) else Missing(wrong)


def stood_in(
    sample: Sample, cached: Reading | None, trust: Trust, now: datetime, *, absent: WhenMissing, least: float | None
) -> Input | Assumed | Ignored:
    """The same of a reading whose policy says what it counts as without data. `least` is what a rule begins with that
    has a minimum for it."""
    got = fresh(sample, cached, trust, now)
    idle_at = _idle_at(sample, trust, now)
    if isinstance(got, Reading) or idle_at is None:
        return got
    match absent:
        case WhenMissing.IGNORE:
            return Ignored(got.cause)
        case WhenMissing.ZERO:
            return Assumed(Reading(0.0, idle_at), "no data, counts as 0")
        case WhenMissing.LAST if cached is not None or least is not None:
            value = cached.value if cached is not None else least or 0.0
            return Assumed(Reading(value, idle_at), f"no data, counts as {figure(value)}")
        case _:
            return got


def _idle_at(sample: Sample, trust: Trust, now: datetime) -> datetime | None:
    """When the source was last seen to have no data; none if it has, or could not be asked, or that was long ago."""
    if isinstance(sample, Reading) or sample.empty_at is None:
        return None
    return None if _wrong(Reading(0.0, sample.empty_at), trust, now) else sample.empty_at


def remembered(
    cached: Mapping[str, Reading],
    readings: PoolReadings,
    trust: Trust,
    now: datetime,
    for_good: Collection[str] = (),
) -> Mapping[str, Reading]:
    """The last good reading of each name, for the next look. One that is too old to be used is forgotten, unless it is
    among those that count as their last value however old."""
    kept = {name: reading for name, reading in cached.items() if name in for_good or _young(reading, trust, now)}
    samples = _named(readings).items()
    return kept | {name: got for name, got in samples if isinstance(got, Reading) and not _wrong(got, trust, now)}


def upheld(opinion: Opinion, before: Mapping[str, Breaches], cause: str) -> Opinion:
    """What remains of an opinion that was formed on a cached reading.

    A Floor stands if the reading had counted already when it was fresh. Everything else becomes a Veto, nothing is
    added to the breaches, and there is no value: a cached figure says nothing about whether new nodes helped.
    """
    known = {name: before.get(name, NO_BREACHES) for name in opinion.breaches}
    counted_anew = any(set(after.times) - set(known[name].times) for name, after in opinion.breaches.items())
    kept = replace(opinion, value=None, breaches=known)
    match opinion.vote:
        case Floor() as floor if not counted_anew:
            return replace(kept, vote=replace(floor, reason=f"{floor.reason} ({cause}: last good reading)"))
        case vote:
            return replace(kept, vote=Veto(f"{cause}; last good reading: {vote.reason}"))


def _wrong(reading: Reading, trust: Trust, now: datetime) -> str:
    """Why the reading cannot be trusted; empty if it can."""
    limit = trust.stale_after.total_seconds()
    age = (now - reading.at).total_seconds()
    if not isfinite(reading.value):
        return f"{reading.value} is not a number"
    if age > limit:
        return f"stale: sampled {age:.0f} s ago, limit {limit:.0f} s"
    if -age > limit:
        return f"from the future: sampled {-age:.0f} s ahead, limit {limit:.0f} s"
    return ""


def _young(cached: Reading, trust: Trust, now: datetime) -> bool:
    return -trust.stale_after <= now - cached.at < trust.cache_for


def _named(readings: PoolReadings) -> Mapping[str, Sample]:
    own = {custom_name(name): sample for name, sample in readings.custom.items()}
    return {"cpu": readings.cpu, "memory": readings.memory, **own}
