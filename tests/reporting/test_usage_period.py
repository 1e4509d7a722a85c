"""Which hours belong to an operator's week."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from nodefleet.reporting.usage import Period, last_week

BERLIN, KOLKATA, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata"), ZoneInfo("America/New_York")


def utc(month, day, hour=0, minute=0, year=2026):
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "zone", "start", "end", "hours", "name"),
    [
        (utc(11, 16, 9), UTC, utc(11, 9), utc(11, 16), 168, "2026-W46"),
        (utc(11, 16, 8), BERLIN, utc(11, 8, 23), utc(11, 15, 23), 168, "2026-W46"),
        # spring forward in Berlin on 29 March, back on 25 October
        (utc(3, 30, 7), BERLIN, utc(3, 22, 23), utc(3, 29, 22), 167, "2026-W13"),
        (utc(10, 26, 8), BERLIN, utc(10, 18, 22), utc(10, 25, 23), 169, "2026-W43"),
        (utc(3, 9, 13), NEW_YORK, utc(3, 2, 5), utc(3, 9, 4), 167, "2026-W10"),
        # Monday begins at 18:30 UTC there: with the next full hour
        (utc(11, 16, 4), KOLKATA, utc(11, 8, 19), utc(11, 15, 19), 168, "2026-W46"),
        # over the turn of the year
        (utc(1, 4, 9, year=2027), UTC, utc(12, 28), utc(1, 4, year=2027), 168, "2026-W53"),
    ],
)
def test_the_week_before_runs_from_monday_to_monday_where_people_live(now, zone, start, end, hours, name):
    week = last_week(now, zone)
    assert (week.start, week.end, week.hours, week.name) == (start, end, hours, name)


@pytest.mark.parametrize("days", range(7))
def test_any_day_of_a_week_reports_the_week_before(days):
    now = utc(11, 16) + timedelta(days=days)
    assert last_week(now, BERLIN).name == "2026-W46"


def test_sunday_night_there_is_still_last_week():
    assert last_week(utc(11, 16, 4), NEW_YORK).name == "2026-W45"


def test_the_last_hour_belongs_to_the_week_and_the_next_one_does_not():
    week = last_week(utc(11, 16, 9), UTC)
    assert utc(11, 9) in week
    assert utc(11, 15, 23) in week
    assert utc(11, 16) not in week


@pytest.mark.parametrize(
    ("period", "words", "name"),
    [
        (last_week(utc(11, 16, 9), KOLKATA), "Week 2026-W46 (2026-11-09 to 2026-11-15)", "2026-W46"),
        (
            Period(start=utc(11, 10, 7), end=utc(11, 12, 7)),
            "From 2026-11-10 to 2026-11-12",
            "2026-11-10..2026-11-12",
        ),
        (Period(start=utc(11, 9), end=utc(11, 16, 7)), "From 2026-11-09 to 2026-11-16", "2026-11-09..2026-11-16"),
    ],
)
def test_a_period_is_named_by_its_local_days(period, words, name):
    assert (period.words, period.name) == (words, name)


def test_times_are_told_as_people_there_read_them():
    assert last_week(utc(11, 16, 9), KOLKATA).local(utc(11, 11, 20)) == "2026-11-12 01:30"
