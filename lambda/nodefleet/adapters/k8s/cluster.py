"""The Cluster port on a real API server."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from nodefleet.adapters.k8s import checks, cordons, evictions, notes, view
from nodefleet.adapters.k8s.calls import Api, Client, Limits
from nodefleet.adapters.k8s.connection import from_kubeconfig, to_server
from nodefleet.adapters.k8s.permissions import Permission
from nodefleet.domain.machines import Node
from nodefleet.domain.observation import ClusterView
from nodefleet.domain.operations import Cordon, PodRef
from nodefleet.domain.workload import Pod
from nodefleet.ports import Evicted


def _now() -> datetime:
    return datetime.now(UTC)


class KubernetesCluster:
    """Keeps its connection, and nothing else, from one call to the next. Calls may be made from several threads."""

    def __init__(
        self,
        client: Client,
        limits: Limits | None = None,
        *,
        now: Callable[[], datetime] = _now,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = Api(client, limits, pause)
        self._now = now

    @classmethod
    def at(cls, server: str, token: str, ca: str, limits: Limits | None = None) -> "KubernetesCluster":
        """By the server's URL, a bearer token and the CA certificate (PEM)."""
        return cls(to_server(server, token, ca), limits)

    @classmethod
    def of_kubeconfig(
        cls, path: str | None = None, context: str | None = None, limits: Limits | None = None
    ) -> "KubernetesCluster":
        """As kubectl would reach it. `path` is what KUBECONFIG says; none means the usual place."""
        return cls(from_kubeconfig(path, context), limits)

    # ── the port ─────────────────────────────────────────────────────────────────────────────────────────────────

    def view(self) -> ClusterView:
        return view.view(self._api)

    def nodes(self) -> tuple[Node, ...]:
        return view.nodes(self._api)

    def node(self, name: str) -> Node | None:
        found = cordons.find(self._api, name)
        return found.node if found else None

    def pods_on(self, node: str, *, brief: bool = False) -> tuple[Pod, ...]:
        return view.pods_on(self._api, node, brief=brief)

    def cordon(self, cordon: Cordon, instance: str) -> None:
        cordons.cordon(self._api, cordon, instance)

    def uncordon(self, node: str, removal: str) -> None:
        cordons.uncordon(self._api, node, removal)

    def assign(self, node: str, instance: str, pool: str) -> None:
        cordons.assign(self._api, node, instance, pool)

    def evict(self, pod: PodRef) -> Evicted:
        return evictions.evict(self._api, pod)

    def delete_pod(self, pod: PodRef) -> None:
        evictions.delete_pod(self._api, pod)

    def delete_node(self, node: str, instance: str) -> None:
        cordons.delete_node(self._api, node, instance)

    def note(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        notes.note(self._api, node, reason, message, warning=warning, now=self._now())

    # ── for doctor and wiring ────────────────────────────────────────────────────────────────────────────────────

    def server_version(self) -> str:
        return checks.server_version(self._api)

    def server_time(self) -> datetime:
        return checks.server_time(self._api)

    def allowed(self, verb: str, resource: str, *, group: str = "", subresource: str = "", namespace: str = "") -> bool:
        return checks.allowed(self._api, verb, resource, group=group, subresource=subresource, namespace=namespace)

    def missing_permissions(self) -> tuple[tuple[Permission, str], ...]:
        return tuple(checks.missing(self._api))

    @property
    def calls(self) -> int:
        """Requests that were sent so far."""
        return self._api.calls

    def close(self) -> None:
        self._api.close()
