"""The workers, and what each of them amounts to.

A worker's phase is not stored anywhere. It is derived on every look from three sightings: what EC2 says of the
machine, what Kubernetes says of the node, and which operation is open on it. PHASES holds every combination.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import product

from nodefleet.domain.machines import Instance, InstanceState, Node, Notice, NoticeKind
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.operations import Launch, Operation, Removal, Why, silence
from nodefleet.domain.policy import Health, Policy, Pool, RemovalRules
from nodefleet.domain.readings import Missing
from nodefleet.domain.workload import ZONE_LABEL, Pod


class Phase(Enum):
    REQUESTED = "requested"
    BOOTING = "booting"
    READY = "ready"
    UNREADY = "unready"  # not ready, but not for long: still counted, takes no pods, and nobody shrinks
    CORDONED = "cordoned"
    DRAINING = "draining"
    DRAINED = "drained"
    TERMINATING = "terminating"
    GONE = "gone"
    JOIN_FAILED = "join-failed"
    UNHEALTHY = "unhealthy"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    UNLISTED = "unlisted"  # ready, though EC2 does not list it: a list may lack a page, a ready node does not lie
    ORPHANED = "orphaned"  # a Node whose machine is gone


class Machine(Enum):
    """EC2's side."""

    ABSENT = "absent"
    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"  # or stopping
    ENDING = "ending"  # shutting down
    ENDED = "ended"  # terminated


class Member(Enum):
    """Kubernetes' side."""

    NONE = "none"  # not joined or not yet open to pods, and still in time
    LATE = "late"  # not joined within the join limit
    READY = "ready"
    UNREADY = "unready"
    SICK = "sick"  # not ready for longer than the limit


class Under(Enum):
    """The operation that is open on it, or the notice that will open one."""

    NOTHING = "nothing"
    LAUNCH = "launch"
    LEAVING = "leaving"  # voluntary removal
    DOOMED = "doomed"  # EC2 takes it
    SICK = "sick"  # removal of a sick worker
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
    ("absent", "ready", "sick", Phase.CORDONED),
    ("absent", "ready", "doomed", Phase.INTERRUPTED),
    ("absent", "ready", _ANY, Phase.UNLISTED),
    ("absent", _ANY, "leaving", Phase.TERMINATING),  # our own removal: its Node is deleted by that
    ("absent", _ANY, "doomed", Phase.TERMINATING),
    ("absent", _ANY, "sick", Phase.TERMINATING),
    ("absent", _ANY, _ANY, Phase.ORPHANED),
    ("ended", "none", _ANY, Phase.GONE),
    ("ended", "late", _ANY, Phase.GONE),
    ("ended", _ANY, "leaving", Phase.TERMINATING),
    ("ended", _ANY, "doomed", Phase.TERMINATING),
    ("ended", _ANY, "sick", Phase.TERMINATING),
    ("ended", _ANY, _ANY, Phase.ORPHANED),
    ("ending", _ANY, _ANY, Phase.TERMINATING),
    ("stopped", _ANY, _ANY, Phase.STOPPED),
    ("pending", _ANY, "doomed", Phase.INTERRUPTED),
    ("running", _ANY, "doomed", Phase.INTERRUPTED),
    ("pending", _ANY, "leaving", Phase.CORDONED),
    ("running", _ANY, "leaving", Phase.CORDONED),
    ("pending", _ANY, "sick", Phase.CORDONED),
    ("running", _ANY, "sick", Phase.CORDONED),
    ("pending", "ready", _ANY, Phase.READY),  # ready always wins
    ("running", "ready", _ANY, Phase.READY),
    ("pending", "late", _ANY, Phase.JOIN_FAILED),
    ("running", "late", _ANY, Phase.JOIN_FAILED),
    ("pending", "none", _ANY, Phase.BOOTING),
    ("running", "none", _ANY, Phase.BOOTING),
    ("pending", "unready", _ANY, Phase.UNREADY),
    ("running", "unready", _ANY, Phase.UNREADY),
    ("pending", "sick", _ANY, Phase.UNHEALTHY),
    ("running", "sick", _ANY, Phase.UNHEALTHY),
)


def _first_match(machine: Machine, member: Member, under: Under) -> Phase:
    seen = (machine.value, member.value, under.value)
    return next(row[3] for row in _TABLE if all(cell in (_ANY, value) for cell, value in zip(row, seen, strict=False)))


PHASES: Mapping[tuple[Machine, Member, Under], Phase] = {
    seen: _first_match(*seen) for seen in product(Machine, Member, Under)
}

