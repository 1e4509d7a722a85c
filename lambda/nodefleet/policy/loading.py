"""A policy from what a file says: checked as a whole, and refused with every problem at once.

It takes parsed content (what YAML or JSON gives), so that nothing here needs a parser.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from nodefleet.model.serialization import (
    IssueCode,
    Plain,
    ValidationError,
    ValidationIssue,
    decode,
    from_plain,
    show_value,
    to_plain,
)
from nodefleet.model.snapshot import ActiveWindow
from nodefleet.policy.cluster import Policy
from nodefleet.policy.constraints import Conflict, find_conflicts, out_of_limits
from nodefleet.policy.file_schema import (
    CLUSTER_PARTS,
    DEFAULT_PRESET,
    NAME,
    POLICY_FILE,
    POOL_PARTS,
    POOLS,
    PRESET,
    PRESETS,
    SHARED_PARTS,
    Keys,
    Part,
    is_table,
    item,
    leaves,
    part,
    path_of,
)
from nodefleet.policy.pool import Pool
from nodefleet.policy.schedule import active_windows, schedule_conflicts, utc_offset

# ── lenient decoding ─────────────────────────────────────────────────────────────────────────────────────────────────
# What can be used of something an operator wrote, and what cannot.
#
# A wrong value must not hide the next one: it is left out and noted, and the rest is checked as if it were not there.


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


def decode_leniently(expected: Part, data: Plain, at: Keys, problems: list[ValidationIssue]) -> LenientValue | None:
    """What can be used of `data`, or none. Notes values beyond their limits; decoding notes everything else."""
    found = _by_parts(expected.hint, data, at, problems)
    unreadable: list[ValidationIssue] = []
    value = decode(expected.hint, found.value, unreadable)
    if unreadable:
        return None
    beyond = out_of_limits(value, expected.about) if expected.about else None
    if beyond is None:
        return found
    code, wrong, right = beyond
    problems.append(ValidationIssue(path=path_of(at), value=data, wrong=wrong, right=right, code=code))
    return None


def decode_table_leniently(
    expected: Mapping[Any, Part | None], data: Plain, at: Keys, problems: list[ValidationIssue]
) -> LenientValue:
    """What can be used of a table, if its parts are to be as expected."""
    parts = {
        key: decode_leniently(inner, data[key], (*at, key), problems) if inner else None
        for key, inner in expected.items()
    }
    kept = {str(key): each for key, each in parts.items() if each}
    lost: set[Keys] = {(str(key),) for key, each in parts.items() if not each}
    return _join({key: each.value for key, each in kept.items()}, kept.items(), lost, at)


def _by_parts(hint: Any, data: Plain, at: Keys, problems: list[ValidationIssue]) -> LenientValue:
    if isinstance(data, dict):
        return decode_table_leniently({key: part(hint, data, key) for key in data}, data, at, problems)
    inner = item(hint)
    if isinstance(data, list) and inner:
        return _list([decode_leniently(inner, each, (*at, index), problems) for index, each in enumerate(data)], at)
    return LenientValue(value=data, places={(): at})


def _list(items: list[LenientValue | None], at: Keys) -> LenientValue:
    kept = [each for each in items if each]
    lost: set[Keys] = {(SOME_ITEM,)} if len(kept) < len(items) else set()
    return _join([each.value for each in kept], enumerate(kept), lost, at)


def _join(value: Plain, parts: Iterable[tuple[str | int, LenientValue]], lost: set[Keys], at: Keys) -> LenientValue:
    places: dict[Keys, Keys] = {(): at}
    broken = set(lost)
    for key, each in parts:
        places |= {(key, *keys): place for keys, place in each.places.items()}
        broken |= {(key, *keys) for keys in each.broken}
    return LenientValue(value=value, places=places, broken=frozenset(broken))


# ── merge of defaults, preset, file and pool ─────────────────────────────────────────────────────────────────────────
# Defaults, preset, file and pool laid over each other. Who said what is kept: `policy show` and problems name it.


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


# ── loading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    policy: Policy
    origins: Mapping[str, str]  # of every single value: pools[0].limits.min → "preset low-latency"


def load(data: Plain) -> Loaded:
    """The policy that a file's content stands for, or a RefusedError with everything that is wrong with it."""
    data = {} if data is None else data  # an empty file is all defaults
    problems: list[ValidationIssue] = []
    decode(POLICY_FILE, data, problems)
    written = decode_leniently(Part(hint=POLICY_FILE), data, (), problems) or LenientValue(value={}, places={(): ()})
    problems += _nameless(data)

    layers = _merge_layers(written)
    policy = from_plain(Policy, layers.value)
    sure = [clash for clash in (*find_conflicts(policy), *schedule_conflicts(policy)) if not _is_unsure(clash, layers)]
    problems += [_to_issue(clash, layers, data) for clash in sure]
    if problems:
        raise ValidationError(_once(problems))
    origins = {path_of(leaf.keys): layers.origin(leaf.keys) for leaf in leaves(policy, Policy)}
    return Loaded(policy=policy, origins=origins)


