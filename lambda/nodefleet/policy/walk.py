"""How the policy's types look to code that walks them: the loader, the checks, `policy show` and the JSON Schema."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import reduce
from types import UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin

from nodefleet.model.serialization import ROOT, TAG, Path, fields_of, kind_of, where
from nodefleet.policy.fields import FieldInfo, about

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
