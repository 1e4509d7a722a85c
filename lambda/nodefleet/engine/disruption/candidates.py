"""Candidates for removal, for every other node the reason why it stays, and the removals that begin.

A node may leave when nothing protects it and all its pods have somewhere to go. Order: what EC2 has announced to take,
the market above its share, what was not ready since it joined, the zone with the most nodes, what is due for rotation,
the highest CPU idle, the fewest pods, the name. Nodes behind the first choice are outranked, not examined.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nodefleet.capacity import above_share, market_of
from nodefleet.engine.context import RemovalContext, operation_id
from nodefleet.eviction.protection import NodeProtection, find_protection
from nodefleet.model.decision import KeepReason, KeptNode
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Market
from nodefleet.model.names import pluralize, some
from nodefleet.model.operations import Create, Removal, RemovalReason
from nodefleet.model.snapshot import Observation
from nodefleet.model.workload import Pod
from nodefleet.policy.pool import Health, Pool

_WHATEVER_ROOM = frozenset(  # reasons to stay that one node more does not end
    {
        KeepReason.OPTED_OUT,
        KeepReason.POD_OPTED_OUT,
        KeepReason.KUBE_SYSTEM,
        KeepReason.UNMANAGED_POD,
        KeepReason.LOCAL_DATA,
        KeepReason.BUDGET,
        KeepReason.ONLY_STATEFUL_POD,
        KeepReason.SINGLE_REPLICA,
        KeepReason.BACKING_OFF,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    chosen: tuple[Worker, ...] = ()
    stays: tuple[KeptNode, ...] = ()

    @property
    def obstacle(self) -> str:
        """Why no node leaves, in words."""
        by_cause: defaultdict[str, list[str]] = defaultdict(list)
        for stay in self.stays:
            if cause := stay.detail or (stay.phase.value if stay.reason is KeepReason.NOT_READY else ""):
                by_cause[cause].append(stay.worker)
        told = [f"{cause} ({some(names)})" for cause, names in by_cause.items()]
        return f"no node can leave: {some(told, '; ')}" if told else "no node can leave"


def not_asked(workers: Iterable[Worker]) -> Selection:
    """No node has to leave; those that could not anyway say so."""
    return Selection(stays=tuple(_unfit(worker) or _kept_node(worker, KeepReason.NOT_ASKED) for worker in workers))


def select_candidates(
    workers: Sequence[Worker],
    pool: Pool,
    number: int,
    removal_context: RemovalContext,
    *,
    due: Sequence[Worker] | None = None,
    ranked: Sequence[Worker] | None = None,
) -> Selection:
    """Up to `number` workers that may leave now, within the budget of removals at a time.

    With `due` only those: each has its replacement, or is owed one, so a zone or the On-Demand base does not keep it.
    With `ranked` only those, in this order, and nothing is taken for granted.
    """
    stays = {worker.id: unfit for worker in workers if (unfit := _unfit(worker))}
    candidates = [worker for worker in workers if worker.id not in stays]
    left = None if due is not None else _Left(candidates)
    only = due if due is not None else ranked
    if only is not None:
        asked = {worker.id for worker in only}
        stays |= {each.id: _kept_node(each, KeepReason.NOT_ASKED) for each in candidates if each.id not in asked}
        candidates = [each for each in only if each.id not in stays]
    under_way = sum(_leaves_by_choice(worker) for worker in workers)
    free = min(number, pool.budgets.removals - under_way)
    chosen: list[Worker] = []
    for worker in candidates if only is not None else rank_candidates(candidates, removal_context, pool):
        if len(chosen) >= free:
            stays[worker.id] = _behind(worker, chosen, under_way, pool)
            continue
        kept = _find_obstacle(worker, pool, left, removal_context)
        if kept is None:
            chosen.append(worker)
            if left:
                left.remove(worker)
        else:
            stays[worker.id] = _kept_node(worker, kept.reason, kept.sentence)
    for worker in chosen:
        stays[worker.id] = _kept_node(worker, KeepReason.CHOSEN, "leaves now")
    return Selection(chosen=tuple(chosen), stays=tuple(stays[worker.id] for worker in workers))


def is_held_fast(worker: Worker, pool: Pool, removal_context: RemovalContext) -> NodeProtection | None:
    """What keeps it whatever room there is. The simulation of the scheduler is not asked, and so not changed."""
    kept = _find_keep_reason(worker, pool, None, removal_context)
    return kept if kept and kept.reason in _WHATEVER_ROOM else None


def rank_candidates(workers: Iterable[Worker], removal_context: RemovalContext, pool: Pool) -> list[Worker]:
    """Who goes first."""
    everyone = list(workers)
    above = above_share(everyone, pool.market)
    per_zone = Counter(worker.zone for worker in everyone)
    pods = removal_context.pods or {}
    unsteady = {worker.id for worker in everyone if _was_unready(worker, pool.health)}
    if len(unsteady) > max(1, len(everyone) // pool.health.sick_one_in):
        unsteady = set()  # that was the control plane or the network, and says nothing of the nodes

    def order(worker: Worker) -> tuple[bool, bool, bool, int, bool, float, int, str]:
        movable = sum(pod.movable for pod in pods.get(worker.name, ()))
        return (
            not (worker.planned or worker.ailment),
            market_of(worker) is not above,
            worker.id not in unsteady,
            -per_zone[worker.zone],
            worker.id not in removal_context.rotating,
            -removal_context.idle.get(worker.name, 0.0),
            movable,
            worker.name,
        )

    return sorted(everyone, key=order)


def _was_unready(worker: Worker, health: Health) -> bool:
    """It became ready again long after it had joined, and may do so once more: each time costs another node that is
    launched in its place and given back."""
    node, instance = worker.node, worker.instance
    if node is None or instance is None or node.ready_changed_at is None:
        return False
    return node.ready_changed_at - instance.launched_at >= health.join_limit


class _Left:
    """Who would remain, counted so that each candidate is judged without looking at all others."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        everyone = list(workers)
        self.per_zone = Counter(worker.zone for worker in everyone)
        self.per_market = Counter(market_of(worker) for worker in everyone)

    def remove(self, worker: Worker) -> None:
        self.per_zone[worker.zone] -= 1
        self.per_market[market_of(worker)] -= 1


