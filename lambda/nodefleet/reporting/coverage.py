"""What was watched of a period, and what was not: a figure says nothing of hours that nobody saw."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from nodefleet.reporting.amounts import number, percent, some
from nodefleet.reporting.figures import Record
from nodefleet.reporting.period import HOUR, Period


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
