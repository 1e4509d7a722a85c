"""What one look at an operation comes to.

Steps are taken in their order, and one that fails holds back the rest of its operation until the next look. So what
must not be forgotten stands before the Keep that would hide it, and what is read off the world again stands after.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from nodefleet.domain.operations import Keep, Launch, Lesson, Operation, Removal, Step, silence
from nodefleet.domain.policy import Policy, Pool

Clocked = TypeVar("Clocked", Launch, Removal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    steps: tuple[Step, ...] = ()
    lessons: tuple[Lesson, ...] = ()


NOTHING_YET = Progress()


def rules_of(policy: Policy, pool: str) -> Pool:
    """The pool's rules; the defaults for one that the policy no longer has."""
    return policy.pool(pool) or Pool(name=pool)


def with_silence(operation: Clocked, now: datetime, *, silent: bool) -> Clocked:
    """The operation after this look, with its note of how long it could not go on for want of an answer."""
    if silent:
        return replace(operation, silent_since=operation.silent_since or now)
    return replace(operation, silent=silence(operation, now), silent_since=None)


def kept(before: Operation, after: Operation) -> tuple[Step, ...]:
    """Stored again only if something changed."""
    return (Keep(after),) if after != before else ()


def seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"


def pods_are(count: int) -> str:
    return "1 pod is" if count == 1 else f"{count} pods are"