def _find_obstacle(
    worker: Worker, pool: Pool, left: _Left | None, removal_context: RemovalContext
) -> NodeProtection | None:
    kept = _find_keep_reason(worker, pool, left, removal_context)
    if kept is not None:
        return kept
    if left and (stuck := _of_refused(worker, removal_context)):
        return stuck
    mark = removal_context.simulation.mark()
    unplaceable = removal_context.simulation.try_drain(worker.name)
    if unplaceable is not None:
        return NodeProtection(reason=KeepReason.NOWHERE_TO_GO, sentence=f"{unplaceable.pod.key} {unplaceable.why}")
    if left and not all(map(removal_context.simulation.fits_all, removal_context.headroom)):
        removal_context.simulation.roll_back(mark)
        return NodeProtection(reason=KeepReason.NOWHERE_TO_GO, sentence="the pool's headroom has no room without it")
    return None


def _of_refused(worker: Worker, removal_context: RemovalContext) -> NodeProtection | None:
    """One of its pods would wait as others of its workload do, for a reason that the simulation does not know."""
    own = (removal_context.pods or {}).get(worker.name, ()) if removal_context.refused else ()
    for pod in own:
        if pod.movable and pod.owner and pod.owner.uid in removal_context.refused:
            sentence = f"{pod.key} may find no other place: pods of its workload wait though there is room"
            return NodeProtection(reason=KeepReason.NOWHERE_TO_GO, sentence=sentence)
    return None


def _find_keep_reason(
    worker: Worker, pool: Pool, left: _Left | None, removal_context: RemovalContext
) -> NodeProtection | None:
    """What protects it, before it is tried whether its pods have somewhere to go."""
    if worker.name in removal_context.unmeasured:
        return NodeProtection(reason=KeepReason.UNMEASURED, sentence="it is not measured")
    if removal_context.pods is None:
        return NodeProtection(reason=KeepReason.PODS_UNKNOWN, sentence="its pods are not known")
    if left and (last := _last_of_zone(worker, left, removal_context)):
        return last
    own = removal_context.pods.get(worker.name, ())
    kept = find_protection(
        worker, own, removal_context.ledger, pool.removal, removal_context.backoffs, removal_context.now
    )
    if kept is not None:
        return kept
    if removal_context.settles and (short := _not_whole(own, removal_context.pods)):
        return short
    if left and (base := _of_base(worker, pool, left)):
        return base
    return None


