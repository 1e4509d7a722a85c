"""Who may run near whom: affinity, anti-affinity and spread.

All three come down to counting pods per topology domain. Nothing is counted until the first pod asks: most clusters
have few such pods.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodefleet.model.workload import Pod, PodTerm, Requirement, Rules, Selector, Spread
from nodefleet.scheduling.predicates import (
    NodeModel,
    TopologyDemand,
    admits,
    all_hold,
    tolerates_leaving,
    tolerates_node,
)

# ── topology groups ──────────────────────────────────────────────────────────────────────────────────────────────────
# Pods counted per topology domain (the zone `us-east-1a`, the host `w1`), for terms that some pod really carries.
#
# Pods that no selector can tell apart are one kind; the kinds that a term speaks about are a crowd. A term is matched
# once per kind, however many pods there are, and the two find each other by a label that they share.


_Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PodScope:
    """Which pods a term speaks about."""

    namespaces: frozenset[str] | None  # none: all of them
    labels: tuple[_Pair, ...]
    expressions: tuple[Requirement, ...]

    @classmethod
    def of(cls, selector: Selector, namespaces: frozenset[str] | None) -> "PodScope":
        return cls(namespaces, tuple(sorted(selector.labels.items())), selector.expressions)

    def includes(self, kind: "PodKind") -> bool:
        if self.namespaces is not None and kind.namespace not in self.namespaces:
            return False
        return all(kind.labels.get(key) == value for key, value in self.labels) and all_hold(
            self.expressions, kind.labels
        )

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.labels]
        words += [f"{each.key} {each.operator.value} {','.join(each.values)}".rstrip() for each in self.expressions]
        return " and ".join(words) or "any pod"


class DomainMap:
    """The nodes over which a pod is spread: those with all its topologies that the constraint's policies let count.

    Its node selector and affinity rule nodes out unless `nodeAffinityPolicy` is Ignore, its tolerations only if
    `nodeTaintsPolicy` is Honor: else a tainted control plane is an empty domain like any other.
    """

    def __init__(self, rules: Rules, *, by_affinity: bool, by_taints: bool) -> None:
        self._rules = rules
        self._by_affinity = by_affinity
        self._by_taints = by_taints
        self.nodes: set[str] = set()
        self.domains: dict[str, dict[str, int]] = {spread.topology: defaultdict(int) for spread in rules.spread}

    def add(self, node: NodeModel, *, leaving: bool = False) -> None:
        if all(topology in node.labels for topology in self.domains) and self._includes(node, leaving=leaving):
            self.nodes.add(node.name)
            for topology, nodes_in in self.domains.items():
                nodes_in[node.labels[topology]] += 1

    def remove(self, node: NodeModel) -> None:
        if node.name not in self.nodes:
            return
        self.nodes.remove(node.name)
        for topology, nodes_in in self.domains.items():
            nodes_in[node.labels[topology]] -= 1
            if not nodes_in[node.labels[topology]]:
                del nodes_in[node.labels[topology]]

    def _includes(self, node: NodeModel, *, leaving: bool) -> bool:
        if self._by_affinity and not admits(self._rules, node.name, node.labels):
            return False
        if not self._by_taints:
            return True
        leaves = leaving or node.closed  # its taints may not be there yet, and will be by the time of scheduling
        return tolerates_node(self._rules, node) and (not leaves or tolerates_leaving(self._rules))


class DomainCounts:
    """How many pods there are in each domain. A domain without any is not in it."""

    def __init__(self, topology: str, terrain: DomainMap | None = None) -> None:
        self.topology = topology
        self._terrain = terrain  # only pods on its nodes count; none: on all
        self.counts: dict[str, int] = {}

    def add(self, node: NodeModel, number: int) -> None:
        domain = node.labels.get(self.topology)
        if domain is None or (self._terrain is not None and node.name not in self._terrain.nodes):
            return
        count = self.counts.get(domain, 0) + number
        if count:
            self.counts[domain] = count
        else:
            del self.counts[domain]


class PodKind:
    """Pods that no selector can tell apart, and where they are."""

    def __init__(self, pod: Pod) -> None:
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.leaving = pod.deleted_at is not None
        self.crowds: list[TopologyGroup] = []
        self.where: dict[str, int] = defaultdict(int)  # pods by node name


class TopologyGroup:
    """The pods that all of some scopes include, counted in the ways that a rule needs."""

    def __init__(self, scopes: tuple[PodScope, ...], *, with_leaving: bool) -> None:
        self.scopes = scopes
        self.with_leaving = with_leaving
        self.present: dict[tuple[str, int], DomainCounts] = {}  # where these pods are
        self.carriers: dict[str, DomainCounts] = {}  # by topology: where pods are that want none of these near them
        # A label that all its pods have, to find them by.
        self.handle = next((pair for scope in scopes for pair in scope.labels), None)

    def includes(self, kind: PodKind) -> bool:
        return (self.with_leaving or not kind.leaving) and all(scope.includes(kind) for scope in self.scopes)


class TopologyGroups:
    """All kinds and crowds that were ever asked about, each matched with the others when it first appears."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, frozenset[_Pair], bool], PodKind] = {}
        self._kind_of: dict[int, tuple[Pod, PodKind]] = {}  # by the id of a pod, which is kept so that no other gets it
        self._kinds_with: dict[_Pair, list[PodKind]] = defaultdict(list)
        self._crowds: dict[tuple[tuple[PodScope, ...], bool], TopologyGroup] = {}
        self._crowds_with: dict[_Pair | None, list[TopologyGroup]] = defaultdict(list)

    def kind(self, pod: Pod) -> PodKind:
        known = self._kind_of.get(id(pod))
        if known is None:
            known = self._kind_of[id(pod)] = (pod, self._find_kind(pod))
        return known[1]

    def _find_kind(self, pod: Pod) -> PodKind:
        key = (pod.namespace, frozenset(pod.labels.items()), pod.deleted_at is not None)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = PodKind(pod)
            for pair in pod.labels.items():
                self._kinds_with[pair].append(kind)
            for handle in (None, *pod.labels.items()):
                kind.crowds += [crowd for crowd in self._crowds_with.get(handle, ()) if crowd.includes(kind)]
        return kind

    def crowd(self, *scopes: PodScope, with_leaving: bool = True) -> TopologyGroup:
        crowd = self._crowds.get((scopes, with_leaving))
        if crowd is None:
            crowd = self._crowds[scopes, with_leaving] = TopologyGroup(scopes, with_leaving=with_leaving)
            self._crowds_with[crowd.handle].append(crowd)
            for kind in self.kinds_of(crowd):
                kind.crowds.append(crowd)
        return crowd

    def kinds_of(self, crowd: TopologyGroup) -> list[PodKind]:
        known = self._kinds.values() if crowd.handle is None else self._kinds_with.get(crowd.handle, ())
        return [kind for kind in known if crowd.includes(kind)]


