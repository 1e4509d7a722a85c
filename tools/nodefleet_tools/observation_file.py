"""Reading what was seen from a file: a complete observation with its memory, or the shorthand for simple questions."""

from dataclasses import fields, replace
from pathlib import Path

from nodefleet.domain.observation import Observation
from nodefleet.domain.plain import Plain, from_plain
from nodefleet.domain.policy import Policy
from nodefleet.domain.problems import Problem, RefusedError
from nodefleet_tools.cli.policy_file import Content, UnreadableError, parsed, text_of
from nodefleet_tools.shorthand import Question, expanded, shorthand_from

_OBSERVATION = "observation"
_MEMORY = "memory"


def read_question(path: Path, policy: Policy) -> tuple[Question, Policy]:
    """What a file asks and the policy to answer it by, or an UnreadableError, or a RefusedError."""
    content = _content(text_of(path), path.suffix)
    try:
        question = _question(content.data, policy)
    except RefusedError as error:
        raise RefusedError([*content.problems, *error.problems]) from None
    if content.problems:
        raise RefusedError(content.problems)
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
        raise RefusedError([Problem(path="(top level)", value=data, wrong="is not a table of names", right=right)])
    if _OBSERVATION in data or isinstance(data.get(_MEMORY), dict):
        return from_plain(Question, data), policy
    try:
        return expanded(shorthand_from(data), policy)
    except RefusedError as error:
        raise RefusedError([_pointed_out(problem) for problem in error.problems]) from None


def _pointed_out(problem: Problem) -> Problem:
    """A part of a complete observation that stands at the top level."""
    if problem.wrong != "is an unknown key" or problem.path not in {each.name for each in fields(Observation)}:
        return problem
    return replace(problem, right=f"in a complete observation it belongs under {_OBSERVATION}:")
