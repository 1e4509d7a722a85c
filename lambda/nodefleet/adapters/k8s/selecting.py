"""Selectors, taints and resources as the domain writes them."""

from collections.abc import Iterable

from nodefleet.adapters.k8s.shapes import LabelSelector, Line, NodeSelector
from nodefleet.domain.workload import Effect, NodeTerm, Operator, Requirement, Selector

# What is new to us must not let a pod go where it may not: an unknown relation holds nowhere.
_NEVER = Operator.IN
MATCHES_NOTHING = Selector(expressions=(Requirement(key="", operator=_NEVER),))

_OPERATORS = {operator.value: operator for operator in Operator}
_EFFECTS = {effect.value: effect for effect in Effect}


def effect_named(name: str) -> Effect | None:
    return _EFFECTS.get(name)


def requirements(lines: Iterable[Line] | None) -> tuple[Requirement, ...]:
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


def _requirement(line: Line) -> Requirement:
    operator = _OPERATORS.get(line.operator)
    if operator is None:
        return Requirement(key=line.key, operator=_NEVER)
    return Requirement(key=line.key, operator=operator, values=tuple(line.values or ()))
