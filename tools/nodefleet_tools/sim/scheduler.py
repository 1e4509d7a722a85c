"""Which node a waiting pod gets.

Whether a pod may run on a node is asked of `nodefleet.scheduling`, the rules that packing uses too; those are
compared with the real scheduler's own tables in their tests, not here. Among the nodes that fit the emptiest wins, as
with the real scheduler's default scoring, where packing takes the first one. There is no preemption.

The real scheduler knows reasons that those rules do not: `Traits.refused` and `Traits.most_on_node` stand for them, so
that the two can disagree. The order in which it takes pods is a setting (`KubeSettings.scheduling_order`).

Nothing is done while nothing changed, and pods of one template that fit nowhere are asked about once in a round.
"""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from nodefleet.model.inventory import Node
from nodefleet.model.snapshot import add_up
from nodefleet.model.workload import ZONE_LABEL, Pod, PodPhase, Volume, VolumeKind
from nodefleet.scheduling.predicates import NodeModel
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet_tools.sim.kube import Kube, Order
from nodefleet_tools.sim.kubelets import Kubelets


class Scheduler:
    def __init__(self, kube: Kube, kubelets: Kubelets, seed: str = "") -> None:
        self._kube = kube
        self._random = Random(f"{seed}/scheduler")  # noqa: S311  # repeatable on purpose
        self._kubelets = kubelets
        self._seen = -1  # the version that was looked at last
        self.refused: set[str] = set()  # owners of pods that were ever refused for a reason that packing does not model

    def reconcile(self) -> None:
        if self._seen == self._kube.version:
            return
        waiting = [pod for pod in self._kube.unbound() if not pod.gated and pod.deleted_at is None]
        if waiting:
            self._round(self._ordered(waiting))
        self._seen = self._kube.version

    def _ordered(self, waiting: list[Pod]) -> list[Pod]:
        if self._kube.settings.scheduling_order is Order.RANDOM:
            self._random.shuffle(waiting)
            return sorted(waiting, key=lambda pod: -pod.priority)
        now = self._kube.clock.now
        return sorted(waiting, key=lambda pod: (-pod.priority, pod.unschedulable_since or now))

    def _round(self, waiting: Iterable[Pod]) -> None:
        kube = self._kube
        room = SchedulerSimulation([_model(node) for node in kube.nodes.values()], kube.pods.values())
        share = {node.name: _taken(node, kube.pods_on(node.name)) for node in kube.nodes.values()}
        in_vain: set[object] = set()
        for pod in waiting:
            shape = self._shape(pod)
            name = None if shape in in_vain else self._placed(pod, room, share)
            if name is not None:
                share[name] += _share(kube.nodes[name], pod)
                self._bind(pod, name)
                continue
            if shape is not None:
                in_vain.add(shape)
            self._give_up(pod)

    def _placed(self, pod: Pod, simulation: SchedulerSimulation, share: dict[str, float]) -> str | None:
        if self._kube.traits_of(pod).refused:
            return None
        for name in sorted(share, key=lambda name: (share[name], name)):
            if not self._is_full(pod, name) and simulation.place_on(pod, name) is None:
                return name
        return None

    def _is_full(self, pod: Pod, name: str) -> bool:
        """As many pods of its owner run there as the node takes, for a reason that packing does not model."""
        most = self._kube.traits_of(pod).most_on_node
        return most is not None and sum(_is_sibling(pod, other) for other in self._kube.pods_on(name)) >= most

    def _give_up(self, pod: Pod) -> None:
        traits = self._kube.traits_of(pod)
        if pod.owner is not None and (traits.refused or traits.most_on_node is not None):
            self.refused.add(pod.owner.uid)
        since, message = pod.unschedulable_since or self._kube.clock.now, self._message(pod)
        if (since, message) != (pod.unschedulable_since, pod.unschedulable_message):
            self._kube.put_pod(replace(pod, unschedulable_since=since, unschedulable_message=message))

    def _message(self, pod: Pod) -> str:
        traits, nodes = self._kube.traits_of(pod), len(self._kube.nodes)
        if traits.refused:
            return traits.refused
        full = sum(self._is_full(pod, name) for name in self._kube.nodes) if traits.most_on_node is not None else 0
        reasons = [(full, "node(s) exceed max volume count"), (nodes - full, "Insufficient resources")]
        listed = ", ".join(f"{number} {reason}" for number, reason in reasons if number)
        return f"0/{nodes} nodes are available: {listed or 'no nodes'}."

    def _shape(self, pod: Pod) -> object | None:
        """Pods of one shape fit the same nodes; none where a pod's place may open another's, or has its own volume."""
        traits = self._kube.traits_of(pod)
        if pod.rules.affinity or pod.rules.spread or pod.volumes or pod.owner is None or pod.is_daemon:
            return None
        if traits.refused or traits.most_on_node is not None:
            return None
        return (pod.owner.uid, pod.requests.cpu, pod.requests.memory)

    def _bind(self, pod: Pod, name: str) -> None:
        volumes = tuple(self._settled(pod, volume, self._kube.nodes[name]) for volume in pod.volumes)
        pod = replace(
            pod,
            node=name,
            unschedulable_since=None,
            unschedulable_message="",
            phase=PodPhase.PENDING,
            ready=False,
            volumes=volumes,
        )
        self._kube.put_pod(pod)
        self._kubelets.bound(pod)

    def _settled(self, pod: Pod, volume: Volume, node: Node) -> Volume:
        """A claim without a place gets one where its first pod runs: on that node, or in its zone."""
        if volume.kind is VolumeKind.LOCAL and volume.node is None:
            found = replace(volume, node=node.name)
        elif volume.kind is VolumeKind.CLAIM and not volume.zones and ZONE_LABEL in node.labels:
            found = replace(volume, zones=(node.labels[ZONE_LABEL],))
        else:
            return volume
        self._kube.claims[f"{pod.namespace}/{volume.name}"] = found
        return found


def _model(node: Node) -> NodeModel:
    # A node that is not ready carries the taints that say so; daemonsets tolerate them.
    return NodeModel(
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        allocatable=node.allocatable,
        cordoned=node.cordoned,
    )


def _is_sibling(pod: Pod, other: Pod) -> bool:
    return pod.owner is not None and other.owner is not None and pod.owner.uid == other.owner.uid and not other.finished


def _taken(node: Node, pods: Iterable[Pod]) -> float:
    return add_up(_share(node, pod) for pod in pods if not pod.finished)


def _share(node: Node, pod: Pod) -> float:
    """How much of the node the pod asks for: the mean of its CPU and its memory."""
    offered = node.allocatable
    return (pod.requests.cpu / max(1, offered.cpu) + pod.requests.memory / max(1, offered.memory)) / 2
