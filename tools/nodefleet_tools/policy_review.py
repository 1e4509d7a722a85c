"""What is wrong with a policy that is consistent in itself: broken queries, types that EC2 does not have.

Apart from the checks that every load makes, because those refuse: a release that refuses the policy in force holds the
fleet, so what an operator should have been told when writing it is no reason to refuse it years later.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields

from nodefleet.adapters.prometheus import for_pool
from nodefleet.model.inventory import LIST_PRICES_USD
from nodefleet.model.serialization import ValidationIssue
from nodefleet.model.snapshot import Missing
from nodefleet.policy.cluster import Policy
from nodefleet.policy.file_schema import Keys, path_of
from nodefleet.policy.pool import Pool
from nodefleet.policy.sources import Prometheus
from nodefleet.scheduling.templates import architecture
from nodefleet_tools.promql import doubt_about, problem_in

_TYPE = re.compile(r"[a-z][a-z0-9-]*\.(?:nano|micro|small|medium|large|metal|[0-9]*xlarge|metal-[0-9a-z]+)")
# Families that EC2 had at this release, as botocore lists them (a test compares). A newer one is no mistake: a warning.
_FAMILIES = """
    a1 c1 c3 c4 c5 c5a c5ad c5d c5n c6a c6g c6gd c6gn c6i c6id c6in c7a c7g c7gd c7gn c7i c7i-flex c8a c8g c8gb c8gd
    c8gn c8i c8i-flex c8ib c8id c8in c8ine c9g c9gd cc1 cc2 cg1 cr1 d2 d3 d3en dl1 dl2q f1 f2 g2 g3 g3s g4ad g4dn g5
    g5g g6 g6e g6f g7 g7e gr6 gr6f h1 hi1 hpc6a hpc6id hpc7a hpc7g hpc8a hs1 i2 i3 i3en i4g i4i i7i i7ie i8g i8ge
    im4gn inf1 inf2 is4gen m1 m2 m3 m4 m5 m5a m5ad m5d m5dn m5n m5zn m6a m6g m6gd m6i m6id m6idn m6in m7a m7g m7gd
    m7i m7i-flex m8a m8azn m8g m8gb m8gd m8gn m8i m8i-flex m8ib m8id m8idb m8idn m8in m8ine m9g m9gd mac-m3ultra
    mac-m4 mac-m4max mac-m4pro mac1 mac2 mac2-m1ultra mac2-m2 mac2-m2pro p2 p3 p3dn p4d p4de p5 p5e p5en p6-b200
    p6-b300 p6e-gb200 r3 r4 r5 r5a r5ad r5b r5d r5dn r5n r6a r6g r6gd r6i r6id r6idn r6in r7a r7g r7gd r7i r7iz r8a
    r8g r8gb r8gd r8gn r8i r8i-flex r8ib r8id r8idb r8idn r8in r9g r9gd t1 t2 t3 t3a t4g t8i trn1 trn1n trn2 trn2u
    u-12tb1 u-18tb1 u-24tb1 u-3tb1 u-6tb1 u-9tb1 u7i-12tb u7i-6tb u7i-8tb u7ib-12tb u7in-16tb u7in-24tb u7in-32tb
    u7inh-32tb vt1 x1 x1e x2gd x2idn x2iedn x2iezn x8aedz x8g x8i z1d
