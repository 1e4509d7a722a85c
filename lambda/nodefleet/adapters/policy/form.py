"""The shape of a policy file, which is shorter than the policy it stands for.

    preset: low-latency          a bundle of numbers, if any
    interval: 120                what holds for the cluster
    limits: {max: 20}            what holds for every pool
    pools:                       and for single ones; without it there is one pool, `default`
      - name: gpu
        limits: {max: 4}

Its types are made from the policy's own, so that a new setting is in the file, the checks and the schema at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import Field, field, make_dataclass
from typing import Any, Literal, TypeAlias

from nodefleet.domain.plain import fields_of
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.policy.presets import PRESETS
from nodefleet.domain.policy.settings import said
from nodefleet.domain.policy.shape import Part, parts_of

_Declared: TypeAlias = tuple[str, Any, Any]

PRESET, POOLS, NAME = "preset", "pools", "name"

CLUSTER_PARTS: Mapping[str, Part] = {key: part for key, part in parts_of(Policy).items() if key != POOLS}
POOL_PARTS: Mapping[str, Part] = parts_of(Pool)
SHARED_PARTS: Mapping[str, Part] = {key: part for key, part in POOL_PARTS.items() if key != NAME}


def _declared(cls: type, names: Iterable[str]) -> list[_Declared]:
    return [(each.name, hint, _again(each)) for each, hint in fields_of(cls) if each.name in names]


def _again(declared: Field[Any]) -> Any:
    return field(default=declared.default, default_factory=declared.default_factory, metadata=declared.metadata)


def _preset(why: str) -> _Declared:
    names: Any = Literal.__getitem__(tuple(PRESETS))
    return (PRESET, names | None, field(default=None, metadata=said(why)))


POOL_IN_FILE: Any = make_dataclass(
    "Pool",
    [_preset("for this pool instead of the file's"), *_declared(Pool, POOL_PARTS)],
    frozen=True,
    kw_only=True,
)
POLICY_FILE: Any = make_dataclass(
    "Policy",
    [
        _preset("a bundle of numbers that belong together; what the file says itself wins"),
        *_declared(Policy, CLUSTER_PARTS),
        *_declared(Pool, SHARED_PARTS),
        (POOLS, tuple[POOL_IN_FILE, ...], field(default=(), metadata=said("without any there is one, `default`"))),
    ],
    frozen=True,
    kw_only=True,
)
