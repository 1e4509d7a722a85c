"""DynamoDB's own form of values and expressions: {"fence": {"N": "7"}}, "#fence = :fence"."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

from nodefleet.domain.plain import to_plain

Scalar: TypeAlias = str | int | float | bool | bytes | datetime
Attribute: TypeAlias = dict[str, Any]  # one type and its value: {"S": "web"}
Item: TypeAlias = dict[str, Attribute]

_NAME = re.compile(r"#(\w+)")


def typed(value: Scalar) -> Attribute:
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
    return {name: typed(value) for name, value in values.items() if value is not None and value != ""}


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
    mentioned = {name: typed(value) for name, value in values.items() if re.search(rf"{name}\b", whole)}
    return {
        **used,
        **({"ExpressionAttributeNames": names} if names else {}),
        **({"ExpressionAttributeValues": mentioned} if mentioned else {}),
    }
