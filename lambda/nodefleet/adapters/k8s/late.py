"""The Cluster port that connects when it is first asked, and anew when its login is refused or nobody answers.

A token is rotated while a warm function keeps the old one; a master that was replaced has another certificate, or
another address: after a few calls in a row that nobody answered, all of it is read again. And a login that cannot be
had must not keep a run from starting: it is Kubernetes that is away then.
"""

from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeVar

from nodefleet.domain.machines import Node
from nodefleet.domain.observation import ClusterView
from nodefleet.domain.operations import Cordon, PodRef
from nodefleet.domain.workload import Pod
from nodefleet.errors import LoginRefusedError, NodeFleetError, UnreachableError
from nodefleet.ports import Cluster, Evicted

T = TypeVar("T")

# Calls in a row; each has tried several times, and a run without Kubernetes makes few of them. It is no policy field:
# it decides nothing about nodes, and the connection is made before the policy in force has been read.
_UNANSWERED = 2


class Connected(Cluster, Protocol):
    @property
    def calls(self) -> int: ...

    def close(self) -> None: ...


class LateCluster:
    def __init__(self, connect: Callable[[], Connected], refresh: Callable[[], None]) -> None:
        """`connect` may raise MisconfiguredError, DeniedError or UnavailableError; `refresh` says that a login was
        refused, or led nowhere."""
        self._connect = connect
        self._refresh = refresh
        self._cluster: Connected | None = None
        self._connecting = Lock()
        self._calls = 0  # of connections that are closed
        self._unanswered = 0  # calls in a row

    @property
    def calls(self) -> int:
        return self._calls + (self._cluster.calls if self._cluster else 0)

    def view(self) -> ClusterView:
        return self._asked(lambda cluster: cluster.view())

    def nodes(self) -> tuple[Node, ...]:
        return self._asked(lambda cluster: cluster.nodes())

    def node(self, name: str) -> Node | None:
        return self._asked(lambda cluster: cluster.node(name))

    def pods_on(self, node: str, *, brief: bool = False) -> tuple[Pod, ...]:
        return self._asked(lambda cluster: cluster.pods_on(node, brief=brief))

    def cordon(self, cordon: Cordon, instance: str) -> None:
        self._asked(lambda cluster: cluster.cordon(cordon, instance))

    def uncordon(self, node: str, removal: str) -> None:
        self._asked(lambda cluster: cluster.uncordon(node, removal))

    def assign(self, node: str, instance: str, pool: str) -> None:
        self._asked(lambda cluster: cluster.assign(node, instance, pool))

    def evict(self, pod: PodRef) -> Evicted:
        return self._asked(lambda cluster: cluster.evict(pod))

    def delete_pod(self, pod: PodRef) -> None:
        self._asked(lambda cluster: cluster.delete_pod(pod))

    def delete_node(self, node: str, instance: str) -> None:
        self._asked(lambda cluster: cluster.delete_node(node, instance))

    def note(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        self._asked(lambda cluster: cluster.note(node, reason, message, warning=warning))

    def _asked(self, ask: Callable[[Connected], T]) -> T:
        """A call that was refused for its login did nothing, so it can be made again."""
        cluster = self._connected()
        try:
            answer = ask(cluster)
        except LoginRefusedError:
            self._unanswered = 0
            self._drop(cluster)
            return ask(self._connected())
        except UnreachableError:
            self._unanswered += 1
            if self._unanswered >= _UNANSWERED:
                self._unanswered = 0
                self._drop(cluster)
            raise
        except NodeFleetError:
            self._unanswered = 0  # it says no, so it is there
            raise
        self._unanswered = 0
        return answer

    def _connected(self) -> Connected:
        with self._connecting:
            if self._cluster is None:
                self._cluster = self._connect()
            return self._cluster

    def _drop(self, refused: Connected) -> None:
        with self._connecting:
            if self._cluster is refused:  # otherwise another thread was quicker
                self._refresh()
                self._calls += refused.calls
                refused.close()
                self._cluster = None
