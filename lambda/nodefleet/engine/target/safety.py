"""Safety bounds: missing data, recovery, pauses, a policy that cannot be followed, probes after failed joins."""

from collections.abc import Sequence
from datetime import datetime

from nodefleet.engine.data_quality import DataQuality
from nodefleet.engine.target.bounds import ceiling, floor
from nodefleet.model.decision import Bound, BoundSource, Rank
from nodefleet.model.fleet import Count
from nodefleet.model.names import pluralize, some
from nodefleet.model.snapshot import Observation, Pause
from nodefleet.model.state import JoinTrouble, Level, Loss, Memory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Health, Pool


def safety_bounds(
    seen: Observation,
    memory: Memory,
    policy: Policy,
    pool: Pool,
    count: Count,
    trust: DataQuality,
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
    bounds += _pause_bounds(seen, pool, now)
    bounds += _probe_bounds(memory.pool(pool.name).join_trouble, pool.health, count, seen.at)
    return bounds


def hold_bounds(seen: Observation, pool: Pool, capacity: int, losses: Sequence[Loss]) -> list[Bound]:
    """The policy cannot be followed: the pool keeps its size. What it loses is replaced, and min is restored."""
    if not seen.hold:
        return []
    sentence = f"{seen.hold}: the pool keeps its size"
    most = max(capacity + len(losses), pool.limits.min)
    return [
        floor(capacity, BoundSource.HOLD, Rank.SAFETY, sentence),
        ceiling(most, BoundSource.HOLD, Rank.SAFETY, sentence),
    ]


def _pause_bounds(seen: Observation, pool: Pool, capacity: int) -> list[Bound]:
    """A floor, and a ceiling unless only the scale-down is paused. Of two pauses the one that stops more counts."""
    pauses = [
        each
        for each in seen.commands
        if isinstance(each, Pause) and each.pool in (None, pool.name) and _in_force(each.until, seen.at)
    ]
    if not pauses:
        return []
    pause = min(pauses, key=lambda each: each.scale_down_only)
    what = "scale-down paused" if pause.scale_down_only else "paused"
    until = f" until {pause.until:%Y-%m-%d %H:%M}" if pause.until else ""
    sentence = f"{what} by {pause.by}{until}" + (f": {pause.reason}" if pause.reason else "")
    bounds = [floor(capacity, BoundSource.PAUSE, Rank.SAFETY, sentence, pause.until)]
    if not pause.scale_down_only:
        most = max(capacity, pool.limits.min)
        bounds.append(ceiling(most, BoundSource.PAUSE, Rank.SAFETY, sentence, pause.until))
    return bounds


def _in_force(until: datetime | None, now: datetime) -> bool:
    return until is None or now < until


def _probe_bounds(trouble: JoinTrouble | None, health: Health, count: Count, now: datetime) -> list[Bound]:
    """After failed joins one node at a time is tried, with growing pauses."""
    if trouble is None or trouble.failures < health.failed_joins:
        return []
    failed = f"{pluralize(trouble.failures, 'node', 'nodes in a row')} did not join"
    if count.booting:
        return [
            ceiling(count.capacity, BoundSource.PROBE, Rank.SAFETY, f"{failed}: waiting for the probe that is booting")
        ]
    if now < trouble.next_probe:
        wait = (trouble.next_probe - now).total_seconds()
        return [ceiling(count.capacity, BoundSource.PROBE, Rank.SAFETY, f"{failed}: next probe in {wait:.0f} s")]
    return [ceiling(count.capacity + 1, BoundSource.PROBE, Rank.SAFETY, f"{failed}: one probe at a time")]
