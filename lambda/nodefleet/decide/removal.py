"""Who leaves, and for everybody else why not.

A node may leave when nothing protects it and all its pods have somewhere to go. Order: what EC2 has announced to take,
the market above its share, the zone with the most nodes, what is due for rotation, the highest CPU idle, the fewest
pods, the name. Nodes behind the first choice are outranked, not examined.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.decide.disruption import Ledger
from nodefleet.decide.placement import above_share, market_of
from nodefleet.decide.protection import Protected, protection
from nodefleet.decide.scheduling.room import Room
from nodefleet.domain.decision import Stay, StayReason
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.machines import Market
from nodefleet.domain.memory import Backoff
from nodefleet.domain.operations import Removal, Why
from nodefleet.domain.policy import MarketMix, Pool
from nodefleet.domain.wording import counted, some
from nodefleet.domain.workload import Pod

_WHATEVER_ROOM = frozenset(  # reasons to stay that one node more does not end
    {
        StayReason.OPTED_OUT,
        StayReason.POD_OPTED_OUT,
        StayReason.KUBE_SYSTEM,
        StayReason.UNMANAGED_POD,
        StayReason.LOCAL_DATA,
        StayReason.BUDGET,
        StayReason.ONLY_STATEFUL_POD,
        StayReason.SINGLE_REPLICA,
        StayReason.BACKING_OFF,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the choice rests on."""

    pods: Mapping[str, Sequence[Pod]] | None  # by node; none: pods are not known, and nobody leaves
    ledger: Ledger
    room: Room
    zones: int  # how many zones the pool can use
    idle: Mapping[str, float]  # CPU idle percent by node
    backoffs: tuple[Backoff, ...]
    now: datetime
    settles: bool = False  # a removal began a short while ago: its pods may not be ready elsewhere yet
    unmeasured: frozenset[str] = frozenset()  # nodes that are in no figure: nobody knows what they carry
    rotating: frozenset[str] = frozenset()  # workers that are due for rotation: one that leaves needs no replacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    chosen: tuple[Worker, ...] = ()
    stays: tuple[Stay, ...] = ()

    @property
    def obstacle(self) -> str:
        """Why nobody leaves, in words."""
        by_cause: defaultdict[str, list[str]] = defaultdict(list)
        for stay in self.stays:
            if cause := stay.detail or (stay.phase.value if stay.reason is StayReason.NOT_READY else ""):
                by_cause[cause].append(stay.worker)
        told = [f"{cause} ({some(names)})" for cause, names in by_cause.items()]
        return f"no node can leave: {some(told, '; ')}" if told else "no node can leave"


def not_asked(workers: Iterable[Worker]) -> Leaving:
    """Nobody has to leave; those that could not anyway say so."""
    return Leaving(stays=tuple(_unfit(worker) or _stay(worker, StayReason.NOT_ASKED) for worker in workers))


def choose(
    workers: Sequence[Worker], pool: Pool, number: int, ground: Ground, *, due: Sequence[Worker] | None = None
) -> Leaving:
    """Up to `number` workers that may leave now, within the budget of removals at a time.

    With `due` only those: each has its replacement, or is owed one, so a zone or the On-Demand base does not keep it.
    """
    stays = {worker.id: unfit for worker in workers if (unfit := _unfit(worker))}
    candidates = [worker for worker in workers if worker.id not in stays]
    left = None if due is not None else _Left(candidates)
    if due is not None:
        asked = {worker.id for worker in due}
        stays |= {each.id: _stay(each, StayReason.NOT_ASKED) for each in candidates if each.id not in asked}
        candidates = [each for each in due if each.id not in stays]
    under_way = sum(_leaves_by_choice(worker) for worker in workers)
    free = min(number, pool.budgets.removals - under_way)
    chosen: list[Worker] = []
    for worker in candidates if due is not None else ranked(candidates, ground, pool.market):
        if len(chosen) >= free:
            stays[worker.id] = _behind(worker, chosen, under_way, pool)
            continue
        kept = _protected(worker, pool, left, ground)
        if kept is None:
            chosen.append(worker)
            if left:
                left.remove(worker)
        else:
            stays[worker.id] = _stay(worker, kept.reason, kept.sentence)
    for worker in chosen:
        stays[worker.id] = _stay(worker, StayReason.CHOSEN, "leaves now")
    return Leaving(chosen=tuple(chosen), stays=tuple(stays[worker.id] for worker in workers))


def is_held_fast(worker: Worker, pool: Pool, ground: Ground) -> Protected | None:
    """What keeps it whatever room there is. The simulation of the scheduler is not asked, and so not changed."""
    kept = _kept(worker, pool, None, ground)
    return kept if kept and kept.reason in _WHATEVER_ROOM else None


