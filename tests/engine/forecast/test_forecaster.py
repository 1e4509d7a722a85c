"""Forecasts that grade themselves."""

import json
from array import array
from dataclasses import fields, replace
from math import log1p, pi, sin

import pytest

from nodefleet.engine.forecast.forecaster import DEFAULT, FORECASTERS, Forecaster, ForecastWindow, Learning, pinball
from nodefleet.engine.forecast.history import KEPT, UNIT, LoadHistory, encode
from nodefleet.engine.signals.adaptive import StoredForecaster, restore, store
from nodefleet.model.serialization import to_plain

DAY = 1440
START = 20_000 * DAY
FULL, RECENT, LAST = range(3)


def wave(minute):
    """A day with a morning jump and a slow swell."""
    return 3 + 2 * sin(2 * pi * minute / DAY) + (2 if minute % DAY in range(540, 600) else 0)


@pytest.fixture(scope="module")
def after_three_days():
    return Forecaster.of((START + minute, wave(minute)) for minute in range(3 * DAY))


def went_on(forecaster, days, minutes=0):
    """Another one that has seen more days than this one."""
    other = restore(store(forecaster))
    for minute in range(other.history.last - START + 1, days * DAY + minutes):
        other.observe(START + minute, wave(minute))
    return other


@pytest.fixture(scope="module")
def after_nine_days(after_three_days):
    return went_on(after_three_days, 9)


def test_without_readings_there_is_no_outlook():
    assert Forecaster().outlook() is None


def test_the_first_hours_take_the_last_value():
    forecaster = Forecaster.of((START + minute, 2.0 + minute % 2) for minute in range(100))
    assert not forecaster.coefficients
    assert forecaster.outlook().mixed == pytest.approx([(2 * log1p(3) + log1p(2)) / 3] * 3, abs=1e-3)


def test_regression_begins_after_twelve_hours():
    readings = [(START + minute, wave(minute)) for minute in range(DAY)]
    rows = (720 + DEFAULT.horizon) // 30 * 30
    assert not Forecaster.of(readings[:rows]).coefficients
    assert Forecaster.of(readings[: rows + 61]).coefficients


def test_a_jump_of_every_morning_is_seen_before_it_comes(after_three_days):
    forecaster = went_on(after_three_days, 4, 538)
    expected = forecaster.outlook().mixed[ForecastWindow.LEVEL]
    assert expected > log1p(wave(537)) + 0.15
    assert expected == pytest.approx(log1p(wave(541)), abs=0.15)


def test_a_forecaster_that_is_worse_than_the_last_value_has_no_vote(after_three_days):
    forecaster = restore(store(after_three_days))
    forecaster.losses[ForecastWindow.LEVEL] = [2.0, 0.9, 1.0]
    votes = forecaster.outlook().votes[ForecastWindow.LEVEL]
    assert votes[FULL] == 0
    assert votes[RECENT] > votes[LAST] > 0
    assert sum(votes) == pytest.approx(1)


def test_votes_fall_with_the_loss_over_the_best(after_three_days):
    forecaster = restore(store(after_three_days))
    forecaster.losses[ForecastWindow.SOON] = [1.0, 1.1, 1.2]
    full, recent, last = forecaster.outlook().votes[ForecastWindow.SOON]
    assert recent / full == pytest.approx(2.718281828**-1, rel=1e-6)
    assert last / full == pytest.approx(2.718281828**-2, rel=1e-6)


def test_on_a_rhythm_the_regressions_take_the_vote(after_three_days):
    votes = after_three_days.outlook().votes[ForecastWindow.LEVEL]
    assert votes[FORECASTERS.index("last")] < 0.05
    grades = after_three_days.grades()[ForecastWindow.LEVEL]
    assert min(grades[FULL], grades[RECENT]) < grades[LAST]


def test_the_windows_are_the_minutes_of_the_specification():
    forecaster = Forecaster(Learning(join=3, interval=2, soon=5, later=20))
    for minute in range(60):
        forecaster.observe(START + minute, float(minute))
    level, soon, later = forecaster._truth(START + 10)
    assert level == pytest.approx((log1p(13) + log1p(14)) / 2, abs=1e-3)
    assert soon == pytest.approx(log1p(15), abs=1e-3)
    assert later == pytest.approx(log1p(30), abs=1e-3)


def test_a_row_is_learned_once_all_its_windows_are_past():
    horizon = DEFAULT.horizon
    readings = [(START + minute, 1.0) for minute in range(horizon + 1)]
    assert Forecaster.of(readings[:-1]).learned == 0
    assert Forecaster.of(readings).learned == 1


def test_kept_errors_see_every_scheduled_minute_of_the_hour():
    rows = DEFAULT.error_rows * DEFAULT.interval
    assert {minute % 60 for minute in range(0, 60 * rows, rows)} == set(range(0, 60, DEFAULT.interval))


