"""The names that EC2, Kubernetes and people see: tags, labels, taints and annotations. Each is written here only."""

from nodefleet.domain.machines import Notice
from nodefleet.domain.plain import from_plain, to_plain
from nodefleet.domain.problems import RefusedError

# ── EC2 tags ─────────────────────────────────────────────────────────────────────────────────────────────────────
TAG_CLUSTER = "node-fleet:cluster"
TAG_POOL = "node-fleet:pool"
TAG_ROLE = "node-fleet:role"
TAG_OPERATION = "node-fleet:operation"
TAG_CAPACITY = "node-fleet:capacity-type"
TAG_STATUS = "node-fleet:status"  # it and the pool's are the only keys that are written on an instance that exists
TAG_TEMPLATE = "aws:ec2launchtemplate:id"  # EC2 writes these two on whatever it launches from a template
TAG_TEMPLATE_VERSION = "aws:ec2launchtemplate:version"
ROLE_WORKER = "worker"
ROLE_SERVER = "server"
STATUS_JOIN_FAILED = "join-failed"

# ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────────
POOL_LABEL = "node-fleet.io/pool"
CAPACITY_LABEL = "node-fleet.io/capacity-type"
LEAVING_TAINT = "node-fleet.io/leaving"  # on a node that we drain; its value is the deadline
REMOVAL_ANNOTATION = "node-fleet.io/removal"  # which removal: a taint's value is too short for it
REASON_ANNOTATION = "node-fleet.io/reason"
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

_EMERGENCY = "emergency"
_SEPARATOR = "/"


def emergency(notice: Notice) -> str:
    """The id of a removal that began without the table. It carries the notice, so that the node itself tells why it
    leaves even if nothing could be recorded."""
    return _SEPARATOR.join((_EMERGENCY, notice.instance, notice.kind.value, to_plain(notice.at)))


def notice_in(removal: str) -> Notice | None:
    """The notice that such an id carries; none for every other removal."""
    parts = removal.split(_SEPARATOR)
    match parts:
        case [first, instance, kind, at] if first == _EMERGENCY and instance:
            try:
                return from_plain(Notice, {"instance": instance, "kind": kind, "at": at})
            except RefusedError:
                return None
        case _:
            return None
