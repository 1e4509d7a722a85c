"""The shape of a policy file, which is shorter than the policy it stands for, and its layers: defaults, preset, file.

    preset: low-latency          a bundle of numbers, if any
    interval: 120                what holds for the cluster
    limits: {max: 20}            what holds for every pool
    pools:                       and for single ones; without it there is one pool, `default`
      - name: gpu
        limits: {max: 4}

Its types are made from the policy's own, so that a new setting is in the file, the checks and the schema at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, is_dataclass, make_dataclass
from functools import reduce
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

from nodefleet.model.serialization import ROOT, TAG, Path, Plain, fields_of, kind_of, to_plain, where
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


# ── merge of defaults, preset, file and pool ─────────────────────────────────────────────────────────────────────────
# Defaults, preset, file and pool laid over each other. Who said what is kept: `policy show` and problems name it.


SOME_ITEM = "some item"  # stands for items that were left out of a list


@dataclass(frozen=True, slots=True, kw_only=True)
class LenientValue:
    """The usable part of a value. All keys count from that value on; `places` says where each part stands."""

    value: Plain
    places: Mapping[Keys, Keys]
    broken: frozenset[Keys] = frozenset()

    def inside(self, at: Keys) -> "LenientValue":
        """The same of one part."""
        value = self.value
        for key in at:
            value = value[key]
        depth = len(at)
        places = {keys[depth:]: place for keys, place in self.places.items() if keys[:depth] == at}
        broken = frozenset(keys[depth:] for keys in self.broken if keys[:depth] == at)
        return LenientValue(value=value, places=places, broken=broken)


DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Trace:
    origin: str
    place: Keys | None = None  # in the file, if it is written there


@dataclass(slots=True)
class MergedLayers:
    """A policy in the making, as plain data."""

    value: dict[str, Plain] = field(default_factory=lambda: dict(to_plain(Policy(pools=()), full=True)))
    traces: dict[Keys, Trace] = field(default_factory=dict)  # of everything that is not a default
    broken: set[Keys] = field(default_factory=set)  # what was written but cannot be used

    def add_pool(self, place: Keys) -> Keys:
        """A pool of defaults; what it has not written itself would stand at `place`."""
        pools = self.value["pools"]
        pools.append(to_plain(Pool(), full=True))
        keys = ("pools", len(pools) - 1)
        self.traces[keys] = Trace(DEFAULT, place)
        return keys

    def lay(self, layer: LenientValue, parts: Mapping[str, Part], origin: str, under: Keys = ()) -> None:
        """Puts what `layer` says of these parts over what is there: tables merge, all else replaces."""
        for key, value in layer.value.items():
            if key in parts:
                self._lay(value, parts[key].hint, layer.places, origin, (*under, key), (key,))
        self.broken |= {(*under, *keys) for keys in layer.broken if keys[0] in parts}

    def origin(self, keys: Keys) -> str:
        trace = self.traces.get(keys)
        return trace.origin if trace else DEFAULT

    def is_written(self, keys: Keys) -> bool:
        trace = self.traces.get(keys)
        return trace is not None and trace.place is not None

    def place(self, keys: Keys) -> Keys:
        """Where in the file this stands, or would."""
        for length in range(len(keys), 0, -1):
            trace = self.traces.get(keys[:length])
            if trace and trace.place is not None:
                return (*trace.place, *keys[length:])
        return keys

    def is_unsure(self, keys: Keys) -> bool:
        """Something written here, or around it, or inside it, cannot be used."""
        return any(lost[: len(keys)] == keys or keys[: len(lost)] == lost for lost in self.broken)

    def _lay(self, value: Plain, hint: Any, places: Mapping[Keys, Keys], origin: str, keys: Keys, source: Keys) -> None:
        if is_table(hint):
            self.traces[keys] = Trace(origin, places.get(source))
            for key, each in value.items():
                inner = part(hint, value, key)
                if inner:
                    self._lay(each, inner.hint, places, origin, (*keys, key), (*source, key))
            return
        self._forget(keys)
        holder: Any = self.value
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value
        for inside in _nodes(value):
            self.traces[*keys, *inside] = Trace(origin, places.get((*source, *inside)))

    def _forget(self, keys: Keys) -> None:
        self.traces = {at: trace for at, trace in self.traces.items() if at[: len(keys)] != keys}
        self.broken = {at for at in self.broken if at[: len(keys)] != keys}


def _nodes(value: Plain) -> Iterator[Keys]:
    yield ()
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        for inside in _nodes(each):
            yield (key, *inside)
