"""Replacing ready workers: the replacement is launched first, then the worker is drained.

Nothing is forced, so all the rules of a voluntary removal hold: max, budgets, protection, and pods that have somewhere
to go. Where max leaves no room for a replacement the worker goes first, if its pods fit on the others. Which workers
are due, and why, is said by one module for each reason: `retirement` and `rotation`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.decide.bounds import floor
from nodefleet.domain.decision import Bound, BoundSource, Count, Rank, Side
from nodefleet.domain.fleet import Worker
from nodefleet.domain.operations import Removal, Why
from nodefleet.domain.policy import Pool
from nodefleet.domain.wording import some


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    worker: Worker
    reason: str
    cause: str  # of the loss that it becomes where it goes before its replacement comes
    can_wait: bool = False  # it is replaced when it suits the pool


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


def replacement(
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
        isinstance(worker.operation, Removal) and worker.operation.why is Why.VOLUNTARY for worker in workers
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


def bounds(plan: Replacement, capacity: int) -> list[Bound]:
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
