"""Load shapes: curves add up, the others multiply, and noise comes from the seed alone."""

from datetime import UTC, datetime, timedelta

import pytest

from nodefleet_tools.sim.shapes import (
    Daily,
    FlashSale,
    Ground,
    MorningSpike,
    Noise,
    ReleaseStorm,
    Stairs,
    Steady,
    Trace,
    demand,
)
from nodefleet_tools.sim.times_of_day import moment, since_midnight
from nodefleet_tools.sim.traces import Points

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(clock: str, *shapes, starts=MONDAY, **ground) -> float:
    return demand(shapes, Ground(starts=starts, **ground))(moment(clock, MONDAY))


def test_curves_add_up_and_the_others_multiply():
    assert at("12:00", Steady(rate=10), Steady(rate=5), ReleaseStorm(at="12:00", times=3)) == 45


def test_a_day_goes_smoothly_through_its_points_and_repeats():
    day = Daily(points={"06:00": 10, "18:00": 30})
    assert [at(clock, day) for clock in ("06:00", "18:00", "30:00", "42:00")] == [10, 30, 10, 30]
    assert at("12:00", day) == pytest.approx(20)
    assert at("00:00", day) == pytest.approx(20)
    assert 10 < at("07:00", day) < at("08:00", day) < 20


def test_weekends_have_their_own_share_of_a_day():
    day = Daily(points={"12:00": 40}, weekend=0.25)
    assert at("12:00", day) == 40
    assert at(f"{5 * 24 + 12}:00", day) == 10


def test_stairs_have_no_ramp_and_hold_their_first_value_before():
    stairs = Stairs(points={"10:00": 1, "10:02": 5, "10:04:30": 2})
    clocks = ("09:00", "10:00", "10:01:59", "10:02", "10:04:29", "10:04:30", "23:00")
    assert [at(clock, stairs) for clock in clocks] == [1, 1, 1, 5, 5, 2, 2]


def test_a_flash_sale_rises_stays_and_falls_once():
    sale = FlashSale(at="20:00", times=3, rise=4 * MINUTE, lasting=30 * MINUTE, fall=20 * MINUTE)
    clocks = ("19:59", "20:00", "20:02", "20:04", "20:30", "20:40", "20:50", "44:10")
    assert [at(clock, Steady(rate=100), sale) for clock in clocks] == [100, 100, 200, 300, 300, 200, 100, 100]


def test_a_morning_spike_comes_every_workday_and_not_on_saturday():
    spike = MorningSpike(at="09:00", times=3, ramp=5 * MINUTE, lasting=30 * MINUTE, fall=timedelta(0))
    by_day = [at(f"{24 * day + 9}:10", Steady(rate=10), spike) for day in range(7)]
    assert by_day == [30, 30, 30, 30, 30, 10, 10]
    assert at("09:30:01", Steady(rate=10), spike) == 10


def test_a_release_storm_is_there_from_one_moment_to_the_next():
    storm = ReleaseStorm(at="14:00", times=10, lasting=15 * MINUTE)
    clocks = ("13:59:59", "14:00", "14:14:59", "14:15")
    assert [at(clock, Steady(rate=1), storm) for clock in clocks] == [1, 10, 10, 1]


def noisy(seed: str) -> list[float]:
    load = demand([Steady(rate=100), Noise(percent=10)], Ground(starts=MONDAY, seed=seed))
    return [load(MONDAY + number * timedelta(seconds=10)) for number in range(500)]


def test_noise_is_the_seeds_and_only_the_seeds():
    assert noisy("1") == noisy("1")
    assert noisy("1") != noisy("2")
    backwards = demand([Steady(rate=100), Noise(percent=10)], Ground(starts=MONDAY, seed="1"))
    times = [MONDAY + number * timedelta(seconds=10) for number in range(500)]
    assert [backwards(time) for time in reversed(times)][::-1] == noisy("1")


def test_noise_is_about_as_large_as_it_says_and_never_below_nothing():
    values = noisy("1")
    assert 95 < sum(values) / len(values) < 105
    assert 100 < max(values) < 150
    wild = demand([Steady(rate=1), Noise(percent=500)], Ground(starts=MONDAY, seed="1"))
    assert min(wild(MONDAY + number * MINUTE) for number in range(300)) == 0


def test_a_trace_is_scaled_to_its_peak_and_laid_at_its_start():
    points = Points(times=(MONDAY, MONDAY + timedelta(hours=1)), values=(10.0, 30.0))
    trace = Trace(file="a.csv", peak=300, start="08:00")
    assert [at(clock, trace, traces={"a.csv": points}) for clock in ("07:00", "08:00", "08:30", "09:00", "12:00")] == [
        100, 100, 200, 300, 300,
    ]  # fmt: skip
    earlier = Trace(file="a.csv", start="08:00", before=timedelta(hours=1))
    assert at("08:00", earlier, traces={"a.csv": points}) == 30


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("00:00", timedelta(0)),
        ("9:05", timedelta(hours=9, minutes=5)),
        ("09:05:30", timedelta(hours=9, minutes=5, seconds=30)),
        ("33:00", timedelta(hours=33)),
        ("9", None),
        ("602", None),
        ("09:60", None),
        ("-1:00", None),
        ("09:00:61", None),
        ("", None),
    ],
)
def test_what_is_a_time_of_day(text, since):
    assert since_midnight(text) == since