# ── affinity, anti-affinity, spread ──────────────────────────────────────────────────────────────────────────────────


class TopologyTracker:
    def __init__(self, everyone: Callable[[], Iterable[tuple[Pod, NodeModel]]]) -> None:
        self._everyone = everyone  # asked at most once, for who is there already
        self._nodes: dict[str, NodeModel] = {}
        self._leaving: set[str] = set()
        self._crowds = TopologyGroups()
        self._terrains: dict[Hashable, DomainMap] = {}
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
            carriers.setdefault(term.topology, DomainCounts(term.topology)).add(node, number)
        if self._counting:
            kind = self._crowds.kind(pod)
            kind.where[node.name] += number
            for crowd in kind.crowds:
                for tally in crowd.present.values():
                    tally.add(node, number)

    def demands(self, pod: Pod) -> list[TopologyDemand]:
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

    def _unwelcome(self, pod: Pod) -> Iterator[TopologyDemand]:
        """Pods that are there may want none like this one near them."""
        for crowd in self._crowds.kind(pod).crowds:
            for tally in crowd.carriers.values():
                yield _outside(tally, f"a pod there keeps {crowd.scopes[0]} away")

    def _apart(self, pod: Pod) -> Iterator[TopologyDemand]:
        for term in pod.rules.anti_affinity:
            crowd = self._crowds.crowd(_scope(term, pod))
            yield _outside(self._present(crowd, term.topology), f"it stays away from {crowd.scopes[0]}")

    def _together(self, pod: Pod) -> Iterator[TopologyDemand]:
        """All terms must hold, for pods that match all of them. The first pod of a group may go anywhere."""
        terms = pod.rules.affinity
        if not terms:
            return
        crowd = self._crowds.crowd(*(_scope(term, pod) for term in terms))
        tallies = [self._present(crowd, term.topology) for term in terms]
        is_first = crowd in self._crowds.kind(pod).crowds and not any(tally.counts for tally in tallies)
        for scope, tally in zip(crowd.scopes, tallies, strict=True):
            yield _in_any(tally.topology) if is_first else _inside(tally, f"it goes where {scope} runs")

    def _spread(self, pod: Pod) -> Iterator[TopologyDemand]:
        if not pod.rules.spread:
            return
        for spread in pod.rules.spread:
            terrain = self._terrain(pod.rules, spread)
            # Pods that are being deleted keep others off, but no pod is spread over them.
            crowd = self._crowds.crowd(PodScope.of(spread.selector, frozenset({pod.namespace})), with_leaving=False)
            counts = self._present(crowd, spread.topology, terrain).counts
            domains = terrain.domains[spread.topology]
            all_have_some = len(counts) == len(domains) >= spread.min_domains
            fewest = min(counts.values(), default=0) if all_have_some else 0
            itself = 1 if crowd in self._crowds.kind(pod).crowds else 0
            yield _at_most(counts, fewest + spread.max_skew - itself, spread.topology, spread.max_skew)

    def _present(self, crowd: TopologyGroup, topology: str, terrain: DomainMap | None = None) -> DomainCounts:
        key = (topology, id(terrain))  # a terrain lives as long as its tallies
        if key not in crowd.present:
            tally = crowd.present[key] = DomainCounts(topology, terrain)
            for kind in self._crowds.kinds_of(crowd):
                for name, number in kind.where.items():
                    if number:
                        tally.add(self._nodes[name], number)
        return crowd.present[key]

    def _terrain(self, rules: Rules, spread: Spread) -> DomainMap:
        key = (
            tuple(each.topology for each in rules.spread),
            (frozenset(rules.node_selector.items()), rules.node_terms) if spread.honors_affinity else None,
            rules.tolerations if spread.honors_taints else None,
        )
        if key not in self._terrains:
            terrain = DomainMap(rules, by_affinity=spread.honors_affinity, by_taints=spread.honors_taints)
            self._terrains[key] = terrain
            for node in self._nodes.values():
                terrain.add(node, leaving=node.name in self._leaving)
        return self._terrains[key]


