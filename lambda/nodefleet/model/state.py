"""What one iteration leaves for the next: the memory of decisions, and what the loop keeps beside it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import partial

from nodefleet.model.inventory import Resources
from nodefleet.model.operations import Shortage
from nodefleet.model.snapshot import Reading

# ── memory of the adaptive strategy ──────────────────────────────────────────────────────────────────────────────────
# What the adaptive strategy keeps from one iteration to the next. Safe to lose: it is learned again from the load.


VERSION = 2  # of what is in the texts: another one is not read, but learned again


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredForecaster:
    """Numbers as little-endian bytes in Base64."""

    version: int = VERSION
    first: int = 0  # minute of the first load, since the epoch
    load: str = ""  # 16 bits a minute
    sums: str = ""  # of the regression
    models: str = ""  # its coefficients; empty: too few rows yet
    losses: str = ""  # of the forecasters, then their weight
    pending: str = ""  # forecasts whose time has not come
    errors: str = ""  # 16 bits each: forecasts, then errors, window by window
    learned: int = 0  # rows

    @property
    def last(self) -> datetime:
        """The last minute that is in it. Two bytes a minute, in Base64."""
        minutes = (len(self.load) * 3 // 4 - self.load.count("=")) // 2
        return datetime.fromtimestamp(60 * (self.first + minutes - 1), UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveMemory:
    forecaster: StoredForecaster | None = None
    calm: int = 0  # decisions in a row that found a scale-down worth it
    decided_at: datetime | None = None  # the last scheduled decision: requeued iterations may only grow the fleet
    promised: float = 0.0  # Σ of the chances of a violation that decisions accepted, fading over days …
    violated: float = 0.0  # … and how often a violation followed
    due: tuple[tuple[float, ...], ...] = ()  # (minute, chance) of promises whose time has not come
    skill: float | None = None  # percent by which the best forecaster's loss is below that of the last value
    joins: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # "type zone" → seconds of the last joins
    booting: tuple[str, ...] = ()  # instances that were booting at the last iteration


# ── memory of decisions ──────────────────────────────────────────────────────────────────────────────────────────────
# What one iteration leaves for the next. Small, and safe to lose: everything in it can be learned again.


class Level(Enum):
    """How much of what we need is there."""

    NORMAL = "normal"
    DEGRADED = "degraded"  # Prometheus missing
    PARTIAL = "partial"  # Kubernetes or EC2 missing
    RECOVERY = "recovery"  # everything is back, shrinking waits


@dataclass(frozen=True, slots=True)
class Breaches:
    """Sample times beyond a limit that count: a streak's or a score's."""

    times: tuple[datetime, ...] = ()
    since: datetime | None = None  # when this run of breaches began
    last: datetime | None = None  # the last sample that was looked at, on whichever side


@dataclass(frozen=True, slots=True, kw_only=True)
class HourLoad:
    """The mean load of one hour, in busy nodes (utilisation × nodes)."""

    day: str  # local date, 2026-11-16
    hour: int  # local, 0–23
    load: float
    samples: int
    last: datetime  # the newest sample in it

    @property
    def weekday(self) -> int:
        return date.fromisoformat(self.day).weekday()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A floor that was voted for an hour to come; it lasts through that hour."""

    nodes: int
    hour: datetime  # when the hour begins
    expires: datetime
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpRecord:
    """Nodes that a signal was given, and what it read then."""

    signal: str
    value: float
    at: datetime
    nodes: int  # capacity that it was to have
    strikes: int = 0  # growths so far that changed nothing
    lost: bool = False  # it has no vote until it clears


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGrant:
    """A pod for which a node was bought. Written by releases before `PendingClass`, and no longer used."""

    uid: str
    at: datetime
    times: int = 1
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingClass:
    """Pods that wait and are alike: same controller, same requests and rules."""

    name: str
    bound: str = ""  # a digest of its controller's pods that have a node: another one means that one of them got one
    bought_at: datetime | None = None  # when a node was last bought for it
    purchases: int = 0
    room_since: datetime | None = None  # since when a ready node has room by our simulation, and the scheduler refuses
    muted_until: datetime | None = None  # it has no vote
    mutes: int = 0  # in a row, without one of its pods getting a node


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A worker that went without our doing, and has not been replaced yet."""

    worker: str
    at: datetime
    cause: str
    expires: datetime | None = None  # after this a signal that still needs it votes again


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTrouble:
    """Nodes that were launched and did not join."""

    failures: int
    delay: timedelta
    next_probe: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A node that could not be drained, and when it may be tried again."""

    node: str
    blocker: str
    failures: int
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSwap:
    """A Spot node that takes the place of an On-Demand one: launched first, then the other leaves."""

    at: datetime  # when it was launched
    on_demand: int  # how many there are while it is under way
    nodes: int = 0  # how large the pool was before it: one leaves only while there is one more
    open: bool = True  # the On-Demand node has not left yet
    failures: int = 0  # swaps in a row after which it had not left: the next one waits longer


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationState:
    """How the rotation of old and drifted workers goes, or the replacement of under-used ones by a cheaper node."""

    since: datetime | None = None  # since when workers are due and none of them was replaced
    begun_at: datetime | None = None  # a node was launched ahead then, and no worker has left for it yet
    nodes: int = 0  # … and how large the pool was before it
    failures: int = 0  # attempts in a row in which no worker could leave: the next one waits longer
    failed_at: datetime | None = None
    together: tuple[str, ...] = ()  # the new node replaces several workers: those that have not left yet


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyState:
    """What a standby pool has seen of the cluster whose demand it takes over."""

    origin: str
    armed: bool = False  # it was seen healthy for long enough since the last failover: its failure counts
    failed: bool = False  # what the last readings said
    since: datetime | None = None  # since when they have said so
    samples: int = 0  # … and how many of them
    last: datetime | None = None  # the last one
    nodes: int = 0  # how large this pool was when the failure was first seen


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMemory:
    last_grow: datetime | None = None
    last_shrink: datetime | None = None
    breaches: Mapping[str, Breaches] = field(default_factory=dict)  # by signal and direction: "cpu:up"
    profile: tuple[HourLoad, ...] = ()
    forecast: Forecast | None = None
    adaptive: AdaptiveMemory | None = None  # of `strategy: adaptive`
    peaks: Mapping[str, int] = field(default_factory=dict)  # the highest capacity, by UTC date
    cached: Mapping[str, Reading] = field(default_factory=dict)  # the last good readings
    grants: tuple[ScaleUpRecord, ...] = ()
    pod_grants: tuple[PodGrant, ...] = ()  # read from older releases, never written
    pending: tuple[PendingClass, ...] = ()
    members: tuple[str, ...] = ()  # who was capacity at the last iteration
    losses: tuple[Loss, ...] = ()
    join_trouble: JoinTrouble | None = None
    shortages: tuple[Shortage, ...] = ()
    backoffs: tuple[Backoff, ...] = ()
    suspects: Mapping[str, datetime] = field(default_factory=dict)  # what seems orphaned, and since when
    cleanups: Mapping[str, datetime] = field(default_factory=dict)  # when one of each target was last under way
    vanished: Mapping[str, datetime] = field(default_factory=dict)  # members that EC2 does not list, and since when
    last_left: datetime | None = None  # when the last voluntary removal began, also one that makes no fleet smaller
    braked_since: datetime | None = None  # many workers are unhealthy at once since then
    ahead: int = 0  # nodes that were launched ahead for workers that are to be replaced, and that have not gone yet
    swap: MarketSwap | None = None  # the last one
    rotation: RotationState | None = None  # none: no worker is due
    doubtful: Mapping[str, datetime] = field(default_factory=dict)  # what stands against shrinking, and since when
    under_used: Mapping[str, datetime] = field(default_factory=dict)  # since when workers, or some of all (""), are
    standby: StandbyState | None = None
    sizes: Mapping[str, Resources] = field(default_factory=dict)  # by type: allocatable of the smallest ready node


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    level: Level = Level.NORMAL
    recovered_at: datetime | None = None
    looked_at: datetime | None = None  # the iteration that left this
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    resting: Mapping[str, datetime] = field(default_factory=dict)  # instances that are no capacity, and since when

    def pool(self, name: str) -> PoolMemory:
        return self.pools.get(name, NOTHING_KNOWN)


