"""Where pods may run, what they request and what they have in common, worked out once for each template."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from nodefleet.adapters.kubernetes.objects import (
    STRINGS,
    Affinity,
    ContainerShape,
    ContainerState,
    LabelExpression,
    LabelSelector,
    NodeSelector,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    SpreadShape,
    TolerationShape,
    condition,
)
from nodefleet.model.inventory import NOTHING, Effect, Resources
from nodefleet.model.workload import (
    EVERY_ADDRESS,
    Container,
    HostPort,
    NodeTerm,
    Operator,
    PodTerm,
    Requirement,
    Rules,
    Selector,
    Spread,
    Toleration,
    effective_requests,
    resources_from,
)
from nodefleet.scheduling.predicates import matches

# ── selectors ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Selectors, taints and resources as the domain writes them.


# What is new to us must not let a pod go where it may not: an unknown relation holds nowhere.
_NEVER = Operator.IN
MATCHES_NOTHING = Selector(expressions=(Requirement(key="", operator=_NEVER),))

_OPERATORS = {operator.value: operator for operator in Operator}
_EFFECTS = {effect.value: effect for effect in Effect}


def effect_named(name: str) -> Effect | None:
    return _EFFECTS.get(name)


def requirements(lines: Iterable[LabelExpression] | None) -> tuple[Requirement, ...]:
    return tuple(_requirement(line) for line in lines or ())


def selector_of(shape: LabelSelector) -> Selector:
    return Selector(labels=shape.match_labels or {}, expressions=requirements(shape.match_expressions))


def selector_or_nothing(shape: LabelSelector | None) -> Selector:
    """A selector that is not there matches nothing, other than one that is empty."""
    return selector_of(shape) if shape is not None else MATCHES_NOTHING


def node_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    return tuple(
        NodeTerm(labels=requirements(term.match_expressions), fields=requirements(term.match_fields))
        for term in selector.node_selector_terms or ()
    )


def _requirement(line: LabelExpression) -> Requirement:
    operator = _OPERATORS.get(line.operator)
    if operator is None:
        return Requirement(key=line.key, operator=_NEVER)
    return Requirement(key=line.key, operator=operator, values=tuple(line.values or ()))


# ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Where a pod may run, from its spec. Preferences are left out: they keep no pod from running.


_HONOR = "Honor"

Namespaces: TypeAlias = Callable[[], Mapping[str, Mapping[str, str]]]  # labels by name; read only when needed


def required_node_terms(affinity: Affinity | None) -> tuple[NodeTerm, ...] | None:
    on_nodes = affinity.node_affinity if affinity else None
    required = on_nodes.required_during_scheduling_ignored_during_execution if on_nodes else None
    return node_terms(required) if required else None


def pod_terms(affinity: PodAffinity | None, namespaces: Namespaces) -> tuple[PodTerm, ...]:
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return tuple(_pod_term(term, namespaces) for term in terms or ())


def tolerations(shapes: Iterable[TolerationShape]) -> tuple[Toleration, ...]:
    """One with an effect that is new to us is left out: it tolerates nothing that we know."""
    return tuple(
        Toleration(
            key=shape.key,
            operator=shape.operator or "Equal",
            value=shape.value,
            effect=effect_named(shape.effect),
        )
        for shape in shapes
        if not shape.effect or effect_named(shape.effect)
    )


def host_ports(containers: Iterable[ContainerShape]) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port=port.host_port, protocol=port.protocol or "TCP", address=port.host_ip or EVERY_ADDRESS)
        for container in containers
        for port in container.ports or ()
        if port.host_port
    )


def spread_constraints(shapes: Iterable[SpreadShape], labels: Mapping[str, str]) -> tuple[Spread, ...]:
    return tuple(
        Spread(
            topology=shape.topology_key,
            selector=_spread_selector(shape, labels),
            max_skew=shape.max_skew,
            min_domains=shape.min_domains or 1,
            honors_affinity=(shape.node_affinity_policy or _HONOR) == _HONOR,
            honors_taints=shape.node_taints_policy == _HONOR,
        )
        for shape in shapes
        if shape.when_unsatisfiable == "DoNotSchedule"
    )


def _spread_selector(shape: SpreadShape, labels: Mapping[str, str]) -> Selector:
    """With matchLabelKeys a pod is only spread among those that have the same values as itself."""
    if shape.label_selector is None:
        return MATCHES_NOTHING
    written = selector_of(shape.label_selector)
    own = tuple(
        Requirement(key=key, operator=Operator.IN, values=(labels[key],))
        for key in shape.match_label_keys or ()
        if key in labels
    )
    return Selector(labels=written.labels, expressions=(*written.expressions, *own)) if own else written


def _pod_term(term: PodAffinityTerm, namespaces: Namespaces) -> PodTerm:
    selector, names = selector_or_nothing(term.label_selector), tuple(term.namespaces or ())
    if term.namespace_selector is None:
        return PodTerm(topology=term.topology_key, selector=selector, namespaces=names)
    wanted = selector_of(term.namespace_selector)
    if wanted == Selector():
        return PodTerm(topology=term.topology_key, selector=selector, everywhere=True)
    chosen = {name for name, labels in namespaces().items() if matches(wanted, labels)}
    all_names = tuple(sorted({*names, *chosen}))
    # No names at all would mean the pod's own namespace; here it means that there is none.
    return PodTerm(
        topology=term.topology_key, selector=selector if all_names else MATCHES_NOTHING, namespaces=all_names
    )


# ── templates ────────────────────────────────────────────────────────────────────────────────────────────────────────
# What pods have in common, worked out once: labels, requests and rules.
#
# Ten thousand pods come from some hundred templates. Equal raw bytes stand for equal content, so each is decoded once
# and its result is shared. Sharing also tells those who pack pods that two of them are alike.


_NONE = b"null"
_AFFINITY = msgspec.json.Decoder(Affinity | None)
_TOLERATIONS = msgspec.json.Decoder(list[TolerationShape] | None)
_SPREADS = msgspec.json.Decoder(list[SpreadShape] | None)


T = TypeVar("T")


class Templates:
    """For the pods of one iteration."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._shared: dict[Any, Any] = {}
        self._strings: dict[bytes, Mapping[str, str]] = {}
        self._amounts: dict[bytes, Resources] = {}
        self._requests: dict[Any, Resources] = {}
        self._spreads: dict[bytes, tuple[SpreadShape, ...]] = {}
        self._rules: dict[Any, Rules] = {}

    def share(self, value: T) -> T:
        """The first equal value: ten thousand pods name few namespaces and nodes."""
        return self._shared.setdefault(value, value)  # type: ignore[no-any-return]  # what was put there as a T

    def strings(self, raw: Raw) -> Mapping[str, str]:
        """Labels, or a node selector."""
        key = bytes(raw)
        found = self._strings.get(key)
        if found is None:
            found = self._strings[key] = STRINGS.decode(key) or {}
        return found

    def requests(self, spec: PodSpec, status: PodStatus) -> Resources:
        """What the scheduler reserves for such a pod. While it is resized in place: the most of what each container
        should have, has, and was promised."""
        infeasible = _resize_is_infeasible(status)
        now = _sizes(status.container_statuses)
        starting = _sizes(status.init_container_statuses)
        key = (
            tuple([self._sizes_of(each, now, infeasible=infeasible) for each in spec.containers or ()]),
            tuple(
                [
                    (
                        self._sizes_of(each, starting if _keeps_running(each) else {}, infeasible=infeasible),
                        _keeps_running(each),
                    )
                    for each in spec.init_containers or ()
                ]
            ),
            bytes(spec.overhead),
            bytes(spec.resources.requests),
        )
        found = self._requests.get(key)
        if found is None:
            containers, init_containers, _, _ = key
            found = self._requests[key] = effective_requests(
                [Container(requests=self._most(sizes)) for sizes in containers],
                [Container(requests=self._most(sizes), sidecar=sidecar) for sizes, sidecar in init_containers],
                overhead=self._amount(spec.overhead),
                pod_level=self._amount(spec.resources.requests),
            )
        return found

    def _sizes_of(
        self, container: ContainerShape, states: Mapping[str, tuple[bytes, bytes]], *, infeasible: bool
    ) -> tuple[bytes, ...]:
        """All that counts for one container. Unless it is being resized that is one and the same."""
        wanted, state = bytes(container.resources.requests), states.get(container.name)
        if state is None:
            return (wanted,)
        has, promised = state
        if infeasible:
            return (has, promised)
        return (wanted,) if has == wanted and promised in (wanted, _NONE) else (wanted, has, promised)

    def _most(self, sizes: tuple[bytes, ...]) -> Resources:
        most = NOTHING
        for size in sizes:
            most = most.at_least(self._amount(size))
        return most

    def rules(self, spec: PodSpec, labels: Mapping[str, str]) -> Rules:
        spreads = self._spread(spec.topology_spread_constraints)
        ports = host_ports((*(spec.containers or ()), *filter(_keeps_running, spec.init_containers or ())))
        key = (
            bytes(spec.node_selector),
            bytes(spec.affinity),
            bytes(spec.tolerations),
            bytes(spec.topology_spread_constraints),
            ports,
            tuple([labels.get(key) for spread in spreads for key in spread.match_label_keys or ()]),
        )
        found = self._rules.get(key)
        if found is None:
            affinity = _AFFINITY.decode(spec.affinity)
            found = self._rules[key] = Rules(
                node_selector=self.strings(spec.node_selector),
                node_terms=required_node_terms(affinity),
                tolerations=tolerations(_TOLERATIONS.decode(spec.tolerations) or ()),
                host_ports=ports,
                affinity=pod_terms(affinity.pod_affinity if affinity else None, self._namespaces),
                anti_affinity=pod_terms(affinity.pod_anti_affinity if affinity else None, self._namespaces),
                spread=spread_constraints(spreads, labels),
            )
        return found

    def _amount(self, raw: Raw | bytes) -> Resources:
        key = bytes(raw)
        found = self._amounts.get(key)
        if found is None:
            found = self._amounts[key] = resources_from(STRINGS.decode(key) or {})
        return found

    def _spread(self, raw: Raw) -> tuple[SpreadShape, ...]:
        key = bytes(raw)
        found = self._spreads.get(key)
        if found is None:
            found = self._spreads[key] = tuple(_SPREADS.decode(key) or ())
        return found


def _sizes(states: list[ContainerState] | None) -> Mapping[str, tuple[bytes, bytes]]:
    """By container: what it has, and what its kubelet promised. A kubelet that cannot resize says neither."""
    return {
        each.name: (bytes(each.resources.requests), bytes(each.allocated_resources))
        for each in states or ()
        if each.resources is not None
    }


def _resize_is_infeasible(status: PodStatus) -> bool:
    """The node can never give it what it should have, so that does not count."""
    pending = condition(status.conditions, "PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _keeps_running(container: ContainerShape) -> bool:
    """An init container that is a sidecar."""
    return container.restart_policy == "Always"
