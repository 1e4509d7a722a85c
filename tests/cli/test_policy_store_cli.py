"""`nodefleet policy apply`, `versions` and `rollback`, as an operator meets them."""

import json

import pytest
import typer
import yaml

from nodefleet.errors import MalformedError, UnavailableError
from nodefleet.model.decision import PolicyVersion
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import load
from nodefleet_tools.cli.changes import in_short, policy_changes
from nodefleet_tools.cli.outcome import Status
from nodefleet_tools.sim.hooks import Moment, raising, when
from nodefleet_tools.sim.world import World
from support.sim_connections import SimConnection, Terminal
from support.wording import assert_wording
from support.worlds import shop

ME = ["--by", "ann"]


@pytest.fixture
def world():
    return shop().world


@pytest.fixture
def terminal(world, monkeypatch):
    return Terminal(monkeypatch, SimConnection(world))


def words(done) -> list[str]:
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def newest(world: World) -> PolicyVersion:
    return world.table.policies[-1]


# ── apply ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_policy_is_shown_against_the_one_in_force_and_put_in_its_place(world, terminal):
    done = terminal("policy", "apply", "-", *ME, text="limits: {min: 2, max: 8}\nsteps: {up: 2}\n")
    assert done.exit_code == 0
    assert done.stderr == ""
    assert_wording(words(done)[1:])
    assert_wording(words(done)[0])
    version = newest(world)
    assert (version.number, version.source, version.at) == (2, "ann", world.now)
    assert version.data == {"limits": {"min": 2, "max": 8}, "steps": {"up": 2}}
    (event,) = world.table.events
    assert event.kind.value == "policy-changed"
    assert_wording(event.text)
    assert event.details == ("limits.max 6 nodes → 8 nodes", "steps.up 1 node → 2 nodes")
    assert world.table.wake == 1


def test_the_next_run_goes_by_it(world, terminal):
    terminal("policy", "apply", "-", *ME, text="limits: {min: 5, max: 8}")
    (look, *_) = terminal("run", "--once", "--json").stdout.splitlines()
    assert (json.loads(look)["policy"], json.loads(look)["decision"]["pools"][0]["target"]) == (2, 5)


def test_the_policy_in_force_is_printed_as_a_file_that_apply_takes(world, terminal):
    terminal("policy", "apply", "-", *ME, text="limits: {min: 2, max: 8}\nstrategy: adaptive\n")
    printed = terminal("policy", "get").stdout
    assert yaml.safe_load(printed) == newest(world).data
    again = terminal("policy", "apply", "-", "--json", text=printed)
    assert (json.loads(again.stdout)["changes"], newest(world).number) == ([], 2)
    first = json.loads(terminal("policy", "get", "1", "--json").stdout)
    assert first == {"version": 1, "policy": {"limits": {"min": 2, "max": 6}}}
    assert terminal("policy", "get", "9").exit_code == Status.NOTHING
    world.table.items["policy"].clear()
    assert terminal("policy", "get").exit_code == Status.NOTHING


def test_a_bad_policy_is_refused_with_all_its_problems_before_the_table_is_asked(world, terminal):
    done = terminal("policy", "apply", "-", text="limits: {mx: 20}\nsteps: {up: 0}\nlimits: {}")
    assert (done.exit_code, done.stdout) == (2, "")
    assert_wording(done.stderr)
    assert terminal.connection.log == []


def test_a_key_that_is_written_twice_is_refused(terminal):
    done = terminal("policy", "apply", "-", text="limits: {max: 8}\nlimits: {max: 8}")
    assert done.exit_code == 2
    assert_wording(done.stderr)


def test_a_policy_that_changes_nothing_is_no_new_version(world, terminal):
    done = terminal("policy", "apply", "-", text="limits: {max: 6}")
    assert_wording((done.exit_code, done.stdout))
    assert newest(world).number == 1
    assert world.table.wake == 0


def test_an_empty_file_is_all_defaults(world, terminal):
    done = terminal("policy", "apply", "-", *ME, text="")
    assert "limits.max 6 nodes 10 nodes" in words(done)
    assert newest(world).data == {}


def test_the_first_policy_is_shown_against_the_defaults(world, terminal):
    world.table.items["policy"].clear()
    done = terminal("policy", "apply", "-", *ME, text="limits: {max: 12}")
    assert_wording(done.stdout)
    assert newest(world).number == 1
    world.table.items["policy"].clear()
    done = terminal("policy", "apply", "-", *ME, text="")
    assert_wording(done.stdout)
    assert newest(world).number == 1


