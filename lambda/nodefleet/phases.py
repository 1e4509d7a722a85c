"""Phases of the workers, derived from EC2, Kubernetes and open operations on every iteration.

Phases are not stored: after a crash the next run derives the same phases from the same observation.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nodefleet.model.fleet import (
    PHASES,
    InstancePhase,
    Membership,
    OpenOperation,
    Phase,
    Worker,
)
from nodefleet.model.inventory import Instance, InstanceState, Node, Notice, NoticeKind
from nodefleet.model.names import pluralize
from nodefleet.model.operations import Launch, Operation, Removal, RemovalReason, silence
from nodefleet.model.snapshot import ClusterView, Missing, Observation
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Health, Pool, RemovalRules

_MACHINES = {
    InstanceState.PENDING: InstancePhase.PENDING,
    InstanceState.RUNNING: InstancePhase.RUNNING,
    InstanceState.STOPPING: InstancePhase.STOPPED,
    InstanceState.STOPPED: InstancePhase.STOPPED,
    InstanceState.SHUTTING_DOWN: InstancePhase.ENDING,
    InstanceState.TERMINATED: InstancePhase.ENDED,
}

_NEVER = datetime.min.replace(tzinfo=UTC)

_UNDER = {
    RemovalReason.VOLUNTARY: OpenOperation.LEAVING,
    RemovalReason.INTERRUPTED: OpenOperation.INTERRUPTED,
    RemovalReason.UNHEALTHY: OpenOperation.UNHEALTHY,
}


def derive_workers(observation: Observation, policy: Policy) -> tuple[Worker, ...]:
    """Every worker of every pool, sorted by id, without the control plane and nodes of other owners."""
    if isinstance(observation.instances, Missing):
        return ()
    sight = _PhaseResolver.of(observation, policy)
    nodes = observation.kubernetes.nodes if isinstance(observation.kubernetes, ClusterView) else ()
    ours = [node for node in nodes if node.pool is not None and not node.control_plane]
    by_instance = nodes_by_instance(ours)
    machines = [instance for instance in observation.instances if instance.worker]
    known = {instance.id for instance in observation.instances}
    found = [sight.worker(instance, by_instance.get(instance.id)) for instance in machines]
    found.extend(sight.worker(None, node) for node in ours if node.instance not in known)
    return tuple(sorted(found, key=lambda worker: worker.id))


def rederive_workers(
    fleet: tuple[Worker, ...], before: Observation, after: Observation, policy: Policy
) -> tuple[Worker, ...]:
    """The fleet of `after`, a later observation of the same iteration. Unless a step has changed instances or nodes,
    only workers with another operation or notice are derived again: a launch without instances concerns none."""
    if (before.instances, before.kubernetes) != (after.instances, after.kubernetes):
        return derive_workers(after, policy)
    changed = _difference(operations_by_target(before.operations), operations_by_target(after.operations))
    changed |= _difference(_by_instance(before.notices), _by_instance(after.notices))
    affected = {worker.id for worker in fleet if worker.id in changed or (worker.node and worker.node.name in changed)}
    if not affected:
        return fleet
    sight = _PhaseResolver.of(after, policy)
    return tuple(sight.worker(each.instance, each.node) if each.id in affected else each for each in fleet)


def _difference(one: Mapping[str, object], other: Mapping[str, object]) -> set[str]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


def nodes_by_instance(nodes: Iterable[Node]) -> dict[str, Node]:
    """The Node of each instance. An agent that registered again under another name leaves its first Node behind: the
    ready one counts, whatever the order of the list, then the younger one."""
    found: dict[str, Node] = {}
    for node in nodes:
        other = found.get(node.instance)
        if node.instance and (other is None or _stands_for_instance(node) > _stands_for_instance(other)):
            found[node.instance] = node
    return found


def _stands_for_instance(node: Node) -> tuple[bool, datetime, str]:
    return node.ready, node.created_at or _NEVER, node.name


def is_starting(launch: Launch, instance: str) -> bool:
    """Whether the launch starts this warm instance: EC2 has not refused, and the start has not come to nothing."""
    if instance not in launch.starts or instance in launch.lost:
        return False
    return not launch.answered or instance in launch.instances


def taken_at(notice: Notice, rules: Pool) -> datetime:
    """When EC2 interrupts the instance: a fixed time after a warning, or at the start of a scheduled change. A
    scheduled change that is announced late gets at least the time of a warning."""
    warned = (notice.told_at or notice.at) + rules.removal.notice
    return max(notice.at, warned) if notice.kind is NoticeKind.SCHEDULED_CHANGE else notice.at + rules.removal.notice


def is_imminent(notice: Notice, rules: Pool, now: datetime) -> bool:
    """Whether the node must be drained now: never for a rebalance recommendation, and for a scheduled change only
    shortly before its time."""
    match notice.kind:
        case NoticeKind.REBALANCE:
            return False
        case NoticeKind.SCHEDULED_CHANGE:
            return now >= taken_at(notice, rules) - rules.health.scheduled_change_lead
        case _:
            return True


def is_false_alarm(notice: Notice, rules: Pool, now: datetime) -> bool:
    """Whether the announced interruption is long overdue: EC2 did not carry it out, or the notice arrived too late."""
    return now >= taken_at(notice, rules) + rules.removal.false_alarm_after


def in_force(notices: Sequence[Notice]) -> list[Notice]:
    """The notices that apply: of several notices about one event the last, unless it withdraws the event."""
    last: dict[tuple[str, str], Notice] = {}
    for notice in notices:
        before = last.get((notice.instance, notice.event))
        if notice.event and (before is None or _when_said(before) <= _when_said(notice)):
            last[notice.instance, notice.event] = notice
    return [each for each in notices if not each.withdrawn and last.get((each.instance, each.event), each) == each]


def _when_said(notice: Notice) -> tuple[datetime, bool]:
    return notice.told_at or notice.at, notice.withdrawn


def is_withdrawn(notices: Sequence[Notice], why: RemovalReason, rules: Pool, now: datetime) -> bool:
    """Whether EC2 withdrew a notice of this instance and no other notice applies. For an interrupted removal only
    imminent notices count."""
    still = [
        each for each in in_force(notices) if why is not RemovalReason.INTERRUPTED or is_imminent(each, rules, now)
    ]
    return any(notice.withdrawn for notice in notices) and not still


def is_overdue(removal: Removal, rules: RemovalRules, now: datetime) -> bool:
    """Whether the interruption is long overdue, judged by its removal, whose deadline is the announced time."""
    return now >= removal.deadline + rules.false_alarm_after


def silent_for(node: Node, health: Health, now: datetime) -> timedelta:
    """How long a node that is not ready has sent no heartbeat; zero if that is not known.

    The node's own clock wrote the heartbeat and may be wrong, so the time since the control plane marked the node not
    ready, plus the heartbeat grace, is the upper bound. An API server that was down marks no node until it is back.
    """
    if node.ready or node.heartbeat_at is None or node.ready_changed_at is None:
        return timedelta(0)
    return max(timedelta(0), min(now - node.heartbeat_at, now - node.ready_changed_at + health.heartbeat_grace))


def ailments(observation: Observation, policy: Policy) -> Mapping[str, str]:
    """Ready but unhealthy nodes with the cause: lasting pressure, or pods that crash on this node only."""
    if isinstance(observation.kubernetes, Missing):
        return {}
    found = {}
    crashing = _crashing(observation.kubernetes.pods or ())
    for node in observation.kubernetes.nodes:
        rules = policy.pool(node.pool) if node.pool else None
        if rules is None or not node.ready:
            continue
        why = _describe_pressure(node, rules.health, observation.at) or _crashes_here(
            crashing.get(node.name, ()), rules.health
        )
        if why:
            found[node.name] = why
    return found


def _describe_pressure(node: Node, health: Health, now: datetime) -> str:
    if node.pressed_since is None or now - node.pressed_since < health.pressure_limit:
        return ""
    return f"{', '.join(node.pressures)} since {node.pressed_since:%H:%M:%S}"


def _crashing(pods: Iterable[Pod]) -> Mapping[str, Sequence[Pod]]:
    """By node, for nodes where a pod crashes: the movable pods, without crashing pods whose workload is ready on no
    other node, since the node is not the cause of those crashes."""
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
    if len(crashing) == 1:
        return f"1 of {pluralize(len(pods), 'pod', 'pods')} crashes on it that runs elsewhere: {crashing[0].key}"
    return f"{len(crashing)} of {len(pods)} pods crash on it that run elsewhere, {crashing[0].key} among them"


def _by_instance(notices: Iterable[Notice]) -> dict[str, list[Notice]]:
    found: dict[str, list[Notice]] = defaultdict(list)
    for notice in notices:
        found[notice.instance].append(notice)
    return found


def operations_by_target(operations: Iterable[Operation]) -> dict[str, Operation]:
    targets: dict[str, Operation] = {}
    for operation in operations:
        match operation:
            case Launch():
                for instance in (*operation.instances, *operation.starts):
                    targets.setdefault(
                        instance, operation
                    )  # a removal or cleanup of the instance takes precedence over its launch
            case Removal():
                targets.update(dict.fromkeys(filter(None, (operation.instance, operation.node)), operation))
            case _:
                targets[operation.target] = operation
    return targets


def _nodes_with_movable_pods(observation: Observation) -> frozenset[str] | None:
    if isinstance(observation.kubernetes, Missing) or observation.kubernetes.pods is None:
        return None
    return frozenset(pod.node for pod in observation.kubernetes.pods if pod.node and pod.movable)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PhaseResolver:
    """Derives the phase of each worker from one observation."""

    now: datetime
    policy: Policy
    answered: bool  # the API server answered
    busy: frozenset[str] | None  # nodes with movable pods; None: not known
    open_on: Mapping[str, Operation]
    notices: Mapping[str, Sequence[Notice]]  # by instance
    ailments: Mapping[str, str]  # by node

    @classmethod
    def of(cls, observation: Observation, policy: Policy) -> "_PhaseResolver":
        return cls(
            now=observation.at,
            policy=policy,
            answered=isinstance(observation.kubernetes, ClusterView),
            busy=_nodes_with_movable_pods(observation),
            open_on=operations_by_target(observation.operations),
            notices=_by_instance(observation.notices),
            ailments=ailments(observation, policy),
        )

    def worker(self, instance: Instance | None, node: Node | None) -> Worker:
        identity = instance.id if instance else (node.instance or node.name) if node else ""
        pool = instance.pool if instance else (node.pool or "") if node else ""
        rules = self.policy.pool(pool) or Pool()
        operation = self.open_on.get(identity) or (self.open_on.get(node.name) if node else None)
        told = self._notice(identity, rules)
        notice = told if told and is_imminent(told, rules, self.now) else None
        machine = self._instance_phase(instance, node, rules)
        under = (
            OpenOperation.LEAVING
            if self._was_not_taken(machine, operation, notice, rules)
            else _under(operation, notice, identity)
        )
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

    def _instance_phase(self, instance: Instance | None, node: Node | None, rules: Pool) -> InstancePhase:
        if instance is None:
            return InstancePhase.ABSENT
        phase = _MACHINES[instance.state]
        if phase is not InstancePhase.STOPPED:
            return phase
        if node is not None and node.ready and self._became_ready_within(node, rules.budgets.cleanup_after):
            return InstancePhase.RUNNING  # a warm instance that was started: EC2's list is stale for a while
        return InstancePhase.WARM if instance.warm else phase

    def _became_ready_within(self, node: Node, time: timedelta) -> bool:
        return node.ready_changed_at is not None and self.now - node.ready_changed_at < time

    def _was_not_taken(
        self, machine: InstancePhase, operation: Operation | None, notice: Notice | None, rules: Pool
    ) -> bool:
        """Whether the interruption is long overdue. The worker counts against max again, before its removal ends."""
        if (
            notice
            or machine not in (InstancePhase.PENDING, InstancePhase.RUNNING)
            or not isinstance(operation, Removal)
        ):
            return False
        return operation.why is RemovalReason.INTERRUPTED and is_overdue(operation, rules.removal, self.now)

    def _notice(self, instance: str, rules: Pool) -> Notice | None:
        """The notice that takes precedence: imminent before planned, then the earlier."""
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
    ) -> Membership:
        silent = silence(operation, self.now) if isinstance(operation, Launch) else timedelta(0)
        young = instance is not None and self.now - instance.launched_at - silent < health.join_limit
        if node is not None and node.ready:
            # A node with startup taints takes no pods yet, but counts as booting, so that no other node is launched.
            return Membership.NONE if young and node.starting else Membership.READY
        if node is None:
            # The join timeout applies only if the API server is available: otherwise the node could not be observed.
            late = instance is not None and (instance.failed or (self.answered and not young))
            return Membership.LATE if late else Membership.NONE
        if young:
            return Membership.NONE
        away = self.now - (node.ready_changed_at or self.now)
        unhealthy = away >= health.not_ready_limit or silent_for(node, health, self.now) >= health.silent_limit
        return Membership.UNHEALTHY if unhealthy else Membership.UNREADY

    def _step_of_leaving(self, node: Node | None, removal: Removal) -> Phase:
        if node is None or (self.busy is not None and node.name not in self.busy):
            return Phase.DRAINED
        return Phase.DRAINING if removal.evicting else Phase.CORDONED


def _under(operation: Operation | None, notice: Notice | None, identity: str) -> OpenOperation:
    if notice is not None:
        return OpenOperation.INTERRUPTED
    match operation:
        case None:
            return OpenOperation.NOTHING
        case Launch() if is_starting(operation, identity):
            return OpenOperation.START
        case Launch():
            return OpenOperation.LAUNCH
        case Removal(why=why):
            return _UNDER[why]
        case _:
            return OpenOperation.CLEANUP
