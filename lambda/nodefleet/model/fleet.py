"""The workers, and what each of them amounts to.

A worker's phase is not stored anywhere. It is derived on every iteration from three sightings: what EC2 says of the
instance, what Kubernetes says of the node, and which operation is open on it. PHASES holds every combination.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import product

from nodefleet.model.inventory import Instance, Node, Notice
from nodefleet.model.operations import Operation
from nodefleet.model.workload import ZONE_LABEL


class Phase(Enum):
    REQUESTED = "requested"
    BOOTING = "booting"
    READY = "ready"
    UNREADY = "unready"  # not ready, but not for long: still counted, takes no pods, and blocks scale-down
    CORDONED = "cordoned"
    DRAINING = "draining"
    DRAINED = "drained"
    TERMINATING = "terminating"
    GONE = "gone"
    JOIN_FAILED = "join-failed"
    UNHEALTHY = "unhealthy"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    WARM = "warm"  # stopped by us, to be started when the pool grows: no capacity, and not against max
    UNLISTED = "unlisted"  # ready, though EC2 does not list it: a list may lack a page, a ready node does not lie
    ORPHANED = "orphaned"  # a Node whose instance is gone


class InstancePhase(Enum):
    """EC2's side."""

    ABSENT = "absent"
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # or stopping
    WARM = "warm"  # the same, by us: it is kept to be started again
    ENDING = "ending"  # shutting down
    ENDED = "ended"  # terminated


class Membership(Enum):
    """Kubernetes' side."""

    NONE = "none"  # not joined or not yet open to pods, and still in time
    LATE = "late"  # not joined within the join limit
    READY = "ready"
    UNREADY = "unready"
    UNHEALTHY = "unhealthy"  # not ready for longer than the limit


class OpenOperation(Enum):
    """The operation that is open on it, or the notice that will open one."""

    NOTHING = "nothing"
    LAUNCH = "launch"
    START = "start"  # of a warm instance, and EC2 has not refused
    LEAVING = "leaving"  # voluntary removal
    INTERRUPTED = "interrupted"  # EC2 takes it
    UNHEALTHY = "unhealthy"  # removal of an unhealthy worker
    CLEANUP = "cleanup"


_ANY = "*"

# First match wins; _ANY matches everything. `CORDONED` stands for all steps of leaving: it becomes DRAINING once an
# eviction was asked for, and DRAINED once nothing is left that has to move.
_TABLE: tuple[tuple[str, str, str, Phase], ...] = (
    # EC2         Kubernetes   operation    phase
    ("absent", "none", "launch", Phase.REQUESTED),
    ("absent", "none", _ANY, Phase.GONE),
    ("absent", "late", _ANY, Phase.GONE),
    ("absent", "ready", "leaving", Phase.CORDONED),
    ("absent", "ready", "unhealthy", Phase.CORDONED),
    ("absent", "ready", "interrupted", Phase.INTERRUPTED),
    ("absent", "ready", _ANY, Phase.UNLISTED),
    ("absent", _ANY, "leaving", Phase.TERMINATING),  # our own removal: its Node is deleted by that
    ("absent", _ANY, "interrupted", Phase.TERMINATING),
    ("absent", _ANY, "unhealthy", Phase.TERMINATING),
    ("absent", _ANY, _ANY, Phase.ORPHANED),
    ("ended", "none", _ANY, Phase.GONE),
    ("ended", "late", _ANY, Phase.GONE),
    ("ended", _ANY, "leaving", Phase.TERMINATING),
    ("ended", _ANY, "interrupted", Phase.TERMINATING),
    ("ended", _ANY, "unhealthy", Phase.TERMINATING),
    ("ended", _ANY, _ANY, Phase.ORPHANED),
    ("ending", _ANY, _ANY, Phase.TERMINATING),
    ("stopped", _ANY, "start", Phase.BOOTING),
    ("stopped", _ANY, _ANY, Phase.STOPPED),
    ("warm", _ANY, "start", Phase.BOOTING),
    ("warm", _ANY, _ANY, Phase.WARM),
    ("pending", _ANY, "interrupted", Phase.INTERRUPTED),
    ("running", _ANY, "interrupted", Phase.INTERRUPTED),
    ("pending", _ANY, "leaving", Phase.CORDONED),
    ("running", _ANY, "leaving", Phase.CORDONED),
    ("pending", _ANY, "unhealthy", Phase.CORDONED),
    ("running", _ANY, "unhealthy", Phase.CORDONED),
    ("pending", "ready", _ANY, Phase.READY),  # ready always wins
    ("running", "ready", _ANY, Phase.READY),
    ("pending", "late", _ANY, Phase.JOIN_FAILED),
    ("running", "late", _ANY, Phase.JOIN_FAILED),
    ("pending", "none", _ANY, Phase.BOOTING),
    ("running", "none", _ANY, Phase.BOOTING),
    ("pending", "unready", _ANY, Phase.UNREADY),
    ("running", "unready", _ANY, Phase.UNREADY),
    ("pending", "unhealthy", _ANY, Phase.UNHEALTHY),
    ("running", "unhealthy", _ANY, Phase.UNHEALTHY),
)