def ranked(workers: Iterable[Worker], ground: Ground, mix: MarketMix) -> list[Worker]:
    """Who goes first."""
    everyone = list(workers)
    above = above_share(everyone, mix)
    per_zone = Counter(worker.zone for worker in everyone)
    pods = ground.pods or {}

    def order(worker: Worker) -> tuple[bool, bool, int, bool, float, int, str]:
        movable = sum(pod.movable for pod in pods.get(worker.name, ()))
        return (
            not (worker.planned or worker.ailment),
            market_of(worker) is not above,
            -per_zone[worker.zone],
            worker.id not in ground.rotating,
            -ground.idle.get(worker.name, 0.0),
            movable,
            worker.name,
        )

    return sorted(everyone, key=order)


class _Left:
    """Who would remain, counted so that each candidate is judged without looking at all others."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        everyone = list(workers)
        self.per_zone = Counter(worker.zone for worker in everyone)
        self.per_market = Counter(market_of(worker) for worker in everyone)

    def remove(self, worker: Worker) -> None:
        self.per_zone[worker.zone] -= 1
        self.per_market[market_of(worker)] -= 1


def _protected(worker: Worker, pool: Pool, left: _Left | None, ground: Ground) -> Protected | None:
    kept = _kept(worker, pool, left, ground)
    if kept is not None:
        return kept
    homeless = ground.room.vacate(worker.name)
    if homeless is not None:
        return Protected(reason=StayReason.NOWHERE_TO_GO, sentence=f"{homeless.pod.key} {homeless.why}")
    return None


def _kept(worker: Worker, pool: Pool, left: _Left | None, ground: Ground) -> Protected | None:
    """What protects it, before it is tried whether its pods have somewhere to go."""
    if worker.name in ground.unmeasured:
        return Protected(reason=StayReason.UNMEASURED, sentence="it is not measured")
    if ground.pods is None:
        return Protected(reason=StayReason.PODS_UNKNOWN, sentence="its pods are not known")
    if left and (last := _last_of_zone(worker, left, ground)):
        return last
    own = ground.pods.get(worker.name, ())
    kept = protection(worker, own, ground.ledger, pool.removal, ground.backoffs, ground.now)
    if kept is not None:
        return kept
    if ground.settles and (short := _not_whole(own, ground.pods)):
        return short
    if left and (base := _of_base(worker, pool, left)):
        return base
    return None


def _not_whole(own: Iterable[Pod], pods: Mapping[str, Sequence[Pod]]) -> Protected | None:
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
            sentence = f"{missing} of {replicas} pods of {kind} {name} are not ready since the last removal"
            return Protected(reason=StayReason.NOT_WHOLE, sentence=sentence)
    return None


def _workload(pod: Pod) -> tuple[str, str, str, int] | None:
    owner = pod.owner
    return (owner.kind, owner.name, pod.namespace, owner.replicas) if owner and owner.replicas is not None else None


def _last_of_zone(worker: Worker, left: _Left, ground: Ground) -> Protected | None:
    others = left.per_zone.total() - 1
    if left.per_zone[worker.zone] != 1 or not others >= ground.zones > 1:
        return None
    sentence = f"the last worker of {worker.zone}, and {others} could still cover {ground.zones} zones"
    return Protected(reason=StayReason.LAST_OF_ZONE, sentence=sentence)


def _of_base(worker: Worker, pool: Pool, left: _Left) -> Protected | None:
    base, on_demand = pool.market.on_demand_base, left.per_market[Market.ON_DEMAND]
    if market_of(worker) is not Market.ON_DEMAND or on_demand > base or not left.per_market[Market.SPOT]:
        return None
    return Protected(
        reason=StayReason.ON_DEMAND_BASE, sentence=f"one of {on_demand} On-Demand workers, and the base is {base}"
    )


def _unfit(worker: Worker) -> Stay | None:
    """Workers that are no candidates, whatever is asked."""
    if worker.held_by_person:
        return _stay(worker, StayReason.CORDONED_BY_PERSON, "cordoned by a person")
    if worker.phase is not Phase.READY:
        return _stay(worker, StayReason.NOT_READY)
    return None


def _behind(worker: Worker, chosen: Sequence[Worker], under_way: int, pool: Pool) -> Stay:
    if chosen:
        return _stay(worker, StayReason.OUTRANKED, f"{chosen[0].name} goes first")
    under = counted(under_way, "removal is", "removals are")
    detail = f"{under} under way, and budgets.removals is {pool.budgets.removals}"
    return _stay(worker, StayReason.ONE_AT_A_TIME, detail)


def _leaves_by_choice(worker: Worker) -> bool:
    return isinstance(worker.operation, Removal) and worker.operation.why is Why.VOLUNTARY


def _stay(worker: Worker, reason: StayReason, detail: str = "") -> Stay:
    return Stay(worker=worker.name, phase=worker.phase, reason=reason, detail=detail)
