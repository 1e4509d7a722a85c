"""Growing: how many nodes, of which type, in which zone and market.

where    zones balanced, Spot on an On-Demand base, no known shortage
how      uncordon what was leaving, then start what is warm, then launch
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product

from nodefleet.capacity import on_demand_of, on_demand_share
from nodefleet.engine.context import PlacementRequest, PoolContext, describe_drift, operation_id, target_of
from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Instance, InstanceState, Market
from nodefleet.model.names import pluralize
from nodefleet.model.operations import (
    CancelRemoval,
    Cleanup,
    Create,
    Launch,
    OrphanKind,
    Purpose,
    Removal,
    RemovalReason,
    SendAlert,
    Shortage,
    Step,
)
from nodefleet.model.snapshot import LaunchTarget, Observation
from nodefleet.model.state import PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A launch: so many nodes of some types in one zone and market."""

    zone: str
    market: Market
    types: tuple[str, ...]
    count: int
    starts: tuple[str, ...] = ()  # warm instances that are started instead of launching so many


ANY = PlacementRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    launches: tuple[Placed, ...]
    missing: int  # nodes for which there is known to be no capacity anywhere


def place(
    requests: Sequence[PlacementRequest],
    workers: Iterable[Worker],
    zones: Sequence[str],
    mix: MarketMix,
    shortages: Iterable[Shortage],
    now: datetime,
    *,
    on_demand_at_least: int = 0,
    warm: Sequence[Worker] = (),
) -> Placement:
    """Launches for the asked nodes. `workers` are those that are and stay capacity; what is `warm` is started where an
    On-Demand node is wanted, the emptier zone first."""
    staying = list(workers)
    per_zone = Counter(dict.fromkeys(zones, 0))
    per_zone.update(worker.zone for worker in staying if worker.zone in per_zone)
    wanted = on_demand_share(len(staying) + len(requests), mix) - on_demand_of(staying)
    left_on_demand = min(len(requests), max(wanted, on_demand_at_least))
    scarce = {(short.type, short.zone, short.market) for short in shortages if now < short.until}

    chosen: Counter[tuple[str, Market, tuple[str, ...]]] = Counter()
    left_warm, started = list(warm), defaultdict[str, list[Instance]](list)
    for ask in requests:
        market = ask.market or (Market.ON_DEMAND if left_on_demand > 0 else Market.SPOT)
        found = _choose(ask, market, per_zone, mix, scarce)
        if found is None:
            continue
        zone, market, _ = found
        instance = _choose_warm(ask, left_warm, per_zone, mix, scarce) if market is Market.ON_DEMAND else None
        if instance:
            left_warm = [each for each in left_warm if each.instance != instance]
            zone = instance.zone
            started[zone].append(instance)
        else:
            chosen[found] += 1
        per_zone[zone] += 1
        left_on_demand -= market is Market.ON_DEMAND
    starts = tuple(
        Placed(
            zone=zone,
            market=Market.ON_DEMAND,
            types=tuple(dict.fromkeys(each.type for each in of_zone)),
            count=len(of_zone),
            starts=tuple(each.id for each in of_zone),
        )
        for zone, of_zone in started.items()
    )
    launches = tuple(
        Placed(zone=zone, market=market, types=types, count=count) for (zone, market, types), count in chosen.items()
    )
    missing = len(requests) - chosen.total() - sum(each.count for each in starts)
    return Placement(launches=(*starts, *launches), missing=missing)


def _choose_warm(
    request: PlacementRequest,
    warm: Sequence[Worker],
    per_zone: Mapping[str, int],
    mix: MarketMix,
    scarce: set[tuple[str, str, Market]],
) -> Instance | None:
    """One that the asked pods fit on, in the zone with the fewest nodes. Starting needs capacity like launching."""
    zones, types = set(per_zone) & set(request.zones or per_zone), request.types or mix.types
    fit = [
        worker.instance
        for worker in warm
        if worker.instance
        and worker.zone in zones
        and worker.instance.type in types
        and (worker.instance.type, worker.zone, Market.ON_DEMAND) not in scarce
    ]
    return min(fit, key=lambda instance: per_zone[instance.zone], default=None)


