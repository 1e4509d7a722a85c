"""The page on metrics and the log, against the code."""

import re
from pathlib import Path

from nodefleet.model.names import METRIC_INFO
from support.worlds import shop

PAGE = (Path(__file__).parents[2] / "docs" / "watching.md").read_text()
BY_DEFAULT, ON_REQUEST = PAGE.split("On request:")


def test_every_metric_stands_where_it_belongs():
    for metric, about in METRIC_INFO.items():
        row = f"| `{metric.value}` | {about.unit.value} | {about.says} |"
        assert row in (ON_REQUEST if about.opt_in else BY_DEFAULT), metric


def test_ten_metrics_are_on_by_default():
    assert sum(not about.opt_in for about in METRIC_INFO.values()) == 10


def test_every_field_of_the_line_is_explained():
    cluster = shop()
    cluster.tick()
    fields = set(cluster.world.lines[-1].fields)
    explained = set(re.findall(r"`(\w+)`", PAGE.split("## The log line of an iteration")[1].split("In CloudWatch")[0]))
    assert fields == explained
