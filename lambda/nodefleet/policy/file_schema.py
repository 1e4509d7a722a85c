"""The shape of a policy file, which is shorter than the policy it stands for.

    preset: low-latency          a bundle of numbers, if any
    interval: 120                what holds for the cluster
    limits: {max: 20}            what holds for every pool
    pools:                       and for single ones; without it there is one pool, `default`
      - name: gpu
        limits: {max: 4}

Its types are made from the policy's own, so that a new setting is in the file, the checks and the schema at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, is_dataclass, make_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import reduce
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from nodefleet.model.serialization import ROOT, TAG, Path, Plain, default_of, fields_of, kind_of, to_plain, where
from nodefleet.policy.cluster import Policy
from nodefleet.policy.fields import FieldInfo, about, describe
from nodefleet.policy.pool import Pool

# ── walking the types ────────────────────────────────────────────────────────────────────────────────────────────────
# How the policy's types look to the loader, the checks, `policy show` and the JSON Schema.


Keys: TypeAlias = tuple[str | int, ...]  # ("pools", 0, "limits", "min")


def link_keys(keys: Keys) -> Path:
    """The keys as the codec chains them."""
    chain: Path = reduce(lambda path, key: (path, key), keys, ROOT)
    return chain


def path_of(keys: Keys) -> str:
    """The keys as an operator writes them: pools[0].limits.min."""
    return where(link_keys(keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a table or a list holds in one place: its type, and what the field says of itself."""

    hint: Any
    about: FieldInfo | None = None


def is_table(hint: Any) -> bool:
    """Tables merge, layer by layer. Lists and tagged unions replace what was there."""
    return _is_class(hint) or _is_mapping(hint)


def is_tagged(hint: Any) -> bool:
    """A choice between several dataclasses, told apart by `kind`."""
    return len(classes_of(hint)) > 1


def classes_of(hint: Any) -> tuple[type, ...]:
    """The dataclasses that may stand here."""
    return (hint,) if _is_class(hint) else tuple(filter(_is_class, _members(hint)))


def parts_of(cls: type) -> Mapping[str, Part]:
    return {field.name: Part(hint=hint, about=about(field)) for field, hint in fields_of(cls)}


def part(hint: Any, table: Mapping[Any, Any], key: Any) -> Part | None:
    """What belongs under `key` of a table of this type, or none if nothing does."""
    if _is_mapping(hint):
        return Part(hint=get_args(hint)[1])
    if is_tagged(hint) and key == TAG:
        return Part(hint=str)
    chosen = [cls for cls in classes_of(hint) if not is_tagged(hint) or kind_of(cls) == table.get(TAG)]
    return parts_of(chosen[0]).get(key) if chosen else None


