"""Which node a waiting pod gets.

Whether a pod may run on a node is asked of `nodefleet.decide.scheduling`, the rules that packing uses too; those are
compared with the real scheduler's own tables in their tests, not here. Among the nodes that fit the emptiest wins, as
with the real scheduler's default scoring, where packing takes the first one. There is no preemption.

Nothing is done while nothing changed, and pods of one template that fit nowhere are asked about once in a round.
"""

from collections.abc import Iterable
from dataclasses import replace

from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.decide.scheduling.room import Room
from nodefleet.domain.machines import Node
from nodefleet.domain.workload import ZONE_LABEL, Pod, PodPhase, Volume, VolumeKind
from nodefleet_tools.sim.kube import Kube
from nodefleet_tools.sim.kubelets import Kubelets


class Scheduler:
    def __init__(self, kube: Kube, kubelets: Kubelets) -> None:
        self._kube = kube
        self._kubelets = kubelets
        self._seen = -1  # the version that was looked at last

    def reconcile(self) -> None:
        if self._seen == self._kube.version:
            return
        waiting = [pod for pod in self._kube.unbound() if not pod.gated and pod.deleted_at is None]
        if waiting:
            self._round(sorted(waiting, key=lambda pod: -pod.priority))
        self._seen = self._kube.version

    def _round(self, waiting: Iterable[Pod]) -> None:
        kube = self._kube
        room = Room([_model(node) for node in kube.nodes.values()], kube.pods.values())
        share = {node.name: _taken(node, kube.pods_on(node.name)) for node in kube.nodes.values()}
        in_vain: set[object] = set()
        for pod in waiting:
            shape = _shape(pod)
            name = None if shape in in_vain else self._placed(pod, room, share)
            if name is not None:
                share[name] += _share(kube.nodes[name], pod)
                self._bind(pod, name)
                continue
            if shape is not None:
                in_vain.add(shape)
            if pod.unschedulable_since is None:
                kube.put_pod(replace(pod, unschedulable_since=kube.clock.now))

    def _placed(self, pod: Pod, room: Room, share: dict[str, float]) -> str | None:
        for name in sorted(share, key=lambda name: (share[name], name)):
            if room.place_on(pod, name) is None:
                return name
        return None

    def _bind(self, pod: Pod, name: str) -> None:
        volumes = tuple(self._settled(pod, volume, self._kube.nodes[name]) for volume in pod.volumes)
        pod = replace(pod, node=name, unschedulable_since=None, phase=PodPhase.PENDING, ready=False, volumes=volumes)
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


def _shape(pod: Pod) -> object | None:
    """Pods of one shape fit the same nodes; none where one pod's place may open another's, or has its own volume."""
    if pod.rules.affinity or pod.rules.spread or pod.volumes or pod.owner is None or pod.is_daemon:
        return None
    return (pod.owner.uid, pod.requests.cpu, pod.requests.memory)


def _taken(node: Node, pods: Iterable[Pod]) -> float:
    return sum(_share(node, pod) for pod in pods if not pod.finished)


def _share(node: Node, pod: Pod) -> float:
    """How much of the node the pod asks for: the mean of its CPU and its memory."""
    offered = node.allocatable
    return (pod.requests.cpu / max(1, offered.cpu) + pod.requests.memory / max(1, offered.memory)) / 2
