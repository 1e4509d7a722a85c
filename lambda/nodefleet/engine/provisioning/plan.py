"""From "so many more" to steps: uncordon what was leaving, then start what is warm, then launch."""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.engine.context import PlacementRequest, operation_id, target_of
from nodefleet.engine.provisioning.placement import ANY, Placed, place
from nodefleet.engine.warm_pool import startable
from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Market
from nodefleet.model.operations import CancelRemoval, Create, Launch, Purpose, Removal, RemovalReason, SendAlert, Step
from nodefleet.model.snapshot import LaunchTarget, Observation
from nodefleet.model.state import PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool

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
    replacing: frozenset[str] = (
        frozenset()
    )  # workers that go when the new ones are there: their zone and market is free
    reason: str


def plan_scale_up(
    need: ScaleUpRequest, workers: Sequence[Worker], pool: Pool, memory: PoolMemory, seen: Observation, policy: Policy
) -> ScaleUpPlan:
    back = _uncordon_leaving(workers, need)
    more = need.more - len(back)
    target = target_of(seen, pool)
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
        seen.at,
        on_demand_at_least=min(need.on_demand, more),
        warm=startable(workers, pool, seen),
    )
    steps: list[Step] = [*back, *_launches(placed.launches, need, pool, target, seen, policy)]
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
    placed: Sequence[Placed], need: ScaleUpRequest, pool: Pool, target: LaunchTarget, seen: Observation, policy: Policy
) -> list[Create]:
    left_to_restore = need.restoring
    opened = []
    for index, each in enumerate(placed):
        purpose = Purpose.RESTORE if left_to_restore > 0 else Purpose.GROW
        left_to_restore -= each.count
        opened.append(launch_of(each, index, purpose, need.reason, pool, target, seen, policy))
    return opened


def launch_of(
    placed: Placed,
    index: int,
    purpose: Purpose,
    reason: str,
    pool: Pool,
    target: LaunchTarget,
    seen: Observation,
    policy: Policy,
) -> Create:
    return Create(
        Launch(
            id=operation_id(seen, "launch", f"{pool.name}-{placed.zone}-{placed.market.value}-{index}"),
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
            started=seen.at,
            # Its caller holds the lease for no longer than this, so no run sends it later.
            deadline=seen.at + policy.lease,
        )
    )


def _nowhere(missing: int, pool: Pool, target: LaunchTarget) -> str:
    wanted = f"{missing} more {'node is' if missing == 1 else 'nodes are'} wanted"
    if not target.subnets:
        return f"{wanted}, but pool {pool.name} has no subnets to launch in. Check the deployment."
    zones, types = ", ".join(sorted(target.subnets)), ", ".join(pool.market.types)
    lack = "lacks" if len(pool.market.types) == 1 else "lack"
    return f"{wanted}, but {types} {lack} capacity in {zones}. Add instance types or zones."