def _not_whole(own: Iterable[Pod], pods: Mapping[str, Sequence[Pod]]) -> NodeProtection | None:
    """A workload of this node that lacks replicas elsewhere: with these away too more of it would be down than one node
    holds, budget or not."""
    mine = Counter(key for pod in own if pod.movable and (key := _workload(pod)))
    if not mine:
        return None
    here = {pod.uid for pod in own}
    ready = Counter(
        key
        for each in pods.values()
        for pod in each
        if pod.uid not in here and pod.ready and pod.deleted_at is None and (key := _workload(pod)) in mine
    )
    for (kind, name, _, replicas), count in mine.items():
        missing = replicas - count - ready[kind, name, _, replicas]
        if missing > 0:
            of_all, are = pluralize(replicas, "pod", "pods"), "is" if missing == 1 else "are"
            sentence = f"{missing} of {of_all} of {kind} {name} {are} not ready since the last removal"
            return NodeProtection(reason=KeepReason.NOT_WHOLE, sentence=sentence)
    return None


def _workload(pod: Pod) -> tuple[str, str, str, int] | None:
    owner = pod.owner
    return (owner.kind, owner.name, pod.namespace, owner.replicas) if owner and owner.replicas is not None else None


def _last_of_zone(worker: Worker, left: _Left, removal_context: RemovalContext) -> NodeProtection | None:
    others = left.per_zone.total() - 1
    if left.per_zone[worker.zone] != 1 or not others >= removal_context.zones > 1:
        return None
    sentence = f"the last worker of {worker.zone}, and {others} could still cover {removal_context.zones} zones"
    return NodeProtection(reason=KeepReason.LAST_OF_ZONE, sentence=sentence)


def _of_base(worker: Worker, pool: Pool, left: _Left) -> NodeProtection | None:
    base, on_demand = pool.market.on_demand_base, left.per_market[Market.ON_DEMAND]
    if market_of(worker) is not Market.ON_DEMAND or on_demand > base or not left.per_market[Market.SPOT]:
        return None
    one = "the only On-Demand worker" if on_demand == 1 else f"one of {on_demand} On-Demand workers"
    return NodeProtection(reason=KeepReason.ON_DEMAND_BASE, sentence=f"{one}, and the base is {base}")


def _unfit(worker: Worker) -> KeptNode | None:
    """Workers that are no candidates, whatever is asked."""
    if worker.held_by_person:
        return _kept_node(worker, KeepReason.CORDONED_BY_OPERATOR, "cordoned by an operator")
    if worker.phase is not Phase.READY:
        return _kept_node(worker, KeepReason.NOT_READY)
    return None


def _behind(worker: Worker, chosen: Sequence[Worker], under_way: int, pool: Pool) -> KeptNode:
    if chosen:
        return _kept_node(worker, KeepReason.OUTRANKED, f"{chosen[0].name} goes first")
    under = pluralize(under_way, "removal is", "removals are")
    detail = f"{under} under way, and budgets.removals is {pool.budgets.removals}"
    return _kept_node(worker, KeepReason.ONE_AT_A_TIME, detail)


def _leaves_by_choice(worker: Worker) -> bool:
    return isinstance(worker.operation, Removal) and worker.operation.why is RemovalReason.VOLUNTARY


def _kept_node(worker: Worker, reason: KeepReason, detail: str = "") -> KeptNode:
    return KeptNode(worker=worker.name, phase=worker.phase, reason=reason, detail=detail)


# ── their removals ───────────────────────────────────────────────────────────────────────────────────────────────────


def open_removal(
    worker: Worker,
    pool: Pool,
    observation: Observation,
    reason: str,
    *,
    keeps: bool = False,
    rotated: bool = False,
    consolidates: bool = False,
    saves_usd: float | None = None,
) -> Create:
    """A voluntary removal: it ends by its deadline, one way or the other."""
    removal = new_removal(
        worker, RemovalReason.VOLUNTARY, reason, observation.at + pool.removal.drain_timeout, observation
    )
    return Create(
        replace(
            removal,
            keeps=keeps,
            rotated=rotated,
            consolidates=consolidates,
            saves_usd=saves_usd,
            notice=worker.planned.kind if worker.planned else None,
        )
    )


def new_removal(
    worker: Worker, why: RemovalReason, reason: str, deadline: datetime, observation: Observation
) -> Removal:
    return Removal(
        id=operation_id(observation, why.value, worker.id),
        pool=worker.pool,
        instance=worker.id,
        node=worker.node.name if worker.node else "",
        why=why,
        reason=reason,
        started=observation.at,
        deadline=deadline,
    )