READY_OR_NEARLY = frozenset({Phase.READY, Phase.UNREADY, Phase.UNLISTED})
COUNTS_AS_CAPACITY = READY_OR_NEARLY | {Phase.BOOTING}
LEAVES = frozenset({Phase.CORDONED, Phase.DRAINING, Phase.DRAINED, Phase.TERMINATING})
DOES_NOT_OCCUPY = frozenset({Phase.INTERRUPTED, Phase.TERMINATING, Phase.STOPPED, Phase.ORPHANED, Phase.GONE})

_MACHINES = {
    InstanceState.PENDING: Machine.PENDING,
    InstanceState.RUNNING: Machine.RUNNING,
    InstanceState.STOPPING: Machine.STOPPED,
    InstanceState.STOPPED: Machine.STOPPED,
    InstanceState.SHUTTING_DOWN: Machine.ENDING,
    InstanceState.TERMINATED: Machine.ENDED,
}
_UNDER = {Why.VOLUNTARY: Under.LEAVING, Why.INTERRUPTED: Under.DOOMED, Why.SICK: Under.SICK}


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
        """Ready or about to be. A node that a person cordoned takes no pods and is none."""
        return self.phase in COUNTS_AS_CAPACITY and not self.held_by_person

    @property
    def held_by_person(self) -> bool:
        return self.node is not None and self.node.cordoned and not self.node.removal

    @property
    def occupies(self) -> bool:
        """It counts against max: a machine that exists and that EC2 does not take away by itself."""
        exists = self.instance is not None or (self.node is not None and self.node.ready)
        return exists and self.phase not in DOES_NOT_OCCUPY


def workers(seen: Observation, policy: Policy) -> tuple[Worker, ...]:
    """Every worker of every pool, by id. The control plane and what is not ours is not among them."""
    if isinstance(seen.instances, Missing):
        return ()
    sight = _Sight.of(seen, policy)
    nodes = seen.kubernetes.nodes if isinstance(seen.kubernetes, ClusterView) else ()
    ours = [node for node in nodes if node.pool is not None and not node.control_plane]
    by_instance = {node.instance: node for node in ours if node.instance}
    machines = [instance for instance in seen.instances if instance.worker]
    known = {instance.id for instance in seen.instances}
    found = [sight.worker(instance, by_instance.get(instance.id)) for instance in machines]
    found.extend(sight.worker(None, node) for node in ours if node.instance not in known)
    return tuple(sorted(found, key=lambda worker: worker.id))


def unseen_launches(operations: Iterable[Operation], instances: Sequence[Instance], pool: str) -> int:
    """Workers that open launches asked for and that EC2 does not show yet: each counts max(asked, seen)."""
    seen: dict[str, int] = defaultdict(int)
    for instance in instances:
        seen[instance.operation] += 1
    return sum(
        max(0, expected(operation) - seen[operation.id])
        for operation in operations
        if isinstance(operation, Launch) and operation.pool == pool
    )


def expected(launch: Launch) -> int:
    """How many instances a launch may still turn out to have made."""
    return len(launch.instances) if launch.answered else launch.count


def taken_at(notice: Notice, rules: Pool) -> datetime:
    """When EC2 takes it: some time after a warning, or when a scheduled change begins, and then not before a warning's
    time is over, though the word of it may come late."""
    warned = (notice.told_at or notice.at) + rules.removal.notice
    return max(notice.at, warned) if notice.kind is NoticeKind.SCHEDULED_CHANGE else notice.at + rules.removal.notice


def is_imminent(notice: Notice, rules: Pool, now: datetime) -> bool:
    """EC2 takes it now. A recommendation forces nothing, and a scheduled change only shortly before its time."""
    match notice.kind:
        case NoticeKind.REBALANCE:
            return False
        case NoticeKind.SCHEDULED_CHANGE:
            return now >= taken_at(notice, rules) - rules.health.scheduled_change_lead
        case _:
            return True


def is_false_alarm(notice: Notice, rules: Pool, now: datetime) -> bool:
    """EC2 should have taken it long ago: nothing came of it, or the word of it comes too late to matter."""
    return now >= taken_at(notice, rules) + rules.removal.false_alarm_after


def in_force(notices: Sequence[Notice]) -> list[Notice]:
    """What still holds: of several words on the same event the last one, unless it withdraws the event."""
    last: dict[tuple[str, str], Notice] = {}
    for notice in notices:
        before = last.get((notice.instance, notice.event))
        if notice.event and (before is None or _told(before) <= _told(notice)):
            last[notice.instance, notice.event] = notice
    return [each for each in notices if not each.withdrawn and last.get((each.instance, each.event), each) == each]


