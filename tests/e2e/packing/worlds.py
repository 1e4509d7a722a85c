"""One workload's corner of the control plane, with the shipped loop at work in it.

Kubernetes is real; the instances behind the nodes are the world's own, and the table is the simulation's. All pods of a
world carry its label in their node selector, so that worlds do not meet though they share a scheduler.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.client import Api, Transport
from nodefleet.adapters.kubernetes.resources import BUDGETS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, Resource
from nodefleet.model.operations import Operation
from nodefleet.model.snapshot import ClusterView, Observation, PoolReadings, Reading
from nodefleet.model.workload import Pod, PodPhase
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Lease
from nodefleet.reconcile.audit import CycleResult
from nodefleet.reconcile.observe import resolve_policy
from nodefleet.reconcile.run import reconcile_once
from nodefleet.scheduling.packing import PackingResult, pack_pools, packing_input
from nodefleet_tools.sim.world import World as SimulatedWorld
from support.lower_bound import lower_bound

from .machines import Machines, utc_now
from .workloads import WORLD_LABEL, App, Workload

_RUN = timedelta(hours=1)  # as long as a test may take, on a busy computer too; real runs are shorter
_OWNER = "e2e"
_KINDS = {"Deployment": DEPLOYMENTS, "DaemonSet": DAEMON_SETS}
_BACKGROUND = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}


class Corner(KubernetesCluster):
    """What the shipped adapter read, as far as it is this world's."""

    def __init__(self, client: Transport, workload: Workload, whole: Callable[[], ClusterView]) -> None:
        super().__init__(client)
        self._workload = workload
        self._whole = whole

    def view(self) -> ClusterView:
        whole, names = self._whole(), self._workload.namespaces
        return ClusterView(
            nodes=tuple(node for node in whole.nodes if node.labels.get(WORLD_LABEL) == self._workload.name),
            pods=tuple(pod for pod in whole.pods or () if pod.namespace in names),
            budgets=tuple(budget for budget in whole.budgets if budget.namespace in names),
            daemon_sets=tuple(each for each in whole.daemon_sets if each.namespace in names),
        )


class RealTime:
    def now(self) -> datetime:
        return utc_now()

    def remaining(self) -> timedelta:
        return _RUN

    def sleep(self, duration: timedelta) -> None:  # noqa: ARG002  # the port's
        raise AssertionError("single iterations do not wait")


class Gauges:
    """What Prometheus would say of every pool."""

    calm = False  # a node could be spared; otherwise nothing asks for more or fewer of them

    def read(
        self,
        policy: Policy,
        now: datetime,
        within: timedelta,  # noqa: ARG002
        known: Mapping[str, datetime] | None = None,  # noqa: ARG002
    ) -> Mapping[str, PoolReadings]:
        cpu, memory = (2.0, 3.0) if self.calm else (50.0, 60.0)
        readings = PoolReadings(cpu=Reading(cpu, now), memory=Reading(memory, now))
        return {pool.name: readings for pool in policy.pools}


