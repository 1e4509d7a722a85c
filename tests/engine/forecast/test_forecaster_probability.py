"""From past errors to chances."""

from array import array
from math import log1p

import pytest

from nodefleet.engine.forecast.forecaster import DEFAULT, Errors, ForecastWindow, Learning, Prior, shortfalls
from nodefleet.engine.forecast.history import UNIT

ALMOST_NO_PRIOR = Learning(prior_weight=1e-9)


def errors(*pairs):
    kept = Errors(array("H"), array("h"))
    for forecast, error in pairs:
        kept.add(forecast, error, 1000)
    return kept


def test_it_is_the_share_of_errors_that_would_exceed_the_limit():
    forecast = log1p(3.0)
    past = errors(*[(forecast, error) for error in (-0.1, 0.0, 0.2, 0.6)])
    found = shortfalls(forecast, past, ALMOST_NO_PRIOR, ForecastWindow.LEVEL, 10, 0.85)
    reached = [3.0, 3.62, 3.885, 6.29]  # busy nodes: e^(z + error) − 1
    for nodes, chance in enumerate(found):
        exceeding = sum(load > 0.85 * nodes for load in (2.62, 3.0, 3.885, 6.29))
        assert chance == pytest.approx(exceeding / 4, abs=1e-6), (nodes, reached)


def test_more_nodes_are_never_worse():
    past = errors(*[(1.0, error / 50) for error in range(-40, 40)])
    found = shortfalls(1.2, past, DEFAULT, ForecastWindow.SOON, 12, 0.85)
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.99


def test_errors_made_at_a_similar_level_count_most():
    near, far = (1.0, 0.5), (2.0, -0.5)
    found = shortfalls(1.0, errors(near, far), ALMOST_NO_PRIOR, ForecastWindow.LEVEL, 4, 0.85)
    weight_far = DEFAULT.floor + 1 / (1 + (1 / DEFAULT.near) ** 4)
    weight_near = DEFAULT.floor + 1
    nodes = 3  # 2.55 busy nodes: above it only with the near error
    assert found[nodes] == pytest.approx(weight_near / (weight_near + weight_far), rel=1e-3)


def test_without_errors_the_prior_decides():
    found = shortfalls(log1p(0.85 * 4), errors(), DEFAULT, ForecastWindow.LEVEL, 6, 0.85)
    assert found[4] == pytest.approx(0.5, abs=1e-6)


def test_the_prior_has_its_mean_and_its_deviation():
    learning = Learning(priors=(Prior(0.1, 0.2), Prior(0, 1), Prior(0, 1)))
    above_by_one_deviation = log1p(0.85 * 5) - 0.1 - 0.2
    found = shortfalls(above_by_one_deviation, errors(), learning, ForecastWindow.LEVEL, 6, 0.85)
    assert found[5] == pytest.approx(0.158655, abs=1e-5)


def test_only_the_newest_errors_are_kept():
    kept = Errors(array("H"), array("h"))
    for number in range(20):
        kept.add(1.0, number / UNIT, 5)
    assert list(kept.errors) == [15, 16, 17, 18, 19]
