"""The runbook has every alarm and every message that asks for something, with commands that exist."""

import re

import pytest
from typer.testing import CliRunner

from nodefleet.model.alerts import CATALOGUE, Severity
from nodefleet.notifications.alarm_catalog import MEANINGS
from nodefleet_infra import runbook
from nodefleet_tools.cli.main import app

TEXT = runbook.PAGE.read_text("utf-8")


def test_the_page_is_what_the_catalogues_say():
    """`make runbook` writes it."""
    assert runbook.page() == TEXT


def test_every_alarm_has_its_section():
    assert runbook.ALARM_COMMANDS.keys() == MEANINGS.keys()
    assert all(f"### {key}\n" in TEXT for key in MEANINGS)


def test_every_message_that_asks_for_something_has_its_section_and_the_others_are_named():
    asking = {kind.value for kind, spec in CATALOGUE.items() if spec.severity >= Severity.WARNING}
    assert runbook.ALERT_COMMANDS.keys() <= asking
    assert {kind for kind in asking if f"\n### {kind}\n" not in TEXT} == set()
    assert all(f"`{kind.value}`" in TEXT for kind in CATALOGUE if kind.value not in asking)


def commands():
    return sorted({line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()})


@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("nodefleet ")])
def test_every_command_of_ours_exists(line):
    named = [word for word in line.split("#")[0].split()[1:] if word.islower()]
    words, options = ([word for word in named if word.startswith("--") is option] for option in (False, True))
    asked = CliRunner().invoke(app, [*words, "--help"])
    assert asked.exit_code == 0, asked.output
    assert f" {' '.join(words)} " in asked.output, "the help is that of this command, not of its group"
    assert all(option in asked.output for option in options)


def test_what_is_run_on_the_master_is_what_its_program_knows():
    wanted = {line.split()[2] for line in commands() if line.startswith("sudo node-fleet-server ")}
    script = (runbook.PAGE.parents[1] / "infra/nodefleet_infra/userdata/server.sh").read_text("utf-8")
    assert all(f"\n  {name})" in script for name in wanted)
