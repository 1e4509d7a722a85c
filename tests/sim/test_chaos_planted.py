"""The harness bites: bugs put into the shipped code on purpose are found.

For each bug the plan of a seed that finds it is kept (`planted/`): a seed draws another plan whenever more is drawn. A
change of the loop may shift what the plan plays, so it is tried with a few other streams of random numbers too. Another
plan is found by `python -m nodefleet_tools.sim.chaos.hunting` and kept by `nodefleet chaos --seed … --save …`.
"""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from nodefleet_tools.sim.chaos.hunting import first_to_find
from nodefleet_tools.sim.chaos.kept import plan_from
from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.chaos.play import play
from nodefleet_tools.sim.rules import Rule

FOUND = {
    "a doubt that never ends": Rule.SHRINKING,
    "no fence check": Rule.LEASE,
    "token not stored first": Rule.UNRECORDED,
    "a new token each time": Rule.TWICE,
    "budgets forgotten": Rule.BUDGET,
    "max ignored": Rule.OVER_MAX,
    "wake dropped": Rule.WAKE,
    "orphans removed at first sight": Rule.HASTY,
    "release without owner": Rule.LEASE,
    "missing read as zero": Rule.BLIND,
    "interrupted node counted": Rule.COUNTED,
    "operator cordon undone": Rule.OPERATOR,
    "capacity bought for named pods": Rule.PODS,
    "alerts told apart by their text": Rule.QUIET,
    "unhealthy nodes kept": Rule.HEALING,
    "resting cost untold": Rule.RESTING_COST,
    "deletions tried for ever": Rule.UNFINISHED,
    "mutes for ever": Rule.MUTE,
    "a standby that never ends": Rule.STANDBY,
    "warnings only recorded": Rule.UNHANDLED,
    "evicts who comes back": Rule.RETURNED,
    "fleet max ignored": Rule.OVER_FLEET_MAX,
    "caps ignored": Rule.OVER_FLEET_CAP,
    "headroom grows only": Rule.SHRINKING,
    "removals in a row": Rule.AVAILABILITY,
    "old workers kept": Rule.ROTATION,
    "consolidated into growth": Rule.CHURN,
}
OTHER_STREAMS = 8


@cache
def kept_plan(bug: str) -> Plan:
    path = Path(__file__).with_name("planted") / f"{bug.replace(' ', '-')}.json"
    return plan_from(path.read_text(encoding="utf-8"))


def test_every_planted_bug_is_looked_for():
    assert set(FOUND) == set(PLANTED)


def test_the_table_of_the_docs_lists_each_planted_bug_once_with_its_seed_and_rule():
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (.+?) \|$", text.partition("## Does it bite?")[2], re.MULTILINE)
    assert sorted(rows) == sorted((bug, str(kept_plan(bug).seed), rule.value) for bug, rule in FOUND.items())


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug):
    plan = kept_plan(bug)
    with PLANTED[bug]():
        for stream in range(1 + OTHER_STREAMS):
            found = play(replace(plan, seed=plan.seed + stream)).first
            if found is not None:
                assert found.rule is FOUND[bug]
                return
    pytest.fail("not found by its plan")


@pytest.mark.parametrize("bug", PLANTED)
def test_without_the_bug_its_plan_is_clean(bug):
    assert play(kept_plan(bug)).violations == ()


@pytest.mark.parametrize(
    "bug",
    [
        "max ignored",
        "token not stored first",
        "alerts told apart by their text",
        "operator cordon undone",
        "orphans removed at first sight",
        "unhealthy nodes kept",
        "fleet max ignored",
    ],
)
def test_some_are_found_by_the_first_seeds_as_they_are_drawn_today(bug):
    found = first_to_find(bug, 10)
    assert found is not None
    assert found[1].rule is FOUND[bug]
