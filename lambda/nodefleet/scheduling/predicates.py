"""Scheduler predicates: whether one pod may run on one node, and the first reason why not."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nodefleet.model.inventory import NOTHING, Effect, Resources, Taint
from nodefleet.model.names import LEAVING_TAINT
from nodefleet.model.workload import (
    EVERY_ADDRESS,
    HOST_LABEL,
    ZONE_LABEL,
    HostPort,
    NodeTerm,
    Operator,
    Pod,
    Requirement,
    Rules,
    Selector,
    Toleration,
)

# ── selectors ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Selectors, matched as Kubernetes matches them: labels of pods, and labels and names of nodes.


NAME_FIELD = "metadata.name"  # the only field of a node that a term may ask for

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


def matches(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Everything in the selector holds for these labels; an empty selector matches everything."""
    return all(labels.get(key) == value for key, value in selector.labels.items()) and all_hold(
        selector.expressions, labels
    )


def all_hold(expressions: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in expressions)


def admits(rules: Rules, name: str, labels: Mapping[str, str]) -> bool:
    """The node selector and one of the required node terms, if there are any, match this node."""
    if any(labels.get(key) != value for key, value in rules.node_selector.items()):
        return False
    return rules.node_terms is None or any(_term_matches(term, name, labels) for term in rules.node_terms)


