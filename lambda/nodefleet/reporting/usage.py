"""Usage of a period, hour by hour: what was watched, used and paid, and how figures are written."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import fields as fields_of
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from math import isfinite
from operator import attrgetter
from typing import TypeAlias

from nodefleet.model.state import PoolUsage, Usage

# ── period ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Which hours a report is about.
#
# A week is an operator's week, from Monday to Monday where they live: 167 or 169 hours when the clocks change. What was
# used is recorded by hours of UTC, so where the clocks differ from it by half an hour the week begins with the next
# full one.


HOUR = timedelta(hours=1)
_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
_DAYS_BETWEEN = timedelta(days=6)  # Monday to Sunday


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    start: datetime  # a full hour
    end: datetime  # the first hour that does not belong to it
    zone: tzinfo = UTC  # in which operators read times

    def __contains__(self, at: datetime) -> bool:
        return self.start <= at < self.end

    @property
    def hours(self) -> int:
        return max(0, (self.end - self.start) // HOUR)

    @property
    def name(self) -> str:
        """2026-W46; other periods than a week go by their first and last day."""
        first, last = self._days()
        if first.isoweekday() == 1 and last - first == _DAYS_BETWEEN:
            year, week, _ = first.isocalendar()
            return f"{year}-W{week:02}"
        return f"{first.isoformat()}..{last.isoformat()}"

    @property
    def words(self) -> str:
        first, last = self._days()
        days = f"{first.isoformat()} to {last.isoformat()}"
        return f"Week {self.name} ({days})" if "W" in self.name else f"From {days}"

    def local(self, at: datetime) -> str:
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M}"

    def _days(self) -> tuple[date, date]:
        last = max(self.start, self.end - HOUR)
        return self.start.astimezone(self.zone).date(), last.astimezone(self.zone).date()


def last_week(now: datetime, zone: tzinfo) -> Period:
    """The last week that is over at `now`."""
    today = now.astimezone(zone).date()
    monday = today - timedelta(days=today.weekday())
    start, end = (_full_hour(datetime.combine(day, time(), zone)) for day in (monday - _WEEK, monday))
    return Period(start=start, end=end, zone=zone)


def last_day(now: datetime, zone: tzinfo) -> Period:
    """Yesterday."""
    today = now.astimezone(zone).date()
    start, end = (_full_hour(datetime.combine(day, time(), zone)) for day in (today - _DAY, today))
    return Period(start=start, end=end, zone=zone)


def _full_hour(at: datetime) -> datetime:
    """`at` in UTC, or the next full hour."""
    at = at.astimezone(UTC)
    begun = at.replace(minute=0, second=0, microsecond=0)
    return begun if begun == at else begun + HOUR


# ── hours and pools ──────────────────────────────────────────────────────────────────────────────────────────────────
# A pool's week: sums and means of what its hours recorded.
#
# Only what was watched counts, and means are over the node-hours that were paid for: an hour with ten nodes says ten
# times as much about them as an hour with one. A mean that nothing is known of is none.


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
        return _share_percent(self.spot_hours, self.node_hours)

    @property
    def unpriced_percent(self) -> float:
        return min(100.0, _share_percent(self.total("unpriced_seconds") / _HOUR, self.node_hours) or 0.0)

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
        return min(100.0, _share_percent(self.at_max_hours, self.watched) or 0.0)

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
        """Hours with an iteration, of any pool."""
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


def collect_hours(usage: Iterable[Usage], period: Period) -> Record:
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


def _share_percent(part: float, whole: float) -> float | None:
    share = _ratio(part, whole)
    return None if share is None else 100 * share


# ── figures as text ──────────────────────────────────────────────────────────────────────────────────────────────────
# Figures as operators read them: rounded, never rounder than they are.


_HALF_A_CENT = 0.005
_ALL = 100


def cents(amount: float) -> float:
    """To the cent. Rounded once, then added and subtracted, so that the figures of a report agree with each other."""
    return round(amount, 2)


def usd(amount: float) -> str:
    if 0 < amount < _HALF_A_CENT:
        return "less than USD 0.01"
    return f"USD {amount:,.2f}"


def hourly(price: float) -> str:
    return f"USD {price:.4f}/h"


def percent(value: float) -> str:
    """Some is never 0 % and not all is never 100 %."""
    if 0 < value < 1:
        return "<1 %"
    if _ALL - 1 < value < _ALL:
        return ">99 %"
    return f"{value:.0f} %"


def number(value: float) -> str:
    """One digit where it says something."""
    rounded = round(float(value), 1)
    return f"{rounded:,.0f}" if rounded >= 10 or rounded.is_integer() else f"{rounded:.1f}"  # noqa: PLR2004


def hours(value: float) -> str:
    return f"{number(value)} h"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def some(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


# ── coverage ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# What was watched of a period, and what was not: a figure says nothing of hours without an iteration.


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    start: datetime
    hours: int


def gaps(recorded: Iterable[datetime], period: Period) -> tuple[Gap, ...]:
    """Stretches of hours without a record, in order."""
    known = set(recorded)
    found: list[Gap] = []
    for index in range(period.hours):
        hour = period.start + index * HOUR
        if hour in known:
            continue
        if found and found[-1].start + found[-1].hours * HOUR == hour:
            found[-1] = Gap(start=found[-1].start, hours=found[-1].hours + 1)
        else:
            found.append(Gap(start=hour, hours=1))
    return tuple(found)


def coverage(record: Record, period: Period) -> str:
    """In a sentence or a few."""
    share = 100 * record.watched / period.hours if period.hours else 0.0
    said = [f"{number(record.watched)} of {period.hours} h ({percent(share)})"]
    missing = gaps((each.hour for each in record.hours), period)
    between = [gap for gap in missing if period.start < gap.start and gap.start + gap.hours * HOUR < period.end]
    if missing and missing[0].start == period.start and missing[0].hours < period.hours:
        said.append(f"the record begins {period.local(period.start + missing[0].hours * HOUR)}")
    if between:
        longest = max(between, key=lambda gap: gap.hours)
        total = sum(gap.hours for gap in between)
        most = "" if len(between) == 1 else f"{longest.hours} of them "
        said.append(f"{total} h in between are missing, {most}from {period.local(longest.start)} on")
    if missing and missing[-1].hours > 1 and missing[-1] not in between and missing[-1].start > period.start:
        said.append(f"nothing was recorded from {period.local(missing[-1].start)} on, so see that the schedule runs")
    if record.impossible:
        said.append(f"{some(record.impossible, 'hour of a pool', 'hours of pools')} with impossible figures left out")
    return "; ".join(said)
