"""The progress of an operation in one iteration: its next steps, and the feedback for the memory.

Steps are executed in order, and a step that fails postpones the rest of its operation to the next iteration. So a step
that must not be lost comes before the Save that would mark it as done, and a step that the next observation would
produce again comes after it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar, assert_never

from nodefleet.model.alerts import AlertKind
from nodefleet.model.names import pluralize
from nodefleet.model.operations import (
    DrainFailed,
    Feedback,
    Joined,
    JoinFailed,
    Launch,
    Operation,
    Readmitted,
    Removal,
    Save,
    SendAlert,
    Shortage,
    Shortfall,
    Step,
    silence,
)
from nodefleet.model.state import NOTHING_KNOWN, Backoff, JoinTrouble, Loss, Memory, PoolMemory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.fields import doubled_pause
from nodefleet.policy.pool import Health, Pool, RemovalRules

Clocked = TypeVar("Clocked", Launch, Removal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    steps: tuple[Step, ...] = ()
    lessons: tuple[Feedback, ...] = ()


NOTHING_YET = Progress()


def rules_of(policy: Policy, pool: str) -> Pool:
    """The pool's rules; the defaults for a pool that the policy no longer has."""
    return policy.pool(pool) or Pool(name=pool)


def with_silence(operation: Clocked, now: datetime, *, silent: bool) -> Clocked:
    """The operation with its record of how long it could not advance because EC2 or Kubernetes was unavailable."""
    if silent:
        return replace(operation, silent_since=operation.silent_since or now)
    return replace(operation, silent=silence(operation, now), silent_since=None)


def save_if_changed(before: Operation, after: Operation) -> tuple[Step, ...]:
    """The step that stores the operation; no step if it is unchanged."""
    return (Save(after),) if after != before else ()


def seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"


def pods_are(count: int) -> str:
    return pluralize(count, "pod is", "pods are")


# ── feedback ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Operations report shortages, failed joins and failed drains to the memory, which backs off accordingly.
#
# The backoff doubles with each repeated failure, up to a limit; a success or a different failure resets it. Expired
# entries are dropped, so the memory stays small.


def apply_feedback(memory: Memory, lessons: Iterable[Feedback], policy: Policy, now: datetime) -> Memory:
    """The memory with this feedback, without expired entries."""
    pools = dict(memory.pools)
    for lesson in lessons:
        known = pools.get(lesson.pool, NOTHING_KNOWN)
        pools[lesson.pool] = _apply_feedback(known, lesson, rules_of(policy, lesson.pool))
    return replace(memory, pools={name: _current(known, rules_of(policy, name), now) for name, known in pools.items()})


def join_backoffs(before: Memory, after: Memory, policy: Policy) -> tuple[SendAlert, ...]:
    """The alerts for pools whose joins failed so often that they now launch one probe at a time."""
    alerts = []
    for name, known in after.pools.items():
        trouble, earlier = known.join_trouble, before.pool(name).join_trouble
        if trouble is None or trouble == earlier or trouble.failures < rules_of(policy, name).health.failed_joins:
            continue
        text = (
            f"Failed joins without a success: {trouble.failures}. From now on one probe at a time,"
            f" {seconds(trouble.delay)} apart. Look at the console output of a failed one, the join token,"
            " and the way to the master"
        )
        alerts.append(SendAlert(alert=AlertKind.JOIN_BACKOFF, pool=name, subjects=(), text=text))
    return tuple(alerts)


def _apply_feedback(known: PoolMemory, lesson: Feedback, rules: Pool) -> PoolMemory:
    match lesson:
        case Shortage():
            return replace(known, shortages=_with_shortage(known.shortages, lesson))
        case Shortfall(packed_again=True):
            return known
        case Shortfall():
            return replace(known, losses=_with_owed(known.losses, lesson, rules))
        case JoinFailed(at=at):
            # EC2's list may be stale: an instance that EC2 launched but does not list counts against max for a while.
            vanished = {**known.vanished, lesson.instance: at} if lesson.unlisted else known.vanished
            trouble = _more_trouble(known.join_trouble, at, rules.health)
            return replace(known, join_trouble=trouble, vanished=vanished)
        case Joined():
            return replace(known, join_trouble=None)
        case DrainFailed():
            return replace(known, backoffs=_with_backoff(known.backoffs, lesson, rules.removal))
        case Readmitted(at=at):
            return replace(known, last_grow=max(known.last_grow or at, at))
        case _:
            assert_never(lesson)


def _with_shortage(shortages: Iterable[Shortage], new: Shortage) -> tuple[Shortage, ...]:
    others = [old for old in shortages if (old.type, old.zone, old.market) != (new.type, new.zone, new.market)]
    return (*others, new)


def _with_owed(losses: Sequence[Loss], shortfall: Shortfall, rules: Pool) -> tuple[Loss, ...]:
    """Instances that EC2 did not launch are replaced like interrupted ones: at once, in another market or zone.

    The loss expires with the scale-up cooldown: after that, a signal that still needs the node votes for it.
    """
    owed = {
        f"{shortfall.launch}/{number}": Loss(
            worker=f"{shortfall.launch}/{number}",
            at=shortfall.at,
            cause="not given by EC2",
            expires=shortfall.at + rules.cooldown.up,
        )
        for number in range(1, shortfall.missing + 1)
    }
    return (*(loss for loss in losses if loss.worker not in owed), *owed.values())


def _more_trouble(trouble: JoinTrouble | None, at: datetime, health: Health) -> JoinTrouble:
    failures = trouble.failures + 1 if trouble else 1
    beyond = failures - health.failed_joins
    delay = doubled_pause(health.probe_first, beyond, health.probe_longest) if beyond >= 0 else timedelta(0)
    return JoinTrouble(failures=failures, delay=delay, next_probe=at + delay)


def _with_backoff(backoffs: Iterable[Backoff], failed: DrainFailed, rules: RemovalRules) -> tuple[Backoff, ...]:
    others = [old for old in backoffs if old.node != failed.node]
    same = [old for old in backoffs if old.node == failed.node and old.blocker == failed.blocker]
    failures = 1 + sum(old.failures for old in same)
    until = failed.at + doubled_pause(rules.retry_first, failures - 1, rules.retry_longest)
    return (*others, Backoff(node=failed.node, blocker=failed.blocker, failures=failures, until=until))


def _current(known: PoolMemory, rules: Pool, now: datetime) -> PoolMemory:
    # A backoff is kept past its end: otherwise the pause of a node that fails at every attempt would never grow.
    longest = rules.removal.retry_longest
    return replace(
        known,
        shortages=tuple(shortage for shortage in known.shortages if now < shortage.until),
        backoffs=tuple(backoff for backoff in known.backoffs if now < backoff.until + longest),
    )
