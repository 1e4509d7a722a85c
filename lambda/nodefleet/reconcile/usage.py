"""Usage and cost of each hour, for the weekly report. Time without iterations is not counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Decision, Event, PoolDecision
from nodefleet.model.inventory import NOTHING, Instance, InstanceState, Market, price_of
from nodefleet.model.snapshot import NOTHING_READ, Missing, Observation, Reading
from nodefleet.model.state import MONTH_HOURS, PoolUsage, Usage
from nodefleet.policy.cluster import Policy

_HOUR = timedelta(hours=1)
_PAID = (InstanceState.PENDING, InstanceState.RUNNING)


CONSOLIDATED = "consolidated"  # among the subjects of a scale-down of an under-used worker
ROTATED = "rotated"  # among the subjects of a scale-down whose worker a new one has replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCount:
    running: Usage
    over: tuple[Usage, ...] = ()  # complete hours


def count_usage(
    before: Usage | None,
    observation: Observation,
    decision: Decision,
    events: Sequence[Event],
    policy: Policy,
    *,
    missing: Mapping[str, int] = MappingProxyType({}),
    own_monthly_usd: float = 0.0,
) -> UsageCount:
    """The usage up to this iteration. The current state is counted for the time since the last iteration, unless that
    was long ago. The autoscaler's own cost accrues by the clock: alarms, metrics and secrets cost the same with or
    without iterations. `missing`: instances that EC2 did not give, by pool: they were not added."""
    now = observation.at
    hour = now.replace(minute=0, second=0, microsecond=0)
    watched = _watched_time(before, observation, policy)
    over: tuple[Usage, ...] = ()
    if before is None or before.hour != hour:
        this_hour = min(watched, now - hour)
        if before:
            whole = _add_usage(before, before.hour + _HOUR, observation, decision, policy, watched - this_hour)
            over = (_add_own_cost(whole, own_monthly_usd),)
        before, watched = Usage(hour=hour, last=now), this_hour
    running = _add_usage(before, now, observation, decision, policy, watched)
    pools = {name: _count_events(used, events, name, missing.get(name, 0)) for name, used in running.pools.items()}
    return UsageCount(running=_add_own_cost(replace(running, pools=pools), own_monthly_usd), over=over)


def _add_own_cost(usage: Usage, monthly_usd: float) -> Usage:
    return replace(usage, own_usd=monthly_usd / MONTH_HOURS * ((usage.last - usage.hour) / _HOUR))


def _add_usage(
    usage: Usage, last: datetime, observation: Observation, decision: Decision, policy: Policy, watched: timedelta
) -> Usage:
    """The usage plus that of the `watched` time, at the observed state."""
    seconds = watched.total_seconds()
    pools = dict(usage.pools)
    for pool in decision.pools:
        pools[pool.pool] = _sum(pools.get(pool.pool, PoolUsage()), _pool_usage(pool, observation, policy, seconds))
    return replace(usage, last=last, pools=pools)


def _watched_time(before: Usage | None, observation: Observation, policy: Policy) -> timedelta:
    """The time to count: none after a gap between iterations, and none while EC2 is unavailable."""
    if before is None or isinstance(observation.instances, Missing):
        return timedelta(0)
    since = observation.at - before.last
    return since if timedelta(0) <= since <= policy.trust.gap * policy.interval else timedelta(0)


def _pool_usage(pool: PoolDecision, observation: Observation, policy: Policy, seconds: float) -> PoolUsage:
    instances = [it for it in _list_instances(observation) if _is_paid(it, pool.pool)]
    spot = sum(it.market is Market.SPOT for it in instances)
    prices = observation.offers
    hourly = [price_of(it.type, it.market, prices) for it in instances]
    readings = observation.readings.get(pool.pool, NOTHING_READ)
    cpu, memory = _percent(readings.cpu), _percent(readings.memory)
    requested = _requested_percent(observation, pool.pool)
    rules = policy.pool(pool.pool)
    at_max = rules is not None and pool.count.occupied >= rules.limits.max
    warm = sum(_is_warm(it, pool.pool) for it in _list_instances(observation))
    types: dict[str, float] = {}
    for it in instances:
        types[it.type] = types.get(it.type, 0.0) + seconds
    return PoolUsage(
        spot_seconds=spot * seconds,
        on_demand_seconds=(len(instances) - spot) * seconds,
        usd=sum(price for price in hourly if price is not None) * seconds / _HOUR.total_seconds(),
        unpriced_seconds=hourly.count(None) * seconds,
        types=types,
        watched_seconds=seconds,
        cpu_seconds=(cpu or 0.0) * seconds,
        cpu_known=seconds if cpu is not None else 0.0,
        memory_seconds=(memory or 0.0) * seconds,
        memory_known=seconds if memory is not None else 0.0,
        requested_cpu_seconds=(requested[0] if requested else 0.0) * seconds,
        requested_memory_seconds=(requested[1] if requested else 0.0) * seconds,
        requested_known=seconds if requested else 0.0,
        most_nodes=pool.count.capacity,
        fewest_nodes=pool.count.capacity,
        at_max_seconds=seconds if at_max else 0.0,
        waiting_pod_seconds=observation.unschedulable_pods * seconds,
        warm_seconds=warm * seconds,
        warm_usd=warm * (rules.warm.usd_per_month if rules else 0.0) / MONTH_HOURS * seconds / _HOUR.total_seconds(),
    )


def _list_instances(observation: Observation) -> tuple[Instance, ...]:
    return () if isinstance(observation.instances, Missing) else observation.instances


def _is_warm(instance: Instance, pool: str) -> bool:
    stopped = instance.state in (InstanceState.STOPPING, InstanceState.STOPPED)
    return instance.worker and instance.pool == pool and stopped and instance.warm


def _is_paid(instance: Instance, pool: str) -> bool:
    return instance.worker and instance.pool == pool and instance.state in _PAID


def _percent(sample: Reading | Missing) -> float | None:
    return sample.value if isinstance(sample, Reading) else None


def _requested_percent(observation: Observation, pool: str) -> tuple[float, float] | None:
    """Requested CPU and memory, in percent of what the pool's ready nodes can allocate."""
    view = observation.kubernetes
    if isinstance(view, Missing) or view.pods is None:
        return None
    nodes = {node.name: node for node in view.nodes if node.pool == pool and node.ready}
    has = sum((node.allocatable for node in nodes.values()), NOTHING)
    asked = sum((pod.requests for pod in view.pods if pod.node in nodes and not pod.finished), NOTHING)
    if not has.cpu or not has.memory:
        return None
    return 100 * asked.cpu / has.cpu, 100 * asked.memory / has.memory


