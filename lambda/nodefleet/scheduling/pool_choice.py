"""The pool for a pod that several pools could hold: the cheapest one that can still launch a node.

Prices are compared for the part of a node that the pod takes. While a price is not known, the policy's order decides.
"""

from collections.abc import Mapping, Sequence

from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Market
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import Memory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.scheduling.templates import Template


def pools_without_capacity(
    seen: Observation, policy: Policy, workers: Sequence[Worker], memory: Memory
) -> frozenset[str]:
    """Pools that launch nothing now: at max, in a dry run, or all of their types are known to be short everywhere."""
    return frozenset(
        pool.name
        for pool in policy.pools
        if pool.dry_run
        or sum(worker.occupies for worker in workers if worker.pool == pool.name) >= pool.limits.max
        or _is_short(pool, seen, memory)
    )


def cheapest_first(
    pod: Pod, fitting: Mapping[str, int], templates: Mapping[str, Sequence[Template]], without_capacity: frozenset[str]
) -> dict[str, int]:
    """The pools of `fitting` (by pool: bit n says whether its template n holds the pod) in the order of preference."""
    held = {
        pool: [each for index, each in enumerate(templates[pool]) if mask >> index & 1]
        for pool, mask in fitting.items()
    }
    known = all(each.price is not None for those in held.values() for each in those)
    price = {pool: min(_price(pod, each) for each in those) if known else 0.0 for pool, those in held.items()}
    return dict(sorted(fitting.items(), key=lambda item: (item[0] in without_capacity, price[item[0]])))


def _price(pod: Pod, template: Template) -> float:
    """Of the part of the node that the pod takes; of a pod that asks for nothing, of the node."""
    node = template.empty.free
    part = max(pod.requests.cpu / max(node.cpu, 1), pod.requests.memory / max(node.memory, 1))
    return (template.price or 0.0) * (part or 1.0)


def _is_short(pool: Pool, seen: Observation, memory: Memory) -> bool:
    """On-Demand too: a pool takes that where Spot is short."""
    target = next((each for each in seen.targets if each.pool == pool.name), None)
    short = {
        (each.type, each.zone)
        for each in memory.pool(pool.name).shortages
        if each.market is Market.ON_DEMAND and seen.at < each.until
    }
    wanted = {(name, zone) for name in pool.market.types for zone in (target.subnets if target else ())}
    return bool(wanted) and wanted <= short