def test_somebody_who_was_quicker_is_not_overwritten(world, monkeypatch):
    quicker = when("history.apply", Moment.BEFORE, lambda: world.enforce({"limits": {"max": 9}}))
    terminal = Terminal(monkeypatch, SimConnection(world, hooks=[quicker]))
    done = terminal("policy", "apply", "-", text="limits: {max: 8}")
    assert done.exit_code == 1
    assert_wording(done.stderr)
    assert newest(world).data == {"limits": {"max": 9}}


def test_a_record_that_cannot_be_read_is_mended_by_applying(world, monkeypatch):
    broken = when("store.state", Moment.BEFORE, raising(MalformedError("the record state#policy cannot be read")))
    terminal = Terminal(monkeypatch, SimConnection(world, hooks=[broken]))
    done = terminal("policy", "apply", "-", *ME, text="limits: {max: 8}")
    assert done.exit_code == 0
    assert_wording(done.stderr)
    assert newest(world).number == 2


def test_a_policy_in_force_that_is_not_valid_any_more_is_mended_too(world, terminal):
    world.table.items["policy"].clear()
    world.table.put_policy(PolicyVersion(number=4, source="x", at=world.now, data={"limits": {"mx": 1}}, digest="d"))
    done = terminal("policy", "apply", "-", *ME, text="limits: {max: 8}")
    assert done.exit_code == 0
    assert_wording(done.stderr)
    assert newest(world).number == 5


def test_a_policy_that_the_stack_declares_and_no_run_has_seen_is_said(world, terminal):
    world.declare({"limits": {"max": 7}})
    done = terminal("policy", "apply", "-", *ME, text="limits: {max: 8}")
    assert_wording(done.stderr)
    assert_wording(terminal("policy", "versions").stdout)


def test_a_pool_without_a_place_to_launch_in_is_said(terminal):
    done = terminal("policy", "apply", "-", *ME, text="pools: [{name: default}, {name: gpu}]")
    assert_wording(done.stderr)


def test_keys_that_json_cannot_hold_are_made_text(world, terminal):
    done = terminal("policy", "apply", "-", *ME, text="labels: {1: one}")
    assert done.exit_code == 0, done.stderr
    assert newest(world).data == {"labels": {"1": "one"}}


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def at_terminal(monkeypatch):
    """typer's runner has no terminal; whoever asks is told that there is one, and given an answer."""
    asked = []

    def answer(says: bool) -> list[str]:
        class Real:
            def isatty(self) -> bool:
                return True

        def confirm(question: str, *, abort: bool, err: bool) -> None:
            asked.append(question)
            assert (abort, err) == (True, False)  # on stdout, unless that holds JSON
            if not says:
                raise typer.Abort

        monkeypatch.setattr("nodefleet_tools.cli.operators.sys", type("Sys", (), {"stdin": Real(), "stdout": Real()}))
        monkeypatch.setattr("nodefleet_tools.cli.operators.typer.confirm", confirm)
        return asked

    return answer


@pytest.mark.parametrize(("says", "number", "status"), [(True, 2, 0), (False, 1, 1)])
def test_on_a_terminal_it_asks_first(world, terminal, at_terminal, tmp_path, says, number, status):
    path = tmp_path / "p.yaml"
    path.write_text("limits: {max: 8}")
    asked = at_terminal(says)
    assert terminal("policy", "apply", str(path)).exit_code == status
    assert_wording(asked)
    assert newest(world).number == number


def test_yes_does_not_ask(world, terminal, at_terminal):
    asked = at_terminal(False)
    assert terminal("policy", "apply", "-", "--yes", text="limits: {max: 8}").exit_code == 0
    assert (asked, newest(world).number) == ([], 2)


# ── versions and rollback ────────────────────────────────────────────────────────────────────────────────────────


def test_versions_are_listed_with_who_when_and_what(world, terminal):
    world.advance(3600)
    terminal("policy", "apply", "-", *ME, text="limits: {max: 8}")
    assert_wording(words(terminal("policy", "versions")))


def test_only_the_last_ones_are_listed(terminal):
    for most in (7, 8, 9):
        terminal("policy", "apply", "-", *ME, text=f"limits: {{max: {most}}}")
    assert [line.split()[0] for line in words(terminal("policy", "versions", "--last", "2"))[1:]] == ["4", "3"]


def test_versions_as_json_hold_their_policies(world, terminal):
    (version,) = json.loads(terminal("policy", "versions", "--json").stdout)
    assert (version["number"], version["by"]) == (1, "stack")
    assert version["policy"] == {"limits": {"min": 2, "max": 6}}
    assert version["digest"] == newest(world).digest


