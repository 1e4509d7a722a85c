"""Cost of today, the week and the month against fixed fleets, with the autoscaler's own cost, from the hourly records.

A fixed fleet has as many nodes as the busiest moment of the period, all the time, of the type that ran most. Both sides
cover the watched hours only.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from nodefleet.errors import NodeFleetError
from nodefleet.model.inventory import InstanceType
from nodefleet.model.state import MONTH_HOURS, Usage
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Cloud, History, State
from nodefleet.reporting.usage import HOUR, Period, PoolWeek, collect_hours
from nodefleet_tools.dashboard.snapshot import Json

_DAYS = {"today": 1, "week": 7, "month": 30}


def money(history: History, cloud: Cloud, state: State, policy: Policy, now: datetime) -> Json:
    zone = ZoneInfo(policy.time_zone)
    periods = {name: _period(now, days, zone) for name, days in _DAYS.items()}
    oldest = min(period.start for period in periods.values())
    running = (state.journal.usage,) if state.journal.usage else ()
    usage = (*history.usage(oldest, now), *running)
    offers = _offers(cloud, usage, policy)
    own = sum(state.deployment.own_usd.values()) if state.deployment and state.deployment.own_usd else None
    return {
        "currency": "USD",
        "priced": bool(offers),
        "periods": {name: summed(usage, period, offers, own) for name, period in periods.items()},
        "hours": [*_hours(usage, periods["month"])],
    }


def _period(now: datetime, days: int, zone: tzinfo) -> Period:
    """So many local days up to the hour that is running; today begins at midnight."""
    local = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days - 1)
    start = local.astimezone(UTC)
    end = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + HOUR
    return Period(start=start, end=end, zone=zone)


def _offers(cloud: Cloud, usage: Iterable[Usage], policy: Policy) -> Mapping[str, InstanceType]:
    """What the types that ran or may run cost; empty if EC2 does not answer."""
    types = {name for pool in policy.pools for name in pool.market.types}
    types |= {name for hour in usage for pool in hour.pools.values() for name in pool.types}
    try:
        return {offer.name: offer for offer in cloud.catalog(sorted(types))}
    except NodeFleetError:
        return {}


def summed(
    usage: Sequence[Usage], period: Period, offers: Mapping[str, InstanceType], own_monthly: float | None
) -> Json:
    """One period in figures."""
    record = collect_hours(usage, period)
    pools = [record.pool(name) for name in record.pools()]
    usd = sum(pool.usd for pool in pools)
    node_hours = sum(pool.node_hours for pool in pools)
    spot = sum(pool.spot_hours for pool in pools)
    fixed, fixed_spot, at_list = (_known([_fixed(pool, offers)[index] for pool in pools]) for index in range(3))
    own = None if own_monthly is None else own_monthly * record.watched / MONTH_HOURS
    return {
        "start": period.start.timestamp(),
        "end": period.end.timestamp(),
        "watched_hours": round(record.watched, 2),
        "usd": usd,
        "own_usd": own,
        "node_hours": node_hours,
        "nodes": sum(pool.peak for pool in pools),
        "fixed_usd": fixed,
        "fixed_spot_usd": fixed_spot,
        "saved_usd": None if fixed is None else fixed - usd - (own or 0.0),
        "by_fewer_nodes": None if fixed is None or at_list is None else fixed - at_list,
        "by_spot": None if at_list is None else at_list - usd,
        "spot_percent": 100 * spot / node_hours if node_hours else None,
        "interruptions": sum(pool.count("interruptions") for pool in pools),
        "scale_ups": sum(pool.count("scale_ups") for pool in pools),
        "scale_downs": sum(pool.count("scale_downs") for pool in pools),
        "pending_pod_hours": record.waiting_pod_hours,
        "unpriced_percent": max((pool.unpriced_percent for pool in pools), default=0.0),
    }


def _fixed(pool: PoolWeek, offers: Mapping[str, InstanceType]) -> tuple[float | None, float | None, float | None]:
    """USD of a fixed On-Demand fleet, of a fixed Spot fleet, and of the node-hours that ran at the On-Demand price."""
    offer = offers.get(pool.main_type)
    if not pool.node_hours:
        return 0.0, 0.0, 0.0
    if offer is None or offer.hourly_usd is None:
        return None, None, None
    hours = pool.peak * pool.watched
    spot = None if offer.spot_usd is None else hours * offer.spot_usd
    return hours * offer.hourly_usd, spot, pool.node_hours * offer.hourly_usd


def _known(values: Sequence[float | None]) -> float | None:
    """The sum, if every pool has a value."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _hours(usage: Sequence[Usage], period: Period) -> Iterable[list[float]]:
    """[hour, USD, node-hours on Spot, node-hours On-Demand]."""
    record = collect_hours(usage, period)
    for hour in record.hours:
        pools = hour.pools.values()
        yield [
            hour.hour.timestamp(),
            round(sum(pool.usd for pool in pools), 5),
            round(sum(pool.spot_seconds for pool in pools) / 3600, 3),
            round(sum(pool.on_demand_seconds for pool in pools) / 3600, 3),
        ]
