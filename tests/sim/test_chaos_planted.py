"""The harness bites: bugs put into the shipped code on purpose are found.

For each a seed that finds it is written down: the first one, counted from seed 0, or the first among the seeds that
draw what it takes, for bugs that need rare things at once (a seed above 100). The test starts there, so that it is
quick, and allows for a few more seeds, because every change to the loop shifts what a seed plays. When more is drawn
the table is made again: `python -m nodefleet_tools.sim.chaos.hunting`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.chaos.planted import PLANTED
from nodefleet_tools.sim.chaos.play import play
from nodefleet_tools.sim.rules import Rule
from support.played_days import played_seed


@dataclass(frozen=True)
class Found:
    seed: int  # the first one from 0 on
    rule: Rule
    within: int = 25  # seeds from there on, if something has shifted


FOUND = {
    "a doubt that never ends": Found(10, Rule.SHRINKING),
    "no fence check": Found(25, Rule.LEASE),
    "token not stored first": Found(0, Rule.UNRECORDED),
    "a new token each time": Found(0, Rule.TWICE, within=60),
    "budgets forgotten": Found(5, Rule.BUDGET),
    "max ignored": Found(0, Rule.OVER_MAX),
    "wake dropped": Found(1, Rule.WAKE),
    "orphans removed at first sight": Found(1, Rule.HASTY),
    "release without owner": Found(15, Rule.LEASE, within=60),
    "missing read as zero": Found(67, Rule.BLIND),
    "interrupted node counted": Found(10, Rule.COUNTED),
    "human cordon undone": Found(1, Rule.PERSON),
    "capacity bought for named pods": Found(12, Rule.PODS),
    "alerts told apart by their text": Found(1, Rule.QUIET),
    "unhealthy nodes kept": Found(1, Rule.HEALING),
    "resting cost untold": Found(5, Rule.RESTING_COST),
    "deletions tried for ever": Found(463, Rule.UNFINISHED),
    "mutes for ever": Found(31, Rule.MUTE),
    "warnings only recorded": Found(117, Rule.UNHANDLED),
    "evicts who comes back": Found(732, Rule.RETURNED),
    "fleet max ignored": Found(4, Rule.OVER_FLEET_MAX),
    "removals in a row": Found(291, Rule.AVAILABILITY),
    "old workers kept": Found(41, Rule.ROTATION, within=60),
}


def test_every_planted_bug_is_looked_for():
    assert set(FOUND) == set(PLANTED)


def test_the_table_of_the_docs_lists_each_planted_bug_once_with_its_seed_and_rule():
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (.+?) \|$", text.partition("## Does it bite?")[2], re.MULTILINE)
    assert sorted(rows) == sorted((bug, str(found.seed), found.rule.value) for bug, found in FOUND.items())


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug):
    expected = FOUND[bug]
    with PLANTED[bug]():
        for seed in range(expected.seed, expected.seed + expected.within):
            found = play(Plan.of(seed)).first
            if found is not None:
                assert found.rule is expected.rule
                return
    pytest.fail(f"not found by seeds {expected.seed} to {expected.seed + expected.within - 1}")


@pytest.mark.parametrize("bug", PLANTED)
def test_without_the_bug_its_seed_is_clean(bug):
    assert played_seed(FOUND[bug].seed).violations == ()
