"""Weeks for the tests of the report: so many hours like this, then so many like that."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import InstanceType, Resources
from nodefleet.model.snapshot import TuningResult
from nodefleet.model.state import PoolUsage, Usage
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.reporting.review import USUAL, ReviewContext
from nodefleet.reporting.usage import Period, collect_hours

GIB = 1 << 30
MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
NEXT_MONDAY = MONDAY + timedelta(days=7)
NINE = NEXT_MONDAY + timedelta(hours=9)
WEEK = Period(start=MONDAY, end=NEXT_MONDAY)
HOUR = 3600.0
TUNED = TuningResult(
    pool="default",
    at=MONDAY,
    settings="price 40.0",
    days=20,
    budget_pct=0.5,
    violation_pct=0.41,
    saving_pct=21.3,
    saving_low_pct=17.2,
    saving_high_pct=25.0,
    within_budget_pct=93.1,
)


def offer(
    name: str, cpu: int, gib: float, hourly: float | None = None, spot: float | None = None, **changes: object
) -> InstanceType:
    base = InstanceType(
        name=name, resources=Resources(cpu=1000 * cpu, memory=int(gib * GIB)), hourly_usd=hourly, spot_usd=spot
    )
    return replace(base, **changes)


SMALL = offer("t3.small", 2, 2, 0.02, 0.008)
CATALOG = (
    SMALL,
    offer("t3a.small", 2, 2, 0.019, 0.007),
    offer("t2.small", 1, 2, 0.023, 0.009),
)
OFFERS = {each.name: each for each in CATALOG}


def used(
    spot: float = 2,
    on_demand: float = 1,
    *,
    usd: float | None = None,
    cpu: float | None = 45,
    memory: float | None = 60,
    asked: tuple[float, float] | None = (50, 60),
    watched: float = 1.0,
    type_: str = "t3.small",
    **changes: object,
) -> PoolUsage:
    """An hour with so many nodes, so busy, of which so much was watched. Spot at 0.008, On-Demand at 0.02 USD."""
    seconds = watched * HOUR
    nodes = round(spot + on_demand)
    base = PoolUsage(
        spot_seconds=spot * seconds,
        on_demand_seconds=on_demand * seconds,
        usd=watched * (0.008 * spot + 0.02 * on_demand) if usd is None else usd,
        types={type_: (spot + on_demand) * seconds} if spot + on_demand else {},
        watched_seconds=seconds,
        cpu_seconds=(cpu or 0) * seconds,
        cpu_known=seconds if cpu is not None else 0,
        memory_seconds=(memory or 0) * seconds,
        memory_known=seconds if memory is not None else 0,
        requested_cpu_seconds=asked[0] * seconds if asked else 0,
        requested_memory_seconds=asked[1] * seconds if asked else 0,
        requested_known=seconds if asked else 0,
        most_nodes=nodes,
        fewest_nodes=nodes,
    )
    return replace(base, **changes)


def hours(
    *stretches: tuple[int, PoolUsage | None], pool: str = "default", start: datetime = MONDAY
) -> tuple[Usage, ...]:
    """So many hours of each, one after the other; none leaves them out."""
    found, at = [], start
    for count, each in stretches:
        for _ in range(count):
            if each is not None:
                found.append(Usage(hour=at, last=at + timedelta(minutes=59), pools={pool: each}))
            at += timedelta(hours=1)
    return tuple(found)


def merged(*weeks: Iterable[Usage]) -> tuple[Usage, ...]:
    """Several pools' hours as one cluster's."""
    found: dict[datetime, Usage] = {}
    for each in (usage for week in weeks for usage in week):
        known = found.get(each.hour, replace(each, pools={}))
        found[each.hour] = replace(known, pools={**known.pools, **each.pools})
    return tuple(found[hour] for hour in sorted(found))


def told(kind: AlertKind, *, day: float = 1, pool: str = "default", number: int = 0, dry: bool = False) -> Event:
    return Event(
        id=f"{kind.value}-{pool}-{day}-{number}",
        at=MONDAY + timedelta(days=day),
        cluster="shop",
        kind=kind,
        pool=pool,
        text="…",
        dry=dry,
    )


def case(*stretches: tuple[int, PoolUsage | None], pool: Pool | None = None, **changes: object) -> ReviewContext:
    """What a rule of advice looks at, after such a week."""
    week = collect_hours(hours(*stretches), WEEK).pool("default")
    return replace(
        ReviewContext(pool=pool or Pool(), week=week, period_hours=168, catalog=OFFERS, thresholds=USUAL), **changes
    )


def policy(*pools: Pool) -> Policy:
    return Policy(pools=pools or (Pool(),))
