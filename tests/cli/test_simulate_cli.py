"""`nodefleet simulate`: plays what it is asked to, says what came of it, and the status tells whether it is good."""

import json
import re
import shlex

import pytest
import yaml
from typer.testing import CliRunner

from nodefleet_tools.cli import main
from support.played_days import small
from support.wording import assert_wording

LOAD = [{"kind": "stairs", "points": {"12:00": 100, "12:05": 300}}]
SERVICES = [{"workload": "web", "per_pod": 25, "replicas": {"min": 6, "max": 24}, "load": LOAD}]


def simulate(*options: object):
    return CliRunner().invoke(main.app, ["simulate", *map(str, options)])


def written(tmp_path, **parts: object):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(small(services=SERVICES, **parts)))
    return path


def test_a_scenario_that_comes_true_ends_well(tmp_path):
    done = simulate("--scenario", written(tmp_path, expect={"grows": {"at_least": 1}}, compare=[3]))
    assert done.exit_code == 0
    words = " ".join(done.stdout.split())
    assert "12:05 ▲ 3 → 5" in words
    assert_wording(words)
    assert "\x1b" not in done.stdout


def test_what_does_not_come_true_is_named_with_its_figures_and_the_status_is_1(tmp_path):
    done = simulate("--scenario", written(tmp_path, expect={"grows": {"at_most": 0}, "most_nodes": {"at_most": 9}}))
    assert done.exit_code == 1
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert_wording(lines)


def test_json_is_everything_and_nothing_else(tmp_path):
    done = simulate("--scenario", written(tmp_path, compare=[3]), "--json")
    plain = json.loads(done.stdout)
    assert plain["scenario"] == "small"
    assert plain["figures"]["grows"] == 1
    assert plain["figures"]["healed_seconds"] is None
    assert plain["fixed"][0]["nodes"] == 3
    assert "saved_percent" in plain["fixed"][0]
    assert plain["decisions"][0]["by"] == "pods"
    assert {"at", "kind", "title", "text", "waited"} == set(plain["marks"][0])


def test_what_never_came_is_null_in_json(tmp_path):
    events = [
        {"kind": "capacity-missing", "at": "12:01", "lasting": "1h"},
        {"kind": "spot-interruption", "at": "12:02"},
    ]
    done = simulate("--scenario", written(tmp_path, events=events), "--json")
    assert json.loads(done.stdout)["figures"]["healed_seconds"] is None


def test_another_seed_is_another_day(tmp_path):
    noisy = [{**SERVICES[0], "load": [*LOAD, {"kind": "noise", "percent": 5}]}]
    path = tmp_path / "noisy.yaml"
    path.write_text(yaml.safe_dump(small(services=noisy)))
    first, again, other = (simulate("--scenario", path, "--seed", seed, "--json").stdout for seed in (1, 1, 2))
    assert first == again
    assert json.loads(first)["figures"] != json.loads(other)["figures"]


def test_a_policy_takes_the_place_of_the_scenarios_and_must_keep_its_promises(tmp_path):
    scenario = written(tmp_path, expect={"grows": {"at_least": 1}})
    policy = tmp_path / "policy.yaml"
    policy.write_text("limits: {min: 2, max: 3}\n")
    assert simulate("--scenario", scenario, "--policy", policy).exit_code == 1
    policy.write_text("limits: {min: 9, max: 3}\n")
    refused = simulate("--scenario", scenario, "--policy", policy)
    assert refused.exit_code == 2
    assert_wording(refused.stderr)


def test_a_trace_takes_the_place_of_the_load_and_expectations_are_not_checked(tmp_path):
    scenario = written(tmp_path, expect={"grows": {"at_most": 0}})
    trace = tmp_path / ("d" * 90) / "mine.csv"
    trace.parent.mkdir()
    trace.write_text("timestamp,value\n2026-11-16T09:00:00Z,1\n2026-11-16T09:10:00Z,3\n2026-11-16T09:20:00Z,3\n")
    done = simulate("--scenario", scenario, "--trace", trace)
    assert done.exit_code == 0
    assert_wording(done.stdout)
    assert "mine.csv" in done.stdout


def test_a_report_is_written_where_it_is_asked_for(tmp_path):
    target = tmp_path / "new" / ("d" * 90) / "day.html"
    done = simulate("--scenario", written(tmp_path), "--report", target)
    assert done.exit_code == 0
    assert target.read_text().startswith("<!doctype")
    assert f"Report: {target}\n" in done.stdout


def test_a_report_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    done = simulate("--scenario", written(tmp_path), "--report", tmp_path / "file" / "day.html")
    assert done.exit_code == 2
    assert_wording(done.stderr)


def test_the_list_names_each_with_what_it_shows():
    done = simulate("--list")
    assert done.exit_code == 0
    assert {"shop-day", "flash-sale", "burst"} <= {
        line.split()[0] for line in done.stdout.splitlines() if line[:1] != " "
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scenario", "shop-dya"], "neither a file nor a scenario that is shipped"),
        (["--scenario", "gone.yaml"], "gone.yaml: there is no such file"),
        (["--scenario", "burst", "--trace", "gone.csv"], "has no service"),
        (["--scenario", "steady-state", "--trace", "gone.csv"], "gone.csv: there is no such file"),
        (["--scenario", "steady-state", "--policy", "gone.yaml"], "gone.yaml: there is no such file"),
    ],
)
def test_what_cannot_be_read_is_one_message_and_status_2(options, words):
    done = simulate(*options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_everything_wrong_with_a_scenario_is_listed(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("name: x\nlasts: soon\nextra: 1\n")
    done = simulate("--scenario", path)
    assert done.exit_code == 2
    assert "3 problems" in done.stderr


def test_a_month_of_marks_is_not_listed_in_full(tmp_path):
    events = [{"kind": "workload-scaled", "at": f"12:{minute:02}:{second:02}", "workload": "exporter", "replicas": 1}
              for minute in range(1, 25) for second in (0, 20, 40)]  # fmt: skip
    done = simulate("--scenario", written(tmp_path, events=events))
    assert_wording(done.stdout)


def test_another_policy_plays_the_same_day_and_both_are_compared(tmp_path):
    other, report = tmp_path / "other.yaml", tmp_path / "both.html"
    other.write_text("limits: {min: 6, max: 6}")
    scenario = written(tmp_path, compare=[3])
    done = simulate("--scenario", scenario, "--against", other, "--report", report)
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    (hours,) = [line for line in lines if line.startswith("Node-hours") and "fixed" not in line]
    mine, theirs = map(float, hours.split()[1:])
    assert mine < theirs
    text = report.read_text()
    again = shlex.split(re.search(r"<code>(nodefleet simulate .*)</code>", text)[1])
    assert again[2:6] == ["--scenario", str(scenario), "--against", str(other)]
    assert_wording(re.findall(r"<h2[^>]*>([^<]+)", text))
    curves = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert len(curves["otherWorkers"]) == len(curves["t"])
    assert curves["otherWorkers"][-1] == 6
    plain = json.loads(simulate("--scenario", scenario, "--against", other, "--json").stdout)
    assert plain["against"]["figures"]["node_hours"] > plain["figures"]["node_hours"]
