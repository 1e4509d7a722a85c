"""What a record holds, as JSON in one attribute: as text while a person can read it, compressed when it is long.

Versions. The newest code reads what every older one wrote, because a field that is added has a default. The other way
round happens when a deployment is rolled back, and then the autoscaler must not stand still for a field that it does
not know:

    an unknown field               is left out, and a warning says so
    anything else that is unknown  (a kind, a word, a type) is an error that names the record
    a higher format                is an error too

So a field may be added if older code does right without it. Whoever changes the meaning of one, renames one, or adds
one that must not be ignored, raises FORMAT.
"""

import json
import zlib
from base64 import b64decode
from collections.abc import Callable
from typing import Any, TypeAlias

from nodefleet.adapters.aws.state.attributes import Attribute, Item, number, text
from nodefleet.adapters.aws.state.keys import SORT
from nodefleet.domain.plain import ROOT, TAG, Path, Plain, decode, kind_of, to_plain, where
from nodefleet.domain.problems import IssueCode, Problem, RefusedError
from nodefleet.errors import MalformedError

Warn: TypeAlias = Callable[[str], None]

FORMAT = 1
BODY = "body"
VERSION = "format"
_READABLE = 4_000  # bytes that stay as text


def packed(plain: Plain, readable: int = _READABLE) -> str | bytes:
    """As text up to so many bytes, compressed above."""
    try:
        written = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        encoded = written.encode()
    except ValueError as problem:  # not a number, or half a character
        raise MalformedError(f"this cannot be stored: {problem}") from problem
    return written if len(encoded) <= readable else zlib.compress(encoded)


def unpacked(attribute: Attribute) -> Plain:
    """Raises ValueError. A stream that reaches Lambda brings bytes in Base64."""
    match attribute:
        case {"S": str(written)}:
            return json.loads(written)
        case {"B": str(encoded)}:
            return unpacked({"B": b64decode(encoded, validate=True)})
        case {"B": bytes(compressed)}:
            try:
                return json.loads(zlib.decompress(compressed))
            except zlib.error as problem:
                raise ValueError(str(problem)) from problem
        case _:
            raise ValueError("there is nothing in it")


def tagged(value: Any) -> Plain:
    """A member of a union, with its kind, so that it can be told from the others."""
    return {TAG: kind_of(type(value)), **to_plain(value)}


def body(item: Item) -> Plain:
    """What the record holds, plain; MalformedError names the record."""
    try:
        version = number(item, VERSION)
        plain = unpacked(item.get(BODY, {})) if version <= FORMAT else None
    except ValueError as problem:
        raise unreadable(item, str(problem)) from problem
    if version > FORMAT:
        raise unreadable(item, f"its format {version} is newer than {FORMAT}, the last that this version knows")
    return plain


def held(kind: Any, item: Item, warn: Warn) -> Any:
    """The value that the record holds, without the fields that this version does not know."""
    plain = body(item)
    problems: list[Problem] = []
    value = decode(kind, plain, problems)
    unknown = {problem.path for problem in problems if problem.code is IssueCode.UNKNOWN_KEY}
    if unknown and len(unknown) == len(problems):
        warn(f"{text(item, SORT)}: {', '.join(sorted(unknown))} unknown to this version, left out")
        problems.clear()
        value = decode(kind, _without(plain, unknown), problems)
    if problems:
        raise unreadable(item, str(RefusedError(problems))) from None
    return value


def unreadable(item: Item, cause: str) -> MalformedError:
    return MalformedError(
        f"the record {text(item, SORT)} in the table cannot be read: {cause}."
        " Deploy the version that wrote it, or see docs/state.md"
    )


def _without(plain: Plain, paths: set[str], path: Path = ROOT) -> Plain:
    match plain:
        case dict():
            kept = {key: each for key, each in plain.items() if where((path, key)) not in paths}
            return {key: _without(each, paths, (path, key)) for key, each in kept.items()}
        case list():
            return [_without(each, paths, (path, index)) for index, each in enumerate(plain)]
        case _:
            return plain
