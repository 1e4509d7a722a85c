"""What people are told: one event for each thing that happened, with its figures and what to do about it.

Events are stored with what they tell of, in one transaction; a message is made of each of them later and elsewhere,
so that nothing here waits for a messenger.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from nodefleet.domain.memory import Level


class EventKind(Enum):
    """Every AlertKind is one of these, by its value."""

    SCALE_UP = "scale-up"
    SCALE_DOWN = "scale-down"
    AT_MAX = "at-max"
    JOIN_FAILED = "join-failed"
    JOIN_BACKOFF = "join-backoff"
    DRAIN_BLOCKED = "drain-blocked"
    FORCED = "forced"
    INTERRUPTED = "interrupted"
    NO_CAPACITY = "no-capacity"
    QUOTA = "quota"
    PERMISSION = "permission"
    LAUNCH_INVALID = "launch-invalid"
    MANY_SICK = "many-sick"
    SICK = "sick"
    CANNOT_HOLD = "cannot-hold"
    PODS_REFUSED = "pods-refused"
    NO_BENEFIT = "no-benefit"
    SCALE_DOWN_BLOCKED = "scale-down-blocked"
    NODE_IN_DOUBT = "node-in-doubt"
    CLEANUP_NEEDS_PERSON = "cleanup-needs-person"
    DEGRADED = "degraded"
    RECOVERED = "recovered"
    RESTING_COST = "resting-cost"
    MARKET_RESTORED = "market-restored"
    READMITTED = "readmitted"
    PAUSED = "paused"
    RESUMED = "resumed"
    SCALED_BY_PERSON = "scaled-by-person"
    HANDED_OVER = "handed-over"  # an operator hands unowned workers to a pool, or has them drained
    POLICY_CHANGED = "policy-changed"
    POLICY_REFUSED = "policy-refused"
    POLICY_UNUSABLE = "policy-unusable"  # the one in force cannot be followed, or is gone: the fleet is held
    ALARM = "alarm"  # of CloudWatch
    REPORT = "report"  # weekly


# They do not end by themselves and somebody has to act now, so reminders come sooner. (Degraded is one of them while
# EC2 or Kubernetes is away.)
CRITICAL = frozenset(
    {
        EventKind.JOIN_BACKOFF,
        EventKind.LAUNCH_INVALID,
        EventKind.MANY_SICK,
        EventKind.PERMISSION,
        EventKind.POLICY_UNUSABLE,
        EventKind.QUOTA,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: str  # the same when the same thing is recorded twice
    at: datetime
    cluster: str
    kind: EventKind
    pool: str = ""  # empty: the whole cluster
    text: str  # what and why, with figures, and what to do
    nodes: int | None = None  # how many workers the pool has now
    change: int = 0  # nodes more or fewer
    usd_per_day: float | None = None  # what the change costs (+) or saves (-); none: not known
    details: tuple[str, ...] = ()  # what else was seen, a sentence each
    level: Level = Level.NORMAL
    dry: bool = False  # nothing was done: it would have been
