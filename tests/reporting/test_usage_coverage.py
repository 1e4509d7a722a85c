"""What was not watched is said."""

from dataclasses import replace
from math import nan

import pytest

from nodefleet.reporting.usage import collect_hours, coverage, gaps
from support.week_builders import WEEK, hours, used


@pytest.mark.parametrize(
    ("stretches", "said"),
    [
        ([(168, used())], "168 of 168 h (100 %)"),
        ([(168, used(watched=0.98))], "165 of 168 h (98 %)"),
        ([(60, None), (108, used())], "108 of 168 h (64 %); the record begins 2026-11-11 12:00"),
        (
            [(20, used()), (3, None), (145, used())],
            "165 of 168 h (98 %); 3 h in between are missing, from 2026-11-09 20:00 on",
        ),
        (
            [(20, used()), (1, None), (20, used()), (4, None), (123, used())],
            "163 of 168 h (97 %); 5 h in between are missing, 4 of them from 2026-11-10 17:00 on",
        ),
        (
            [(100, used()), (68, None)],
            "100 of 168 h (60 %); nothing was recorded from 2026-11-13 04:00 on, so see that the schedule runs",
        ),
        # the last hour may still be running
        ([(167, used()), (1, None)], "167 of 168 h (>99 %)"),
        (
            [(167, used()), (1, replace(used(), usd=nan))],
            "167 of 168 h (>99 %); 1 hour of a pool with impossible figures left out",
        ),
        ([], "0 of 168 h (0 %)"),
        (
            [(1, None), (1, used()), (166, None)],
            (
                "1 of 168 h (<1 %); the record begins 2026-11-09 01:00; "
                "nothing was recorded from 2026-11-09 02:00 on, so see that the schedule runs"
            ),
        ),
    ],
)
def test_what_was_watched_and_what_was_not(stretches, said):
    assert coverage(collect_hours(hours(*stretches), WEEK), WEEK) == said


def test_a_week_without_a_record_is_one_gap():
    (gap,) = gaps((), WEEK)
    assert (gap.start, gap.hours) == (WEEK.start, 168)
