"""What is under way. Each operation is stored before its first effect, so a run that dies is carried on by the next."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import ClassVar, TypeAlias

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Instance, Market, NoticeKind


class Purpose(Enum):
    """Why nodes are launched. Only growing starts a cooldown."""

    GROW = "grow"
    RESTORE = "restore"  # min, or a node that was lost
    MARKET = "market"  # Spot in the place of On-Demand that is above its share


class RefusalKind(Enum):
    """Why EC2 did not give a type, sorted by who can do something about it."""

    CAPACITY = "capacity"  # EC2 has none, or not at our price: another type, zone or market may
    QUOTA = "quota"  # the account may not have more: an operator asks AWS for a higher quota
    PERMISSION = "permission"  # our role may not: an operator fixes the role
    INVALID = "invalid"  # the request can never work: an operator fixes the template, the subnet or the policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One instance type that a launch did not get in its zone and market."""

    type: str
    kind: RefusalKind = RefusalKind.CAPACITY
    code: str = ""  # EC2's own word for it
    remedy: str = ""  # what an operator can do; empty: what is generally done about this kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One CreateFleet request, frozen: it is sent again byte for byte until its answer is known."""

    id: str
    pool: str
    zone: str
    market: Market
    types: tuple[str, ...]
    count: int
    template: str
    template_version: str  # a number, not $Latest: what is sent again must be the same
    subnet: str
    max_price_usd: float | None = None
    starts: tuple[str, ...] = ()  # warm instances to start instead: then EC2 is asked to start them, and for no fleet
    purpose: Purpose = Purpose.GROW
    reason: str
    started: datetime
    deadline: datetime  # it is not sent any more after this
    answered: bool = False  # EC2 answered: what it gave is all there will be
    instances: tuple[str, ...] = ()  # what EC2 said it launched
    refusals: tuple[Refusal, ...] = ()  # types that EC2 did not give in this zone and market
    answered_at: datetime | None = None
    learned: bool = False  # what lacked capacity has been said
    joined: tuple[str, ...] = ()  # instances that became ready nodes
    lost: tuple[str, ...] = ()  # instances that did not
    marking_since: datetime | None = None  # since when instances are tried to be marked as failed to join
    silent: timedelta = timedelta(0)  # how long the API server has not answered so far
    silent_since: datetime | None = None  # it does not answer now
    attempts: int = 0

    @property
    def token(self) -> str:
        """The ClientToken: EC2 takes 64 characters, and an id may be longer."""
        return sha256(self.id.encode()).hexdigest()

    @property
    def expected(self) -> int:
        """How many instances it may have created: those of EC2's answer, or all requested while it is unanswered."""
        return len(self.instances) if self.answered else self.count


