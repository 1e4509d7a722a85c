"""docs/messages.md shows messages that were really sent in simulated situations; `make messages` writes them."""

import re

import pytest

from nodefleet.adapters.slack.message import SIGNS
from nodefleet.adapters.slack.web_api import API_REMEDIES
from nodefleet.adapters.slack.webhook import REMEDIES
from nodefleet.model.alerts import STANDS_OUT, AlertKind
from nodefleet.notifications.alarm_catalog import MEANINGS
from nodefleet.notifications.incoming import DeliveryLimits
from support.message_examples import PRODUCED, SPECIAL
from support.message_preview import PAGE, examples, indented, on_the_page, play, rewritten
from support.message_situations import SITUATIONS

TEXT = PAGE.read_text()
NAMES = sorted({kind.value for kind in AlertKind} | set(SPECIAL))


def rows(*header):
    lines = TEXT.splitlines()
    start = lines.index(f"| {' | '.join(header)} |") + 2
    end = next(
        place for place in range(start, len(lines) + 1) if place == len(lines) or not lines[place].startswith("|")
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]


def section(name):
    return re.split(r"^###? ", TEXT.split(f"### {name}\n")[1], flags=re.MULTILINE)[0]


def figures(name):
    """The numbers of a section's prose, above its example."""
    return [int(each) for each in re.findall(r"\d+", section(name).partition("\n    ")[0])]


def test_every_kind_and_form_has_its_section_once():
    assert sorted(re.findall(r"^### (.+)$", TEXT, re.MULTILINE)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_what_the_code_makes(name):
    assert indented(on_the_page(TEXT)[name]) == indented(examples()[name])


def test_writing_the_page_anew_changes_nothing():
    assert rewritten(TEXT, examples()) == TEXT


def test_every_kind_but_alarms_has_a_situation_that_produces_it():
    assert set(SITUATIONS) == set(AlertKind) - {AlertKind.ALARM}


def test_the_situations_still_produce_these_messages():
    """If not: `make messages`, and read what changed."""
    assert play() == PRODUCED.read_text()


def test_the_signs_are_the_code_s():
    assert [row[0] for row in rows("sign", "means")] == list(SIGNS.values())


def test_the_table_of_alarms_is_the_code_s():
    assert rows("alarm", "means", "what to do") == [[key, each.says, each.todo] for key, each in MEANINGS.items()]


def test_the_figures_are_the_code_s():
    limits = DeliveryLimits()
    assert figures("many of a kind") == [limits.alone, limits.shown_outstanding]
    assert figures("much at once") == [limits.notifications]
    assert figures("older events") == [limits.old_after.total_seconds() / 3600]


def test_the_important_kinds_are_the_code_s():
    (listed,) = re.findall(r"important kinds \(([^)]*)\)", section("many of a kind"))
    assert set(re.split(r",\s+", listed)) == {kind.value for kind in STANDS_OUT}


def test_the_errors_of_slack_are_ones_that_the_code_knows():
    lines = [row[0].removeprefix("Slack: ") for row in rows("in the log", "what to do") if row[0].startswith("Slack: ")]
    codes = {code for line in lines for code in re.findall(r"[a-z]+(?:_[a-z]+)+", line)}
    assert {"no_service", "missing_scope", "not_in_channel"} <= codes
    assert codes <= {*REMEDIES, *API_REMEDIES}
