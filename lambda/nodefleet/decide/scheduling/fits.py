"""What keeps one pod off one node, in words. None means: nothing does.

These are the rules that look at the pod and the node alone. What other pods have to do with it is in `neighbours`.
"""

from collections.abc import Iterator

from nodefleet.decide.scheduling.places import NodeModel, Place
from nodefleet.decide.scheduling.selectors import NAME_FIELD, admits
from nodefleet.domain.names import LEAVING_TAINT
from nodefleet.domain.resources import Resources
from nodefleet.domain.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    Effect,
    NodeTerm,
    Operator,
    Pod,
    Requirement,
    Rules,
    Taint,
    Toleration,
)

CORDON = Taint(key="node.kubernetes.io/unschedulable")
LEAVING = Taint(key=LEAVING_TAINT)  # what a node gets besides the cordon when it is to leave


def why_not(pod: Pod, node: NodeModel) -> str | None:
    """The first thing about the node itself that keeps the pod off."""
    return (
        _closed(pod.rules, node)
        or _untolerated(pod.rules, node)
        or _elsewhere(pod.rules, node)
        or _data_elsewhere(pod, node)
    )


def shortage(pod: Pod, place: Place) -> str | None:
    """What the place has too little of for this pod."""
    asked = pod.requests
    if not place.has(asked):
        return _lacking(asked, place.free)
    if not place.has_ports(pod.rules.host_ports):
        return "its host port is taken"
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in (None, taint.effect):
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.operator == "Equal" and toleration.value == taint.value)


def tolerates_node(rules: Rules, node: NodeModel) -> bool:
    """No taint of the node keeps such a pod off. A cordon is a taint to the scheduler."""
    return (not node.cordoned or _is_tolerated(CORDON, rules)) and _untolerated(rules, node) is None


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


def labels_asked_for(rules: Rules) -> Iterator[str]:
    """The node labels that decide where the pod may run, without the one that names a single node."""
    yield from (key for key in rules.node_selector if key != HOST_LABEL)
    for term in rules.node_terms or ():
        yield from (requirement.key for requirement in term.labels if requirement.key != HOST_LABEL)


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


def _closed(rules: Rules, node: NodeModel) -> str | None:
    if node.closed:
        return node.closed
    if node.cordoned and not _is_tolerated(CORDON, rules):
        return "the node is cordoned"
    return None


def _untolerated(rules: Rules, node: NodeModel) -> str | None:
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
