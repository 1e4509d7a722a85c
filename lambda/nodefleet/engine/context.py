"""Input of one pool's decision, computed once. `cluster_context` holds what all pools share."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from math import isfinite
from statistics import fmean
from typing import TypeAlias

from nodefleet.capacity import FleetSize, count_covered, count_workers, vanished_members, with_peak
from nodefleet.eviction.budgets import BudgetTracker
from nodefleet.model.decision import BoundSource
from nodefleet.model.fleet import Count, Phase, Worker
from nodefleet.model.inventory import Market
from nodefleet.model.names import figure
from nodefleet.model.operations import SendAlert
from nodefleet.model.snapshot import (
    NOT_ASKED,
    NOTHING_READ,
    LaunchTarget,
    Missing,
    Observation,
    PoolReadings,
    Reading,
    Sample,
)
from nodefleet.model.state import Backoff, HourLoad, Level, PoolMemory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy, Trust
from nodefleet.policy.pool import Pool
from nodefleet.policy.sources import WhenMissing
from nodefleet.scheduling.simulation import SchedulerSimulation


def target_of(observation: Observation, pool: Pool) -> LaunchTarget:
    """Where the pool's nodes are launched; nowhere, if the deployment does not say."""
    return observation.target(pool.name) or LaunchTarget(pool=pool.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What pending pods need of one new node."""

    zones: tuple[str, ...] = ()  # only there; empty means anywhere
    types: tuple[str, ...] = ()  # only these; empty means any of the pool's
    preferred: tuple[str, ...] = ()  # of them those that are asked for first; empty means all
    market: Market | None = None  # only this one; none: as the pool's share says


@dataclass(frozen=True, slots=True, kw_only=True)
class UnschedulableCount:
    """Pods that wait for a node of this pool, and how many new nodes they would fill."""

    count: int
    nodes: int | None = None  # from packing; none when only a count or no node template is known
    without_vote: int = 0  # pods that got a node and still wait, or that no node can hold


def describe_drift(worker: Worker, pool: Pool, target: LaunchTarget) -> str:
    """How it differs from what the pool would launch now; empty: it does not. What is not known has not drifted."""
    made = worker.instance
    if made is None:
        return ""
    if made.template and target.template and made.template != target.template:
        return f"launched from template {made.template}, and the pool's is {target.template}"
    if made.template and made.template_version and made.template_version != target.template_version:
        version = f"version {made.template_version} of its template"
        return f"launched from {version}, and the pool's is {target.template_version}"
    if made.type not in pool.market.types:
        return f"its type {made.type} is none of the pool's"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A worker that is to be replaced."""

    worker: Worker
    reason: str
    cause: str  # of the loss that it becomes where it goes before its replacement comes
    can_wait: bool = False  # it is replaced when it suits the pool
    ask: PlacementRequest | None = None  # what takes its place; none: any node of the pool
    saves_usd: float | None = None  # an hour, with its replacement
    together: tuple[Worker, ...] = ()  # others that leave for the same replacement

    @property
    def workers(self) -> tuple[Worker, ...]:
        return (self.worker, *self.together)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalContext:
    """Input of the choice of nodes that leave."""

    pods: Mapping[str, Sequence[Pod]] | None  # by node; none: pods are not known, and no node leaves
    ledger: BudgetTracker
    simulation: SchedulerSimulation
    zones: int  # how many zones the pool can use
    idle: Mapping[str, float]  # CPU idle percent by node
    backoffs: tuple[Backoff, ...]
    now: datetime
    settles: bool = False  # a removal began a short while ago: its pods may not be ready elsewhere yet
    unmeasured: frozenset[str] = frozenset()  # nodes that are in no figure: their load is unknown
    headroom: tuple[tuple[Pod, ...], ...] = ()  # placeholders, by amount: the nodes that remain have room for each
    rotating: frozenset[str] = frozenset()  # workers that are due for rotation: one that leaves needs no replacement
    refused: frozenset[str] = frozenset()  # uids of owners whose other pods wait although a node should have room


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Names: of operations, readable and unique because fencing numbers only grow and a run counts its iterations; and of
# workloads, from the names of their pods.


def operation_id(observation: Observation, kind: str, target: str) -> str:
    """For example shop-f17.1-20261116T200400-launch-default-eu-west-1a-spot."""
    return f"{observation.cluster}-f{observation.run}-{observation.at:%Y%m%dT%H%M%S}-{kind}-{target}"


_ENDED = frozenset({Phase.TERMINATING, Phase.GONE, Phase.STOPPED, Phase.WARM, Phase.ORPHANED})
# As Kubernetes makes them: an ordinal or a time, five random letters, the hash of a template.
_GENERATED = re.compile(r"-(\d+|[bcdfghjklmnpqrstvwxz2456789]{5}|[bcdfghjklmnpqrstvwxz2456789]{8,10})$")


def workload_of(pod: str) -> str:
    """What a pod (namespace/name) belongs to, by its name without the generated endings: alerts about a workload must
    not look new with each of its pods."""
    while (shorter := _GENERATED.sub("", pod)) != pod:
        pod = shorter
    return pod


# ── freshness of readings ────────────────────────────────────────────────────────────────────────────────────────────
# Which reading a signal may use: a fresh one, the last good one, or none.
#
# Missing is not zero. A reading that is too old counts as missing too; the last good one stands in for it while it is
# young. That one may uphold growth that had already lasted. It never adds to a streak and never lets the fleet shrink.
#
# A source that answers and has no data is another matter: often that is the idle state. What that counts as stands in
# the policy (`when_missing`). One that cannot be asked is never replaced by anything.


@dataclass(frozen=True, slots=True)
class Cached:
    """The last good reading, and why there is no newer one."""

    reading: Reading
    cause: str


@dataclass(frozen=True, slots=True)
class Assumed:
    """Stands for a reading whose source has no data, by its `when_missing`."""

    reading: Reading
    cause: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A reading without data that the rule is to do without."""

    cause: str


SignalInput: TypeAlias = Reading | Cached | Missing


def custom_name(name: str) -> str:
    """How a custom rule or reading is called beside `cpu` and `memory`, which a user may take as names too."""
    return BoundSource.CUSTOM.with_name(name)


def usable_reading(sample: Sample, cached: Reading | None, trust: Trust, now: datetime) -> SignalInput:
    """The sample if it can be trusted, else the last good one while that is young, else what is wrong."""
    wrong = sample.cause if isinstance(sample, Missing) else _wrong(sample, trust, now)
    if isinstance(sample, Reading) and not wrong:
        return sample
    return Cached(cached, wrong) if cached is not None and _young(cached, trust, now) else Missing(wrong)


def substitute_reading(
    sample: Sample, cached: Reading | None, trust: Trust, now: datetime, *, absent: WhenMissing, least: float | None
) -> SignalInput | Assumed | Ignored:
    """The same of a reading whose policy says what it counts as without data. `least` is what a rule begins with that
    has a minimum for it."""
    got = usable_reading(sample, cached, trust, now)
    idle_at = _idle_at(sample, trust, now)
    if isinstance(got, Reading) or idle_at is None:
        return got
    match absent:
        case WhenMissing.IGNORE:
            return Ignored(got.cause)
        case WhenMissing.ZERO:
            return Assumed(Reading(0.0, idle_at), "no data, counts as 0")
        case WhenMissing.LAST if cached is not None or least is not None:
            value = cached.value if cached is not None else least or 0.0
            return Assumed(Reading(value, idle_at), f"no data, counts as {figure(value)}")
        case _:
            return got


def _idle_at(sample: Sample, trust: Trust, now: datetime) -> datetime | None:
    """When the source was last seen to have no data; none if it has, or could not be asked, or that was long ago."""
    if isinstance(sample, Reading) or sample.empty_at is None:
        return None
    return None if _wrong(Reading(0.0, sample.empty_at), trust, now) else sample.empty_at


def update_cache(
    cached: Mapping[str, Reading],
    readings: PoolReadings,
    trust: Trust,
    now: datetime,
    for_good: Collection[str] = (),
) -> Mapping[str, Reading]:
    """The last good reading of each name, for the next iteration. One that is too old to be used is forgotten, unless
    it is among those that count as their last value however old."""
    kept = {name: reading for name, reading in cached.items() if name in for_good or _young(reading, trust, now)}
    samples = _by_name(readings).items()
    return kept | {name: got for name, got in samples if isinstance(got, Reading) and not _wrong(got, trust, now)}


# More than nanoseconds since 1970 or bytes of anything. Products of several readings must stay numbers.
_LARGEST = 1e21


def _wrong(reading: Reading, trust: Trust, now: datetime) -> str:
    """Why the reading cannot be trusted; empty if it can."""
    limit = trust.stale_after.total_seconds()
    age = (now - reading.at).total_seconds()
    if not isfinite(reading.value):
        return f"{reading.value} is not a number"
    if abs(reading.value) > _LARGEST:
        return f"{reading.value:g} is larger than anything that is counted or measured"
    if age > limit:
        return f"stale: sampled {age:.0f} s ago, limit {limit:.0f} s"
    if -age > limit:
        return f"from the future: sampled {-age:.0f} s ahead, limit {limit:.0f} s"
    return ""


def _young(cached: Reading, trust: Trust, now: datetime) -> bool:
    return -trust.stale_after <= now - cached.at < trust.cache_for


def _by_name(readings: PoolReadings) -> Mapping[str, Sample]:
    own = {custom_name(name): sample for name, sample in readings.custom.items()}
    return {"cpu": readings.cpu, "memory": readings.memory, **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataQuality:
    """How far the observation can be trusted."""

    level: Level
    recovered_at: datetime | None
    why: str  # what is missing; empty when nothing is
    alerts: tuple[SendAlert, ...]


# ── one pool ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Everything that one pool's decision rests on, put together once.


@dataclass(frozen=True, slots=True, kw_only=True)
class CapRoom:
    """What the caps of the fleet leave a pool."""

    more: int  # nodes of any of its types, by the tightest cap
    for_pods: int  # the same, the first ones of the types that pending pods get
    left: Mapping[str, float]  # by cap
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolContext:
    pool: Pool
    policy: Policy
    observation: Observation
    before: PoolMemory
    workers: tuple[Worker, ...]
    readings: PoolReadings
    count: Count
    most: int  # how many workers the pool may have: its max, or less if fleet.max leaves it less
    cap: CapRoom | None  # none without caps of the fleet
    vanished: Mapping[str, datetime]  # members that are not shown any more, and since when
    fleet_size: FleetSize
    cpu: SignalInput
    memory: SignalInput

    @classmethod
    def of(
        cls, pool: Pool, policy: Policy, observation: Observation, before: PoolMemory, fleet: tuple[Worker, ...]
    ) -> "PoolContext":
        if pool.strategy == "adaptive":  # pods that wait are sized like load: at once, by what they fill
            pool = replace(pool, steps=replace(pool.steps, pending="packing"))
        workers = tuple(worker for worker in fleet if worker.pool == pool.name)
        readings = observation.readings.get(pool.name, NOTHING_READ)
        count = count_workers(workers, observation, pool.name)
        gone = vanished_members(workers, pool, observation, before)
        return cls(
            pool=pool,
            policy=policy,
            observation=observation,
            before=before,
            workers=workers,
            readings=readings,
            count=replace(count, occupied=count.occupied + len(gone)),
            most=pool.limits.max,
            cap=None,
            vanished=gone,
            fleet_size=FleetSize(
                now=observation.at,
                covered=count_covered(workers, readings.cpu),
                measured=_count_measured(workers, readings),
                capacity=count.capacity,
                peaks=with_peak(
                    before.peaks, count.capacity, pool, observation.at, headroom_times(pool, before, observation)
                ),
            ),
            cpu=usable_reading(readings.cpu, before.cached.get("cpu"), policy.trust, observation.at),
            memory=usable_reading(readings.memory, before.cached.get("memory"), policy.trust, observation.at),
        )

    @property
    def limit(self) -> int:
        """How many workers the pool may have under all limits. A cap of the fleet keeps no pool below its min."""
        if self.cap is None:
            return self.most
        no_capacity = self.count.occupied - self.count.capacity
        return min(self.most, max(self.count.occupied + self.cap.more, self.pool.limits.min + no_capacity))

    def is_full_for(self, pending: UnschedulableCount) -> bool:
        """Pods wait for new nodes, which max or a cap forbids, and the nodes that there are cannot hold them: an
        under-used one is only in their way."""
        return bool(pending.nodes) and self.count.capacity >= self.limit

    @property
    def lacking(self) -> int:
        """How many nodes it lacks to min."""
        return max(0, self.pool.limits.min - self.count.capacity)

    @property
    def is_announced(self) -> bool:
        """EC2 has announced to take one of its workers, now or later."""
        return any(worker.notice or worker.planned for worker in self.workers)

    @property
    def fleet_size_for_pods(self) -> FleetSize:
        """Pods that wait now wait although every node that is ready now is there, whatever was measured last."""
        return replace(self.fleet_size, covered=count_covered(self.workers, NOT_ASKED))

    @property
    def cpu_percent(self) -> float | None:
        """The CPU as far as it is known, the last good reading included."""
        reading = self.cpu.reading if isinstance(self.cpu, Cached) else self.cpu
        return reading.value if isinstance(reading, Reading) else None

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Readings that should be there and are not. A worker that is just ready has not been measured yet."""
        if not any(map(self.is_measurable, self.workers)):
            return ()
        both = {"CPU": self.cpu, "memory": self.memory}
        return tuple(
            f"{name} of pool {self.pool.name} unknown: {got.cause}"
            for name, got in both.items()
            if not isinstance(got, Reading)
        )

    def is_measurable(self, worker: Worker) -> bool:
        """Its node is ready for so long that figures of it should exist, whether or not it is about to leave. One whose
        instance has ended seems ready for a while, and no exporter answers there any more."""
        if worker.node is None or not worker.node.ready or worker.phase in _ENDED:
            return False
        since = worker.node.ready_changed_at
        return since is None or self.observation.at - since >= self.policy.trust.stale_after


def _count_measured(workers: Sequence[Worker], readings: PoolReadings) -> int | None:
    if not readings.idle:
        return None
    return count_covered([worker for worker in workers if worker.name in readings.idle], readings.cpu)


# ── headroom by the time of day ──────────────────────────────────────────────────────────────────────────────────────


def headroom_times(pool: Pool, before: PoolMemory, observation: Observation) -> float:
    """How much of the headroom is kept at this hour."""
    rules = pool.headroom
    if not rules.time_of_day:
        return 1.0
    ready = observation.at + pool.health.join_limit  # a node that is launched now works by then
    times = relative_load(before.profile, ready, observation.utc_offset, pool.predictive.min_days)
    return min(max(times, rules.least_times), rules.most_times)


def relative_load(profile: Iterable[HourLoad], at: datetime, utc_offset: timedelta, enough: int) -> float:
    """How many times the mean load there was at this hour of the last days; 1 while too few days are known."""
    hours = list(profile)
    alike = [each.load for each in hours if each.hour == at.astimezone(timezone(utc_offset)).hour]
    mean = fmean(each.load for each in hours) if hours else 0.0
    return fmean(alike) / mean if len(alike) >= enough and mean > 0 else 1.0
