"""Pods counted per topology domain (the zone `us-east-1a`, the host `w1`), for terms that some pod really carries.

Pods that no selector can tell apart are one kind; the kinds that a term speaks about are a crowd. A term is matched
once per kind, however many pods there are, and the two find each other by a label that they share.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import TypeAlias

from nodefleet.decide.scheduling.fits import tolerates_leaving, tolerates_node
from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.decide.scheduling.selectors import admits, all_hold
from nodefleet.domain.workload import Pod, Requirement, Rules, Selector

_Pair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pods a term speaks about."""

    namespaces: frozenset[str] | None  # none: all of them
    labels: tuple[_Pair, ...]
    expressions: tuple[Requirement, ...]

    @classmethod
    def of(cls, selector: Selector, namespaces: frozenset[str] | None) -> "Scope":
        return cls(namespaces, tuple(sorted(selector.labels.items())), selector.expressions)

    def includes(self, kind: "Kind") -> bool:
        if self.namespaces is not None and kind.namespace not in self.namespaces:
            return False
        return all(kind.labels.get(key) == value for key, value in self.labels) and all_hold(
            self.expressions, kind.labels
        )

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.labels]
        words += [f"{each.key} {each.operator.value} {','.join(each.values)}".rstrip() for each in self.expressions]
        return " and ".join(words) or "any pod"


class Terrain:
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


class Tally:
    """How many pods there are in each domain. A domain without any is not in it."""

    def __init__(self, topology: str, terrain: Terrain | None = None) -> None:
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


class Kind:
    """Pods that no selector can tell apart, and where they are."""

    def __init__(self, pod: Pod) -> None:
        self.namespace = pod.namespace
        self.labels = pod.labels
        self.leaving = pod.deleted_at is not None
        self.crowds: list[Crowd] = []
        self.where: dict[str, int] = defaultdict(int)  # pods by node name


class Crowd:
    """The pods that all of some scopes include, counted in the ways that somebody needs."""

    def __init__(self, scopes: tuple[Scope, ...], *, with_leaving: bool) -> None:
        self.scopes = scopes
        self.with_leaving = with_leaving
        self.present: dict[tuple[str, int], Tally] = {}  # where these pods are
        self.carriers: dict[str, Tally] = {}  # by topology: where pods are that want none of these near them
        # A label that all its pods have, to find them by.
        self.handle = next((pair for scope in scopes for pair in scope.labels), None)

    def includes(self, kind: Kind) -> bool:
        return (self.with_leaving or not kind.leaving) and all(scope.includes(kind) for scope in self.scopes)


class Crowds:
    """All kinds and crowds that were ever asked about, each matched with the others when it first appears."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, frozenset[_Pair], bool], Kind] = {}
        self._kinds_with: dict[_Pair, list[Kind]] = defaultdict(list)
        self._crowds: dict[tuple[tuple[Scope, ...], bool], Crowd] = {}
        self._crowds_with: dict[_Pair | None, list[Crowd]] = defaultdict(list)

    def kind(self, pod: Pod) -> Kind:
        key = (pod.namespace, frozenset(pod.labels.items()), pod.deleted_at is not None)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = Kind(pod)
            for pair in pod.labels.items():
                self._kinds_with[pair].append(kind)
            for handle in (None, *pod.labels.items()):
                kind.crowds += [crowd for crowd in self._crowds_with.get(handle, ()) if crowd.includes(kind)]
        return kind

    def crowd(self, *scopes: Scope, with_leaving: bool = True) -> Crowd:
        crowd = self._crowds.get((scopes, with_leaving))
        if crowd is None:
            crowd = self._crowds[scopes, with_leaving] = Crowd(scopes, with_leaving=with_leaving)
            self._crowds_with[crowd.handle].append(crowd)
            for kind in self.kinds_of(crowd):
                kind.crowds.append(crowd)
        return crowd

    def kinds_of(self, crowd: Crowd) -> list[Kind]:
        known = self._kinds.values() if crowd.handle is None else self._kinds_with.get(crowd.handle, ())
        return [kind for kind in known if crowd.includes(kind)]
