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
    from e2e.site.site import Site

WANTED = bool(os.environ.get("NODEFLEET_E2E"))
collect_ignore_glob = [] if WANTED else ["test_*.py"]


def _missing() -> list[str]:
    from e2e.parts.recipes import missing_tools  # noqa: PLC0415  # only when wanted

    return missing_tools()


MISSING = _missing() if WANTED else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    # What needs the whole site comes last: it is busy while it is up, and others measure times.
    items.sort(key=lambda item: "running_site" in getattr(item, "fixturenames", ()))
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


@pytest.fixture(scope="session")
def running_site(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Site]":
    """The whole deployment, started once for all tests that take `site`; its logs stay."""
    from e2e.site.site import running_site  # noqa: PLC0415  # only when wanted

    with running_site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def site(running_site: "Site") -> "Site":
    """As just deployed: no workers yet. How to use it: site/README.md."""
    running_site.reset()
    return running_site
