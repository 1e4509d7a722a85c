"""The Cluster port over the simulated API server, with the conditions that its patches carry."""

from dataclasses import replace

from nodefleet.errors import ChangedError
from nodefleet.model.inventory import Node, Taint
from nodefleet.model.names import LEAVING_TAINT, POOL_LABEL, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.model.operations import Cordon, PodRef
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import Budget, Pod
from nodefleet.ports import Eviction, EvictionOutcome
from nodefleet_tools.sim.budgets import ruling, status
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.invariants import Guard
from nodefleet_tools.sim.kube import Kube, Note
from nodefleet_tools.sim.kubelets import Kubelets
from nodefleet_tools.sim.nodes import Nodes
from nodefleet_tools.sim.rules import Rule

_OURS = (REMOVAL_ANNOTATION, REASON_ANNOTATION)


class SimCluster:
    def __init__(self, kube: Kube, kubelets: Kubelets, nodes: Nodes, guard: Guard, run: Run) -> None:
        self._kube = kube
        self._kubelets = kubelets
        self._nodes = nodes
        self._guard = guard
        self._run = run

    def view(self) -> ClusterView:
        pods = tuple(self._kube.pods.values())
        return ClusterView(nodes=self._heard(), pods=pods, budgets=self._budgets(pods))

    def _heard(self) -> tuple[Node, ...]:
        """As the real adapter: heartbeats are asked for when a node is not ready."""
        nodes = tuple(self._kube.nodes.values())
        if all(node.ready for node in nodes):
            return nodes
        return tuple(replace(node, heartbeat_at=self._nodes.heartbeat(node.name)) for node in nodes)

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._kube.nodes.values())

    def node(self, name: str) -> Node | None:
        self._run.checked[name] = self._kube.clock.now
        return self._kube.nodes.get(name)

    def pods_on(self, node: str, *, brief: bool = False) -> tuple[Pod, ...]:  # noqa: ARG002  # all of it is at hand
        self._run.checked[node] = self._kube.clock.now
        return tuple(self._kube.pods_on(node))

    def cordon(self, cordon: Cordon, instance: str) -> None:
        node = self._kube.nodes.get(cordon.node)
        if node is None or node.instance != instance:
            raise ChangedError(f"node {cordon.node} is not {instance}'s any more")
        if node.control_plane or node.pool is None:
            self._guard.broken(
                self._run.name, Rule.FORBIDDEN, f"tried to cordon {node.name}, which is not a worker of ours"
            )
            raise ChangedError(f"node {node.name} is not a worker")
        if node.cordoned and not node.removal:
            raise ChangedError(f"an operator cordoned node {node.name}")
        self._guard.cordoned(self._run, node, cordon)
        taint = Taint(key=LEAVING_TAINT, value=cordon.deadline.strftime("%Y-%m-%dT%H.%M.%SZ"))
        self._kube.put_node(
            replace(
                node,
                cordoned=True,
                removal=cordon.removal,
                taints=(*_without_ours(node), taint),
                annotations={
                    **node.annotations,
                    REMOVAL_ANNOTATION: cordon.removal,
                    REASON_ANNOTATION: cordon.reason,
                },
            )
        )

    def uncordon(self, node: str, removal: str) -> None:
        there = self._kube.nodes.get(node)
        if there is None or not is_of(there, removal):
            return
        self._guard.uncordoned(self._run, there, removal)
        annotations = {key: value for key, value in there.annotations.items() if key not in _OURS}
        self._kube.put_node(
            replace(there, cordoned=False, removal="", taints=_without_ours(there), annotations=annotations)
        )

    def assign(self, node: str, instance: str, pool: str) -> None:
        there = self._kube.nodes.get(node)
        if there is None or there.control_plane or there.pool is None or there.instance not in ("", instance):
            raise ChangedError(f"node {node} is not the worker {instance}")
        self._kube.put_node(replace(there, pool=pool, labels={**there.labels, POOL_LABEL: pool}))

    def evict(self, pod: PodRef) -> EvictionOutcome:
        there = self._pod(pod)
        if there is None:
            return EvictionOutcome(result=Eviction.GONE)
        pods = tuple(self._kube.pods.values())
        found = ruling(there, tuple(self._kube.budgets.values()), pods)
        if found.answer.result is not Eviction.EVICTED:
            return found.answer
        if pod.namespace in self._kube.closing:
            return EvictionOutcome(result=Eviction.WAITS, detail=f"namespace {pod.namespace} is being terminated")
        self._kubelets.delete(there)
        self._guard.evicted(self._run, there)
        return found.answer

    def delete_pod(self, pod: PodRef) -> None:
        there = self._pod(pod)
        if there is not None:
            self._guard.forced(self._run, there)
            self._kubelets.delete_by_force(there)

    def delete_node(self, node: str, instance: str) -> None:
        there = self._kube.nodes.get(node)
        if there is None:
            return
        if there.control_plane or there.pool is None:
            self._guard.broken(
                self._run.name, Rule.FORBIDDEN, f"tried to delete node {node}, which is not a worker of ours"
            )
            raise ChangedError(f"node {node} is not a worker")
        if there.instance != instance or there.ready:
            raise ChangedError(f"node {node} is {'ready' if there.ready else f'{there.instance} by now'}")
        self._guard.node_deleted(self._run, there)
        self._nodes.delete(node)

    def note(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        self._kube.note(Note(node=node, reason=reason, message=message, warning=warning))

    def _pod(self, ref: PodRef) -> Pod | None:
        there = self._kube.pods.get(f"{ref.namespace}/{ref.name}")
        return there if there is not None and there.uid == ref.uid else None

    def _budgets(self, pods: tuple[Pod, ...]) -> tuple[Budget, ...]:
        return tuple(replace(budget, status=status(budget, pods)) for budget in self._kube.budgets.values())


def is_of(node: Node, removal: str) -> bool:
    """Its cordon is this removal's."""
    return bool(removal) and node.removal == removal


def _without_ours(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.taints if taint.key != LEAVING_TAINT)
