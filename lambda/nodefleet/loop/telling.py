"""What people hear of a decision: that the fleet changes and what it costs, and on a node why it cannot leave."""

from dataclasses import replace

from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import Action, Decision, PoolDecision, StayReason
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Launch, Open
from nodefleet.loop.book import Book
from nodefleet.loop.carry_out import note
from nodefleet.loop.parts import Parts
from nodefleet.loop.usage import price_of

_DAY_HOURS = 24
_NOTES = 10  # events on nodes in one look: a big fleet must not flood the API server
_OUR_BUSINESS = frozenset(
    {StayReason.NOT_ASKED, StayReason.CHOSEN, StayReason.OUTRANKED, StayReason.ONE_AT_A_TIME, StayReason.NOT_READY}
)


def tell_of_scaling(book: Book, pool: PoolDecision, seen: Observation) -> None:
    if pool.action is Action.GROW:
        kind = AlertKind.SCALE_UP
    elif pool.action is Action.SHRINK and pool.dry_run:
        kind = AlertKind.SCALE_DOWN  # otherwise it is told when the node is gone
    else:
        return
    # A dry pool decides the same again and again: nothing comes of it.
    subjects = (f"to {pool.target}",)
    event = book.saying.event(kind, pool.pool, pool.reason, subjects) if pool.dry_run else None
    if event is None and pool.dry_run:
        return
    event = event or book.saying.made(kind, pool.pool, pool.reason, subjects)
    book.happened(
        replace(
            event,
            nodes=pool.target,
            change=pool.target - pool.count.capacity,
            usd_per_day=_cost(pool, seen),
            details=pool.votes,
            level=book.memory.level,
            dry=pool.dry_run,
        )
    )


def _cost(pool: PoolDecision, seen: Observation) -> float | None:
    """USD a day that the launches of a plan add at most: the dearest of each launch's types."""
    catalog = {kind.name: kind for kind in seen.catalog}
    launches = [step.operation for step in pool.plan if isinstance(step, Open) and isinstance(step.operation, Launch)]
    total = 0.0
    for launch in launches:
        prices = [price_of(name, launch.market, catalog) for name in launch.types]
        known = [price for price in prices if price is not None]
        if not known:
            return None
        total += max(known) * launch.count * _DAY_HOURS
    return total if launches else None


def explain_stays(parts: Parts, book: Book, decision: Decision) -> None:
    """Why a node cannot leave, on the node itself, for whoever describes it."""
    told = 0
    for pool in decision.pools:
        for stay in pool.stays:
            if stay.reason in _OUR_BUSINESS or told >= _NOTES:
                continue
            if book.saying.is_news(f"stay|{stay.worker}|{stay.reason.value}"):
                note(parts, stay.worker, "NodeFleetStays", f"cannot leave: {stay.detail or stay.reason.value}")
                told += 1