def item(hint: Any) -> Part | None:
    """What a list of this type holds, or none if it is no list."""
    return Part(hint=get_args(hint)[0]) if get_origin(hint) is tuple else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A single value of a policy, and what its field says of it."""

    keys: Keys
    value: Any
    about: FieldInfo | None


def leaves(value: Any, hint: Any, keys: Keys = (), said: FieldInfo | None = None) -> Iterator[Leaf]:
    """Every single value, in the order of the fields. A list of plain values is one, and so is an empty table."""
    if is_dataclass(value):
        if is_tagged(hint):
            yield Leaf(keys=(*keys, TAG), value=kind_of(type(value)), about=said)
        for name, inner in parts_of(type(value)).items():
            yield from leaves(getattr(value, name), inner.hint, (*keys, name), inner.about)
    elif isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from leaves(each, get_args(hint)[1], (*keys, name))
    elif isinstance(value, tuple) and any(map(is_dataclass, value)):
        for index, each in enumerate(value):
            yield from leaves(each, get_args(hint)[0], (*keys, index))
    else:
        yield Leaf(keys=keys, value=value, about=said)


def value_at(root: Any, keys: Keys) -> Any:
    """What stands at `keys` of a policy."""
    for key in keys:
        root = getattr(root, str(key)) if is_dataclass(root) else root[key]
    return root


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else ()


def _is_class(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _is_mapping(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Mapping)


# ── presets ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Bundles of numbers that belong together, for operators who know what they want but not yet which figures say it.
#
# A preset is a table of overrides, in the form of a policy file: whatever the file says itself wins over it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    trades: str  # what it gives, and for what
    overrides: Mapping[str, Any]  # plain, as a file would say it


DEFAULT_PRESET = "node-fleet"

PRESETS: Mapping[str, Preset] = {
    DEFAULT_PRESET: Preset(
        trades="A small cluster for services: one node at a time, capacity given back after ten calm minutes.",
        overrides={},
    ),
    "low-latency": Preset(
        trades="Answers spikes at once and keeps spare nodes for it; costs the most for the same work.",
        overrides={
            "limits": {"min": 4, "max": 24},
            "steps": {"up": 3, "urgent": 3, "down": 1, "pending": "packing"},
            "sustain": {"up": {"kind": "readings", "count": 1}},  # a spike is answered by the reading that shows it
            "cooldown": {"up": 60},  # and the next one too, while the nodes for the first still boot
            "targets": {"queue": 10, "p95_ms": 500},
        },
    ),
    "high-throughput": Preset(
        trades="Takes large batches with big steps in both directions; a single job may wait for seconds.",
        overrides={
            "limits": {"min": 8, "max": 48},
            "steps": {"up": 4, "urgent": 4, "down": 2, "pending": "packing"},
            "budgets": {"removals": 2},  # otherwise two nodes could not leave at once
            "targets": {"queue": 200, "p95_ms": 5000},
        },
    ),
    "balanced": Preset(
        trades="Moderate cost and moderate latency, for work of no special kind.",
        overrides={
            "limits": {"min": 1, "max": 12},
            "steps": {"up": 2, "urgent": 2, "down": 1, "pending": "packing"},
            "targets": {"queue": 50, "p95_ms": 2000},
        },
    ),
    "cost-optimized": Preset(
        trades="The smallest bill: few nodes, one step at a time; work waits longer before it gets more.",
        overrides={
            "limits": {"min": 1, "max": 6},
            "steps": {"up": 1, "urgent": 1, "down": 1, "pending": "packing"},
            "targets": {"queue": 100, "p95_ms": 8000},
        },
    ),
}


# ── the file's model ─────────────────────────────────────────────────────────────────────────────────────────────────


_Declared: TypeAlias = tuple[str, Any, Any]

PRESET, POOLS, NAME = "preset", "pools", "name"

CLUSTER_PARTS: Mapping[str, Part] = {key: part for key, part in parts_of(Policy).items() if key != POOLS}
POOL_PARTS: Mapping[str, Part] = parts_of(Pool)
SHARED_PARTS: Mapping[str, Part] = {key: part for key, part in POOL_PARTS.items() if key != NAME}


def _declare(cls: type, names: Iterable[str]) -> list[_Declared]:
    return [(each.name, hint, _again(each)) for each, hint in fields_of(cls) if each.name in names]


def _again(declared: Field[Any]) -> Any:
    return field(default=declared.default, default_factory=declared.default_factory, metadata=declared.metadata)


def _preset(why: str) -> _Declared:
    names: Any = Literal.__getitem__(tuple(PRESETS))
    return (PRESET, names | None, field(default=None, metadata=describe(why)))


POOL_IN_FILE: Any = make_dataclass(
    "Pool",
    [_preset("for this pool instead of the file's"), *_declare(Pool, POOL_PARTS)],
    frozen=True,
    kw_only=True,
)
POLICY_FILE: Any = make_dataclass(
    "Policy",
    [
        _preset("a bundle of numbers that belong together; what the file says itself wins"),
        *_declare(Policy, CLUSTER_PARTS),
        *_declare(Pool, SHARED_PARTS),
        (POOLS, tuple[POOL_IN_FILE, ...], field(default=(), metadata=describe("without any there is one, `default`"))),
    ],
    frozen=True,
    kw_only=True,
)


# ── JSON Schema ──────────────────────────────────────────────────────────────────────────────────────────────────────
# The policy file as JSON Schema (draft 2020-12), so that editors complete, explain and check while one types.
#
# Everything in it comes from the types and from what the fields say of themselves. It knows less than `policy check`:
# a schema cannot compare two fields.


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
