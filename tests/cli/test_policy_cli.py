"""The command line of the policy, as an operator meets it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nodefleet.model.serialization import from_plain, to_plain
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Threshold
from nodefleet.policy.loading import load
from nodefleet.policy.pool import Limits, Pool
from nodefleet_tools.cli import main
from nodefleet_tools.cli.policy import summary
from nodefleet_tools.cli.policy_file import UnreadableError, parsed, read_policy
from nodefleet_tools.policy_schema import schema
from support.wording import assert_wording

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def run(*arguments: str, text: str | bytes | None = None, wide: bool = True):
    return CliRunner().invoke(main.app, ["policy", *arguments], input=text, env={"COLUMNS": "200" if wide else "80"})


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes, name: str = "policy.yaml") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


# ── check ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_good_policy_is_told_in_one_line_for_each_pool(file):
    done = run("check", file("limits: {max: 8}\npools: [{name: a}, {name: b, dry_run: true}]"))
    assert done.exit_code == 0
    assert done.stderr == ""
    assert_wording(done.stdout.splitlines())


def test_rules_are_counted():
    rule = Threshold(name="t", reading="q")
    assert_wording(summary(Pool(custom=(rule,))))
    assert_wording(summary(Pool(custom=(rule, rule))))


@pytest.mark.parametrize(
    ("text", "also"),
    [
        ("limits: {max: 8}\nmarket: {spot_percent: 50}", ()),
        ("headroom: {pods: 3}\nwarm: {size: 2}", ("headroom", "warm")),
        ("windows: [{name: sale, cron: '0 8 * * 5', lasting: 4h, min: 6}]", ("windows",)),
    ],
)
def test_what_the_line_has_no_words_for_is_named(file, text, also):
    _, _, named = run("check", file(text)).stdout.partition("also set: ")
    assert tuple(filter(None, named.strip().split(", "))) == also


def test_a_bad_policy_is_told_block_by_block(file):
    path = file("limits: {mx: 20}\nsteps: {up: 0}\nwindows: [{name: w, cron: 0 25 * * *, min: 3}]\n")
    done = run("check", path)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert_wording(done.stderr)


def test_one_problem_is_one(file):
    assert ": 1 problem\n" in run("check", file("x: 1")).stderr


POLICIES = sorted(set(EXAMPLES.glob("*.yaml")) - {EXAMPLES / "kubernetes.yaml"})  # which is a manifest


@pytest.mark.parametrize("example", POLICIES, ids=lambda path: path.name)
def test_the_examples_are_good(example):
    done = run("check", str(example))
    assert done.exit_code == 0, done.stderr


def test_standard_input_is_read(file):
    assert run("check", "-", text="limits: {max: 7}").stdout.startswith("default: 2 to 7 nodes;")
    assert_wording(run("check", "-", text="x: 1").stderr.splitlines()[0])


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ('queries: {cpu: "sum(rate(x[5m])))"}', "queries.cpu"),
        ("readings: {jobs: {kind: prometheus, query: 'sum(jobs'}}", "readings.jobs.query"),
        ("market: {types: [t3.small, '']}", "market.types[1]"),
        ("market: {types: [t3.smal]}", "market.types[0]"),
        ("market: {types: [t3.small, t4g.small]}", "market.types"),
        ("pools: [{name: a}, {name: b, market: {types: [t3.small, t4g.small]}}]", "pools[1].market.types"),
    ],
)
def test_a_policy_that_could_not_work_is_refused(file, content, path):
    done = run("check", file(content))
    assert done.exit_code == 2
    assert f"\n  {path}" in done.stderr


def test_a_type_that_is_never_cheap_enough_is_a_warning(file):
    done = run("check", file("market: {types: [t3.small, m5.2xlarge], max_price_usd: 0.02}"))
    assert done.exit_code == 0
    assert_wording(done.stderr)
    assert run("check", file("market: {types: [m5.2xlarge], spot_percent: 0}")).stderr == ""


# ── files that cannot be read ────────────────────────────────────────────────────────────────────────────────────


def bomb(line: str) -> str:
    """Nine lines, each of which stands for ten of the one before."""
    return "\n".join(
        ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {line.format(many=', '.join([f'*a{n - 1}'] * 10))}" for n in range(1, 10))]
    )


BOMB, MERGING_BOMB = bomb("[{many}]"), bomb("{{<<: [{many}]}}")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yaml", "limits: {max: 8", "line 1, column 16: while parsing a flow mapping, expected ',' or '}'"),
        ("a.yaml", "a: b\n\tc: d", "line 2, column 1: while scanning for the next token, found character '\\t'"),
        ("a.yaml", "cron: */5 * * * *", "column 8: while scanning an alias, expected alphabetic or numeric character"),
        ("a.yaml", "cron: */5 * * * *", "; put a text that begins with * in quotes\n"),
        ("a.yaml", "a: *b", "column 4: found undefined alias 'b'"),
        ("a.yaml", "a: b\n---\nc: d", "line 2, column 1: expected a single document in the stream"),
        ("a.yaml", "a: \x07", "is not YAML: unacceptable character #x0007"),
        ("a.yaml", "a: 2026-13-01", "has a value that YAML cannot read: month must be in 1..12; put it in quotes"),
        ("a.yaml", "a:\n  b: &x [*x]", "line 2: a.b[0] contains itself"),
        ("a.yaml", "a: !!python/none x", "line 1, column 4: could not determine a constructor"),
        ("a.yaml", "? [a]\n: b", "line 1, column 3: while constructing a mapping, found unhashable key"),
        pytest.param("a.yaml", "[" * 1000, "is nested too deeply", id="deep-yaml"),
        ("a.yaml", b"a: \xff", "is not UTF-8 text (byte 3); save it as UTF-8"),
        ("a.json", '{"limits": {"max" 8}}', "line 1, column 19: "),
        pytest.param("a.json", "[" * 200_000, "is nested too deeply", id="deep-json"),
        pytest.param("a.json", "1" * 5000, "has a value that cannot be read", id="long-number"),
        pytest.param("a.yaml", BOMB, "stands for more than 100,000 values", id="bomb"),
        pytest.param("a.yaml", MERGING_BOMB, "stands for more than 100,000 values", id="merging-bomb"),
        pytest.param("a.yaml", f"a: {'x' * (1 << 20)}", "is longer than 1,048,576 characters", id="long"),
        pytest.param("a.json", b" " * ((64 << 20) + 1), "is larger than 64 MiB", id="large"),
    ],
)
def test_what_cannot_be_read_is_one_clear_message(file, name, content, message):
    path = file(content, name)
    done = run("check", path)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"{path}: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_files_that_are_not_there_or_not_files(tmp_path):
    assert_wording(run("check", str(tmp_path)).stderr)
    missing = tmp_path / "none.yaml"
    assert_wording(run("check", str(missing)).stderr)
    beneath = tmp_path / "file"
    beneath.write_text("")
    assert_wording(run("check", str(beneath / "x")).stderr)


# ── keys that are written twice ──────────────────────────────────────────────────────────────────────────────────


def test_a_key_written_twice_is_a_problem_beside_the_others(file):
    done = run("check", file("limits:\n  min: 3\n  max: 2\n  min: 4\n"))
    assert done.exit_code == 2
    assert_wording(done.stderr)


def test_a_key_written_twice_is_a_problem_of_its_own(file):
    done = run("check", file("pools:\n- name: a\n  steps: {up: 1, up: 2}\nlimits: {}\nlimits: {}"))
    assert done.exit_code == 2
    assert done.stderr.count("right: keep one of them") == 2
    assert "pools[0].steps.up: '2'" in done.stderr
    assert_wording(done.stderr)


def test_the_same_key_in_two_tables_is_not_twice():
    assert parsed("pools: [{name: a}, {name: b}]\nlimits: {min: 1}\nsteps: {}").problems == ()
    assert parsed('{"a": {"b": 1}, "c": {"b": 1}}', is_json=True).problems == ()


def test_yaml_may_borrow_from_several_tables():
    text = "a: &a {x: 1}\nb: &b {y: 2}\nc:\n  <<: *a\n  <<: *b\n"
    assert parsed(text).problems == ()


def test_json_keys_written_twice_are_told_too(file):
    path = file('{"limits": {"max": 3,\t"max": 4}, "pools": [{"name": "a", "name": "a", "name": "b"}]}', "p.json")
    done = run("check", path)
    assert done.exit_code == 2
    assert "2 problems" in done.stderr
    assert_wording(done.stderr)
    assert "pools[0].name: 'b'" in done.stderr


def test_json_is_read(file):
    path = file('\ufeff{"limits":\t{"max": 4}}', "p.json")
    assert run("check", path).stdout.startswith("default: 2 to 4 nodes;")


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "---\n"])
def test_an_empty_file_is_all_defaults(file, content):
    assert read_policy(Path(file(content))).policy == Policy()


def test_empty_json_is_not_json(file):
    with pytest.raises(UnreadableError, match="line 1, column 1"):
        read_policy(Path(file("", "p.json")))


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def row(output: str, setting: str) -> list[str]:
    """The cells of a row: setting, value, from, why."""
    [line] = [line for line in output.splitlines() if line.startswith(f"{setting} ")]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_every_value_is_shown_with_unit_origin_and_reason(file):
    path = file("limits: {max: 20}\nlabels: {a: '[red]x'}\npools: [{name: web, preset: balanced, steps: {up: 1}}]")
    shown = run("show", path).stdout
    assert_wording(row(shown, "limits.min"))
    assert row(shown, "limits.max")[:3] == ["limits.max", "20 nodes", "file"]
    assert_wording(row(shown, "steps.up")[:3])
    assert row(shown, "interval")[:3] == ["interval", "120 s", "default"]
    assert row(shown, "reactive.cpu.up")[1] == "70 %"
    assert row(shown, "trust.spacing")[1] == "0.75 × interval"
    assert row(shown, "predictive.enabled")[1] == "yes"
    assert row(shown, "dry_run")[1] == "no"
    assert row(shown, "windows")[1] == "none"
    assert row(shown, "readings")[1] == "none"
    assert_wording(row(shown, "market.types")[1])
    assert row(shown, "sustain.up.kind")[1] == "readings"
    assert row(shown, "labels.a")[1] == "[red]x"
    assert_wording([line.strip() for line in shown.splitlines() if re.match(r"\W*(pool|cluster)", line)])


def test_a_narrow_terminal_loses_nothing():
    shown = run("show", wide=False).stdout
    assert "reactive.projection_margin" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_without_a_file_the_defaults_or_a_preset_are_shown():
    assert row(run("show").stdout, "limits.max")[1:3] == ["10 nodes", "default"]
    shown = run("show", "--preset", "high-throughput").stdout
    assert_wording(row(shown, "limits.max")[1:3])


def test_a_preset_on_the_command_line_replaces_the_files(file):
    shown = run("show", "--preset", "balanced", file("preset: low-latency\nsteps: {down: 2}")).stdout
    assert_wording(row(shown, "limits.max")[1:3])
    assert row(shown, "steps.down")[1:3] == ["2 nodes", "file"]
    assert row(run("show", "--preset", "balanced", file("")).stdout, "limits.max")[1] == "12 nodes"


def test_an_unknown_preset_is_refused(file):
    done = run("show", "--preset", "balancd")
    assert done.exit_code == 2
    assert "preset: 'balancd'" in done.stderr
    assert_wording(done.stderr)
    assert_wording(run("show", "--preset", "balanced", file("[1]")).stderr.partition("right")[0])


def test_the_whole_policy_as_json_loads_as_the_same_policy(file):
    path = file("preset: balanced\npools: [{name: a, limits: {max: 9}}]")
    plain = json.loads(run("show", path, "--json").stdout)
    policy = from_plain(Policy, plain)
    assert policy.pools[0].limits == Limits(min=1, max=9)
    assert plain == to_plain(policy, full=True)
    assert load(plain).policy == policy


# ── schema and help ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_schema_is_printed():
    assert json.loads(run("schema").stdout) == schema()


def test_help_is_short_and_names_every_command():
    done = CliRunner().invoke(main.app, ["--help"], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    assert all(command.name in done.stdout for command in main.COMMANDS)
    assert len(done.stdout.splitlines()) <= len(main.COMMANDS) + 26  # a line each, and the headings
    commands = run("-h").stdout
    assert all(command in commands for command in ("check", "show", "schema"))


def test_the_installed_command_answers(file):
    path = file("limits: {max: 6}")
    call = "from nodefleet_tools.cli.main import main; main()"
    done = subprocess.run(  # noqa: S603  # our own interpreter
        [sys.executable, "-c", call, "policy", "check", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("default: 2 to 6 nodes;")
