"""What can be used of something a person wrote, and what cannot.

A wrong value must not hide the next one: it is left out and noted, and the rest is checked as if it were not there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nodefleet.domain.plain import Plain, decode
from nodefleet.domain.policy.check import out_of_limits
from nodefleet.domain.policy.shape import Keys, Part, item, part, path_of
from nodefleet.domain.problems import Problem

SOME_ITEM = "some item"  # stands for items that were left out of a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """The usable part of a value. All keys count from that value on; `places` says where each part stands."""

    value: Plain
    places: Mapping[Keys, Keys]
    broken: frozenset[Keys] = frozenset()

    def inside(self, at: Keys) -> "Sound":
        """The same of one part."""
        value = self.value
        for key in at:
            value = value[key]
        depth = len(at)
        places = {keys[depth:]: place for keys, place in self.places.items() if keys[:depth] == at}
        broken = frozenset(keys[depth:] for keys in self.broken if keys[:depth] == at)
        return Sound(value=value, places=places, broken=broken)


def sound(expected: Part, data: Plain, at: Keys, problems: list[Problem]) -> Sound | None:
    """What can be used of `data`, or none. Notes values beyond their limits; decoding notes everything else."""
    found = _by_parts(expected.hint, data, at, problems)
    unreadable: list[Problem] = []
    value = decode(expected.hint, found.value, unreadable)
    if unreadable:
        return None
    beyond = out_of_limits(value, expected.about) if expected.about else None
    if beyond is None:
        return found
    code, wrong, right = beyond
    problems.append(Problem(path=path_of(at), value=data, wrong=wrong, right=right, code=code))
    return None


def sound_table(expected: Mapping[Any, Part | None], data: Plain, at: Keys, problems: list[Problem]) -> Sound:
    """What can be used of a table, if its parts are to be as expected."""
    parts = {key: sound(inner, data[key], (*at, key), problems) if inner else None for key, inner in expected.items()}
    kept = {str(key): each for key, each in parts.items() if each}
    lost: set[Keys] = {(str(key),) for key, each in parts.items() if not each}
    return _joined({key: each.value for key, each in kept.items()}, kept.items(), lost, at)


def _by_parts(hint: Any, data: Plain, at: Keys, problems: list[Problem]) -> Sound:
    if isinstance(data, dict):
        return sound_table({key: part(hint, data, key) for key in data}, data, at, problems)
    inner = item(hint)
    if isinstance(data, list) and inner:
        return _list([sound(inner, each, (*at, index), problems) for index, each in enumerate(data)], at)
    return Sound(value=data, places={(): at})


def _list(items: list[Sound | None], at: Keys) -> Sound:
    kept = [each for each in items if each]
    lost: set[Keys] = {(SOME_ITEM,)} if len(kept) < len(items) else set()
    return _joined([each.value for each in kept], enumerate(kept), lost, at)


def _joined(value: Plain, parts: Iterable[tuple[str | int, Sound]], lost: set[Keys], at: Keys) -> Sound:
    places: dict[Keys, Keys] = {(): at}
    broken = set(lost)
    for key, each in parts:
        places |= {(key, *keys): place for keys, place in each.places.items()}
        broken |= {(key, *keys) for keys in each.broken}
    return Sound(value=value, places=places, broken=frozenset(broken))
