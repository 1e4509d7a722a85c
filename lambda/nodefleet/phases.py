"""Phases and capacity of the workers, derived from EC2, Kubernetes and open operations on every iteration.

Phases are not stored: after a crash the next run derives the same phases from the same observation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodefleet.model.fleet import (
    LEAVES,
    PHASES,
    READY_OR_NEARLY,
    Count,
    InstancePhase,
    Membership,
    OpenOperation,
    Phase,
    Worker,
)
from nodefleet.model.inventory import Instance, InstanceState, InstanceType, Market, Node, Notice, NoticeKind
from nodefleet.model.operations import Launch, Operation, Removal, RemovalReason, listed_by_launch, silence
from nodefleet.model.readings import Missing, Reading, Sample
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.state import Loss, Memory, PoolMemory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import FleetLimits, Policy
from nodefleet.policy.demand import ClearTime
from nodefleet.policy.pool import Health, MarketMix, Pool, RemovalRules

# ── phases ───────────────────────────────────────────────────────────────────────────────────────────────────────────


_MACHINES = {
    InstanceState.PENDING: InstancePhase.PENDING,
    InstanceState.RUNNING: InstancePhase.RUNNING,
    InstanceState.STOPPING: InstancePhase.STOPPED,
    InstanceState.STOPPED: InstancePhase.STOPPED,
    InstanceState.SHUTTING_DOWN: InstancePhase.ENDING,
    InstanceState.TERMINATED: InstancePhase.ENDED,
}


_UNDER = {
    RemovalReason.VOLUNTARY: OpenOperation.LEAVING,
    RemovalReason.INTERRUPTED: OpenOperation.INTERRUPTED,
    RemovalReason.UNHEALTHY: OpenOperation.UNHEALTHY,
}


def derive_workers(seen: Observation, policy: Policy) -> tuple[Worker, ...]:
    """Every worker of every pool, sorted by id, without the control plane and nodes of other owners."""
    if isinstance(seen.instances, Missing):
        return ()
    sight = _PhaseResolver.of(seen, policy)
    nodes = seen.kubernetes.nodes if isinstance(seen.kubernetes, ClusterView) else ()
    ours = [node for node in nodes if node.pool is not None and not node.control_plane]
    by_instance = {node.instance: node for node in ours if node.instance}
    machines = [instance for instance in seen.instances if instance.worker]
    known = {instance.id for instance in seen.instances}
    found = [sight.worker(instance, by_instance.get(instance.id)) for instance in machines]
    found.extend(sight.worker(None, node) for node in ours if node.instance not in known)
    return tuple(sorted(found, key=lambda worker: worker.id))


def unseen_launches(operations: Iterable[Operation], instances: Sequence[Instance], pool: str) -> int:
    """The number of instances that open launches requested and that EC2 does not list yet."""
    operations = tuple(operations)
    seen = listed_by_launch(operations, instances)
    return sum(
        max(0, operation.expected - seen[operation.id])
        for operation in operations
        if isinstance(operation, Launch) and operation.pool == pool
    )


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


def ailments(seen: Observation, policy: Policy) -> Mapping[str, str]:
    """Ready but unhealthy nodes with the cause: lasting pressure, or pods that crash on this node only."""
    if isinstance(seen.kubernetes, Missing):
        return {}
    found = {}
    crashing = _crashing(seen.kubernetes.pods or ())
    for node in seen.kubernetes.nodes:
        rules = policy.pool(node.pool) if node.pool else None
        if rules is None or not node.ready:
            continue
        why = _describe_pressure(node, rules.health, seen.at) or _crashes_here(
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
                for instance in (*operation.instances, *operation.starts):
                    targets.setdefault(
                        instance, operation
                    )  # a removal or cleanup of the instance takes precedence over its launch
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
    def of(cls, seen: Observation, policy: Policy) -> "_PhaseResolver":
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


# ── capacity and losses ──────────────────────────────────────────────────────────────────────────────────────────────
# The capacity of a pool, the workers that count against max, and the workers lost since the last iteration.


_FAILED = (Phase.JOIN_FAILED, Phase.UNHEALTHY)


def count_workers(workers: Sequence[Worker], seen: Observation, pool: str) -> Count:
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    unseen = unseen_launches(seen.operations, instances, pool)
    return Count(
        ready=sum(worker.is_capacity and worker.phase in READY_OR_NEARLY for worker in workers),
        booting=sum(worker.is_capacity and worker.phase is Phase.BOOTING for worker in workers) + unseen,
        leaving=sum(worker.phase in LEAVES for worker in workers),
        interrupted=sum(worker.phase is Phase.INTERRUPTED for worker in workers),
        failed=sum(worker.phase in _FAILED for worker in workers),
        occupied=sum(worker.occupies for worker in workers) + unseen,
    )


def fleet_occupied(fleet: Sequence[Worker], seen: Observation, policy: Policy, memory: Memory) -> int:
    """The number that counts against fleet.max: workers with and without a pool, requested instances that EC2 does not
    list yet, and, for a while, members that EC2 no longer lists."""
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    asking = {each.pool for each in seen.operations if isinstance(each, Launch)}
    unseen = sum(unseen_launches(seen.operations, instances, pool) for pool in asking)
    gone = sum(
        len(vanished_members([w for w in fleet if w.pool == pool.name], pool, seen, memory.pool(pool.name)))
        for pool in policy.pools
    )
    return sum(worker.occupies for worker in fleet) + unseen + gone


def vanished_members(
    workers: Sequence[Worker], pool: Pool, seen: Observation, before: PoolMemory
) -> dict[str, datetime]:
    """Members of the pool that EC2 does not list, and since when; while EC2 is unavailable, the previous ones."""
    if isinstance(seen.instances, Missing):
        return dict(before.vanished)
    return find_vanished(workers, before.members, before.vanished, seen.at, pool.budgets.cleanup_after)


def find_vanished(
    workers: Sequence[Worker], members: Sequence[str], before: Mapping[str, datetime], now: datetime, doubt: timedelta
) -> dict[str, datetime]:
    """Members that disappeared from EC2's list without being shown as terminated, and since when.

    EC2 lists terminated instances for about an hour, so the list may be stale: for the time `doubt` these members still
    count against max.
    """
    shown = {worker.id for worker in workers}
    since = {**dict.fromkeys(members, now), **before}
    return {identity: at for identity, at in since.items() if identity not in shown and now - at < doubt}


def count_covered(workers: Sequence[Worker], sample: Sample) -> int:
    """The number of ready workers that were ready at the time of the reading, which describes only them."""
    ready = [worker for worker in workers if worker.is_capacity and worker.phase in READY_OR_NEARLY]
    if not isinstance(sample, Reading):
        return len(ready)
    return sum(_was_ready(worker, sample.at) for worker in ready)


def _was_ready(worker: Worker, at: datetime) -> bool:
    since = worker.node.ready_changed_at if worker.node else None
    return since is None or worker.phase is Phase.UNREADY or since <= at


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMembers:
    """The workers that are capacity now, and the losses: former members that have to be replaced."""

    members: tuple[str, ...]
    losses: tuple[Loss, ...]


def track_members(
    workers: Sequence[Worker],
    before: Sequence[str],
    losses: Sequence[Loss],
    now: datetime,
    looked_at: datetime | None = None,
) -> PoolMembers:
    """Update members and losses. A loss is a worker that neither we removed nor an operator holds back; it is replaced.

    `before` are the members at the last iteration. A worker that was launched after it and is already interrupted
    counts as one of them.
    """
    by_id = {worker.id: worker for worker in workers}
    before = [*before, *(worker.id for worker in workers if _came_and_goes(worker, looked_at))]
    members = tuple(worker.id for worker in workers if worker.is_capacity)
    present = frozenset(members)
    open_losses = [loss for loss in losses if loss.worker not in present and (not loss.expires or now < loss.expires)]
    known = {loss.worker for loss in open_losses}
    for identity in before:
        worker = by_id.get(identity)
        if identity not in present and identity not in known and not _went_by_will(worker):
            cause = worker.phase.value if worker else Phase.GONE.value
            open_losses.append(Loss(worker=identity, at=now, cause=cause))
    return PoolMembers(members=members, losses=tuple(open_losses))


def _came_and_goes(worker: Worker, looked_at: datetime | None) -> bool:
    came_since = bool(looked_at and worker.instance and worker.instance.launched_at > looked_at)
    return came_since and worker.phase is Phase.INTERRUPTED


def _went_by_will(worker: Worker | None) -> bool:
    if worker is None:
        return False
    leaving = (
        isinstance(worker.operation, Removal) and worker.operation.why is RemovalReason.VOLUNTARY and not worker.notice
    )
    return leaving or worker.held_by_person


# ── amounts under the caps of the fleet ──────────────────────────────────────────────────────────────────────────────


Amounts = Mapping[str, float]  # by cap: cpu, memory, gpus, usd_per_hour

_GIB = 1 << 30
_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
_ROUNDING = 1e-9  # of sums of prices
_CAPPED = ("cpu", "memory", "gpus", "usd_per_hour")


def caps_of(limits: FleetLimits) -> Amounts:
    """The caps that the policy sets."""
    return {name: limit for name in _CAPPED if (limit := getattr(limits, name)) is not None}


def amounts_in_use(fleet: Sequence[Worker], seen: Observation, policy: Policy, memory: Memory) -> Amounts:
    """What all workers count against the caps, with the launches that EC2 does not show yet and, for a while, the
    members that it shows no longer: those as the largest of their pool's types. Empty without caps."""
    if not caps_of(policy.fleet):
        return {}
    catalog = {offer.name: offer for offer in seen.catalog}
    used: Counter[str] = Counter()
    for worker in fleet:
        if worker.occupies and worker.instance:
            used.update(amounts_of([worker.instance.type], catalog, worker.instance.market))
        elif worker.occupies:
            used.update(largest_of(policy.pool(worker.pool), catalog))
    for pool in policy.pools:
        own = [worker for worker in fleet if worker.pool == pool.name]
        for _ in vanished_members(own, pool, seen, memory.pool(pool.name)):
            used.update(largest_of(pool, catalog))
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    shown = listed_by_launch(seen.operations, instances)
    for operation in seen.operations:
        if isinstance(operation, Launch):
            for _ in range(max(0, operation.expected - shown[operation.id])):
                used.update(amounts_of(operation.types, catalog, operation.market))
    return used