"""
FAMILIES = frozenset(_FAMILIES.split())
# What sizes of a family cost beside each other.
_SIZES = {"nano": 1, "micro": 2, "small": 4, "medium": 8, "large": 16}
_XLARGE = 32
_DEEPEST_DISCOUNT = 0.9  # AWS sells Spot for up to 90 % less than On-Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    problems: tuple[ValidationIssue, ...]
    warnings: tuple[ValidationIssue, ...]


def review(policy: Policy) -> Review:
    problems: list[ValidationIssue] = []
    warnings: list[ValidationIssue] = []
    for index, pool in enumerate(policy.pools):
        # A file with one pool does not name it.
        at: Keys = () if policy.pools == (pool,) and pool.name == Pool().name else ("pools", index)
        problems += [*_types(pool, at), *_architectures(pool, at), *_queries(pool, at)]
        warnings += [*_newer_families(pool, at), *_newer_functions(pool, at), *_prices(pool, at)]
    return Review(problems=tuple(problems), warnings=tuple(warnings))


def _types(pool: Pool, at: Keys) -> Iterator[ValidationIssue]:
    for index, name in enumerate(pool.market.types):
        if not _TYPE.fullmatch(name):
            yield ValidationIssue(
                path=path_of((*at, "market", "types", index)),
                value=name,
                wrong="is not an instance type" if name.strip() else "is empty",
                right="write it as EC2 does, such as t3.small",
            )


def _newer_families(pool: Pool, at: Keys) -> Iterator[ValidationIssue]:
    for index, name in enumerate(pool.market.types):
        family = name.partition(".")[0]
        if _TYPE.fullmatch(name) and family not in FAMILIES:
            yield ValidationIssue(
                path=path_of((*at, "market", "types", index)),
                value=name,
                wrong=f"is of no family that EC2 had at this release: {family}",
                right="see that it is spelt right: nodefleet doctor asks EC2",
            )


def _architectures(pool: Pool, at: Keys) -> Iterator[ValidationIssue]:
    """A launch template has one image, and an image has one architecture."""
    found: dict[str, str] = {}
    for name in pool.market.types:
        found.setdefault(architecture(name), name)
    if len(found) > 1:
        told = " and ".join(f"{name} is {what}" for what, name in sorted(found.items()))
        yield ValidationIssue(
            path=path_of((*at, "market", "types")),
            value=list(pool.market.types),
            wrong=f"mixes CPU architectures: {told}, and the pool's image runs on one of them only",
            right="make a pool for each architecture",
        )


def _asked(pool: Pool) -> Iterator[tuple[Keys, str]]:
    for each in fields(pool.queries):
        yield ("queries", each.name), getattr(pool.queries, each.name)
    for name, source in pool.readings.items():
        if isinstance(source, Prometheus):
            yield ("readings", name, "query"), source.query


def _queries(pool: Pool, at: Keys) -> Iterator[ValidationIssue]:
    for keys, query in _asked(pool):
        asked = for_pool(query, pool.name)
        wrong = asked.cause if isinstance(asked, Missing) else problem_in(asked)
        if wrong:
            right = "write PromQL that Prometheus understands; try it in its own page"
            yield ValidationIssue(path=path_of((*at, *keys)), value=query, wrong=wrong, right=right)


def _newer_functions(pool: Pool, at: Keys) -> Iterator[ValidationIssue]:
    for keys, query in _asked(pool):
        asked = for_pool(query, pool.name)
        doubt = None if isinstance(asked, Missing) else doubt_about(asked)
        if doubt:
            right = "see that your Prometheus has it: nodefleet doctor asks it"
            yield ValidationIssue(path=path_of((*at, *keys)), value=query, wrong=doubt, right=right)


def _prices(pool: Pool, at: Keys) -> Iterator[ValidationIssue]:
    market = pool.market
    if not market.spot_percent:
        return
    for index, name in enumerate(market.types):
        lowest = _list_price(name) * (1 - _DEEPEST_DISCOUNT)
        if lowest > market.max_price_usd:
            yield ValidationIssue(
                path=path_of((*at, "market", "types", index)),
                value=name,
                wrong=f"is never bought as Spot: it costs about {lowest:.3g} USD/h at the very least,"
                f" and max_price_usd is {market.max_price_usd:g}",
                right="raise market.max_price_usd, or take the type out",
            )


def _list_price(name: str) -> float:
    """The bundled On-Demand price, or what another size of the family makes likely; 0 where none is known."""
    family, _, size = name.partition(".")
    others = (each for each in LIST_PRICES_USD if each.startswith(f"{family}."))
    nearest = name if name in LIST_PRICES_USD else next(others, "")
    units, of = _units(size), _units(nearest.partition(".")[2])
    return LIST_PRICES_USD[nearest] * units / of if units and of else 0.0


def _units(size: str) -> int:
    number = size.removesuffix("xlarge")
    if number != size:
        return int(number or 1) * _XLARGE
    return _SIZES.get(size, 0)  # bare metal has no size in its name
