"""The list of commands, how quickly it is there, and how every command ends."""

import inspect
import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

from nodefleet import __version__
from nodefleet.model.decision import Action
from nodefleet.policy.file_schema import PRESETS
from nodefleet_tools.cli import commands_try, commands_watch, main, operators
from nodefleet_tools.cli.lazy import Command, find_function, group_of, load, unwrap
from nodefleet_tools.cli.operators import confirm
from nodefleet_tools.cli.outcome import Status, fail, note_change
from support.wording import assert_wording


def rows(commands=main.COMMANDS, above=()):
    for command in commands:
        if isinstance(command.target, tuple):
            yield from rows(command.target, (*above, command.name))
        else:
            yield pytest.param(command, id=" ".join((*above, command.name)))


def run(*arguments: str):
    return CliRunner().invoke(main.app, list(arguments), env={"COLUMNS": "100"})


@pytest.mark.parametrize("command", list(rows()))
def test_the_line_of_help_in_the_list_is_the_commands_own(command):
    docstring = inspect.cleandoc(load(command).callback.__doc__)
    assert " ".join(docstring.partition("\n\n")[0].split()) == command.help


@pytest.mark.parametrize("command", list(rows()))
def test_every_command_answers_help(command):
    made = load(command).make_context(command.name, [], resilient_parsing=True)
    assert command.name in made.get_usage()


def test_a_flag_names_no_type_in_the_help():
    said = run("pause", "--help").stdout
    assert "--scale-down-only" in said
    assert "bool" not in said


