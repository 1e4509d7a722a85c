"""How a command ends: one set of exit statuses, and errors as a sentence or, with --json, as one JSON object.

    0    done
    1    failed: AWS, Kubernetes or the table refused, a check that was asked for did not pass, or a question was
         answered with no
    2    not understood: options, a file, a policy; nothing was done
    3    nothing is recorded that could answer
    130  interrupted (Ctrl-C)

With --json, standard output holds exactly one JSON document (one per line for a stream): the answer, or
`{"error": {"status": …, "message": …}}`. docs/cli.md says it to operators.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from nodefleet.model.serialization import ValidationIssue

JSON_FLAG = "--json"

_as_json: ContextVar[bool] = ContextVar("as_json", default=False)
_changes: ContextVar[tuple[str, ...]] = ContextVar("changes", default=())

JsonOption = Annotated[bool, typer.Option(JSON_FLAG, help="Print one JSON document, errors included.")]


class Status(IntEnum):
    DONE = 0
    FAILED = 1
    REFUSED = 2
    NOTHING = 3
    INTERRUPTED = 130


def expect_json(arguments: Sequence[str]) -> None:
    """Note whether this invocation asks for JSON. Read from the arguments, because parsing them may fail too."""
    before_operands = list(arguments)[: list(arguments).index("--")] if "--" in arguments else arguments
    _as_json.set(JSON_FLAG in before_operands)
    _changes.set(())


def is_json() -> bool:
    return _as_json.get()


def note_change(sentence: str) -> None:
    """What this command has changed outside this process, for an operator who interrupts it before its end."""
    _changes.set((*_changes.get(), sentence))


def interrupted() -> NoReturn:
    """Ctrl-C: say what was done before it."""
    _end_early("Interrupted", Status.INTERRUPTED)


def not_confirmed() -> NoReturn:
    """A question was answered with no: say what was done before it."""
    _end_early("Not confirmed", Status.FAILED)


def _end_early(why: str, status: Status) -> NoReturn:
    done = _changes.get()
    said = f"Done before that: {' '.join(done)}" if done else "Nothing was changed."
    fail(f"{why}. {said}", status, done=list(done))


def print_json(plain: Any) -> None:
    print(json.dumps(plain, indent=2, ensure_ascii=False))


def write_file(path: "Path", text: str) -> None:
    """A file of the command's own; its folder is made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror}")


def require_writable(path: "Path") -> None:
    """Before work that takes minutes: end now if its result could not be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror}")
    if path.is_dir():
        fail(f"{path}: cannot be written: it is a folder")
    if not os.access(path.parent, os.W_OK):
        fail(f"{path}: cannot be written: its folder is not writable")


def fail(message: str, status: Status = Status.REFUSED, **details: Any) -> NoReturn:
    """End the command with an error. `details` are for programs and appear only in JSON."""
    report_error(message, status, **details)
    raise typer.Exit(status)


def report_error(message: str, status: int, **details: Any) -> None:
    if is_json():
        print_json({"error": {"status": int(status), "message": message, **details}})
    else:
        print(message, file=sys.stderr)


def fail_with_issues(name: str, issues: "Sequence[ValidationIssue]") -> NoReturn:
    """End the command because a file or an option is not valid, with everything that is wrong."""
    fail(issue_list(name, issues), Status.REFUSED, file=name, issues=[issue_plain(each) for each in issues])


def issue_list(name: str, issues: "Sequence[ValidationIssue]") -> str:
    count = f"{len(issues)} problems" if len(issues) > 1 else "1 problem"
    return "\n".join([f"{name}: {count}", *map(_issue_block, issues)])


def issue_plain(issue: "ValidationIssue") -> dict[str, Any]:
    return {
        "path": issue.path,
        "value": None if issue.value is None else str(issue.value),
        "wrong": issue.wrong,
        "right": issue.right,
        "code": issue.code.value,
    }


def _issue_block(issue: "ValidationIssue") -> str:
    from nodefleet.model.serialization import show_value  # noqa: PLC0415  # most commands end without an issue

    value = "" if issue.value is None else f": {show_value(issue.value)}"
    return f"\n  {issue.path}{value}\n    wrong: {issue.wrong}\n    right: {issue.right}"
