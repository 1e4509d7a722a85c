"""One row for each kind of alert, and what else a new kind needs: this test names the files that lack it."""

from pathlib import Path

import pytest

from nodefleet.model.alerts import CATALOGUE, AlertKind, Severity
from support.message_situations import SITUATIONS

ROOT = Path(__file__).parents[3]
CATALOGUE_FILE = ROOT / "lambda" / "nodefleet" / "model" / "alerts.py"
SOURCES = [
    path.read_text(encoding="utf-8")
    for folder in ("lambda", "tools")
    for path in (ROOT / folder).rglob("*.py")
    if path != CATALOGUE_FILE
]
PAGE = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")


def files_to_touch(kind: AlertKind, name: str) -> list[str]:
    """Where a kind of alert is not known yet."""
    missing = [] if kind in CATALOGUE else ["lambda/nodefleet/model/alerts.py: its row"]
    if not any(f"AlertKind.{name}" in text for text in SOURCES):
        missing.append("lambda/: the rule that sends it")
    if kind not in SITUATIONS and kind is not AlertKind.ALARM:  # an alarm is CloudWatch's
        missing.append("tests/support/message_situations.py: a situation that brings it about")
    if f"\n### {kind.value}\n" not in PAGE:
        missing.append("docs/messages.md: its section")
    return missing


@pytest.mark.parametrize("kind", AlertKind)
def test_every_kind_is_everywhere_it_has_to_be(kind):
    assert files_to_touch(kind, kind.name) == []


def test_a_new_kind_touches_four_files():
    class New:
        value = "new"

    assert len(files_to_touch(New, "NEW")) == 4


def test_rows_stand_in_the_order_of_the_kinds():
    assert list(CATALOGUE) == list(AlertKind)


def test_what_is_critical_says_act_now_first():
    critical = [spec for kind, spec in CATALOGUE.items() if spec.severity is Severity.CRITICAL]
    assert [spec.kind for spec in critical if not spec.todo.startswith("Act now")] == [AlertKind.ALARM]
