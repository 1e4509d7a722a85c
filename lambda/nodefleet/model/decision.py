"""A decision with everything that explains it, its stored record, and the events that operators are told of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, IntEnum, StrEnum
from typing import Any, assert_never

from nodefleet.model.alerts import AlertKind
from nodefleet.model.fleet import Count, Phase
from nodefleet.model.names import pluralize
from nodefleet.model.operations import SendAlert, Step
from nodefleet.model.state import Level, Memory

# ── executed actions ─────────────────────────────────────────────────────────────────────────────────────────────────
# A record for each step that had an effect, with the sentence that operators read of it.


class ActionKind(Enum):
    LAUNCH = "launch"
    START = "start"  # of warm instances
    CORDON = "cordon"
    UNCORDON = "uncordon"
    EVICT = "evict"
    FORCE_DELETE = "force-delete"
    TERMINATE = "terminate"
    KEEP_WARM = "keep-warm"  # stopped, to be started again
    DELETE_NODE = "delete-node"
    MARK_FAILED = "mark-failed"  # an instance that did not join is kept for an operator
    ASSIGN = "assign"  # a worker is handed to a pool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedAction:
    kind: ActionKind
    node: str = ""
    instance: str = ""
    instances: tuple[str, ...] = ()  # launch and start: what EC2 gave
    asked: int = 0  # launch and start: how many were asked for
    market: str = ""
    zone: str = ""
    pool: str = ""
    results: Mapping[str, int] = field(default_factory=dict)  # evict, force-delete: pods by what came of it
    reason: str = ""

    @property
    def targets(self) -> frozenset[str]:
        """Nodes and instances that it was done to."""
        return frozenset(filter(None, (self.node, self.instance, *self.instances)))

    def __str__(self) -> str:
        match self.kind:
            case ActionKind.LAUNCH:
                got = ", ".join(self.instances) or "none"
                return f"asked EC2 for {self.asked} {self.market} in {self.zone}: got {got}"
            case ActionKind.START:
                got = ", ".join(self.instances) or "none"
                return f"asked EC2 to start {self.asked} warm in {self.zone}: got {got}"
            case ActionKind.CORDON:
                return f"cordoned {self.node}"
            case ActionKind.UNCORDON:
                return f"let {self.node} back in"
            case ActionKind.EVICT:
                results = ", ".join(f"{count} {result}" for result, count in sorted(self.results.items()) if count)
                return f"evicted from {self.node}: {results}"
            case ActionKind.FORCE_DELETE:
                return f"deleted {pluralize(sum(self.results.values()), 'pod', 'pods')} on {self.node} by force"
            case ActionKind.TERMINATE:
                return f"terminated {self.instance}: {self.reason}"
            case ActionKind.KEEP_WARM:
                return f"stopped {self.instance} and keeps it warm: {self.reason}"
            case ActionKind.DELETE_NODE:
                return f"deleted node {self.node}"
            case ActionKind.MARK_FAILED:
                return f"marked {self.instance} as failed to join"
            case ActionKind.ASSIGN:
                return f"handed {self.node or self.instance} to pool {self.pool}"
            case _:
                assert_never(self.kind)


# ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────────────
# What was decided, and everything an operator needs to understand why.


class Rank(IntEnum):
    """Who outranks whom. Bounds are applied from the weakest rank to the strongest; a ceiling beats a floor."""

    SIGNAL = 1  # what readings and pods ask for
    DAMPING = 2  # cooldowns and steps
    WINDOW = 3  # what the schedule says: planned, so it does not wait for a cooldown
    OPERATOR = 4  # a scale command
    LIMIT = 5  # min, max, replacing what was lost
    SAFETY = 6  # pause, missing data, no launches before the API server was seen


class Side(Enum):
    FLOOR = "floor"
    CEILING = "ceiling"


class BoundSource(StrEnum):
    """Where a bound comes from. Windows and custom signals have a name of their own behind it: window:lunch."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"  # pods that wait
    PREDICTIVE = "predictive"
    ADAPTIVE = "adaptive"  # the forecast of the load, and the price of a violation
    CUSTOM = "custom"
    HEADROOM = "headroom"  # capacity that is kept free
    CALM = "calm"  # the floor that lets the fleet shrink
    KEEP = "keep"  # not every signal agrees that fewer would do
    PROJECTION = "projection"  # the nodes that remain would be too busy
    STEP = "step"
    COOLDOWN = "cooldown"
    COOLDOWN_DOWN = "cooldown-down"
    WINDOW = "window"
    OPERATOR = "person"
    MIN = "min"
    MAX = "max"
    FLEET_MAX = "fleet-max"
    FLEET_CAP = "fleet-cap"  # CPU, memory, GPUs or cost of all pools together
    REPLACE = "replace"  # workers that were lost
    RETIRE = "retire"  # workers that are to be replaced in good time
    LEVEL = "level"  # data is missing
    RECOVERY = "recovery"
    DOUBT = "doubt"
    HOLD = "hold"  # the policy cannot be followed
    PAUSE = "pause"
    PROBE = "probe"  # nodes did not join
    MARKET = "market"  # a Spot node takes the place of an On-Demand one

    def with_name(self, name: str) -> str:
        """As it is stored: window:lunch."""
        return f"{self.value}:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    side: Side
    nodes: int
    source: str  # a BoundSource, with a name of its own behind it where there can be several: cpu, window:lunch
    rank: Rank
    sentence: str
    expires: datetime | None = None

    @property
    def kind(self) -> BoundSource:
        return BoundSource(self.source.partition(":")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Overruled:
    """A bound that did not get what it asked for, and who saw to that."""

    bound: Bound
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    target: int
    by: Bound | None  # the bound that gave the target its value
    overruled: tuple[Overruled, ...]


def floor(nodes: int, source: str, rank: Rank, sentence: str, expires: datetime | None = None) -> Bound:
    return Bound(side=Side.FLOOR, nodes=nodes, source=str(source), rank=rank, sentence=sentence, expires=expires)


def ceiling(nodes: int, source: str, rank: Rank, sentence: str, expires: datetime | None = None) -> Bound:
    return Bound(side=Side.CEILING, nodes=nodes, source=str(source), rank=rank, sentence=sentence, expires=expires)


class Action(Enum):
    GROW = "grow"
    SHRINK = "shrink"
    HOLD = "hold"


class KeepReason(Enum):
    """Why a worker is not removed now."""

    NOT_ASKED = "not-asked"  # no bound asks for fewer nodes
    CHOSEN = "chosen"  # it is the one that leaves
    OUTRANKED = "outranked"  # another one goes first
    ONE_AT_A_TIME = "one-at-a-time"
    NOT_READY = "not-ready"  # booting, unhealthy or leaving: not a candidate
    CORDONED_BY_OPERATOR = "cordoned-by-person"
    OPTED_OUT = "opted-out"  # an annotation on the node
    POD_OPTED_OUT = "pod-opted-out"  # an annotation on a pod
    KUBE_SYSTEM = "kube-system"
    UNMANAGED_POD = "unmanaged-pod"
    LOCAL_DATA = "local-data"  # hostPath or a local volume
    BUDGET = "budget"  # a PodDisruptionBudget
    ONLY_STATEFUL_POD = "only-stateful-pod"
    SINGLE_REPLICA = "single-replica"
    NOT_WHOLE = "not-whole"  # replicas of an earlier removal are not ready again
    LAST_OF_ZONE = "last-of-zone"
    ON_DEMAND_BASE = "on-demand-base"  # without it EC2 could take every node
    NOWHERE_TO_GO = "nowhere-to-go"  # a pod fits on no other node, or may not
    BACKING_OFF = "backing-off"  # an earlier drain failed
    PODS_UNKNOWN = "pods-unknown"
    UNMEASURED = "unmeasured"  # no figures of it: its load is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptNode:
    worker: str
    phase: Phase
    reason: KeepReason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDecision:
    pool: str
    action: Action
    count: Count
    target: int
    reason: str  # one sentence with its figures
    bounds: tuple[Bound, ...] = ()
    overruled: tuple[Overruled, ...] = ()
    votes: tuple[str, ...] = ()  # what each signal said
    plan: tuple[Step, ...] = ()
    stays: tuple[KeptNode, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    at: datetime
    cluster: str
    level: Level
    pools: tuple[PoolDecision, ...]
    tells: tuple[SendAlert, ...] = ()  # what concerns the whole cluster
    plan: tuple[Step, ...] = ()  # what is done with workers that no pool owns
    memory: Memory
    look_again: str = ""  # why another iteration in a few seconds could change something; empty: it could not


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# What is kept in the table beside the working state: policy versions and the audit of decisions.


STACK = "stack"  # the source of a policy that the deployment declares
BUILT_IN = "built-in defaults"  # … of an empty cluster without a policy of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """A policy as it was written."""

    number: int  # 1, 2, …; 0: the stack declared it and it has not been taken up yet
    source: str  # "stack" or who applied it
    at: datetime
    data: Any  # plain, as a policy file holds it
    digest: str  # of the data


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """One iteration's decision, small enough to be kept for each. With the archived question it replays."""

    id: str  # sorts by time
    at: datetime
    cluster: str
    fence: int
    policy: int  # version number
    archived: str = ""  # where the question is kept; empty: nothing came of it, and `figures` are all there is
    decision: Decision  # without its memory; shortened when it is long, which `cut` says
    cut: bool = False
    outcome: str = ""  # digest of the whole decision: a replay must give the same
    did: tuple[str, ...] = ()  # what was done in this iteration, a sentence each, for operators
    actions: tuple[ExecutedAction, ...] = ()  # the same as records; none of before they were kept
    figures: Mapping[str, float] = field(default_factory=dict)
    dry: bool = False


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# What operators are told: one event for each thing that happened, with its figures and what to do about it.
#
# Events are stored with what they tell of, in one transaction; a message is made of each of them later and elsewhere,
# so that nothing here waits for a messenger.


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: str  # the same when the same thing is recorded twice
    at: datetime
    cluster: str
    kind: AlertKind
    pool: str = ""  # empty: the whole cluster
    subjects: tuple[str, ...] = ()  # what it is about: nodes, budgets, workloads, versions
    text: str  # what and why, with figures, and what to do
    nodes: int | None = None  # how many workers the pool has now
    change: int = 0  # nodes more or fewer
    usd_per_day: float | None = None  # what the change costs (+) or saves (-); none: not known
    details: tuple[str, ...] = ()  # what else was seen, a sentence each
    level: Level = Level.NORMAL
    dry: bool = False  # nothing was done: it would have been
