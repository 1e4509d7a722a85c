"""Plans that once went wrong, each with what was fixed. The smallest test of each stands beside its code.

The plans themselves are kept (`regressions/`), not only their seeds: what a seed stands for changes whenever more is
drawn. `nodefleet chaos --seed 16 --save tests/sim/regressions/<name>.json --about "…"` keeps one, and
`nodefleet chaos --plan <file>` plays it again.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodefleet_tools.sim.chaos.incidents import INCIDENTS
from nodefleet_tools.sim.chaos.kept import about, plan_from, text_of
from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.chaos.play import play
from support.played_days import played_seed

KEPT = sorted(Path(__file__).with_name("regressions").glob("*.json"))


def test_there_are_regressions():
    assert len(KEPT) > 8


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_plan_that_once_went_wrong_holds(path):
    text = path.read_text(encoding="utf-8")
    assert about(text), "a regression says what went wrong and what was fixed"
    assert play(plan_from(text)).violations == ()


@pytest.mark.parametrize("seed", [3, 21])
def test_a_kept_plan_plays_as_its_seed_did(seed):
    again = plan_from(text_of(Plan.of(seed)))
    assert [str(each) for each in play(again).trace] == [str(each) for each in played_seed(seed).trace]


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_every_incident_of_a_kept_plan_is_still_known(path):
    assert {each.kind for each in plan_from(path.read_text(encoding="utf-8")).incidents} <= set(INCIDENTS)


def test_a_plan_plays_the_same_in_every_process():
    """A set of what holds None has another order in another process, whatever the seed of its hashes."""
    path = next(each for each in KEPT if each.stem == "a-withdrawal-while-EC2-is-away")
    program = (
        "import sys, zlib; from nodefleet_tools.sim.chaos.kept import plan_from;"
        " from nodefleet_tools.sim.chaos.play import play;"
        " trace = play(plan_from(open(sys.argv[1], encoding='utf-8').read())).trace;"
        " print(len(trace), zlib.crc32('|'.join(map(str, trace)).encode()))"
    )
    search = os.pathsep.join(sys.path)
    played = [
        subprocess.run(  # noqa: S603  # our own program
            [sys.executable, "-c", program, str(path)],
            env={"PYTHONPATH": search, "PYTHONHASHSEED": str(number)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in range(3)
    ]
    assert len(set(played)) == 1


@pytest.mark.parametrize(
    ("kept", "today"),
    [
        ("a person takes a machine's tags away", "an operator takes an instance's tags away"),
        ("a person stops a healthy machine", "an operator stops a healthy instance"),
        ("EC2 takes many Spot machines", "EC2 takes many Spot instances"),
        ("a machine dies", "an instance dies"),
    ],
)
def test_a_plan_that_was_kept_with_earlier_words_is_played(kept, today):
    plain = json.loads(KEPT[0].read_text(encoding="utf-8"))
    plain["incidents"] = [{"number": 0, "after": 1.0, "kind": kept}]
    assert [each.kind for each in plan_from(json.dumps(plain)).incidents] == [today]
    assert today in INCIDENTS
