"""What Prometheus scraped, and the Gauges port over it.

The reading lags as the real one does: CPU is a rate over five minutes of samples, a new node counts from its second
sample on, and the sample's time is that of the last scrape. As with the shipped queries, only nodes whose exporter
answered the last scrape are in the figures.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import fsum, isnan
from statistics import fmean

from nodefleet.model.inventory import Node
from nodefleet.model.snapshot import Missing, PoolReadings, Reading, Sample
from nodefleet.model.workload import PodPhase
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.kube import Kube, Traits
from nodefleet_tools.sim.kubelets import Kubelets

SCRAPE = 30.0  # seconds
WINDOW = timedelta(minutes=5)
_LOAD_WINDOW = 4  # scrapes: two minutes, as in the shipped query of the load
_LOAD_MINUTES = 7 * 1440 + 480  # as many as the shipped adapter asks for
_SYSTEM_CPU = 0.03  # of a node, for the kubelet and the system
_SYSTEM_MEMORY = 0.2
_PERCENT = 100.0
_CLOCKS = timedelta(minutes=1)  # a run's clock may see a sample younger than it is
_NOTHING_SCRAPED = Missing("nothing has been scraped yet")


@dataclass(slots=True)
class _Series:
    """One node's samples: time, seconds of CPU used so far as a share of the node, memory share."""

    pool: str
    samples: deque[tuple[datetime, float, float]] = field(default_factory=deque)

    def rate(self) -> float | None:
        """CPU used, as a share of the node, over the samples there are."""
        if len(self.samples) < 2:  # noqa: PLR2004  # a rate needs two
            return None
        (first, before, _), (last, after, _) = self.samples[0], self.samples[-1]
        return (after - before) / (last - first).total_seconds()


class LoadHistory:
    """One pool's busy nodes, minute by minute. The newest reading belongs to the running minute."""

    def __init__(self) -> None:
        self.minutes: deque[Reading] = deque(maxlen=_LOAD_MINUTES)
        self._recent: deque[float] = deque(maxlen=_LOAD_WINDOW)

    def add(self, load: float, at: datetime) -> None:
        self._recent.append(load)
        if self.minutes and _minute(self.minutes[-1].at) == _minute(at):
            self.minutes.pop()
        self.minutes.append(Reading(fmean(self._recent), at))

    def since(self, known: datetime | None) -> tuple[Reading, ...]:
        """The newest known minute and those after it, oldest first."""
        found: list[Reading] = []
        for reading in reversed(self.minutes):
            if known is not None and _minute(reading.at) < _minute(known):
                break
            found.append(reading)
        return tuple(reversed(found))


def _minute(at: datetime) -> int:
    return int(at.timestamp()) // 60


@dataclass(frozen=True, slots=True)
class _Use:
    """What one running pod uses of its node: shares of it, times how much its kind uses now."""

    traits: Traits
    cpu: float
    memory: float


