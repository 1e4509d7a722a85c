"""Capacity of a pool, the workers that count against max and the caps of the fleet, lost workers, and market shares."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from nodefleet.model.fleet import (
    LEAVES,
    READY_OR_NEARLY,
    Count,
    Phase,
    Worker,
)
from nodefleet.model.inventory import NOTHING, Instance, InstanceType, Market, Node, Resources, price_of
from nodefleet.model.operations import Launch, Operation, Removal, RemovalReason, listed_by_launch
from nodefleet.model.snapshot import Missing, Observation, Reading, Sample
from nodefleet.model.state import Loss, Memory, PoolMemory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import FleetLimits, Policy
from nodefleet.policy.demand import ClearTime
from nodefleet.policy.pool import MarketMix, Pool

# ── capacity and losses ──────────────────────────────────────────────────────────────────────────────────────────────


_FAILED = (Phase.JOIN_FAILED, Phase.UNHEALTHY)


def unseen_launches(operations: Iterable[Operation], instances: Sequence[Instance]) -> Iterator[tuple[Launch, int]]:
    """Open launches, with the number of instances that each requested and that EC2 does not list yet."""
    operations = tuple(operations)
    seen = listed_by_launch(operations, instances)
    for operation in operations:
        if isinstance(operation, Launch):
            yield operation, max(0, operation.expected - seen[operation.id])


def count_workers(workers: Sequence[Worker], observation: Observation, pool: str) -> Count:
    instances = () if isinstance(observation.instances, Missing) else observation.instances
    unseen = sum(
        missing for launch, missing in unseen_launches(observation.operations, instances) if launch.pool == pool
    )
    return Count(
        ready=sum(worker.is_capacity and worker.phase in READY_OR_NEARLY for worker in workers),
        booting=sum(worker.is_capacity and worker.phase is Phase.BOOTING for worker in workers) + unseen,
        leaving=sum(worker.phase in LEAVES for worker in workers),
        interrupted=sum(worker.phase is Phase.INTERRUPTED for worker in workers),
        failed=sum(worker.phase in _FAILED for worker in workers),
        occupied=sum(worker.occupies for worker in workers) + unseen,
    )


def fleet_occupied(fleet: Sequence[Worker], observation: Observation, policy: Policy, memory: Memory) -> int:
    """The number that counts against fleet.max: workers with and without a pool, requested instances that EC2 does not
    list yet, and, for a while, members that EC2 no longer lists."""
    instances = () if isinstance(observation.instances, Missing) else observation.instances
    asking = {each.pool for each in observation.operations if isinstance(each, Launch)}
    unseen = sum(
        missing for launch, missing in unseen_launches(observation.operations, instances) if launch.pool in asking
    )
    gone = sum(
        len(vanished_members([w for w in fleet if w.pool == pool.name], pool, observation, memory.pool(pool.name)))
        for pool in policy.pools
    )
    return sum(worker.occupies for worker in fleet) + unseen + gone


def vanished_members(
    workers: Sequence[Worker], pool: Pool, observation: Observation, before: PoolMemory
) -> dict[str, datetime]:
    """Members of the pool that EC2 does not list, and since when; while EC2 is unavailable, the previous ones."""
    if isinstance(observation.instances, Missing):
        return dict(before.vanished)
    return find_vanished(workers, before.members, before.vanished, observation.at, pool.budgets.cleanup_after)


def find_vanished(
    workers: Sequence[Worker], members: Sequence[str], before: Mapping[str, datetime], now: datetime, doubt: timedelta
) -> dict[str, datetime]:
    """Members that disappeared from EC2's list without being shown as terminated, and since when.

    EC2 lists terminated instances for about an hour, so the list may be stale: for the time `doubt` these members still
    count against max. A Node that is not ready is no proof that its instance is gone.
    """
    shown = {worker.id for worker in workers if worker.instance or worker.occupies}
    since = {**dict.fromkeys(members, now), **before}
    return {identity: at for identity, at in since.items() if identity not in shown and now - at < doubt}


def count_covered(workers: Sequence[Worker], sample: Sample) -> int:
    """The number of ready workers that were ready at the time of the reading, which describes only them."""
    ready = [worker for worker in workers if worker.is_capacity and worker.phase in READY_OR_NEARLY]
    if not isinstance(sample, Reading):
        return len(ready)
    return sum(_was_ready(worker, sample.at) for worker in ready)


def _was_ready(worker: Worker, at: datetime) -> bool:
    since = worker.node.ready_changed_at if worker.node else None
    return since is None or worker.phase is Phase.UNREADY or since <= at


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMembers:
    """The workers that are capacity now, and the losses: former members that have to be replaced."""

    members: tuple[str, ...]
    losses: tuple[Loss, ...]


def track_members(
    workers: Sequence[Worker],
    before: Sequence[str],
    losses: Sequence[Loss],
    now: datetime,
    looked_at: datetime | None = None,
) -> PoolMembers:
    """Update members and losses. A loss is a worker that neither we removed nor an operator holds back; it is replaced.

    `before` are the members at the last iteration. A worker that was launched after it and is already interrupted
    counts as one of them.
    """
    by_id = {worker.id: worker for worker in workers}
    before = [*before, *(worker.id for worker in workers if _came_and_goes(worker, looked_at))]
    members = tuple(worker.id for worker in workers if worker.is_capacity)
    present = frozenset(members)
    open_losses = [loss for loss in losses if loss.worker not in present and (not loss.expires or now < loss.expires)]
    known = {loss.worker for loss in open_losses}
    for identity in before:
        worker = by_id.get(identity)
        if identity not in present and identity not in known and not _went_by_will(worker):
            cause = worker.phase.value if worker else Phase.GONE.value
            open_losses.append(Loss(worker=identity, at=now, cause=cause))
    return PoolMembers(members=members, losses=tuple(open_losses))


def _came_and_goes(worker: Worker, looked_at: datetime | None) -> bool:
    came_since = bool(looked_at and worker.instance and worker.instance.launched_at > looked_at)
    return came_since and worker.phase is Phase.INTERRUPTED


def _went_by_will(worker: Worker | None) -> bool:
    if worker is None:
        return False
    leaving = (
        isinstance(worker.operation, Removal) and worker.operation.why is RemovalReason.VOLUNTARY and not worker.notice
    )
    return leaving or worker.held_by_person


# ── amounts under the caps of the fleet ──────────────────────────────────────────────────────────────────────────────


Amounts = Mapping[str, float]  # by cap: cpu, memory, gpus, usd_per_hour

_GIB = 1 << 30
_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
ROUNDING = 1e-9  # of sums of prices
_CAPPED = ("cpu", "memory", "gpus", "usd_per_hour")


def caps_of(limits: FleetLimits) -> Amounts:
    """The caps that the policy sets."""
    return {name: limit for name in _CAPPED if (limit := getattr(limits, name)) is not None}


def amounts_in_use(fleet: Sequence[Worker], observation: Observation, policy: Policy, memory: Memory) -> Amounts:
    """What all workers count against the caps, with the launches that EC2 does not show yet and, for a while, the
    members that it shows no longer: those as the largest of their pool's types. Empty without caps."""
    if not caps_of(policy.fleet):
        return {}
    catalog = observation.offers
    used: Counter[str] = Counter()
    for worker in fleet:
        if worker.occupies and worker.instance:
            used.update(amounts_of([worker.instance.type], catalog, worker.instance.market))
        elif worker.occupies:
            used.update(largest_of(policy.pool(worker.pool), catalog))
    for pool in policy.pools:
        own = [worker for worker in fleet if worker.pool == pool.name]
        for _ in vanished_members(own, pool, observation, memory.pool(pool.name)):
            used.update(largest_of(pool, catalog))
    instances = () if isinstance(observation.instances, Missing) else observation.instances
    shown = listed_by_launch(observation.operations, instances)
    for operation in observation.operations:
        if isinstance(operation, Launch):
            for _ in range(max(0, operation.expected - shown[operation.id])):
                used.update(amounts_of(operation.types, catalog, operation.market))
    return used


