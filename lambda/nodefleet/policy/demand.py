"""How long a reading must last before it counts, and demand beyond CPU, memory and pods: custom signals (the five rules
that turn readings into nodes), the adaptive strategy, headroom, warm instances and the demand of a failed region."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal, TypeAlias

from nodefleet.policy.fields import NODES, PERCENT, SECONDS, describe, setting

_NAME = describe("stands in reasons, metrics and memory")
_SUSTAIN = describe("how long it must last; none takes the pool's")
_RUNNERS = "how many jobs a node works on at once"

# ── how long a reading lasts ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """So many new readings in a row. A gap or a reading on the other side starts again."""

    count: int = setting(2, "readings", "one reading may be a spike", at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Each breach counts 1 and loses half its weight every half-life; the sum must reach the threshold."""

    threshold: float = setting(2.0, "score", "about two fresh breaches", above=0)
    half_life: timedelta = setting(timedelta(seconds=240), SECONDS, "two readings ago still counts half", above=0)
    window: timedelta = setting(timedelta(seconds=600), SECONDS, "older breaches are forgotten", above=0)


Lasting: TypeAlias = Readings | Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustain:
    """How long a reading must stay beyond its limit before it counts."""

    up: Lasting = setting(Readings(count=2), "", "two readings are four minutes: a spike is over by then")
    down: Lasting = setting(Readings(count=5), "", "five readings are ten minutes: capacity is given back slowly")


def highest_score(lasting: Score, interval: timedelta) -> float:
    """What uninterrupted breaches can reach at most; a threshold above it never triggers."""
    readings = lasting.window // interval + 1
    kept = 0.5 ** (interval / lasting.half_life)  # of a breach's weight, one reading later
    return (1 - kept**readings) / (1 - kept) if kept < 1 else float(readings)


# ── what it asks for ─────────────────────────────────────────────────────────────────────────────────────────────


