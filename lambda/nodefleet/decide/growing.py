"""From "so many more" to steps: let back in what was leaving, then launch."""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.decide.naming import operation_id
from nodefleet.decide.placement import ANY, Ask, Placed, place
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.machines import Market
from nodefleet.domain.memory import PoolMemory
from nodefleet.domain.observation import LaunchTarget, Observation
from nodefleet.domain.operations import CancelRemoval, Launch, Open, Purpose, Removal, Step, Tell, Why
from nodefleet.domain.policy import Policy, Pool

# The least progressed comes back first: fewer of its pods have moved.
_CAN_COME_BACK = (Phase.CORDONED, Phase.DRAINING, Phase.DRAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    steps: tuple[Step, ...]
    nodes: int  # how many more there will be
    obstacle: str = ""  # why there are not as many as asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    more: int
    restoring: int  # how many of them only make up for what is missing: they start no cooldown
    on_demand: int = 0  # at least so many On-Demand: replacements that hold min
    asks: tuple[Ask, ...] = ()  # what waiting pods need of the new nodes
    replacing: frozenset[str] = (
        frozenset()
    )  # workers that go when the new ones are there: their zone and market is free
    reason: str


def grow(
    need: Need, workers: Sequence[Worker], pool: Pool, memory: PoolMemory, seen: Observation, policy: Policy
) -> Growth:
    back = _let_back_in(workers, need)
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
    )
    steps: list[Step] = [*back, *_launches(placed.launches, need, pool, target, seen, policy)]
    launched = sum(each.count for each in placed.launches)
    obstacle = _nowhere(placed.missing, pool, target) if placed.missing else ""
    if obstacle:
        steps.append(Tell(alert=AlertKind.NO_CAPACITY, pool=pool.name, subjects=(), text=obstacle))
    return Growth(steps=tuple(steps), nodes=len(back) + launched, obstacle=obstacle)


def target_of(seen: Observation, pool: Pool) -> LaunchTarget:
    """Where the pool's nodes are launched; nowhere, if the deployment does not say."""
    return next((each for each in seen.targets if each.pool == pool.name), LaunchTarget(pool=pool.name))


def _let_back_in(workers: Sequence[Worker], need: Need) -> list[CancelRemoval]:
    leaving = [(worker, worker.operation) for worker in workers if isinstance(worker.operation, Removal)]
    ours = [
        (worker, removal)
        for worker, removal in leaving
        if removal.why is Why.VOLUNTARY
        and removal.notice is None  # EC2 takes it sooner or later
        and worker.phase in _CAN_COME_BACK
        and not (removal.terminating or removal.cancelled)
    ]
    ours.sort(key=lambda pair: (_CAN_COME_BACK.index(pair[0].phase), pair[0].id))
    return [CancelRemoval(operation=removal.id, reason=need.reason) for _, removal in ours[: need.more]]


def _launches(
    placed: Sequence[Placed], need: Need, pool: Pool, target: LaunchTarget, seen: Observation, policy: Policy
) -> list[Open]:
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
) -> Open:
    return Open(
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
            purpose=purpose,
            reason=reason,
            started=seen.at,
            # Its caller holds the lease for no longer than this, so nobody sends it later.
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
