"""Reading a policy file: YAML or JSON, with everything that can go wrong said in one clear message."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from nodefleet.model.serialization import IssueCode, Plain, ValidationError, ValidationIssue
from nodefleet.policy.file_schema import Keys, path_of
from nodefleet.policy.loading import Loaded, load
from nodefleet_tools.cli.outcome import Status, fail, fail_with_issues

STANDARD_INPUT = "-"
REFUSED = Status.REFUSED
_MOST_VALUES = 100_000  # in YAML; a scenario of a busy day has some hundred
_MOST_YAML = 1 << 20  # characters; PyYAML reads about 100,000 in a second
_MOST_BYTES = 64 << 20  # an observation of 10,000 nodes is some megabytes of JSON


class UnreadableError(Exception):
    """A file that cannot be read at all, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    data: Plain
    problems: tuple[ValidationIssue, ...]  # keys that are written twice: a parser would drop one and say nothing


def policy_or_exit(path: Path | None, preset: str | None = None) -> Loaded:
    """The policy in a file (all defaults without one); everything that is wrong goes to stderr, and the status is 2."""
    name = "standard input" if str(path) == STANDARD_INPUT else str(path or "policy")
    try:
        return read_policy(path, preset)
    except UnreadableError as error:
        fail(f"{name}: {error}")
    except ValidationError as error:
        fail_with_issues(name, error.problems)


def read_policy(path: Path | None, preset: str | None = None) -> Loaded:
    """The policy in a file, or an UnreadableError, or a ValidationError. A preset given here replaces the file's."""
    content = parsed(text_of(path), is_json=path.suffix == ".json") if path else Content(data={}, problems=())
    data = content.data
    if preset is not None and isinstance(data, dict | None):
        data = {**(data or {}), "preset": preset}
    try:
        loaded = load(data)
    except ValidationError as error:
        raise ValidationError([*content.problems, *error.problems]) from None
    if content.problems:
        raise ValidationError(content.problems)
    return loaded


def text_of(path: Path) -> str:
    try:
        return _bytes_of(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise UnreadableError("there is no such file") from None
    except IsADirectoryError:
        raise UnreadableError("is a directory; name a file in it") from None
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from None


def _bytes_of(path: Path) -> bytes:
    if str(path) == STANDARD_INPUT:
        raw = sys.stdin.buffer.read(_MOST_BYTES + 1)
    else:
        with path.open("rb") as opened:
            raw = opened.read(_MOST_BYTES + 1)
    if len(raw) > _MOST_BYTES:
        raise UnreadableError(f"is larger than {_MOST_BYTES >> 20} MiB")
    return raw


def parsed(text: str, *, is_json: bool = False) -> Content:
    """The plain data in a text, or an UnreadableError with line and column."""
    return _parsed_json(text) if is_json else _parsed_yaml(text)


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Table(dict[str, Any]):
    """A JSON object that knows which of its keys were there before."""

    twice: tuple[str, ...] = ()


def _table(pairs: list[tuple[str, Any]]) -> _Table:
    table = _Table(pairs)
    names = [name for name, _ in pairs]
    table.twice = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return table


def _parsed_json(text: str) -> Content:
    try:
        data = json.loads(text, object_pairs_hook=_table)
        problems = tuple(_twice_in_json(data, ()))
    except json.JSONDecodeError as error:
        raise UnreadableError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:  # a number of thousands of digits
        raise UnreadableError(f"has a value that cannot be read: {error}") from None
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    return Content(data=data, problems=problems)


def _twice_in_json(data: Plain, keys: Keys) -> Iterator[ValidationIssue]:
    for name in data.twice if isinstance(data, _Table) else ():
        yield _twice((*keys, name), data[name], "")
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, each in parts:
        yield from _twice_in_json(each, (*keys, key))


def _twice(keys: Keys, value: Plain, lines: str) -> ValidationIssue:
    return ValidationIssue(
        path=path_of(keys),
        value=value,
        wrong=f"is written more than once{lines}",
        right="keep one of them",
        code=IssueCode.DUPLICATE,
    )


# ── YAML ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parsed_yaml(text: str) -> Content:
    if len(text) > _MOST_YAML:
        raise UnreadableError(f"is longer than {_MOST_YAML:,} characters of YAML; write it as JSON")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node and _expanded(node, {}) > _MOST_VALUES:
            raise UnreadableError(f"stands for more than {_MOST_VALUES:,} values: its aliases (*name) multiply")
        problems = tuple(_twice_in_yaml(node, (), ())) if node else ()
        data = loader.construct_document(node) if node else None
    except yaml.MarkedYAMLError as error:
        _refuse(error)
    except yaml.YAMLError as error:
        raise UnreadableError(f"is not YAML: {' '.join(str(error).split())}") from None
    except ValueError as error:  # a date such as 2026-13-01
        raise UnreadableError(f"has a value that YAML cannot read: {error}; put it in quotes") from None
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    return Content(data=data, problems=problems)


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for once its aliases are written out. Each is counted once, so it takes no longer
    than reading the text. What contains itself is told elsewhere."""
    found = known.get(id(node))
    if found is None:
        known[id(node)] = 0
        match node:
            case yaml.MappingNode():
                parts = [part for pair in node.value for part in pair]
            case yaml.SequenceNode():
                parts = node.value
            case _:
                parts = []
        found = known[id(node)] = 1 + sum(_expanded(part, known) for part in parts)
    return found


def _refuse(error: yaml.MarkedYAMLError) -> NoReturn:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    advice = "; put a text that begins with * in quotes" if "alias" in str(error.context) else ""
    raise UnreadableError(f"{where}{', '.join(filter(None, (error.context, error.problem)))}{advice}") from None


def _twice_in_yaml(node: yaml.Node, keys: Keys, above: tuple[int, ...]) -> Iterator[ValidationIssue]:
    if id(node) in above:
        raise UnreadableError(f"line {node.start_mark.line + 1}: {path_of(keys)} contains itself")
    above = (*above, id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in lines and name != "<<":
                yield _twice((*keys, name), _scalar(value), f", in line {lines[name]} and in line {line}")
            lines.setdefault(name, line)
            yield from _twice_in_yaml(value, (*keys, name), above)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _twice_in_yaml(value, (*keys, index), above)


def _scalar(node: yaml.Node) -> str | None:
    return node.value if isinstance(node, yaml.ScalarNode) else None
