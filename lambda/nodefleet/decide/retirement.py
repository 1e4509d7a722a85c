"""Workers that are to be replaced in good time: a scheduled change is announced, EC2 recommends to move off them, or
they are ready and yet no good (pressure, crashing pods).

Nothing is forced, so all the rules of a voluntary removal hold: max, budgets, protection, and pods that have somewhere
to go. The replacement comes first. Where max leaves no room for it the worker goes first, if its pods fit on the
others; and what could not be done by then is an interruption from shortly before its time on (`is_imminent`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.decide.bounds import floor
from nodefleet.decide.health import reason_of
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import Bound, BoundSource, Count, Rank, Side
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.operations import Removal, Tell, Why
from nodefleet.domain.policy import Pool
from nodefleet.domain.wording import some


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """Who is due, and how many nodes were launched ahead for them."""

    due: tuple[Worker, ...]  # the earliest first
    ahead: int  # launched for some of them, and not used up by a removal yet
    wanted: int  # to be launched now
    at_max: bool  # there is no room to launch first

    @property
    def names(self) -> str:
        return some(f"{worker.name}: {why(worker)}" for worker in self.due)


def why(worker: Worker) -> str:
    return reason_of(worker.planned) if worker.planned else worker.ailment


def retirement(
    workers: Sequence[Worker],
    pool: Pool,
    count: Count,
    ahead: int,
    *,
    most: int | None = None,
    braked: bool = False,
    held_fast: frozenset[str] = frozenset(),
) -> Retirement:
    """`braked`: many are unhealthy at once, and then those that are ready stay. `held_fast`: something other than a
    lack of room keeps them, so a node that is launched for them now would only be given back and launched again.
    `most`: what fleet.max leaves the pool."""
    going = (
        worker for worker in workers if is_due(worker) and (worker.planned or not braked) and worker.id not in held_fast
    )
    due = sorted(going, key=lambda worker: (_time(worker), worker.id))
    under_way = sum(
        isinstance(worker.operation, Removal) and worker.operation.why is Why.VOLUNTARY for worker in workers
    )
    ahead = min(ahead, len(due))
    free = min(len(due), pool.budgets.removals - under_way) - ahead
    room = (pool.limits.max if most is None else most) - count.occupied
    return Retirement(
        due=tuple(due), ahead=ahead, wanted=max(0, min(free, room)), at_max=room <= 0 and free > 0 and ahead == 0
    )


def is_due(worker: Worker) -> bool:
    reason = worker.planned is not None or worker.ailment
    return bool(reason) and worker.phase is Phase.READY and worker.operation is None


def _time(worker: Worker) -> str:
    return worker.planned.at.isoformat() if worker.planned else ""  # what is no good now comes first


def bounds(plan: Retirement, capacity: int) -> list[Bound]:
    if not plan.wanted:
        return []
    sentence = f"replaced before they go: {plan.names}"
    return [floor(capacity + plan.wanted, BoundSource.RETIRE, Rank.LIMIT, sentence)]


def may_leave(plan: Retirement, pool: Pool, count: Count, settled_bounds: Sequence[Bound]) -> int:
    """How many may leave now: those whose replacement is ready, or one where max leaves no room for it."""
    capacity = count.capacity
    least = max((each.nodes for each in settled_bounds if _holds(each)), default=0)
    if count.booting or least >= capacity > 0 or not plan.due:
        return 0
    if plan.ahead:
        return max(0, min(plan.ahead, capacity - pool.limits.min))
    return 1 if plan.at_max else 0


def _holds(bound: Bound) -> bool:
    """Missing data, a doubt or a pause: nothing leaves of our own accord."""
    return bound.rank is Rank.SAFETY and bound.side is Side.FLOOR


def tells(workers: Sequence[Worker], pool: Pool) -> list[Tell]:
    """Once for each worker: what is planned, with its date, or what is wrong with it, and what is done about it."""
    return [
        Tell(
            alert=AlertKind.INTERRUPTED if worker.planned else AlertKind.SICK,
            pool=pool.name,
            subjects=(worker.name, worker.planned.kind.value if worker.planned else "ailment"),
            text=f"{worker.name} ({worker.zone}): {why(worker)}. It is replaced, and then drained.",
        )
        for worker in workers
        if is_due(worker)
    ]