NOTHING_KNOWN = PoolMemory()
NOTHING_REMEMBERED = Memory()


# ── what the loop keeps ──────────────────────────────────────────────────────────────────────────────────────────────
# What the loop itself keeps from one iteration to the next, beside the memory that deciding needs.


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """Something that is so: when operators last heard of it, and when it was last seen to be so."""

    told_at: datetime
    seen_at: datetime
    times: int = 0  # of a kind and pool: new alerts since told_at; of an announced growth: the size


MONTH_HOURS = 730  # as AWS counts them


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUsage:
    """What one pool used and did within an hour. Sums, so that hours add up."""

    spot_seconds: float = 0.0  # of instances that run or start
    on_demand_seconds: float = 0.0
    usd: float = 0.0  # by the catalogue's prices
    unpriced_seconds: float = 0.0  # of instances whose price is not known
    types: Mapping[str, float] = field(default_factory=dict)  # instance seconds by type
    watched_seconds: float = 0.0  # how much of the hour was looked at
    cpu_seconds: float = 0.0  # utilisation (percent) × seconds; divided by cpu_known it is the mean
    cpu_known: float = 0.0  # seconds in which it was readable
    memory_seconds: float = 0.0
    memory_known: float = 0.0
    requested_cpu_seconds: float = 0.0  # percent of the ready nodes' allocatable CPU that pods asked for × seconds
    requested_memory_seconds: float = 0.0
    requested_known: float = 0.0
    most_nodes: int = 0
    fewest_nodes: int | None = None
    at_max_seconds: float = 0.0  # as large as max, whether or not more was wanted
    waiting_pod_seconds: float = 0.0  # unschedulable pods of the whole cluster × seconds: whose they are is not known
    scale_ups: int = 0
    scale_downs: int = 0
    interruptions: int = 0
    join_failures: int = 0
    drain_failures: int = 0
    no_capacity: int = 0  # counts alerts, and the same condition is alerted once
    market_swaps: int = 0  # On-Demand above its share that Spot took the place of
    consolidations: int = 0  # of scale_downs: workers that were under-used by what pods ask for
    consolidated_usd_per_day: float = 0.0  # what these save, with the cheaper nodes that took their place
    warm_seconds: float = 0.0  # of stopped instances that are kept to be started again
    warm_usd: float = 0.0  # their disks, by warm.usd_per_month; not in `usd`
    rotations: int = 0  # of scale_downs: workers that gave way to new ones for age, drift or an operator's request


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One hour of the cluster."""

    hour: datetime  # when it begins, UTC
    last: datetime  # up to when it is counted
    pools: Mapping[str, PoolUsage] = field(default_factory=dict)
    own_usd: float = 0.0  # the autoscaler itself, beside the pools' instances, at the list prices of the deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    memory: Memory = field(default_factory=Memory)
    said: Mapping[str, AlertRecord] = field(
        default_factory=dict
    )  # what operators have been told and is still so, by its key
    usage: Usage | None = None  # the hour that is running
    adopted_policy: str = ""  # digest of the declared policy that was last taken up
    refused_policy: str = ""  # digest of the one that was refused and told
    iterations: tuple[int, ...] = ()  # seconds that the last ones took, the latest last


# ── a state too large for its record ─────────────────────────────────────────────────────────────────────────────────
# A journal that grows too large for its record, made smaller step by step.
#
# Everything in it is safe to lose, but not equally cheap to learn again: figures are rounded first, then old load
# profiles go, then what a signal learned, and at last everything but who is there and what is under way. Each step
# starts from the one before, and the first that fits is taken, so that nothing is lost without need.


_DECIMALS = 3  # of a node: the forecast is rounded up to whole ones
_DAYS = (14, 7, 2)  # of the load profile: two weeks are enough for weekdays, one for the hours of a day
_MOST_SAID = 1_000  # conditions that operators were told of; those told longest ago are forgotten, and told again

# Who is there, who left, and what is under way: without it a loss is not replaced, or a brake is forgotten.
_NEEDED = frozenset(
    {
        "last_grow",
        "last_shrink",
        "forecast",
        "members",
        "losses",
        "join_trouble",
        "shortages",
        "backoffs",
        "suspects",
        "cleanups",
        "vanished",
        "rotation",
        "standby",
    }
)
_LEARNED = ("grants", "pod_grants", "peaks", "cached", "breaches")


@dataclass(frozen=True, slots=True)
class Compacted:
    journal: LoopState
    lost: str  # what is not in it any more; empty: nothing but decimals


def compactions(journal: LoopState) -> Iterator[Compacted]:
    """Ever smaller ones."""
    journal = _each(journal, _round_profile)
    yield Compacted(journal, "")
    if any(pool.adaptive for pool in journal.memory.pools.values()):
        journal = _each(journal, _without_forecaster)
        yield Compacted(journal, "what the adaptive strategy has learned")
    for days in _DAYS:
        journal = _each(journal, partial(_cut_profile, days=days))
        yield Compacted(journal, f"load profiles of more than {days} days")
    newest = sorted(journal.said.items(), key=lambda told: told[1].told_at)[-_MOST_SAID:]
    journal = _each(replace(journal, said=dict(newest)), _drop_learned)
    yield Compacted(journal, "load profiles of more than 2 days, and what signals have learned")
    yield Compacted(_each(journal, _keep_needed), "everything but who is there and what is under way")


def _each(journal: LoopState, change: Callable[[PoolMemory], PoolMemory]) -> LoopState:
    memory = journal.memory
    return replace(journal, memory=replace(memory, pools={name: change(pool) for name, pool in memory.pools.items()}))


def _round_profile(pool: PoolMemory) -> PoolMemory:
    profile = [
        replace(hour, load=round(hour.load, _DECIMALS), last=hour.last.replace(second=0, microsecond=0))
        for hour in pool.profile
    ]
    return replace(pool, profile=tuple(profile))


def _without_forecaster(pool: PoolMemory) -> PoolMemory:
    """It is the largest part, and learned again from Prometheus in one query."""
    return replace(pool, adaptive=replace(pool.adaptive, forecaster=None)) if pool.adaptive else pool


def _cut_profile(pool: PoolMemory, days: int) -> PoolMemory:
    if not pool.profile:
        return pool
    last = date.fromisoformat(max(hour.day for hour in pool.profile))
    first = (last - timedelta(days=days - 1)).isoformat()
    return replace(pool, profile=tuple(hour for hour in pool.profile if hour.day >= first))


def _drop_learned(pool: PoolMemory) -> PoolMemory:
    return replace(pool, **{name: type(getattr(pool, name))() for name in _LEARNED})


def _keep_needed(pool: PoolMemory) -> PoolMemory:
    return PoolMemory(**{each.name: getattr(pool, each.name) for each in fields(pool) if each.name in _NEEDED})
