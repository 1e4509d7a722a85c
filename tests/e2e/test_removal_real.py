"""Removal against the real scheduler: whoever leaves of our own accord, all pods run again without a new node.

The clusters are generated: `packing/workloads.py`. One alone, or others than the usual ones: NODEFLEET_E2E_SEEDS=17 or
100-199.
"""

import os
from pathlib import Path

import pytest

from e2e.packing.leaving import Emptied, removals
from e2e.packing.workloads import filled_of
from e2e.parts.running import RunningParts

HERE = Path(__file__).name
USUAL = 24
FULL = 0.6


def seeds() -> list[int]:
    first, _, last = os.environ.get("NODEFLEET_E2E_SEEDS", "").partition("-")
    return list(range(int(first), int(last or first) + 1)) if first else list(range(USUAL))


@pytest.fixture(scope="module")
def everything(real_parts: RunningParts) -> dict[int, Emptied]:
    return removals(real_parts, [filled_of(seed) for seed in seeds()])


@pytest.fixture(params=seeds(), ids=lambda seed: f"seed-{seed:03}")
def emptied(request: pytest.FixtureRequest, everything: dict[int, Emptied]) -> Emptied:
    """What came of one cluster. What it was is shown when a test fails."""
    found = everything[request.param]
    alone = f"Alone: NODEFLEET_E2E=1 NODEFLEET_E2E_SEEDS={request.param} .venv/bin/pytest tests/e2e/{HERE}\n\n"
    request.node.add_report_section("call", "cluster", alone + told(found))
    return found


def told(emptied: Emptied) -> str:
    lines = [f"waited from the start: {', '.join(emptied.waited) or 'nobody'}"]
    for left in emptied.left:
        lines.append(f"{left.node} left, {left.fullness:.0%} full; then waited: {', '.join(left.waiting) or 'nobody'}")
        lines += [f"  {did}" for did in left.did]
    lines.append(f"nobody else left: {emptied.stays}")
    return "\n".join([*lines, "", emptied.workload.as_yaml()])


def test_after_each_removal_all_pods_run_again_without_a_new_node(emptied):
    assert not emptied.waited
    assert [left.waiting for left in emptied.left] == [()] * len(emptied.left)
    assert not emptied.launched


def test_nodes_do_leave_and_their_pods_are_evicted(everything):
    """Otherwise the test above would say nothing. How many leave depends on where the scheduler put the pods."""
    left = [left for each in everything.values() for left in each.left]
    evicted = [each for each in left if each.evicted]
    full = [each for each in evicted if each.fullness >= FULL]
    assert len(left) >= len(everything) / 2
    assert len(evicted) >= len(left) / 3
    assert len(full) >= len(everything) / 12