def _count_events(used: PoolUsage, events: Sequence[Event], pool: str, missing: int) -> PoolUsage:
    own = [event for event in events if event.pool == pool and not event.dry]
    kinds = Counter(event.kind for event in own)
    grown = sum(event.change for event in own if event.kind is AlertKind.SCALE_UP)
    return replace(
        used,
        scale_ups=used.scale_ups + grown - missing,
        scale_downs=used.scale_downs + sum(-event.change for event in own if event.kind is AlertKind.SCALE_DOWN),
        interruptions=used.interruptions + kinds[AlertKind.INTERRUPTED],
        join_failures=used.join_failures + kinds[AlertKind.JOIN_FAILED],
        drain_failures=used.drain_failures + kinds[AlertKind.DRAIN_BLOCKED],
        no_capacity=used.no_capacity + kinds[AlertKind.NO_CAPACITY],
        market_swaps=used.market_swaps + kinds[AlertKind.MARKET_RESTORED],
        consolidations=used.consolidations + sum(CONSOLIDATED in event.subjects for event in own),
        consolidated_usd_per_day=used.consolidated_usd_per_day
        + sum(-(event.usd_per_day or 0.0) for event in own if CONSOLIDATED in event.subjects),
        rotations=used.rotations + sum(ROTATED in event.subjects for event in own),
    )


def _sum(one: PoolUsage, other: PoolUsage) -> PoolUsage:
    added = {field.name: getattr(one, field.name) for field in fields(PoolUsage)}
    for name, value in added.items():
        more = getattr(other, name)
        match name:
            case "most_nodes":
                added[name] = max(value, more)
            case "fewest_nodes":
                added[name] = more if value is None else min(value, more)
            case "types":
                added[name] = {kind: value.get(kind, 0.0) + more.get(kind, 0.0) for kind in {*value, *more}}
            case _:
                added[name] = value + more
    return PoolUsage(**added)
