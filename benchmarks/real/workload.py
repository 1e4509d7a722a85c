"""What is asked of a real cluster: nodes, workloads of twenty kinds, budgets, and pods that find no room.

The pods themselves are made by the real controllers and bound by the real scheduler, so everything about them that the
code reads (owners, hashes, conditions, who wrote which field) is as a real server writes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from world import objects, pods
from world.scene import NAMESPACE, PODS_PER_NODE, REPLICAS, TYPE, ZONES, Object, written

from e2e.parts.kwok import ALIVE_LABEL
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL

NAME_LABEL = "app.kubernetes.io/name"
WAITING = "sale"  # the Deployment whose pods find no room
KINDS = 20
_BUDGET_EVERY = 4  # Deployments
_WAITING_NEED = {"cpu": "900m", "memory": "512Mi"}  # more than any node has left, and half of what an empty one has
_NOT_SENT = ("uid", "resourceVersion", "creationTimestamp")  # the server's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How big the cluster is. Nodes are nearly full however many pods there are."""

    nodes: int
    pods: int  # the DaemonSet's, one for each node, are among them
    waiting: int

    @property
    def replicas(self) -> list[int]:
        """Of each Deployment."""
        full, rest = divmod(self.pods - self.nodes, REPLICAS)
        return [REPLICAS] * full + ([rest] if rest else [])

    @property
    def scale(self) -> float:
        """Of every request: fewer pods are bigger."""
        return self.nodes * (PODS_PER_NODE - 1) / (self.pods - self.nodes)


def nodes(plan: Plan) -> Iterator[Object]:
    """As K3s would register them; KWOK makes them ready."""
    born = written(datetime.now(UTC))
    for number in range(plan.nodes):
        node = _sent(objects.node(number, born))
        node["metadata"]["labels"][ALIVE_LABEL] = "true"
        node["spec"]["podCIDR"] = f"10.{42 + number // 256}.{number % 256}.0/24"
        del node["status"]["conditions"]
        yield node


def deployments(plan: Plan) -> Iterator[Object]:
    for number, replicas in enumerate(plan.replicas):
        kind = number * 7 % KINDS  # so that a few have the same mean as many
        requests = {
            "cpu": f"{int(plan.scale * (90 + 10 * kind))}m",
            "memory": f"{int(plan.scale * (128 + 16 * kind))}Mi",
        }
        spec = pods.spec(f"registry.example.com/shop/app-{number}:2026.11.4", requests, [])
        labels = {NAME_LABEL: _app(number), "app.kubernetes.io/part-of": "shop", "tier": f"kind-{kind}"}
        yield _deployment(_app(number), replicas, labels, spec | _placed(kind, _app(number)))


def waiting(plan: Plan) -> Object:
    spec = pods.spec(f"registry.example.com/shop/{WAITING}:2026.11.4", _WAITING_NEED, [])
    return _deployment(WAITING, plan.waiting, {NAME_LABEL: WAITING}, spec)


def budgets(plan: Plan) -> Iterator[Object]:
    for number in range(0, len(plan.replicas), _BUDGET_EVERY):
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {NAME_LABEL: _app(number)}}}
        yield {"metadata": {"name": _app(number)}, "spec": spec}


def _app(number: int) -> str:
    return f"app-{number}"


def _deployment(name: str, replicas: int, labels: dict[str, str], spec: Object) -> Object:
    template = {"metadata": {"labels": labels, "annotations": {"prometheus.io/scrape": "true"}}, "spec": spec}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {NAME_LABEL: name}}, "template": template}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": wanted}


def _placed(kind: int, app: str) -> Object:
    """Some kinds say where they want to run. All of them can: what is measured is reading and weighing it."""
    own = {"matchLabels": {NAME_LABEL: app}}
    match kind % 10:
        case 1 | 6:
            spread = {"maxSkew": 1, "topologyKey": ZONE_LABEL, "whenUnsatisfiable": "ScheduleAnyway"}
            return {"topologySpreadConstraints": [spread | {"labelSelector": own}]}
        case 2 | 7:
            return {"nodeSelector": {"kubernetes.io/os": "linux"}}
        case 3:
            term = {"matchExpressions": [{"key": TYPE_LABEL, "operator": "In", "values": [TYPE]}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            return {"affinity": {"nodeAffinity": required}}
        case 4:
            term = {"matchExpressions": [{"key": ZONE_LABEL, "operator": "In", "values": list(ZONES[:1])}]}
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
            return {"affinity": {"nodeAffinity": preferred}}
        case 5:
            apart = {"labelSelector": own, "topologyKey": HOST_LABEL}
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": apart}]}
            return {"affinity": {"podAntiAffinity": preferred}}
        case _:
            return {}


def _sent(made: Object) -> Object:
    for field in _NOT_SENT:
        del made["metadata"][field]
    return made
