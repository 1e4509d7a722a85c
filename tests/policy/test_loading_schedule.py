"""Which windows are open, in whose time, and what happens when the clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodefleet.model.snapshot import ActiveWindow
from nodefleet.policy.cluster import Policy
from nodefleet.policy.file_schema import path_of
from nodefleet.policy.loading import active_windows, schedule_conflicts, utc_offset
from nodefleet.policy.pool import Pool, Window
from support.wording import assert_wording

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def policy(*windows: Window, zone: str = "UTC") -> Policy:
    return Policy(time_zone=zone, pools=(Pool(windows=windows),))


def window(cron: str, lasting: timedelta = HOUR, zone: str | None = None) -> Window:
    return Window(name="w", cron=cron, lasting=lasting, time_zone=zone, min=3)


def until(now: str, cron: str, lasting: timedelta = HOUR, zone: str = "UTC") -> datetime | None:
    found = active_windows(policy(window(cron, lasting), zone=zone), utc(now))
    return found[0].until if found else None


@pytest.mark.parametrize(
    ("now", "is_open"),
    [
        ("2026-11-16T07:59:59", False),
        ("2026-11-16T08:00:00", True),
        ("2026-11-16T08:59:59", True),
        ("2026-11-16T09:00:00", False),
        ("2026-11-15T08:30:00", False),  # a Sunday
    ],
)
def test_a_window_is_open_from_its_match_for_as_long_as_it_lasts(now, is_open):
    closes = until(now, "0 8 * * 1-5")
    assert closes == (utc("2026-11-16T09:00:00") if is_open else None)


def test_parts_of_a_second_do_not_matter():
    now = datetime(2026, 11, 16, 8, 0, 0, 1, tzinfo=UTC)
    assert len(active_windows(policy(window("0 8 * * *")), now)) == 1
    assert active_windows(policy(window("0 8 * * *")), now - timedelta(microseconds=2)) == ()


def test_a_long_window_stays_open_for_days():
    weekend = "0 0 * * 6"
    assert until("2026-11-15T23:59:00", weekend, 48 * HOUR) == utc("2026-11-16T00:00:00")
    assert until("2026-11-16T00:00:00", weekend, 48 * HOUR) is None
    assert until("2026-11-01T00:00:00", "0 0 1 1 *", timedelta(days=366)) == utc("2027-01-02T00:00:00")


def test_a_window_that_opens_again_before_it_closes_ends_after_the_last_opening():
    assert until("2026-11-16T08:20:30", "*/10 * * * *", HOUR) == utc("2026-11-16T09:20:00")
    assert until("2026-11-16T08:00:00", "0 * * * *", HOUR) == utc("2026-11-16T09:00:00")


def test_cron_is_read_in_the_policys_zone_unless_the_window_names_its_own():
    eight = window("0 8 * * *")
    now = utc("2026-11-16T07:30:00")  # 8:30 in Berlin
    assert len(active_windows(policy(eight, zone="Europe/Berlin"), now)) == 1
    assert active_windows(policy(eight, zone="UTC"), now) == ()
    own = window("0 8 * * *", zone="Europe/Berlin")
    assert len(active_windows(policy(own, zone="UTC"), now)) == 1


def test_an_open_window_carries_its_pool_and_its_bounds():
    rush = Window(name="rush", cron="0 8 * * *", lasting=HOUR, min=3, max=8)
    pools = (Pool(name="a"), Pool(name="b", windows=(window("0 9 * * *"), rush)))
    assert active_windows(Policy(pools=pools), utc("2026-11-16T08:30:00")) == (
        ActiveWindow(pool="b", name="rush", until=utc("2026-11-16T09:00:00"), min=3, max=8),
    )


# In Berlin the clock goes from 2:00 to 3:00 on 29 March 2026 and from 3:00 to 2:00 on 25 October, at 1:00 UTC.


@pytest.mark.parametrize(
    ("now", "closes"),
    [
        ("2026-03-28T01:30:00", "2026-03-28T02:30:00"),  # the day before: 2:30 is 1:30 UTC
        ("2026-03-29T00:59:00", None),
        ("2026-03-29T01:00:00", "2026-03-29T02:00:00"),  # there is no 2:30: it opens right after the change
        ("2026-03-30T00:30:00", "2026-03-30T01:30:00"),  # the day after: 2:30 is 0:30 UTC
    ],
)
def test_a_time_that_the_clocks_skip_opens_right_after(now, closes):
    assert until(now, "30 2 * * *", zone="Europe/Berlin") == (utc(closes) if closes else None)


@pytest.mark.parametrize(
    ("now", "closes"),
    [
        ("2026-10-25T00:29:00", None),
        ("2026-10-25T00:30:00", "2026-10-25T01:30:00"),
        ("2026-10-25T01:15:00", "2026-10-25T01:30:00"),  # 2:15 for the second time; opened at the first 2:30
        ("2026-10-25T01:30:00", None),  # 2:30 for the second time opens nothing
    ],
)
def test_a_time_that_comes_twice_opens_once(now, closes):
    assert until(now, "30 2 * * *", zone="Europe/Berlin") == (utc(closes) if closes else None)


def test_a_window_lasts_as_long_on_the_day_of_the_change():
    night = "0 22 * * *"
    assert until("2026-10-25T03:59:00", night, 8 * HOUR, "Europe/Berlin") == utc("2026-10-25T04:00:00")
    assert until("2026-03-29T04:59:00", night, 8 * HOUR, "Europe/Berlin") == utc("2026-03-29T05:00:00")


CRONS = ["30 2 * * *", "0 */3 * * *", "*/20 * * * *", "15 1,2 * * 0", "0 0 * * 1-5", "45 23 L * *"]


@pytest.mark.parametrize("hour", [-3, 0, 3, 6])
def test_clocks_that_change_by_half_an_hour_skip_no_match(hour):
    """At 15:00 UTC the clocks of Lord Howe go back from 02:00 to 01:30."""
    asked = policy(window("0 */3 * * *", timedelta(hours=1)), zone="Australia/Lord_Howe")
    shift = timedelta(minutes=30 if hour > 0 else 0)
    opened = utc("2026-04-04T13:00:00") + timedelta(hours=hour) + shift
    assert active_windows(asked, opened)[0].until == opened + timedelta(hours=1)
    assert active_windows(asked, opened - MINUTE) == ()


@settings(max_examples=60, deadline=None)
@given(
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    start=st.sampled_from(["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-06-15"]),
    minutes=st.integers(-3000, 3000),
    lasting=st.integers(1, 3000),
)
def test_a_window_stays_open_to_its_end_and_is_closed_after_it(cron, zone, start, minutes, lasting):
    asked = policy(window(cron, lasting * MINUTE), zone=zone)
    now = utc(f"{start}T00:00:00") + minutes * MINUTE
    for found in active_windows(asked, now):
        assert now < found.until <= now + lasting * MINUTE
        [later] = active_windows(asked, found.until - timedelta(seconds=1))
        assert later.until >= found.until
        opened = found.until - lasting * MINUTE
        assert active_windows(asked, opened)[0].until == found.until


def test_a_match_in_every_minute_of_a_long_window_is_quick():
    asked = policy(window("* * * * *", timedelta(days=366)))
    assert active_windows(asked, utc("2026-11-16T08:00:00"))[0].until == utc("2027-11-17T08:00:00")


@pytest.mark.parametrize(
    ("zone", "now", "hours"),
    [
        ("UTC", "2026-07-01T00:00:00", 0),
        ("Europe/Berlin", "2026-07-01T00:00:00", 2),
        ("Europe/Berlin", "2026-11-16T00:00:00", 1),
        ("Asia/Kolkata", "2026-11-16T00:00:00", 5.5),
        ("America/New_York", "2026-11-16T00:00:00", -5),
    ],
)
def test_the_offset_is_that_of_the_policys_zone_at_that_moment(zone, now, hours):
    assert utc_offset(Policy(time_zone=zone), utc(now)) == timedelta(hours=hours)
    assert utc_offset(Policy(time_zone=zone), utc(now).astimezone(ZoneInfo("Asia/Tokyo"))) == timedelta(hours=hours)


FIVE = 'write five fields, for example "0 8 * * 1-5" for 8:00 from Monday to Friday'


@pytest.mark.parametrize(
    ("cron", "wrong"),
    [
        ("0 25 * * *", "is not a cron expression (bad hour)"),
        ("0 0 30 2 *", "is not a cron expression (bad day-of-month)"),
        ("x", "has not five fields"),
        ("@daily", "has not five fields"),
        ("* * * * * *", "has not five fields"),
        ("0 0 * 2 8", "is not a cron expression (bad day-of-week)"),
        ("0 0 * 13 1", "is not a cron expression (bad month)"),
        ("1" * 5000 + " 0 * * *", "is not a cron expression (exceeds the limit"),
    ],
)
def test_an_impossible_cron_is_told(cron, wrong):
    [clash] = schedule_conflicts(policy(window(cron)))
    assert path_of(clash.keys) == "pools[0].windows[0].cron"
    assert clash.value == cron
    assert clash.wrong.startswith(wrong)
    assert clash.right == FIVE


def test_a_cron_that_never_comes_is_told():
    [clash] = schedule_conflicts(policy(window("0 0 */31 * MON#5")))
    assert_wording(clash.wrong)


@pytest.mark.parametrize(
    ("zone", "right"),
    [
        ("Europe/Berlim", "did you mean Europe/Berlin?"),
        ("Mars/Olympus", "write an IANA name, for example UTC or Europe/Berlin"),
        ("../etc/passwd", "write an IANA name, for example UTC or Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_told_with_the_nearest_one(zone, right):
    [clash] = schedule_conflicts(policy(zone=zone))
    assert (clash.keys, clash.value, clash.right) == (("time_zone",), zone, right)
    assert_wording(clash.wrong)
    [clash] = schedule_conflicts(policy(window("0 8 * * *", zone=zone)))
    assert path_of(clash.keys) == "pools[0].windows[0].time_zone"


def test_good_schedules_are_fine():
    assert list(schedule_conflicts(policy(window("0 8 * * mon-fri", zone="Asia/Kolkata"), zone="UTC"))) == []


@given(st.lists(st.text("0123456789*/,-#LW", min_size=1, max_size=5), min_size=5, max_size=5))
def test_no_expression_breaks_the_check(fields):
    assert len(list(schedule_conflicts(policy(window(" ".join(fields)))))) in (0, 1)
