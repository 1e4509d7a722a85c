"""Resources of the API server, requests about them, and the permissions that our role needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

# ── resources ────────────────────────────────────────────────────────────────────────────────────────────────────────
# The kinds of objects that we deal with, and the requests that can be made about them.
#
# A request knows its Kubernetes verb as well as its path, so that a refusal can say which permission is missing.


_METHODS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH", "delete": "DELETE"}
_JSON = "application/json"
_MERGE_PATCH = "application/merge-patch+json"  # lists are replaced whole, so a patch says all that it knows


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    verb: str  # as in a role: get, list, create, patch, delete
    path: str
    group: str = ""
    resource: str = ""  # as in a role: pods, pods/eviction; empty for a path that is no object's
    namespace: str = ""
    name: str = ""
    query: tuple[tuple[str, str], ...] = ()
    body: Mapping[str, Any] | None = None

    @property
    def method(self) -> str:
        return _METHODS[self.verb]

    @property
    def content_type(self) -> str:
        return _MERGE_PATCH if self.verb == "patch" else _JSON

    @property
    def changes_nothing(self) -> bool:
        return self.verb in ("get", "list")

    def __str__(self) -> str:
        """What is asked for, in words: `create pods/eviction default/web-1`."""
        named = "/".join(part for part in (self.namespace, self.name) if part)
        return " ".join(part for part in (self.verb, self.resource or self.path, named) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    group: str = ""
    version: str = "v1"
    plural: str

    def list(self, **query: str) -> Request:
        """In all namespaces."""
        return Request(
            verb="list", path=self._path(), group=self.group, resource=self.plural, query=tuple(query.items())
        )

    def list_in(self, namespace: str) -> Request:
        return Request(
            verb="list", path=self._path(namespace), group=self.group, resource=self.plural, namespace=namespace
        )

    def get(self, name: str, namespace: str = "") -> Request:
        return self._one("get", name, namespace)

    def patch(self, name: str, body: Mapping[str, Any], namespace: str = "") -> Request:
        return self._one("patch", name, namespace, body)

    def delete(self, name: str, options: Mapping[str, Any], namespace: str = "") -> Request:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return self._one("delete", name, namespace, body)

    def create(self, body: Mapping[str, Any], namespace: str = "") -> Request:
        return Request(
            verb="create",
            path=self._path(namespace),
            group=self.group,
            resource=self.plural,
            namespace=namespace,
            body=body,
        )

    def create_under(self, name: str, subresource: str, body: Mapping[str, Any], namespace: str = "") -> Request:
        """Such as an eviction, which is created under its pod."""
        return Request(
            verb="create",
            path=f"{self._path(namespace, name)}/{subresource}",
            group=self.group,
            resource=f"{self.plural}/{subresource}",
            namespace=namespace,
            name=name,
            body=body,
        )

    def _one(self, verb: str, name: str, namespace: str, body: Mapping[str, Any] | None = None) -> Request:
        return Request(
            verb=verb,
            path=self._path(namespace, name),
            group=self.group,
            resource=self.plural,
            namespace=namespace,
            name=name,
            body=body,
        )

    def _path(self, namespace: str = "", name: str = "") -> str:
        root = ["apis", self.group, self.version] if self.group else ["api", self.version]
        within = ["namespaces", namespace] if namespace else []
        parts = [*root, *within, self.plural, *([name] if name else [])]
        return "/" + "/".join(quote(part, safe="") for part in parts)


NODES = Resource(plural="nodes")
PODS = Resource(plural="pods")
NAMESPACES = Resource(plural="namespaces")
EVENTS = Resource(plural="events")
CLAIMS = Resource(plural="persistentvolumeclaims")
VOLUMES = Resource(plural="persistentvolumes")
STORAGE_CLASSES = Resource(group="storage.k8s.io", plural="storageclasses")
CSI_NODES = Resource(group="storage.k8s.io", plural="csinodes")
REPLICATION_CONTROLLERS = Resource(plural="replicationcontrollers")
REPLICA_SETS = Resource(group="apps", plural="replicasets")
DEPLOYMENTS = Resource(group="apps", plural="deployments")
STATEFUL_SETS = Resource(group="apps", plural="statefulsets")
DAEMON_SETS = Resource(group="apps", plural="daemonsets")
JOBS = Resource(group="batch", plural="jobs")
BUDGETS = Resource(group="policy", plural="poddisruptionbudgets")
LEASES = Resource(group="coordination.k8s.io", plural="leases")
ACCESS_REVIEWS = Resource(group="authorization.k8s.io", plural="selfsubjectaccessreviews")
VERSION = Request(verb="get", path="/version")


# ── permissions ──────────────────────────────────────────────────────────────────────────────────────────────────────
# What our role must allow. The ClusterRole is built from this, and a test holds every request against it.


_READ_LISTS = ("list",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    group: str = ""  # the API group; empty is the core one
    resource: str
    verbs: tuple[str, ...]
    why: str


NEEDED: tuple[Permission, ...] = (
    Permission(
        resource="nodes",
        verbs=("get", "list", "patch", "delete"),
        why="see the workers, cordon and uncordon them, delete those whose instance is gone",
    ),
    Permission(
        resource="pods", verbs=("get", "list", "delete"), why="see what runs; force it off a node that EC2 takes"
    ),
    Permission(resource="pods/eviction", verbs=("create",), why="drain a node as its budgets allow"),
    Permission(resource="events", verbs=("create", "get", "patch"), why="say on a node why it leaves or stays"),
    Permission(resource="persistentvolumeclaims", verbs=_READ_LISTS, why="know which volume a pod uses"),
    Permission(resource="persistentvolumes", verbs=_READ_LISTS, why="know on which node or in which zone a volume is"),
    Permission(
        group="storage.k8s.io",
        resource="storageclasses",
        verbs=_READ_LISTS,
        why="know whether a claim without a volume waits for a node",
    ),
    Permission(
        group="storage.k8s.io", resource="csinodes", verbs=_READ_LISTS, why="know how many volumes a node can attach"
    ),
    Permission(resource="namespaces", verbs=_READ_LISTS, why="resolve affinity that selects namespaces by label"),
    Permission(
        resource="replicationcontrollers", verbs=_READ_LISTS, why="know how many replicas a pod's controller has"
    ),
    Permission(group="apps", resource="replicasets", verbs=("get", "list"), why="find the Deployment of a pod"),
    Permission(group="apps", resource="deployments", verbs=_READ_LISTS, why="know how many replicas it wants"),
    Permission(group="apps", resource="statefulsets", verbs=_READ_LISTS, why="know how many replicas it wants"),
    Permission(
        group="apps",
        resource="daemonsets",
        verbs=_READ_LISTS,
        why="know what a new node will run; tell leftover daemon pods",
    ),
    Permission(group="batch", resource="jobs", verbs=_READ_LISTS, why="tell pods whose Job is gone from others"),
    Permission(group="policy", resource="poddisruptionbudgets", verbs=_READ_LISTS, why="know who may leave"),
    Permission(
        group="coordination.k8s.io",
        resource="leases",
        verbs=_READ_LISTS,
        why="know when a node that is not ready was last heard of (in kube-node-lease)",
    ),
    Permission(
        group="authorization.k8s.io",
        resource="selfsubjectaccessreviews",
        verbs=("create",),
        why="check all of this (every authenticated user may by default)",
    ),
)

# Paths that are no objects. Every authenticated user may read them by default.
NEEDED_PATHS: tuple[str, ...] = ("/version",)