def exceeds_caps(fleet: Sequence[Worker], observation: Observation, policy: Policy, memory: Memory) -> bool:
    """Whether all workers together, requested ones included, have more of something than the policy's caps."""
    return is_above_caps(amounts_in_use(fleet, observation, policy, memory), policy.fleet)


def is_above_caps(used: Amounts, limits: FleetLimits) -> bool:
    return any(used.get(name, 0.0) > cap + ROUNDING for name, cap in caps_of(limits).items())


def largest_of(pool: Pool | None, catalog: Mapping[str, InstanceType]) -> Counter[str]:
    """Of a node of the pool that is not there yet, or whose type is not shown."""
    return amounts_of(pool.market.types if pool else (), catalog, Market.ON_DEMAND)


def amounts_of(types: Sequence[str], catalog: Mapping[str, InstanceType], market: Market) -> Counter[str]:
    """Of one instance of the type that takes most; nothing of types that the catalogue does not have."""
    known = [catalog[name] for name in types if name in catalog]
    return Counter(
        {
            "cpu": max((each.resources.cpu / 1000 for each in known), default=0.0),
            "memory": max((each.resources.memory / _GIB for each in known), default=0.0),
            "gpus": max((sum(each.resources.extended.get(gpu, 0) for gpu in _GPUS) for each in known), default=0),
            "usd_per_hour": max((price_of(each.name, market, catalog) or 0.0 for each in known), default=0.0),
        }
    )


