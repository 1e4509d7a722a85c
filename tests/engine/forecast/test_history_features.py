"""What a minute tells about those to come."""

from math import cos, log1p, pi, sin

import pytest

from nodefleet.engine.forecast.history import COUNT, DAY, RECENT, WEEK, LoadHistory, features

START = 100 * DAY


def history_of(load, minutes):
    history = LoadHistory()
    for minute in range(START, START + minutes):
        history.add(minute, load(minute))
    return history


def of(history, minute=None):
    return features(history, history.last if minute is None else minute, 3, 2)


def test_there_are_as_many_as_the_regression_expects_and_the_first_is_constant():
    row = of(history_of(lambda _: 2.0, 400))
    assert len(row) == COUNT
    assert row[0] == 1.0
    assert row[1:RECENT] == pytest.approx([log1p(2)] * 8, abs=1e-3)


def test_the_recent_ones_are_means_and_single_minutes():
    history = history_of(lambda minute: float(minute - START), 400)
    row = of(history)
    for index, span in ((1, 3), (2, 10), (3, 30), (4, 60), (5, 180)):
        expected = sum(log1p(399 - ago) for ago in range(span)) / span
        assert row[index] == pytest.approx(expected, abs=1e-3)
    assert row[6:9] == pytest.approx([log1p(399), log1p(397), log1p(394)], abs=1e-3)


def test_without_yesterday_there_is_no_rise_and_the_level_is_now():
    row = of(history_of(lambda _: 2.0, 300))
    assert row[9:12] == pytest.approx([log1p(2), 0, 0], abs=1e-3)
    assert row[12:15] == row[9:12]


def test_yesterday_s_rise_is_seen_and_stands_in_for_last_week():
    jump = START + 10 * 60  # every day at ten in the morning
    history = history_of(lambda minute: 4.0 if minute % DAY >= jump % DAY else 1.0, DAY + 10 * 60 - 4)
    row = of(history)
    rise = log1p(4) - log1p(1)
    assert 0 < row[10] <= rise
    assert row[11] == pytest.approx(rise * 26 / 30, abs=0.05)
    assert row[12:15] == row[9:12]


def test_last_week_counts_when_it_is_known():
    history = history_of(lambda minute: 5.0 if minute < START + DAY else 1.0, WEEK + 200)
    row = of(history)
    assert row[9] == pytest.approx(log1p(1), abs=1e-3)
    assert row[12] == pytest.approx(log1p(5), abs=1e-3)


def test_the_last_hours_show_what_comes_every_hour():
    history = history_of(lambda minute: 4.0 if minute % 60 >= 40 else 1.0, 5 * 60 + 37)
    row = of(history)
    assert row[15] > 0.2
    assert row[16] == pytest.approx(row[15], abs=1e-6)
    assert row[17] == pytest.approx(log1p(1), abs=0.2)


def test_the_time_of_day_is_two_waves():
    row = of(history_of(lambda _: 1.0, 6 * 60 + 1))
    assert row[18:22] == pytest.approx([sin(pi / 2), cos(pi / 2), sin(pi), cos(pi)], abs=1e-9)


def test_without_its_own_reading_a_minute_tells_nothing():
    history = history_of(lambda _: 1.0, 20)
    history.add(START + 20, None)
    assert of(history) is None


def test_the_mean_of_the_last_days_is_less_moved_by_one_of_them():
    odd = START + 6 * DAY - 60  # yesterday, of seven days
    row = of(history_of(lambda minute: 1.0 if minute < odd else 3.0, 7 * DAY + 10))
    assert row[9] == pytest.approx(log1p(3.0), abs=1e-3)
    assert row[22] == pytest.approx((6 * log1p(1.0) + log1p(3.0)) / 7, abs=1e-2)


def test_without_a_yesterday_the_mean_of_the_days_is_the_present_level():
    row = of(history_of(lambda _: 2.0, 300))
    assert row[22:25] == pytest.approx([log1p(2.0), 0.0, 0.0], abs=1e-3)


def test_the_highest_minutes_of_the_last_hour_are_features():
    row = of(history_of(lambda minute: {960: 4.0, 985: 3.0}.get(minute - START, 1.0), 1000))
    assert row[25:] == pytest.approx([log1p(1.0), log1p(3.0), log1p(4.0)], abs=1e-3)


def test_a_peak_among_missing_minutes_is_unknown():
    row = of(history_of(lambda minute: None if 940 <= minute - START < 997 else 1.0, 1000))
    assert row[27] == pytest.approx(row[1])