class RemovalReason(Enum):
    VOLUNTARY = "voluntary"
    INTERRUPTED = "interrupted"
    UNHEALTHY = "sick"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A worker on its way out: cordoned, drained, terminated, forgotten, or uncordoned."""

    id: str
    pool: str
    instance: str
    node: str = ""  # empty: it never joined
    why: RemovalReason
    reason: str
    started: datetime
    deadline: datetime  # voluntary: give up; interrupted: when EC2 takes it
    force_from: datetime | None = None  # interrupted: pods are deleted by force from here
    cordoned: bool = False  # our cordon has been seen on the node
    uncordoned_since: datetime | None = None  # and is not seen any more: believed after a second observation
    evicting: bool = False  # the first eviction was asked for
    terminating: bool = False  # EC2 was asked to terminate it
    asked_at: datetime | None = None  # when that was first asked
    unlisted_since: datetime | None = (
        None  # EC2 does not list the instance: it is believed gone after a second observation
    )
    undeleted_since: datetime | None = None  # the instance is gone, and its Node was first to be deleted then
    readmitting_since: datetime | None = None  # its cordon was first to be taken off then, and is still on
    forced: bool = False  # operators were told that pods are deleted by force
    cancelled: str = ""  # a reason: it is uncordoned
    consolidates: bool = False  # voluntary: pods' requests leave it under-used
    saves_usd: float | None = None  # an hour, by consolidation, with what takes its place
    keeps: bool = False  # voluntary: stopped and kept warm, not terminated
    rotated: bool = False  # voluntary: a new worker takes its place, for age, drift or an operator's request
    notice: NoticeKind | None = None  # voluntary: what EC2 announced or recommends; withdrawn, it is uncordoned
    silent: timedelta = timedelta(0)  # how long the API server has not answered so far
    silent_since: datetime | None = None  # it does not answer now
    attempts: int = 0


class OrphanKind(Enum):
    NODE = "node"  # a Node object whose instance is gone
    INSTANCE = "instance"  # an instance that failed to join and is not kept, or that no pool owns


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    """Something orphaned. Destroyed only after a second observation agreed with the first."""

    id: str
    pool: str
    debris: OrphanKind
    target: str  # node name or instance id: always explicit
    reason: str
    first_seen: datetime
    started: datetime
    deadline: datetime
    attempts: int = 0


Operation: TypeAlias = Launch | Removal | Cleanup


def listed_by_launch(operations: Iterable[Operation], instances: Sequence[Instance]) -> Counter[str]:
    """How many instances EC2 lists of each launch. Warm instances carry the tag of the launch that once made them, and
    count for the launch that starts them."""
    seen = Counter(instance.operation for instance in instances)
    listed = {instance.id for instance in instances}
    for operation in operations:
        if isinstance(operation, Launch) and operation.starts:
            seen[operation.id] = len(listed & set(operation.starts))
    return seen


def silence(operation: Launch | Removal, now: datetime) -> timedelta:
    """For how long the API server has not answered since the operation began: joining and draining stand still then."""
    return operation.silent + (now - operation.silent_since if operation.silent_since else timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRef:
    """One pod, by its identity: another pod with the same name is not meant."""

    namespace: str
    name: str
    uid: str


# ── steps: what the loop carries out, each safe to take twice ────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Create:
    """Store this operation; it is advanced from the next iteration on."""

    STORED_AS: ClassVar[str] = "open"

    operation: Operation


@dataclass(frozen=True, slots=True)
class Save:
    """Store this newer state of an open operation."""

    STORED_AS: ClassVar[str] = "keep"

    operation: Operation


class Outcome(Enum):
    DONE = "done"
    FAILED = "failed"  # it did not get what it was for
    CANCELLED = "cancelled"  # called back by ourselves


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    operation: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class SendLaunch:
    launch: Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Make it unschedulable and taint it, in one patch, with the reason on the node."""

    node: str
    removal: str
    reason: str
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Uncordon:
    node: str
    removal: str  # only if the taint is this removal's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    node: str
    pods: tuple[PodRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceDelete:
    """Delete pods without a budget's consent: EC2 takes the node anyway."""

    node: str
    pods: tuple[PodRef, ...]


@dataclass(frozen=True, slots=True)
class Terminate:
    instance: str
    reason: str


@dataclass(frozen=True, slots=True)
class KeepWarm:
    """Tag an instance as warm and stop it: it is started again when the pool grows."""

    instance: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteNode:
    node: str


@dataclass(frozen=True, slots=True)
class MarkFailed:
    """Tag an instance that failed to join, and keep it for an operator."""

    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Hand a worker to a pool: label its Node, then tag its instance."""

    instance: str
    node: str = ""  # empty: it has none
    pool: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRemoval:
    """Let a node back in that we had begun to remove."""

    operation: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Keep a pool at this size or more for the demand of a cluster that failed, until an operator ends it."""

    pool: str
    origin: str
    nodes: int
    moved: int = 0  # of `nodes`, for that cluster's demand
    reason: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAlert:
    """Something operators should know, with what to do about it."""

    STORED_AS: ClassVar[str] = "tell"

    alert: AlertKind
    pool: str
    # Which things it is about: with kind and pool the identity of the alert. A continuing condition must keep its
    # subjects, so they are names that stay (a node, a budget, a workload), never pods with generated names or figures.
    subjects: tuple[str, ...] = ()
    text: str


# ── lessons: what an operation's course teaches the memory ───────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A type that could not be had in a zone and market; it is not asked again for a while."""

    pool: str
    type: str
    zone: str
    market: Market
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """EC2 gave fewer than asked for: the rest is still owed, and does not wait for a cooldown."""

    pool: str
    launch: str
    missing: int
    at: datetime
    packed_again: bool = False  # it is not owed: the pods that it was for are packed again, without what is short


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFailed:
    pool: str
    instance: str
    at: datetime
    unlisted: bool = False  # EC2 has never listed it, so its end is not known either: it may still run


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    pool: str
    instance: str
    took: timedelta
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainFailed:
    pool: str
    node: str
    blocker: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Readmitted:
    """A drain was called back: it counts as growth for cooldowns."""

    pool: str
    node: str
    at: datetime


Feedback: TypeAlias = Shortage | Shortfall | JoinFailed | Joined | DrainFailed | Readmitted

Step: TypeAlias = (
    Create
    | Save
    | Close
    | SendLaunch
    | Cordon
    | Uncordon
    | Evict
    | ForceDelete
    | Terminate
    | KeepWarm
    | DeleteNode
    | MarkFailed
    | Assign
    | CancelRemoval
    | TakeOver
    | SendAlert
)
