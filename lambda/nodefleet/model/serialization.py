"""Dataclasses to plain values (what JSON and YAML hold) and back, without loss.

One codec serves policies, observations, memory, operations and decisions. It is strict (an unknown key, a wrong
type or a missing field is a problem) and it finds all problems before it refuses. What to do for a type is worked
out once and kept, so that ten thousand pods take fractions of a second.

    tagged unions      {"kind": "missing", "cause": "timeout"}; the kind is the class name in kebab-case, or STORED_AS
    datetime           "2026-11-16T12:00:00Z"; a time without a zone is refused
    timedelta          seconds, or "90s", "5m", "2h", "7d"
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

# ── validation issues ────────────────────────────────────────────────────────────────────────────────────────────────
# What is wrong with something an operator wrote: where, what, and what would be right. All of it at once.


class IssueCode(Enum):
    """What kind of thing is wrong, for code that must not depend on the wording."""

    INVALID = "invalid"  # none of the others
    MISSING = "missing"
    UNKNOWN_KEY = "unknown-key"
    UNKNOWN_KIND = "unknown-kind"  # of a tagged table
    UNKNOWN_NAME = "unknown-name"  # it refers to something that is not there
    WRONG_TYPE = "wrong-type"
    NOT_A_CHOICE = "not-a-choice"
    EMPTY = "empty"
    OUT_OF_RANGE = "out-of-range"
    OUT_OF_ORDER = "out-of-order"  # two values that must stand in the other order
    DUPLICATE = "duplicate"
    WITHOUT_EFFECT = "without-effect"  # it would never do anything


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationIssue:
    path: str  # pools[0].limits.min
    value: object  # what stands there
    wrong: str  # what is wrong with it
    right: str  # what would be right
    code: IssueCode = IssueCode.INVALID

    def __str__(self) -> str:
        return f"{self.path}: {show_value(self.value)} {self.wrong}; {self.right}"


class ValidationError(ValueError):
    """Input that cannot be taken, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[ValidationIssue]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def show_value(value: object, limit: int = 60) -> str:
    """The value as it may stand in a message: short, and never a whole file."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# ── plain ────────────────────────────────────────────────────────────────────────────────────────────────────────────


T = TypeVar("T")
Plain: TypeAlias = Any  # what json.loads gives: the codec's outer edge
Path: TypeAlias = tuple[Any, ...]  # (parent path, key): built on every level, printed only for a problem
Encode: TypeAlias = Callable[[Any], Plain]
Decode: TypeAlias = Callable[[Plain, Path, list[ValidationIssue]], Any]

TAG = "kind"
ROOT: Path = ()
_WRONG = object()  # what a decoder returns after it has noted a problem
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LARGEST = 1e300  # far beyond any figure, and still a float
_LONGEST = timedelta.max.days * _UNITS["d"]  # seconds


def to_plain(value: Any, *, full: bool = False) -> Plain:
    """The value as dicts, lists and scalars. Fields at their default are left out unless `full`."""
    kind: Any = type(value)
    return _encoder(kind, full)(value)


def encoder_of(kind: Any) -> Encode:
    """How values of a type, such as that of a field, become plain."""
    return _encoder(kind, full=False)


def from_plain(kind: type[T], data: Plain) -> T:
    """The value that `data` stands for, or a RefusedError with every problem in it."""
    problems: list[ValidationIssue] = []
    value = decode(kind, data, problems)
    if problems:
        raise ValidationError(problems)
    return value  # type: ignore[no-any-return]  # decoded as `kind`, which the type checker can't see


def decode(kind: Any, data: Plain, problems: list[ValidationIssue], path: Path = ROOT) -> Any:
    """Like from_plain, but notes its problems in the given list, so that a caller can add to them."""
    return _decoder(kind)(data, path, problems)


def kind_of(cls: type) -> str:
    """The tag of a class in a union: ClearTime → clear-time; a class that was renamed says what it is stored as."""
    stored: str | None = cls.__dict__.get("STORED_AS")
    return stored or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()


def where(path: Path) -> str:
    """A path as an operator writes it: pools[0].limits.min."""
    text = ""
    while path:
        path, key = path
        text = (f"[{key}]" if isinstance(key, int) else f".{key}") + text
    return text.removeprefix(".") or "(top level)"


def nearest(word: str, known: list[str]) -> str:
    """A hint that names the closest known word, or all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


@cache
def fields_of(cls: type) -> tuple[tuple[Field[Any], Any], ...]:
    """The fields of a dataclass with their resolved types."""
    hints = get_type_hints(cls)
    return tuple((field, hints[field.name]) for field in fields(cls))


def default_of(field: Field[Any]) -> Any:
    """A field's default value, or dataclasses.MISSING."""
    return field.default_factory() if field.default_factory is not MISSING else field.default


