"""The two timelines that the system was described with, played through the core.

A stage stands in for the world: a launched instance is a ready node 100 seconds later, a removed worker is gone at
the next row, an interrupted one when EC2 takes it. Everything that is decided is decided by the shipped code.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from nodefleet.engine.decide import decide
from nodefleet.model.decision import Decision
from nodefleet.model.inventory import Instance, InstanceState, InstanceType, Market, Node, Notice, NoticeKind, Resources
from nodefleet.model.operations import Create, Launch, Operation, Removal, RemovalReason
from nodefleet.model.snapshot import ClusterView, LaunchTarget, Observation, PoolReadings, Reading
from nodefleet.model.state import Memory
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Owner, Pod, PodPhase
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool

ZONES = ("ap-southeast-1a", "ap-southeast-1b")
JOINS_AFTER = timedelta(seconds=100)
SMALL = Resources(cpu=2000, memory=2 << 30, pods=30)
BIG_POD = Resources(cpu=1500, memory=1 << 30)  # one fills a node
OWNER = Owner(kind="ReplicaSet", name="shop", uid="rs-shop", replicas=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What the world shows at one time of day."""

    at: datetime
    cpu: float
    pending: int = 0
    pods_per_node: int = 1
    notice: bool = False  # EC2 takes a Spot worker
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    name: str
    policy: Policy
    workers: Sequence[Market]
    memory_percent: float
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A row, what was seen, and what was decided on it."""

    row: Row
    seen: Observation
    decision: Decision


def _time(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-16T{clock}:00").replace(tzinfo=UTC)


def flash_sale() -> Timeline:
    """20:00 the sale begins: two nodes more at 20:04, one fewer at 20:40."""
    first = [(35, 0), (65, 0), (82, 3), (85, 8), (78, 2), (68, 0)]
    rows = [
        Row(at=_time(f"20:{minute:02}"), cpu=cpu, pending=pending)
        for minute, (cpu, pending) in zip(range(0, 12, 2), first, strict=True)
    ]
    calmer = [(minute, 40.0) for minute in range(12, 32, 2)] + [(minute, 28.0) for minute in range(32, 42, 2)]
    rows += [Row(at=_time(f"20:{minute:02}"), cpu=cpu, pods_per_node=0) for minute, cpu in calmer]
    return Timeline(
        name="Flash sale",
        policy=Policy(),
        workers=[Market.ON_DEMAND, Market.SPOT, Market.SPOT],
        memory_percent=40,
        rows=rows,
    )


def spot_interruption() -> Timeline:
    """10:02 EC2 takes a Spot worker of four, where four is the least: its replacement is launched in the same run."""
    rows = [
        Row(at=_time("10:00"), cpu=55),
        Row(at=_time("10:02"), cpu=55, notice=True, note="Spot warning"),
        Row(at=_time("10:04"), cpu=66),
        Row(at=_time("10:06"), cpu=56),
    ]
    return Timeline(
        name="Spot interruption",
        policy=Policy(pools=(Pool(limits=Limits(min=4)),)),
        workers=[Market.ON_DEMAND, Market.SPOT, Market.SPOT, Market.SPOT],
        memory_percent=40,
        rows=rows,
    )


TIMELINES = (flash_sale, spot_interruption)


def play(timeline: Timeline) -> Iterator[Played]:
    """Each row with its decision, in the order of time."""
    stage = _Stage(timeline)
    memory = Memory()
    for row in timeline.rows:
        seen = stage.seen(row)
        decision = decide(seen, memory, timeline.policy)
        memory = decision.memory
        stage.carry_out(decision, row.at)
        yield Played(row=row, seen=seen, decision=decision)


@dataclass
class _Stage:
    timeline: Timeline
    instances: dict[str, Instance] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def __post_init__(self) -> None:
        began = self.timeline.rows[0].at - timedelta(days=1)
        for market in self.timeline.workers:
            self._add(began, market, ZONES[len(self.instances) % len(ZONES)], "")

    def seen(self, row: Row) -> Observation:
        if row.notice:
            taken = next(each for each in self.instances.values() if each.market is Market.SPOT)
            self.notices.append(Notice(instance=taken.id, kind=NoticeKind.SPOT_INTERRUPTION, at=row.at))
        self._let_time_pass(row.at)
        nodes = [self._node(each) for each in self.instances.values() if row.at - each.launched_at >= JOINS_AFTER]
        return Observation(
            at=row.at,
            cluster="demo",
            run=f"{row.at:%H%M}",
            instances=tuple(self.instances.values()),
            kubernetes=ClusterView(nodes=tuple(nodes), pods=tuple(_pods(row, nodes))),
            readings={
                "default": PoolReadings(
                    cpu=Reading(row.cpu, row.at),
                    memory=Reading(self.timeline.memory_percent, row.at),
                    nodes=Reading(len(nodes), row.at),
                )
            },
            operations=tuple(self.operations),
            notices=tuple(self.notices),
            targets=(LaunchTarget(template="lt-demo", subnets={zone: f"subnet-{zone[-2:]}" for zone in ZONES}),),
            catalog=(InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.0264),),
        )

    def carry_out(self, decision: Decision, now: datetime) -> None:
        for step in (step for pool in decision.pools for step in pool.plan if isinstance(step, Create)):
            operation = step.operation
            if isinstance(operation, Launch):
                for _ in range(operation.count):
                    self._add(now, operation.market, operation.zone, operation.id)
            elif isinstance(operation, Removal):
                self.operations.append(operation)

    def _let_time_pass(self, now: datetime) -> None:
        for operation in [each for each in self.operations if isinstance(each, Removal)]:
            gone = operation.deadline <= now if operation.why is RemovalReason.INTERRUPTED else operation.started < now
            if gone:
                self.operations.remove(operation)
                self.instances.pop(operation.instance)
                self.notices = [each for each in self.notices if each.instance != operation.instance]

    def _add(self, now: datetime, market: Market, zone: str, operation: str) -> None:
        identity = f"i-{len(self.instances) + len(self.operations) + 1:02}"
        self.instances[identity] = Instance(
            id=identity,
            zone=zone,
            market=market,
            launched_at=now,
            state=InstanceState.RUNNING,
            operation=operation,
        )

    def _node(self, instance: Instance) -> Node:
        name = f"worker-{instance.id.removeprefix('i-')}"
        return Node(
            name=name,
            instance=instance.id,
            ready_changed_at=instance.launched_at + JOINS_AFTER,
            labels={ZONE_LABEL: instance.zone, TYPE_LABEL: instance.type, HOST_LABEL: name},
            allocatable=SMALL,
        )


def _pods(row: Row, nodes: Sequence[Node]) -> Iterator[Pod]:
    for node in nodes:
        for number in range(row.pods_per_node):
            yield _pod(f"{node.name}-{number}", node=node.name)
    for number in range(row.pending):
        pod = _pod(f"waiting-{number}", node=None)
        yield replace(pod, phase=PodPhase.PENDING, ready=False, unschedulable_since=row.at)


def _pod(name: str, node: str | None) -> Pod:
    return Pod(name=f"shop-{name}", uid=name, node=node, labels={"app": "shop"}, owner=OWNER, requests=BIG_POD)
