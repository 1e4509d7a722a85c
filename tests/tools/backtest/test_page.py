"""The backtest as one HTML file."""

import re
from datetime import UTC, datetime
from itertools import pairwise
from math import nan

from nodefleet_tools.backtest.page import page
from nodefleet_tools.backtest.play import Conditions, Run
from nodefleet_tools.backtest.traces import Trace

START = datetime(2026, 11, 2, tzinfo=UTC)
GAP = (datetime(2026, 11, 2, 0, 5, tzinfo=UTC), datetime(2026, 11, 2, 0, 7, tzinfo=UTC))


def drawn(*policies):
    trace = Trace(name="x", start=START, load=[1.7] * 5 + [nan] * 2 + [1.7] * 3, step=60.0, gaps=(GAP,))
    runs = [
        Run(policy=policy, trace="x", minutes=8, node_minutes=16, optimum_node_minutes=16.0, ready=[2] * 5)
        for policy in policies
    ]
    return page(trace, runs, Conditions(), "ok", 0.02)


def test_a_gap_is_named_and_no_line_is_drawn_across_it():
    text = drawn("classic")
    assert "No data from 2026-11-02 00:05 to 2026-11-02 00:07." in text
    assert "From 2026-11-02 00:05 to 2026-11-02 00:10 UTC" in text  # the scored half
    (points,) = re.findall(r'class=load points="([^"]*)"', text)
    heights = {point.split(",")[1] for point in points.split()}
    assert len(points.split()) == 3
    assert len(heights) == 1  # no load is not zero load


def test_labels_of_policies_at_one_place_do_not_cover_each_other():
    labels = re.findall(r'<text x="(\d+)" y="(\d+)">(?:classic|a|b)<', drawn("classic", "a", "b"))
    heights = sorted(int(y) for _, y in labels)
    assert len(heights) == 3
    assert all(after - before >= 12 for before, after in pairwise(heights))


def test_no_line_or_dot_is_drawn_over_the_name_of_a_policy():
    front = drawn("classic", "a").split("Cost against violations")[1].split("</svg>")[0]
    first_name = front.index(">classic<")
    assert max(front.rindex("<polyline"), front.rindex("<circle")) < first_name


def test_a_plot_says_how_many_nodes_its_height_is():
    assert drawn("classic").count(f">{Conditions().most} nodes<") == 1
