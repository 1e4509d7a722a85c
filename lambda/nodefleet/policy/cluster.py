"""What holds for the whole cluster, and its pools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from nodefleet.policy.fields import NODES, PERCENT, SECONDS, describe, setting
from nodefleet.policy.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """When data is good enough to act on."""

    stale_after: timedelta = setting(timedelta(seconds=300), SECONDS, "older readings count as missing", above=0)
    cache_for: timedelta = setting(
        timedelta(seconds=600), SECONDS, "a missing reading is replaced by the last one for growth only", at_least=0
    )
    spacing: float = setting(
        0.75, "× interval", "readings closer than this see the same load and count once", above=0, at_most=1
    )
    gap: float = setting(2.0, "× interval", "a longer silence starts a streak again", above=1)
    count_tolerance: int = setting(0, NODES, "how far EC2, Kubernetes and Prometheus may differ", at_least=0)
    doubtful_percent: float = setting(
        20,
        PERCENT,
        "of a pool's workers, one always, may be in doubt or not measured while the others shrink; more is bad data",
    )
    doubt_for: timedelta = setting(
        timedelta(seconds=600), SECONDS, "a worker in doubt holds back shrinking so long: most clear up", at_least=0
    )
    unmeasured_after: timedelta = setting(
        timedelta(seconds=600), SECONDS, "then a worker that is not measured is an alert", at_least=0
    )
    blocked_after: timedelta = setting(
        timedelta(seconds=3600), SECONDS, "what forbids to shrink for so long is an alert", at_least=0
    )
    recovery_hold: timedelta = setting(
        timedelta(seconds=600), SECONDS, "no shrinking after parts were missing", at_least=0
    )
    clock_skew: timedelta = setting(
        timedelta(seconds=5), SECONDS, "clocks may differ this much; an expired lease is taken over only then", above=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Looking again inside one run while another iteration could change something."""

    every: timedelta = setting(timedelta(seconds=10), SECONDS, "as often as a node or a drain changes", above=0)
    wake_check: timedelta = setting(
        timedelta(seconds=2), SECONDS, "a pausing run checks so often whether an urgent one came", above=0
    )
    budget: timedelta = setting(timedelta(seconds=110), SECONDS, "of each tick, so that runs do not overlap", above=0)
    reserve: timedelta = setting(
        timedelta(seconds=15), SECONDS, "a step that could outlive the run by this much is not begun", at_least=0
    )
    remembered: int = setting(
        5, "iterations", "the longest of the last ones says how long the next may take", at_least=1
    )
    margin: float = setting(
        1.25, "× the longest", "the next iteration may take longer than the ones before", at_least=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """How often operators hear of the same thing."""

    remind_after: timedelta = setting(timedelta(hours=6), SECONDS, "what is still so is said again after this", above=0)
    remind_critical: timedelta = setting(
        timedelta(hours=1),
        SECONDS,
        "the same for a critical condition: an operator has to act, and may have missed it",
        above=0,
    )
    most: int = setting(
        5, "", "new alerts of one kind and pool within remind_after; more of them say nothing new", at_least=1
    )
    over_after: timedelta = setting(
        timedelta(minutes=15), SECONDS, "what was not so for this long is news when it comes back", at_least=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """Instances that are paid for and are no capacity: interrupted, failed, unhealthy, stopped, or of no pool."""

    most: int = setting(3, NODES, "more of them at once are alerted", at_least=0)
    longest: timedelta = setting(
        timedelta(hours=1), SECONDS, "one that rests longer is alerted: every other rule has ended by then", above=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """All workers of the cluster together: those of every pool, and those that no pool owns."""

    max: int | None = setting(
        None,
        NODES,
        "all workers together, unowned ones included; none: what the pools' max add up to, with every min",
        at_least=0,
    )
    cpu: float | None = setting(None, "cores", "of all workers together; none: no cap", above=0)
    memory: float | None = setting(None, "GiB", "of all workers together; none: no cap", above=0)
    gpus: int | None = setting(None, "GPUs", "of all workers together; none: no cap", at_least=0)
    usd_per_hour: float | None = setting(
        None, "USD/h", "of all workers together, a new one at the On-Demand price; none: no cap", above=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """Whose pending pods get new nodes first, of all pools, while the fleet cannot have as many as all ask for."""

    label: str | None = setting(None, "", "the pod label whose value names the tenant; none: the namespace")
    shares: Mapping[str, float] = field(
        default_factory=dict, metadata=describe("by tenant: its share, relative to those of the others; empty: off")
    )
    others: float = setting(1, "share", "of each tenant that `shares` does not name", above=0)

    def share_of(self, tenant: str) -> float:
        return self.shares.get(tenant, self.others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests to EC2 that all clusters of the deployment may send together. EC2 throttles an account in a region by
    buckets of 100 reads that refill by 20 a second, and of 50 changes that refill by 5; half is left to others."""

    describe_size: float = setting(50, "requests", "reads at once: half of EC2's bucket", at_least=1)
    describe_per_second: float = setting(10, "requests/s", "reads in the long run: half of EC2's refill", above=0)
    change_size: float = setting(25, "requests", "changes at once: half of EC2's bucket", at_least=1)
    change_per_second: float = setting(2.5, "requests/s", "changes in the long run: half of EC2's refill", above=0)
    longest: timedelta = setting(
        timedelta(seconds=5),
        SECONDS,
        "a run waits so long for its turn; then the next iteration tries again",
        at_least=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What holds for the whole cluster, and its pools."""

    interval: timedelta = setting(timedelta(seconds=120), SECONDS, "between readings: quick enough, and cheap", above=0)
    time_zone: str = setting("UTC", "", "for the hour-of-day profile and for windows that name none")
    lease: timedelta = setting(
        timedelta(seconds=300), SECONDS, "longest time that one run may hold the cluster", above=0
    )
    trust: Trust = field(default_factory=Trust)
    burst: Burst = field(default_factory=Burst)
    messages: Messages = field(default_factory=Messages)
    resting: Resting = field(default_factory=Resting)
    fleet: FleetLimits = field(default_factory=FleetLimits)
    tenants: Tenants = field(default_factory=Tenants)
    requests: Requests = field(default_factory=Requests)
    pools: tuple[Pool, ...] = (Pool(),)

    @property
    def fleet_max(self) -> int:
        """How many workers there may be at most, of every owner."""
        return sum(pool.limits.max for pool in self.pools) if self.fleet.max is None else self.fleet.max

    def pool(self, name: str) -> Pool | None:
        return next((pool for pool in self.pools if pool.name == name), None)


# ── the request budget ───────────────────────────────────────────────────────────────────────────────────────────────
# The request budget of a deployment against EC2: a token bucket for each kind of request, shared by its clusters.
#
# EC2 throttles an account in a region by buckets of its own. A client that empties them takes the room of other tools
# in the account, and of the deployment's other clusters, so the autoscaler counts its own requests and waits before
# that.


class RequestKind(Enum):
    DESCRIBE = "describe"  # reads
    CHANGE = "change"  # launches, starts, stops, terminations, tags


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRules:
    size: float  # requests
    per_second: float  # requests that come back each second


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBucket:
    """So many requests were left at that time."""

    tokens: float
    at: datetime


def refill(bucket: TokenBucket | None, rules: BucketRules, now: datetime) -> TokenBucket:
    """As it is now; full if nothing was taken from it yet. A clock that runs behind another's refills nothing."""
    if bucket is None:
        return TokenBucket(tokens=rules.size, at=now)
    since = max(0.0, (now - bucket.at).total_seconds())
    tokens = min(rules.size, bucket.tokens + since * rules.per_second)
    return TokenBucket(tokens=tokens, at=max(now, bucket.at))


def take_token(bucket: TokenBucket | None, rules: BucketRules, now: datetime) -> tuple[TokenBucket, timedelta]:
    """The bucket after one request, and no wait; or the empty bucket as it is, and the time until it is not."""
    full = refill(bucket, rules, now)
    if full.tokens >= 1:
        return TokenBucket(tokens=full.tokens - 1, at=full.at), timedelta(0)
    behind = max(timedelta(0), full.at - now)
    return full, behind + timedelta(seconds=(1 - full.tokens) / rules.per_second)


def empty_bucket(now: datetime) -> TokenBucket:
    """After EC2 itself refused a request: others of the account have used up what we would count on."""
    return TokenBucket(tokens=0.0, at=now)