def exceeds_caps(fleet: Sequence[Worker], seen: Observation, policy: Policy, memory: Memory) -> bool:
    """Whether all workers together, requested ones included, have more of something than the policy's caps."""
    used = amounts_in_use(fleet, seen, policy, memory)
    return any(used[name] > cap + _ROUNDING for name, cap in caps_of(policy.fleet).items())


def largest_of(pool: Pool | None, catalog: Mapping[str, InstanceType]) -> Counter[str]:
    """Of a node of the pool that is not there yet, or whose type is not shown."""
    return amounts_of(pool.market.types if pool else (), catalog, Market.ON_DEMAND)


def amounts_of(types: Sequence[str], catalog: Mapping[str, InstanceType], market: Market) -> Counter[str]:
    """Of one instance of the type that takes most; nothing of types that the catalogue does not have."""
    known = [catalog[name] for name in types if name in catalog]
    return Counter(
        {
            "cpu": max((each.resources.cpu / 1000 for each in known), default=0.0),
            "memory": max((each.resources.memory / _GIB for each in known), default=0.0),
            "gpus": max((sum(each.resources.extended.get(gpu, 0) for gpu in _GPUS) for each in known), default=0),
            "usd_per_hour": max((_price(each, market) for each in known), default=0.0),
        }
    )