def _told(notice: Notice) -> tuple[datetime, bool]:
    return notice.told_at or notice.at, notice.withdrawn


def is_withdrawn(notices: Sequence[Notice], why: Why, rules: Pool, now: datetime) -> bool:
    """EC2 called off what it had announced of this instance, and nothing else takes it: for one that leaves in a hurry,
    nothing that is near."""
    still = [each for each in in_force(notices) if why is not Why.INTERRUPTED or is_imminent(each, rules, now)]
    return any(notice.withdrawn for notice in notices) and not still


def is_overdue(removal: Removal, rules: RemovalRules, now: datetime) -> bool:
    """The same of the removal that a notice has opened: its deadline is when EC2 was to take the machine."""
    return now >= removal.deadline + rules.false_alarm_after


def silent_for(node: Node, health: Health, now: datetime) -> timedelta:
    """How long a node that is not ready has sent no heartbeat; nothing if that is not known.

    Its clock wrote the heartbeat and may be wrong, so the control plane's word counts too: that called it not ready
    after a grace without one. An API server that was away calls nobody so before it is back.
    """
    if node.ready or node.heartbeat_at is None or node.ready_changed_at is None:
        return timedelta(0)
    return max(timedelta(0), min(now - node.heartbeat_at, now - node.ready_changed_at + health.heartbeat_grace))


def ailments(seen: Observation, policy: Policy) -> Mapping[str, str]:
    """Nodes that are ready and yet no good, and why: pressure that does not end, or pods that crash on them alone."""
    if isinstance(seen.kubernetes, Missing):
        return {}
    found = {}
    crashing = _crashing(seen.kubernetes.pods or ())
    for node in seen.kubernetes.nodes:
        rules = policy.pool(node.pool) if node.pool else None
        if rules is None or not node.ready:
            continue
        why = _pressed(node, rules.health, seen.at) or _crashes_here(crashing.get(node.name, ()), rules.health)
        if why:
            found[node.name] = why
    return found


def _pressed(node: Node, health: Health, now: datetime) -> str:
    if node.pressed_since is None or now - node.pressed_since < health.pressure_limit:
        return ""
    return f"{', '.join(node.pressures)} since {node.pressed_since:%H:%M:%S}"


