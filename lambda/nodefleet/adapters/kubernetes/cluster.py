"""The Cluster port on a real API server: connecting and reconnecting."""

import ssl
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from nodefleet.adapters.concurrency import ONE_AT_A_TIME
from nodefleet.adapters.kubernetes import reads, writes
from nodefleet.adapters.kubernetes.client import HEADERS, Api, CallLimits, Transport
from nodefleet.adapters.kubernetes.resources import Permission, Request
from nodefleet.errors import LoginRefusedError, MisconfiguredError, NodeFleetError, UnreachableError
from nodefleet.model.inventory import Node
from nodefleet.model.operations import Cordon, PodRef
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import Pod
from nodefleet.ports import Cluster, EvictionOutcome

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

# ── connection ───────────────────────────────────────────────────────────────────────────────────────────────────────
# How the API server is reached: by its address, a token and its CA, or as an operator's kubeconfig says.
#
# A function has an address, a token and a CA: urllib3 alone sends its requests, because importing the official client
# takes a fifth of a cold start's CPU time. A kubeconfig may name certificates, plugins and proxies: the official client
# understands them and sends the requests. Certificates are always verified, and nothing is retried or redirected by
# a library: that would repeat writes.


_AGENT = "node-fleet"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_CONNECTIONS = 16  # kept open; calls are made from several threads


class TokenTransport:
    """urllib3 and a bearer token."""

    def __init__(self, server: str, token: str, trust: ssl.SSLContext) -> None:
        with ONE_AT_A_TIME:
            import urllib3  # noqa: PLC0415

        self._server = server
        self._headers = {**HEADERS, "Authorization": f"Bearer {token}", "User-Agent": _AGENT}
        options: dict[str, Any] = {"maxsize": _CONNECTIONS, "ssl_context": trust}
        proxy = _proxy_to(server)
        self._pools: Any = urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
        self._timeout: Any = urllib3.Timeout

    def send(self, request: Request, *, connect: float, read: float) -> "BaseHTTPResponse":
        query = f"?{urlencode(request.query)}" if request.query else ""
        answer: BaseHTTPResponse = self._pools.urlopen(
            request.method,
            f"{self._server}{request.path}{query}",
            body=None if request.body is None else msgspec.json.encode(request.body),
            headers={**self._headers, "Content-Type": request.content_type},
            timeout=self._timeout(connect=connect, read=read),
            retries=False,  # nor redirects
            preload_content=False,
        )
        return answer

    def close(self) -> None:
        self._pools.clear()


