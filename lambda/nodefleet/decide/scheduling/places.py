"""A node as the scheduler sees it, and what is still free on it while pods are put there and taken away again."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodefleet.domain.resources import NOTHING, Resources
from nodefleet.domain.workload import EVERY_ADDRESS, HostPort, Pod, Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeModel:
    """A node that exists, that is on its way, or that could be bought."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    cordoned: bool = False
    closed: str = ""  # why it takes no new pod at all, whatever the pod tolerates; empty: it does


class Place:
    """What is free on one node. Plain numbers, because they change for every pod that is tried."""

    __slots__ = ("cpu", "extended", "index", "memory", "node", "pods", "ports", "slots", "storage")

    def __init__(self, node: NodeModel, index: int) -> None:
        self.node = node
        self.index = index  # its rank: of two places that fit, the lower one is taken
        self.cpu = node.allocatable.cpu
        self.memory = node.allocatable.memory
        self.storage = node.allocatable.storage
        self.slots = node.allocatable.pods
        self.extended = dict(node.allocatable.extended)
        self.ports: list[HostPort] = []
        self.pods: list[Pod] = []

    def put(self, pod: Pod) -> None:
        self._reserve(pod, 1)
        self.ports.extend(pod.rules.host_ports)
        self.pods.append(pod)

    def take_last(self) -> Pod:
        """Undo the last `put`."""
        pod = self.pods.pop()
        self._reserve(pod, -1)
        if pod.rules.host_ports:
            del self.ports[-len(pod.rules.host_ports) :]
        return pod

    def has(self, asked: Resources) -> bool:
        """Enough of everything that is asked for. What is not asked for may even be overbooked."""
        return (
            self.slots >= 1
            and (not asked.cpu or asked.cpu <= self.cpu)
            and (not asked.memory or asked.memory <= self.memory)
            and self.has_the_rest(asked)
        )

    def has_the_rest(self, asked: Resources) -> bool:
        """Enough of what is seldom asked for: ephemeral storage and extended resources."""
        if asked.storage > max(self.storage, 0):
            return False
        return not asked.extended or all(
            amount <= max(self.extended.get(name, 0), 0) for name, amount in asked.extended.items()
        )

    def has_ports(self, wanted: tuple[HostPort, ...]) -> bool:
        return not any(_clash(one, other) for one in wanted for other in self.ports)

    @property
    def taken(self) -> float:
        """The share of the node that pods ask for, of CPU and memory on the mean: the scheduler takes the emptiest."""
        offered = self.node.allocatable
        return 1 - (self.cpu / max(offered.cpu, 1) + self.memory / max(offered.memory, 1)) / 2

    @property
    def free(self) -> Resources:
        return Resources(
            cpu=self.cpu, memory=self.memory, storage=self.storage, pods=self.slots, extended=dict(self.extended)
        )

    def _reserve(self, pod: Pod, sign: int) -> None:
        asked = pod.requests
        self.cpu -= sign * asked.cpu
        self.memory -= sign * asked.memory
        self.storage -= sign * asked.storage
        self.slots -= sign
        for name, amount in asked.extended.items():
            self.extended[name] = self.extended.get(name, 0) - sign * amount


def _clash(one: HostPort, other: HostPort) -> bool:
    """The same port of one protocol, and an address in common."""
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.address == other.address or EVERY_ADDRESS in (one.address, other.address)
