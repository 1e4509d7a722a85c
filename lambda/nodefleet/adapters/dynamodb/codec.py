"""What a record holds, as JSON in one attribute: as text while an operator can read it, compressed when it is long.

Versions. The newest code reads what every older one wrote, because a field that is added has a default. The other way
round happens when a deployment is rolled back, and then the autoscaler must not stand still for a field that it does
not know:

    an unknown field               is left out, and a warning says so
    anything else that is unknown  (a kind, a word, a type) is an error that names the record
    a higher format                is an error too

So a field may be added if older code does right without it. A change that alters the meaning of one, renames one, or
adds one that must not be ignored, raises FORMAT.
"""

import json
import re
import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from nodefleet.errors import MalformedError
from nodefleet.model.inventory import Notice
from nodefleet.model.serialization import (
    ROOT,
    TAG,
    IssueCode,
    Path,
    Plain,
    ValidationError,
    ValidationIssue,
    decode,
    kind_of,
    to_plain,
    where,
)
from nodefleet.model.snapshot import Adopt, Command, Drain, Recycle

# ── attributes ───────────────────────────────────────────────────────────────────────────────────────────────────────
# DynamoDB's own form of values and expressions: {"fence": {"N": "7"}}, "#fence = :fence".


Scalar: TypeAlias = str | int | float | bool | bytes | datetime
Attribute: TypeAlias = dict[str, Any]  # one type and its value: {"S": "web"}
Item: TypeAlias = dict[str, Attribute]

_NAME = re.compile(r"#(\w+)")


def to_attribute(value: Scalar) -> Attribute:
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case datetime():
            return {"S": to_plain(value)}
        case _:
            return {"N": repr(value)}


def attributes(values: Mapping[str, Scalar | None]) -> Item:
    """An item's attributes. What is not there (none, an empty text) is left out."""
    return {name: to_attribute(value) for name, value in values.items() if value is not None and value != ""}


def is_item(data: Any) -> bool:
    """Whether something from outside has the form of an item."""
    return isinstance(data, dict) and all(isinstance(held, dict) and len(held) == 1 for held in data.values())


def text(item: Item, name: str) -> str:
    """Empty if it is not there."""
    return str(item.get(name, {}).get("S", ""))


def number(item: Item, name: str) -> int:
    """0 if it is not there; a ValueError if it is something else."""
    return int(item.get(name, {}).get("N", 0))


def size(item: Item) -> int:
    """Bytes, as DynamoDB counts them: names and values. Numbers are counted as their text, which is longer."""
    return sum(len(name.encode()) + _length(held) for name, held in item.items())


def _length(attribute: Attribute) -> int:
    ((_, value),) = attribute.items()
    return len(value if isinstance(value, bytes) else str(value).encode())


def expressions(values: Mapping[str, Scalar], **parts: str) -> dict[str, Any]:
    """The arguments of a call with expressions, such as UpdateExpression.

    Every name is written with a # and listed as such: half of the words that one would choose are reserved. A value
    that no expression mentions is left out, because DynamoDB refuses it."""
    used = {name: part for name, part in parts.items() if part}
    whole = " ".join(used.values())
    names = {f"#{name}": name for name in _NAME.findall(whole)}
    mentioned = {name: to_attribute(value) for name, value in values.items() if re.search(rf"{name}\b", whole)}
    return {
        **used,
        **({"ExpressionAttributeNames": names} if names else {}),
        **({"ExpressionAttributeValues": mentioned} if mentioned else {}),
    }


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
# What each record is called in the table. The names are written here only.
#
# Everything that an iteration needs starts with `state#`, so that one query reads it. That query reads in the order of
# the names, and the lease comes first: it holds the number of wake-ups, and a reader of that number must then read
# what the last of them came for. Were an order or a notice read before the lease, a wake-up could be counted as seen
# whose cause was not.


PARTITION = "cluster_id"
SORT = "record"
TTL = "ttl"  # seconds since 1970; DynamoDB deletes some time after it, so nothing is ever concluded from it

# ── what an iteration needs ──────────────────────────────────────────────────────────────────────────────────────
STATE = "state#"
LEASE = "state#lease"
MEMORY = "state#memory"
NOTICES = "state#notice#"
OPERATIONS = "state#operation#"
ORDERS = "state#order#"
PAUSES = f"{ORDERS}pause#"
POLICY = "state#policy"
PRICES = "state#prices"
TUNINGS = "state#tuning#"
STACK = "state#stack#"
STACK_DEPLOYMENT = f"{STACK}deployment"
STACK_POLICY = f"{STACK}policy"

# ── of all clusters together ─────────────────────────────────────────────────────────────────────────────────────
CLUSTERS = "cluster#"  # those that a deployment for many of them serves
FLEET = f"{STACK}fleet"  # what it has for all of them