# ── out ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _encoder(kind: Any, full: bool) -> Encode:  # noqa: FBT001  # a cached function's key
    if _is_class(kind):
        return _encode_dataclass(kind, full=full, tagged=False)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _encode_union(kind, full=full)
    if origin is tuple:
        item = _encoder(get_args(kind)[0], full)
        return list if item is _as_it_is else lambda value: [item(each) for each in value]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        entry = _encoder(get_args(kind)[1], full)
        return dict if entry is _as_it_is else lambda value: {key: entry(each) for key, each in value.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value: value.value
    if kind is datetime:
        return _utc
    if kind is timedelta:
        return _seconds
    return _as_it_is


def _as_it_is(value: Any) -> Plain:
    plain: Plain = value
    return plain


def _utc(value: datetime) -> str:
    return (value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat()[: -len("+00:00")] + "Z"


def _seconds(value: timedelta) -> float:
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _encode_dataclass(cls: type, *, full: bool, tagged: bool) -> Encode:
    # Fields are worked out at first use, so that a dataclass may contain itself.
    plans: list[tuple[str, Encode, Any]] = []
    tag: dict[str, Plain] = {TAG: kind_of(cls)} if tagged else {}

    def encode(value: Any) -> Plain:
        if not plans:
            plans.extend((field.name, _encoder(hint, full), default_of(field)) for field, hint in fields_of(cls))
        result = dict(tag)
        for name, encode_field, default in plans:
            held = getattr(value, name)
            if full or (held is not default and (default is MISSING or held != default)):
                result[name] = held if encode_field is _as_it_is else encode_field(held)
        return result

    return encode


def _encode_union(kind: Any, *, full: bool) -> Encode:
    members = get_args(kind)
    tagged = {cls: _encode_dataclass(cls, full=full, tagged=True) for cls in members if _is_class(cls)}
    others = [_encoder(cls, full) for cls in members if not _is_class(cls) and cls is not NoneType]
    if _is_optional_dataclass(members):
        tagged = {cls: _encode_dataclass(cls, full=full, tagged=False) for cls in tagged}

    def encode(value: Any) -> Plain:
        if value is None:
            return None
        if type(value) in tagged:
            return tagged[type(value)](value)
        return others[0](value)

    return encode


def _is_optional_dataclass(members: tuple[Any, ...]) -> bool:
    """`X | None` needs no tag: what stands there is an X."""
    return len(members) == 2 and NoneType in members  # noqa: PLR2004  # the pair itself


# ── in ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _decoder(kind: Any) -> Decode:
    if _is_class(kind):
        return _decode_dataclass(kind)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(kind)
    if origin is tuple:
        return _decode_list(get_args(kind)[0])
    if origin is Literal:
        return _decode_choice([str(choice) for choice in get_args(kind)], dict(zip(*[get_args(kind)] * 2, strict=True)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _decode_table(get_args(kind)[1])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _decode_choice([str(each.value) for each in kind], {each.value: each for each in kind})
    return _SCALARS[kind]


def _wrong(
    path: Path,
    value: Plain,
    wrong: str,
    right: str,
    problems: list[ValidationIssue],
    code: IssueCode = IssueCode.WRONG_TYPE,
) -> Any:
    problems.append(ValidationIssue(path=where(path), value=value, wrong=wrong, right=right, code=code))
    return _WRONG


def _decode_dataclass(cls: type) -> Decode:
    # Fields are worked out at first use, so that a dataclass may contain itself.
    plans: dict[str, tuple[Decode, type | None]] = {}
    required: set[str] = set()

    def decode_it(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
        if not plans:
            required.update(field.name for field, _ in fields_of(cls) if default_of(field) is MISSING)
            plans.update((field.name, (_decoder(hint), _TAKEN.get(hint))) for field, hint in fields_of(cls))
        if not isinstance(data, dict):
            return _wrong(path, data, f"is not a table of {cls.__name__}'s fields", _fields_hint(plans), problems)
        before = len(problems)
        values: dict[str, Any] = {}
        for key, held in data.items():
            plan = plans.get(key)
            if plan is None:
                if key != TAG:
                    _wrong(
                        (path, key),
                        held,
                        "is an unknown key",
                        nearest(str(key), list(plans)),
                        problems,
                        IssueCode.UNKNOWN_KEY,
                    )
                continue
            decode_field, taken = plan
            values[key] = held if type(held) is taken else decode_field(held, (path, key), problems)
        if not required <= data.keys():
            for name in plans:
                if name in required and name not in data:
                    _wrong((path, name), None, "is missing", f"{cls.__name__} needs it", problems, IssueCode.MISSING)
        return cls(**values) if len(problems) == before else _WRONG

    return decode_it


def _fields_hint(plans: Mapping[str, Any]) -> str:
    return f"fields are {', '.join(plans)}"


def _decode_union(kind: Any) -> Decode:
    members = get_args(kind)
    classes = {kind_of(cls): _decoder(cls) for cls in members if _is_class(cls)}
    others = [cls for cls in members if not _is_class(cls) and cls is not NoneType]
    optional = NoneType in members
    untagged = next(iter(classes.values())) if classes and _is_optional_dataclass(members) else None
    decode_other = _decode_alternative(others) if others else None

    def decode_it(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
        if data is None and optional:
            return None
        if classes and isinstance(data, dict) and not (others and TAG not in data):
            if untagged:
                return untagged(data, path, problems)
            tag = data.get(TAG)
            if not isinstance(tag, str) or tag not in classes:
                right = nearest(str(tag), list(classes)) if tag else f"one of {', '.join(classes)}"
                return _wrong((path, TAG), tag, "is not a known kind", right, problems, IssueCode.UNKNOWN_KIND)
            return classes[tag](data, path, problems)
        if decode_other:
            return decode_other(data, path, problems)
        return _wrong(path, data, "is not a table", f"write one with kind {' or '.join(classes)}", problems)

    return decode_it


def _decode_alternative(others: list[Any]) -> Decode:
    """Of words or a number: the words for a text, else the number."""
    worded = [cls for cls in others if get_origin(cls) is Literal]
    if len(others) == len(worded) or not worded:
        return _decoder(others[0])
    words, number = _decoder(worded[0]), _decoder(next(cls for cls in others if cls not in worded))
    return lambda data, path, problems: (words if isinstance(data, str) else number)(data, path, problems)


def _decode_list(item: Any) -> Decode:
    decode_item = _decoder(item)

    def decode_it(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
        if not isinstance(data, list):
            return _wrong(path, data, "is not a list", "write a list", problems)
        return tuple([decode_item(each, (path, index), problems) for index, each in enumerate(data)])

    return decode_it


def _decode_table(entry: Any) -> Decode:
    decode_entry = _decoder(entry)

    def decode_it(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
        if not isinstance(data, dict):
            return _wrong(path, data, "is not a table", "write a table of names and values", problems)
        return {str(key): decode_entry(each, (path, key), problems) for key, each in data.items()}

    return decode_it


def _decode_choice(words: list[str], meaning: Mapping[Any, Any]) -> Decode:
    def decode_it(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
        if isinstance(data, str | int) and data in meaning:
            return meaning[data]
        return _wrong(path, data, "is not a choice here", nearest(str(data), words), problems, IssueCode.NOT_A_CHOICE)

    return decode_it


def _is_number(data: Plain) -> bool:
    return type(data) in (int, float) and abs(data) <= _LARGEST  # which NaN and ∞ are not


def _decode_int(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
    if type(data) is int:
        return data
    return _wrong(path, data, "is not a whole number", "write for example 3", problems)


def _decode_float(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
    if _is_number(data):
        return float(data)
    return _wrong(path, data, "is not a number", "write for example 2.5", problems)


def _decode_bool(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
    return data if isinstance(data, bool) else _wrong(path, data, "is not a yes or no", "true or false", problems)


def _decode_text(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
    return data if isinstance(data, str) else _wrong(path, data, "is not a text", "put it in quotes", problems)


def _decode_time(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
    right = "write for example 2026-11-16T12:00:00Z"
    if isinstance(data, datetime):  # YAML reads times by itself
        return data if data.tzinfo else _wrong(path, data, "is a time without a zone", right, problems)
    try:
        time = datetime.fromisoformat(data)
    except (TypeError, ValueError):
        return _wrong(path, data, "is not a time", right, problems)
    return time if time.tzinfo else _wrong(path, data, "is a time without a zone", right, problems)


def _decode_duration(data: Plain, path: Path, problems: list[ValidationIssue]) -> Any:
    match = _DURATION.fullmatch(data) if isinstance(data, str) else None
    seconds = float(match[1]) * _UNITS[match[2]] if match else data
    if _is_number(seconds) and abs(seconds) <= _LONGEST:
        return timedelta(seconds=seconds)
    return _wrong(path, data, "is not a duration", "write seconds as a number, or 90s, 5m, 2h, 7d", problems)


def _decode_anything(data: Plain, _path: Path, _problems: list[ValidationIssue]) -> Any:
    """What is plain already, such as a policy as it was written."""
    return data


_SCALARS: Mapping[Any, Decode] = {
    Any: _decode_anything,
    int: _decode_int,
    float: _decode_float,
    bool: _decode_bool,
    str: _decode_text,
    datetime: _decode_time,
    timedelta: _decode_duration,
}

# Types whose every value stands for itself: nothing is asked of it.
_TAKEN: Mapping[Any, type] = {int: int, bool: bool, str: str}
