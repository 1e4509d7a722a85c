"""Where a pod may run, from its spec. Preferences are left out: they keep no pod from running."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from nodefleet.adapters.k8s.pod_shapes import (
    Affinity,
    ContainerShape,
    PodAffinity,
    PodAffinityTerm,
    SpreadShape,
    TolerationShape,
)
from nodefleet.adapters.k8s.selecting import (
    MATCHES_NOTHING,
    effect_named,
    node_terms,
    selector_of,
    selector_or_nothing,
)
from nodefleet.decide.scheduling.selectors import matches
from nodefleet.domain.workload import (
    EVERY_ADDRESS,
    HostPort,
    NodeTerm,
    Operator,
    PodTerm,
    Requirement,
    Selector,
    Spread,
    Toleration,
)

_HONOR = "Honor"

Namespaces: TypeAlias = Callable[[], Mapping[str, Mapping[str, str]]]  # labels by name; read only when somebody asks


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
