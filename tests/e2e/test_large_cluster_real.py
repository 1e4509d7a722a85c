"""A run on 1,000 nodes and 10,000 pods, measured by `benchmarks/real_cluster.py` in processes of its own.

It takes some minutes and most of the instance, so it is for `NODEFLEET_E2E_FULL=1` only.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "real_cluster.py"
FULL = "NODEFLEET_E2E_FULL"

pytestmark = pytest.mark.skipif(
    not os.environ.get(FULL), reason=f"1,000 nodes and 10,000 pods are measured with {FULL}=1 only"
)


def measured(*options: str) -> tuple[int, list[str]]:
    """How it ended, and what it printed."""
    command = [sys.executable, str(BENCHMARK), *options]
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own
    return ended.returncode, ended.stdout.splitlines()


def limits(lines: list[str]) -> dict[str, str]:
    """Each limit, and whether it was kept."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head = next(place for place, row in enumerate(rows) if row[0] == "limit")
    kept = rows[head].index("kept")
    return {row[0]: row[kept] for row in rows[head + 2 :]}


def test_a_run_on_a_thousand_nodes_stays_inside_its_memory_and_well_under_its_time():
    code, lines = measured()
    assert (code, lines[-1]) == (0, "WITHIN ALL LIMITS")
    assert any(line.startswith("1,000 nodes and 10,000 pods") for line in lines)
    assert limits(lines) == {
        f"{case}, {what}": "yes"
        for case in ("quiet", "unschedulable")
        for what in ("peak memory", "first run", "slowest warm run")
    }


def test_a_limit_that_is_exceeded_is_named_and_ends_in_failure():
    code, lines = measured("--nodes", "10", "--pods", "100", "--waiting", "6", "--repeat", "1", "--timeout", "1")
    assert code == 1
    assert lines[-1].startswith("EXCEEDED: quiet, first run:")
    assert {what for what, kept in limits(lines).items() if kept == "NO"} == {
        "quiet, first run",
        "unschedulable, first run",
    }
