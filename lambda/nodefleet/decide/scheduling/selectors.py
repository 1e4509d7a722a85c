"""Selectors, matched as Kubernetes matches them: labels of pods, and labels and names of nodes."""

import re
from collections.abc import Iterable, Mapping

from nodefleet.domain.workload import NodeTerm, Operator, Requirement, Rules, Selector

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