# ── what was recorded ────────────────────────────────────────────────────────────────────────────────────────────
DECISIONS = "decision#"
EVENTS = "event#"
POLICIES = "policy#"
TOLD = "told#"  # the ids of events: each is stored once
USAGE = "usage#"

_ALL_POOLS = "*"  # no pool can have this name
_DIGITS = 8  # of a policy's number, so that numbers sort


def stamp(at: datetime) -> str:
    """A time whose texts sort as the times do: always UTC, always with microseconds."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def operation_key(identity: str) -> str:
    return f"{OPERATIONS}{identity}"


def notice_key(notice: Notice) -> str:
    """Each notice has its own record: a doubled one is the same, and retiring one leaves a later one."""
    told = f"#{stamp(notice.told_at)}" if notice.told_at else ""
    return f"{NOTICES}{notice.instance}#{notice.kind.value}#{stamp(notice.at)}{told}"


def order_key(command: Command) -> str:
    """The same for the same kind of command and the same pool or instance, so that the later takes the place of the
    earlier. A drain that no pool's worker is meant by never takes the place of one that is."""
    match command:
        case Drain(pool=pool) if pool:
            subject = f"{command.instance}#{pool}"
        case Adopt() | Drain() | Recycle():
            subject = command.instance
        case _:
            subject = _ALL_POOLS if command.pool is None else command.pool
    return f"{ORDERS}{kind_of(type(command))}#{subject}"


def pool_of(order: str) -> str | None:
    """The pool that an order is for, by its record's name; none: all pools."""
    pool = order.removeprefix(ORDERS).partition("#")[2]
    return None if pool == _ALL_POOLS else pool


def policy_key(number: int) -> str:
    return f"{POLICIES}{number:0{_DIGITS}}"


def event_key(at: datetime, identity: str) -> str:
    return f"{EVENTS}{stamp(at)}#{identity}"


def told_key(identity: str) -> str:
    return f"{TOLD}{identity}"


def decision_key(at: datetime, identity: str) -> str:
    return f"{DECISIONS}{stamp(at)}#{identity}"


def usage_key(hour: datetime) -> str:
    return f"{USAGE}{stamp(hour)}"


def past(prefix: str) -> str:
    """A text that sorts after every record with this prefix and before every other one."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


# ── bodies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


Warn: TypeAlias = Callable[[str], None]

FORMAT = 1
BODY = "body"
VERSION = "format"
_READABLE = 4_000  # bytes that stay as text


def pack(plain: Plain, readable: int = _READABLE) -> str | bytes:
    """As text up to so many bytes, compressed above."""
    try:
        written = json.dumps(plain, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        encoded = written.encode()
    except ValueError as problem:  # not a number, or half a character
        raise MalformedError(f"this cannot be stored: {problem}") from problem
    return written if len(encoded) <= readable else zlib.compress(encoded)


def unpack(attribute: Attribute) -> Plain:
    """Raises ValueError. A stream that reaches Lambda brings bytes in Base64."""
    match attribute:
        case {"S": str(written)}:
            return json.loads(written)
        case {"B": str(encoded)}:
            return unpack({"B": b64decode(encoded, validate=True)})
        case {"B": bytes(compressed)}:
            try:
                return json.loads(zlib.decompress(compressed))
            except zlib.error as problem:
                raise ValueError(str(problem)) from problem
        case _:
            raise ValueError("there is nothing in it")


def with_tag(value: Any) -> Plain:
    """A member of a union, with its kind, so that it can be told from the others."""
    return {TAG: kind_of(type(value)), **to_plain(value)}


def body(item: Item) -> Plain:
    """What the record holds, plain; MalformedError names the record."""
    try:
        version = number(item, VERSION)
        plain = unpack(item.get(BODY, {})) if version <= FORMAT else None
    except ValueError as problem:
        raise unreadable(item, str(problem)) from problem
    if version > FORMAT:
        raise unreadable(item, f"its format {version} is newer than {FORMAT}, the last that this version knows")
    return plain


def decode_body(kind: Any, item: Item, warn: Warn) -> Any:
    """The value that the record holds, without the fields that this version does not know."""
    plain = body(item)
    problems: list[ValidationIssue] = []
    value = decode(kind, plain, problems)
    unknown = {problem.path for problem in problems if problem.code is IssueCode.UNKNOWN_KEY}
    if unknown and len(unknown) == len(problems):
        warn(f"{text(item, SORT)}: {', '.join(sorted(unknown))} unknown to this version, left out")
        problems.clear()
        value = decode(kind, _without(plain, unknown), problems)
    if problems:
        raise unreadable(item, str(ValidationError(problems))) from None
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
