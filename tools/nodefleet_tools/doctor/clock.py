"""Clocks that differ: a lease would be taken over too early, and a reading would be of another time than it says."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from nodefleet.policy.cluster import Policy
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, wrong

_RESOLUTION = timedelta(seconds=1)  # of the Date header
_NOTHING = timedelta(0)


def compared(whose: str, skew: timedelta, most: timedelta) -> Finding:
    """`skew` is how far their clock is certainly ahead of ours; negative: behind."""
    seconds = abs(skew.total_seconds())
    if abs(skew) > most:
        found = f"{whose}'s clock is at least {seconds:.0f} s {'ahead of' if skew > _NOTHING else 'behind'} ours"
        return wrong(f"{found}, and {most.total_seconds():g} s are allowed", "Set the clocks by NTP")
    return fine(f"{whose}'s clock and ours agree" + (f" within {seconds:.0f} s" if seconds else ""))


def api_server(ctx: DoctorContext) -> Iterator[Finding]:
    now, kubernetes = ctx.parts.now, ctx.kubernetes.needed()
    sent = now()
    said = kubernetes.server_time()
    skew = certain_skew(said if said.tzinfo else said.replace(tzinfo=UTC), sent, now())
    yield compared("the API server", skew, ctx.policy.or_else(Policy()).trust.clock_skew)


def certain_skew(said: datetime, sent: datetime, received: datetime) -> timedelta:
    """What neither the way of an answer nor the header's full seconds explain."""
    if said > received:
        return said - received
    if said + _RESOLUTION < sent:
        return said + _RESOLUTION - sent
    return _NOTHING
