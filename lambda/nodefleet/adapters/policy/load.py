"""A policy from what a file says: checked as a whole, and refused with every problem at once.

It takes parsed content (what YAML or JSON gives), so that nothing here needs a parser.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nodefleet.adapters.policy.form import (
    CLUSTER_PARTS,
    NAME,
    POLICY_FILE,
    POOL_PARTS,
    POOLS,
    PRESET,
    SHARED_PARTS,
)
from nodefleet.adapters.policy.layers import Layers
from nodefleet.adapters.policy.schedule import schedule_clashes
from nodefleet.adapters.policy.sound import Sound, sound
from nodefleet.domain.plain import Plain, decode, from_plain, to_plain
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.policy.clashes import Clash, clashes
from nodefleet.domain.policy.presets import DEFAULT_PRESET, PRESETS
from nodefleet.domain.policy.shape import Keys, Part, leaves, path_of
from nodefleet.domain.problems import IssueCode, Problem, RefusedError, shown

FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    policy: Policy
    origins: Mapping[str, str]  # of every single value: pools[0].limits.min → "preset low-latency"


def load(data: Plain) -> Loaded:
    """The policy that a file's content stands for, or a RefusedError with everything that is wrong with it."""
    data = {} if data is None else data  # an empty file is all defaults
    problems: list[Problem] = []
    decode(POLICY_FILE, data, problems)
    written = sound(Part(hint=POLICY_FILE), data, (), problems) or Sound(value={}, places={(): ()})
    problems += _nameless(data)

    layers = _layered(written)
    policy = from_plain(Policy, layers.value)
    sure = [clash for clash in (*clashes(policy), *schedule_clashes(policy)) if not _is_unsure(clash, layers)]
    problems += [_told(clash, layers, data) for clash in sure]
    if problems:
        raise RefusedError(_once(problems))
    origins = {path_of(leaf.keys): layers.origin(leaf.keys) for leaf in leaves(policy, Policy)}
    return Loaded(policy=policy, origins=origins)


def salvage(data: Plain) -> Policy:
    """A policy to hold a fleet by, from a content that is refused: every value that is sound alone, and the defaults.

    Rules that bring nodes or take them are left out: a held fleet follows no signal, and half a rule is another rule.
    Pools that cannot be read are left out too; their workers are nobody's, and nothing is removed.
    """
    written = sound(Part(hint=POLICY_FILE), {} if data is None else data, (), [])
    if written is None or (POOLS,) in written.broken:
        return Policy(pools=())
    policy = from_plain(Policy, _layered(written).value)
    named = [NAME in pool for pool in written.value[POOLS]] if POOLS in written.value else [True]
    pools: dict[str, Pool] = {}
    for pool, has_name in zip(policy.pools, named, strict=True):
        if has_name:
            pools.setdefault(pool.name, _without_rules(pool))
    policy = replace(policy, pools=tuple(pools.values()))
    if any(clash.keys[0] != POOLS for clash in (*clashes(policy), *schedule_clashes(policy))):
        usual = Policy()
        policy = replace(
            policy, interval=usual.interval, lease=usual.lease, burst=usual.burst, time_zone=usual.time_zone
        )
    return policy


def _without_rules(pool: Pool) -> Pool:
    return replace(pool, windows=(), custom=(), readings={}, predictive=replace(pool.predictive, enabled=False))


def _nameless(data: Plain) -> Iterator[Problem]:
    pools = data.get(POOLS) if isinstance(data, dict) else None
    for index, pool in enumerate(pools if isinstance(pools, list) else []):
        if isinstance(pool, dict) and NAME not in pool:
            path = path_of((POOLS, index, NAME))
            yield Problem(
                path=path,
                value=None,
                wrong="is missing",
                right="each of several pools needs a name",
                code=IssueCode.MISSING,
            )


def _layered(written: Sound) -> Layers:
    """defaults → preset (the pool's own, or the file's) → file → pool"""
    layers = Layers()
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


def _lay_preset(layers: Layers, chooser: Sound, under: Keys) -> None:
    name = chooser.value.get(PRESET) or DEFAULT_PRESET
    layers.lay(Sound(value=PRESETS[name].overrides, places={}), SHARED_PARTS, f"preset {name}", under)
    if (PRESET,) in chooser.broken:
        # Whatever a preset could have said is not known.
        said = [(section, key) for each in PRESETS.values() for section, keys in each.overrides.items() for key in keys]
        layers.broken |= {(*under, *keys) for keys in said}


def _is_unsure(clash: Clash, layers: Layers) -> bool:
    """It rests on something that is a problem already."""
    other = (clash.other,) if clash.other else ()
    return any(map(layers.is_unsure, (clash.keys, *other, *clash.rests_on)))


def _told(clash: Clash, layers: Layers, data: Plain) -> Problem:
    """The clash as a problem of the file, at the field that is written there."""
    mirror = clash.mirror
    if mirror and layers.is_written(mirror.keys) and not layers.is_written(clash.keys):
        clash = mirror
    other = ""
    if clash.other:
        origin = "" if layers.is_written(clash.other) else f", {layers.origin(clash.other)}"
        held = _held(data, layers.place(clash.other), clash.other_value)
        other = f"{path_of(layers.place(clash.other))} ({shown(held)}{origin})"
    place = layers.place(clash.keys)
    return clash.told(path_of(place), _held(data, place, clash.value), other)


def _held(data: Plain, place: Keys, value: object) -> Plain:
    """What the file says there, as it says it; else the value."""
    for key in place:
        try:
            data = data[key]
        except (KeyError, TypeError):
            plain = to_plain(value)
            return int(plain) if isinstance(plain, float) and plain.is_integer() else plain
    return data


def _once(problems: list[Problem]) -> list[Problem]:
    """What holds for every pool is wrong once, not once for each."""
    return list({(problem.path, problem.wrong, problem.right): problem for problem in problems}.values())
