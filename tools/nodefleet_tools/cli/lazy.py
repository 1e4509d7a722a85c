"""A group of commands whose modules are imported when they are used, so that every command starts quickly.

The row of a command holds its line of help: showing the list of commands imports none of them.
"""

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from inspect import cleandoc
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from nodefleet import __version__
from nodefleet_tools.cli.outcome import Status, expect_json, fail, interrupted, is_json, not_confirmed, report_error

SETTINGS = {"help_option_names": ["-h", "--help"]}
_EXTRAS = {
    "aws": ("boto3", "botocore", "kubernetes", "aws_lambda_powertools", "jmespath"),
    "deploy": ("pulumi", "pulumi_aws"),
}


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    target: "str | tuple[Command, ...]"  # module:function, or the commands of a group
    help: str
    panel: str | None = None  # the heading of `--help` under which it is listed


def without_flag_types(params: list[Any]) -> list[Any]:
    """A flag takes no value: its type in the help would only be noise."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class PlainCommand(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return without_flag_types(super().get_params(ctx))


def load(command: Command) -> Any:
    """The command as its module defines it. This is the import that the other commands are spared."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=SETTINGS)
    if isinstance(command.target, str):
        function = find_function(command.target)
        alone.command(name=command.name, cls=PlainCommand, help=unwrap(function.__doc__ or ""))(function)
        return get_command(alone)
    alone.callback(cls=group_of(command.target), help=command.help, no_args_is_help=True)(lambda: None)
    return get_command(alone)


def unwrap(text: str) -> str:
    """A docstring whose paragraphs fill the terminal, whatever the width of the source. Blocks that begin with \\b keep
    their lines."""
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(each if each.startswith("\b") else " ".join(each.split()) for each in paragraphs)


def runs(target: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a function that only declares options be carried out by `module:function`, imported when it is called."""

    def declare(declared: Callable[..., None]) -> Callable[..., None]:
        @wraps(declared)
        def run(**given: Any) -> None:
            find_function(target)(**given)

        vars(run)["target"] = target  # a test compares the parameters of both
        return run

    return declare


def find_function(target: str) -> Any:
    """The function that `module:function` names."""
    module, _, name = target.partition(":")
    gc.disable()  # importing makes hundreds of classes and no garbage worth looking for
    try:
        return getattr(import_module(f"nodefleet_tools.cli.{module}"), name)
    finally:
        gc.enable()


class LazyCommand(TyperCommand):
    """A row of the help. The context it makes is the real command's, so parsing and completion are, too."""

    def __init__(self, command: Command) -> None:
        super().__init__(name=command.name, help=command.help, rich_help_panel=command.panel)
        self._command = command

    def make_context(self, *args: Any, **extra: Any) -> Any:
        return load(self._command).make_context(*args, **extra)


def group_of(commands: Sequence[Command]) -> type[TyperGroup]:
    class Group(LazyGroup):
        rows = tuple(commands)

    return Group


class LazyGroup(TyperGroup):
    rows: tuple[Command, ...] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.rows:
            self.add_command(LazyCommand(command), command.name)

    def get_params(self, ctx: Any) -> list[Any]:
        return without_flag_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # typer's signature
        """In the order of the rows, not of the alphabet."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            interrupted()
        except typer.Abort as error:  # at a question, where Ctrl-C arrives as one, too
            if isinstance(error.__context__, KeyboardInterrupt):
                interrupted()
            not_confirmed()
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            extra = next((name for name, packages in _EXTRAS.items() if package in packages), None)
            if extra is None:
                raise
            fail(
                f"This needs {package}, which is not installed. Install the wheel once more, with [{extra}] behind it:"
                f" pipx install --force 'node_fleet-{__version__}-py3-none-any.whl[{extra}]'",
                Status.FAILED,
            )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """With --json, what typer prints about wrong options becomes a JSON object."""
        expect_json(sys.argv[1:] if args is None else args)
        run = partial(super().main, args, prog_name, complete_var, windows_expand_args=windows_expand_args, **extra)
        if not is_json():
            return run(standalone_mode=standalone_mode)
        try:
            result = run(standalone_mode=False)
        except Exception as error:
            if not hasattr(error, "format_message"):  # the mark of an error about options and arguments
                raise
            result = int(getattr(error, "exit_code", Status.REFUSED))
            report_error(error.format_message(), result)
        if standalone_mode:
            sys.exit(result if isinstance(result, int) else Status.DONE)
        return result
