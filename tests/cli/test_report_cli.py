"""`nodefleet report`: the week that is over and the one that is running, as operators and programs read them."""

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from nodefleet.errors import UnavailableError
from nodefleet.model.state import LoopState, Usage
from nodefleet_tools.cli.outcome import Status
from nodefleet_tools.cli.report import current_week
from nodefleet_tools.sim.table import stamp
from nodefleet_tools.sim.world import World
from support.sim_connections import SimConnection, Terminal
from support.week_builders import MONDAY, NEXT_MONDAY, hours, used
from support.wording import assert_wording
from support.worlds import shop

WEDNESDAY = NEXT_MONDAY + timedelta(days=2, hours=10, minutes=20)


def world(at: datetime = WEDNESDAY, usage: tuple[Usage, ...] = (), running: Usage | None = None, **policy) -> World:
    made = World(seed=1, start=at, policy=policy or {"limits": {"min": 2, "max": 6}})
    made.settle()
    for each in usage:
        made.table.put("usage", stamp(each.hour), each)
    made.table.put("journal", "", LoopState(usage=running))
    return made


def ask(monkeypatch, made: World, *arguments: str):
    return Terminal(monkeypatch, SimConnection(made))("report", *arguments)


def figures(monkeypatch, made: World, *arguments: str) -> dict:
    done = ask(monkeypatch, made, "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_the_last_week_is_told_as_people_hear_of_it(monkeypatch):
    done = ask(monkeypatch, world(usage=hours((168, used(4, 2)))))
    assert done.exit_code == 0
    assert_wording(done.stdout)
    assert "\nFailures" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 110


def test_the_running_week_has_the_running_hour_in_it(monkeypatch):
    over = hours((58, used(4, 2)), start=NEXT_MONDAY)
    running = Usage(hour=NEXT_MONDAY + timedelta(hours=58), last=WEDNESDAY, pools={"default": used(4, 2, watched=0.25)})
    found = figures(monkeypatch, world(usage=over, running=running), "--week", "current")
    assert (found["start"], found["end"], found["hours"]) == ("2026-11-16T00:00:00Z", "2026-11-18T11:00:00Z", 59)
    assert found["watched_hours"] == pytest.approx(58.25)
    assert found["node_hours"] == pytest.approx(58.25 * 6)
    assert found["pools"][0]["spot_percent"] == pytest.approx(200 / 3)


def test_the_running_hour_is_not_last_week_s(monkeypatch):
    running = Usage(hour=NEXT_MONDAY, last=NEXT_MONDAY, pools={"default": used(4, 2)})
    made = world(usage=hours((168, used(4, 2))), running=running)
    assert figures(monkeypatch, made)["node_hours"] == pytest.approx(1008)


def test_a_last_hour_that_no_run_has_closed_still_counts(monkeypatch):
    """The schedule was turned off on Sunday evening."""
    last = Usage(hour=NEXT_MONDAY - timedelta(hours=1), last=NEXT_MONDAY, pools={"default": used(4, 2)})
    made = world(usage=hours((167, used(4, 2))), running=last)
    assert figures(monkeypatch, made)["node_hours"] == pytest.approx(1008)


def test_what_a_cluster_did_by_itself_is_reported(monkeypatch):
    cluster = shop(workers=3, replicas=12, cpu=900)
    cluster.calm(40)
    found = figures(monkeypatch, cluster.world, "--week", "current")
    assert found["cluster"] == "shop"
    assert found["watched_hours"] == pytest.approx(78 / 60, abs=0.05)
    assert found["happened"]["scale-up"] >= 1
    assert found["headline"].startswith("From 2026-11-16 to 2026-11-16: ")
    assert any(line.startswith("Scaling: ") for line in found["lines"])


def test_recommendations_are_data_too(monkeypatch):
    greedy = used(6, 3, cpu=20, memory=30, asked=(90, 40))
    found = figures(monkeypatch, world(usage=hours((168, greedy))))
    assert_wording([each["do"] for each in found["recommendations"]])
    assert all({"pool", "do", "because"} <= set(each) for each in found["recommendations"])


def test_without_prices_the_report_advises_less_and_says_so(monkeypatch):
    made = world(usage=hours((168, used(4, 2))))
    connection = SimConnection(made)

    def away(types):
        raise UnavailableError("EC2", "timed out")

    connection.cloud = type("Cloud", (), {"catalog": staticmethod(away)})()
    done = Terminal(monkeypatch, connection)("report")
    assert done.exit_code == 0
    assert "1,008 node-hours" in done.stdout
    assert_wording(done.stderr)


def test_a_cluster_that_never_ran_says_so(monkeypatch):
    done = ask(monkeypatch, world())
    assert (done.exit_code, done.stdout) == (Status.NOTHING, "")
    assert_wording(done.stderr)
    assert json.loads(ask(monkeypatch, world(), "--json").stdout)["error"]["status"] == Status.NOTHING


def test_the_table_away_is_one_line_and_a_wrong_week_refused(monkeypatch):
    made = world()
    assert ask(monkeypatch, made, "--week", "next").exit_code == 2
    made.away("store")
    done = ask(monkeypatch, made)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_nobody_is_told(monkeypatch):
    made = world(usage=hours((168, used(4, 2))))
    ask(monkeypatch, made)
    assert made.table.events == ()


@pytest.mark.parametrize(
    ("now", "zone", "start", "hours_"),
    [
        (WEDNESDAY, "UTC", NEXT_MONDAY, 59),
        (NEXT_MONDAY, "UTC", NEXT_MONDAY, 1),
        (NEXT_MONDAY - timedelta(minutes=1), "UTC", MONDAY, 168),
        (WEDNESDAY, "Europe/Berlin", NEXT_MONDAY - timedelta(hours=1), 60),
        (NEXT_MONDAY, "America/New_York", MONDAY + timedelta(hours=5), 164),
        # half an hour off: the week begins with the next full hour, which has not begun yet
        (datetime(2026, 11, 15, 18, 40, tzinfo=UTC), "Asia/Kolkata", datetime(2026, 11, 15, 19, tzinfo=UTC), 1),
    ],
)
def test_the_running_week_begins_on_monday_where_people_live(now, zone, start, hours_):
    week = current_week(now, ZoneInfo(zone))
    assert (week.start, week.hours) == (start, hours_)


# ── as a page ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_week_is_written_as_one_html_file(monkeypatch, tmp_path):
    file = tmp_path / "reports" / "week.html"
    done = ask(monkeypatch, world(usage=hours((168, used(4, 2)))), "--html", str(file))
    assert done.exit_code == 0, done.stderr
    text = file.read_text()
    assert "Week 2026-W" in text
    assert_wording(re.findall(r"<dt[^>]*>([^<]+)", text))
    assert "export {" not in text
    curves = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert (len(curves["t"]), curves["spot"][0], curves["onDemand"][0]) == (168, 4.0, 2.0)
    assert (curves["cpu"][0], curves["memory"][0]) == (45.0, 60.0)
    assert curves["thresholds"] == {"cpuUp": 70.0, "cpuDown": 30.0, "memoryUp": 75.0, "memoryDown": 50.0}


def test_a_week_without_records_is_a_page_too(monkeypatch, tmp_path):
    file = tmp_path / "week.html"
    assert ask(monkeypatch, world(), "--html", str(file)).exit_code == Status.NOTHING
    assert_wording(re.findall(r"<p[^>]*>([^<]+)", file.read_text()))


def test_a_file_that_cannot_be_written_is_said(monkeypatch, tmp_path):
    done = ask(monkeypatch, world(), "--html", str(tmp_path))
    assert done.exit_code == 2
    assert_wording(done.stderr)
