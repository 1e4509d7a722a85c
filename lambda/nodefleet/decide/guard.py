"""Guard rails: how far the look can be trusted, and what must not happen meanwhile.

Missing or doubtful data may let the fleet grow, it never lets it shrink. Without the API server nothing happens, so
nothing is launched before it has been seen either.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodefleet.decide.bounds import ceiling, floor
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.decision import Bound, BoundSource, Count, Rank
from nodefleet.domain.memory import JoinTrouble, Level, Loss, Memory
from nodefleet.domain.observation import Observation, Pause
from nodefleet.domain.operations import Tell
from nodefleet.domain.policy import Health, Policy, Pool
from nodefleet.domain.readings import Missing
from nodefleet.domain.wording import counted, some


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    level: Level
    recovered_at: datetime | None
    why: str  # what is missing; empty when nothing is
    tells: tuple[Tell, ...]


def trusted(seen: Observation, memory: Memory, policy: Policy, unreadable: Sequence[str]) -> Trusted:
    """The level of this look. `unreadable` names the readings that should have been there and were not."""
    why = _what_is_away(seen) or "; ".join(unreadable)
    if why:
        level = Level.PARTIAL if _what_is_away(seen) else Level.DEGRADED
        return Trusted(level=level, recovered_at=None, why=why, tells=_told(memory.level, level, why))
    was_down = memory.level in (Level.DEGRADED, Level.PARTIAL) or _was_silent(seen, memory, policy)
    since = seen.at if was_down else memory.recovered_at
    recovering = since is not None and seen.at - since < policy.trust.recovery_hold
    level = Level.RECOVERY if recovering else Level.NORMAL
    return Trusted(
        level=level, recovered_at=since if recovering else None, why="", tells=_told(memory.level, level, "")
    )


def _was_silent(seen: Observation, memory: Memory, policy: Policy) -> bool:
    """No look could be written down for a while: DynamoDB was away, or the function itself."""
    return memory.looked_at is not None and seen.at - memory.looked_at > policy.trust.gap * policy.interval


def _what_is_away(seen: Observation) -> str:
    away = {"EC2": seen.instances, "Kubernetes": seen.kubernetes}
    return "; ".join(f"{name} unknown: {got.cause}" for name, got in away.items() if isinstance(got, Missing))


def _told(before: Level, now: Level, why: str) -> tuple[Tell, ...]:
    bad = (Level.DEGRADED, Level.PARTIAL)
    if now in bad:  # on every look, so that people are reminded while it lasts
        text = f"Level {now.value}: {why}. Nothing is removed until it is back."
        return (Tell(alert=AlertKind.DEGRADED, pool="", subjects=(now.value,), text=text),)
    if before in bad and now not in bad:
        return (
            Tell(
                alert=AlertKind.RECOVERED,
                pool="",
                subjects=(),
                text="Everything is readable again; shrinking waits a while.",
            ),
        )
    return ()


def safety(
    seen: Observation,
    memory: Memory,
    policy: Policy,
    pool: Pool,
    count: Count,
    trust: Trusted,
    doubts: Sequence[str],
    unreadable: Sequence[str],
) -> list[Bound]:
    """Bounds that outrank everything. `unreadable` names what is missing of this pool: what is missing of another pool
    alone does not hold this one."""
    bounds = []
    now = count.capacity
    if trust.level is Level.PARTIAL:
        sentence = f"{trust.why}: nothing is launched, drained or cleaned up"
        bounds += [
            floor(now, BoundSource.LEVEL, Rank.SAFETY, sentence),
            ceiling(now, BoundSource.LEVEL, Rank.SAFETY, sentence),
        ]
    elif trust.level is Level.DEGRADED and unreadable:
        bounds.append(floor(now, BoundSource.LEVEL, Rank.SAFETY, f"{'; '.join(unreadable)}: no shrinking"))
    elif trust.level is Level.RECOVERY and trust.recovered_at is not None:
        left = policy.trust.recovery_hold - (seen.at - trust.recovered_at)
        sentence = (
            f"data was missing until {trust.recovered_at:%H:%M:%S}: no shrinking for {left.total_seconds():.0f} s"
        )
        bounds.append(floor(now, BoundSource.RECOVERY, Rank.SAFETY, sentence))
    if doubts:
        bounds.append(floor(now, BoundSource.DOUBT, Rank.SAFETY, f"{some(doubts, '; ')}: no shrinking"))
    bounds += _paused(seen, pool, now)
    bounds += _probing(memory.pool(pool.name).join_trouble, pool.health, count, seen.at)
    return bounds


def held(seen: Observation, pool: Pool, capacity: int, losses: Sequence[Loss]) -> list[Bound]:
    """The policy cannot be followed: the pool keeps its size. What it loses is replaced, and min is restored."""
    if not seen.hold:
        return []
    sentence = f"{seen.hold}: the pool keeps its size"
    most = max(capacity + len(losses), pool.limits.min)
    return [
        floor(capacity, BoundSource.HOLD, Rank.SAFETY, sentence),
        ceiling(most, BoundSource.HOLD, Rank.SAFETY, sentence),
    ]


def _paused(seen: Observation, pool: Pool, capacity: int) -> list[Bound]:
    for command in seen.commands:
        if isinstance(command, Pause) and command.pool in (None, pool.name) and _in_force(command.until, seen.at):
            until = f" until {command.until:%Y-%m-%d %H:%M}" if command.until else ""
            sentence = f"paused by {command.by}{until}" + (f": {command.reason}" if command.reason else "")
            return [
                floor(capacity, BoundSource.PAUSE, Rank.SAFETY, sentence, command.until),
                ceiling(max(capacity, pool.limits.min), BoundSource.PAUSE, Rank.SAFETY, sentence, command.until),
            ]
    return []


def _in_force(until: datetime | None, now: datetime) -> bool:
    return until is None or now < until


def _probing(trouble: JoinTrouble | None, health: Health, count: Count, now: datetime) -> list[Bound]:
    """After failed joins one node at a time is tried, with growing pauses."""
    if trouble is None or trouble.failures < health.failed_joins:
        return []
    failed = f"{counted(trouble.failures, 'node', 'nodes in a row')} did not join"
    if count.booting:
        return [
            ceiling(count.capacity, BoundSource.PROBE, Rank.SAFETY, f"{failed}: waiting for the probe that is booting")
        ]
    if now < trouble.next_probe:
        wait = (trouble.next_probe - now).total_seconds()
        return [ceiling(count.capacity, BoundSource.PROBE, Rank.SAFETY, f"{failed}: next probe in {wait:.0f} s")]
    return [ceiling(count.capacity + 1, BoundSource.PROBE, Rank.SAFETY, f"{failed}: one probe at a time")]
