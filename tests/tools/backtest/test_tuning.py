"""The price that fits, chosen without looking ahead."""

import pytest

from nodefleet_tools.backtest.tuning import CANDIDATES, FIRST, Candidate, choose, saving, tune, violations

DAY = 1440
FRUGAL, CAREFUL = Candidate(price=25.0), Candidate(price=140.0)


def days(violated, paid, count=10):
    return [[DAY, violated, paid] for _ in range(count)]


CHEAP, DEAR = days(20, 3000), days(2, 5000)
CLASSIC = days(30, 6000)


def test_the_cheapest_within_the_budget_is_chosen():
    prices = {FRUGAL: CHEAP, CAREFUL: DEAR}
    assert choose(prices, 2.0, until=5) == FRUGAL
    assert choose(prices, 0.5, until=5) == CAREFUL


def test_without_any_within_the_budget_it_is_the_one_with_the_fewest_violations():
    assert choose({FRUGAL: CHEAP, CAREFUL: DEAR}, 0.01, until=5) == CAREFUL


def test_a_day_is_scored_with_what_the_days_before_it_chose():
    turned = [*days(0, 3000, 5), *days(100, 3000, 5)]  # good at first, then bad
    found = tune({FRUGAL: turned, CAREFUL: DEAR}, CLASSIC, budget=0.5)
    assert found.violation_pct > 1.0  # the fifth day was still trusted to it
    assert found.choice == CAREFUL
    assert found.days == 10 - FIRST


def test_savings_are_against_classic_on_the_same_days():
    found = tune({FRUGAL: CHEAP}, CLASSIC, budget=2.0)
    assert found.saving_pct == pytest.approx(50)
    assert found.saving_low_pct == found.saving_high_pct == pytest.approx(50)
    assert found.within_budget_pct == 100
    assert found.classic_violation_pct == pytest.approx(100 * 30 / DAY)


def test_days_that_differ_make_it_less_sure():
    mixed = [[DAY, 0, 2000 if index % 2 else 5500] for index in range(20)]
    found = tune({FRUGAL: mixed}, days(0, 6000, 20), budget=1.0)
    assert found.saving_low_pct < found.saving_pct - 3
    assert found.saving_high_pct > found.saving_pct + 3


def test_too_few_days_are_no_basis():
    assert tune({FRUGAL: CHEAP[:4]}, CLASSIC[:4], budget=1.0) is None


def test_sums():
    assert violations([]) == 0
    assert saving([], []) == 0


def test_candidates_differ_in_more_than_the_price_and_have_names_of_their_own():
    assert len({each.name for each in CANDIDATES}) == len(CANDIDATES)
    assert {each.waits for each in CANDIDATES} > {2}
    assert {each.headroom for each in CANDIDATES} == {0, 1}
