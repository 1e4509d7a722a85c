"""A policy from what a file says: checked as a whole, and refused with every problem at once.

It takes parsed content (what YAML or JSON gives), so that nothing here needs a parser.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

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
    SOME_ITEM,
    Keys,
    LenientValue,
    MergedLayers,
    Part,
    item,
    leaves,
    part,
    path_of,
)
from nodefleet.policy.pool import Pool, Window

# ── lenient decoding ─────────────────────────────────────────────────────────────────────────────────────────────────
# What can be used of something an operator wrote, and what cannot.
#
# A wrong value must not hide the next one: it is left out and noted, and the rest is checked as if it were not there.


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


# ── cron expressions and time zones ──────────────────────────────────────────────────────────────────────────────────
# Worked out here so that the core needs neither.
#
# A window opens at each match of its cron, read in its time zone, and stays open for so much real time: when the clocks
# change it lasts as long as on any other day. A time that the change skips opens right after it; one that comes twice
# opens the first time, and both times if its minute or hour is a `*`.


_FIELDS = 5
_FIRST_STRETCH = timedelta(hours=2)
_LONGEST_CHANGE = timedelta(hours=3)  # of the clocks, with room to spare
_MINUTE = timedelta(minutes=1)
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def active_windows(policy: Policy, now: datetime) -> tuple[ActiveWindow, ...]:
    """The windows of all pools that are open at `now`."""
    found = []
    for pool in policy.pools:
        for window in pool.windows:
            opened = _last_opening(window, ZoneInfo(window.time_zone or policy.time_zone), now)
            if opened:
                until = opened + window.lasting
                found.append(
                    ActiveWindow(pool=pool.name, name=window.name, until=until, min=window.min, max=window.max)
                )
    return tuple(found)


def utc_offset(policy: Policy, now: datetime) -> timedelta:
    """How far the policy's time zone is ahead of UTC at `now`."""
    return now.astimezone(ZoneInfo(policy.time_zone)).utcoffset() or timedelta(0)


def schedule_conflicts(policy: Policy) -> Iterator[Conflict]:
    """Time zones and cron expressions that do not exist."""
    yield from _zone(policy.time_zone, ("time_zone",))
    for number, pool in enumerate(policy.pools):
        for index, window in enumerate(pool.windows):
            at = ("pools", number, "windows", index)
            yield from _cron(window.cron, (*at, "cron"))
            if window.time_zone is not None:
                yield from _zone(window.time_zone, (*at, "time_zone"))


def _last_opening(window: Window, zone: ZoneInfo, now: datetime) -> datetime | None:
    """The last match before or at `now` whose window is still open, in UTC."""
    stretch = min(_FIRST_STRETCH, window.lasting)
    while True:
        last = max((each for each in _openings(window.cron, zone, now - stretch, now) if each <= now), default=None)
        if last and now < last + window.lasting:
            return last
        if stretch == window.lasting:
            return None
        stretch = min(2 * stretch, window.lasting)


def _openings(cron: str, zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[datetime]:
    """Matches between start and end, and a few around them, in UTC.

    CronSim reads the wall clock without a zone: with one, it skips matches where the clocks change by half an hour.
    """
    minute, hour, *_ = cron.split()
    repeats = minute.startswith("*") or hour.startswith("*")
    for match in CronSim(cron, (start - _LONGEST_CHANGE).astimezone(zone).replace(tzinfo=None)):
        wall = match
        while _is_skipped(wall, zone):
            wall += _MINUTE
        opened = wall.replace(tzinfo=zone).astimezone(UTC)
        if opened > end:
            return
        yield opened
        if repeats:
            yield wall.replace(tzinfo=zone, fold=1).astimezone(UTC)


def _is_skipped(wall: datetime, zone: ZoneInfo) -> bool:
    """Whether the clocks never show this time."""
    return wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall


def _cron(expression: str, keys: Keys) -> Iterator[Conflict]:
    right = 'write five fields, for example "0 8 * * 1-5" for 8:00 from Monday to Friday'
    wrong = ""
    try:
        if len(expression.split()) != _FIELDS:
            wrong = "has not five fields"
        elif next(CronSim(expression, _SOME_DAY), None) is None:
            wrong = "never comes"
    except (CronSimError, ValueError) as error:
        wrong = f"is not a cron expression ({str(error).lower()})"
    if wrong:
        yield Conflict(keys=keys, value=expression, wrong=wrong, right=right)


def _zone(name: str, keys: Keys) -> Iterator[Conflict]:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        close = difflib.get_close_matches(name, available_timezones(), n=1)
        right = f"did you mean {close[0]}?" if close else "write an IANA name, for example UTC or Europe/Berlin"
        yield Conflict(
            keys=keys, value=name, wrong="is not a known time zone", right=right, code=IssueCode.UNKNOWN_NAME
        )


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
