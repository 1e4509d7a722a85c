"""`nodefleet chaos`: what it prints, and its status."""

import json
import re

import pytest
from typer.testing import CliRunner

from nodefleet_tools.cli import chaos, main
from nodefleet_tools.sim.chaos.kept import about, plan_from
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.chaos.shortening import Shortening
from support.played_days import shortened_cordon
from support.wording import assert_wording


def called(*arguments: str):
    return CliRunner().invoke(main.app, ["chaos", *arguments])


@pytest.fixture
def no_shortening(monkeypatch):
    monkeypatch.setattr(Shortening, "shorten", lambda _: None)


def test_seeds_that_hold_are_summed_up():
    done = called("--seeds", "3", "--from", "4")
    assert done.exit_code == 0
    *_, summed, last = done.output.splitlines()
    assert summed.startswith("3 seeds, ")
    assert_wording(last)


def test_without_a_terminal_progress_comes_as_lines(monkeypatch):
    monkeypatch.setattr(chaos, "_LINES", 2)
    lines = called("--seeds", "4", "--from", "4").output.splitlines()
    assert [line for line in lines if " of 4 seeds" in line] == ["2 of 4 seeds, 0 wrong", "4 of 4 seeds, 0 wrong"]


def test_one_seed_can_be_watched():
    done = called("--seed", "2", "--trace")
    assert done.exit_code == 0
    assert "12:00:0" in done.output
    assert_wording([line for line in done.output.splitlines() if "well again" in line or line.startswith("Seed")])


@pytest.fixture(scope="module")
def undone(tmp_path_factory):
    """A violation that was kept: what was printed, and the file. The least that it takes is found once."""
    path = tmp_path_factory.mktemp("kept") / "cordon.json"
    short = shortened_cordon()

    def shorten(self: Shortening) -> None:
        self.plan, self.verdict = short.plan, short.verdict

    with PLANTED["operator cordon undone"](), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shortening, "shorten", shorten)
        return called("--seed", "1", "--save", str(path), "--about", "A cordon was undone."), path


def test_a_violation_is_told_with_the_least_that_it_takes_and_how_to_see_it_again(undone):
    done, _ = undone
    assert done.exit_code == 1
    assert "VIOLATION" in done.output
    assert_wording([line for line in done.output.splitlines() if re.match(r"[A-Z]", line)])


def test_a_plan_is_kept_with_the_least_that_it_takes_and_played_again(undone):
    _, path = undone
    with PLANTED["operator cordon undone"]():
        again = called("--plan", str(path))
    assert again.exit_code == 1
    assert_wording([line for line in again.output.splitlines() if line.startswith("Seed")])
    assert_wording(about(path.read_text(encoding="utf-8")))
    assert len(plan_from(path.read_text(encoding="utf-8")).incidents) == 1
    assert called("--plan", str(path)).exit_code == 0


@pytest.mark.usefixtures("no_shortening")
def test_many_violations_are_named_and_some_told(monkeypatch):
    monkeypatch.setattr(chaos, "_ENOUGH", 5)
    with PLANTED["max ignored"]():
        done = called("--seeds", "40")
    assert done.exit_code == 1
    assert done.output.count("Play it again") == 3
    assert_wording([line.split(": ")[0] for line in done.output.splitlines() if line[:4] in ("Seed", "Also")])


@pytest.mark.parametrize("wrong", [("--seeds", "0"), ("--jobs", "0"), ("--seed", "-1")])
def test_nonsense_is_refused(wrong):
    assert called(*wrong).exit_code == 2


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff\xfe", b'{"about": "", "scene": {}}'])
def test_a_plan_that_is_none_is_refused(tmp_path, content):
    plan = tmp_path / "plan.json"
    plan.write_bytes(content)
    done = called("--plan", str(plan), "--json")
    assert (done.exit_code, json.loads(done.output)["error"]["status"]) == (2, 2)
