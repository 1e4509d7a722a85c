"""Nodes: a running instance joins after a while, a silent one is not ready after 40 s and stays until it is deleted.

K3s's own cloud controller believes that every instance exists, so only the autoscaler or an operator deletes a
Node.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

from nodefleet.model.inventory import Effect, InstanceState, Node, Resources, Taint
from nodefleet.model.names import CAPACITY_LABEL, CONTROL_PLANE_LABELS, POOL_LABEL
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Pod
from nodefleet.policy.cluster import Policy
from nodefleet_tools.sim.ec2 import Ec2
from nodefleet_tools.sim.instances import LIVE, SimulatedInstance
from nodefleet_tools.sim.kube import Kube
from nodefleet_tools.sim.kubelets import Kubelets

NOT_READY = Taint(key="node.kubernetes.io/not-ready")
UNREACHABLE = (
    Taint(key="node.kubernetes.io/unreachable"),
    Taint(key="node.kubernetes.io/unreachable", effect=Effect.NO_EXECUTE),
)
_ALL_OF_NOT_READY = frozenset({NOT_READY, *UNREACHABLE})
_RENEWED = timedelta(seconds=10)  # how often a kubelet renews its Lease
_FIRST_START = 2  # states until it runs for the first time: pending, running
_STORAGE = 20 << 30
_PODS = 110
_SYSTEM_SHARE = 10  # one part in so many of the memory is not for pods


class Nodes:
    def __init__(self, kube: Kube, kubelets: Kubelets, ec2: Ec2, seed: str) -> None:
        self.policy = Policy()
        self._kube = kube
        self._kubelets = kubelets
        self._ec2 = ec2
        self._clock = kube.clock
        self._seed = seed
        self._silent_since: dict[str, datetime] = {}
        self.clocks: dict[str, timedelta] = {}  # nodes whose own clock is wrong, and by how much
        ec2.listeners.append(self._machine_changed)

    # ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────

    def join_now(self, machine: SimulatedInstance, *, since: timedelta) -> Node:
        """A node that has been there for a while: for setting the scene."""
        at = self._clock.now - since
        node = replace(self._model(machine), ready=True, ready_changed_at=at, created_at=at)
        self._kubelets.alive.add(node.name)
        self._kube.put_node(node)
        return node

    def _machine_changed(self, machine: SimulatedInstance) -> None:
        if machine.state is InstanceState.RUNNING and machine.ours:
            self._plan_join(machine)
        elif machine.state not in LIVE:
            node = self._kube.node_of(machine.id)
            if node is not None:
                self.silence(node.name)

    def _plan_join(self, machine: SimulatedInstance) -> None:
        settings = self._kube.settings
        again = len(machine.states) > _FIRST_START
        purpose = f"join{len(machine.states)}" if again else "join"
        random = Random(f"{self._seed}/{machine.id}/{purpose}")  # noqa: S311  # repeatable on purpose
        fate = random.random()
        if fate < settings.never_joins:
            return
        late = fate < settings.never_joins + settings.joins_late
        usual = settings.rejoins_in if again else settings.joins_in
        joins_in = random.uniform(*(settings.late_in if late else usual))
        ready_in = random.uniform(*settings.ready_in)
        self._clock.after(joins_in, lambda: self._registered(machine, ready_in))

    def _registered(self, machine: SimulatedInstance, ready_in: float) -> None:
        if machine.state is not InstanceState.RUNNING:
            return
        now = self._clock.now
        node = replace(self._model(machine), ready=False, ready_changed_at=now, created_at=now)
        node = replace(node, allocatable=replace(node.allocatable, extended={}))
        self._kube.put_node(replace(node, taints=(*node.taints, NOT_READY)))
        self._kubelets.alive.add(node.name)
        self._clock.after(ready_in, lambda: self._set_ready(node.name, machine.id))

    def _set_ready(self, name: str, instance: str) -> None:
        node = self._kube.nodes.get(name)
        if node is not None and node.instance == instance and name in self._kubelets.alive and not node.ready:
            taints = tuple(taint for taint in node.taints if taint not in _ALL_OF_NOT_READY)
            self._kube.put_node(replace(node, ready=True, ready_changed_at=self._clock.now, taints=taints))
            self._kubelets.report(name, ready=True)
            self._plan_devices(name, instance)

    def _plan_devices(self, name: str, instance: str) -> None:
        """The device plugin of a node that has devices starts some time after it is ready."""
        machine = self._ec2.machines.get(instance)
        if machine is None or not self._ec2.shop.types[machine.type].resources.extended:
            return
        random = Random(f"{self._seed}/{instance}/devices")  # noqa: S311  # repeatable on purpose
        self._clock.after(random.uniform(*self._kube.settings.devices_in), lambda: self._offer_devices(name, machine))

    def _offer_devices(self, name: str, machine: SimulatedInstance) -> None:
        node = self._kube.nodes.get(name)
        if node is not None and node.instance == machine.id:
            extended = self._ec2.shop.types[machine.type].resources.extended
            self._kube.put_node(replace(node, allocatable=replace(node.allocatable, extended=extended)))

    # ── falling silent ───────────────────────────────────────────────────────────────────────────────────────────

    def silence(self, name: str, *, for_seconds: float | None = None) -> None:
        """Its kubelet stops, for good or for a while; the API server notices later."""
        if name not in self._kubelets.alive:
            return
        self._kubelets.fell_silent(name)
        since = self._silent_since[name] = self._clock.now
        self._clock.after(self._kube.settings.heartbeat, lambda: self._missed(name, since))
        if for_seconds is not None:
            self._clock.after(for_seconds, lambda: self.revive(name))

    def heartbeat(self, name: str) -> datetime | None:
        """When its kubelet last renewed its Lease, by its own clock."""
        if name in self._kubelets.alive:
            at = self._clock.now - _RENEWED / 2
        else:
            at = self._silent_since.get(name, self._clock.now)
        return at + self.clocks.get(name, timedelta(0))

    def revive(self, name: str) -> None:
        node = self._kube.nodes.get(name)
        machine = self._ec2.machines.get(node.instance) if node else None
        if node is None or (machine is not None and not machine.live):
            return
        self._kubelets.answers_again(name)
        self._set_ready(name, node.instance)

    def _missed(self, name: str, since: datetime) -> None:
        node = self._kube.nodes.get(name)
        if node is None or name in self._kubelets.alive or not node.ready or since != self._silent_since[name]:
            return
        at = self._clock.now
        self._kube.put_node(replace(node, ready=False, ready_changed_at=at, taints=(*node.taints, *UNREACHABLE)))
        self._kubelets.report(name, ready=False)
        self._clock.after(self._kube.settings.evicts_after, lambda: self._give_up_pods(name))

    def _give_up_pods(self, name: str) -> None:
        node = self._kube.nodes.get(name)
        since = timedelta(seconds=self._kube.settings.evicts_after)
        if node is None or node.ready or node.ready_changed_at is None:
            return
        if self._clock.now - node.ready_changed_at >= since:
            for pod in self._kube.pods_on(name):
                if not _stays_for_ever(pod):
                    self._kubelets.delete(pod)

    # ── leaving ──────────────────────────────────────────────────────────────────────────────────────────────────

    def delete(self, name: str) -> None:
        """Its pods are cleared away some time after it."""
        self._kubelets.fell_silent(name)
        self._kube.drop_node(name)
        self._clock.after(self._kube.settings.orphans_after, lambda: self._clear_orphans(name))

    def _clear_orphans(self, name: str) -> None:
        if name not in self._kube.nodes:
            for pod in self._kube.pods_on(name):
                self._kube.drop_pod(pod)

    def restore(self, nodes: Sequence[Node], share: float, random: Random) -> None:
        """The API server starts from an older state, or from nothing: these workers, and no pods.

        Agents whose Node is there go on with it. The others register only when an operator starts them again, which is
        done to this share of them.
        """
        alive, stay = set(self._kubelets.alive), {node.name for node in self._kube.nodes.values() if not node.pool}
        for pod in tuple(self._kube.pods.values()):
            self._kube.drop_pod(pod)
        for name in tuple(self._kube.nodes):
            if name not in stay:
                self._kubelets.fell_silent(name)
                self._kube.drop_node(name)
        for node in nodes:
            self._kube.put_node(node)
            self._kubelets.alive.add(node.name)
            if node.name not in alive:
                self.silence(node.name)
        for machine in self._ec2.machines.values():
            gone = machine.live and machine.ours and machine.worker and self._kube.node_of(machine.id) is None
            if gone and random.random() < share:
                delay, ready_in = random.uniform(10, 400), random.uniform(*self._kube.settings.ready_in)
                self._clock.after(delay, self._agent_starts(machine, ready_in))

    def _agent_starts(self, machine: SimulatedInstance, ready_in: float) -> Callable[[], None]:
        def starts() -> None:
            if self._kube.node_of(machine.id) is None:
                self._registered(machine, ready_in)

        return starts

    # ── what an instance is as a node ────────────────────────────────────────────────────────────────────────────

    def _model(self, machine: SimulatedInstance) -> Node:
        pool = self.policy.pool(machine.pool)
        name = f"{'worker' if machine.worker else 'server'}-{machine.id.removeprefix('i-')}"
        labels = {HOST_LABEL: name, ZONE_LABEL: machine.zone, TYPE_LABEL: machine.type, "kubernetes.io/os": "linux"}
        if machine.worker:
            labels |= {POOL_LABEL: machine.pool, CAPACITY_LABEL: machine.market.value, **(pool.labels if pool else {})}
        else:
            labels |= dict.fromkeys(CONTROL_PLANE_LABELS, "true")
        return Node(
            name=name,
            pool=machine.pool if machine.worker else None,
            instance=machine.id,
            control_plane=not machine.worker,
            labels=labels,
            taints=(pool.taints if pool else ()) if machine.worker else (Taint(key=CONTROL_PLANE_LABELS[0]),),
            allocatable=self.allocatable(machine.type),
        )

    def allocatable(self, name: str) -> Resources:
        """What a node of an instance type offers to pods."""
        offered = self._ec2.shop.types[name].resources
        return Resources(
            cpu=offered.cpu,
            memory=offered.memory - offered.memory // _SYSTEM_SHARE,
            storage=_STORAGE,
            pods=_PODS,
            extended=offered.extended,
        )


def _stays_for_ever(pod: Pod) -> bool:
    """Daemonset pods and static ones tolerate a node that does not answer."""
    return pod.is_daemon or pod.mirror or pod.finished
