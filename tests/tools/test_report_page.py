"""The report: one file that needs nothing else, with every figure and decision on it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from nodefleet_tools.report_page import page
from nodefleet_tools.report_page.series import MOST, series
from nodefleet_tools.sim.scenario_result import Check, Mark, MarkKind, ScenarioResult
from nodefleet_tools.sim.summary import sentences
from support.played_days import played, shipped_day
from support.wording import assert_wording

VOID = {"meta", "input", "link", "br", "hr", "img"}


class Outline(HTMLParser):
    """Checks that tags are closed in order, and collects what a browser would go and fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.fetched += [value for name, value in attrs if name in ("src", "href", "srcset", "action") and value]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)


def outline(text: str) -> Outline:
    parser = Outline()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def texts_with(text: str, *words: str) -> list[str]:
    """What the page says of something, without the day's figures: those are compared as figures."""
    said = [each for each in outline(text).texts if any(word in each for word in words)]
    return [re.sub(r"-?\d[\d.]*", "N", each) for each in said]


def data(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


@pytest.fixture(scope="module")
def day() -> ScenarioResult:
    return shipped_day("shop-day")


@pytest.fixture(scope="module")
def text(day) -> str:
    return page(day)


def test_it_is_one_file_that_fetches_nothing(text):
    assert outline(text).fetched == []
    assert not re.search(r"url\(\s*['\"]?(?!#)|@import|fetch\(|XMLHttpRequest|https?://(?!www\.w3\.org)", text)
    assert len(text) < 400_000


def test_it_says_the_figures_and_the_comparison(text, day):
    words = " ".join(" ".join(outline(text).texts).split())
    five, ten = day.fixed
    assert f"{five.saved_percent(day.figures.usd):.1f} %" in words
    assert f"{ten.saved_percent(day.figures.usd):+.1f} %" in words
    assert f"{day.figures.violation_minutes:.1f} min" in words
    assert_wording(texts_with(text, "expectations", "fixed fleet"))


def test_every_decision_is_on_the_list_and_in_the_data(text, day):
    marks = data(text)["marks"]
    assert text.count('<li class="mark ') == len(day.marks) == len(marks)
    assert [mark["text"] for mark in marks] == [mark.text for mark in day.marks]


def test_the_curves_have_one_value_for_each_time(day):
    curves = series(day)
    number = len(curves["t"])
    assert number <= MOST
    for name in ("asked", "capacity", "room", "latency", "violated", "cpu", "waiting", "usd"):
        assert len(curves[name]) == number
    assert all(len(layer) == number for layer in curves["workers"])
    assert [sum(layer[-1] for layer in curves["workers"])] == [len(day.frames[-1].workers)]
    assert curves["fixed"][0]["perHour"] == pytest.approx(5 * 0.0208)


def test_no_trouble_is_left_out_where_frames_are_folded(day):
    frames = [replace(frame, violated=index == 7) for index, frame in enumerate(day.frames)]
    folded = series(replace(day, frames=tuple(frames)))
    assert len(day.frames) > MOST
    assert sum(folded["violated"]) == 1


def test_nobodys_text_can_break_the_page(tmp_path):
    nasty = "</script><script>alert(1)</script> & <b>"
    day = played(tmp_path, name="a-day", about=nasty)
    mark = Mark(at=day.starts, kind=MarkKind.WARNING, title=nasty, text=nasty)
    check = Check(holds=False, what=nasty, wanted=nasty, found=nasty)
    text = page(replace(day, marks=(mark,), checks=(check,), broken=(nasty,)))
    outline(text)
    assert "<script>alert" not in text
    assert data(text)["marks"][0]["text"] == nasty
    assert_wording([each for each in outline(text).texts if "expectations" in each])


def test_without_services_fixed_fleets_or_expectations_there_are_no_empty_parts(tmp_path):
    text = page(played(tmp_path, services=[]))
    assert_wording(re.findall(r"<h2[^>]*>([^<]+)", text))
    assert "<dt>SLO violated" not in text
    assert data(text)["slo"] is None


def test_three_sentences_stand_before_the_figures_and_a_fixed_spot_fleet_among_the_comparisons(tmp_path):
    day = shipped_day("shop-day")
    text = page(day)
    assert all(text.index(sentence) < text.index('class="cards"') for sentence in sentences(day))
    assert_wording(texts_with(text, "on Spot"))
    curves = data(text)
    assert max(curves["waiting"]) > 0
    assert curves["thresholds"] == {"cpuUp": 70, "cpuDown": 30, "memoryUp": 75, "memoryDown": 50}
    assert len(curves["memory"]) == len(curves["t"])


def test_a_fleet_that_cost_more_says_so(tmp_path):
    text = page(played(tmp_path, compare=[1]))
    assert_wording(texts_with(text, "fixed fleet"))


def test_what_has_no_end_is_drawn_up_to_a_limit(tmp_path):
    services = [{"workload": "web", "per_pod": 25, "load": [{"kind": "steady", "rate": 10}]}]
    workloads = [{"name": "web", "replicas": 0, "cpu": 400, "memory": 192}]
    text = page(played(tmp_path, services=services, workloads=workloads))
    assert max(data(text)["latency"]) == 600_000
