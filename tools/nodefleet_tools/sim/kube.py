"""The API server's objects: nodes, pods, budgets, events; indexed, and with everybody told when something changed.

Objects are the domain's own frozen ones, replaced as a whole, so a view of them is a mere tuple.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from nodefleet.model.inventory import Node
from nodefleet.model.workload import Budget, Pod, Volume
from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.instances import Range

_ROUNDS = 10  # of controllers and scheduler, until nothing changes any more


class Order(Enum):
    """In which order the scheduler takes pods that wait. Higher priorities always come first."""

    QUEUE = "queue"  # the longest waiting first
    RANDOM = "random"  # what backoff and events make of the queue: drawn again in each round


@dataclass(slots=True, kw_only=True)
class KubeSettings:
    joins_in: Range = (30.0, 70.0)  # from a running instance to a registered node
    rejoins_in: Range = (12.0, 25.0)  # the same of one that was stopped: only its system and its agent start
    ready_in: Range = (3.0, 8.0)  # from there to ready
    devices_in: Range = (20.0, 60.0)  # from ready to the devices of its type: a plugin starts, drivers load
    never_joins: float = 0.0  # share of instances whose agent never gets there
    joins_late: float = 0.0  # share that takes `late_in` instead
    late_in: Range = (320.0, 600.0)
    heartbeat: float = 40.0  # silence after which a node is not ready
    evicts_after: float = 300.0  # not ready for so long: its pods are deleted, and made again elsewhere
    orphans_after: float = 40.0  # pods of a deleted node are cleared away
    settles_in: float = 1.0  # controllers and scheduler react
    scheduling_order: Order = Order.QUEUE
    random_names: bool = (
        False  # pods are named as a ReplicaSet names them (shop-7c9d8f6b5-x4k2p), else shop-0, shop-1 …
    )


@dataclass(frozen=True, slots=True)
class Note:
    node: str
    reason: str
    message: str
    warning: bool


@dataclass(slots=True, kw_only=True)
class Traits:
    """How one pod behaves, which its object does not say."""

    starts_in: float = 5.0
    stops_in: float = 2.0
    runs_for: float | None = None  # then it has succeeded; none: it serves for ever
    kept_for: float = 900.0  # a pod that has succeeded is cleared away after this
    cpu_use: float = 0.5  # of what it asks for
    memory_use: float = 0.8
    stuck: bool = False  # a finalizer holds it when it is to go
    # Reasons of the scheduler that `nodefleet.scheduling` does not model. Change them, then call `Kube.changed`.
    refused: str = ""  # no node gets it, and this is the scheduler's message: a claim without a StorageClass, say
    most_on_node: int | None = None  # a node takes so many pods of its owner at most: attach limits


@dataclass(slots=True)
class Kube:
    clock: Clock
    settings: KubeSettings
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)  # by namespace/name
    traits: dict[str, Traits] = field(default_factory=dict)  # by uid
    budgets: dict[str, Budget] = field(default_factory=dict)
    claims: dict[str, Volume] = field(default_factory=dict)  # volumes that have found their place, by claim
    notes: dict[Note, int] = field(default_factory=dict)
    closing: set[str] = field(default_factory=set)  # namespaces that are being deleted
    reconcilers: list[Callable[[], None]] = field(default_factory=list)  # controllers, then the scheduler
    dropped: dict[str, datetime] = field(default_factory=dict)  # when the Node of an instance last went
    version: int = 0  # grows with every change
    _on_node: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _of_owner: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    _unbound: dict[str, None] = field(default_factory=dict)
    _made: int = 0
    _settling: bool = False

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def pods_on(self, node: str) -> list[Pod]:
        return [self.pods[key] for key in self._on_node.get(node, ())]

    def pods_of(self, owner: str) -> list[Pod]:
        return [self.pods[key] for key in self._of_owner.get(owner, ())]

    def unbound(self) -> list[Pod]:
        return [self.pods[key] for key in self._unbound]

    def is_there(self, pod: Pod) -> Pod | None:
        """The pod as it is now; none if it is gone, or another has its name."""
        now = self.pods.get(pod.key)
        return now if now is not None and now.uid == pod.uid else None

    def node_of(self, instance: str) -> Node | None:
        return next((node for node in self.nodes.values() if node.instance == instance), None)

    def traits_of(self, pod: Pod) -> Traits:
        return self.traits.get(pod.uid) or Traits()

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.changed()

    def drop_node(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is not None:
            self.dropped[node.instance] = self.clock.now
            self.changed()

    def new_uid(self) -> str:
        self._made += 1
        return f"uid-{self._made:06}"

    def put_pod(self, pod: Pod) -> None:
        self._unindex(self.pods.get(pod.key))
        self.pods[pod.key] = pod
        if pod.node is not None:
            self._on_node[pod.node][pod.key] = None
        elif not pod.finished:
            self._unbound[pod.key] = None
        if pod.owner is not None:
            self._of_owner[pod.owner.uid][pod.key] = None
        self.changed()

    def drop_pod(self, pod: Pod) -> None:
        there = self.is_there(pod)
        if there is None:
            return
        self._unindex(there)
        del self.pods[pod.key]
        self.traits.pop(pod.uid, None)
        self.changed()

    def note(self, note: Note) -> None:
        self.notes[note] = self.notes.get(note, 0) + 1

    def changed(self) -> None:
        """Something is different: controllers and the scheduler look at it in a moment, once for many changes."""
        self.version += 1
        if not self._settling:
            self._settling = True
            self.clock.after(self.settings.settles_in, self.settle)

    def settle(self) -> None:
        """Controllers and the scheduler react until nothing changes any more."""
        self._settling = True  # what they change themselves needs no other call
        for _ in range(_ROUNDS):
            before = self.version
            for reconcile in self.reconcilers:
                reconcile()
            if self.version == before:
                break
        self._settling = False

    def _unindex(self, pod: Pod | None) -> None:
        if pod is None:
            return
        if pod.node is not None:
            self._on_node[pod.node].pop(pod.key, None)
        self._unbound.pop(pod.key, None)
        if pod.owner is not None:
            self._of_owner[pod.owner.uid].pop(pod.key, None)