class Quantity(Enum):
    """What a threshold measures; it decides how far below the limit the fleet may shrink."""

    QUEUE = "queue"
    LATENCY = "latency"
    RATE = "rate"
    ERRORS = "errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One more node while a reading stays above its limit."""

    name: str = field(metadata=_NAME)
    reading: str = field(metadata=describe("which of the pool's readings"))
    quantity: Quantity = setting(Quantity.QUEUE, "", "decides the target and how far below it the fleet may shrink")
    limit: float | None = setting(None, "of the reading", "none takes the pool's target for this quantity", above=0)
    calm_percent: float | None = setting(
        None, PERCENT, "shrink at or below this share of the limit; none takes the pool's"
    )
    sustain: Sustain | None = field(default=None, metadata=_SUSTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAndLatency:
    """Workers that take jobs from a queue under a latency target."""

    name: str = field(metadata=_NAME)
    queue: str = field(metadata=describe("the reading that counts waiting jobs"))
    p95_ms: str = field(metadata=describe("the reading with the 95th percentile of latency, in ms"))
    busy: str = field(metadata=describe("the reading that counts workers with a job in hand"))
    queue_target: float | None = setting(None, "jobs", "none takes the pool's target", above=0)
    p95_target_ms: float | None = setting(None, "ms", "none takes the pool's target", above=0)
    calm_queue_percent: float = setting(30, PERCENT, "shrink when the queue is at most this share of its target")
    calm_p95_percent: float = setting(50, PERCENT, "… and the latency at most this share of its target")
    calm_busy_percent: float = setting(70, PERCENT, "… and at most this share of the workers is busy")
    step_up: int | None = setting(
        None, NODES, "a backlog grows while a node boots: none takes the pool's steps.urgent", at_least=1
    )
    step_down: int | None = setting(None, NODES, "none takes the pool's steps.down", at_least=1)
    runners_per_node: int = setting(1, "runners", _RUNNERS, at_least=1)
    sustain: Sustain | None = field(default=None, metadata=_SUSTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PerWorkerQueue:
    """One more worker when the queue is longer than so many jobs for each worker."""

    name: str = field(metadata=_NAME)
    queue: str = field(metadata=describe("the reading that counts waiting jobs"))
    per_worker: float = setting(5, "jobs", "five waiting jobs for each worker", above=0)
    calm_queue: float = setting(0, "jobs", "shrink only when nothing is left to do", at_least=0)
    idle_for: timedelta = setting(timedelta(seconds=300), SECONDS, "how long it must have been calm", at_least=0)
    runners_per_node: int = setting(1, "runners", _RUNNERS, at_least=1)
    sustain: Sustain | None = field(default=None, metadata=_SUSTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearTime:
    """As many workers as clear the queue within the target time, beside those that are running."""

    name: str = field(metadata=_NAME)
    queue: str = field(metadata=describe("the reading that counts waiting jobs"))
    running: str = field(metadata=describe("the reading that counts running jobs"))
    job_seconds: str = field(metadata=describe("the reading with the mean time of a job, in seconds"))
    peak: str | None = setting(
        None, "", "the reading with the highest worker count; none takes the highest that we had ourselves"
    )
    peak_days: int = setting(
        7, "days", "how long our own highest count is remembered: a week shows its rhythm", at_least=1, at_most=35
    )
    multiplier: str | None = setting(None, "", "the reading with a time-of-day pattern; 1.0 is normal")
    clear_within: timedelta = setting(timedelta(seconds=300), SECONDS, "a job waits five minutes at most", above=0)
    shortest_job: timedelta = setting(timedelta(seconds=60), SECONDS, "shorter means are noise", above=0)
    warm_percent: float = setting(10, PERCENT, "of the peak stays ready")
    shrink_below_percent: float = setting(70, PERCENT, "of the present count: a buffer against to and fro")
    shrink_after: timedelta = setting(timedelta(seconds=600), SECONDS, "how long it must have been so", at_least=0)
    runners_per_node: int = setting(1, "runners", _RUNNERS, at_least=1)
    sustain: Sustain | None = field(default=None, metadata=_SUSTAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDemand:
    """Runners for jobs that wait or run, with a dead zone between growing and shrinking."""

    name: str = field(metadata=_NAME)
    jobs: str = field(metadata=describe("the reading that counts jobs, queued and in progress"))
    runners_per_node: int = setting(1, "runners", _RUNNERS, at_least=1)
    grow_above: float = setting(1.5, "× capacity", "grow when there are clearly more jobs than runners", above=0)
    shrink_below: float = setting(0.25, "× capacity", "shrink when most runners are idle", at_least=0)
    grow_share: float = setting(
        0.5, "of the gap", "half the gap now, the rest when it is still there", above=0, at_most=1
    )
    shrink_share: float = setting(0.5, "of the excess", "half of what is too much", above=0, at_most=1)
    step_up: int = setting(2, NODES, "at most so many at once", at_least=1)
    step_down: int = setting(1, NODES, "at most so many at once", at_least=1)
    sustain: Sustain | None = field(default=None, metadata=_SUSTAIN)


DemandRule: TypeAlias = Threshold | QueueAndLatency | PerWorkerQueue | ClearTime | JobDemand


def readings_of(rule: DemandRule) -> tuple[tuple[str, str], ...]:
    """The fields of a rule that name readings, with the names: (("queue", "orders_waiting"), …)."""
    named: dict[str, str] = {}
    match rule:
        case Threshold():
            named = {"reading": rule.reading}
        case QueueAndLatency():
            named = {"queue": rule.queue, "p95_ms": rule.p95_ms, "busy": rule.busy}
        case PerWorkerQueue():
            named = {"queue": rule.queue}
        case ClearTime():
            named = {"queue": rule.queue, "running": rule.running, "job_seconds": rule.job_seconds}
            optional = {"peak": rule.peak, "multiplier": rule.multiplier}
            named |= {field: name for field, name in optional.items() if name is not None}
        case JobDemand():
            named = {"jobs": rule.jobs}
    return tuple(named.items())


# ── adaptive strategy ────────────────────────────────────────────────────────────────────────────────────────────────
# `strategy: adaptive`: nodes by a forecast of the load and the price of a violation.


Price: TypeAlias = Literal["frugal", "balanced", "careful"] | float

NODE_MINUTES: Mapping[str, float] = {"frugal": 25.0, "balanced": 65.0, "careful": 140.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A time at which more load than usual is expected: a sale, a match, a newsletter."""

    name: str = field(metadata=describe("stands in reasons"))
    at: datetime = field(metadata=describe("when it begins, with its offset: 2026-11-27T09:00:00+01:00"))
    multiple: float = field(metadata=describe("how many times the load that is usual at that time", above=0))
    lasting: timedelta = setting(timedelta(hours=1), SECONDS, "how long nodes are kept for it", above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Of no effect with `strategy: classic`."""

    price: Price = setting(
        "balanced",
        "node-minutes",
        "what a minute above `limit` is worth: frugal 25, balanced 65, careful 140, or a number, at `prices_for`",
        above=0,
    )
    prices_for: float = setting(
        5, "busy nodes", "load of the busiest hours up to which prices hold; above it they grow in proportion", above=0
    )
    price_growth: float = setting(
        1.75, "power", "`price` grows with that load to this power, so that the share of violations stays", at_least=1
    )
    limit: float = setting(85, PERCENT, "CPU above this is a violation: work begins to wait", above=0)
    join: timedelta = setting(timedelta(seconds=180), SECONDS, "from launch to the first work on a new node", above=0)
    waits: int = setting(2, "readings", "so many in a row must find a scale-down worth it", at_least=1)
    headroom: int = setting(0, NODES, "kept ready beyond the forecast, for rises that nothing announces", at_least=0)
    events: tuple[Announced, ...] = setting((), "", "times at which more load than usual is expected")

    @property
    def node_minutes(self) -> float:
        return NODE_MINUTES[self.price] if isinstance(self.price, str) else self.price


# ── headroom ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# `headroom`: capacity that is kept free, so that new pods start at once instead of waiting for a node to boot.


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Each amount is a requirement of its own; the same free capacity may meet several of them. All 0: none is kept."""

    nodes: int = setting(0, NODES, "so many nodes' worth of room on nodes that carry nothing else", at_least=0)
    pods: int = setting(0, "pods", "room for so many more pods of the size below", at_least=0)
    cpu: float = setting(0, "cores", "room for as many more pods as ask for so much CPU", at_least=0)
    memory: float = setting(0, "GiB", "room for as many more pods as ask for so much memory", at_least=0)
    percent: float = setting(0, PERCENT, "of what the pool's running pods ask for, as room for more of them")
    peak_percent: float = setting(
        0, PERCENT, "of the most nodes, spare ones aside, that the pool had in `peak_days`, as spare nodes", at_most=50
    )
    peak_days: int = setting(7, "days", "how long the highest count is remembered", at_least=1, at_most=35)
    pod_cpu: float | None = setting(
        None, "cores", "CPU of one pod that headroom is kept for; none takes the mean of the running pods", above=0
    )
    pod_memory: float | None = setting(
        None, "GiB", "memory of one pod that headroom is kept for; none takes the mean of the running pods", above=0
    )
    time_of_day: bool = setting(
        False, "", "true: × how much busier than the mean the coming hour was on the last days (predictive.min_days)"
    )
    least_times: float = setting(0.5, "× headroom", "the quietest hours keep this much of it", at_least=0, at_most=1)
    most_times: float = setting(2, "× headroom", "the busiest hours keep at most this much of it", at_least=1)

    @property
    def is_kept(self) -> bool:
        return any((self.nodes, self.pods, self.cpu, self.memory, self.percent, self.peak_percent))


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPool:
    """On-Demand workers that leave are stopped and kept, and started again before others are launched. Spot instances
    cannot be stopped, and are terminated as ever."""

    size: int = setting(
        0, NODES, "so many stopped instances at most; 0: every worker that leaves is terminated", at_least=0
    )
    max_age: timedelta = setting(
        timedelta(days=7),
        SECONDS,
        "since it was first launched: an older one is terminated, as its system lacks the updates of that time",
        above=0,
    )
    usd_per_month: float = setting(
        1.6,
        "USD",
        "of a stopped instance: its disk of 20 GB at 0.08 USD per GB and month; for the cost report",
        at_least=0,
    )


# ── standby ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# `standby`: this pool takes over the demand of a cluster in another region when that cluster is seen to fail.


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """Decided here alone: one of the pool's readings tells how the other cluster is, and a reading that cannot be had
    tells that it failed. The floor only adds capacity, so a wrong alarm costs nodes and takes nothing away."""

    origin: str | None = setting(None, "", "the cluster whose demand moves here when it fails; none: off")
    reading: str | None = setting(None, "", "the reading of this pool that tells how that cluster is")
    healthy: float = setting(1, "of the reading", "at least so much is healthy; less, or nothing to read, is failed")
    nodes: int = setting(0, NODES, "carry that cluster's demand; they come on top of what is here", at_least=0)
    after: timedelta = setting(
        timedelta(seconds=60),
        SECONDS,
        "it failed for so long: a tick, this and a node's start are 5 min",
        at_least=0,
    )
    samples: int = setting(3, "readings", "… and by so many readings: one may be the network's", at_least=1)
    lasting: timedelta = setting(
        timedelta(days=7), SECONDS, "a floor that no operator ends by `nodefleet failover --back` ends then", above=0
    )
