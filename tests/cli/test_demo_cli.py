"""`nodefleet demo`: what stands in the tables is what was played."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from nodefleet.domain.readings import Missing
from nodefleet_tools.cli import demo, main
from nodefleet_tools.timelines import TIMELINES, flash_sale, play, spot_interruption


@pytest.fixture(scope="module")
def page() -> str:
    done = CliRunner().invoke(main.app, ["demo"])
    assert done.exit_code == 0
    return done.stdout


def rows(page: str) -> list[str]:
    return [" ".join(line.split()) for line in page.splitlines() if re.match(r" \d\d:\d\d", line)]


def test_it_is_plain_and_fits_in_a_hundred_columns_without_a_terminal(page):
    assert "\x1b" not in page
    assert max(map(len, page.splitlines())) <= 100


def test_both_timelines_are_there_with_what_their_policy_says(page):
    assert re.findall(r"^(?:Flash sale|Spot interruption)$", page, re.MULTILINE) == ["Flash sale", "Spot interruption"]
    assert "default: 2 to 10 nodes; grows by 1 (urgent 2) above CPU 70 %" in page
    assert "default: 4 to 10 nodes; grows by 1 (urgent 2) above CPU 70 %" in page


def test_every_change_has_its_row_and_what_repeats_is_folded(page):
    starts = [row.split(" CPU")[0] for row in rows(page)]
    assert [start.split()[0] for start in starts] == [
        "20:00", "20:02", "20:04", "20:06", "20:08", "20:10", "20:12–20:30", "20:32–20:38", "20:40",
        "10:00", "10:02", "10:04", "10:06",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        "20:00 35 40 0 3+0 cpu ≥ 3 HOLD 3 CPU 35.0 % between 30 % and 70 %; memory",
        "20:04 82 40 3 3+0 pods ≥ 5 GROW 3 → 5 3 pods unschedulable while CPU 82.0 % >",
        "20:06 85 40 8 5+0 cooldown ≤ 5 HOLD 5 8 pods unschedulable while CPU 85.0 % >",
        "20:32–20:38 28 40 0 5+0 cpu ≥ 5 HOLD 5 CPU 28.0 % < 30 %, 4 of 5 readings;",
        "20:40 28 40 0 5+0 calm ≥ 4 SHRINK 5 → 4 CPU 28.0 % < 30 %, 5 of 5 readings;",
        "10:02 55 40 0 3+0 min ≥ 4 GROW 3 → 4 Spot warning: min is 4, 3 are there",
    ],
)
def test_a_row_holds_the_figures_who_decided_and_why(page, row):
    assert row in rows(page)


def test_those_that_were_overruled_stand_under_who_decided(page):
    assert page.count("not pods ≥ 7") == 2
    assert page.count("not cpu ≥ 6") == 2
    assert page.count("replace ≥ 4") == 1


def test_the_closing_lines_sum_up_what_was_played(page):
    text = " ".join(page.split())
    sale = "Result: +2 at 20:04 (2 Spot), ready 20:05:40, 100 s later; −1 at 20:40 ("
    assert sale in text
    assert (
        "Result: EC2 takes worker-02, warned at 10:02; "
        "replacement launched at 10:02 (1 On-Demand), ready 10:03:40, 100 s later."
    ) in text


def test_colours_are_for_terminals(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    page = CliRunner().invoke(main.app, ["demo"]).stdout
    assert re.search(r"\x1b\[[0-9;]*32m[^\x1b]*GROW 3 → 5", page)
    assert re.search(r"\x1b\[[0-9;]*33m[^\x1b]*SHRINK 5 → 4", page)
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in page.splitlines()) <= 100


def test_without_scaling_the_closing_line_says_so():
    calm = replace(flash_sale(), rows=flash_sale().rows[:2])
    played = list(play(calm))
    assert list(demo.outcome(played)) == []
    out = StringIO()
    demo._show(calm, played, Console(file=out, width=100))
    assert "Result: nothing was scaled.\n" in out.getvalue()


def test_a_launch_that_was_not_seen_to_join_has_no_ready_time():
    played = list(play(replace(spot_interruption(), rows=spot_interruption().rows[:2])))
    assert list(demo.outcome(played))[-1] == "replacement launched at 10:02 (1 On-Demand)"
    full = list(play(spot_interruption()))
    blind = replace(full[-1].seen, instances=Missing("timeout"))
    assert list(demo.outcome([*full[:-1], replace(full[-1], seen=blind)]))[-1].endswith("(1 On-Demand)")


@pytest.mark.parametrize("make", TIMELINES)
def test_no_look_is_lost_by_folding(make):
    played = list(play(make()))
    assert [each for run in demo._runs(played) for each in run] == played