def _first_match(machine: InstancePhase, member: Membership, under: OpenOperation) -> Phase:
    seen = (machine.value, member.value, under.value)
    return next(row[3] for row in _TABLE if all(cell in (_ANY, value) for cell, value in zip(row, seen, strict=False)))


PHASES: Mapping[tuple[InstancePhase, Membership, OpenOperation], Phase] = {
    seen: _first_match(*seen) for seen in product(InstancePhase, Membership, OpenOperation)
}

# Asked of every worker many times: an enum's hash is worked out in Python each time, and a short tuple needs none.
READY_OR_NEARLY = (Phase.READY, Phase.UNREADY, Phase.UNLISTED)
COUNTS_AS_CAPACITY = (*READY_OR_NEARLY, Phase.BOOTING)
LEAVES = frozenset({Phase.CORDONED, Phase.DRAINING, Phase.DRAINED, Phase.TERMINATING})
DOES_NOT_OCCUPY = frozenset(
    {Phase.INTERRUPTED, Phase.TERMINATING, Phase.STOPPED, Phase.WARM, Phase.ORPHANED, Phase.GONE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    id: str  # the instance id; the node's name if that names no instance
    pool: str
    phase: Phase
    instance: Instance | None = None
    node: Node | None = None
    operation: Operation | None = None
    notice: Notice | None = None  # EC2 takes it now
    planned: Notice | None = None  # … later, or recommends to move off it: it is replaced in good time
    ailment: str = ""  # it is ready and yet no good: it is replaced in good time too

    @property
    def zone(self) -> str:
        if self.instance:
            return self.instance.zone
        return self.node.labels.get(ZONE_LABEL, "") if self.node else ""

    @property
    def name(self) -> str:
        return self.node.name if self.node else self.id

    @property
    def is_capacity(self) -> bool:
        """Ready or about to be. A node that an operator cordoned takes no pods and is none."""
        return self.phase in COUNTS_AS_CAPACITY and not self.held_by_person

    @property
    def held_by_person(self) -> bool:
        return self.node is not None and self.node.cordoned and not self.node.removal

    @property
    def occupies(self) -> bool:
        """It counts against max: an instance that exists and that EC2 does not take away by itself."""
        exists = self.instance is not None or (self.node is not None and self.node.ready)
        return exists and self.phase not in DOES_NOT_OCCUPY


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The pool's workers by what they are worth."""

    ready: int = 0  # includes nodes that are not ready for a short time
    booting: int = 0  # includes launches that are not seen yet
    leaving: int = 0
    interrupted: int = 0
    failed: int = 0  # join-failed and unhealthy
    occupied: int = 0  # what counts against max

    @property
    def capacity(self) -> int:
        return self.ready + self.booting