def salvage(data: Plain) -> Policy:
    """A policy to hold a fleet by, from a content that is refused: every value that is sound alone, and the defaults.

    Rules that bring nodes or take them are left out: a held fleet follows no signal, and half a rule is another rule.
    Pools that cannot be read are left out too; their workers are unowned, and nothing is removed.
    """
    written = decode_leniently(Part(hint=POLICY_FILE), {} if data is None else data, (), [])
    if written is None or (POOLS,) in written.broken:
        return Policy(pools=())
    policy = from_plain(Policy, _merge_layers(written).value)
    named = [NAME in pool for pool in written.value[POOLS]] if POOLS in written.value else [True]
    pools: dict[str, Pool] = {}
    for pool, has_name in zip(policy.pools, named, strict=True):
        if has_name:
            pools.setdefault(pool.name, _without_rules(pool))
    policy = replace(policy, pools=tuple(pools.values()))
    if any(clash.keys[0] != POOLS for clash in (*find_conflicts(policy), *schedule_conflicts(policy))):
        usual = Policy()
        policy = replace(
            policy, interval=usual.interval, lease=usual.lease, burst=usual.burst, time_zone=usual.time_zone
        )
    return policy


def _without_rules(pool: Pool) -> Pool:
    return replace(pool, windows=(), custom=(), readings={}, predictive=replace(pool.predictive, enabled=False))


def _nameless(data: Plain) -> Iterator[ValidationIssue]:
    pools = data.get(POOLS) if isinstance(data, dict) else None
    for index, pool in enumerate(pools if isinstance(pools, list) else []):
        if isinstance(pool, dict) and NAME not in pool:
            path = path_of((POOLS, index, NAME))
            yield ValidationIssue(
                path=path,
                value=None,
                wrong="is missing",
                right="each of several pools needs a name",
                code=IssueCode.MISSING,
            )


def _merge_layers(written: LenientValue) -> MergedLayers:
    """defaults → preset (the pool's own, or the file's) → file → pool"""
    layers = MergedLayers()
    layers.lay(written, CLUSTER_PARTS, FILE)
    if POOLS not in written.value:
        under = layers.add_pool(())
        _lay_preset(layers, written, under)
        layers.lay(written, SHARED_PARTS, FILE, under)
        return layers
    for index, pool in enumerate(written.value[POOLS]):
        own = written.inside((POOLS, index))
        under = layers.add_pool(own.places[()])
        _lay_preset(layers, own if PRESET in pool or (PRESET,) in own.broken else written, under)
        layers.lay(written, SHARED_PARTS, FILE, under)
        if NAME not in pool:
            layers.broken.add((*under, NAME))
        layers.lay(own, POOL_PARTS, f"{FILE}, pool {pool.get(NAME, index)}", under)
    layers.broken |= {keys for keys in written.broken if keys[0] == POOLS}
    return layers


def _lay_preset(layers: MergedLayers, chooser: LenientValue, under: Keys) -> None:
    name = chooser.value.get(PRESET) or DEFAULT_PRESET
    layers.lay(LenientValue(value=PRESETS[name].overrides, places={}), SHARED_PARTS, f"preset {name}", under)
    if (PRESET,) in chooser.broken:
        # Whatever a preset could have said is not known.
        said = [(section, key) for each in PRESETS.values() for section, keys in each.overrides.items() for key in keys]
        layers.broken |= {(*under, *keys) for keys in said}


def _is_unsure(clash: Conflict, layers: MergedLayers) -> bool:
    """It rests on something that is a problem already."""
    other = (clash.other,) if clash.other else ()
    return any(map(layers.is_unsure, (clash.keys, *other, *clash.rests_on)))


def _to_issue(clash: Conflict, layers: MergedLayers, data: Plain) -> ValidationIssue:
    """The clash as a problem of the file, at the field that is written there."""
    mirror = clash.mirror
    if mirror and layers.is_written(mirror.keys) and not layers.is_written(clash.keys):
        clash = mirror
    other = ""
    if clash.other:
        origin = "" if layers.is_written(clash.other) else f", {layers.origin(clash.other)}"
        held = _written_value(data, layers.place(clash.other), clash.other_value)
        other = f"{path_of(layers.place(clash.other))} ({show_value(held)}{origin})"
    place = layers.place(clash.keys)
    return clash.to_issue(path_of(place), _written_value(data, place, clash.value), other)


def _written_value(data: Plain, place: Keys, value: object) -> Plain:
    """What the file says there, as it says it; else the value."""
    for key in place:
        try:
            data = data[key]
        except (KeyError, TypeError):
            plain = to_plain(value)
            return int(plain) if isinstance(plain, float) and plain.is_integer() else plain
    return data


def _once(problems: list[ValidationIssue]) -> list[ValidationIssue]:
    """What holds for every pool is wrong once, not once for each."""
    return list({(problem.path, problem.wrong, problem.right): problem for problem in problems}.values())


# ── reader for the loop ──────────────────────────────────────────────────────────────────────────────────────────────
# Policies as the loop reads them. A text that was read once is not read again: it is the same on every iteration.


_KEPT = 16  # texts


def digest_of(data: Any) -> str:
    """The same for the same content, however its keys are ordered."""
    return sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class PolicyReader:
    def __init__(self) -> None:
        self._read: dict[str, Policy] = {}

    def read(self, data: Any) -> Policy:
        digest = digest_of(data)
        if digest not in self._read:
            if len(self._read) >= _KEPT:
                self._read.clear()
            self._read[digest] = load(data).policy
        return self._read[digest]

    def salvage(self, data: Any) -> Policy:
        return salvage(data)

    def windows(self, policy: Policy, now: datetime) -> tuple[ActiveWindow, ...]:
        return active_windows(policy, now)

    def utc_offset(self, policy: Policy, now: datetime) -> timedelta:
        return utc_offset(policy, now)
