"""Replacement of ready workers ahead of their removal, and workers that EC2 has announced to take.

Nothing is forced, so all the rules of a voluntary removal hold: max, budgets, protection, and pods that have somewhere
to go. Where max leaves no room for a replacement the worker goes first, if its pods fit on the others. Each reason has
a module or section of its own: retirement here, `rotation` beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.engine.context import PlacementRequest
from nodefleet.engine.target.bounds import floor
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Bound, BoundSource, Rank, Side
from nodefleet.model.fleet import Count, Phase, Worker
from nodefleet.model.names import some
from nodefleet.model.operations import Removal, RemovalReason, SendAlert
from nodefleet.policy.pool import Pool

# ── replacement ──────────────────────────────────────────────────────────────────────────────────────────────────────
# Replacing ready workers: the replacement is launched first, then the worker is drained.
#
# Nothing is forced, so all the rules of a voluntary removal hold: max, budgets, protection, and pods that have
# somewhere to go. Where max leaves no room for a replacement the worker goes first, if its pods fit on the others.
# Which workers are due, and why, is said by one module for each reason: `retirement` and `rotation`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    worker: Worker
    reason: str
    cause: str  # of the loss that it becomes where it goes before its replacement comes
    can_wait: bool = False  # it is replaced when it suits the pool
    ask: PlacementRequest | None = None  # what takes its place; none: any node of the pool
    saves_usd: float | None = None  # an hour, with its replacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Workers that are due, and how many nodes were launched ahead for them."""

    due: tuple[Due, ...]  # in the order in which they go
    ahead: int  # launched for some of them, and not used up by a removal yet
    wanted: int  # to be launched now
    at_max: bool  # there is no room to launch first
    going: tuple[Due, ...]  # those of `due` that may leave now

    @property
    def next(self) -> tuple[Due, ...]:
        """Those for which nodes are launched now."""
        waiting = self.going[self.ahead :]
        return waiting[: self.wanted]

    def of(self, worker: Worker) -> Due:
        return next(each for each in self.due if each.worker.id == worker.id)


def plan_replacement(
    due: Sequence[Due],
    workers: Sequence[Worker],
    pool: Pool,
    count: Count,
    ahead: int,
    *,
    most: int | None = None,
    all_may_begin: bool = False,
    all_may_leave: bool = False,
) -> Replacement:
    """`most`: what fleet.max leaves the pool. Workers that can wait count only if that suits the pool: to launch for
    them (`all_may_begin`), and to have them leave (`all_may_leave`)."""
    under_way = sum(
        isinstance(worker.operation, Removal) and worker.operation.why is RemovalReason.VOLUNTARY for worker in workers
    )
    ahead = min(ahead, len(due))
    begin = [each for each in due if all_may_begin or not each.can_wait]
    free = min(len(begin), pool.budgets.removals - under_way) - ahead
    room = (pool.limits.max if most is None else most) - count.occupied
    return Replacement(
        due=tuple(due),
        ahead=ahead,
        wanted=max(0, min(free, room)),
        at_max=room <= 0 and free > 0 and ahead == 0,
        going=tuple(each for each in due if all_may_leave or not each.can_wait),
    )


def replacement_floors(plan: Replacement, capacity: int) -> list[Bound]:
    if not plan.wanted:
        return []
    names = some(f"{each.worker.name}: {each.reason}" for each in (*plan.going[: plan.ahead], *plan.next))
    return [floor(capacity + plan.wanted, BoundSource.RETIRE, Rank.LIMIT, f"replaced before they go: {names}")]


def may_leave(plan: Replacement, pool: Pool, count: Count, settled_bounds: Sequence[Bound]) -> int:
    """How many may leave now: those whose replacement is ready, or one where max leaves no room for it."""
    capacity = count.capacity
    least = max((each.nodes for each in settled_bounds if _holds(each)), default=0)
    if count.booting or least >= capacity > 0 or not plan.going:
        return 0
    if plan.ahead:
        return max(0, min(plan.ahead, capacity - pool.limits.min))
    return 1 if plan.at_max else 0


def _holds(bound: Bound) -> bool:
    """Missing data, a doubt or a pause: nothing leaves of our own accord."""
    return bound.rank is Rank.SAFETY and bound.side is Side.FLOOR


# ── retirement ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Workers that are to be replaced in good time: a scheduled change is announced, EC2 recommends to move off them, or
# they are ready and yet no good (pressure, crashing pods).
#
# What could not be done by then is an interruption from shortly before its time on (`is_imminent`).


def retiring(workers: Sequence[Worker], *, braked: bool = False) -> list[Due]:
    """The earliest first. `braked`: many are unhealthy at once, and then those that are ready stay."""
    going = [worker for worker in workers if is_due(worker) and (worker.planned or not braked)]
    going.sort(key=lambda worker: (_time(worker), worker.id))
    return [
        Due(worker=each, reason=retirement_reason(each), cause=each.planned.kind.value if each.planned else "unhealthy")
        for each in going
    ]


def retirement_reason(worker: Worker) -> str:
    return worker.planned.reason if worker.planned else worker.ailment


def is_due(worker: Worker) -> bool:
    reason = worker.planned is not None or worker.ailment
    return bool(reason) and worker.phase is Phase.READY and worker.operation is None


def _time(worker: Worker) -> str:
    return worker.planned.at.isoformat() if worker.planned else ""  # what is no good now comes first


def retirement_alerts(workers: Sequence[Worker], pool: Pool) -> list[SendAlert]:
    """Once for each worker: what is planned, with its date, or what is wrong with it, and what is done about it."""
    return [
        SendAlert(
            alert=AlertKind.INTERRUPTED if worker.planned else AlertKind.UNHEALTHY,
            pool=pool.name,
            subjects=(worker.name, worker.planned.kind.value if worker.planned else "ailment"),
            text=f"{worker.name} ({worker.zone}): {retirement_reason(worker)}. It is replaced, and then drained.",
        )
        for worker in workers
        if is_due(worker)
    ]
