"""The highest score that readings can reach."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.policy.demand import Score, highest_score


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("half_life", "window", "interval", "highest"),
    [
        (30, 300, 60, 1.333),  # however long it lasts, it converges
        (60, 180, 60, 1.875),  # 1 + ½ + ¼ + ⅛
        (60, 179, 60, 1.75),  # the fourth reading no longer fits
        (120, 59, 60, 1.0),  # only the newest is ever in the window
        (240, 600, 120, 2.987),
    ],
)
def test_the_highest_score_is_the_sum_of_all_readings_that_fit_the_window(half_life, window, interval, highest):
    lasting = Score(half_life=seconds(half_life), window=seconds(window))
    assert highest_score(lasting, seconds(interval)) == pytest.approx(highest, abs=0.001)


def test_readings_so_close_that_nothing_fades_all_count_in_full():
    lasting = Score(half_life=timedelta(days=999_999_999), window=timedelta(microseconds=4))
    assert highest_score(lasting, timedelta(microseconds=1)) == 5


@given(half_life=st.integers(1, 10_000), window=st.integers(1, 3_000), interval=st.integers(1, 1_000))
def test_it_is_what_adding_up_one_by_one_gives(half_life, window, interval):
    lasting = Score(half_life=seconds(half_life), window=seconds(window))
    one_by_one = sum(0.5 ** (age / half_life) for age in range(0, window + 1, interval))
    assert highest_score(lasting, seconds(interval)) == pytest.approx(one_by_one)
