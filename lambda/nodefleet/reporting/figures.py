"""A pool's week: sums and means of what its hours recorded.

Only what was watched counts, and means are over the node-hours that were paid for: an hour with ten nodes says ten
times as much about them as an hour with one. A mean that nothing is known of is none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import fields as fields_of
from datetime import datetime
from math import isfinite
from operator import attrgetter
from typing import TypeAlias

from nodefleet.domain.journal import PoolUsage, Usage
from nodefleet.reporting.period import Period

_HOUR = 3600.0
_LARGEST = 1e12  # no pool uses more in an hour, of anything
_HARDLY_ANY = 1e-6  # less than this is what rounding leaves of nothing
_NUMBERS = tuple(field.name for field in fields_of(PoolUsage) if field.name not in {"types", "fewest_nodes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHour:
    start: datetime
    used: PoolUsage

    @property
    def watched(self) -> float:
        """Hours, one at most."""
        return min(1.0, self.used.watched_seconds / _HOUR)

    @property
    def node_hours(self) -> float:
        return (self.used.spot_seconds + self.used.on_demand_seconds) / _HOUR

    @property
    def nodes(self) -> float:
        """On the mean of what was watched."""
        return _ratio(self.node_hours, self.watched) or 0.0

    @property
    def cpu(self) -> float | None:
        return _ratio(self.used.cpu_seconds, self.used.cpu_known)

    @property
    def memory(self) -> float | None:
        return _ratio(self.used.memory_seconds, self.used.memory_known)

    @property
    def requested_cpu(self) -> float | None:
        return _ratio(self.used.requested_cpu_seconds, self.used.requested_known)

    @property
    def requested_memory(self) -> float | None:
        return _ratio(self.used.requested_memory_seconds, self.used.requested_known)


Figure: TypeAlias = Callable[[PoolHour], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWeek:
    name: str
    hours: tuple[PoolHour, ...] = ()  # in order

    def since(self, at: datetime) -> "PoolWeek":
        """Its hours that begin at `at` or later."""
        return PoolWeek(name=self.name, hours=tuple(hour for hour in self.hours if hour.start >= at))

    def total(self, field: str) -> float:
        """The sum of one of PoolUsage's numbers."""
        return float(sum(map(attrgetter(f"used.{field}"), self.hours)))

    def count(self, field: str) -> int:
        return int(self.total(field))

    def mean(self, figure: Figure) -> float | None:
        """Over the node-hours of the hours in which it is known."""
        known = [(value, hour.node_hours) for hour in self.hours if (value := figure(hour)) is not None]
        return _ratio(sum(value * weight for value, weight in known), sum(weight for _, weight in known))

    def known_percent(self, field: str) -> float:
        """How much of the watched time something could be read; `field` is cpu_known or the like."""
        return min(100.0, 100 * (_ratio(self.total(field), self.total("watched_seconds")) or 0.0))

    @property
    def watched(self) -> float:
        return sum(hour.watched for hour in self.hours)

    @property
    def node_hours(self) -> float:
        return self.spot_hours + self.on_demand_hours

    @property
    def spot_hours(self) -> float:
        return self.total("spot_seconds") / _HOUR

    @property
    def on_demand_hours(self) -> float:
        return self.total("on_demand_seconds") / _HOUR

    @property
    def spot_percent(self) -> float | None:
        return _percent(self.spot_hours, self.node_hours)

    @property
    def unpriced_percent(self) -> float:
        return min(100.0, _percent(self.total("unpriced_seconds") / _HOUR, self.node_hours) or 0.0)

    @property
    def usd(self) -> float:
        return self.total("usd")

    @property
    def usd_per_node_hour(self) -> float | None:
        """What a node-hour with a known price cost on the mean."""
        return _ratio(self.usd, self.node_hours - self.total("unpriced_seconds") / _HOUR) if self.usd else None

    @property
    def nodes(self) -> float:
        return _ratio(self.node_hours, self.watched) or 0.0

    @property
    def peak(self) -> int:
        return max((hour.used.most_nodes for hour in self.hours), default=0)

    @property
    def fewest(self) -> int:
        return min((hour.used.fewest_nodes for hour in self.hours if hour.used.fewest_nodes is not None), default=0)

    @property
    def at_max_hours(self) -> float:
        return self.total("at_max_seconds") / _HOUR

    @property
    def at_max_percent(self) -> float:
        """Of the watched time."""
        return min(100.0, _percent(self.at_max_hours, self.watched) or 0.0)

    @property
    def main_type(self) -> str:
        """The instance type that ran longest; empty if none ran."""
        ran: dict[str, float] = {}
        for hour in self.hours:
            for kind, seconds in hour.used.types.items():
                ran[kind] = ran.get(kind, 0.0) + seconds
        return min(ran, key=lambda kind: (-ran[kind], kind), default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was recorded of a period, made safe to reckon with."""

    hours: tuple[Usage, ...]  # each once, in order
    impossible: int = 0  # figures of a pool's hour that cannot be: left out

    @property
    def watched(self) -> float:
        """Hours in which somebody looked, whichever pool it was."""
        return sum(
            max((PoolHour(start=each.hour, used=used).watched for used in each.pools.values()), default=0.0)
            for each in self.hours
        )

    @property
    def waiting_pod_hours(self) -> float:
        """Pods that waited for a node. Each pool's hour counts those of the whole cluster."""
        return sum(
            max((used.waiting_pod_seconds for used in each.pools.values()), default=0.0) / _HOUR for each in self.hours
        )

    def pool(self, name: str) -> PoolWeek:
        hours = (PoolHour(start=each.hour, used=each.pools[name]) for each in self.hours if name in each.pools)
        return PoolWeek(name=name, hours=tuple(hours))

    def pools(self) -> list[str]:
        return sorted({name for each in self.hours for name in each.pools})


def recorded(usage: Iterable[Usage], period: Period) -> Record:
    """The period's hours. Of two records of the same hour the longer one counts."""
    latest: dict[datetime, Usage] = {}
    for each in usage:
        known = latest.get(each.hour)
        if each.hour in period and (known is None or each.last > known.last):
            latest[each.hour] = each
    hours, impossible = [], 0
    for hour in sorted(latest):
        each = latest[hour]
        sound = {name: used for name, used in each.pools.items() if _is_possible(used)}
        impossible += len(each.pools) - len(sound)
        hours.append(Usage(hour=each.hour, last=each.last, pools=sound))
    return Record(hours=tuple(hours), impossible=impossible)


def _is_possible(used: PoolUsage) -> bool:
    numbers: list[float] = [*attrgetter(*_NUMBERS)(used), *used.types.values(), used.fewest_nodes or 0]
    return all(isfinite(each) and 0 <= each <= _LARGEST for each in numbers)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > _HARDLY_ANY else None


def _percent(part: float, whole: float) -> float | None:
    share = _ratio(part, whole)
    return None if share is None else 100 * share
