"""Which reading a signal may use: a fresh one, the last good one, or none.

Missing is not zero. A reading that is too old counts as missing too; the last good one stands in for it while it is
young. That one may uphold growth that had already lasted. It never adds to a streak and never lets the fleet shrink.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import TypeAlias

from nodefleet.decide.signals.votes import Floor, Opinion, Veto
from nodefleet.decide.sustain import NO_BREACHES
from nodefleet.domain.memory import Breaches
from nodefleet.domain.policy import Trust
from nodefleet.domain.readings import Missing, PoolReadings, Reading, Sample


@dataclass(frozen=True, slots=True)
class Cached:
    """The last good reading, and why there is no newer one."""

    reading: Reading
    cause: str


Input: TypeAlias = Reading | Cached | Missing


def custom_name(name: str) -> str:
    """How a custom rule or reading is called beside `cpu` and `memory`, which a user may take as names too."""
    return f"custom:{name}"


def fresh(sample: Sample, cached: Reading | None, trust: Trust, now: datetime) -> Input:
    """The sample if it can be trusted, else the last good one while that is young, else what is wrong."""
    wrong = sample.cause if isinstance(sample, Missing) else _wrong(sample, trust, now)
    if isinstance(sample, Reading) and not wrong:
        return sample
    return Cached(cached, wrong) if cached is not None and _young(cached, trust, now) else Missing(wrong)


def remembered(
    cached: Mapping[str, Reading], readings: PoolReadings, trust: Trust, now: datetime
) -> Mapping[str, Reading]:
    """The last good reading of each name, for the next look. One that is too old to be used is forgotten."""
    kept = {name: reading for name, reading in cached.items() if _young(reading, trust, now)}
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
