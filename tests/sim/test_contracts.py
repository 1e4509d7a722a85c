"""The simulated ports behave as the real adapters do: the same suites, on the simulation."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from threading import Lock

import pytest

from contracts.cloud_contract import CloudContract
from contracts.cluster_contract import WEB, ClusterContract, Said
from contracts.store_contract import SHOP, StoreContract
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.inventory import Market, Node, Taint
from nodefleet.model.names import ROLE_WORKER
from nodefleet.model.operations import Launch, PodRef
from nodefleet.model.snapshot import Deployment
from nodefleet.model.workload import Budget, Pod, PodPhase, Selector
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.instances import CloudSettings
from nodefleet_tools.sim.store import SimStore
from nodefleet_tools.sim.table import Table
from nodefleet_tools.sim.world import ZONES, World
from support.operation_builders import launch

DAY = timedelta(days=1)


class SimCloudWorld:
    lacks = frozenset()

    def __init__(self) -> None:
        self.world = World(founded=False, cloud=CloudSettings(shows_in=(1, 5), read_lag=2))
        self.cluster = self.world.name
        self.cloud = self.world.parts(limit=DAY).cloud

    def launch(self, **changes: object) -> Launch:
        base = launch(
            zone=ZONES[0],
            subnet=f"subnet-{ZONES[0]}",
            template="lt-default",
            market=Market.ON_DEMAND,
            types=("t3.small",),
        )
        return replace(base, **changes)

    def machine(self, cluster: str, role: str | None) -> str:
        machine = self.world.ec2.start(
            pool="",
            zone=ZONES[0],
            type_="t3.small",
            market=Market.ON_DEMAND,
            by="somebody",
            worker=role == ROLE_WORKER,
            ours=cluster == self.cluster,
        )
        return machine.id

    def is_up(self, identity: str) -> bool:
        return self.world.ec2.machines[identity].live

    def exhaust(self, type_: str, market: Market) -> None:
        self.world.shop.refuse(type_=type_, zone=ZONES[0], market=market)

    def settle(self) -> None:
        self.world.advance(60)


class TestSimCloud(CloudContract):
    @pytest.fixture
    def world(self) -> SimCloudWorld:
        return SimCloudWorld()


class SimClusterWorld:
    namespace = "default"

    def __init__(self) -> None:
        self.world = World(founded=False)
        self.world.settle()
        self.cluster = self.world.parts(limit=DAY).cluster

    def node(
        self,
        name: str,
        *,
        instance: str = "i-1",
        pool: str | None = "default",
        ready: bool = True,
        control_plane: bool = False,
        taints: tuple[Taint, ...] = (),
    ) -> None:
        node = Node(name=name, instance=instance, pool=pool, ready=ready, control_plane=control_plane, taints=taints)
        self.world.kube.put_node(node)
        self.world.kubelets.alive.add(name)

    def pod(
        self,
        name: str,
        *,
        node: str | None = "w1",
        labels: Mapping[str, str] = WEB,
        phase: PodPhase = PodPhase.RUNNING,
        ready: bool = True,
    ) -> PodRef:
        uid = self.world.kube.new_uid()
        pod = Pod(namespace=self.namespace, name=name, uid=uid, node=node, labels=labels, phase=phase, ready=ready)
        self.world.kube.put_pod(pod)
        return PodRef(namespace=self.namespace, name=name, uid=uid)

    def replaced(self, pod: PodRef) -> PodRef:
        self.world.kube.drop_pod(self.world.kube.pods[f"{pod.namespace}/{pod.name}"])
        return self.pod(pod.name)

    def budget(self, name: str, *, needs: int, labels: Mapping[str, str] = WEB) -> None:
        budget = Budget(namespace=self.namespace, name=name, selector=Selector(labels=labels), min_available=str(needs))
        self.world.kube.budgets[budget.key] = budget

    def namespace_ends(self) -> None:
        self.world.kube.closing.add(self.namespace)

    def person_cordons(self, node: str) -> None:
        self.world.operator.cordon(node)

    def person_uncordons(self, node: str) -> None:
        self.world.operator.uncordon(node)

    def events_on(self, node: str) -> list[Said]:
        return [
            Said(reason=note.reason, message=note.message, count=count, warning=note.warning)
            for note, count in self.world.kube.notes.items()
            if note.node == node
        ]


class TestSimCluster(ClusterContract):
    @pytest.fixture
    def world(self) -> SimClusterWorld:
        return SimClusterWorld()


class OneAtATime:
    """The simulation has no threads of its own, so the suite's take turns."""

    def __init__(self, port: object, turn: Lock) -> None:
        self._port, self._turn = port, turn

    def __getattr__(self, name: str) -> object:
        def called(*arguments: object, **options: object) -> object:
            with self._turn:
                return getattr(self._port, name)(*arguments, **options)

        return called


class SimStoreWorld:
    def __init__(self) -> None:
        self.world = World(founded=False)
        self.tables = defaultdict(lambda: Table(self.world.clock))
        self.turn = Lock()

    def store(self, cluster: str = SHOP) -> OneAtATime:
        run = Run(name="r", limit=self.world.now + DAY)
        return OneAtATime(SimStore(self.tables[cluster], self.world.guard, run), self.turn)

    def history(self, cluster: str = SHOP) -> OneAtATime:
        return self.store(cluster)

    def declare(self, declared: PolicyVersion, deployment: Deployment, cluster: str = SHOP) -> None:
        self.tables[cluster].put_policy(declared, "declared")
        self.tables[cluster].put("deployment", "", deployment)


class TestSimStore(StoreContract):
    @pytest.fixture
    def world(self) -> SimStoreWorld:
        return SimStoreWorld()