# ── market shares ────────────────────────────────────────────────────────────────────────────────────────────────────


def on_demand_share(total: int, mix: MarketMix) -> int:
    """How many of `total` nodes are On-Demand: at least the base, and what Spot's share leaves (halves go to Spot)."""
    spot = int(mix.spot_percent * total / 100 + 0.5)
    return min(total, max(mix.on_demand_base, total - spot))


def market_of(worker: Worker) -> Market | None:
    return worker.instance.market if worker.instance else None


def on_demand_of(workers: Iterable[Worker]) -> int:
    return sum(market_of(worker) is Market.ON_DEMAND for worker in workers)


def above_share(workers: Sequence[Worker], mix: MarketMix) -> Market | None:
    """The market to remove a node from: the one above its share of a fleet that is smaller by one node."""
    if not workers:
        return None
    kept = on_demand_share(len(workers) - 1, mix)
    return Market.ON_DEMAND if on_demand_of(workers) > kept else Market.SPOT


# ── peaks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_peak(peaks: Mapping[str, int], capacity: int, pool: Pool, now: datetime, times: float = 1.0) -> dict[str, int]:
    """The highest capacity of each day, today included, for as many days as a rule or the headroom needs: without the
    nodes that are spare because of it, or the peak would feed on itself. `times`: of the headroom at this hour."""
    days = max((rule.peak_days for rule in pool.custom if isinstance(rule, ClearTime) and rule.warm_percent), default=0)
    if pool.headroom.peak_percent:
        days = max(days, pool.headroom.peak_days)
    if not days:
        return {}
    today, since = now.date().isoformat(), (now - timedelta(days=days)).date().isoformat()
    kept = {day: nodes for day, nodes in peaks.items() if day >= since}
    spare = spare_nodes(pool, kept, now, times) if pool.headroom.peak_percent else 0
    return {**kept, today: max(0, capacity - spare, kept.get(today, 0))}


def spare_nodes(pool: Pool, peaks: Mapping[str, int], now: datetime, times: float) -> int:
    """Whole nodes that the headroom keeps free."""
    rules = pool.headroom
    since = (now - timedelta(days=rules.peak_days)).date().isoformat()
    peak = max((nodes for day, nodes in peaks.items() if day >= since), default=0)
    return ceil(times * max(rules.nodes, peak * rules.peak_percent / 100))


# ── size of the fleet ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    """The size of the fleet, as input to every signal besides its own readings."""

    now: datetime
    covered: int  # ready workers that the readings cover
    measured: int | None = None  # those of them whose exporters answer: readings are their mean; None: all
    capacity: int  # ready and booting workers
    peaks: Mapping[str, int] = field(default_factory=dict)  # the highest capacity of the last days, by UTC date


# ── devices ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# GPUs and other devices of nodes: extended resources that a device plugin offers some time after the node is ready.
#
# Until then the catalogue of types knows what the node will hold: a ready node without its devices is still booting for
# the pods that ask for them. After `health.device_limit` it counts as what it is, a node without devices.


def awaited_devices(observation: Observation, policy: Policy, workers: Iterable[Worker]) -> Mapping[str, Resources]:
    """By node: what a ready node will hold once its device plugin is up, while that may still take its time."""
    catalog = {offer.name: offer.resources for offer in observation.catalog if offer.resources.extended}
    found = {}
    for worker in workers if catalog else ():
        pool, node = policy.pool(worker.pool), worker.node
        if pool is None or node is None or worker.instance is None or worker.phase is not Phase.READY:
            continue
        complete = node.allocatable.with_devices(catalog.get(worker.instance.type, NOTHING))
        if complete is not node.allocatable and not _is_late(node, pool, observation.at):
            found[node.name] = complete
    return found


def lacks_devices(pod: Pod, node: Node, pool: Pool, now: datetime) -> str | None:
    """Which device that the pod asks for the node should offer by now and does not; none if it still has time."""
    if not pod.requests.extended or not _is_late(node, pool, now):
        return None
    absent = (name for name in sorted(pod.requests.extended) if not node.allocatable.extended.get(name))
    name = next(absent, None)
    return f"it offers no {name}, so its device plugin is not running" if name else None


def _is_late(node: Node, pool: Pool, now: datetime) -> bool:
    return node.ready_changed_at is None or now - node.ready_changed_at >= pool.health.device_limit
