"""Who may act: one run at a time, by a number that only grows.

owner, fence    who has it, and how often it has changed hands; every write that matters is on condition of both
claim           one call of `acquire`. The SDK sends a call again when the answer is lost, and finds the lease held:
                by this very call. The same owner with another call, such as a run that was started again under its
                old name, takes the lease with a new fence, so that whatever is left of the old one is shut out
expires         when others may take it, plus their allowance for clocks that differ. Deciding that and taking it is
                one conditional write, so two takers cannot both win
wake            how often somebody urgent came; releasing is on condition that the last look saw them all
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from nodefleet.adapters.aws.state import keys
from nodefleet.adapters.aws.state.attributes import Item, Scalar, number, text
from nodefleet.adapters.aws.state.codec import unreadable
from nodefleet.adapters.aws.state.table import ConditionError, Table
from nodefleet.adapters.aws.state.writing import Refused, Unit, Writer, unit
from nodefleet.ports import Held, Lease

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MAY_TAKE = "attribute_not_exists(#owner) OR #expires_ms < :expired_before OR (#owner = :owner AND #claim <> :claim)"
_TAKE = (
    "SET #owner = :owner, #claim = :claim, #expires_ms = :expires_ms, #expires = :expires, #lock_acquired_at = :now,"
    " #scaling_in_progress = :true, #wake = if_not_exists(#wake, :zero) ADD #fence :one"
)
_OURS = "#owner = :owner AND #fence = :fence"
_LET_GO = "SET #scaling_in_progress = :false REMOVE #owner, #claim, #expires_ms, #expires"


def acquire(
    table: Table,
    owner: str,
    now: datetime,
    until: datetime,
    skew: timedelta,
    claim: Callable[[], str] = lambda: uuid4().hex,
) -> Lease | Held:
    this_call = claim()
    values: dict[str, Scalar] = {
        ":owner": owner,
        ":claim": this_call,
        ":expires_ms": -((_EPOCH - until) // _MILLISECOND),  # rounded up: never earlier than its owner believes
        ":expires": until,
        ":expired_before": (now - skew - _EPOCH) // _MILLISECOND,
        ":now": now,
        ":true": True,
        ":zero": 0,
        ":one": 1,
    }
    try:
        item = table.update(keys.LEASE, _TAKE, values, _MAY_TAKE)
    except ConditionError as refused:
        item = refused.item
        if text(item, "claim") != this_call:
            return _held(item)
    return Lease(owner=owner, fence=number(item, "fence"), expires=until)


def _held(item: Item) -> Held:
    owner, expires = text(item, "owner"), number(item, "expires_ms")
    if not owner or not expires:
        raise unreadable(
            item | {keys.SORT: {"S": keys.LEASE}}, "it says neither that it is free nor until when it is held"
        )
    return Held(owner=owner, expires=_EPOCH + expires * _MILLISECOND)


def wake(table: Table) -> None:
    """Whether or not anybody holds the lease or ever did."""
    table.update(keys.LEASE, "ADD #wake :one", {":one": 1})


def release(table: Table, lease: Lease, seen: int | None) -> bool:
    condition = _OURS if seen is None else f"{_OURS} AND #wake = :seen"
    values: dict[str, Scalar] = {":owner": lease.owner, ":fence": lease.fence, ":seen": seen or 0, ":false": False}
    try:
        table.update(keys.LEASE, _LET_GO, values, condition)
    except ConditionError as refused:
        still_ours = text(refused.item, "owner") == lease.owner and number(refused.item, "fence") == lease.fence
        return not still_ours
    return True


def guard(table: Table, lease: Lease) -> Unit:
    """What every write that matters is on condition of."""
    check = Writer(table).check(keys.LEASE, _OURS, owner=lease.owner, fence=lease.fence)
    lost = f"the lease of {table.cluster} with fence {lease.fence} is no longer {lease.owner}'s"
    return unit(check, refused=Refused.LOST, otherwise=lost)