def _crashing(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    """Of each node where some pod crashes all pods that could; without those that crash and whose workload is ready
    nowhere else: they do not crash because of their node."""
    pods = tuple(pods)
    if not any(pod.crashes for pod in pods):
        return {}
    everyone = [pod for pod in pods if pod.movable and pod.node and pod.deleted_at is None]
    nodes = {pod.node for pod in everyone if pod.crashes}
    well = defaultdict(set)
    for pod in everyone:
        if pod.ready and pod.owner:
            well[pod.namespace, pod.owner.kind, pod.owner.name].add(pod.node)
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in everyone:
        if pod.node in nodes:
            key = (pod.namespace, pod.owner.kind, pod.owner.name) if pod.owner else None
            if not pod.crashes or (key and well[key] - {pod.node}):
                found[pod.node or ""].append(pod)
    return found


def _crashes_here(pods: Sequence[Pod], health: Health) -> str:
    crashing = [pod for pod in pods if pod.crashes >= health.crash_restarts]
    if len(crashing) < health.crash_pods or 100 * len(crashing) < health.crash_percent * len(pods):
        return ""
    return f"{len(crashing)} of {len(pods)} pods crash on it that run elsewhere, {crashing[0].key} among them"


def _by_instance(notices: Iterable[Notice]) -> dict[str, list[Notice]]:
    found: dict[str, list[Notice]] = defaultdict(list)
    for notice in notices:
        found[notice.instance].append(notice)
    return found


def _operations_by_target(operations: Iterable[Operation]) -> dict[str, Operation]:
    targets: dict[str, Operation] = {}
    for operation in operations:
        match operation:
            case Launch():
                for instance in operation.instances:
                    targets.setdefault(instance, operation)  # who ends it has more to say than who made it
            case Removal():
                targets.update(dict.fromkeys(filter(None, (operation.instance, operation.node)), operation))
            case _:
                targets[operation.target] = operation
    return targets


def _nodes_with_movable_pods(seen: Observation) -> frozenset[str] | None:
    if isinstance(seen.kubernetes, Missing) or seen.kubernetes.pods is None:
        return None
    return frozenset(pod.node for pod in seen.kubernetes.pods if pod.node and pod.movable)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """What is needed of a look to tell each worker's phase."""

    now: datetime
    policy: Policy
    answered: bool  # the API server answered
    busy: frozenset[str] | None  # nodes with pods that have to move; none: not known
    open_on: Mapping[str, Operation]
    notices: Mapping[str, Sequence[Notice]]  # by instance
    ailments: Mapping[str, str]  # by node

    @classmethod
    def of(cls, seen: Observation, policy: Policy) -> "_Sight":
        return cls(
            now=seen.at,
            policy=policy,
            answered=isinstance(seen.kubernetes, ClusterView),
            busy=_nodes_with_movable_pods(seen),
            open_on=_operations_by_target(seen.operations),
            notices=_by_instance(seen.notices),
            ailments=ailments(seen, policy),
        )

    def worker(self, instance: Instance | None, node: Node | None) -> Worker:
        identity = instance.id if instance else (node.instance or node.name) if node else ""
        pool = instance.pool if instance else (node.pool or "") if node else ""
        rules = self.policy.pool(pool) or Pool()
        operation = self.open_on.get(identity) or (self.open_on.get(node.name) if node else None)
        told = self._notice(identity, rules)
        notice = told if told and is_imminent(told, rules, self.now) else None
        machine = _MACHINES[instance.state] if instance else Machine.ABSENT
        under = Under.LEAVING if self._was_not_taken(machine, operation, notice, rules) else _under(operation, notice)
        phase = PHASES[machine, self._member(instance, node, rules.health, operation), under]
        if phase is Phase.CORDONED and isinstance(operation, Removal):
            phase = self._step_of_leaving(node, operation)
        elif phase is Phase.READY and node is not None and node.cordoned:
            phase = Phase.CORDONED
        return Worker(
            id=identity,
            pool=pool,
            phase=phase,
            instance=instance,
            node=node,
            operation=operation,
            notice=notice,
            planned=None if notice else told,
            ailment=self.ailments.get(node.name, "") if node else "",
        )

    def _was_not_taken(self, machine: Machine, operation: Operation | None, notice: Notice | None, rules: Pool) -> bool:
        """EC2 should have taken it long ago. It counts against max again, before its removal is called off."""
        if notice or machine not in (Machine.PENDING, Machine.RUNNING) or not isinstance(operation, Removal):
            return False
        return operation.why is Why.INTERRUPTED and is_overdue(operation, rules.removal, self.now)

    def _notice(self, instance: str, rules: Pool) -> Notice | None:
        """The one that counts: what is imminent before what is planned, and the earlier before the later."""
        counted = (
            notice
            for notice in in_force(self.notices.get(instance, ()))
            if (rules.removal.drain_on_rebalance or notice.kind is not NoticeKind.REBALANCE)
            and not is_false_alarm(notice, rules, self.now)
        )
        return min(
            counted,
            key=lambda notice: (
                not is_imminent(notice, rules, self.now),
                notice.kind is NoticeKind.REBALANCE,
                notice.at,
            ),
            default=None,
        )

    def _member(
        self, instance: Instance | None, node: Node | None, health: Health, operation: Operation | None
    ) -> Member:
        silent = silence(operation, self.now) if isinstance(operation, Launch) else timedelta(0)
        young = instance is not None and self.now - instance.launched_at - silent < health.join_limit
        if node is not None and node.ready:
            # Until its startup taints are gone it takes no pod yet, but it will: others must not be bought meanwhile.
            return Member.NONE if young and node.starting else Member.READY
        if node is None:
            # The join clock only means something while the API server could have shown the node.
            late = instance is not None and (instance.failed or (self.answered and not young))
            return Member.LATE if late else Member.NONE
        if young:
            return Member.NONE
        away = self.now - (node.ready_changed_at or self.now)
        sick = away >= health.not_ready_limit or silent_for(node, health, self.now) >= health.silent_limit
        return Member.SICK if sick else Member.UNREADY

    def _step_of_leaving(self, node: Node | None, removal: Removal) -> Phase:
        if node is None or (self.busy is not None and node.name not in self.busy):
            return Phase.DRAINED
        return Phase.DRAINING if removal.evicting else Phase.CORDONED


def _under(operation: Operation | None, notice: Notice | None) -> Under:
    if notice is not None:
        return Under.DOOMED
    match operation:
        case None:
            return Under.NOTHING
        case Launch():
            return Under.LAUNCH
        case Removal(why=why):
            return _UNDER[why]
        case _:
            return Under.CLEANUP
