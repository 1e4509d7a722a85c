"""The core against a tiny world: what is decided is carried out, and what comes of it is looked at again."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.model.inventory import Instance, InstanceState, Market, Node, Notice, NoticeKind, Resources
from nodefleet.model.operations import (
    CancelRemoval,
    Close,
    Cordon,
    Create,
    DeleteNode,
    Evict,
    ForceDelete,
    MarkFailed,
    Operation,
    Save,
    SendAlert,
    SendLaunch,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import ClusterView, Observation, PoolReadings, Reading
from nodefleet.model.state import Memory
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Pod
from nodefleet.operations.advance import advance
from nodefleet.operations.launch import record_answer
from nodefleet.operations.progress import apply_feedback
from nodefleet.operations.removal import cancel_removal
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool
from support.builders import CATALOG, GIB, NOON, SMALL, TARGET, only, pod, waiting

JOIN = timedelta(seconds=90)
TICK = timedelta(seconds=120)


@dataclass
class World:
    """Instances join after a while, pods go where there is room, evicted pods come back as waiting ones."""

    policy: Policy
    now: datetime = NOON
    demand: int = 0  # replicas of the shop, a core each
    per_replica: float = 40.0  # CPU percent of a node that a replica uses
    never_join: bool = False
    instances: dict[str, Instance] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    told: list[SendAlert] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def look(self) -> Observation:
        self._live()
        running = [node for node in self.nodes.values() if node.ready]
        used = len([each for each in self.pods.values() if each.node]) * self.per_replica
        cpu = min(100.0, used / len(running)) if running else 0.0
        return Observation(
            at=self.now,
            run=f"{self.now:%H%M%S}",
            instances=tuple(self.instances.values()),
            kubernetes=ClusterView(nodes=tuple(self.nodes.values()), pods=tuple(self.pods.values())),
            readings={"default": PoolReadings(cpu=Reading(cpu, self.now), memory=Reading(30, self.now))},
            operations=tuple(self.operations.values()),
            notices=tuple(self.notices),
            targets=(TARGET,),
            catalog=CATALOG,
        )

    def turn(self) -> None:
        """One run: what is under way first, then the decision."""
        seen = self.look()
        lessons = []
        for operation in seen.operations:
            progress = advance(operation, seen, self.policy)
            lessons += progress.lessons
            self._take(progress.steps)
        self.memory = apply_feedback(self.memory, lessons, self.policy, self.now)
        decision = decide(self.look(), self.memory, self.policy)
        self.memory = decision.memory
        self._take(only(decision).plan)
        for step in only(decision).plan:
            if isinstance(step, Create):
                self._take(advance(step.operation, self.look(), self.policy).steps)
        self.sizes.append(only(decision).count.capacity)
        alive = [each for each in self.instances.values() if each.state is InstanceState.RUNNING]
        doomed = {notice.instance for notice in self.notices}
        assert len([each for each in alive if each.id not in doomed]) <= self.policy.pools[0].limits.max

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.turn()
            self.now += TICK

    def interrupt(self, identity: str) -> None:
        self.notices.append(Notice(instance=identity, kind=NoticeKind.SPOT_INTERRUPTION, at=self.now))

    def _live(self) -> None:
        for instance in self.instances.values():
            taken = any(n.instance == instance.id and self.now - n.at >= timedelta(seconds=120) for n in self.notices)
            if taken or instance.state is InstanceState.SHUTTING_DOWN:
                self.instances[instance.id] = replace(instance, state=InstanceState.TERMINATED)
                self._lose_pods(instance.id)
            elif self.now - instance.launched_at >= JOIN and not self.never_join:
                self._join(instance)
        for number in range(self.demand):
            name = f"shop-{number}"
            self.pods.setdefault(name, waiting(name, requests=Resources(cpu=1000, memory=GIB // 4)))
        self.pods = {name: each for name, each in self.pods.items() if int(name.split("-")[1]) < self.demand}
        for name, each in self.pods.items():
            if each.node is None:
                self._schedule(name)

    def _join(self, instance: Instance) -> None:
        name = instance.id.replace("i-", "w")
        if name not in self.nodes and instance.state is InstanceState.RUNNING:
            labels = {ZONE_LABEL: instance.zone, TYPE_LABEL: "t3.small", HOST_LABEL: name}
            self.nodes[name] = Node(
                name=name,
                instance=instance.id,
                ready_changed_at=instance.launched_at + JOIN,
                labels=labels,
                allocatable=SMALL,
            )

    def _lose_pods(self, identity: str) -> None:
        gone = {node.name for node in self.nodes.values() if node.instance == identity}
        for name, each in list(self.pods.items()):
            if each.node in gone:
                del self.pods[name]
        for name in gone:
            self.nodes[name] = replace(self.nodes[name], ready=False, ready_changed_at=self.now)

    def _schedule(self, name: str) -> None:
        for node in self.nodes.values():
            load = sum(each.node == node.name for each in self.pods.values())
            if node.ready and not node.cordoned and load < 2:
                self.pods[name] = pod(name, node.name, requests=Resources(cpu=1000, memory=GIB // 4))
                return

    def _take(self, steps) -> None:
        for step in steps:
            match step:
                case Create(operation) | Save(operation):
                    self.operations[operation.id] = operation
                case Close():
                    del self.operations[step.operation]
                case SendLaunch(launch):
                    self._launch(launch)
                case Cordon():
                    self.nodes[step.node] = replace(self.nodes[step.node], cordoned=True, removal=step.removal)
                case Uncordon(node, removal):
                    assert self.nodes[node].removal == removal
                    self.nodes[node] = replace(self.nodes[node], cordoned=False, removal="")
                case Evict() | ForceDelete():
                    for ref in step.pods:
                        assert self.pods[ref.name].node == step.node
                        del self.pods[ref.name]
                case Terminate(instance):
                    held = {node.name for node in self.nodes.values() if node.instance == instance}
                    assert not [each for each in self.pods.values() if each.node in held], "terminated with pods on it"
                    self.instances[instance] = replace(self.instances[instance], state=InstanceState.SHUTTING_DOWN)
                case DeleteNode(node):
                    del self.nodes[node]
                case MarkFailed(instance):
                    self.instances[instance] = replace(self.instances[instance], failed=True)
                case CancelRemoval():
                    self.operations[step.operation] = cancel_removal(self.operations[step.operation], step.reason)
                case SendAlert():
                    self.told.append(step)

    def _launch(self, launch) -> None:
        made = [f"i-{len(self.instances) + number + 1:03}" for number in range(launch.count)]
        for identity in made:
            self.instances[identity] = Instance(
                id=identity, zone=launch.zone, market=launch.market, launched_at=self.now, operation=launch.id
            )
        self.operations[launch.id] = record_answer(launch, made, [], self.now)

    @property
    def ready(self) -> int:
        return sum(node.ready and not node.cordoned for node in self.nodes.values())


def world(**changes) -> World:
    policy = Policy(pools=(Pool(limits=Limits(min=2, max=6)),))
    return World(policy=policy, **changes)


def test_from_nothing_to_min():
    here = world()
    here.run(4)
    assert (here.ready, here.operations) == (2, {})
    assert {each.market for each in here.instances.values()} == {Market.SPOT, Market.ON_DEMAND}
    assert {each.zone for each in here.instances.values()} == {"a", "b"}


def test_a_flash_sale_is_met_and_the_nodes_are_given_back():
    here = world(demand=2)
    here.run(5)
    here.demand = 10
    here.run(15)
    assert (here.ready, len([each for each in here.pods.values() if each.node])) == (
        6,
        10,
    )  # five hold them, at 80 % CPU
    here.demand = 1
    here.run(60)
    assert (here.ready, here.operations) == (2, {})
    assert len(here.nodes) == 2


def test_an_interrupted_worker_is_replaced_within_five_minutes():
    here = world(demand=3)
    here.run(6)
    spot = next(each.id for each in here.instances.values() if each.market is Market.SPOT)
    here.interrupt(spot)
    began = here.now
    while here.ready < 2 or here.instances[spot].state is not InstanceState.TERMINATED:
        here.run(1)
        assert here.now - began <= timedelta(minutes=5)
    here.run(5)
    assert (here.operations, here.ready) == ({}, 2)


def test_machines_that_never_join_do_not_multiply():
    here = world(never_join=True)
    here.run(60)
    alive = [each for each in here.instances.values() if each.state is InstanceState.RUNNING]
    assert len(alive) <= 4
    assert len(here.instances) < 30
    assert "join-failed" in {tell.alert.value for tell in here.told}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_load_does_it_settles(seed):
    here = world(demand=2)
    here.run(4)
    for step in range(6):
        here.demand = (seed * 7 + step * 5) % 11
        here.run(4 + (seed + step) % 5)
    here.demand = 4
    here.run(70)
    assert here.operations == {}
    assert len(set(here.sizes[-20:])) == 1, here.sizes
    assert all(each.node for each in here.pods.values())
    assert not [node for node in here.nodes.values() if node.cordoned]


def test_a_person_who_terminates_a_worker_gets_it_replaced():
    here = world(demand=4, per_replica=20.0)
    here.run(6)
    victim = next(iter(here.instances))
    here.instances[victim] = replace(here.instances[victim], state=InstanceState.SHUTTING_DOWN)
    here.run(8)
    assert (here.ready, here.operations) == (2, {})
    assert len(here.nodes) == 2
