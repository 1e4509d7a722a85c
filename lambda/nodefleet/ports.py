"""What the loop needs of the world, in its own words. Adapters give it, and so does the simulation.

Every call may raise UnavailableError or DeniedError (see errors) unless it says otherwise, and each is safe to
repeat. Only what the loop decides on passes here: no part of these decides anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Protocol

from nodefleet.model.decision import Decision, DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Instance, InstanceType, Node, Notice
from nodefleet.model.names import Metric
from nodefleet.model.operations import Cordon, Launch, Operation, PodRef, Refusal
from nodefleet.model.snapshot import (
    ActiveWindow,
    ClusterView,
    Command,
    Deployment,
    KnownPrices,
    PoolReadings,
    TuningResult,
)
from nodefleet.model.state import LoopState, Usage
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import BucketRules, Policy, RequestKind

# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Time(Protocol):
    def now(self) -> datetime: ...

    def remaining(self) -> timedelta:
        """Until this run is stopped from outside."""
        ...

    def sleep(self, duration: timedelta) -> None: ...


class Concurrency(Protocol):
    """Does several independent things at once and gives their results in order; each result is a value or an error."""

    def __call__(self, *calls: Callable[[], Any]) -> list[Any]: ...


# ── EC2 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """What EC2 said to a launch. Fewer instances than asked for is normal."""

    instances: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()


class RequestBudget(Protocol):
    """Requests to EC2, counted for all clusters of the deployment together."""

    def take(self, kind: RequestKind, rules: BucketRules, now: datetime) -> timedelta:
        """Count one request; otherwise nothing is counted, and the time is told until one may be sent."""
        ...

    def drain(self, kind: RequestKind, now: datetime) -> None:
        """EC2 refused one: as if the budget were used up now."""
        ...


class Cloud(Protocol):
    def instances(self) -> tuple[Instance, ...]:
        """All instances that carry the cluster's tag, control plane and recently terminated ones included. All pages,
        or an error: a list with a gap would look like lost instances."""
        ...

    def instance(self, identity: str) -> Instance | None:
        """One of the cluster's instances as it is now; none if EC2 does not know it or it is not the cluster's."""
        ...

    def catalog(self, types: Sequence[str]) -> tuple[InstanceType, ...]:
        """What these types offer and cost. Kept for hours."""
        ...

    def launch(self, launch: Launch) -> LaunchResult:
        """Send the frozen request with its token. The same launch sent again gives the same instances.

        What EC2 refuses for good is in the answer; an error means that the answer is not known."""
        ...

    def start_warm(self, launch: Launch) -> LaunchResult:
        """Start the warm instances that the launch names. Those that run already are in the answer too, so a lost
        answer is had by sending it again; refusals and errors are as of a launch."""
        ...

    def terminate(self, instance: str) -> None: ...

    def keep_warm(self, instance: str) -> bool:
        """Tag it as warm, and stop it. False: EC2 cannot stop this instance."""
        ...

    def mark_failed(self, instance: str) -> None:
        """Tag it as failed to join."""
        ...

    def assign(self, instance: str, pool: str) -> None:
        """Tag it as a worker of this pool."""
        ...


# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────────


class Eviction(Enum):
    EVICTED = "evicted"
    GONE = "gone"  # not there any more, or another pod has its name
    REFUSED = "refused"  # a budget says no for now
    SEVERAL_BUDGETS = "several-budgets"  # Kubernetes evicts no pod that several budgets cover
    WAITS = "waits"  # its namespace is being deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionOutcome:
    result: Eviction
    detail: str = ""  # the API server's own words


class Cluster(Protocol):
    def view(self) -> ClusterView:
        """Nodes, pods and budgets: complete, or an error."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, without anything that runs on them."""
        ...

    def node(self, name: str) -> Node | None:
        """One node as it is now."""
        ...

    def pods_on(self, node: str, *, brief: bool = False) -> tuple[Pod, ...]:
        """The pods of one node as they are now. `brief`: without what only lists of the whole cluster tell, that is
        whether their controllers still exist and where their volumes are."""
        ...

    def cordon(self, cordon: Cordon, instance: str) -> None:
        """Unschedulable, tainted and annotated in one patch. ChangedError if it is not `instance`'s node any more, not
        a worker, or cordoned by an operator. A cordon of our own is overwritten."""
        ...

    def uncordon(self, node: str, removal: str) -> None:
        """Take off the cordon if it is this removal's; otherwise nothing happens."""
        ...

    def assign(self, node: str, instance: str, pool: str) -> None:
        """Label it as a node of this pool. ChangedError if it is not `instance`'s node any more, or not a worker."""
        ...

    def evict(self, pod: PodRef) -> EvictionOutcome: ...

    def delete_pod(self, pod: PodRef) -> None:
        """By force: no grace, no budget. Only the pod with this uid."""
        ...

    def delete_node(self, node: str, instance: str) -> None:
        """Delete the Node object. ChangedError if it belongs to another instance by now, or is ready."""
        ...

    def note(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        """An Event on the Node, for `kubectl describe node`. The same one again only counts up."""
        ...


# ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────────


class MetricSources(Protocol):
    def read(
        self, policy: Policy, now: datetime, within: timedelta, known: Mapping[str, datetime] | None = None
    ) -> Mapping[str, PoolReadings]:
        """All readings of all pools, by pool. Never raises: what could not be read is Missing with its cause.
        `known`: up to when the load of a pool is known; of one that is not there, the whole history is asked for."""
        ...


# ── state ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    owner: str
    fence: int  # only grows
    expires: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHeld:
    """Another run has the lease."""

    owner: str
    expires: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything in the table that an iteration needs, read at one go and consistently."""

    fence: int = 0  # of the lease
    wake: int = 0  # how many urgent runs have come so far
    journal: LoopState = field(default_factory=LoopState)
    operations: tuple[Operation, ...] = ()
    notices: tuple[Notice, ...] = ()
    commands: tuple[Command, ...] = ()
    policy: PolicyVersion | None = None  # in force
    declared: PolicyVersion | None = None  # what the stack says it should be
    deployment: Deployment | None = None
    prices: KnownPrices | None = None
    tuned: tuple[TuningResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is written together or not at all."""

    journal: LoopState | None = None
    seed: Mapping[str, Any] = field(default_factory=dict)  # last_scale_time, last_scale_action, node_count
    put: tuple[Operation, ...] = ()
    drop: tuple[str, ...] = ()  # operations by id
    events: tuple[Event, ...] = ()
    decision: DecisionRecord | None = None
    retire: tuple[Notice, ...] = ()
    expired: tuple[Command, ...] = ()
    ordered: tuple[Command, ...] = ()  # by the loop itself; an operator's of the same kind and pool stays
    usage: tuple[Usage, ...] = ()  # hours that are over
    policy: PolicyVersion | None = None  # a new version, in force from now on


class Store(Protocol):
    """One cluster's records."""

    def wake(self) -> None:
        """An urgent run came: the lease's holder starts another iteration before it releases."""
        ...

    def wakes(self) -> int:
        """How often an urgent run came so far: a pausing run compares it with the count that its iteration saw."""
        ...

    def free_fence(self) -> int | None:
        """The lease's fence while no run holds it; None while one does. A lease that is acquired later with the next
        fence proves that no other run held it in between."""
        ...

    def acquire(self, owner: str, now: datetime, until: datetime, skew: timedelta) -> Lease | LeaseHeld:
        """The lease, if it is free or expired for longer than `skew`."""
        ...

    def release(self, lease: Lease, wake: int | None) -> bool:
        """Release. False, and not released, if an urgent run came since `wake`; none releases whatever came."""
        ...

    def state(self) -> State: ...

    def commit(self, lease: Lease, changes: Changes) -> None:
        """All of it or nothing, and only while the lease is ours; LostLeaseError otherwise. ChangedError if another
        writer made the new policy's number meanwhile."""
        ...

    def record(self, notice: Notice) -> None:
        """Append what EC2 said. Needs no lease."""
        ...

    def order(self, command: Command, event: Event) -> None:
        """What an operator wants from now on. It takes the place of the same kind of command for the same pool."""
        ...

    def withdraw(self, command: Command, event: Event) -> None: ...

    def tell(self, event: Event) -> None:
        """Append an event that comes from nowhere else, such as the weekly report. Once, by its id."""
        ...


class History(Protocol):
    """What was recorded earlier, newest first. For operators, not for the loop."""

    def decisions(self, limit: int, before: datetime | None = None) -> tuple[DecisionRecord, ...]: ...

    def events(self, since: datetime, until: datetime) -> tuple[Event, ...]: ...

    def usage(self, since: datetime, until: datetime) -> tuple[Usage, ...]: ...

    def policies(self) -> tuple[PolicyVersion, ...]: ...

    def apply(self, version: PolicyVersion, event: Event) -> None:
        """Put a new policy version in force; ChangedError if another writer made that number meanwhile."""
        ...


class Archive(Protocol):
    """Big things, by their name."""

    def keep(self, key: str, content: bytes) -> None: ...

    def fetch(self, key: str) -> bytes:
        """ChangedError if it is not there any more."""
        ...


# ── policy and operators ─────────────────────────────────────────────────────────────────────────────────────────


class Policies(Protocol):
    """What needs a library to understand a policy. Never raises UnavailableError."""

    def read(self, data: Any) -> Policy:
        """The policy that a file's content stands for; RefusedError with every problem otherwise."""
        ...

    def salvage(self, data: Any) -> Policy:
        """What can be used of a content that `read` refuses, to hold a fleet by. Never raises."""
        ...

    def windows(self, policy: Policy, now: datetime) -> tuple[ActiveWindow, ...]: ...

    def utc_offset(self, policy: Policy, now: datetime) -> timedelta: ...


class Telemetry(Protocol):
    """What alarms and readers of logs see. Never raises."""

    def metric(self, metric: Metric, value: float) -> None: ...

    def line(self, message: str, **fields: Any) -> None: ...

    def warn(self, message: str, **fields: Any) -> None: ...

    def calls(self) -> int:
        """How many calls to AWS and Kubernetes were made so far in this run."""
        ...


# ── runtime ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Everything that one cluster's run works with. All of it can be replaced, one by one.


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    cluster_id: str
    time: Time
    store: Store
    history: History
    cloud: Cloud
    cluster: Cluster
    gauges: MetricSources
    archive: Archive
    policies: Policies
    telemetry: Telemetry
    together: Concurrency
    requests: RequestBudget | None = None  # none: requests are not counted, such as an operator's own


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The outcome of a run."""

    held: LeaseHeld | None = None  # another run holds the lease: this one did nothing
    iterations: int = 0
    decision: Decision | None = None  # the last one
    did: tuple[str, ...] = ()
    awake: bool = False  # a wake-up or a due iteration is left to the next run: this one had no time for it
