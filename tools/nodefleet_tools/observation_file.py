"""Reading what was seen from a file: a complete observation with its memory, or the shorthand for simple questions."""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import date
from pathlib import Path

from nodefleet.model.serialization import IssueCode, Plain, ValidationError, ValidationIssue, from_plain
from nodefleet.model.snapshot import Observation
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli.policy_file import Content, UnreadableError, parsed, text_of
from nodefleet_tools.shorthand import Question, expanded, shorthand_from

_OBSERVATION = "observation"
_MEMORY = "memory"


def read_question(path: Path, policy: Policy) -> tuple[Question, Policy]:
    """What a file asks and the policy to answer it by, or an UnreadableError, or a RefusedError."""
    content = _content(text_of(path), path.suffix)
    problems = [*content.problems]
    try:
        question = _question(content.data, policy)
    except ValidationError as error:
        problems += error.problems
        raise ValidationError(_worded(problems)) from None
    if problems:
        raise ValidationError(problems)
    return question


def _content(text: str, suffix: str) -> Content:
    """JSON is also tried where the name does not say so: it is read much faster than as YAML."""
    if suffix != ".json" and text.lstrip().startswith("{"):
        try:
            return parsed(text, is_json=True)
        except UnreadableError:
            return parsed(text)
    return parsed(text, is_json=suffix == ".json")


def _question(data: Plain, policy: Policy) -> tuple[Question, Policy]:
    if not isinstance(data, dict):
        right = "write for example nodes: 3 and cpu: 82, each on a line of its own"
        raise ValidationError(
            [ValidationIssue(path="(top level)", value=data, wrong="is not a table of names", right=right)]
        )
    if _OBSERVATION in data or isinstance(data.get(_MEMORY), dict):
        return from_plain(Question, data), policy
    return expanded(shorthand_from(data), policy)


# ── how problems are told ────────────────────────────────────────────────────────────────────────────────────────

_PARTS = {each.name for each in fields(Observation)}
_NEEDED = {
    "nodes": "write how many workers are ready, for example nodes: 3",
    _OBSERVATION: f"put what was seen under {_OBSERVATION}:",
}


def _worded(problems: Sequence[ValidationIssue]) -> list[ValidationIssue]:
    """The codec's problems in the words of this file. Next to an unknown key it is plain why `nodes` is missing."""
    unknown = any(_is_unknown(problem) for problem in problems)
    return [
        _told(problem) for problem in problems if not (unknown and _is_missing(problem) and problem.path == "nodes")
    ]


def _told(problem: ValidationIssue) -> ValidationIssue:
    value = str(problem.value) if isinstance(problem.value, date) else problem.value  # as YAML reads a time
    right = problem.right
    if _is_missing(problem):
        right = _NEEDED.get(problem.path, right)
    elif _is_unknown(problem) and problem.path in _PARTS:
        right = f"in a complete observation it belongs under {_OBSERVATION}:"
    return replace(problem, value=value, right=right)


def _is_missing(problem: ValidationIssue) -> bool:
    return problem.code is IssueCode.MISSING


def _is_unknown(problem: ValidationIssue) -> bool:
    return problem.code is IssueCode.UNKNOWN_KEY
