"""GPUs and other devices of nodes: extended resources that a device plugin offers some time after the node is ready.

Until then the catalogue of types knows what the node will hold: a ready node without its devices is still booting for
the pods that ask for them. After `health.device_limit` it counts as what it is, a node without devices.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import NOTHING, Node, Resources
from nodefleet.model.snapshot import Observation
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool


def awaited_devices(seen: Observation, policy: Policy, workers: Iterable[Worker]) -> Mapping[str, Resources]:
    """By node: what a ready node will hold once its device plugin is up, while that may still take its time."""
    catalog = {offer.name: offer.resources for offer in seen.catalog if offer.resources.extended}
    found = {}
    for worker in workers if catalog else ():
        pool, node = policy.pool(worker.pool), worker.node
        if pool is None or node is None or worker.instance is None or worker.phase is not Phase.READY:
            continue
        complete = node.allocatable.with_devices(catalog.get(worker.instance.type, NOTHING))
        if complete is not node.allocatable and not _is_late(node, pool, seen.at):
            found[node.name] = complete
    return found


def lacks_devices(pod: Pod, node: Node, pool: Pool, now: datetime) -> str | None:
    """Which device that the pod asks for the node should offer by now and does not; none if it still has time."""
    if not pod.requests.extended or not _is_late(node, pool, now):
        return None
    absent = (name for name in sorted(pod.requests.extended) if not node.allocatable.extended.get(name))
    name = next(absent, None)
    return f"it offers no {name}, so its device plugin is not running" if name else None


def _is_late(node: Node, pool: Pool, now: datetime) -> bool:
    return node.ready_changed_at is None or now - node.ready_changed_at >= pool.health.device_limit
