"""Which hours a report is about.

A week is a person's week, from Monday to Monday where they live: 167 or 169 hours when the clocks change. What was used
is recorded by hours of UTC, so where the clocks differ from it by half an hour the week begins with the next full one.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

HOUR = timedelta(hours=1)
_WEEK = timedelta(days=7)
_DAYS_BETWEEN = timedelta(days=6)  # Monday to Sunday


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    start: datetime  # a full hour
    end: datetime  # the first hour that does not belong to it
    zone: tzinfo = UTC  # in which people read times

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


def _full_hour(at: datetime) -> datetime:
    """`at` in UTC, or the next full hour."""
    at = at.astimezone(UTC)
    begun = at.replace(minute=0, second=0, microsecond=0)
    return begun if begun == at else begun + HOUR
