"""`nodefleet decide`, as an operator and a program meet it."""

import json
import re
from itertools import groupby
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nodefleet.engine.decide import decide
from nodefleet.model.decision import Action, Decision
from nodefleet.model.serialization import from_plain, to_plain
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli import main
from nodefleet_tools.shorthand import Question
from support.wording import assert_wording

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "observations"

SPIKE = "nodes: 3\ncpu: [65, 82]\nmemory: 40\npending: 3\n"
CALM = "nodes: 5\ncpu: [28, 28, 28, 28, 28]\nmemory: 40\n"
TWO_POOLS = "pools: [{name: web}, {name: batch, limits: {min: 0}, dry_run: true}]"


def run(*arguments: str, text: str | None = None, columns: int = 80):
    return CliRunner().invoke(main.app, ["decide", *arguments], input=text, env={"COLUMNS": str(columns)})


def answer(text: str, *arguments: str) -> dict:
    """The one pool's decision on a question."""
    done = run("-", "--json", *arguments, text=text)
    assert done.exit_code == 0, done.stderr
    (pool,) = json.loads(done.stdout)["pools"]
    return pool


def refusal(text: str, *arguments: str) -> str:
    done = run("-", *arguments, text=text)
    assert (done.exit_code, done.stdout) == (2, "")
    return done.stderr


@pytest.fixture
def file(tmp_path):
    def write(content: str, name: str = "look.yaml") -> str:
        path = tmp_path / name
        path.write_text(content)
        return str(path)

    return write


# ── for operators ────────────────────────────────────────────────────────────────────────────────────────────────


def test_growing_is_told_with_its_reason_bounds_votes_and_plan():
    page = run("-", text=SPIKE, columns=200).stdout
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert lines[0] == "default: GROW 3 → 5"
    assert_wording(lines[1])
    assert_wording(lines)
    pods = "signal ≥ 5 pods 3 pods unschedulable while CPU 82.0 % > 70 %: 3 + 2 nodes (sets the target: 5)"
    assert pods in lines
    assert_wording(lines[-2:])


def test_bounds_stand_in_the_order_of_their_rank():
    page = run("-", text=f"{SPIKE}last_grow: 2m", columns=200).stdout
    ranks = re.findall(r"^ +(signal|damping|window|operator|limit|safety) +[≥≤]", page, re.MULTILINE)
    assert [rank for rank, _ in groupby(ranks)] == ["signal", "damping", "limit"]


def test_who_overruled_whom_stands_beside_the_bound():
    page = run("-", text=f"{SPIKE}last_grow: 2m", columns=200).stdout
    assert page.startswith("default: HOLD 3\n")
    assert_wording(page)


def test_shrinking_names_who_leaves_and_why_the_others_stay():
    page = run("-", text=CALM, columns=200).stdout
    assert page.startswith("default: SHRINK 5 → 4\n")
    assert_wording(page)


def test_each_pool_has_its_own_page_and_a_dry_run_says_so(file):
    policy = file(TWO_POOLS, "policy.yaml")
    page = run("-", "--policy", policy, text="observation: {at: 2026-11-16T12:00:00Z}", columns=200).stdout
    assert "web: HOLD 0\n" in page
    assert_wording(page)
    assert page.count("there are no workers") == 2


def test_what_concerns_the_cluster_and_a_poor_level_are_told():
    text = "observation: {at: 2026-11-16T12:00:00Z, kubernetes: {kind: missing, cause: timeout}}"
    page = run("-", text=text, columns=200).stdout
    assert_wording(page)


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_a_pipe_gets_plain_text_within_eighty_columns(example):
    page = run(str(example)).stdout
    assert "\x1b" not in page
    assert max(map(len, page.splitlines())) <= 80


# ── for programs ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_json_is_the_complete_decision_and_nothing_else(example):
    first, second = run(str(example), "--json"), run(str(example), "--json")
    assert first.stdout == second.stdout
    assert first.stderr == ""
    data = json.loads(first.stdout)
    assert to_plain(from_plain(Decision, data)) == data


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_what_a_question_stands_for_decides_the_same(example, file):
    expanded = run(str(example), "--expand").stdout
    question = from_plain(Question, json.loads(expanded))
    decision = decide(question.observation, question.memory, Policy())
    again = run(file(expanded, "look.json"), "--json").stdout
    assert json.loads(again) == to_plain(decision) == json.loads(run(str(example), "--json").stdout)