class World:
    """`whole` gives what the adapter sees of the whole cluster; worlds that are at rest may share one iteration."""

    def __init__(self, workload: Workload, client: Transport, whole: Callable[[], ClusterView]) -> None:
        self.workload = workload
        self._api = Api(client)
        self._numbers = count(1)
        simulated = SimulatedWorld(
            name=workload.name, policy=workload.policy, zones=workload.zones, founded=False, start=utc_now()
        )
        self.policy = simulated.policy
        self.machines = Machines(self._api, workload.name, self.policy, {WORLD_LABEL: workload.name})
        self.cluster = Corner(client, workload, whole)
        self.gauges = Gauges()
        self._parts = replace(
            simulated.parts(_OWNER),
            time=RealTime(),
            cloud=self.machines,
            cluster=self.cluster,
            gauges=self.gauges,
        )
        now = utc_now()
        lease = self._parts.store.acquire(_OWNER, now, now + _RUN, timedelta(0))
        assert isinstance(lease, Lease)
        self._lease = lease

    # ── the workload ─────────────────────────────────────────────────────────────────────────────────────────────

    def found(self) -> None:
        """Namespaces, the control plane's node, the workers that stand, and what runs on them."""
        for name in self.workload.namespaces:
            self._api.do(NAMESPACES.create({"metadata": {"name": name}}))
        self.machines.server(self.workload.zones[0])
        for each in self.workload.standing:
            self.machines.start(each.pool, each.zone, each.type, each.market)
        for budget in self.workload.budgets:
            self._api.do(BUDGETS.create(budget, budget["metadata"]["namespace"]))
        self.create(self.workload.settled)

    def create(self, apps: Sequence[App]) -> None:
        for app in apps:
            manifest = self.workload.manifest(app)
            self._api.do(_KINDS[manifest["kind"]].create(manifest, app.namespace))

    def delete(self, apps: Sequence[App]) -> None:
        for app in apps:
            self._api.do(self._kind(app).delete(app.name, _BACKGROUND, app.namespace))

    def end(self) -> None:
        """Nothing of it stays behind."""
        for name in self.workload.namespaces:
            self._api.ask(NAMESPACES.delete(name, {}))
        for machine in self.machines.instances():
            self.machines.vanish(machine.id)

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> CycleResult:
        """One iteration of the shipped loop: it sees, decides, and does what it decided."""
        state = self._parts.store.state()
        rules = resolve_policy(state, self._parts.policies, self._parts.time.now())
        return reconcile_once(self._parts, self._lease, state, rules, next(self._numbers))

    @property
    def under_way(self) -> tuple[Operation, ...]:
        return self._parts.store.state().operations

    def packed(self, seen: Observation) -> PackingResult:
        """What packing says about an iteration, in full: a decision only has its sums."""
        found = packing_input(seen, self.policy, derive_workers(seen, self.policy))
        assert found is not None, "the pods were seen"
        return pack_pools(found)

    # ── how it stands ────────────────────────────────────────────────────────────────────────────────────────────

    def pods(self, apps: Sequence[App] | None = None) -> list[Pod]:
        """Those that are not going, without daemons; of these apps, or of all."""
        names = None if apps is None else {app.name for app in apps}
        return [
            pod
            for pod in self.cluster.view().pods or ()
            if pod.deleted_at is None and not pod.is_daemon and (names is None or pod.labels.get("app") in names)
        ]

    def workers(self) -> set[str]:
        return {node.name for node in self.cluster.view().nodes if node.pool is not None}

    def fullness(self) -> float:
        """The share of the workers' scarcer resource that pods ask for."""
        view = self.cluster.view()
        offered = [node.allocatable for node in view.nodes if node.pool is not None]
        names = {node.name for node in view.nodes if node.pool is not None}
        asked = [pod.requests for pod in view.pods or () if pod.node in names and not pod.finished]
        return max(
            sum(each.cpu for each in asked) / sum(each.cpu for each in offered),
            sum(each.memory for each in asked) / sum(each.memory for each in offered),
        )

    def bound(self) -> int:
        """Workers that no packing of their pods can do without; all are of one size."""
        view = self.cluster.view()
        workers = {node.name: node.allocatable for node in view.nodes if node.pool is not None}
        pods = [pod for pod in view.pods or () if pod.node in workers and not pod.finished and not pod.is_daemon]
        (cpu,), (memory,) = ({getattr(each, name) for each in workers.values()} for name in ("cpu", "memory"))
        return lower_bound([(pod.requests.cpu, pod.requests.memory) for pod in pods], cpu, memory)

    def waiting(self) -> list[Pod]:
        return [pod for pod in self.pods() if pod.phase is not PodPhase.RUNNING]

    def _kind(self, app: App) -> Resource:
        return DAEMON_SETS if app.daemon else DEPLOYMENTS
