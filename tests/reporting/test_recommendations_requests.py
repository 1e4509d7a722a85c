"""Requests far above use, and what that costs in nodes."""

from dataclasses import replace

import pytest

from nodefleet.policy.pool import Limits, Pool
from nodefleet.reporting.recommendations import lower_requests
from support.week_builders import case, used
from support.wording import assert_wording

NINE = used(6, 3, cpu=20, memory=30, asked=(90, 40))


def test_nodes_that_are_bought_for_requests_alone_are_told_with_both_percentages():
    found = lower_requests(case((168, NINE)))
    assert_wording(found.do)
    assert_wording(found.because)
    # by requests 9 × 40 / 90 = 4; by memory in use 9 × 30 / 65 = 4.2, so 5 are needed
    assert_wording(found.effect)
    assert found.usd_per_month == pytest.approx(4 * 168 * (NINE.usd / 9) * 730 / 168)


def test_both_resources_may_be_asked_for_too_much():
    found = lower_requests(case((168, used(6, 3, cpu=10, memory=20, asked=(90, 80)))))
    assert_wording(found.do)
    assert_wording(found.because)
    assert_wording(found.because)


def test_requests_are_measured_by_the_busy_hours_and_not_by_the_night():
    night, day = used(6, 3, cpu=5, memory=30, asked=(90, 40)), used(6, 3, cpu=65, memory=30, asked=(90, 40))
    assert lower_requests(case((150, night), (18, day))) is None  # 1.3 × 65 / 90: a tenth of requests could go
    calm_day = used(6, 3, cpu=30, memory=30, asked=(90, 40))
    assert lower_requests(case((150, night), (18, calm_day))) is not None


def test_a_single_busy_hour_is_an_outlier():
    assert lower_requests(case((164, NINE), (4, replace(NINE, cpu_seconds=90 * 3600.0)))) is not None


@pytest.mark.parametrize(
    ("pool", "hour"),
    [
        (Pool(), used(6, 3, cpu=65, memory=30, asked=(90, 40))),  # 90 < 1.5 × 65
        (Pool(), used(6, 3, cpu=5, memory=10, asked=(40, 20))),  # requests do not size this fleet
        (Pool(limits=Limits(min=9, max=10)), NINE),  # min does
        (Pool(), used(6, 3, cpu=58, memory=30, asked=(90, 40))),  # use does: 9 × 58 / 60
        (Pool(), used(6, 3, cpu=20, memory=62, asked=(90, 85))),  # memory does
        (Pool(), used(1, 0, cpu=20, memory=30, asked=(90, 40))),  # there is no half node
        (Pool(), used(6, 3, cpu=None, memory=30, asked=(90, 40))),
        (Pool(), used(6, 3, cpu=20, memory=None, asked=(90, 40))),
        (Pool(), used(6, 3, cpu=20, memory=30, asked=None)),
        (Pool(), used(0, 0)),
        (Pool(), used(6, 3, cpu=0, memory=0, asked=(0, 0))),
    ],
)
def test_requests_that_cost_no_node_or_are_not_known_are_left_alone(pool, hour):
    assert lower_requests(case((168, hour), pool=pool)) is None


def test_half_of_the_time_must_be_readable():
    unread = used(6, 3, cpu=None, memory=None, asked=None)
    assert lower_requests(case((80, NINE), (88, unread))) is None
    assert lower_requests(case((84, NINE), (84, unread))) is not None


def test_hours_that_could_not_be_read_save_nothing():
    unread = used(6, 3, cpu=None, memory=None, asked=None)
    assert_wording(lower_requests(case((84, NINE), (84, unread))).effect)
