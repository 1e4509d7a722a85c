"""Templates of new nodes: their labels and taints, what DaemonSets leave free on them, and which pods they can hold.

What a node offers is known best from one of the same type that has joined: kernel, kubelet and system have taken their
share. It is remembered when such a node leaves. Until one has joined, the catalogue of types is the source, less the
policy's `market.memory_overhead_percent`; its disk is the launch template's, less `market.disk_overhead_percent`.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import NOTHING, InstanceType, Market, Node, Resources, total
from nodefleet.model.names import CAPACITY_LABEL, POOL_LABEL
from nodefleet.model.snapshot import ClusterView, Missing, Observation
from nodefleet.model.state import NOTHING_REMEMBERED, Memory
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Pod, Rules
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool
from nodefleet.scheduling.predicates import (
    NodeModel,
    NodeState,
    attachments,
    labels_asked_for,
    shortage,
    unmet_predicate,
    zones_asked_for,
)

OS_LABEL = "kubernetes.io/os"
ARCH_LABEL = "kubernetes.io/arch"
REGION_LABEL = "topology.kubernetes.io/region"

ANY_STORAGE = 1 << 60  # the disk is the launch template's, so the catalogue may not know it
_GIB = 2**30
KUBELET_PODS = 110  # a kubelet's default; EC2 does not know it

_GRAVITON = re.compile(r"a1\.|[a-z]+[0-9]+[a-z]*g")  # t4g, m7gd, is4gen; not g5, whose g is the family
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]+")  # of the zone eu-west-1a, and of the local zone us-west-2-lax-1a


def architecture(type_: str) -> str:
    """By the type's name, as the kubelet labels it."""
    return "arm64" if _GRAVITON.match(type_) else "amd64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    pool: str
    type: str
    zone: str
    node: NodeModel
    daemons: tuple[Pod, ...] = ()
    market: Market | None = None  # none: either; pods do not depend on it
    price: float | None = None  # USD an hour, in its market or the pool's mix of markets; none: not known
    short: bool = False  # EC2 is known to have none of the type now, in no zone and market of the pool
    empty: NodeState = field(compare=False, repr=False)  # such a node with nothing but its daemons

    @property
    def free(self) -> Resources:
        return self.empty.free

    def with_name(self, name: str) -> NodeModel:
        return replace(self.node, name=name, labels={**self.node.labels, HOST_LABEL: name})

    def can_hold(self, pod: Pod) -> bool:
        """Other pods left aside."""
        return unmet_predicate(pod, self.node) is None and shortage(pod, self.empty) is None

    def can_hold_all(self, pods: Sequence[Pod]) -> bool:
        """These pods together, as far as they do not depend on each other."""
        enough = self.empty.has(total(pod.requests for pod in pods)) and len(pods) <= self.free.pods
        return enough and self.empty.driver_at_limit(pods) is None and all(self.can_hold(pod) for pod in pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSource:
    """What an observation and the memory say about nodes to come, gathered once for all pools."""

    learned: Mapping[tuple[str, str], Node]  # by pool and type: a ready node
    remembered: Mapping[tuple[str, str], Resources]  # by pool and type: what nodes offered that have left
    catalog: Mapping[str, InstanceType]
    daemons: tuple[Pod, ...]
    zones: Mapping[str, tuple[str, ...]]  # by pool
    disks: Mapping[str, int]  # by pool: bytes of the root volume that its launch template asks for, where known
    attach_limits: Mapping[str, Mapping[str, int]]  # by type ("": any type) and CSI driver: the least of all nodes
    shortages: Mapping[str, frozenset[tuple[str, str, Market]]]  # by pool: type, zone and market
    by_market: bool = False  # a pending pod depends on the market, so that each has templates of its own

    def templates(self, pool: Pool) -> tuple[Template, ...]:
        """One for each of the pool's types and zones (and markets), types in the policy's order; none for types that
        are not known."""
        markets = _markets(pool.market) if self.by_market else (None,)
        found = (
            self.template(pool, type_, zone, market)
            for type_ in pool.market.types
            for zone in self.zones_of(pool)
            for market in markets
        )
        return tuple(template for template in found if template)

    def template(self, pool: Pool, type_: str, zone: str, market: Market | None = None) -> Template | None:
        allocatable = self._allocatable(pool, type_)
        if allocatable is None:
            return None
        node = self._outline(pool, type_, zone, market, allocatable)
        daemons = tuple(pod for pod in self.daemons if unmet_predicate(pod, node) is None)
        empty = NodeState(node, 0)
        for pod in daemons:
            empty.put(pod)
        return Template(
            pool=pool.name,
            type=type_,
            zone=zone,
            node=node,
            daemons=daemons,
            market=market,
            price=_price(self.catalog.get(type_), pool.market, market),
            short=self._is_short(pool, type_, market),
            empty=empty,
        )

    def outlines(self, pool: Pool) -> Iterator[NodeModel]:
        """The pool's nodes as far as labels and taints go, for when their size is not known."""
        for type_ in pool.market.types:
            for zone in self.zones_of(pool) or ("",):
                for market in _markets(pool.market) if self.by_market else (None,):
                    yield self._outline(pool, type_, zone, market)

    def zones_of(self, pool: Pool) -> tuple[str, ...]:
        return self.zones.get(pool.name, ())

    def _outline(
        self, pool: Pool, type_: str, zone: str, market: Market | None, allocatable: Resources = NOTHING
    ) -> NodeModel:
        name, learned = f"new {type_} in {zone}", self.learned.get((pool.name, type_))
        region = _REGION.match(zone)
        labels = {
            OS_LABEL: "linux",
            ARCH_LABEL: self._architecture(type_),
            **({REGION_LABEL: region[0]} if region else {}),
            **_shared_labels(learned),
            **pool.labels,
            ZONE_LABEL: zone,
            TYPE_LABEL: type_,
            POOL_LABEL: pool.name,
            HOST_LABEL: name,
            **({CAPACITY_LABEL: market.value} if market else {}),
        }
        limits = {**self.attach_limits.get("", {}), **self.attach_limits.get(type_, {})}
        return NodeModel(name=name, labels=labels, taints=pool.taints, allocatable=allocatable, attach_limits=limits)

    def _is_short(self, pool: Pool, type_: str, market: Market | None) -> bool:
        known = self.shortages.get(pool.name)
        if not known:
            return False
        # On-Demand is taken where Spot is short, unless a pod depends on Spot.
        markets = (market,) if market else {*_markets(pool.market), Market.ON_DEMAND}
        return all((type_, zone, paid) in known for zone in self.zones_of(pool) for paid in markets)

    def _architecture(self, type_: str) -> str:
        known = self.catalog[type_].architecture if type_ in self.catalog else ""
        return known or architecture(type_)

    def _allocatable(self, pool: Pool, type_: str) -> Resources | None:
        key = (pool.name, type_)
        offered = self.catalog[type_].resources if type_ in self.catalog else NOTHING
        disk = int(self.disks.get(pool.name, 0) * (1 - pool.market.disk_overhead_percent / 100))
        seen = self.learned[key].allocatable if key in self.learned else self.remembered.get(key)
        if seen is not None:
            # A disk that is larger in the launch template than on the nodes was changed after they were launched.
            return replace(seen.with_devices(offered), storage=max(seen.storage, disk))
        if type_ not in self.catalog:
            return None
        return replace(
            offered,
            memory=int(offered.memory * (1 - pool.market.memory_overhead_percent / 100)),
            pods=offered.pods or KUBELET_PODS,
            storage=offered.storage or disk or ANY_STORAGE,
        )


def template_source(observation: Observation, memory: Memory = NOTHING_REMEMBERED) -> TemplateSource:
    view = observation.kubernetes if isinstance(observation.kubernetes, ClusterView) else ClusterView()
    return TemplateSource(
        learned=_smallest_nodes(observation, view.nodes),
        remembered={(name, type_): size for name, pool in memory.pools.items() for type_, size in pool.sizes.items()},
        catalog=observation.offers,
        daemons=_daemons(view.pods or (), view.daemon_sets),
        zones={target.pool: tuple(sorted(target.subnets)) for target in observation.targets},
        disks={target.pool: target.disk_gb * _GIB for target in observation.targets},
        attach_limits=_least_attach_limits(observation, view.nodes),
        shortages={
            name: frozenset(
                (each.type, each.zone, each.market) for each in pool.shortages if observation.at < each.until
            )
            for name, pool in memory.pools.items()
        },
        by_market=_depend_on_market(view.pods or ()),
    )


def observed_sizes(pool: Pool, observation: Observation, before: Mapping[str, Resources]) -> Mapping[str, Resources]:
    """What a node of each of the pool's types offers, as far as one has ever been ready."""
    view = observation.kubernetes if isinstance(observation.kubernetes, ClusterView) else ClusterView()
    found = {
        type_: node.allocatable
        for (name, type_), node in _smallest_nodes(observation, view.nodes).items()
        if name == pool.name
    }
    return {type_: size for type_, size in {**before, **found}.items() if type_ in pool.market.types}


def template_refusal(pod: Pod, candidates: Sequence[Template]) -> str | None:
    """Why no new node could hold the pod; none if one could, or if there is none to ask.

    That an admitted node is too small says more than that another one, in the wrong zone, is not admitted at all.
    """
    barred = [unmet_predicate(pod, each.node) for each in candidates]
    admitting = [each for each, reason in zip(candidates, barred, strict=True) if reason is None]
    small = [shortage(pod, each.empty) for each in admitting]
    if None in small:
        return None
    reasons = [f"a new {each.type}: {short}" for each, short in zip(admitting, small, strict=True)]
    return next(iter(reasons), None) or next(iter(barred), None)


def _markets(mix: MarketMix) -> tuple[Market, ...]:
    """Those that the pool buys in, Spot first."""
    spot = (Market.SPOT,) if mix.spot_percent > 0 else ()
    return (*spot, *((Market.ON_DEMAND,) if mix.spot_percent < 100 or mix.on_demand_base else ()))  # noqa: PLR2004


def _depend_on_market(pods: Iterable[Pod]) -> bool:
    rules = {id(pod.rules): pod.rules for pod in pods if pod.node is None}
    return any(CAPACITY_LABEL in labels_asked_for(each) for each in rules.values())


def _price(offer: InstanceType | None, mix: MarketMix, market: Market | None) -> float | None:
    """Of one node an hour, on the mean over the pool's markets; where one market's price is not known, the other's."""
    if offer is None:
        return None
    spot = offer.hourly_usd if offer.spot_usd is None else offer.spot_usd
    on_demand = offer.spot_usd if offer.hourly_usd is None else offer.hourly_usd
    if spot is None or on_demand is None:
        return None
    if market is not None:
        return spot if market is Market.SPOT else on_demand
    return on_demand + (spot - on_demand) * mix.spot_percent / 100


def _shared_labels(learned: Node | None) -> Mapping[str, str]:
    """Labels that every node of a type has. Others may be an operator's, put on that one node by hand."""
    labels = learned.labels if learned else {}
    return {key: labels[key] for key in (OS_LABEL, ARCH_LABEL, REGION_LABEL) if key in labels}


def _types(observation: Observation) -> Mapping[str, str]:
    """By instance."""
    instances = () if isinstance(observation.instances, Missing) else observation.instances
    return {instance.id: instance.type for instance in instances}


def _smallest_nodes(observation: Observation, nodes: Iterable[Node]) -> Mapping[tuple[str, str], Node]:
    """Of several nodes the smallest: a new one will hold at least that."""
    types = _types(observation)
    found: dict[tuple[str, str], Node] = {}
    for node in sorted(nodes, key=lambda node: (*_size(node.allocatable), node.name)):
        type_ = types.get(node.instance) or node.labels.get(TYPE_LABEL)
        if node.pool is not None and node.ready and not node.control_plane and type_:
            found.setdefault((node.pool, type_), node)
    return found


def _least_attach_limits(observation: Observation, nodes: Iterable[Node]) -> Mapping[str, Mapping[str, int]]:
    """Of a type that no node has the least of all nodes stands ("")."""
    types = _types(observation)
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for node in nodes:
        for of_type in ("", types.get(node.instance) or node.labels.get(TYPE_LABEL, "")):
            for driver, limit in node.attach_limits.items():
                found[of_type][driver] = min(limit, found[of_type].get(driver, limit))
    return found


def _daemons(pods: Iterable[Pod], daemon_sets: Iterable[Pod] = ()) -> tuple[Pod, ...]:
    """One pod for each DaemonSet, the largest, free of the node that its controller chose for it. Where it may run is
    said by its template, which new nodes get; admission may have made its pods larger than that."""
    by_template = {(each.namespace, each.name): each for each in daemon_sets}
    largest: dict[tuple[str, str], Pod] = dict(by_template)
    for pod in pods:
        if pod.owner is None or not pod.is_daemon or pod.owner.gone or pod.finished:
            continue
        key = (pod.namespace, pod.owner.name)
        if key not in largest or (_size(pod.requests), pod.name) > (_size(largest[key].requests), largest[key].name):
            largest[key] = pod
    return tuple(
        replace(pod, rules=by_template[key].rules if key in by_template else _of_no_node(pod.rules))
        for key, pod in sorted(largest.items())
    )


def _of_no_node(rules: Rules) -> Rules:
    if rules.node_terms is None:
        return rules
    if any(term.fields and not term.labels for term in rules.node_terms):
        return replace(rules, node_terms=None)  # nothing but the node's name was asked for
    return replace(rules, node_terms=tuple(replace(term, fields=()) for term in rules.node_terms))


def _size(amount: Resources) -> tuple[int, int, int, int]:
    return (amount.cpu, amount.memory, amount.storage, amount.pods)


# ── which pool first ─────────────────────────────────────────────────────────────────────────────────────────────────
# Of several pools that could hold a pod the cheapest one that can still launch a node.
#
# Prices are compared for the part of a node that the pod takes. While a price is not known, the policy's order decides.


def pools_without_capacity(
    observation: Observation, policy: Policy, workers: Sequence[Worker], memory: Memory
) -> frozenset[str]:
    """Pools that launch nothing: at max, in a dry run, or all of their types are known to be short everywhere."""
    return frozenset(
        pool.name
        for pool in policy.pools
        if pool.dry_run
        or sum(worker.occupies for worker in workers if worker.pool == pool.name) >= pool.limits.max
        or _is_short(pool, observation, memory)
    )


def cheapest_first(
    pod: Pod,
    fitting: Mapping[str, int],
    templates: Mapping[str, Sequence[Template]],
    without_capacity: frozenset[str],
    stopped: frozenset[str] = frozenset(),
) -> dict[str, int]:
    """The pools of `fitting` (by pool: bit n says whether its template n holds the pod) in the order of preference."""
    if len(fitting) <= 1:
        return dict(fitting)
    held = {
        pool: [each for index, each in enumerate(templates[pool]) if mask >> index & 1]
        for pool, mask in fitting.items()
    }
    known = all(each.price is not None for those in held.values() for each in those)
    # A pool may well launch other types and yet none that holds the pod.
    without = without_capacity | {pool for pool, those in held.items() if all(each.short for each in those)}

    def price(pool: str) -> float:
        there = [each for each in held[pool] if not each.short] or held[pool]
        return min(price_of_part(pod, each) for each in there) if known else 0.0

    return dict(sorted(fitting.items(), key=lambda item: (item[0] in without, item[0] in stopped, price(item[0]))))


def price_of_part(pod: Pod, template: Template) -> float:
    """Of the part of the node that the pod takes, devices included; of a pod that asks for nothing, of the node."""
    asked, node = pod.requests, template.empty.free
    devices = (count / max(node.extended.get(name, 0), 1) for name, count in asked.extended.items())
    part = max((asked.cpu / max(node.cpu, 1), asked.memory / max(node.memory, 1), *devices))
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


class PodCompatibility:
    """Which new nodes hold a pod. Pods of one template are asked about once."""

    def __init__(
        self,
        templates: Mapping[str, Sequence[Template]],
        without_capacity: frozenset[str] = frozenset(),
        stopped: frozenset[str] = frozenset(),
    ) -> None:
        """`without_capacity`: pools that launch nothing. They come last, after those that are only `stopped` now."""
        self._templates = templates  # by pool
        self._without_capacity = without_capacity
        self._stopped = stopped
        self._found: dict[Hashable, Mapping[str, int]] = {}
        self._of_pods: dict[int, tuple[Pod, Mapping[str, int], int]] = {}
        self._rules: dict[int, Rules] = {}

    def can_launch(self, pool: str) -> bool:
        return pool not in self._without_capacity | self._stopped

    def pools(self, pod: Pod) -> tuple[str, ...]:
        """Pools one of whose nodes could hold the pod: the cheapest first, else in the policy's order."""
        return tuple(self._of(pod)[1])

    def number(self, pod: Pod) -> int:
        """How many kinds of nodes could, by type and zone."""
        return self._of(pod)[2]

    def mask(self, pod: Pod, pool: str) -> int:
        """Bit n: the pool's template n could hold the pod."""
        return self._of(pod)[1].get(pool, 0)

    def _of(self, pod: Pod) -> tuple[Pod, Mapping[str, int], int]:
        """The pod, which is kept so that no other gets its id, by pool the kinds of nodes, and their number."""
        known = self._of_pods.get(id(pod))
        if known is None:
            found = self._of_shape(pod)
            known = self._of_pods[id(pod)] = (pod, found, sum(mask.bit_count() for mask in found.values()))
        return known

    def _of_shape(self, pod: Pod) -> Mapping[str, int]:
        shape = self._shape(pod)
        if shape not in self._found:
            by_pool = {
                pool: sum(each.can_hold(pod) << index for index, each in enumerate(those))
                for pool, those in self._templates.items()
            }
            fitting = {pool: mask for pool, mask in by_pool.items() if mask}
            self._found[shape] = cheapest_first(pod, fitting, self._templates, self._without_capacity, self._stopped)
        return self._found[shape]

    def _shape(self, pod: Pod) -> Hashable:
        self._rules[id(pod.rules)] = pod.rules  # kept, so that the id is not given to other rules
        asked = pod.requests
        sizes = (asked.cpu, asked.memory, asked.storage, frozenset(asked.extended.items()))
        volumes = (zones_asked_for(pod), any(volume.node for volume in pod.volumes), frozenset(attachments([pod])))
        return (id(pod.rules), sizes, volumes if pod.volumes else ())