def test_without_any_version_the_defaults_hold(world, terminal):
    world.table.items["policy"].clear()
    done = terminal("policy", "versions")
    assert (done.exit_code, done.stdout) == (3, "")
    assert_wording(done.stderr)


def test_versions_that_are_not_valid_any_more_are_listed_all_the_same(world, terminal):
    world.table.put_policy(PolicyVersion(number=2, source="old", at=world.now, data={"x": 1}, digest="d"))
    world.enforce({"limits": {"max": 8}})
    listed = words(terminal("policy", "versions"))
    assert_wording(listed[1])
    assert_wording(listed[2])


def test_rolling_back_is_a_new_version_with_the_old_content(world, terminal):
    terminal("policy", "apply", "-", *ME, text="limits: {max: 8}")
    done = terminal("policy", "rollback", "1", *ME)
    assert done.exit_code == 0
    assert "limits.max 8 nodes 6 nodes" in words(done)
    assert (newest(world).number, newest(world).data) == (3, {"limits": {"min": 2, "max": 6}})
    assert_wording(newest(world).source)


@pytest.mark.parametrize(("number", "message"), [("7", "there is no policy version 7: known are 1, 2\n")])
def test_rolling_back_to_what_is_not_there_finds_nothing(terminal, number, message):
    terminal("policy", "apply", "-", *ME, text="limits: {max: 8}")
    done = terminal("policy", "rollback", number)
    assert (done.exit_code, done.stderr) == (Status.NOTHING, message)


def test_rolling_back_to_what_is_not_valid_any_more_is_refused_with_its_problems(world, terminal):
    world.table.put_policy(PolicyVersion(number=2, source="old", at=world.now, data={"x": 1}, digest="d"))
    world.enforce({"limits": {"max": 8}})
    done = terminal("policy", "rollback", "2")
    assert done.exit_code == 2
    assert_wording(done.stderr.partition("right")[0])


def test_a_table_that_is_away_is_one_message(world, monkeypatch):
    away = when("history.policies", Moment.BEFORE, raising(UnavailableError("DynamoDB", "timed out")))
    done = Terminal(monkeypatch, SimConnection(world, hooks=[away]))("policy", "versions")
    assert_wording((done.exit_code, done.stdout, done.stderr))


# ── what changes ─────────────────────────────────────────────────────────────────────────────────────────────────


def changed(before: dict, after: dict) -> list[str]:
    return list(map(str, policy_changes(load(before).policy, load(after).policy)))


def test_pools_are_told_apart_by_name_not_by_place():
    before = {"pools": [{"name": "web"}, {"name": "gpu", "limits": {"max": 4}}]}
    after = {"pools": [{"name": "gpu", "limits": {"max": 5}}, {"name": "web"}]}
    assert changed(before, after) == ["pools[gpu].limits.max 4 nodes → 5 nodes"]


def test_a_pool_that_comes_or_goes_is_one_change():
    before = {"pools": [{"name": "web"}, {"name": "gpu"}]}
    after = {"pools": [{"name": "web", "limits": {"max": 5}}, {"name": "batch"}]}
    gone, come, other = changed(before, after)
    assert gone.startswith("pools[gpu] gpu: 2 to 10 nodes;")
    assert gone.endswith("→ removed")
    assert come.startswith("pools[batch] – → batch: 2 to 10 nodes;")
    assert other == "pools[web].limits.max 10 nodes → 5 nodes"


def test_rules_and_windows_are_told_apart_by_name_too():
    night = {"name": "night", "cron": "0 20 * * *", "lasting": "8h", "max": 3}
    lunch = {"name": "lunch", "cron": "0 12 * * *", "lasting": "1h", "min": 4}
    assert changed({"windows": [night]}, {"windows": [lunch, night]}) == [
        "windows[lunch].name – → lunch",
        "windows[lunch].cron – → 0 12 * * *",
        "windows[lunch].lasting – → 3600 s",
        "windows[lunch].min – → 4 nodes",
    ]


def test_what_holds_for_the_cluster_is_told_as_it_is_written():
    assert changed({}, {"interval": 180, "trust": {"gap": 3}}) == [
        "interval 120 s → 180 s",
        "trust.gap 2 × interval → 3 × interval",
    ]


def test_the_same_policy_has_no_changes():
    assert policy_changes(Policy(), Policy()) == []
    assert in_short([]) == "nothing"


def test_many_changes_are_told_in_short():
    many = policy_changes(Policy(), load({"preset": "high-throughput"}).policy)
    assert in_short(many).endswith(f"and {len(many) - 3} more")
