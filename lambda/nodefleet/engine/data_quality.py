"""Data quality: which level of data this iteration has, and inconsistencies that forbid scale-down.

Missing or doubtful data may let the fleet grow, it never lets it shrink.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodefleet.engine import context
from nodefleet.engine.context import DataQuality, PoolContext
from nodefleet.engine.signals.vote import SignalVote, Unreadable
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BoundSource
from nodefleet.model.fleet import READY_OR_NEARLY, Phase, Worker
from nodefleet.model.names import pluralize, some
from nodefleet.model.operations import SendAlert
from nodefleet.model.snapshot import NOT_ASKED, Missing, Observation, Reading
from nodefleet.model.state import Level, Memory
from nodefleet.policy.cluster import Policy

# ── level of data ────────────────────────────────────────────────────────────────────────────────────────────────────
# Guard rails: how far the iteration can be trusted, and what must not happen meanwhile.
#
# Missing or doubtful data may let the fleet grow, it never lets it shrink. Without the API server nothing happens, so
# nothing is launched before it has been seen either.


def assess(observation: Observation, memory: Memory, policy: Policy, unreadable: Sequence[str]) -> DataQuality:
    """The level of this iteration. `unreadable` names the readings that should have been there and were not."""
    why = _what_is_away(observation) or "; ".join(unreadable)
    if why:
        level = Level.PARTIAL if _what_is_away(observation) else Level.DEGRADED
        return DataQuality(level=level, recovered_at=None, why=why, alerts=_level_alerts(memory.level, level, why))
    was_down = memory.level in (Level.DEGRADED, Level.PARTIAL) or _was_silent(observation, memory, policy)
    since = observation.at if was_down else memory.recovered_at
    recovering = since is not None and observation.at - since < policy.trust.recovery_hold
    level = Level.RECOVERY if recovering else Level.NORMAL
    return DataQuality(
        level=level, recovered_at=since if recovering else None, why="", alerts=_level_alerts(memory.level, level, "")
    )


def _was_silent(observation: Observation, memory: Memory, policy: Policy) -> bool:
    """No iteration could be written down for a while: DynamoDB was away, or the function itself."""
    return memory.looked_at is not None and observation.at - memory.looked_at > policy.trust.gap * policy.interval


def _what_is_away(observation: Observation) -> str:
    away = {"EC2": observation.instances, "Kubernetes": observation.kubernetes}
    return "; ".join(f"{name} unknown: {got.cause}" for name, got in away.items() if isinstance(got, Missing))


def _level_alerts(before: Level, now: Level, why: str) -> tuple[SendAlert, ...]:
    bad = (Level.DEGRADED, Level.PARTIAL)
    if now in bad:  # on every iteration, so that operators are reminded while it lasts
        text = f"Level {now.value}: {why}. Nothing is removed until it is back."
        return (SendAlert(alert=AlertKind.DEGRADED, pool="", subjects=(now.value,), text=text),)
    if before in bad and now not in bad:
        return (
            SendAlert(
                alert=AlertKind.RECOVERED,
                pool="",
                subjects=(),
                text="Everything is readable again; shrinking waits a while.",
            ),
        )
    return ()


# ── inconsistencies ──────────────────────────────────────────────────────────────────────────────────────────────────
# What stands against shrinking and is no load: workers that EC2, Kubernetes and Prometheus do not agree about, workers
# that are not measured, and readings that cannot be had.
#
# None of it freezes a fleet for ever in silence. A few workers in doubt hold the pool back for a while; then they are
# left aside: they stay themselves, and the others go by the figures that there are. Many hold it back for as long as
# they are many, since then it is the data that is wrong. Whatever holds a pool back for long is an alert.


_DOUBTFUL = {
    Phase.UNREADY: "not ready",
    Phase.UNHEALTHY: "unhealthy",
    Phase.UNLISTED: "not listed by EC2",
    Phase.ORPHANED: "a node without an instance",
}
_TOLD_ELSEWHERE = frozenset(
    {Phase.UNHEALTHY, Phase.ORPHANED}
)  # they are replaced or cleaned up, with alerts of their own
_UTILISATION = (BoundSource.CPU, BoundSource.MEMORY)
_COUNT = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconsistencies:
    sentences: tuple[str, ...]  # what forbids to shrink now
    unmeasured: frozenset[str]  # nodes that are in no figure, and stay
    since: Mapping[str, datetime]  # everything that is in doubt, and since when
    alerts: tuple[SendAlert, ...]


def find_inconsistencies(ctx: PoolContext, votes: Sequence[SignalVote]) -> Inconsistencies:
    doubtful = [worker for worker in ctx.workers if worker.phase in _DOUBTFUL]
    unmeasured = _find_unmeasured(ctx)
    count = _count(ctx, doubtful, unmeasured)
    vetoes = dict(_vetoes(ctx, votes))
    keys = [
        *(_of_worker(worker) for worker in doubtful),
        *(_of_exporter(worker) for worker in unmeasured),
        *([_COUNT] if count else []),
        *map(_of_veto, vetoes),
    ]
    found = _PoolChecks(ctx, doubtful, unmeasured, count, vetoes)
    since = {key: ctx.before.doubtful.get(key, ctx.observation.at) for key in keys}
    held = dict(found.held_by(since))
    return Inconsistencies(
        sentences=tuple(held.values()),
        unmeasured=frozenset(worker.name for worker in unmeasured),
        since=since,
        alerts=(*found.block_alerts(held, since), *found.in_doubt(since)),
    )


@dataclass(frozen=True, slots=True)
class _PoolChecks:
    ctx: PoolContext
    doubtful: Sequence[Worker]
    unmeasured: Sequence[Worker]
    count: str
    vetoes: Mapping[str, str]  # by signal

    @property
    def tolerated(self) -> int:
        """How many workers may be in doubt while the others shrink: one always."""
        return max(1, int(len(_ready(self.ctx)) * self.ctx.policy.trust.doubtful_percent / 100))

    def held_by(self, since: Mapping[str, datetime]) -> Iterator[tuple[str, str]]:
        """What forbids to shrink now: which doubt, and in words."""
        few = len(self.doubtful) <= self.tolerated
        for worker in self.doubtful:
            if not (few and self._time_since(since[_of_worker(worker)]) >= self.ctx.policy.trust.doubt_for):
                yield _of_worker(worker), f"{worker.name} is {_DOUBTFUL[worker.phase]}"
        if len(self.unmeasured) > self.tolerated:
            names = some(worker.name for worker in self.unmeasured)
            many = f"{len(self.unmeasured)} of {len(_ready(self.ctx))} workers are not measured ({names})"
            yield _of_exporter(self.unmeasured[0]), f"{many}, {self.tolerated} may be"
        if self.count:
            yield _COUNT, self.count

    def block_alerts(self, held: Mapping[str, str], since: Mapping[str, datetime]) -> Iterator[SendAlert]:
        """What has forbidden to shrink for long."""
        limit = self.ctx.policy.trust.blocked_after
        for signal, cause in self.vetoes.items():
            lasted = self._time_since(since[_of_veto(signal)])
            if lasted >= limit:
                text = f"{signal} has forbidden to shrink for {_minutes(lasted)}: {cause}."
                yield self._tell(AlertKind.SCALE_DOWN_BLOCKED, text, signal)
        longest = max((self._time_since(since[key]) for key in held), default=timedelta(0))
        if held and longest >= limit:
            text = f"Nothing may be removed for {_minutes(longest)}: {some(held.values(), '; ')}."
            yield self._tell(AlertKind.SCALE_DOWN_BLOCKED, text)

    def in_doubt(self, since: Mapping[str, datetime]) -> Iterator[SendAlert]:
        """Workers that operators should look at, though the fleet goes on without them."""
        trust = self.ctx.policy.trust
        silent = [
            worker.name
            for worker in self.unmeasured
            if self._time_since(since[_of_exporter(worker)]) >= trust.unmeasured_after
        ]
        if silent:
            one = len(silent) == 1
            rest = "it, so it counts in none and is" if one else "them, so they count in none and are"
            text = (
                f"{some(silent)} {'is' if one else 'are'} ready and not measured: Prometheus has no figures of {rest} "
                "not removed."
            )
            yield self._tell(AlertKind.NODE_IN_DOUBT, text, *silent)
        for worker in self.doubtful:
            lasted = self._time_since(since[_of_worker(worker)])
            if worker.phase not in _TOLD_ELSEWHERE and lasted >= trust.blocked_after:
                text = f"{worker.name} has been {_DOUBTFUL[worker.phase]} for {_minutes(lasted)} and is not removed."
                yield self._tell(AlertKind.NODE_IN_DOUBT, text, worker.name)

    def _time_since(self, since: datetime) -> timedelta:
        return self.ctx.observation.at - since

    def _tell(self, alert: AlertKind, text: str, *subjects: str) -> SendAlert:
        return SendAlert(alert=alert, pool=self.ctx.pool.name, text=text, subjects=subjects)


def _ready(ctx: PoolContext) -> list[Worker]:
    return [worker for worker in ctx.workers if worker.is_capacity and worker.phase in READY_OR_NEARLY]


def _find_unmeasured(ctx: PoolContext) -> list[Worker]:
    """Workers that should have figures and have none. None if that is unknown: no figure names any worker."""
    measured = ctx.readings.idle
    if not any(worker.name in measured for worker in ctx.workers):
        return []
    return [
        worker
        for worker in ctx.workers
        if worker.phase is Phase.READY and ctx.is_measurable(worker) and worker.name not in measured
    ]


def _count(ctx: PoolContext, doubtful: Sequence[Worker], unmeasured: Sequence[Worker]) -> str:
    """Whether Prometheus sees the workers that Kubernetes has; those in doubt may be among them or not."""
    raw = ctx.readings.nodes
    if not _ready(ctx) or raw == NOT_ASKED:
        return ""
    seen = context.usable_reading(raw, None, ctx.policy.trust, ctx.observation.at)
    if not isinstance(seen, Reading):
        return f"worker count unknown: {seen.cause}"
    tolerance, covered = ctx.policy.trust.count_tolerance, ctx.fleet_size.covered
    least = covered - len(unmeasured) - sum(worker.phase in READY_OR_NEARLY for worker in doubtful)
    most = max(covered, sum(worker.node is not None for worker in ctx.workers))
    if least - tolerance <= seen.value <= most + tolerance:
        return ""
    return f"Prometheus sees {pluralize(seen.value, 'worker', 'workers')}, Kubernetes {covered}"


def _vetoes(ctx: PoolContext, votes: Sequence[SignalVote]) -> Iterator[tuple[str, str]]:
    for opinion in votes:
        # Where there is nothing to measure, CPU and memory are not unknown but none.
        nothing_to_measure = opinion.signal in _UTILISATION and not ctx.unreadable
        if isinstance(opinion.vote, Unreadable) and not nothing_to_measure:
            yield opinion.signal, opinion.vote.reason


def _of_worker(worker: Worker) -> str:
    return f"worker:{worker.id}"


def _of_exporter(worker: Worker) -> str:
    return f"exporter:{worker.id}"


def _of_veto(signal: str) -> str:
    return f"veto:{signal}"


def _minutes(lasted: timedelta) -> str:
    return f"{lasted.total_seconds() / 60:.0f} min"
