"""The request budget of a deployment against EC2: a token bucket for each kind of request, shared by its clusters.

EC2 throttles an account in a region by buckets of its own. Whoever empties them takes the room of every other tool in
the account, and of the deployment's other clusters, so the autoscaler counts its own requests and waits before that.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum


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
    """As it is now; full if nobody has taken from it yet. A clock that runs behind another's refills nothing."""
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
