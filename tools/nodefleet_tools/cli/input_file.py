"""Reading a file that an operator wrote: it is good, or everything that is wrong with it goes to stderr."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nodefleet.model.serialization import ValidationError
from nodefleet_tools.cli.outcome import fail, fail_with_issues
from nodefleet_tools.cli.policy_file import STANDARD_INPUT, UnreadableError

T = TypeVar("T")


def name_of(path: Path) -> str:
    return "standard input" if str(path) == STANDARD_INPUT else str(path)


def read_or_exit(path: Path, read: Callable[[Path], T]) -> T:
    """What `read` makes of the file, or the end with status 2."""
    try:
        return read(path)
    except UnreadableError as error:
        fail(f"{name_of(path)}: {error}")
    except ValidationError as error:
        fail_with_issues(name_of(path), error.problems)