def _choose(
    request: PlacementRequest,
    market: Market,
    per_zone: Mapping[str, int],
    mix: MarketMix,
    scarce: set[tuple[str, str, Market]],
) -> tuple[str, Market, tuple[str, ...]] | None:
    """The zone with the fewest nodes that has capacity; On-Demand where Spot is known to have none, unless the pods
    depend on Spot."""
    zones = sorted(set(per_zone) & set(request.zones or per_zone), key=lambda zone: (per_zone[zone], zone))
    markets = dict.fromkeys((market, request.market or Market.ON_DEMAND))
    for wanted, paid, zone in product((request.preferred, request.types or mix.types), markets, zones):
        types = tuple(kind for kind in wanted if (kind, zone, paid) not in scarce)
        if types:
            return zone, paid, types
    return None


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────

# The least progressed comes back first: fewer of its pods have moved.
_CAN_COME_BACK = (Phase.CORDONED, Phase.DRAINING, Phase.DRAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpPlan:
    steps: tuple[Step, ...]
    nodes: int  # how many more there will be
    obstacle: str = ""  # why there are not as many as asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpRequest:
    more: int
    restoring: int  # how many of them only make up for what is missing: they start no cooldown
    on_demand: int = 0  # at least so many On-Demand: replacements that hold min
    asks: tuple[PlacementRequest, ...] = ()  # what waiting pods need of the new nodes
    replacing: frozenset[str] = frozenset()  # workers that go when the new ones are there: their places are free
    reason: str


def plan_scale_up(
    need: ScaleUpRequest,
    workers: Sequence[Worker],
    pool: Pool,
    memory: PoolMemory,
    observation: Observation,
    policy: Policy,
) -> ScaleUpPlan:
    back = _uncordon_leaving(workers, need)
    more = need.more - len(back)
    target = target_of(observation, pool)
    returning = {step.operation for step in back}
    staying = [
        w
        for w in workers
        if (w.is_capacity and w.id not in need.replacing)
        or (isinstance(w.operation, Removal) and w.operation.id in returning)
    ]
    asks = [*need.asks[:more], *[ANY] * max(0, more - len(need.asks))]
    placed = place(
        asks,
        staying,
        sorted(target.subnets),
        pool.market,
        memory.shortages,
        observation.at,
        on_demand_at_least=min(need.on_demand, more),
        warm=startable(workers, pool, observation),
    )
    steps: list[Step] = [*back, *_launches(placed.launches, need, pool, target, observation, policy)]
    launched = sum(each.count for each in placed.launches)
    obstacle = _nowhere(placed.missing, pool, target) if placed.missing else ""
    if obstacle:
        steps.append(SendAlert(alert=AlertKind.NO_CAPACITY, pool=pool.name, subjects=(), text=obstacle))
    return ScaleUpPlan(steps=tuple(steps), nodes=len(back) + launched, obstacle=obstacle)


def _uncordon_leaving(workers: Sequence[Worker], need: ScaleUpRequest) -> list[CancelRemoval]:
    leaving = [(worker, worker.operation) for worker in workers if isinstance(worker.operation, Removal)]
    ours = [
        (worker, removal)
        for worker, removal in leaving
        if removal.why is RemovalReason.VOLUNTARY
        and removal.notice is None  # EC2 takes it sooner or later
        and worker.phase in _CAN_COME_BACK
        and not (removal.terminating or removal.cancelled)
    ]
    ours.sort(key=lambda pair: (_CAN_COME_BACK.index(pair[0].phase), pair[0].id))
    return [CancelRemoval(operation=removal.id, reason=need.reason) for _, removal in ours[: need.more]]


def _launches(
    placed: Sequence[Placed],
    need: ScaleUpRequest,
    pool: Pool,
    target: LaunchTarget,
    observation: Observation,
    policy: Policy,
) -> list[Create]:
    left_to_restore = need.restoring
    opened = []
    for index, each in enumerate(placed):
        purpose = Purpose.RESTORE if left_to_restore > 0 else Purpose.GROW
        left_to_restore -= each.count
        opened.append(launch_of(each, index, purpose, need.reason, pool, target, observation, policy))
    return opened


def launch_of(
    placed: Placed,
    index: int,
    purpose: Purpose,
    reason: str,
    pool: Pool,
    target: LaunchTarget,
    observation: Observation,
    policy: Policy,
) -> Create:
    return Create(
        Launch(
            id=operation_id(observation, "launch", f"{pool.name}-{placed.zone}-{placed.market.value}-{index}"),
            pool=pool.name,
            zone=placed.zone,
            market=placed.market,
            types=placed.types,
            count=placed.count,
            template=target.template,
            template_version=target.template_version,
            subnet=target.subnets[placed.zone],
            max_price_usd=pool.market.max_price_usd if placed.market is Market.SPOT else None,
            starts=placed.starts,
            purpose=purpose,
            reason=reason,
            started=observation.at,
            # Its caller holds the lease for no longer than this, so no run sends it later.
            deadline=observation.at + policy.lease,
        )
    )


def _nowhere(missing: int, pool: Pool, target: LaunchTarget) -> str:
    wanted = f"{pluralize(missing, 'more node is', 'more nodes are')} wanted"
    if not target.subnets:
        return f"{wanted}, but pool {pool.name} has no subnets to launch in. Check the deployment."
    zones, types = ", ".join(sorted(target.subnets)), ", ".join(pool.market.types)
    lack = "lacks" if len(pool.market.types) == 1 else "lack"
    return f"{wanted}, but {types} {lack} capacity in {zones}. Add instance types or zones."


# ── warm instances ───────────────────────────────────────────────────────────────────────────────────────────────────
# `warm`: stopped instances of a pool, which are started before others are launched.
#
# a worker leaves    stopped instead of terminated if it is On-Demand, of the pool's template and types, young enough,
#                    and fewer than `warm.size` are kept
# the pool grows     On-Demand nodes are started from what is kept, where zone and type fit; the rest is launched
# no longer fit      too old, drifted, or more than `warm.size`: terminated, the oldest first
#
# A warm instance is no capacity and does not count against max, caps or the On-Demand share until it is started.


def startable(workers: Sequence[Worker], pool: Pool, observation: Observation) -> list[Worker]:
    """What can be started now, the youngest first: it has the most time left."""
    target = target_of(observation, pool)
    found = [
        worker
        for worker in _list_warm(workers)
        if worker.operation is None
        and worker.instance is not None
        and worker.instance.state is InstanceState.STOPPED
        and not _why_not_kept(worker, pool, target, observation.at)
    ]
    return found[: pool.warm.size]


def choose_kept(leaving: Sequence[Worker], ctx: PoolContext) -> frozenset[str]:
    """Those of the leaving workers that are stopped and kept. Removals that keep theirs have their place already."""
    places = ctx.pool.warm.size - len(_list_warm(ctx.workers)) - sum(_will_be_kept(worker) for worker in ctx.workers)
    target = target_of(ctx.observation, ctx.pool)
    fit = [
        worker.id
        for worker in leaving
        if worker.instance is not None
        and worker.instance.market is Market.ON_DEMAND
        and worker.planned is None
        and not worker.ailment
        and not _why_not_kept(worker, ctx.pool, target, ctx.observation.at)
    ]
    return frozenset(fit[: max(0, places)])


def plan_surplus(ctx: PoolContext) -> list[Create]:
    """Cleanups of what no longer fits. Like every cleanup they wait for a second observation before they destroy it."""
    target = target_of(ctx.observation, ctx.pool)
    opened = []
    for number, worker in enumerate(_list_warm(ctx.workers)):
        reason = _why_not_kept(worker, ctx.pool, target, ctx.observation.at)
        if not reason and number >= ctx.pool.warm.size:
            reason = f"more than {ctx.pool.warm.size} are kept warm"
        if reason and worker.operation is None:
            opened.append(Create(_cleanup(worker, reason, ctx)))
    return opened


def _list_warm(workers: Sequence[Worker]) -> list[Worker]:
    warm = [
        (each.instance.first_launched_at, each.id, each)
        for each in workers
        if each.phase is Phase.WARM and each.instance
    ]
    return [each[2] for each in sorted(warm, reverse=True)]


def _will_be_kept(worker: Worker) -> bool:
    return worker.phase is not Phase.WARM and isinstance(worker.operation, Removal) and worker.operation.keeps


def _why_not_kept(worker: Worker, pool: Pool, target: LaunchTarget, now: datetime) -> str:
    if worker.instance and now - worker.instance.first_launched_at >= pool.warm.max_age:
        return f"warm.max_age is {pool.warm.max_age.total_seconds() / 3600:.0f} h"
    return describe_drift(worker, pool, target)


def _cleanup(worker: Worker, reason: str, ctx: PoolContext) -> Cleanup:
    return Cleanup(
        id=operation_id(ctx.observation, "cleanup", worker.id),
        pool=ctx.pool.name,
        debris=OrphanKind.INSTANCE,
        target=worker.id,
        reason=f"it was kept warm, and is no longer: {reason}",
        first_seen=ctx.observation.at,
        started=ctx.observation.at,
        deadline=ctx.observation.at + ctx.pool.budgets.cleanup_after + ctx.pool.removal.drain_timeout,
    )