def _proxy_to(server: str) -> str:
    """As the environment says (HTTPS_PROXY, NO_PROXY), which urllib3 does not ask itself; empty: none."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  # botocore has imported it already

    url = urlsplit(server)
    proxy = getproxies().get(url.scheme, "")
    return "" if not proxy or proxy_bypass(url.hostname or "") else proxy


class ClientTransport:
    """The official client, configured by a kubeconfig."""

    def __init__(self, configuration: Any) -> None:
        with ONE_AT_A_TIME:
            from kubernetes.client.api_client import ApiClient  # noqa: PLC0415

        configuration.retries = False
        self.configuration = configuration
        self._client: Any = ApiClient(configuration)
        self._client.user_agent = _AGENT

    def send(self, request: Request, *, connect: float, read: float) -> "BaseHTTPResponse":
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415  # known since the client was made
        from urllib3.exceptions import HTTPError  # noqa: PLC0415

        sent = self._client.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query),
            header_params={**HEADERS, "Content-Type": request.content_type},
            body=request.body,
            auth_settings=["BearerToken"],
        )
        try:
            answer: BaseHTTPResponse = self._client.call_api(*sent, _request_timeout=(connect, read)).response
        except ApiException as error:
            raise HTTPError(error.reason or str(error)) from error
        return answer

    def close(self) -> None:
        self._client.close()


def to_server(server: str, token: str, ca: str) -> Transport:
    """Requests to the server with this URL, by bearer token and CA certificate (PEM)."""
    if not token.strip():
        raise MisconfiguredError("The Kubernetes token is empty: put the ServiceAccount's token into the secret")
    trust = _trust(ca)
    _check_safety(server, verified=True)
    return TokenTransport(server.rstrip("/"), token.strip(), trust)


def from_kubeconfig(path: str | None = None, context: str | None = None) -> Transport:
    """Requests as the current context of a kubeconfig says. `path` may list several files as KUBECONFIG does; none
    means the usual place."""
    with ONE_AT_A_TIME:
        from kubernetes.client.configuration import Configuration  # noqa: PLC0415
        from kubernetes.config import kube_config  # noqa: PLC0415

    configuration = Configuration()
    load: Any = kube_config.load_kube_config
    try:
        load(config_file=path, context=context, client_configuration=configuration)
    except Exception as error:  # its parser, its plugins and the loader each have errors of their own
        raise MisconfiguredError(f"The kubeconfig cannot be used: {error}") from error
    _check_safety(configuration.host, verified=configuration.verify_ssl)
    return ClientTransport(configuration)


def _check_safety(server: str, *, verified: bool) -> None:
    url = urlsplit(server)
    if url.scheme == "https":
        if not verified:
            raise MisconfiguredError(
                "The kubeconfig says insecure-skip-tls-verify: give it the cluster's CA (certificate-authority-data)"
            )
    elif url.scheme != "http" or url.hostname not in _LOOPBACK:
        raise MisconfiguredError(f"The Kubernetes server {server!r} must be an https:// URL: a token must not be seen")


def _trust(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=ca or " ")
    except (ssl.SSLError, ValueError) as error:
        raise MisconfiguredError(
            "The Kubernetes CA is no PEM certificate: put the content of the cluster's server-ca.crt into the secret"
        ) from error


# ── the port ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# The Cluster port on a real API server.


def _now() -> datetime:
    return datetime.now(UTC)


class KubernetesCluster:
    """Keeps its connection, and nothing else, from one call to the next. Calls may be made from several threads."""

    def __init__(
        self,
        transport: Transport,
        limits: CallLimits | None = None,
        *,
        now: Callable[[], datetime] = _now,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = Api(transport, limits, pause)
        self._now = now

    @classmethod
    def at(cls, server: str, token: str, ca: str, limits: CallLimits | None = None) -> "KubernetesCluster":
        """By the server's URL, a bearer token and the CA certificate (PEM)."""
        return cls(to_server(server, token, ca), limits)

    @classmethod
    def of_kubeconfig(
        cls, path: str | None = None, context: str | None = None, limits: CallLimits | None = None
    ) -> "KubernetesCluster":
        """As kubectl would reach it. `path` is what KUBECONFIG says; none means the usual place."""
        return cls(from_kubeconfig(path, context), limits)

    # ── the port ─────────────────────────────────────────────────────────────────────────────────────────────────

    def view(self) -> ClusterView:
        return reads.view(self._api)

    def nodes(self) -> tuple[Node, ...]:
        return reads.nodes(self._api)

    def node(self, name: str) -> Node | None:
        found = writes.find(self._api, name)
        return found.node if found else None

    def pods_on(self, node: str, *, brief: bool = False) -> tuple[Pod, ...]:
        return reads.pods_on(self._api, node, brief=brief)

    def cordon(self, cordon: Cordon, instance: str) -> None:
        writes.cordon(self._api, cordon, instance)

    def uncordon(self, node: str, removal: str) -> None:
        writes.uncordon(self._api, node, removal)

    def assign(self, node: str, instance: str, pool: str) -> None:
        writes.assign(self._api, node, instance, pool)

    def annotate(self, node: str, annotations: Mapping[str, str | None]) -> None:
        writes.annotate(self._api, node, annotations)

    def evict(self, pod: PodRef) -> EvictionOutcome:
        return writes.evict(self._api, pod)

    def delete_pod(self, pod: PodRef) -> None:
        writes.delete_pod(self._api, pod)

    def delete_node(self, node: str, instance: str) -> None:
        writes.delete_node(self._api, node, instance)

    def note(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        writes.note(self._api, node, reason, message, warning=warning, now=self._now())

    # ── for doctor and bootstrap ────────────────────────────────────────────────────────────────────────────────────

    def server_version(self) -> str:
        return reads.server_version(self._api)

    def server_time(self) -> datetime:
        return reads.server_time(self._api)

    def is_allowed(
        self, verb: str, resource: str, *, group: str = "", subresource: str = "", namespace: str = ""
    ) -> bool:
        return reads.is_allowed(self._api, verb, resource, group=group, subresource=subresource, namespace=namespace)

    def missing_permissions(self) -> tuple[tuple[Permission, str], ...]:
        return tuple(reads.missing(self._api))

    @property
    def calls(self) -> int:
        """Requests that were sent so far."""
        return self._api.calls

    def close(self) -> None:
        self._api.close()


# ── reconnecting client ──────────────────────────────────────────────────────────────────────────────────────────────
# The Cluster port that connects when it is first asked, and again when its login is refused or the server does not
# answer.
#
# A token is rotated while a warm function keeps the old one; a master that was replaced has another certificate, or
# another address: after a few calls in a row without an answer, all of it is read again. And a login that cannot be
# had must not keep a run from starting: it is Kubernetes that is away then.


T = TypeVar("T")

# Calls in a row; each has tried several times, and a run without Kubernetes makes few of them. It is no policy field:
# it decides nothing about nodes, and the connection is made before the policy in force has been read.
_UNANSWERED = 2


class Connected(Cluster, Protocol):
    @property
    def calls(self) -> int: ...

    def close(self) -> None: ...


class ReconnectingCluster:
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
        return self._ask(lambda cluster: cluster.view())

    def nodes(self) -> tuple[Node, ...]:
        return self._ask(lambda cluster: cluster.nodes())

    def node(self, name: str) -> Node | None:
        return self._ask(lambda cluster: cluster.node(name))

    def pods_on(self, node: str, *, brief: bool = False) -> tuple[Pod, ...]:
        return self._ask(lambda cluster: cluster.pods_on(node, brief=brief))

    def cordon(self, cordon: Cordon, instance: str) -> None:
        self._ask(lambda cluster: cluster.cordon(cordon, instance))

    def uncordon(self, node: str, removal: str) -> None:
        self._ask(lambda cluster: cluster.uncordon(node, removal))

    def assign(self, node: str, instance: str, pool: str) -> None:
        self._ask(lambda cluster: cluster.assign(node, instance, pool))

    def evict(self, pod: PodRef) -> EvictionOutcome:
        return self._ask(lambda cluster: cluster.evict(pod))

    def delete_pod(self, pod: PodRef) -> None:
        self._ask(lambda cluster: cluster.delete_pod(pod))

    def delete_node(self, node: str, instance: str) -> None:
        self._ask(lambda cluster: cluster.delete_node(node, instance))

    def note(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        self._ask(lambda cluster: cluster.note(node, reason, message, warning=warning))

    def _ask(self, ask: Callable[[Connected], T]) -> T:
        """A call that was refused for its login did nothing, so it can be made again."""
        cluster = self._ensure_connected()
        try:
            answer = ask(cluster)
        except LoginRefusedError:
            self._unanswered = 0
            self._drop(cluster)
            return ask(self._ensure_connected())
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

    def _ensure_connected(self) -> Connected:
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