def test_a_decision_s_memory_serves_the_next_question(file):
    def look(minute: int, memory: dict) -> dict:
        text = f"nodes: 3\ncpu: 82\nmemory: 40\nat: 2026-11-16T20:0{minute}:00Z"
        question = json.loads(run("-", "--expand", text=text).stdout)
        return json.loads(run(file(json.dumps(question | {"memory": memory}), "look.json"), "--json").stdout)

    first = look(2, {})
    assert first["pools"][0]["action"] == "hold"
    assert look(4, first["memory"])["pools"][0]["action"] == "grow"


def test_the_policy_decides(file):
    strict = file("reactive: {cpu: {up: 90}}\nlimits: {max: 4}", "policy.yaml")
    assert answer("nodes: 3\ncpu: [80, 80]\nmemory: 40")["action"] == Action.GROW.value
    assert answer("nodes: 3\ncpu: [80, 80]\nmemory: 40", "--policy", strict)["action"] == Action.HOLD.value
    at_max = answer("nodes: 4\ncpu: [95, 95]\nmemory: 40", "--policy", strict)
    assert (at_max["action"], at_max["overruled"][0]["by"]) == ("hold", "max")


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "{nodes: 3, cpu: [82, 82]}",
        '{"nodes": 3, "cpu": [82, 82]}',
        '{\n\t"nodes": 3,\n\t"cpu": [82, 82]\n}',  # YAML would not take the tabs
        "nodes: 3\ncpu: [82, 82]",
    ],
)
def test_standard_input_may_be_yaml_or_json(text):
    assert answer(text)["target"] == 4


def test_what_cannot_be_read_is_one_line(tmp_path, file):
    missing = tmp_path / "none.yaml"
    assert_wording(run(str(missing)).stderr)
    assert_wording(run(str(tmp_path)).stderr)
    broken = file("nodes: 3\ncpu: [1,")
    assert run(broken).stderr.startswith(f"{broken}: line 2, column 9: ")
    assert run(broken).stderr.count("\n") == 1
    assert run(file("{nodes: 3}", "look.json")).stderr.startswith(f"{tmp_path / 'look.json'}: line 1, column 2: ")
    assert_wording(refusal('{"nodes": 3,'))
    assert {run(str(missing)).exit_code, run(str(tmp_path)).exit_code, run(broken).exit_code} == {2}


def test_standard_input_cannot_be_two_files():
    assert_wording(refusal("", "--policy", "-"))


def test_a_bad_policy_is_told_like_anywhere(file):
    policy = file("limits: {max: 0}", "policy.yaml")
    assert refusal("nodes: 3", "--policy", policy).startswith(f"{policy}: ")


def test_a_problem_names_its_place_and_what_would_be_right():
    assert_wording(refusal("nods: 3"))


@pytest.mark.parametrize(
    ("text", "place", "wrong", "right"),
    [
        ("", "(top level)", "is not a table of names", "write for example nodes: 3 and cpu: 82"),
        ("- 1", "(top level): [1]", "is not a table of names", "write for example nodes: 3 and cpu: 82"),
        ("cpu: 3", "nodes", "is missing", "write how many workers are ready, for example nodes: 3"),
        ("nodes: 3\nat: 2026-11-16T12:00:00", "at: '2026-11-16 12:00:00'", "is a time without a zone", "12:00:00Z"),
        ("nodes: 3\nat: 2026-11-16", "at: '2026-11-16'", "is not a time", "write for example 2026-11-16T12:00:00Z"),
        ("nodes: 3\nnodes: 4", "nodes: '4'", "is written more than once, in line 1 and in line 2", "keep one of them"),
        ("nodes: 3\ncolour: red", "colour: 'red'", "is an unknown key", "known are at, booting, cpu, "),
        (
            "instances: []",
            "instances: []",
            "is an unknown key",
            "in a complete observation it belongs under observation:",
        ),
        ("memory: {}", "observation", "is missing", "put what was seen under observation:"),
        ("observation: {}", "observation.at", "is missing", "Observation needs it"),
        (
            "observation: {at: 2026-11-16T12:00:00Z, instances: [{id: i-1, zon: a}]}",
            "observation.instances[0].zon: 'a'",
            "is an unknown key",
            "did you mean zone?",
        ),
    ],
)
def test_bad_input_is_refused_with_its_place(text, place, wrong, right):
    told = refusal(text)
    assert f"\n  {place}\n    wrong: {wrong}\n    right: " in told
    assert right in told


def test_all_problems_are_told_at_once():
    assert_wording(refusal("nodes: x\ncpu: y\ncolour: red"))
    assert_wording(refusal("nodes: x\nnodes: y"))


def test_an_unknown_key_is_reason_enough_for_missing_nodes():
    assert_wording(refusal("nods: 3\ncpus: 4"))
