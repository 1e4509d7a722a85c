"""Pods of the system that keep the worker they run on from ever leaving. K3s puts some wherever there is room."""

from collections.abc import Iterator

from nodefleet.eviction.budgets import BudgetTracker
from nodefleet.eviction.drain import marked_safe
from nodefleet.eviction.protection import KUBE_SYSTEM
from nodefleet.model.names import pluralize, some
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import SAFE_TO_EVICT, Pod
from nodefleet.policy.cluster import Policy
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint


def system_pods(ctx: DoctorContext) -> Iterator[Finding]:
    pinning = list(pinned(ctx.view.needed(), ctx.policy.needed()))
    if not pinning:
        yield fine("none keeps a worker from leaving")
        return
    where = some(f"{pod.name} on {pod.node}" for pod in pinning)
    fix = f'Give each a PodDisruptionBudget, or annotate it {SAFE_TO_EVICT[0]}: "true"'
    keeps = pluralize(len(pinning), "pod without a budget keeps its worker", "pods without a budget keep their workers")
    yield hint(f"{keeps} from leaving: {where}", fix)


def pinned(view: ClusterView, policy: Policy) -> Iterator[Pod]:
    careful = {pool.name for pool in policy.pools if pool.removal.kube_system}
    workers = {node.name for node in view.nodes if node.pool in careful and not node.control_plane}
    pods = [pod for pod in view.pods or () if pod.namespace == KUBE_SYSTEM]
    ledger = BudgetTracker(view.budgets, pods)
    for pod in pods:
        if pod.node in workers and pod.movable and not marked_safe(pod) and not ledger.covering(pod):
            yield pod