def _price(offer: InstanceType, market: Market) -> float:
    spot = offer.spot_usd if market is Market.SPOT else None
    return spot if spot is not None else offer.hourly_usd or 0.0


# ── market shares ────────────────────────────────────────────────────────────────────────────────────────────────────


def on_demand_share(total: int, mix: MarketMix) -> int:
    """How many of `total` nodes are On-Demand: at least the base, and what Spot's share leaves (halves go to Spot)."""
    spot = int(mix.spot_percent * total / 100 + 0.5)
    return min(total, max(mix.on_demand_base, total - spot))


def market_of(worker: Worker) -> Market | None:
    return worker.instance.market if worker.instance else None


def on_demand_of(workers: Iterable[Worker]) -> int:
    return sum(market_of(worker) is Market.ON_DEMAND for worker in workers)


def above_share(workers: Sequence[Worker], mix: MarketMix) -> Market | None:
    """The market to remove a node from: the one above its share of a fleet that is smaller by one node."""
    if not workers:
        return None
    kept = on_demand_share(len(workers) - 1, mix)
    return Market.ON_DEMAND if on_demand_of(workers) > kept else Market.SPOT


# ── peaks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def with_peak(peaks: Mapping[str, int], capacity: int, pool: Pool, now: datetime) -> dict[str, int]:
    """The highest capacity of each day, today included, for as many days as a rule or the headroom needs."""
    days = max((rule.peak_days for rule in pool.custom if isinstance(rule, ClearTime) and rule.warm_percent), default=0)
    if pool.headroom.peak_percent:
        days = max(days, pool.headroom.peak_days)
    if not days:
        return {}
    today, since = now.date().isoformat(), (now - timedelta(days=days)).date().isoformat()
    kept = {day: nodes for day, nodes in peaks.items() if day >= since}
    return {**kept, today: max(capacity, kept.get(today, 0))}


# ── size of the fleet ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSize:
    """The size of the fleet, as input to every signal besides its own readings."""

    now: datetime
    covered: int  # ready workers that the readings cover
    measured: int | None = None  # those of them whose exporters answer: readings are their mean; None: all
    capacity: int  # ready and booting workers
    peaks: Mapping[str, int] = field(default_factory=dict)  # the highest capacity of the last days, by UTC date