def test_errors_are_those_of_single_minutes_because_a_violation_is_one():
    forecaster = Forecaster.of((minute, 3.0 if minute % 2 else 1.0) for minute in range(2 * DAY))
    errors = [error / UNIT for error in forecaster.errors[0].errors][-20:]
    assert max(errors) == pytest.approx((log1p(3) - log1p(1)) / 2, abs=0.05)
    assert min(errors) == pytest.approx(-max(errors), abs=0.05)


def test_a_minute_without_a_reading_counts_with_the_mean_of_the_others():
    forecaster = Forecaster.of((minute, None if minute % 5 == 4 else 2.0) for minute in range(DAY))
    assert {round(error / UNIT, 2) for error in forecaster.errors[0].errors} == {0.0}


def test_errors_are_kept_for_seven_days_at_most(after_nine_days):
    assert len(after_nine_days.errors[0].errors) == 7 * DAY // (DEFAULT.interval * DEFAULT.error_rows)


def test_a_reading_that_was_seen_changes_nothing(after_three_days):
    before = store(after_three_days)
    after_three_days.observe(after_three_days.history.last, 100.0)
    after_three_days.observe(after_three_days.history.last - 5, 100.0)
    assert store(after_three_days) == before


def test_a_gap_is_neither_learned_from_nor_fatal():
    loads = [None if 700 <= minute < 900 else wave(minute) for minute in range(2 * DAY)]
    forecaster = Forecaster.of((START + minute, load) for minute, load in enumerate(loads))
    whole = Forecaster.of((START + minute, wave(minute)) for minute in range(2 * DAY))
    assert forecaster.learned < whole.learned - 90
    assert forecaster.outlook().mixed == pytest.approx(whole.outlook().mixed, abs=0.1)


def test_what_was_stored_decides_like_what_was_not(after_three_days):
    kept, stored = restore(store(after_three_days)), restore(store(after_three_days))
    for minute in range(3 * DAY, 3 * DAY + 200):
        kept.observe(START + minute, wave(minute))
        stored = restore(store(stored))
        stored.observe(START + minute, wave(minute))
    assert store(kept) == store(stored)
    assert kept.outlook().mixed == stored.outlook().mixed


def test_a_week_stays_below_a_hundred_thousand_bytes(after_nine_days):
    stored = store(after_nine_days)
    values = [getattr(stored, each.name) for each in fields(StoredForecaster)]
    assert sum(len(value) for value in values if isinstance(value, str)) < 60_000


@pytest.mark.parametrize(
    "damage", [{"version": 99}, {"sums": "AAAA"}, {"load": "not base64!"}, {"errors": "AAAA"}, {"losses": ""}]
)
def test_what_cannot_be_read_is_learned_again(after_three_days, damage):
    assert restore(replace(store(after_three_days), **damage)) is None


@pytest.mark.parametrize(("error", "loss"), [(1.0, 0.8), (-1.0, 0.2), (0.0, 0.0)])
def test_pinball(error, loss):
    assert pinball(error, 0.8) == pytest.approx(loss)


def test_load_that_rises_is_seen():
    forecaster = Forecaster.of((START + minute, load) for minute, load in enumerate([2.0, 2.0, 2.0, 2.1]))
    assert forecaster.is_rising()
    forecaster.observe(START + 4, 2.0)
    assert not forecaster.is_rising()


@pytest.mark.parametrize("minutes", [1, 2, 3, 4, 100])
def test_what_is_stored_knows_its_last_minute(minutes):
    forecaster = Forecaster.of((START + minute, 1.0) for minute in range(minutes))
    assert store(forecaster).last.timestamp() == 60 * forecaster.history.last


def test_the_busy_load_is_that_of_the_busiest_hours_of_a_week():
    assert Forecaster().busy_load() == 0.0
    assert Forecaster.of([(0, None)]).busy_load() == 0.0
    loads = [9.0 if minute % DAY in range(600, 645) else 3.0 for minute in range(9 * DAY)]  # 3 % of all minutes
    forecaster = Forecaster()
    forecaster.history = LoadHistory(START, array("H", map(encode, loads)))
    assert forecaster.busy_load() == pytest.approx(9.0, abs=0.01)
    forecaster.history = LoadHistory(START, array("H", map(encode, [3.0] * (6 * DAY) + [9.0] * 150)))  # 1.7 %
    assert forecaster.busy_load() == pytest.approx(3.0, abs=0.01)


def test_the_busy_load_follows_at_the_next_full_hour():
    forecaster = Forecaster()
    for minute in range(120):
        forecaster.history.add(START + minute, 3.0 if minute < 60 else 8.0)
        assert forecaster.busy_load() == pytest.approx(0.0 if minute < 59 else 3.0 if minute < 119 else 8.0, abs=0.01)


def test_a_full_history_with_all_its_errors_fits_the_table(after_three_days):
    forecaster = restore(store(after_three_days))
    forecaster.history = LoadHistory(START, array("H", [0xABCD]) * (KEPT + DAY))
    for window in ForecastWindow:
        for _ in range(2 * 720):
            forecaster.errors[window].add(1.234, -0.567, 720)
    assert 30_000 < len(json.dumps(to_plain(store(forecaster)))) < 100_000
