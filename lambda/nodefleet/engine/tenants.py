"""Whose pods get new nodes first while a pool cannot have as many as all of them ask for: priorities, tenants' shares.

A tenant is a namespace or the value of a pod label. Nodes go one by one to the tenant that has least of the pool for
its share, counting what runs already. So a tenant gets at most its share while others wait, and all of it while no
other tenant asks: an idle share is lent.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nodefleet.engine.context import PoolContext
from nodefleet.engine.signals.pending_pods import PendingPods
from nodefleet.model.inventory import Resources
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Tenants
from nodefleet.scheduling.pool_packing import NewNode


def tenant_of(pod: Pod, tenants: Tenants) -> str:
    return pod.namespace if tenants.label is None else pod.labels.get(tenants.label, "")


def share_new_nodes(ctx: PoolContext, pending: PendingPods) -> PendingPods:
    """The pool's pending pods, their new nodes in the order in which they are bought: by the pods' priority, and while
    tenants have shares by these first."""
    return replace(pending, new=order_by_share(order_by_priority(pending.new), _running(ctx), ctx.policy.tenants))


def order_by_priority(new: Iterable[NewNode]) -> tuple[NewNode, ...]:
    """Nodes of pods with the highest priority first, otherwise as they were: under a limit the others wait."""
    return tuple(sorted(new, key=lambda node: -max((pod.priority for pod in node.pods), default=0)))


def _running(ctx: PoolContext) -> Iterator[Pod]:
    """The pods on the pool's workers, DaemonSets aside."""
    view = ctx.observation.kubernetes
    names = {worker.node.name for worker in ctx.workers if worker.node}
    return (
        pod for pod in (view.pods or () if isinstance(view, ClusterView) else ()) if pod.node in names and pod.movable
    )


def order_by_share(new: Sequence[NewNode], running: Iterable[Pod], tenants: Tenants) -> tuple[NewNode, ...]:
    """The nodes in the order in which they are bought; of one tenant as they were. `running`: the pool's pods."""
    if not tenants.shares or len(new) <= 1:
        return tuple(new)
    whole = _largest(new)
    held: dict[str, float] = defaultdict(float)
    for pod in running:
        held[tenant_of(pod, tenants)] += _part(pod.requests, whole)
    waiting: dict[str, deque[NewNode]] = {}
    for node in new:
        waiting.setdefault(_owner(node, tenants, whole), deque()).append(node)
    ordered = []
    while waiting:
        tenant = min(waiting, key=lambda name: held[name] / tenants.share_of(name))
        node = waiting[tenant].popleft()
        ordered.append(node)
        for pod in node.pods:
            held[tenant_of(pod, tenants)] += _part(pod.requests, whole)
        if not waiting[tenant]:
            del waiting[tenant]
    return tuple(ordered)


def _owner(node: NewNode, tenants: Tenants, whole: Resources) -> str:
    """The tenant whose pods take most of the node."""
    parts: dict[str, float] = defaultdict(float)
    for pod in node.pods:
        parts[tenant_of(pod, tenants)] += _part(pod.requests, whole)
    return max(sorted(parts), key=lambda name: parts[name], default="")


def _part(asked: Resources, whole: Resources) -> float:
    """Of a node: the largest of the shares of CPU, memory and pod slots."""
    return max(asked.cpu / max(whole.cpu, 1), asked.memory / max(whole.memory, 1), 1 / max(whole.pods, 1))


def _largest(new: Sequence[NewNode]) -> Resources:
    offered = [template.node.allocatable for node in new for template in node.templates]
    return Resources(
        cpu=max((each.cpu for each in offered), default=0),
        memory=max((each.memory for each in offered), default=0),
        pods=max((each.pods for each in offered), default=0),
    )