class Prometheus:
    def __init__(self, clock: Clock, kube: Kube, kubelets: Kubelets) -> None:
        self.frozen = False  # it answers, but scrapes nothing new
        self.fixed: dict[tuple[str, str], Callable[[], float]] = {}  # (pool, "cpu" or "memory") instead of the load
        # (pool, reading), sampled at each scrape; none or NaN: the query finds no series, as of a queue that is idle
        self.custom: dict[tuple[str, str], Callable[[], float | None]] = {}
        self.missing: dict[tuple[str, str], str] = {}  # (pool, reading or "cpu", "memory", "nodes") → cause
        self.silent: set[str] = set()  # nodes that are fine, but whose exporter does not answer
        self.scraped_at: datetime | None = None
        self.load: dict[str, LoadHistory] = {}  # by pool
        self._clock = clock
        self._kube = kube
        self._kubelets = kubelets
        self._series: dict[str, _Series] = {}
        self._up: dict[str, str] = {}  # nodes that answered the last scrape, with their pool
        self._sampled: dict[tuple[str, str], float | None] = {}
        self._uses: dict[str, list[_Use]] = {}
        self._version = -1
        clock.every(SCRAPE, self._scrape)

    # ── scraping ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _scrape(self) -> None:
        if self.frozen:
            return
        now = self.scraped_at = self._clock.now
        alive = self._kubelets.alive - self.silent
        targets = [node for node in self._kube.nodes.values() if node.pool and node.name in alive]
        self._up = {node.name: node.pool or "" for node in targets}
        busy: dict[str, list[float]] = {}  # by pool: the CPU of each node that answered
        for node in targets:
            cpu, memory = self.use(node)
            busy.setdefault(node.pool or "", []).append(cpu)
            series = self._series.setdefault(node.name, _Series(pool=node.pool or ""))
            used = series.samples[-1][1] + cpu * SCRAPE if series.samples else 0.0
            series.samples.append((now, used, memory))
        for name, series in list(self._series.items()):
            while series.samples and now - series.samples[0][0] > WINDOW:
                series.samples.popleft()
            if not series.samples:
                del self._series[name]
        self._sampled = {key: measure() for key, measure in {**self.fixed, **self.custom}.items()}
        for pool, shares in busy.items():
            fixed = self._sampled.get((pool, "cpu"))
            load = fsum(shares) if fixed is None else fixed / _PERCENT * len(shares)  # mean CPU × nodes
            self.load.setdefault(pool, LoadHistory()).add(load, now)

    def use(self, node: Node) -> tuple[float, float]:
        """The shares of CPU and memory that are in use on a node now."""
        if self._version != self._kube.version:
            self._uses = {each.name: self._uses_of(each) for each in self._kube.nodes.values()}
            self._version = self._kube.version
        uses = self._uses[node.name]
        cpu = _SYSTEM_CPU + fsum([use.cpu * use.traits.cpu_use for use in uses])
        memory = _SYSTEM_MEMORY + (1 - _SYSTEM_MEMORY) * fsum([use.memory * use.traits.memory_use for use in uses])
        return min(1.0, cpu), min(1.0, memory)

    def _uses_of(self, node: Node) -> list[_Use]:
        offered = node.allocatable
        return [
            _Use(self._kube.traits_of(pod), pod.requests.cpu / offered.cpu, pod.requests.memory / offered.memory)
            for pod in self._kube.pods_on(node.name)
            if pod.phase is PodPhase.RUNNING
        ]

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────────────────

    def readings(self, pool: Pool, known: datetime | None = None, *, with_load: bool = True) -> PoolReadings:
        """`known`: up to when the load was learned from, for `strategy: adaptive`."""
        name = pool.name
        adaptive = with_load and pool.strategy == "adaptive" and (name, "cpu") not in self.missing and name in self.load
        rates = {node: rate for node, rate in self._rates(name) if rate is not None}
        memory = [self._series[node].samples[-1][2] for node, of in self._up.items() if of == name]
        return PoolReadings(
            cpu=self._sample(name, "cpu", _mean(rates.values())),
            memory=self._sample(name, "memory", _mean(memory)),
            nodes=self._sample(name, "nodes", float(len(memory)) if memory else None),
            custom={reading: self._sample(name, reading, None) for reading in pool.readings},
            load=self.load[name].since(known) if adaptive else (),
            idle={node: _PERCENT * (1 - rate) for node, rate in sorted(rates.items())},
        )

    def lacks(self, pool: Pool, stale_after: timedelta) -> str:
        """What cannot be known of a pool, whatever the answers say; empty: all that is asked for is there."""
        missing = [f"{name}: {self.missing[of, name]}" for of, name in self.missing if of == pool.name]
        if missing:
            return ", ".join(missing)
        age = self._clock.now - (self.scraped_at or self._clock.now)
        too_old = age > stale_after + _CLOCKS
        return f"the last scrape was {age.total_seconds():.0f} s ago" if too_old else ""

    def _rates(self, pool: str) -> Iterable[tuple[str, float | None]]:
        return ((name, self._series[name].rate()) for name, of in self._up.items() if of == pool)

    def _sample(self, pool: str, name: str, value: float | None) -> Sample:
        if (pool, name) in self.missing:
            return Missing(self.missing[pool, name])
        value = self._sampled.get((pool, name), value)
        if self.scraped_at is None:
            return _NOTHING_SCRAPED
        if value is None or isnan(value):
            return Missing("the query gave no series", empty_at=self.scraped_at)
        return Reading(value, self.scraped_at)


class SimGauges:
    def __init__(self, prometheus: Prometheus, outage: Callable[[], str], run: Run) -> None:
        self._prometheus = prometheus
        self._outage = outage  # why nothing answers; empty: it does
        self._run = run

    def read(
        self,
        policy: Policy,
        now: datetime,  # noqa: ARG002  # the port's
        within: timedelta,  # noqa: ARG002  # the port's
        known: Mapping[str, datetime] | None = None,
    ) -> Mapping[str, PoolReadings]:
        cause = self._outage()
        lacks = {pool.name: cause or self._prometheus.lacks(pool, policy.trust.stale_after) for pool in policy.pools}
        self._run.unread = {name: why for name, why in lacks.items() if why}
        if cause:
            return {pool.name: _nothing(pool, cause) for pool in policy.pools}
        return {pool.name: self._prometheus.readings(pool, (known or {}).get(pool.name)) for pool in policy.pools}


def _nothing(pool: Pool, cause: str) -> PoolReadings:
    missing = Missing(cause)
    return PoolReadings(
        cpu=missing, memory=missing, nodes=missing, custom=dict.fromkeys(pool.readings, missing), idle={}
    )


def _mean(shares: Iterable[float]) -> float | None:
    values = list(shares)
    return _PERCENT * fsum(values) / len(values) if values else None