@pytest.mark.parametrize("name", ["init", "doctor"])
def test_help_needs_no_extra(name):
    code = (
        "import sys; sys.modules.update(boto3=None, botocore=None, kubernetes=None);"
        "from nodefleet_tools.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, name, "--help"], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


@pytest.mark.parametrize("module", ["demo", "dashboard", "simulate", "chaos", "policy", "backtest"])
def test_what_needs_no_account_is_imported_without_the_extra(module):
    """`make demo` on a fresh machine has nothing but the base of the package."""
    code = (
        "import sys; sys.modules.update(boto3=None, botocore=None, kubernetes=None, aws_lambda_powertools=None);"
        f"import nodefleet_tools.cli.{module}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr


def test_the_list_names_every_command_under_its_heading():
    listed = run("--help").stdout
    positions = [listed.index(panel.value) for panel in main.Panel]
    assert positions == sorted(positions)
    assert all(f" {command.name} " in listed for command in main.COMMANDS)


def test_the_version_is_that_of_the_package():
    assert run("--version").stdout == f"nodefleet {__version__}\n"


SHOWS_MODULES = """
import contextlib, io, json, sys
from nodefleet_tools.cli.main import main
imported = []
for sys.argv[1:] in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
    imported.append(list(sys.modules))
print(json.dumps(imported))
"""


def loaded_modules(*lines: tuple[str, ...]) -> list[set[str]]:
    """The modules that a fresh process has imported after each of these command lines."""
    command = [sys.executable, "-c", SHOWS_MODULES, json.dumps(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return [set(each) for each in json.loads(done.stdout)]


def test_the_list_of_commands_imports_none_of_them():
    (modules,) = loaded_modules(("--help",))
    assert "typer" in modules
    assert not {name for name in modules if name.startswith(("nodefleet.", "boto", "yaml", "kubernetes"))}


def test_a_wrong_option_does_not_import_what_carries_the_command_out():
    (modules,) = loaded_modules(("events", "--frob"))
    assert "nodefleet_tools.cli.commands_watch" in modules
    assert "nodefleet_tools.cli.events" not in modules


def test_the_help_of_no_command_imports_model_engine_or_simulation():
    """One after the other: what one of them imported would still be there after the next."""
    commands = [each.id.split() for each in rows()]
    after_each = loaded_modules(*((*words, "--help") for words in commands))
    heavy = ("nodefleet.", "nodefleet_tools.sim", "boto", "yaml", "kubernetes")
    light = {"settings", "errors", "model", "model.names", "model.serialization"}  # for the names of variables
    for words, modules in zip(commands, after_each, strict=True):
        assert any(name.startswith("nodefleet_tools.cli.commands_") for name in modules), words
        assert not {name for name in modules if name.startswith(heavy)} - {f"nodefleet.{each}" for each in light}, words


@pytest.mark.parametrize("command", list(rows()))
def test_the_function_that_carries_a_command_out_takes_every_option_of_it(command):
    declared = find_function(command.target)
    wanted = inspect.signature(find_function(vars(declared)["target"])).parameters.values()
    assert {each.name for each in wanted} == set(inspect.signature(declared).parameters)
    assert {each.default for each in wanted} == {inspect.Parameter.empty}, "the default belongs to the option"


def test_the_presets_and_actions_of_the_help_are_those_of_policies_and_decisions():
    assert tuple(PRESETS) == commands_try.PRESETS_OF_POLICIES
    assert get_args(commands_watch.ActionName) == tuple(each.value for each in Action)


def test_names_of_commands_and_of_their_groups_are_completed():
    def completed(words: str):
        done = CliRunner().invoke(
            main.app,
            [],
            prog_name="nodefleet",
            env={
                "_NODEFLEET_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": "2" if "policy" in words else "1",
            },
        )
        return done.stdout.split()

    assert completed("nodefleet po") == ["policy"]
    assert completed("nodefleet policy ro") == ["rollback"]


# ── how a command ends ───────────────────────────────────────────────────────────────────────────────────────────


def error_of(done) -> dict:
    assert done.stderr == ""
    return json.loads(done.stdout)["error"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("explan", "--json"), "explan"),
        (("explain", "--json", "--last", "none"), "--last"),
        (("explain", "--json", "--frob"), "--frob"),
        (("policy", "frob", "--json"), "frob"),
    ],
)
def test_what_was_asked_wrongly_is_a_json_object_when_json_was_asked_for(arguments, word):
    done = run(*arguments)
    found = error_of(done)
    assert (done.exit_code, found["status"]) == (Status.REFUSED, Status.REFUSED)
    assert word in found["message"]


def test_without_json_it_is_said_on_stderr_with_the_same_status():
    done = run("explain", "--frob")
    assert (done.exit_code, done.stdout) == (Status.REFUSED, "")
    assert "--frob" in done.stderr


def test_an_argument_after_two_dashes_asks_for_no_json():
    assert run("explan", "--", "--json").stdout == ""


def group(function):
    """A command line with one command, which `function` plays."""
    module = type(sys)("nodefleet_tools.cli.played")
    module.played = function
    sys.modules[module.__name__] = module
    app = typer.Typer(cls=group_of([Command("played", "played:played", "Played.")]))
    app.callback()(lambda: None)
    return app


def played(function, *arguments: str):
    return CliRunner().invoke(group(function), ["played", *arguments])


def test_a_failure_carries_its_details_in_json_only():
    def failing(as_json: bool = typer.Option(False, "--json")) -> None:
        fail("the table is away", Status.FAILED, table="state")

    assert error_of(played(failing, "--json")) == {"status": 1, "message": "the table is away", "table": "state"}
    done = played(failing)
    assert (done.exit_code, done.stdout) == (1, "")
    assert_wording(done.stderr)


@pytest.mark.parametrize(("package", "extra"), [("boto3", "aws"), ("kubernetes.client", "aws"), ("pulumi", "deploy")])
def test_a_package_that_is_not_installed_is_named_with_its_extra(package, extra):
    def failing() -> None:
        raise ModuleNotFoundError(name=package)

    done = played(failing)
    assert done.exit_code == Status.FAILED
    assert f".whl[{extra}]" in done.stderr


def test_a_missing_module_of_ours_is_a_fault():
    def failing() -> None:
        raise ModuleNotFoundError(name="nodefleet.frob")

    assert isinstance(played(failing).exception, ModuleNotFoundError)


def test_what_is_not_confirmed_is_said_in_json_too():
    def asking(as_json: bool = typer.Option(False, "--json")) -> None:
        raise typer.Abort

    done = played(asking, "--json")
    assert (done.exit_code, error_of(done)["status"]) == (Status.FAILED, Status.FAILED)


def test_a_question_that_nobody_answers_ends_with_what_was_done(monkeypatch):
    def asking(as_json: bool = typer.Option(False, "--json")) -> None:
        note_change("The table is created.")
        confirm("Go on?", yes=False)

    monkeypatch.setattr(operators, "is_at_terminal", lambda: True)
    done = played(asking, "--json")
    found = json.loads(done.stdout)["error"]
    assert (done.exit_code, found["done"]) == (Status.FAILED, ["The table is created."])


def test_ctrl_c_at_a_question_interrupts():
    """typer makes the same exception of it as of no answer."""
    try:
        ours, theirs = pty.openpty()
    except OSError as error:
        pytest.skip(f"NOT tried, this machine gives no pseudo-terminal: {error}")
    # A shell's background job ignores the signal, and what it starts does, too.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " from nodefleet_tools.cli.main import main; main()"
    )
    asking = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, "init"], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)  # or reading would go on for ever after its end
    asked = b""
    while b"name:" not in asked:
        asked += os.read(ours, 1000)
    for _ in range(10):  # one that comes right before Python reads is seen after the reading only
        asking.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            asking.wait(timeout=5)
            break
    _, said = asking.communicate(timeout=30)
    os.close(ours)
    assert (asking.returncode, b"Traceback" in said) == (Status.INTERRUPTED, False)


