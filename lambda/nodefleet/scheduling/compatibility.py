"""Pod compatibility: which of the nodes that could be launched hold a pod, and which pool it goes to."""

from collections.abc import Hashable, Mapping, Sequence

from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Market
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import Memory
from nodefleet.model.workload import Pod, Rules
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.scheduling.predicates import asks_by_name, attachments, zones_asked_for
from nodefleet.scheduling.templates import Template

# ── which pool first ─────────────────────────────────────────────────────────────────────────────────────────────────
# Of several pools that could hold a pod the cheapest one that can still launch a node.
#
# Prices are compared for the part of a node that the pod takes. While a price is not known, the policy's order decides.


def pools_without_capacity(
    observation: Observation, policy: Policy, workers: Sequence[Worker], memory: Memory
) -> frozenset[str]:
    """Pools that launch nothing now: at max, in a dry run, or all of their types are known to be short everywhere."""
    return frozenset(
        pool.name
        for pool in policy.pools
        if pool.dry_run
        or sum(worker.occupies for worker in workers if worker.pool == pool.name) >= pool.limits.max
        or _is_short(pool, observation, memory)
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


def _is_short(pool: Pool, observation: Observation, memory: Memory) -> bool:
    """On-Demand too: a pool takes that where Spot is short."""
    target = observation.target(pool.name)
    short = {
        (each.type, each.zone)
        for each in memory.pool(pool.name).shortages
        if each.market is Market.ON_DEMAND and observation.at < each.until
    }
    wanted = {(name, zone) for name in pool.market.types for zone in (target.subnets if target else ())}
    return bool(wanted) and wanted <= short


# ── pod compatibility ─────────────────────────────────────────────────────────────────────────────────────────────────
# Pods of one template are asked about once.


class PodCompatibility:
    def __init__(
        self, templates: Mapping[str, Sequence[Template]], without_capacity: frozenset[str] = frozenset()
    ) -> None:
        """`without_capacity`: pools that launch nothing now. They come last."""
        self._templates = templates  # by pool
        self._without_capacity = without_capacity
        self._found: dict[Hashable, Mapping[str, int]] = {}
        self._of_pods: dict[int, tuple[Pod, Mapping[str, int]]] = {}
        self._rules: dict[int, Rules] = {}

    def can_launch(self, pool: str) -> bool:
        return pool not in self._without_capacity

    def pools(self, pod: Pod) -> tuple[str, ...]:
        """Pools one of whose nodes could hold the pod: the cheapest first, else in the policy's order."""
        return tuple(self._of(pod))

    def number(self, pod: Pod) -> int:
        """How many kinds of nodes could, by type and zone."""
        return sum(mask.bit_count() for mask in self._of(pod).values())

    def mask(self, pod: Pod, pool: str) -> int:
        """Bit n: the pool's template n could hold the pod."""
        return self._of(pod).get(pool, 0)

    def _of(self, pod: Pod) -> Mapping[str, int]:
        known = self._of_pods.get(id(pod))
        if known is None:
            known = self._of_pods[id(pod)] = (pod, self._of_shape(pod))  # kept, so that no other pod gets the id
        return known[1]

    def _of_shape(self, pod: Pod) -> Mapping[str, int]:
        shape = self._shape(pod)
        if shape not in self._found:
            by_pool = {
                pool: sum(each.can_hold(pod) << index for index, each in enumerate(those))
                for pool, those in self._templates.items()
            }
            fitting = {pool: mask for pool, mask in by_pool.items() if mask}
            self._found[shape] = cheapest_first(pod, fitting, self._templates, self._without_capacity)
        return self._found[shape]

    def _shape(self, pod: Pod) -> Hashable:
        self._rules[id(pod.rules)] = pod.rules  # kept, so that the id is not given to other rules
        asked = pod.requests
        sizes = (asked.cpu, asked.memory, asked.storage, frozenset(asked.extended.items()))
        volumes = (zones_asked_for(pod), any(volume.node for volume in pod.volumes), frozenset(attachments([pod])))
        return (id(pod.rules), sizes, volumes if pod.volumes else ())


def is_plain(pod: Pod) -> bool:
    """Only its CPU, memory and slot decide whether a node that admits it has room for it, whatever else runs there."""
    asked, rules = pod.requests, pod.rules
    if asked.storage or asked.extended or rules.host_ports or (pod.volumes and attachments([pod])):
        return False
    return not (rules.affinity or rules.anti_affinity or rules.spread or asks_by_name(pod))
