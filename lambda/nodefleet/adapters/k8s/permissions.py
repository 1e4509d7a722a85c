"""What our role must allow. The ClusterRole is built from this, and a test holds every request against it."""

from dataclasses import dataclass

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
        why="see the workers, cordon and uncordon them, delete those whose machine is gone",
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
    Permission(resource="namespaces", verbs=_READ_LISTS, why="resolve affinity that selects namespaces by label"),
    Permission(
        resource="replicationcontrollers", verbs=_READ_LISTS, why="know how many replicas a pod's controller has"
    ),
    Permission(group="apps", resource="replicasets", verbs=("get", "list"), why="find the Deployment of a pod"),
    Permission(group="apps", resource="deployments", verbs=_READ_LISTS, why="know how many replicas it wants"),
    Permission(group="apps", resource="statefulsets", verbs=_READ_LISTS, why="know how many replicas it wants"),
    Permission(group="apps", resource="daemonsets", verbs=_READ_LISTS, why="tell leftover daemon pods from others"),
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
