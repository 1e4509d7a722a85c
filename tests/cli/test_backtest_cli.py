"""`nodefleet backtest` and `nodefleet tune`."""

import json
from dataclasses import replace
from math import pi, sin

import pytest
from typer.testing import CliRunner

from nodefleet_tools.backtest import suite
from nodefleet_tools.backtest.play import Run
from nodefleet_tools.cli.main import app
from support.builders import NOON
from support.deployed import account, deployed
from support.prometheus_stand_in import prometheus, success
from support.wording import assert_wording

__all__ = ["account", "deployed"]

RUN = suite.run


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "swell.csv"
    start = int(NOON.timestamp())
    rows = [f"{start + 300 * index},{100 + 60 * sin(2 * pi * index / 288):.2f}" for index in range(288 * 3)]
    path.write_text("timestamp,value\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def played_runs():
    """Tests that play the same policy on the trace share what comes of it."""
    played = {}

    def run_once(job):
        key = (job.policy, repr(job.pool), job.price)
        if key not in played:
            played[key] = RUN(replace(job, keep=True))
        return played[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "run", run_once)
        yield played


def run(*arguments, columns=160):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": str(columns)})


def test_a_trace_is_played_with_all_policies(trace, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("strategy: adaptive\nadaptive: {price: 30}\n")
    page = tmp_path / "out.html"
    result = run("backtest", "--trace", trace, "--policy", mine, "--json", "--report", page, "--jobs", 1)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["trace"] == "swell"
    policies = {each["policy"]: each for each in told["runs"]}
    assert {"classic", "adaptive frugal", "adaptive balanced", "adaptive careful", "best fixed fleet", "mine"} <= set(
        policies
    )
    names = {"violation_pct", "longest_violation_min", "node_hours", "vs_optimum", "actions_per_day", "undone_pct"}
    assert names <= set(policies["classic"])
    assert policies["adaptive careful"]["node_hours"] >= policies["adaptive frugal"]["node_hours"]
    assert policies["adaptive balanced"]["vs_optimum"] < policies["classic"]["vs_optimum"]
    assert "cheapest" in told["verdict"]
    assert "adaptive balanced" in page.read_text()
    assert "class=front" in page.read_text()


def test_the_price_that_meets_the_budget_is_played_too_and_a_file_may_have_the_document(trace, tmp_path):
    out = tmp_path / "out.json"
    common = ("backtest", "--trace", trace, "--jobs", 1, "--json", out)
    assert run(*common, "--budget", 50).exit_code == 0
    runs = {each["policy"]: each for each in json.loads(out.read_text())["runs"]}
    balanced = runs["adaptive balanced"]
    assert balanced["promised_pct"] == pytest.approx(balanced["seen_pct"], abs=1)
    assert sum(balanced["votes"].values()) == pytest.approx(1, abs=0.01)
    assert "votes" not in runs["classic"]
    high, low = (runs[f"adaptive {name}"]["violation_pct"] for name in ("frugal", "careful"))
    assert high > low
    result = run(*common, "--budget", (high + low) / 2)
    assert_wording(result.output)
    (more,) = (each for each in json.loads(out.read_text())["runs"] if each["policy"] not in runs)
    assert more["violation_pct"] <= (high + low) / 2
    assert_wording(more["policy"])


def test_no_figure_of_the_table_is_cut_off_in_a_narrow_terminal(trace):
    narrow = run("backtest", "--trace", trace, "--jobs", 1, columns=60).stdout
    wide = run("backtest", "--trace", trace, "--jobs", 1, columns=160).stdout
    figures = [line.split() for line in wide.splitlines() if line.strip().startswith(("classic", "adaptive"))]
    assert len(figures) >= len(suite.ADAPTIVE) + 1
    assert [line.split() for line in narrow.splitlines() if line.strip().startswith(("classic", "adaptive"))] == figures


def test_a_file_without_a_purpose_is_refused(trace):
    assert run("backtest", trace).exit_code == 2


def test_one_source_is_needed_and_no_more(trace):
    assert run("backtest").exit_code == 2
    assert run("backtest", "--trace", trace, "--prometheus", "http://x").exit_code == 2


def test_a_file_that_is_no_trace_is_refused(tmp_path):
    (tmp_path / "bad.csv").write_text("timestamp,value\nnow,much\nthen,less\n")
    result = run("backtest", "--trace", tmp_path / "bad.csv")
    assert result.exit_code == 2


def test_prometheus_is_read_in_pieces_that_it_gives():
    def answer(_):
        return success([], "matrix")

    with prometheus(answer) as server:
        result = run("backtest", "--prometheus", server.address, "--days", 20)
    assert result.exit_code == 2  # nothing was measured
    assert [each.path for each in server.asked] == ["/api/v1/query_range"] * 3


def test_tune_needs_some_days_and_plays_no_more_than_one_setting_to_know(trace, played_runs):
    before = len(played_runs)
    result = run("tune", "--trace", trace, "--jobs", 1)
    assert result.exit_code == 2
    assert_wording(result.output)
    assert len(played_runs) <= before + 1


def days_at_once(job):
    """A run of ten days, in which the adaptive strategy takes a fifth less than classic."""
    paid = 5000 if job.policy == "classic" else 4000
    return Run(policy=job.policy, trace=job.trace.name, days=[[1440, 2, paid]] * 10)


def test_what_tuning_found_is_kept_where_the_weekly_report_finds_it(trace, deployed, monkeypatch):
    monkeypatch.setattr(suite, "run", days_at_once)
    result = run("tune", "--trace", trace, "--jobs", 1, "--budget", 0.5)
    assert result.exit_code == 0, result.output
    assert deployed.store().state().tuned == ()  # not asked to be kept
    result = run("tune", "--trace", trace, "--jobs", 1, "--budget", 0.5, "--keep")
    assert result.exit_code == 0, result.output
    (kept,) = deployed.store().state().tuned
    assert (kept.pool, kept.days, kept.budget_pct, kept.within_budget_pct) == ("default", 7, 0.5, 100.0)
    assert kept.saving_low_pct == kept.saving_pct == kept.saving_high_pct == pytest.approx(20.0)
    assert "price" in kept.settings


@pytest.mark.parametrize(
    "options",
    [
        ("--nodes", 10, 2),
        ("--nodes", -1, 5),
        ("--nodes", 0, 0),
        ("--violation", 0),
        ("--join", 0),
        ("--budget", -1),
        ("--days", 0),
        ("--jobs", 0),
    ],
)
@pytest.mark.parametrize("command", ["backtest", "tune"])
def test_conditions_that_cannot_be_played_are_refused(trace, command, options):
    result = run(command, "--trace", trace, *options)
    assert result.exit_code == 2, result.output


def test_a_result_that_could_not_be_written_is_refused_before_anything_is_played(trace, tmp_path, played_runs):
    (tmp_path / "file").write_text("")
    before = len(played_runs)
    for place in (tmp_path, tmp_path / "file" / "below"):
        for option in ("--report", "--json"):
            assert run("backtest", "--trace", trace, "--violation", 84, option, place, "--jobs", 1).exit_code == 2
        assert run("tune", "--trace", trace, "--state", place, "--jobs", 1).exit_code == 2
    assert len(played_runs) == before


def test_the_folder_of_a_result_is_made(trace, tmp_path):
    page = tmp_path / "new" / "out.html"
    assert run("backtest", "--trace", trace, "--report", page, "--jobs", 1).exit_code == 0
    assert page.exists()


def test_a_state_that_tune_did_not_keep_is_refused(trace, tmp_path):
    state = tmp_path / "state.json"
    for text in ("{half", "[]"):
        state.write_text(text)
        assert run("tune", "--trace", trace, "--state", state, "--jobs", 1).exit_code == 2
        assert state.read_text() == text


def test_a_stopped_tune_goes_on_and_another_load_is_played_anew(trace, tmp_path, monkeypatch):
    played = []

    def count_runs(job):
        played.append(job.policy)
        return days_at_once(job)

    monkeypatch.setattr(suite, "run", count_runs)
    state = tmp_path / "state.json"
    common = ("tune", "--state", state, "--jobs", 1, "--json")
    first = run(*common, "--trace", trace)
    assert first.exit_code == 0, first.output
    settings = len(played)
    kept = json.loads(state.read_text())
    gone = sorted(kept)[:3]
    state.write_text(json.dumps({key: days for key, days in kept.items() if key not in gone}))
    assert run(*common, "--trace", trace).stdout == first.stdout
    assert len(played) == settings + 3
    other = tmp_path / trace.name  # as long, from the same minute, but another load
    lines = trace.read_text().splitlines()
    other.write_text("\n".join([*lines[:-1], lines[-1] + "5"]) + "\n")
    assert run(*common, "--trace", other).exit_code == 0
    assert len(played) == 2 * settings + 3


def test_every_policy_has_a_name_of_its_own(trace, tmp_path):
    files = [
        tmp_path / "classic.yaml",
        tmp_path / "mine.yaml",
        tmp_path / "b" / "mine.yaml",
        tmp_path / "c" / "mine.yaml",
    ]
    for price, file in enumerate(files, start=30):
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"strategy: adaptive\nadaptive: {{price: {price}}}\n")
    given = [option for file in files for option in ("--policy", file)]
    result = run("backtest", "--trace", trace, *given, "--json", "--jobs", 1)
    assert result.exit_code == 0, result.output
    names = [each["policy"] for each in json.loads(result.stdout)["runs"]]
    assert len(names) == len(set(names))
    assert {"classic", "classic.yaml", "mine", "mine.yaml", "mine.yaml (2)"} <= set(names)


def test_readings_below_zero_are_said(tmp_path):
    path = tmp_path / "below.csv"
    path.write_text("timestamp,value\n" + "".join(f"{60 * minute},{minute % 5 - 1}\n" for minute in range(20)))
    assert "4 readings" in run("tune", "--trace", path, "--jobs", 1).stderr


def test_the_pool_of_a_policy_with_several_is_named(trace, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("pools:\n- {name: web, strategy: adaptive}\n- {name: jobs, strategy: classic}\n")
    common = ("backtest", "--trace", trace, "--policy", mine, "--json", "--jobs", 1)
    assert run(*common).exit_code == 2
    for pool, like in (("web", "adaptive balanced"), ("jobs", "classic")):
        result = run(*common, "--pool", pool)
        assert result.exit_code == 0, result.output
        runs = {each["policy"]: each for each in json.loads(result.stdout)["runs"]}
        assert runs["mine"]["node_hours"] == runs[like]["node_hours"]