def test_an_interrupted_command_says_what_it_had_done():
    def stopped() -> None:
        note_change("Paused all pools.")
        raise KeyboardInterrupt

    done = played(stopped)
    assert (done.exit_code, done.stdout) == (Status.INTERRUPTED, "")
    assert_wording(done.stderr)


def test_an_interrupted_command_that_changed_nothing_says_so_and_no_change_of_another_one(monkeypatch):
    def stopped(as_json: bool = typer.Option(False, "--json")) -> None:
        raise KeyboardInterrupt

    note_change("Of the command before.")
    found = error_of(played(stopped, "--json"))
    assert (found["status"], found["done"]) == (Status.INTERRUPTED, [])


@pytest.mark.parametrize("command", list(rows()))
def test_every_command_answers_json(command):
    names = {name for param in load(command).params for name in (*param.opts, *param.secondary_opts)}
    assert "--json" in names


@pytest.mark.parametrize("command", list(rows()))
def test_every_command_has_its_errors_as_json(command):
    path = next(iter(words for words, found in words_of().items() if found is command))
    found = error_of(run(*path, "--json", "--no-such-option"))
    assert found["status"] == Status.REFUSED


def words_of(commands=main.COMMANDS, above=()) -> dict:
    found = {}
    for command in commands:
        words = (*above, command.name)
        found |= words_of(command.target, words) if isinstance(command.target, tuple) else {words: command}
    return found


def test_the_page_documents_every_status():
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == set(Status)


def test_paragraphs_of_help_fill_the_terminal_and_examples_keep_their_lines():
    text = "Drain workers.\n\n    A few\n    at a time.\n\n    \b\n      nodefleet drain a\n      nodefleet drain b\n"
    assert unwrap(text) == "Drain workers.\n\nA few at a time.\n\n\b\n  nodefleet drain a\n  nodefleet drain b"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--list"], ["simulate", "--list", "--json"]])
def test_an_output_that_cannot_be_written_ends_in_a_sentence(arguments, unbuffered):
    code = "from nodefleet_tools.cli.main import main; main()"
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", code, *arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, text=True, check=False)  # noqa: S603
    assert done.returncode == Status.FAILED
    assert len(done.stderr.splitlines()) == 1
