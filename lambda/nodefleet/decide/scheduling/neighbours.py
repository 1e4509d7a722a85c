"""Who may run near whom: affinity, anti-affinity and spread.

All three come down to counting pods per topology domain. Nothing is counted until the first pod asks: most clusters
have few such pods.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from nodefleet.decide.scheduling.crowds import Crowd, Crowds, Scope, Tally, Terrain
from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.domain.workload import Pod, PodTerm, Rules, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One thing that a node's domain must satisfy. A node without the label `topology` has no domain."""

    topology: str
    allows: Callable[[str | None], bool]
    otherwise: str  # what is wrong with a domain that it does not allow


def unmet(demands: Iterable[Demand], node: NodeModel) -> str | None:
    """What is wrong with the domains that the node is in."""
    for demand in demands:
        if not demand.allows(node.labels.get(demand.topology)):
            return demand.otherwise
    return None


class Neighbours:
    def __init__(self, everyone: Callable[[], Iterable[tuple[Pod, NodeModel]]]) -> None:
        self._everyone = everyone  # asked at most once, for who is there already
        self._nodes: dict[str, NodeModel] = {}
        self._leaving: set[str] = set()
        self._crowds = Crowds()
        self._terrains: dict[Hashable, Terrain] = {}
        self._counting = False
        self._some_keep_others_off = False

    def add_node(self, node: NodeModel) -> None:
        self._nodes[node.name] = node
        for terrain in self._terrains.values():
            terrain.add(node)

    def remove_node(self, node: NodeModel) -> None:
        """Its pods must be gone already."""
        del self._nodes[node.name]
        for terrain in self._terrains.values():
            terrain.remove(node)

    def set_leaving(self, node: NodeModel, *, leaving: bool) -> None:
        """It is about to be cordoned and tainted, or no longer. No pod may be counted on it meanwhile."""
        self._leaving = self._leaving | {node.name} if leaving else self._leaving - {node.name}
        for terrain in self._terrains.values():
            terrain.remove(node)
            terrain.add(node, leaving=leaving)

    def count(self, pod: Pod, node: NodeModel, number: int) -> None:
        """`number` is 1 for a pod that came and -1 for one that went."""
        for term in pod.rules.anti_affinity:
            self._some_keep_others_off = True
            carriers = self._crowds.crowd(_scope(term, pod)).carriers
            carriers.setdefault(term.topology, Tally(term.topology)).add(node, number)
        if self._counting:
            kind = self._crowds.kind(pod)
            kind.where[node.name] += number
            for crowd in kind.crowds:
                for tally in crowd.present.values():
                    tally.add(node, number)

    def demands(self, pod: Pod) -> list[Demand]:
        """What the domains of a node must satisfy for this pod."""
        if pod.rules.affinity or pod.rules.anti_affinity or pod.rules.spread:
            self._start_counting()
            return [*self._unwelcome(pod), *self._together(pod), *self._apart(pod), *self._spread(pod)]
        return list(self._unwelcome(pod)) if self._some_keep_others_off else []

    def _start_counting(self) -> None:
        if not self._counting:
            self._counting = True
            for pod, node in self._everyone():
                self._crowds.kind(pod).where[node.name] += 1

    def _unwelcome(self, pod: Pod) -> Iterator[Demand]:
        """Pods that are there may want none like this one near them."""
        for crowd in self._crowds.kind(pod).crowds:
            for tally in crowd.carriers.values():
                yield _outside(tally, f"a pod there keeps {crowd.scopes[0]} away")

    def _apart(self, pod: Pod) -> Iterator[Demand]:
        for term in pod.rules.anti_affinity:
            crowd = self._crowds.crowd(_scope(term, pod))
            yield _outside(self._present(crowd, term.topology), f"it stays away from {crowd.scopes[0]}")

    def _together(self, pod: Pod) -> Iterator[Demand]:
        """All terms must hold, for pods that match all of them. The first pod of a group may go anywhere."""
        terms = pod.rules.affinity
        if not terms:
            return
        crowd = self._crowds.crowd(*(_scope(term, pod) for term in terms))
        tallies = [self._present(crowd, term.topology) for term in terms]
        is_first = crowd in self._crowds.kind(pod).crowds and not any(tally.counts for tally in tallies)
        for scope, tally in zip(crowd.scopes, tallies, strict=True):
            yield _in_any(tally.topology) if is_first else _inside(tally, f"it goes where {scope} runs")

    def _spread(self, pod: Pod) -> Iterator[Demand]:
        if not pod.rules.spread:
            return
        for spread in pod.rules.spread:
            terrain = self._terrain(pod.rules, spread)
            # Pods that are being deleted keep others off, but nobody is spread over them.
            crowd = self._crowds.crowd(Scope.of(spread.selector, frozenset({pod.namespace})), with_leaving=False)
            counts = self._present(crowd, spread.topology, terrain).counts
            domains = terrain.domains[spread.topology]
            all_have_some = len(counts) == len(domains) >= spread.min_domains
            fewest = min(counts.values(), default=0) if all_have_some else 0
            itself = 1 if crowd in self._crowds.kind(pod).crowds else 0
            yield _at_most(counts, fewest + spread.max_skew - itself, spread.topology, spread.max_skew)

    def _present(self, crowd: Crowd, topology: str, terrain: Terrain | None = None) -> Tally:
        key = (topology, id(terrain))  # a terrain lives as long as its tallies
        if key not in crowd.present:
            tally = crowd.present[key] = Tally(topology, terrain)
            for kind in self._crowds.kinds_of(crowd):
                for name, number in kind.where.items():
                    if number:
                        tally.add(self._nodes[name], number)
        return crowd.present[key]

    def _terrain(self, rules: Rules, spread: Spread) -> Terrain:
        key = (
            tuple(each.topology for each in rules.spread),
            (frozenset(rules.node_selector.items()), rules.node_terms) if spread.honors_affinity else None,
            rules.tolerations if spread.honors_taints else None,
        )
        if key not in self._terrains:
            terrain = Terrain(rules, by_affinity=spread.honors_affinity, by_taints=spread.honors_taints)
            self._terrains[key] = terrain
            for node in self._nodes.values():
                terrain.add(node, leaving=node.name in self._leaving)
        return self._terrains[key]


def _scope(term: PodTerm, carrier: Pod) -> Scope:
    return Scope.of(term.selector, None if term.everywhere else frozenset(term.namespaces or (carrier.namespace,)))


def _in_any(topology: str) -> Demand:
    return Demand(
        topology=topology, allows=lambda domain: domain is not None, otherwise=f"the node has no label {topology}"
    )


def _inside(tally: Tally, otherwise: str) -> Demand:
    return Demand(topology=tally.topology, allows=lambda domain: domain in tally.counts, otherwise=otherwise)


def _outside(tally: Tally, otherwise: str) -> Demand:
    return Demand(topology=tally.topology, allows=lambda domain: domain not in tally.counts, otherwise=otherwise)


def _at_most(counts: dict[str, int], limit: int, topology: str, skew: int) -> Demand:
    return Demand(
        topology=topology,
        allows=lambda domain: domain is not None and counts.get(domain, 0) <= limit,
        otherwise=f"it would be spread unevenly over {topology}, by more than {skew}",
    )
