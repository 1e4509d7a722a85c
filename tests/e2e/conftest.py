"""Tests on real parts run with `NODEFLEET_E2E=1` only: they take minutes, and the first time a quarter of an hour.

Without it nothing here is collected and nothing of the harness is imported.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.parts.running import RunningParts

WANTED = bool(os.environ.get("NODEFLEET_E2E"))
collect_ignore_glob = [] if WANTED else ["test_*.py"]


def _missing() -> list[str]:
    from e2e.parts.recipes import missing_tools  # noqa: PLC0415  # only when wanted

    return missing_tools()


MISSING = _missing() if WANTED else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if MISSING and item.path.is_relative_to(here):
            item.add_marker(pytest.mark.skip(reason="; ".join(MISSING)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if MISSING:
        terminalreporter.write_line(f"tests/e2e SKIPPED. {'; '.join(MISSING)}", red=True, bold=True)


@pytest.fixture(scope="session")
def real_parts(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[RunningParts]":
    """Everything, started once for all tests; its logs stay with pytest's other temporary files."""
    from e2e.parts.running import NEEDS, running  # noqa: PLC0415  # only when wanted

    with running(*NEEDS, folder=tmp_path_factory.mktemp("parts")) as parts:
        yield parts
