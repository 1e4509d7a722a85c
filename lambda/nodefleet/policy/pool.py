"""How one pool scales. Every pool has all of these; a policy that names none has one pool, `default`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from nodefleet.model.inventory import Taint
from nodefleet.policy.demand import Adaptive, DemandRule, Headroom, Standby, Sustain, WarmPool
from nodefleet.policy.fields import NODES, PERCENT, SECONDS, describe, setting
from nodefleet.policy.sources import Source

YEAR = 366 * 86400  # seconds
PAUSE = "to stop scaling for a while, use `nodefleet pause`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Workers only; the control plane is not counted."""

    min: int = setting(2, NODES, "one may fail and work goes on", at_least=0)
    max: int = setting(10, NODES, "a limit for the bill and the AWS quota", at_least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """Between the two the fleet keeps its size."""

    up: float = setting(70, PERCENT, "headroom for a spike while a new node boots")
    down: float = setting(30, PERCENT, "far from `up`, so that one node less does not call it back")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactive:
    """What the cluster feels right now."""

    cpu: Utilisation = field(default_factory=Utilisation)
    memory: Utilisation = field(default_factory=lambda: Utilisation(up=75, down=50))
    many_pods: int = setting(5, "pods", "more unschedulable pods than this are urgent", at_least=0)
    projection_margin: float = setting(
        10, "points", "after shrinking every reading stays so far below its growth threshold", at_least=0, at_most=100
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How many nodes at once."""

    up: int = setting(1, NODES, "normal growth", at_least=1, hint=PAUSE)
    urgent: int = setting(2, NODES, "many pods wait, or pods wait while the CPU is busy", at_least=1, hint=PAUSE)
    down: int = setting(1, NODES, "give back slowly", at_least=1, hint=PAUSE)
    pending: Literal["steps", "packing"] = setting(
        "steps",
        "",
        "pending pods: `steps` is `up` or `urgent` at a time and waits for the cooldown; `packing` is as many nodes as"
        " the pods would fill, at once: nodes that boot count, so nothing is bought twice",
    )
    pending_fill: Literal["tight", "queue"] = setting(
        "queue",
        "",
        "which plan counts: `tight` is the fewest nodes that hold the pods, and some may wait for a second purchase,"
        " because the scheduler takes pods as they come; `queue` adds the nodes that its order needs",
    )
    pending_spare: int = setting(
        3,
        NODES,
        "`queue`: added at most so that all pods run also in other orders of pods and nodes, and where nodes come"
        " in one moment; an order that takes more adds none, for a second purchase is cheaper",
        at_least=0,
    )
    pending_sure: float = setting(
        95, PERCENT, "`queue`: spare nodes are added until all pods run in so many of the orders that are tried"
    )
    pending_excess: float = setting(
        10,
        PERCENT,
        "`queue`: of a large plan, added at most for the order of the queue; what more it would take is left to a"
        " second purchase, which buys for the pods that really wait. A small plan may grow by `pending_spare` in all",
        at_least=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """How long scaling waits after scaling, by direction."""

    up: timedelta = setting(timedelta(seconds=300), SECONDS, "after growing: let new nodes take load", at_least=0)
    down: timedelta = setting(timedelta(seconds=600), SECONDS, "shrinking waits this after any scaling", at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictive:
    """Looks at the coming hour in the profile of the last days."""

    enabled: bool = setting(True, "", "abstains by itself until there is enough history")
    history_days: int = setting(
        7, "days", "a week shows its rhythm; 28 tell each weekday apart", at_least=1, at_most=35
    )
    min_days: int = setting(3, "days", "fewer days of that hour are an anecdote", at_least=1)
    from_minute: int = setting(50, "minute", "a node needs some minutes to be ready", at_least=0, at_most=59)
    step: int = setting(1, NODES, "one more node for the coming hour", at_least=1, hint="set enabled: false instead")
    sizing: Literal["step", "forecast"] = setting(
        "step",
        "",
        "step: `step` more nodes, whatever is predicted; forecast: as many as bring the predicted CPU to the limit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What demand rules aim at when they do not say it themselves."""

    queue: float = setting(100, "jobs", "a queue longer than this is a backlog", above=0)
    queue_growth: float = setting(
        5, "jobs/s", "a queue that grows faster is not worked off: an alarm, no nodes", above=0
    )
    p95_ms: float = setting(500, "ms", "what a visitor accepts", above=0)
    rate: float = setting(1000, "requests/s", "what the present fleet is meant for", above=0)
    errors_percent: float = setting(5, PERCENT, "of requests; more is an outage for someone")
    calm_queue_percent: float = setting(30, PERCENT, "shrink when a queue is at most this share of its target")
    calm_percent: float = setting(50, PERCENT, "the same for latency, rate and errors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benefit:
    """A signal that keeps asking though new nodes change nothing loses its vote until it clears."""

    custom: int = setting(3, "growths", "a slow database must not buy nodes to the limit; 0 never", at_least=0)
    memory: int = setting(3, "growths", "each new node may fill itself; 0 never", at_least=0)
    cpu: int = setting(0, "growths", "never: a saturated CPU cannot show that it was helped", at_least=0)
    pods: int = setting(
        1,
        "growths",
        "new nodes that turn out not to take a class of pods will not take it next time; 0 never",
        at_least=0,
    )
    refused_after: timedelta = setting(
        timedelta(seconds=600),
        SECONDS,
        "a ready node has room and the scheduler refuses: it tries everything again after five minutes, so twice that",
        above=0,
    )
    retry_first: timedelta = setting(
        timedelta(seconds=900), SECONDS, "pods without a vote: after this one of them asks again, doubling", above=0
    )
    retry_longest: timedelta = setting(
        timedelta(seconds=14400), SECONDS, "longest time that pods have no vote at a stretch", above=0
    )
    classes: int = setting(
        300, "classes", "of pending pods that are remembered, muted ones first: 50 KB of a record's 400", at_least=1
    )
    improvement_percent: float = setting(5, PERCENT, "a reading that falls by less did not improve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A recurring time with its own bounds: from each match of `cron`, for `lasting`."""

    name: str = field(metadata=describe("stands in reasons"))
    cron: str = field(metadata=describe("when it opens: minute hour day-of-month month day-of-week"))
    lasting: timedelta = field(metadata=describe("how long it stays open", unit=SECONDS, above=0, at_most=YEAR))
    time_zone: str | None = setting(None, "", "none takes the policy's")
    min: int | None = setting(None, NODES, "at least so many during the window", at_least=0)
    max: int | None = setting(None, NODES, "at most so many during the window", at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketMix:
    """What is bought: Spot and On-Demand, and which instance types."""

    spot_percent: float = setting(70, PERCENT, "cheap; the rest keeps running when Spot is taken")
    on_demand_base: int = setting(1, NODES, "one node that EC2 does not take", at_least=0)
    max_price_usd: float = setting(
        0.02, "USD/h", "no more than about On-Demand", above=0, hint="for On-Demand only set spot_percent: 0"
    )
    types: tuple[str, ...] = setting(
        ("t3.small", "t3a.small", "t2.small"), "", "several, so that one may be out of capacity"
    )
    memory_overhead_percent: float = setting(
        7,
        PERCENT,
        "of a type's memory is kept by kernel, kubelet and system: 4,096 MiB leave about 3,850 for pods; counts until a"
        " node of the type has joined",
    )
    disk_overhead_percent: float = setting(
        10,
        PERCENT,
        "of the launch template's disk pods cannot use: the file system's own share, and 5 % below which K3s evicts;"
        " counts until a node of the type has joined",
    )
    remember_shortage: timedelta = setting(
        timedelta(seconds=600), SECONDS, "what lacked capacity is not asked again at once", at_least=0
    )
    rebalance_after: timedelta = setting(
        timedelta(seconds=1800),
        SECONDS,
        "On-Demand above its share is replaced by Spot, one at a time, so long after the last change; 0 never",
        at_least=0,
    )
    rebalance_longest: timedelta = setting(
        timedelta(seconds=115200),
        SECONDS,
        "the pause doubles after each swap in which no On-Demand node could leave: at most to this, six doublings",
        at_least=0,
    )
    rebalance_drains: int = setting(
        3,
        "drains",
        "so many drain_timeouts after its Spot node had to be ready a swap is given up: one, and two other nodes",
        at_least=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """When a node counts as failed, and what happens when many do."""

    join_limit: timedelta = setting(timedelta(seconds=300), SECONDS, "a node that joins later has a problem", above=0)
    device_limit: timedelta = setting(
        timedelta(seconds=300),
        SECONDS,
        "so long after it is ready a node may lack the GPUs of its type: its device plugin starts; then it has none",
        at_least=0,
    )
    not_ready_limit: timedelta = setting(timedelta(seconds=300), SECONDS, "longer is not a hiccup", above=0)
    silent_limit: timedelta = setting(
        timedelta(seconds=90), SECONDS, "no heartbeat for so long, and not ready: it does not come back soon", above=0
    )
    heartbeat_grace: timedelta = setting(
        timedelta(seconds=40),
        SECONDS,
        "after so long without a heartbeat the control plane calls a node not ready (node-monitor-grace-period)",
        at_least=0,
    )
    pressure_limit: timedelta = setting(
        timedelta(seconds=600), SECONDS, "memory, disk or PID pressure for so long does not end by itself", above=0
    )
    crash_percent: float = setting(
        80,
        PERCENT,
        "of a node's pods crash in a loop, and others of their workloads run elsewhere: it is the node",
        above=0,
    )
    crash_pods: int = setting(3, "pods", "fewer crashing pods say nothing about their node", at_least=1)
    crash_restarts: int = setting(5, "restarts", "about five minutes of crashing", at_least=1)
    sick_one_in: int = setting(
        3, NODES, "one of them may be unhealthy, and always one; more at once is the master or the network", at_least=1
    )
    brake_limit: timedelta = setting(
        timedelta(seconds=900),
        SECONDS,
        "so long none of many unhealthy nodes is replaced, then one at a time",
        at_least=0,
    )
    failed_joins: int = setting(2, "joins", "then launches become single probes", at_least=1)
    probe_first: timedelta = setting(timedelta(seconds=60), SECONDS, "first pause between probes, doubling", above=0)
    probe_longest: timedelta = setting(timedelta(seconds=600), SECONDS, "longest pause between probes", above=0)
    keep_failed: int = setting(1, NODES, "for an operator to look at; counts against max", at_least=0)
    rejoin_limit: timedelta = setting(
        timedelta(seconds=600),
        SECONDS,
        "an instance whose Node was deleted by hand may join again so long, then it is terminated",
        at_least=0,
    )
    stopped_limit: timedelta = setting(
        timedelta(seconds=3600),
        SECONDS,
        "an instance that was stopped by hand may be started again so long, then it is terminated",
        at_least=0,
    )
    scheduled_change_lead: timedelta = setting(
        timedelta(hours=1),
        SECONDS,
        "a scheduled change is a voluntary removal until so long before its time, and an interruption from then on",
        at_least=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRules:
    """How a node is emptied before it goes, and what protects it."""

    drain_timeout: timedelta = setting(timedelta(seconds=300), SECONDS, "then the node is uncordoned", above=0)
    stuck_after: timedelta = setting(
        timedelta(seconds=10),
        SECONDS,
        "pods terminating this long past their grace are no longer waited for",
        at_least=0,
    )
    force_after: timedelta = setting(
        timedelta(seconds=90), SECONDS, "after a two-minute notice: what is left is deleted by force", at_least=0
    )
    notice: timedelta = setting(timedelta(seconds=120), SECONDS, "what EC2 gives before it takes a Spot node", above=0)
    false_alarm_after: timedelta = setting(
        timedelta(seconds=1200), SECONDS, "EC2 said it takes a node, and did not so long after: uncordoned", above=0
    )
    settle: timedelta = setting(
        timedelta(seconds=600),
        SECONDS,
        "so long after a removal no other begins that takes replicas of a workload which is not whole again",
        at_least=0,
    )
    keep_single_replicas: bool = setting(False, "", "true: a workload with one replica protects its node")
    kube_system: bool = setting(True, "", "kube-system pods without a budget protect their node")
    retry_first: timedelta = setting(timedelta(seconds=600), SECONDS, "pause after a failed drain, doubling", above=0)
    retry_longest: timedelta = setting(timedelta(seconds=7200), SECONDS, "longest pause after failed drains", above=0)
    drain_on_rebalance: bool = setting(False, "", "a rebalance recommendation is often not followed by anything")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Ready workers give way to new ones: when they are old, or no longer what the pool would launch."""

    max_age: timedelta = setting(
        timedelta(0), SECONDS, "0 never; a worker gets its system's updates by being replaced", at_least=0, at_most=YEAR
    )
    spread_percent: float = setting(
        20, PERCENT, "of max_age: each worker is due earlier by its own part of it, so one launch is not due at once"
    )
    drift: bool = setting(
        False,
        "",
        "true: other launch template or version (and so another image), or a type that the pool does not name",
    )
    window: str | None = setting(
        None, "", "one of the pool's `windows`, by name: workers are rotated only while it is open; none: at any time"
    )
    retry_longest: timedelta = setting(
        timedelta(days=1),
        SECONDS,
        "the pause doubles after each new node for which no worker could leave, from removal.retry_first up to this",
        above=0,
    )
    alert_after: timedelta = setting(
        timedelta(days=8), SECONDS, "workers are due and none could be replaced: a weekly window came by then", above=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """Nodes that are under-used by what pods ask for: removed, or replaced by a cheaper one."""

    mode: Literal["off", "empty", "underutilised"] = setting(
        "empty",
        "",
        "`off`: never; `empty`: nodes without pods to move whose CPU is idle; `underutilised`: every node whose pods"
        " fit on others, or on a cheaper type",
    )
    after: timedelta = setting(
        timedelta(seconds=600), SECONDS, "nodes came or went: so long after it the pods have settled", at_least=0
    )
    min_age: timedelta = setting(timedelta(seconds=600), SECONDS, "a younger node may still be filled", at_least=0)
    idle_percent: float = setting(
        90, PERCENT, "an empty node's CPU is idle at least so much: what works on it without pods keeps it"
    )
    savings_percent: float = setting(
        15, PERCENT, "a cheaper node must cost so much less than what it replaces: moving pods has its price"
    )
    nodes_for_one: int = setting(
        1,
        NODES,
        "`underutilised`: so many nodes at most give way to one cheaper node; it pays only where the pool's types"
        " differ in price for what they hold",
        at_least=1,
    )
    window: str | None = setting(
        None, "", "one of the pool's `windows`, by name: only while it is open; none: at any time"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """How much may be under way at once."""

    removals: int = setting(1, NODES, "voluntary removals at a time", at_least=1, hint=PAUSE)
    sick: int = setting(1, NODES, "unhealthy nodes replaced at a time", at_least=1)
    cleanup_percent: float = setting(20, PERCENT, "of the fleet; more orphans than this are for an operator")
    cleanup_least: int = setting(1, NODES, "so many orphans are always cleaned up", at_least=0)
    cleanup_after: timedelta = setting(
        timedelta(seconds=120),
        SECONDS,
        "two observations so far apart must agree before something is destroyed, or an unlisted instance makes room",
        at_least=0,
    )


_UP = 'up{job="node",role="worker",pool="$pool"} == 1'
_ALL_TIME = f'rate(node_cpu_seconds_total{{role="worker",pool="$pool"}}[5m]) and on (node) {_UP}'
_IDLE_TIME = f'rate(node_cpu_seconds_total{{mode="idle",role="worker",pool="$pool"}}[5m]) and on (node) {_UP}'
_ALL_NOW = _ALL_TIME.replace("[5m]", "[2m]")
_IDLE_NOW = _IDLE_TIME.replace("[5m]", "[2m]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """PromQL for this pool's workers. `$pool` stands for the pool's name.

    CPU is a share of the time of all modes. A rate over some minutes is too low for a node that is younger than that,
    idle time and all time alike: against the clock a new node would read busy and call for the next one. And it goes
    on for as long after a node has died or left, so only those count that answer now. A rate needs two scrapes: two
    minutes have them if Prometheus scrapes every 60 s or more often; where they have none, five minutes count.
    """

    cpu: str = setting(
        f"100 * (1 - sum({_IDLE_NOW}) / sum({_ALL_NOW})) or 100 * (1 - sum({_IDLE_TIME}) / sum({_ALL_TIME}))",
        "",
        "mean CPU of the workers, in percent; of two minutes, or of five where scrapes are too rare for two",
    )
    memory: str = setting(
        (
            '100 * (1 - avg(node_memory_MemAvailable_bytes{role="worker",pool="$pool"}'
            ' / node_memory_MemTotal_bytes{role="worker",pool="$pool"}))'
        ),
        "",
        "mean memory of the workers, in percent",
    )
    nodes: str = setting(f"count({_UP})", "", "workers that Prometheus sees")
    load: str = setting(
        f"count({_UP}) * (1 - sum({_IDLE_NOW}) / sum({_ALL_NOW}))",
        "",
        "busy workers: what `strategy: adaptive` learns from, minute by minute; two minutes, because five hide a rise",
    )
    idle: str = setting(
        f"100 * sum by (node) ({_IDLE_TIME}) / sum by (node) ({_ALL_TIME})",
        "",
        "CPU idle percent by node: the idlest leaves first",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One group of workers that scales by itself."""

    name: str = setting("default", "", "stands in tags, node labels, metrics and messages")
    priority: int = setting(0, "", "under a limit of the whole fleet, pools of higher priority come first")
    limits: Limits = field(default_factory=Limits)
    reactive: Reactive = field(default_factory=Reactive)
    sustain: Sustain = field(default_factory=Sustain)
    steps: Steps = field(default_factory=Steps)
    cooldown: Cooldown = field(default_factory=Cooldown)
    strategy: Literal["classic", "adaptive"] = setting(
        "classic",
        "",
        "classic: steps of a few nodes, by thresholds; adaptive: as many as a forecast of the load is worth, at once",
    )
    adaptive: Adaptive = field(default_factory=Adaptive)
    predictive: Predictive = field(default_factory=Predictive)
    headroom: Headroom = field(default_factory=Headroom)
    warm: WarmPool = field(default_factory=WarmPool)
    standby: Standby = field(default_factory=Standby)
    targets: Targets = field(default_factory=Targets)
    readings: Mapping[str, Source] = field(default_factory=dict, metadata=describe("your own readings, by name"))
    custom: tuple[DemandRule, ...] = setting((), "", "rules that turn your readings into nodes; off until named")
    benefit: Benefit = field(default_factory=Benefit)
    windows: tuple[Window, ...] = setting((), "", "recurring times with their own min or max")
    market: MarketMix = field(default_factory=MarketMix)
    health: Health = field(default_factory=Health)
    removal: RemovalRules = field(default_factory=RemovalRules)
    budgets: Budgets = field(default_factory=Budgets)
    rotation: Rotation = field(default_factory=Rotation)
    consolidation: Consolidation = field(default_factory=Consolidation)
    queries: Queries = field(default_factory=Queries)
    labels: Mapping[str, str] = field(
        default_factory=dict, metadata=describe("node labels of this pool's workers, beside our own")
    )
    taints: tuple[Taint, ...] = setting((), "", "node taints of this pool's workers")
    dry_run: bool = setting(False, "", "decide and tell, but change nothing in this pool")

    @property
    def is_adaptive(self) -> bool:
        return self.strategy == "adaptive"
