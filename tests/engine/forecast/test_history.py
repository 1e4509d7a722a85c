"""One load per minute, kept as sixteen bits."""

from math import log1p

import pytest

from nodefleet.engine.forecast.history import KEPT, MISSING, LoadHistory, decode, encode


def filled(loads, first=1000):
    history = LoadHistory()
    for index, load in enumerate(loads):
        history.add(first + index, load)
    return history


@pytest.mark.parametrize("load", [0.0, 0.01, 0.5, 3.7, 40, 5_000])
def test_a_load_is_kept_to_a_tenth_of_a_percent(load):
    assert decode(encode(load)) == pytest.approx(load, rel=1e-3, abs=3e-4)


@pytest.mark.parametrize("load", [None, float("nan"), float("inf")])
def test_what_is_no_number_is_missing(load):
    assert encode(load) == MISSING


def test_a_negative_load_is_none_at_all():
    assert encode(-1.0) == 0


def test_a_skipped_minute_is_missing_and_not_zero():
    history = LoadHistory()
    history.add(10, 2.0)
    history.add(13, 4.0)
    assert (history.at(11), history.at(12)) == (None, None)
    assert history.mean(10, 14) == pytest.approx((log1p(2) + log1p(4)) / 2, abs=1e-3)


def test_nothing_is_known_outside():
    history = filled([1.0, 2.0])
    assert history.at(999) is None
    assert history.at(1002) is None
    assert history.mean(900, 1000) is None
    assert history.mean(1000, 1000) is None


def test_the_highest_minute_needs_more_than_half_of_the_minutes():
    history = filled([1.0, None, None, 3.0, 2.0])
    assert history.highest(1000, 1005) == pytest.approx(log1p(3), abs=1e-3)
    assert history.highest(1000, 1004) is None


def test_more_than_a_week_is_forgotten():
    history = filled([1.0] * (KEPT + 1440))
    assert len(history.values) == KEPT
    assert history.last == 1000 + KEPT + 1440 - 1


def test_after_a_silence_of_more_than_a_week_it_begins_again():
    history = filled([1.0] * 10)
    history.add(1009 + KEPT + 1, 2.0)
    assert list(history.values) == [encode(2.0)]
