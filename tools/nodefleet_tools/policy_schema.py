"""The policy file as JSON Schema (draft 2020-12), so that editors complete, explain and check while one types.

Everything in it comes from the types and from what the fields say of themselves. It knows less than `policy check`:
a schema cannot compare two fields.
"""

from dataclasses import MISSING
from datetime import datetime, timedelta
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from nodefleet.model.serialization import TAG, Plain, default_of, fields_of, kind_of, to_plain
from nodefleet.policy.fields import FieldInfo, about
from nodefleet.policy.file_schema import (
    NAME,
    POLICY_FILE,
    POOL_IN_FILE,
    POOLS,
    PRESET,
    PRESETS,
    classes_of,
    is_table,
    is_tagged,
    item,
)

Schema: TypeAlias = dict[str, Plain]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DURATION: Schema = {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[smhd]$"}
_SCALARS: dict[Any, Schema] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
}


def schema() -> Schema:
    defs: dict[str, Schema] = {}
    root = _object(POLICY_FILE, defs, tag=None)
    root["properties"][POOLS] |= {"minItems": 1}
    return {
        "$schema": DIALECT,
        "title": "node-fleet scaling policy",
        **root,
        "description": "Every field may be left out. Check a file with `nodefleet policy check`.",
        "$defs": dict(sorted(defs.items())),
    }


def _object(cls: type, defs: dict[str, Schema], *, tag: str | None) -> Schema:
    properties: dict[str, Schema] = {TAG: {"const": tag}} if tag else {}
    required = [TAG] if tag else []
    for declared, hint in fields_of(cls):
        default = default_of(declared)
        properties[declared.name] = _property(hint, about(declared), default, defs)
        if default is MISSING or (cls is POOL_IN_FILE and declared.name == NAME):
            required.append(declared.name)
            properties[declared.name].pop("default", None)
    if PRESET in properties:
        properties[PRESET]["description"] += "\n" + "\n".join(f"{name}: {p.trades}" for name, p in PRESETS.items())
    described = {"description": cleandoc(str(cls.__doc__))} if _is_described(cls) else {}
    needs = {"required": required} if required else {}
    return {**described, "type": "object", "properties": properties, **needs, "additionalProperties": False}


def _is_described(cls: type) -> bool:
    """Dataclasses without a docstring get their signature as one."""
    return bool(cls.__doc__) and not str(cls.__doc__).startswith(f"{cls.__name__}(")


def _property(hint: Any, said: FieldInfo | None, default: Any, defs: dict[str, Schema]) -> Schema:
    result = dict(_of_type(hint, said, defs))
    if said:
        result["description"] = _description(said)
    # A section's defaults stand at its fields, unless this one's differ from them.
    if default is not MISSING and not (is_table(hint) and default == type(default)()):
        result["default"] = _plain_default(default, hint)
    return result


def _plain_default(default: Any, hint: Any) -> Plain:
    plain = to_plain(default, full=True)
    if is_tagged(hint) and default is not None:
        return {TAG: kind_of(type(default)), **plain}
    return list(plain) if isinstance(plain, tuple) else plain


def _description(said: FieldInfo) -> str:
    unit = f" ({said.unit})" if said.unit else ""
    hint = f". {said.hint[0].upper()}{said.hint[1:]}" if said.hint else ""
    return f"{said.why}{unit}{hint}"


def _of_type(hint: Any, said: FieldInfo | None, defs: dict[str, Schema]) -> Schema:
    origin = get_origin(hint)
    inner = item(hint)
    if inner:
        return {"type": "array", "items": _of_type(inner.hint, None, defs)}
    if is_tagged(hint):
        return {"oneOf": [_reference(cls, defs, tag=kind_of(cls)) for cls in classes_of(hint)]}
    if origin in (Union, UnionType):
        members = [_of_type(member, said, defs) for member in get_args(hint) if member is not NoneType]
        none: list[Schema] = [{"type": "null"}] if NoneType in get_args(hint) else []
        return {"anyOf": [*members, *none]}
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    if is_table(hint) and origin:
        return {"type": "object", "additionalProperties": _of_type(get_args(hint)[1], None, defs)}
    if is_table(hint):
        return _reference(hint, defs, tag=None)
    if issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    if hint is timedelta:
        return {"anyOf": [{"type": "number", **_limits(said)}, _DURATION]}
    if hint is str:
        return {"type": "string", "pattern": r"\S"} if said else {"type": "string"}
    return {**_SCALARS[hint], **_limits(said)}


def _limits(said: FieldInfo | None) -> Schema:
    if said is None:
        return {}
    limits = {"minimum": said.at_least, "exclusiveMinimum": said.above, "maximum": said.at_most}
    return {word: limit for word, limit in limits.items() if limit is not None}


def _reference(cls: type, defs: dict[str, Schema], *, tag: str | None) -> Schema:
    name = tag or cls.__name__
    if name not in defs:
        defs[name] = {}  # so that a class may contain itself
        defs[name] = _object(cls, defs, tag=tag)
    return {"$ref": f"#/$defs/{name}"}
