"""Sums and means over a week's hours, and what is left out of them."""

from dataclasses import replace
from datetime import timedelta
from math import inf, nan

import pytest

from nodefleet.model.state import PoolUsage, Usage
from nodefleet.reporting.usage import collect_hours, number, percent, some, times, usd
from nodefleet.reporting.usage import hours as told_hours
from support.week_builders import MONDAY, NEXT_MONDAY, WEEK, hours, merged, used


def week(*stretches):
    return collect_hours(hours(*stretches), WEEK).pool("default")


def test_hours_add_up():
    it = week((100, used(2, 1)), (68, used(4, 2)))
    assert (it.node_hours, it.spot_hours, it.on_demand_hours) == (708, 472, 236)
    assert it.spot_percent == pytest.approx(100 * 472 / 708)
    assert it.usd == pytest.approx(472 * 0.008 + 236 * 0.02)
    assert it.usd_per_node_hour == pytest.approx(it.usd / 708)
    assert (it.fewest, it.peak) == (3, 6)
    assert it.nodes == pytest.approx(708 / 168)


def test_an_hour_with_more_nodes_weighs_more():
    it = week((10, used(1, 0, cpu=20)), (10, used(3, 0, cpu=60)))
    assert it.mean(lambda hour: hour.cpu) == pytest.approx((20 + 3 * 60) / 4)


def test_what_could_not_be_read_is_not_in_the_mean():
    it = week((10, used(cpu=40)), (30, used(cpu=None)))
    assert it.mean(lambda hour: hour.cpu) == pytest.approx(40)
    assert it.known_percent("cpu_known") == pytest.approx(25)


def test_a_mean_that_nothing_is_known_of_is_none():
    it = week((10, used(cpu=None, memory=None, asked=None)))
    figures = (lambda h: h.cpu, lambda h: h.memory, lambda h: h.requested_cpu, lambda h: h.requested_memory)
    assert [it.mean(figure) for figure in figures] == [None] * 4


def test_an_hour_that_was_half_watched_counts_half_and_has_as_many_nodes():
    it = week((2, used(2, 1, watched=0.5)))
    assert (it.watched, it.node_hours, it.nodes) == (1, 3, 3)


def test_unpriced_hours_do_not_make_the_others_cheaper():
    it = week((1, used(1, 1, usd=0.02, unpriced_seconds=3600)))
    assert it.usd_per_node_hour == pytest.approx(0.02)
    assert it.unpriced_percent == pytest.approx(50)


def test_nothing_priced_has_no_price():
    assert week((1, used(1, 1, usd=0, unpriced_seconds=7200))).usd_per_node_hour is None


def test_the_main_type_is_the_one_that_ran_longest_and_the_same_on_a_draw():
    assert week((3, used(type_="t3.small")), (4, used(type_="t3a.small"))).main_type == "t3a.small"
    assert week((3, used(type_="t3.small")), (3, used(type_="t2.small"))).main_type == "t2.small"
    assert week((1, used(0, 0))).main_type == ""


def test_hours_outside_the_period_are_not_counted():
    outside = hours((1, used()), start=MONDAY - timedelta(hours=1)) + hours((1, used()), start=NEXT_MONDAY)
    assert collect_hours(outside, WEEK).hours == ()


def test_of_two_records_of_an_hour_the_longer_one_counts_whatever_comes_first():
    short = Usage(hour=MONDAY, last=MONDAY + timedelta(minutes=10), pools={"default": used(watched=0.1)})
    full = Usage(hour=MONDAY, last=MONDAY + timedelta(minutes=59), pools={"default": used()})
    for both in ((short, full), (full, short)):
        assert collect_hours(both, WEEK).hours == (full,)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(used(), usd=nan),
        replace(used(), spot_seconds=inf),
        replace(used(), cpu_seconds=-1.0),
        replace(used(), most_nodes=10**15),
        replace(used(), fewest_nodes=-2),
        replace(used(), types={"t3.small": nan}),
    ],
)
def test_impossible_figures_are_left_out_and_counted(wrong):
    record = collect_hours(hours((2, used()), (1, wrong)), WEEK)
    assert record.impossible == 1
    assert record.pool("default").node_hours == 6


def test_the_cluster_was_watched_when_any_pool_was():
    both = merged(hours((10, used()), pool="web"), hours((4, None), (10, used(watched=0.5)), pool="batch"))
    record = collect_hours(both, WEEK)
    assert record.watched == 10 + 4 * 0.5
    assert record.pools() == ["batch", "web"]
    assert record.pool("batch").watched == 5


def test_waiting_pods_are_the_cluster_s_and_count_once():
    waiting = used(waiting_pod_seconds=7200)
    record = collect_hours(merged(hours((3, waiting), pool="web"), hours((3, waiting), pool="batch")), WEEK)
    assert record.waiting_pod_hours == 6


def test_hours_since_a_moment_are_those_that_begin_after_it():
    it = week((10, used()))
    assert len(it.since(MONDAY + timedelta(hours=3, minutes=1)).hours) == 6


def test_an_empty_pool_s_week_is_all_zero_and_unknown():
    it = collect_hours((), WEEK).pool("default")
    assert (it.watched, it.node_hours, it.usd, it.peak, it.fewest, it.nodes, it.at_max_percent) == (0,) * 7
    assert it.spot_percent is None
    assert it.usd_per_node_hour is None


def test_an_hour_of_nothing_is_possible():
    assert collect_hours((Usage(hour=MONDAY, last=MONDAY, pools={"default": PoolUsage()}),), WEEK).impossible == 0


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (percent(0), "0 %"),
        (percent(0.2), "<1 %"),
        (percent(1), "1 %"),
        (percent(33.4), "33 %"),
        (percent(99.7), ">99 %"),
        (percent(100), "100 %"),
        (percent(140.2), "140 %"),
        (usd(0), "USD 0.00"),
        (usd(0.001), "less than USD 0.01"),
        (usd(0.005), "USD 0.01"),
        (usd(1234.5), "USD 1,234.50"),
        (number(3), "3"),
        (number(3.04), "3"),
        (number(3.14), "3.1"),
        (number(9.96), "10"),
        (number(1234.4), "1,234"),
        (told_hours(2.5), "2.5 h"),
        (times(1), "once"),
        (times(2), "twice"),
        (times(3), "3 times"),
        (some(1, "node"), "1 node"),
        (some(1200, "node"), "1,200 nodes"),
    ],
)
def test_figures_are_rounded_for_people_but_some_is_never_none_and_not_all_never_all(told, expected):
    assert told == expected
