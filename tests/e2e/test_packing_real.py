"""Packing against the real scheduler: buy what it says, and see whether the pods run.

The workloads are generated: `packing/workloads.py`. All are played at once, each in a corner of the cluster of its own.
One alone, or others than the usual ones: NODEFLEET_E2E_SEEDS=17 or 100-199.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from e2e.packing import rules
from e2e.packing.playing import Played, surges
from e2e.packing.workloads import surge_of
from e2e.parts.running import RunningParts

HERE = Path(__file__).name
# Of 30 workloads 30, 28 and (on 2026-11-20) 27 ran with what was bought at first in three runs of this code (0.95 is
# the aim), and 23 need what was bought but for one node. The others have nodes for orders that did not come: the more
# run with the first purchase, the more have those.
ENOUGH = 0.7
ONCE = 0.9


def seeds() -> list[int]:
    first, _, last = os.environ.get("NODEFLEET_E2E_SEEDS", "").partition("-")
    if first:
        return list(range(int(first), int(last or first) + 1))
    return list(range(100 if os.environ.get("NODEFLEET_E2E_FULL") else 30))


@pytest.fixture(scope="module")
def everything(real_parts: RunningParts) -> dict[int, Played]:
    return surges(real_parts, [surge_of(seed) for seed in seeds()])


@pytest.fixture(params=seeds(), ids=lambda seed: f"seed-{seed:03}")
def played(request: pytest.FixtureRequest, everything: dict[int, Played]) -> Played:
    """What came of one workload. What it was is shown when a test fails."""
    found = everything[request.param]
    alone = f"Alone: NODEFLEET_E2E=1 NODEFLEET_E2E_SEEDS={request.param} .venv/bin/pytest tests/e2e/{HERE}\n\n"
    request.node.add_report_section("call", "workload", alone + told(found))
    return found


def told(played: Played) -> str:
    lines = []
    for number, cycle in enumerate(played.cycles, 1):
        bought = ", ".join(f"{each.type} in {each.zone} ({each.pool})" for each in cycle.bought)
        lines.append(f"look {number}: {len(cycle.waited)} waited, bought {len(cycle.bought)}: {bought or 'nothing'}")
        lines += [f"  never: {key}: {why}" for key, why in cycle.never]
        lines += [f"  waits: {pod.key}" for pod in cycle.waiting]
    lines.append(f"without {', '.join(played.without) or 'none'} wait: {', '.join(played.left_over) or 'nobody'}")
    return "\n".join([*lines, "", played.workload.as_yaml()])


def test_the_usual_workloads_have_every_rule():
    drawn = {name for seed in range(30) for app in surge_of(seed).surge for name in app.rules}
    every = {rule.__name__.replace("_", "-") for rule in (*rules.ON_NODES, *rules.WITH_NEIGHBOURS, *rules.NEVER)}
    assert drawn == every


def test_what_packing_found_a_place_for_runs_after_at_most_one_further_cycle(played):
    """But for pods that must be on one host with others: where the scheduler fills that host up, nothing helps them."""
    first, further, last = played.cycles
    depends = {app.name for app in played.workload.surge if app.runs is None}
    assert not {app: n for app, n in (further.left - first.said_never).items() if app not in depends}
    assert not last.bought


def test_pods_that_nothing_can_hold_are_told_and_buy_nothing(played):
    first, further, last = played.cycles
    hopeless = {app.name: app.replicas for app in played.workload.surge if app.runs == 0}
    assert Counter(hopeless) <= first.said_never
    assert further.left == last.said_never == last.left
    if len(hopeless) == len(played.workload.surge):
        assert not first.bought


def test_as_many_run_as_surely_can(played):
    apps = [app for app in (*played.workload.settled, *played.workload.surge) if app.runs is not None]
    left = played.cycles[-1].left
    assert {app.name: app.replicas - left[app.name] for app in apps} == {app.name: app.runs for app in apps}


def test_most_run_without_a_second_purchase(everything):
    """The first iteration buys for the order in which the scheduler fills nodes that come one after the other; here
    they come nearly together."""
    again = [seed for seed, each in everything.items() if each.cycles[1].bought]
    assert len(everything) - len(again) >= ONCE * len(everything), f"seeds that bought twice: {again}"


def test_with_two_nodes_fewer_a_pod_waits(everything):
    """Of those that bought three or more; of two one is left out, and one alone is needed as none was enough before."""
    asked = [each for each in everything.values() if each.without]
    too_much = [each.workload.seed for each in asked if not each.left_over]
    assert len(asked) - len(too_much) >= ENOUGH * len(asked), f"seeds that bought too much: {too_much}"