def _scope(term: PodTerm, carrier: Pod) -> PodScope:
    return PodScope.of(term.selector, None if term.everywhere else frozenset(term.namespaces or (carrier.namespace,)))


def lacks_domain(rules: Rules, labels: Mapping[str, str]) -> str | None:
    """The label without which a node is in no domain that such a pod is spread over or goes to, whatever runs there."""
    topologies = [*(each.topology for each in rules.spread), *(each.topology for each in rules.affinity)]
    return next((_no_label(each) for each in topologies if each not in labels), None)


def _no_label(topology: str) -> str:
    return f"the node has no label {topology}"


def _in_any(topology: str) -> TopologyDemand:
    return TopologyDemand(topology=topology, allows=lambda domain: domain is not None, otherwise=_no_label(topology))


def _inside(tally: DomainCounts, otherwise: str) -> TopologyDemand:
    return TopologyDemand(topology=tally.topology, allows=lambda domain: domain in tally.counts, otherwise=otherwise)


def _outside(tally: DomainCounts, otherwise: str) -> TopologyDemand:
    return TopologyDemand(
        topology=tally.topology, allows=lambda domain: domain not in tally.counts, otherwise=otherwise
    )


def _at_most(counts: dict[str, int], limit: int, topology: str, skew: int) -> TopologyDemand:
    return TopologyDemand(
        topology=topology,
        allows=lambda domain: domain is not None and counts.get(domain, 0) <= limit,
        otherwise=f"it would be spread unevenly over {topology}, by more than {skew}",
    )
