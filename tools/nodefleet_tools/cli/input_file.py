"""Reading a file that an operator wrote: it is good, or everything that is wrong with it goes to stderr."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import typer

from nodefleet.model.serialization import ValidationError
from nodefleet_tools.cli.policy_file import REFUSED, STANDARD_INPUT, UnreadableError, problem_list

T = TypeVar("T")


def name_of(path: Path) -> str:
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def read_or_exit(path: Path, read: Callable[[Path], T]) -> T:
    """What `read` makes of the file, or the end with status 2."""
    try:
        return read(path)
    except UnreadableError as error:
        message = f"{name_of(path)}: {error}"
    except ValidationError as error:
        message = problem_list(name_of(path), error.problems)
    print(message, file=sys.stderr)
    raise typer.Exit(REFUSED)