def _term_matches(term: NodeTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.labels and not term.fields:
        return False  # an empty term matches no node
    fields = {NAME_FIELD: name}
    return all(_holds_for_node(requirement, labels.get(requirement.key)) for requirement in term.labels) and all(
        _holds(requirement, fields.get(requirement.key)) for requirement in term.fields
    )


def _holds_for_node(requirement: Requirement, value: str | None) -> bool:
    """Node terms can compare numbers too, and a value that no label can have makes the whole term void."""
    if requirement.operator in (Operator.GREATER, Operator.LESS):
        return _compares(requirement, value)
    return all(_LABEL_VALUE.fullmatch(each) for each in requirement.values) and _holds(requirement, value)


def _holds(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values  # a label that is not there is not in any list
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.GREATER | Operator.LESS:
            return False  # a label selector cannot compare; the API server lets such a selector match nothing


def _compares(requirement: Requirement, value: str | None) -> bool:
    texts = (value or "", *requirement.values)
    if len(texts) != 2 or not all(_WHOLE_NUMBER.fullmatch(text) for text in texts):  # noqa: PLR2004  # one with one
        return False
    here, there = map(int, texts)
    return here > there if requirement.operator is Operator.GREATER else here < there


# ── node state ───────────────────────────────────────────────────────────────────────────────────────────────────────
# A node as the scheduler sees it, and what is still free on it while pods are put there and taken away again.


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeModel:
    """A node that exists, that is on its way, or that could be bought."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    cordoned: bool = False
    closed: str = ""  # why it takes no new pod at all, whatever the pod tolerates; empty: it does
    attach_limits: Mapping[str, int] = field(default_factory=dict)  # volumes by CSI driver; a missing one has no limit


class NodeState:
    """What is free on one node. Plain numbers, because they change for every pod that is tried."""

    __slots__ = ("attached", "cpu", "extended", "index", "memory", "node", "pods", "ports", "slots", "storage")

    def __init__(self, node: NodeModel, index: int) -> None:
        self.node = node
        self.index = index  # its rank: of two places that fit, the lower one is taken
        self.cpu = node.allocatable.cpu
        self.memory = node.allocatable.memory
        self.storage = node.allocatable.storage
        self.slots = node.allocatable.pods
        self.extended = dict(node.allocatable.extended)
        self.ports: list[HostPort] = []
        self.pods: list[Pod] = []
        self.attached: Counter[tuple[str, str]] = Counter()  # pods that use a volume, by its driver and handle

    def put(self, pod: Pod) -> None:
        self._reserve(pod, 1)
        self.ports.extend(pod.rules.host_ports)
        self.pods.append(pod)
        if pod.volumes:
            self.attached.update(attachments([pod]))

    def take_last(self) -> Pod:
        """Undo the last `put`."""
        pod = self.pods.pop()
        self._reserve(pod, -1)
        if pod.rules.host_ports:
            del self.ports[-len(pod.rules.host_ports) :]
        if pod.volumes:
            self.attached -= Counter(attachments([pod]))
        return pod

    def has(self, asked: Resources) -> bool:
        """Enough of everything that is asked for. What is not asked for may even be overbooked."""
        return (
            self.slots >= 1
            and (not asked.cpu or asked.cpu <= self.cpu)
            and (not asked.memory or asked.memory <= self.memory)
            and self.has_the_rest(asked)
        )

    def has_the_rest(self, asked: Resources) -> bool:
        """Enough of what is seldom asked for: ephemeral storage and extended resources."""
        if asked.storage > max(self.storage, 0):
            return False
        return not asked.extended or all(
            amount <= max(self.extended.get(name, 0), 0) for name, amount in asked.extended.items()
        )

    def has_ports(self, wanted: tuple[HostPort, ...]) -> bool:
        return not wanted or not any(_clash(one, other) for one in wanted for other in self.ports)

    def driver_at_limit(self, pods: Iterable[Pod]) -> str | None:
        """The CSI driver of which the node cannot attach the volumes of all these pods as well."""
        limits = self.node.attach_limits
        if not limits:
            return None
        new = {each for each in attachments(pods) if each[0] in limits and each not in self.attached}
        for driver, number in sorted(Counter(driver for driver, _ in new).items()):
            if number + sum(there == driver for there, _ in self.attached) > limits[driver]:
                return driver
        return None

    @property
    def taken(self) -> float:
        """The share of the node that pods ask for, of CPU and memory on the mean: the scheduler takes the emptiest."""
        return share_taken(self.node.allocatable, self.cpu, self.memory)

    @property
    def free(self) -> Resources:
        return Resources(
            cpu=self.cpu, memory=self.memory, storage=self.storage, pods=self.slots, extended=dict(self.extended)
        )

    def _reserve(self, pod: Pod, sign: int) -> None:
        asked = pod.requests
        self.cpu -= sign * asked.cpu
        self.memory -= sign * asked.memory
        self.storage -= sign * asked.storage
        self.slots -= sign
        for name, amount in asked.extended.items() if asked.extended else ():
            self.extended[name] = self.extended.get(name, 0) - sign * amount


def share_taken(offered: Resources, cpu: int, memory: int) -> float:
    """With so much of it still free."""
    return 1 - (cpu / max(offered.cpu, 1) + memory / max(offered.memory, 1)) / 2


def attachments(pods: Iterable[Pod]) -> set[tuple[str, str]]:
    """Driver and handle of each volume of these pods of which nodes can attach only so many."""
    return {(volume.driver, volume.handle) for pod in pods for volume in pod.volumes if volume.driver}


def _clash(one: HostPort, other: HostPort) -> bool:
    """The same port of one protocol, and an address in common."""
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.address == other.address or EVERY_ADDRESS in (one.address, other.address)


# ── predicates ───────────────────────────────────────────────────────────────────────────────────────────────────────
# What keeps one pod off one node, in words. None means: nothing does.
#
# These are the rules that look at the pod and the node alone. What other pods have to do with it is in `neighbours`.


CORDON = Taint(key="node.kubernetes.io/unschedulable")
LEAVING = Taint(key=LEAVING_TAINT)  # what a node gets besides the cordon when it is to leave


def unmet_predicate(pod: Pod, node: NodeModel) -> str | None:
    """The first thing about the node itself that keeps the pod off."""
    return (
        _check_open(pod.rules, node)
        or _check_taints(pod.rules, node)
        or _elsewhere(pod.rules, node)
        or _data_elsewhere(pod, node)
    )


def shortage(pod: Pod, node_state: NodeState) -> str | None:
    """What the place has too little of for this pod."""
    asked = pod.requests
    if not node_state.has(asked):
        return _lacking(asked, node_state.free)
    if not node_state.has_ports(pod.rules.host_ports):
        return "its host port is taken"
    if pod.volumes and (driver := node_state.driver_at_limit([pod])):
        return f"the node can attach no more volumes of {driver}"
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in (None, taint.effect):
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.operator == "Equal" and toleration.value == taint.value)


def tolerates_node(rules: Rules, node: NodeModel) -> bool:
    """No taint of the node keeps such a pod off. A cordon is a taint to the scheduler."""
    return (not node.cordoned or _is_tolerated(CORDON, rules)) and _check_taints(rules, node) is None


def tolerates_leaving(rules: Rules) -> bool:
    """Neither the cordon nor the taint of a leaving node keeps such a pod off: evicted, it may come straight back."""
    return _is_tolerated(CORDON, rules) and _is_tolerated(LEAVING, rules)


def asks_by_name(pod: Pod) -> bool:
    """Its rules speak of single nodes, so that two nodes which are alike otherwise differ for it."""
    return (
        HOST_LABEL in pod.rules.node_selector
        or any(volume.node is not None for volume in pod.volumes)
        or any(
            term.fields or any(requirement.key == HOST_LABEL for requirement in term.labels)
            for term in pod.rules.node_terms or ()
        )
    )


def is_plain(pod: Pod) -> bool:
    """Only its CPU, memory and slot decide whether a node that admits it has room for it, whatever else runs there."""
    asked, rules = pod.requests, pod.rules
    if asked.storage or asked.extended or rules.host_ports or (pod.volumes and attachments([pod])):
        return False
    return not (rules.affinity or rules.anti_affinity or rules.spread or asks_by_name(pod))


def labels_asked_for(rules: Rules) -> Iterator[str]:
    """The node labels that decide where the pod may run, without the one that names a single node."""
    yield from (key for key in rules.node_selector if key != HOST_LABEL)
    for term in rules.node_terms or ():
        yield from (requirement.key for requirement in term.labels if requirement.key != HOST_LABEL)


def zones_asked_for(pod: Pod) -> Hashable:
    """What its volumes ask of a node, but for those that name it."""
    return tuple([(volume.zones, volume.unusable) for volume in pod.volumes if volume.zones or volume.unusable])


def names_asked_for(pod: Pod) -> frozenset[str] | None:
    """The names or host labels of the only nodes that come into question; none if they are not listed."""
    listed = [frozenset({volume.node}) for volume in pod.volumes if volume.node is not None]
    if HOST_LABEL in pod.rules.node_selector:
        listed.append(frozenset({pod.rules.node_selector[HOST_LABEL]}))
    by_term = [_names_in(term) for term in pod.rules.node_terms or ()]
    complete = [names for names in by_term if names is not None]
    if by_term and len(complete) == len(by_term):
        listed.append(frozenset().union(*complete))
    return min(listed, key=len) if listed else None


def _names_in(term: NodeTerm) -> frozenset[str] | None:
    for requirement in (*term.fields, *term.labels):
        if _lists_names(requirement):
            return frozenset(requirement.values)
    return None


def _lists_names(requirement: Requirement) -> bool:
    return requirement.key in (NAME_FIELD, HOST_LABEL) and requirement.operator is Operator.IN


def _check_open(rules: Rules, node: NodeModel) -> str | None:
    if node.closed:
        return node.closed
    if node.cordoned and not _is_tolerated(CORDON, rules):
        return "the node is cordoned"
    return None


def _check_taints(rules: Rules, node: NodeModel) -> str | None:
    for taint in node.taints:
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and not _is_tolerated(taint, rules):
            named = f"{taint.key}={taint.value}" if taint.value else taint.key
            return f"it does not tolerate the taint {named}:{taint.effect.value}"
    return None


def _is_tolerated(taint: Taint, rules: Rules) -> bool:
    return any(tolerates(toleration, taint) for toleration in rules.tolerations)


def _elsewhere(rules: Rules, node: NodeModel) -> str | None:
    for key, value in rules.node_selector.items():
        if node.labels.get(key) != value:
            return f"it wants a node with {key}={value}"
    return None if admits(rules, node.name, node.labels) else "its node affinity does not match"


def _data_elsewhere(pod: Pod, node: NodeModel) -> str | None:
    for volume in pod.volumes:
        if volume.unusable:
            return f"its claim {volume.name} {volume.unusable}"
        if volume.node is not None and volume.node != node.name:
            return f"its volume {volume.name} is on node {volume.node}"
        if volume.zones and node.labels.get(ZONE_LABEL) not in volume.zones:
            return f"its volume {volume.name} is in {' or '.join(volume.zones)}"
    return None


def _lacking(asked: Resources, free: Resources) -> str:
    if free.pods < 1:
        return "the node holds no more pods"
    amounts = [
        ("CPU", asked.cpu, free.cpu, 1000, ""),
        ("memory", asked.memory, free.memory, 2**20, " MiB"),
        ("ephemeral storage", asked.storage, free.storage, 2**20, " MiB"),
        *((name, amount, free.extended.get(name, 0), 1, "") for name, amount in sorted(asked.extended.items())),
    ]
    short = [
        f"{name} {_amount(wanted / unit)} of {_amount(max(there, 0) / unit)}{suffix}"
        for name, wanted, there, unit, suffix in amounts
        if wanted and wanted > there
    ]
    return f"it asks for more than is free: {', '.join(short)}"


def _amount(number: float) -> str:
    """At most three digits after the point: 1.93, 512, 0.1."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDemand:
    """One thing that a node's domain must satisfy. A node without the label `topology` has no domain."""

    topology: str
    allows: Callable[[str | None], bool]
    otherwise: str  # what is wrong with a domain that it does not allow


def unmet_demand(demands: Iterable[TopologyDemand], node: NodeModel) -> str | None:
    """What is wrong with the domains that the node is in."""
    for demand in demands:
        if not demand.allows(node.labels.get(demand.topology)):
            return demand.otherwise
    return None
