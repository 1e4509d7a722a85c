"""What one look leaves for the next. Small, and safe to lose: everything in it can be learned again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import Enum

from nodefleet.domain.forecasting import AdaptiveMemory
from nodefleet.domain.operations import Shortage
from nodefleet.domain.readings import Reading


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
class Grant:
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
    expires: datetime | None = None  # after this whoever still needs it asks again


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
    on_demand: int  # how many there were then
    open: bool = True  # the On-Demand node has not left yet
    failures: int = 0  # swaps in a row after which it had not left: the next one waits longer


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationState:
    """How the rotation of old and drifted workers goes."""

    since: datetime | None = None  # since when workers are due and none of them was replaced
    begun_at: datetime | None = None  # a node was launched ahead then, and no worker has left for it yet
    nodes: int = 0  # … and how large the pool was before it
    failures: int = 0  # attempts in a row in which no worker could leave: the next one waits longer
    failed_at: datetime | None = None


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
    grants: tuple[Grant, ...] = ()
    pod_grants: tuple[PodGrant, ...] = ()  # read from older releases, never written
    pending: tuple[PendingClass, ...] = ()
    members: tuple[str, ...] = ()  # who was capacity at the last look
    losses: tuple[Loss, ...] = ()
    join_trouble: JoinTrouble | None = None
    shortages: tuple[Shortage, ...] = ()
    backoffs: tuple[Backoff, ...] = ()
    suspects: Mapping[str, datetime] = field(default_factory=dict)  # what looks left behind, and since when
    vanished: Mapping[str, datetime] = field(default_factory=dict)  # members that EC2 does not list, and since when
    last_left: datetime | None = None  # when the last voluntary removal began, also one that makes no fleet smaller
    braked_since: datetime | None = None  # many workers are unhealthy at once since then
    ahead: int = 0  # nodes that were launched ahead for workers that are to be replaced, and that have not gone yet
    swap: MarketSwap | None = None  # the last one
    rotation: RotationState | None = None  # none: no worker is due
    doubtful: Mapping[str, datetime] = field(default_factory=dict)  # what stands against shrinking, and since when


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    level: Level = Level.NORMAL
    recovered_at: datetime | None = None
    looked_at: datetime | None = None  # the look that left this
    pools: Mapping[str, PoolMemory] = field(default_factory=dict)
    resting: Mapping[str, datetime] = field(default_factory=dict)  # instances that are no capacity, and since when

    def pool(self, name: str) -> PoolMemory:
        return self.pools.get(name, NOTHING_KNOWN)


NOTHING_KNOWN = PoolMemory()
NOTHING_REMEMBERED = Memory()
