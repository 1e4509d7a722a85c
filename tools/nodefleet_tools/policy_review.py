"""What is wrong with a policy that is consistent in itself: broken queries, types that EC2 does not have.

Apart from the checks that every load makes, because those refuse: a release that refuses the policy in force holds the
fleet, so what an operator should have been told when writing it is no reason to refuse it years later.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
        warnings += [*_newer_functions(pool, at), *_prices(pool, at)]
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
    queries = pool.queries
    for name in ("cpu", "memory", "nodes", "idle"):
        yield ("queries", name), getattr(queries, name)
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
        listed = LIST_PRICES_USD.get(name)
        lowest = listed * (1 - _DEEPEST_DISCOUNT) if listed else 0.0
        if lowest > market.max_price_usd:
            yield ValidationIssue(
                path=path_of((*at, "market", "types", index)),
                value=name,
                wrong=f"is never bought as Spot: it costs about {lowest:.3g} USD/h at the very least,"
                f" and max_price_usd is {market.max_price_usd:g}",
                right="raise market.max_price_usd, or take the type out",
            )
