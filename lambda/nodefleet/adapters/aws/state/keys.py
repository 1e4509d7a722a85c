"""What each record is called in the table. The names are written here only.

Everything that a look needs starts with `state#`, so that one query reads it. That query reads in the order of the
names, and the lease comes first: it holds the number of wake-ups, and whoever reads that number must then read what the
last of them came for. Were an order or a notice read before the lease, a wake-up could be counted as seen whose cause
was not.
"""

from datetime import UTC, datetime

from nodefleet.domain.machines import Notice
from nodefleet.domain.observation import Adopt, Command, Drain, Recycle
from nodefleet.domain.plain import kind_of

PARTITION = "cluster_id"
SORT = "record"
TTL = "ttl"  # seconds since 1970; DynamoDB deletes some time after it, so nothing is ever concluded from it

# ── what a look needs ────────────────────────────────────────────────────────────────────────────────────────────
STATE = "state#"
LEASE = "state#lease"
MEMORY = "state#memory"
NOTICES = "state#notice#"
OPERATIONS = "state#operation#"
ORDERS = "state#order#"
PAUSES = f"{ORDERS}pause#"
POLICY = "state#policy"
STACK = "state#stack#"
STACK_DEPLOYMENT = f"{STACK}deployment"
STACK_POLICY = f"{STACK}policy"

# ── what was recorded ────────────────────────────────────────────────────────────────────────────────────────────
DECISIONS = "decision#"
EVENTS = "event#"
POLICIES = "policy#"
TOLD = "told#"  # the ids of events: each is stored once
USAGE = "usage#"

_ALL_POOLS = "*"  # no pool can have this name
_DIGITS = 8  # of a policy's number, so that numbers sort


def stamp(at: datetime) -> str:
    """A time whose texts sort as the times do: always UTC, always with microseconds."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def operation_key(identity: str) -> str:
    return f"{OPERATIONS}{identity}"


def notice_key(notice: Notice) -> str:
    """Each notice has its own record: a doubled one is the same, and retiring one leaves a later one."""
    told = f"#{stamp(notice.told_at)}" if notice.told_at else ""
    return f"{NOTICES}{notice.instance}#{notice.kind.value}#{stamp(notice.at)}{told}"


def order_key(command: Command) -> str:
    """The same for the same kind of command and the same pool or instance, so that the later takes the place of the
    earlier."""
    match command:
        case Adopt() | Drain() | Recycle():
            subject = command.instance
        case _:
            subject = _ALL_POOLS if command.pool is None else command.pool
    return f"{ORDERS}{kind_of(type(command))}#{subject}"


def pool_of(order: str) -> str | None:
    """The pool that an order is for, by its record's name; none: all pools."""
    pool = order.removeprefix(ORDERS).partition("#")[2]
    return None if pool == _ALL_POOLS else pool


def policy_key(number: int) -> str:
    return f"{POLICIES}{number:0{_DIGITS}}"


def event_key(at: datetime, identity: str) -> str:
    return f"{EVENTS}{stamp(at)}#{identity}"


def told_key(identity: str) -> str:
    return f"{TOLD}{identity}"


def decision_key(at: datetime, identity: str) -> str:
    return f"{DECISIONS}{stamp(at)}#{identity}"


def usage_key(hour: datetime) -> str:
    return f"{USAGE}{stamp(hour)}"


def past(prefix: str) -> str:
    """A text that sorts after every record with this prefix and before every other one."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
