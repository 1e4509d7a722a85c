"""Regression that forgets."""

import pytest

from nodefleet.engine.forecast.forecaster import Regression, predict

ROWS = [[1.0, float(a), float(a * a % 7), float(a % 3)] for a in range(60)]


def learned(of, rows=ROWS, keep=1.0):
    regression = Regression(4, 1)
    for row in rows:
        regression.learn(row, [of(row)], keep)
    return regression


def test_it_finds_a_line_through_all_features():
    (((constant, *slopes),),) = learned(lambda row: 2 + 3 * row[1] - row[2] + 0.5 * row[3]).solve(1e-9, (4,))
    assert constant == pytest.approx(2, abs=1e-3)
    assert slopes == pytest.approx([3, -1, 0.5], abs=1e-3)


def test_a_model_on_the_first_features_is_what_learning_them_alone_gives():
    def of(row):
        return 1 + 2 * row[1] + row[2] - row[3]

    small = Regression(2, 1)
    for row in ROWS:
        small.learn(row[:2], [of(row)], 0.99)
    both = learned(of, keep=0.99).solve(1e-3, (4, 2))
    assert both[1][0] == pytest.approx(small.solve(1e-3, (2,))[0][0])


def test_a_feature_that_never_changes_has_no_coefficient():
    rows = [[1.0, float(a), 5.0, 0.0] for a in range(20)]
    assert learned(lambda row: row[1], rows).solve(1e-6, (4,))[0][0][2:] == [0.0, 0.0]


def test_features_that_say_the_same_share():
    rows = [[1.0, float(a), float(a), 0.0] for a in range(20)]
    _, first, second, _ = learned(lambda row: 2 * row[1], rows).solve(1e-3, (4,))[0][0]
    assert first == pytest.approx(second)
    assert first + second == pytest.approx(2, rel=1e-2)


def test_what_was_learned_long_ago_weighs_less():
    rows = [[1.0, float(a % 5), 0.0, 0.0] for a in range(200)]
    regression = Regression(4, 1)
    for index, row in enumerate(rows):
        regression.learn(row, [row[1] * (1 if index < 100 else 3)], 0.5 ** (1 / 20))
    assert regression.solve(1e-6, (4,))[0][0][1] == pytest.approx(3, rel=0.05)


def test_a_prediction_takes_as_many_features_as_there_are_coefficients():
    assert predict([1.0, 2.0], [1.0, 3.0, 100.0]) == 7.0
