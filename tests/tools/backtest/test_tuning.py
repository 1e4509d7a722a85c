"""The price that fits, chosen without looking ahead."""

import pytest

from nodefleet_tools.backtest.tuning import FIRST, choose, saving, tune, violations

DAY = 1440


def days(violated, paid, count=10):
    return [[DAY, violated, paid] for _ in range(count)]


CHEAP, DEAR = days(20, 3000), days(2, 5000)
CLASSIC = days(30, 6000)


def test_the_cheapest_within_the_budget_is_chosen():
    prices = {25.0: CHEAP, 140.0: DEAR}
    assert choose(prices, 2.0, until=5) == 25.0
    assert choose(prices, 0.5, until=5) == 140.0


def test_without_any_within_the_budget_it_is_the_one_with_the_fewest_violations():
    assert choose({25.0: CHEAP, 140.0: DEAR}, 0.01, until=5) == 140.0


def test_a_day_is_scored_with_what_the_days_before_it_chose():
    turned = [*days(0, 3000, 5), *days(100, 3000, 5)]  # good at first, then bad
    found = tune({25.0: turned, 140.0: DEAR}, CLASSIC, budget=0.5)
    assert found.violation_pct > 1.0  # the fifth day was still trusted to it
    assert found.price == 140.0
    assert found.days == 10 - FIRST


def test_savings_are_against_classic_on_the_same_days():
    found = tune({25.0: CHEAP}, CLASSIC, budget=2.0)
    assert found.saving_pct == pytest.approx(50)
    assert found.saving_low_pct == found.saving_high_pct == pytest.approx(50)
    assert found.within_budget_pct == 100
    assert found.classic_violation_pct == pytest.approx(100 * 30 / DAY)


def test_days_that_differ_make_it_less_sure():
    mixed = [[DAY, 0, 2000 if index % 2 else 5500] for index in range(20)]
    found = tune({25.0: mixed}, days(0, 6000, 20), budget=1.0)
    assert found.saving_low_pct < found.saving_pct - 3
    assert found.saving_high_pct > found.saving_pct + 3


def test_too_few_days_are_no_basis():
    assert tune({25.0: CHEAP[:4]}, CLASSIC[:4], budget=1.0) is None


def test_sums():
    assert violations([]) == 0
    assert saving([], []) == 0
