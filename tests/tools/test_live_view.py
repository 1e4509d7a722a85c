"""The live view and its pace: what is on the screen is what was played, and it fits."""

import re
from datetime import timedelta

import pytest
from rich.console import Console

from nodefleet_tools.live import View, mark_line
from nodefleet_tools.pacing import schedule, weights
from nodefleet_tools.sim.scenario_result import MarkKind, ScenarioResult
from support.played_days import played, shipped_day
from support.wording import assert_wording


@pytest.fixture(scope="module")
def day() -> ScenarioResult:
    return shipped_day("shop-day")


def screen(day: ScenarioResult, clock: str, width: int = 80) -> list[str]:
    number = next(index for index, frame in enumerate(day.frames) if f"{frame.at:%H:%M}" == clock)
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(View(day, width).at(number))
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [60, 80, 110])
@pytest.mark.parametrize("clock", ["00:00", "10:02", "20:09", "23:59"])
def test_it_always_has_the_same_size_and_fits_a_small_terminal(day, clock, width):
    lines = screen(day, clock, width)
    assert len(lines) == len(screen(day, "12:00", width)) <= 24
    assert {len(line) for line in lines} == {width}


def test_it_shows_time_load_workers_by_zone_and_the_bill(day):
    text = "\n".join(screen(day, "12:30"))
    frame = next(frame for frame in day.frames if f"{frame.at:%H:%M}" == "12:30")
    assert "Fri 12:30" in text
    assert f"load {frame.asked:.3g}/s" in text
    assert f"{frame.ready} ready" in text
    assert f"{frame.usd:.2f} USD" in text
    assert_wording(re.search(r"a fixed fleet.*?USD", text)[0])
    assert [line.split()[1] for line in text.splitlines() if line.startswith("│ us-")] == ["us-east-1a", "us-east-1b"]
    assert text.count("■ ") + text.count("● ") == len(frame.workers) + 2  # and the legend


def test_the_curve_grows_with_the_day(day):
    def drawn(clock: str) -> int:
        return sum(line.count(bar) for line in screen(day, clock) for bar in "▁▂▃▄▅▆▇█")

    assert drawn("06:00") < drawn("12:00") < drawn("22:00")


def test_a_drain_that_waits_for_a_budget_names_it(day):
    minutes = [frame for frame in day.frames if frame.at.second == 0]
    waiting = next(frame for frame in minutes if any(drain.budget for drain in frame.drains))
    (drain,) = waiting.drains
    line = next(line for line in screen(day, f"{waiting.at:%H:%M}") if "drains" in line)
    assert drain.node in line
    assert_wording(line.strip("│ ").rpartition(", ")[2])
    assert any("drains" in line and "none" in line for line in screen(day, "05:00"))


def test_the_newest_reason_has_two_rows_before_it_is_cut(day):
    long = next(mark for mark in day.marks if len(mark.text) > 90 and mark.kind is not MarkKind.REMOVED)
    lines = screen(day, f"{long.at:%H:%M}")
    start = next(index for index, line in enumerate(lines) if f"{long.at:%H:%M} " in line and long.text[:20] in line)
    shown = " ".join(line.strip("│ …").strip() for line in lines[start : start + 2])
    assert long.text[:90] in shown


def test_a_scale_up_for_pods_says_how_soon_after_the_pod_it_was_decided(day):
    urgent = next(mark for mark in day.marks if mark.waited is not None)
    assert urgent.kind is MarkKind.GROW
    assert urgent.waited < timedelta(seconds=30)
    soon = urgent.at + timedelta(minutes=1)
    line = next(line for line in screen(day, f"{soon:%H:%M}") if "▲" in line and urgent.title in line)
    assert_wording(
        line.strip("│ ").partition("  ")[0].partition(", ")[2], SECONDS=f"{urgent.waited.total_seconds():.0f} s"
    )


def test_the_latest_decisions_stand_there_with_their_reasons(day):
    text = "\n".join(screen(day, "08:55", 110))
    assert "08:50 ▲ 2 → 3  predicted CPU" in text
    assert "3 → 4" not in text


def test_a_fleet_that_is_away_from_its_metrics_shows_it(tmp_path):
    away = played(tmp_path, services=[], workloads=[], cluster={"workers": 0}, policy={"limits": {"min": 0, "max": 3}})
    assert "CPU ?" in "\n".join(screen(away, "12:20"))


def test_a_mark_is_one_line(day):
    grown = next(mark for mark in day.marks if mark.kind is MarkKind.GROW)
    assert mark_line(grown).plain.startswith("08:50 ▲ 2 → 3  predicted")


# ── the pace ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_busy_minutes_are_worth_more_than_quiet_hours(day):
    worth = dict(zip([f"{frame.at:%H:%M:%S}" for frame in day.frames], weights(day), strict=True))
    assert worth["04:00:00"] == 1
    assert min(worth["10:02:30"], worth["08:51:00"], worth["20:03:00"]) > 10


def test_all_of_it_is_shown_in_the_given_time_and_the_last_frame_too(day):
    shown = list(schedule(weights(day), seconds=10, per_second=12))
    assert len(shown) == 121
    assert shown == sorted(shown)
    assert (shown[0], shown[-1]) == (0, len(day.frames) - 1)


def test_at_least_one_picture_is_shown():
    assert list(schedule([1.0], seconds=0, per_second=12)) == [0, 0]
