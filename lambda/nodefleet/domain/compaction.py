"""A journal that grows too large for its record, made smaller step by step.

Everything in it is safe to lose, but not equally cheap to learn again: figures are rounded first, then old load
profiles go, then what a signal learned, and at last everything but who is there and what is under way. Each step starts
from the one before, and the first that fits is taken, so that nothing is lost without need.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from functools import partial

from nodefleet.domain.journal import Journal
from nodefleet.domain.memory import PoolMemory

_DECIMALS = 3  # of a node: the forecast is rounded up to whole ones
_DAYS = (14, 7, 2)  # of the load profile: two weeks are enough for weekdays, one for the hours of a day
_MOST_SAID = 1_000  # conditions that people were told of; those told longest ago are forgotten, and told again

# Who is there, who left, and what is under way: without it a loss is not replaced, or a brake is forgotten.
_NEEDED = frozenset(
    {
        "last_grow",
        "last_shrink",
        "forecast",
        "members",
        "losses",
        "join_trouble",
        "shortages",
        "backoffs",
        "suspects",
        "vanished",
        "rotation",
    }
)
_LEARNED = ("grants", "pod_grants", "peaks", "cached", "breaches")


@dataclass(frozen=True, slots=True)
class Compacted:
    journal: Journal
    lost: str  # what is not in it any more; empty: nothing but decimals


def compactions(journal: Journal) -> Iterator[Compacted]:
    """Ever smaller ones."""
    journal = _each(journal, _rounded)
    yield Compacted(journal, "")
    if any(pool.adaptive for pool in journal.memory.pools.values()):
        journal = _each(journal, _without_forecaster)
        yield Compacted(journal, "what the adaptive strategy has learned")
    for days in _DAYS:
        journal = _each(journal, partial(_cut, days=days))
        yield Compacted(journal, f"load profiles of more than {days} days")
    newest = sorted(journal.said.items(), key=lambda told: told[1].told_at)[-_MOST_SAID:]
    journal = _each(replace(journal, said=dict(newest)), _unlearned)
    yield Compacted(journal, "load profiles of more than 2 days, and what signals have learned")
    yield Compacted(_each(journal, _bare), "everything but who is there and what is under way")


def _each(journal: Journal, change: Callable[[PoolMemory], PoolMemory]) -> Journal:
    memory = journal.memory
    return replace(journal, memory=replace(memory, pools={name: change(pool) for name, pool in memory.pools.items()}))


def _rounded(pool: PoolMemory) -> PoolMemory:
    profile = [
        replace(hour, load=round(hour.load, _DECIMALS), last=hour.last.replace(second=0, microsecond=0))
        for hour in pool.profile
    ]
    return replace(pool, profile=tuple(profile))


def _without_forecaster(pool: PoolMemory) -> PoolMemory:
    """It is the largest part, and learned again from Prometheus in one query."""
    return replace(pool, adaptive=replace(pool.adaptive, forecaster=None)) if pool.adaptive else pool


def _cut(pool: PoolMemory, days: int) -> PoolMemory:
    if not pool.profile:
        return pool
    last = date.fromisoformat(max(hour.day for hour in pool.profile))
    first = (last - timedelta(days=days - 1)).isoformat()
    return replace(pool, profile=tuple(hour for hour in pool.profile if hour.day >= first))


def _unlearned(pool: PoolMemory) -> PoolMemory:
    return replace(pool, **{name: type(getattr(pool, name))() for name in _LEARNED})


def _bare(pool: PoolMemory) -> PoolMemory:
    return PoolMemory(**{each.name: getattr(pool, each.name) for each in fields(pool) if each.name in _NEEDED})
