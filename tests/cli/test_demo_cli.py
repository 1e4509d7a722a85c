"""`nodefleet demo`: a shop's day, live on a terminal and in plain lines elsewhere, with a summary and a report."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from nodefleet_tools.cli import demo, main
from nodefleet_tools.cli.playing import is_lively
from nodefleet_tools.cli.show_played import PER_SECOND, show_lines, show_live, show_summary
from nodefleet_tools.sim.summary import sentences
from support.played_days import shipped_day
from support.wording import assert_wording


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """The day is played once for all tests."""
    monkeypatch.setattr(demo, "played_with_progress", lambda *_: shipped_day("shop-day"))


def run(tmp_path, *options: str):
    report = tmp_path / "demo.html"
    return CliRunner().invoke(main.app, ["demo", "--report", str(report), *options]), report


def test_without_a_terminal_it_is_plain_lines_in_the_order_of_the_day(tmp_path):
    done, _ = run(tmp_path)
    assert done.exit_code == 0
    assert "\x1b" not in done.stdout
    clocks = re.findall(r"^(\d\d:\d\d)", done.stdout, re.MULTILINE)
    assert clocks[:-1] == sorted(clocks[:-1])
    assert clocks[-1] == "00:00"
    assert len([clock for clock in clocks if clock.endswith(":00")]) >= 25
    for words in ("08:50 ▲ 2 → 3  predicted CPU", "10:02 » EC2 takes worker-", "The budget of web allows 0 to be away"):
        assert words in done.stdout


def test_the_summary_has_every_figure_that_was_promised(tmp_path):
    day = shipped_day("shop-day")
    words = " ".join(run(tmp_path, "--verbose")[0].stdout.split())
    five, ten = day.fixed
    for promised in (
        f"SLO violated {day.figures.violation_minutes:.1f} min",
        f"{five.violation_minutes:.1f} min on a fixed fleet of 5",
        f"Node-hours {day.figures.node_hours:.1f}",
        f"Bill for the workers {day.figures.usd:.2f} USD",
        f"{five.usd:.2f} USD fixed at 5",
        f"{ten.usd:.2f} USD fixed at 10",
        "Longest wait of a pod",
        f"Decision to ready capacity {day.figures.decision_to_ready_seconds:.0f} s",
        f"Actions {day.figures.grows} up, {day.figures.shrinks} down",
        "at least 40 %",
        "at most 180 s",
        f"All {len(day.checks)} expectations hold.",
    ):
        assert promised in words


def test_it_ends_with_three_sentences_and_the_link_and_keeps_the_checks_for_verbose(tmp_path):
    day = shipped_day("shop-day")
    done, report = run(tmp_path)
    words = " ".join(done.stdout.split())
    assert " ".join(sentences(day)) in words
    assert len(sentences(day)) == 3
    assert f"{day.figures.usd:.2f} USD" in sentences(day)[2]
    assert_wording(words.partition(" ".join(sentences(day)))[2].partition(report.as_uri())[0])
    assert report.as_uri() in done.stdout


def test_the_page_opens_where_there_is_a_browser_and_when_it_is_asked_for(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(demo, "demo_source", lambda chosen: chosen.scenario.name)
    monkeypatch.setattr(demo, "serve", lambda source, **_: opened.append(source))
    monkeypatch.setattr(demo, "has_browser", lambda: True)
    assert run(tmp_path)[0].exit_code == 0
    assert opened == ["shop-day"]
    assert "08:50 ▲" in run(tmp_path, "--terminal")[0].stdout
    assert opened == ["shop-day"]
    monkeypatch.setattr(demo, "has_browser", lambda: False)
    run(tmp_path, "--page")
    assert opened == ["shop-day", "shop-day"]


def test_the_report_is_written_and_named(tmp_path):
    done, report = run(tmp_path)
    assert report.read_text().startswith("<!doctype")
    assert report.as_uri() in done.stdout


def test_a_day_that_does_not_come_true_ends_with_status_1(tmp_path, monkeypatch):
    broken = replace(shipped_day("shop-day"), broken=("more workers than max",))
    monkeypatch.setattr(demo, "played_with_progress", lambda *_: broken)
    done, _ = run(tmp_path)
    assert done.exit_code == 1
    assert broken.broken[0] in done.stdout


# ── on a terminal ────────────────────────────────────────────────────────────────────────────────────────────────


class Watch:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now


def terminal() -> Console:
    return Console(
        file=StringIO(),
        force_terminal=True,
        width=80,
        height=40,
        color_system="standard",
        legacy_windows=False,
        _environ={"TERM": "xterm"},  # whatever terminal the tests run in
    )


def test_the_live_view_takes_the_time_it_is_given():
    watch, console = Watch(), terminal()
    show_live(shipped_day("shop-day"), console, 2.0, watch.sleep, watch.clock)
    assert watch.now == pytest.approx(2.0, abs=2 / PER_SECOND)
    text = console.file.getvalue()
    assert "Fri 00:00" in text
    assert "Sat 00:00" in text


def test_control_c_skips_to_the_end():
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    console = terminal()
    show_live(shipped_day("shop-day"), console, 50.0, interrupted, lambda: 0.0)
    assert_wording(console.file.getvalue().splitlines()[-1])


@pytest.mark.parametrize(
    ("environment", "lively"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
    ],
)
def test_only_a_terminal_that_can_be_drawn_on_is_drawn_on(environment, lively):
    assert is_lively(Console(file=StringIO(), force_terminal=True, _environ=environment)) is lively
    assert not is_lively(Console(file=StringIO(), force_terminal=False, _environ=environment))


def test_lines_and_summary_fit_into_eighty_columns_but_for_reasons():
    console = Console(file=StringIO(), width=80)
    show_summary(shipped_day("shop-day"), console)
    assert max(map(len, console.file.getvalue().splitlines())) <= 80
    console = Console(file=StringIO(), width=80)
    show_lines(shipped_day("shop-day"), console)
    assert all(re.match(r"\d\d:\d\d ", line) for line in console.file.getvalue().splitlines() if line)


def test_the_adaptive_day_is_the_same_day_with_the_other_strategy_and_keeps_what_is_expected_of_its_outcome():
    classic, adaptive = (demo.read_day(adaptive=strategy).scenario for strategy in (False, True))
    assert adaptive.policy == {**classic.policy, "strategy": "adaptive"}
    assert adaptive.services == classic.services
    assert adaptive.expect == replace(
        classic.expect,
        nodes_at={},
        moments=tuple(each for each in classic.expect.moments if each.by != "predictive"),
    )
    assert len(adaptive.expect.moments) == len(classic.expect.moments) - 1
