"""IAM's answer to one question: may this role do this, to this resource, in these circumstances?

As much of IAM as our statements use, after its documented logic: an explicit denial wins, then any allowance, and what
nobody speaks of is refused. An operator that is not known here is an error: a condition that is silently passed over
would prove nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from nodefleet_infra.statements import Statement


class Verdict(Enum):
    ALLOWED = "allowed"
    REFUSED = "nobody allows it"
    DENIED = "explicitly denied"


@dataclass(frozen=True)
class Request:
    """One question. A call may be several: one for each resource that it touches."""

    action: str  # "ec2:RunInstances"
    resource: str  # an ARN, or "*" where the action knows no resources
    context: Mapping[str, Sequence[str]] = field(default_factory=dict)  # condition keys; what is not there is absent

    def __str__(self) -> str:
        return f"{self.action} on {self.resource} with {dict(self.context)}"


def verdict(statements: Iterable[Statement], request: Request) -> Verdict:
    effects = {statement.effect for statement in statements if applies(statement, request)}
    if "Deny" in effects:
        return Verdict.DENIED
    return Verdict.ALLOWED if "Allow" in effects else Verdict.REFUSED


def allows(statements: Iterable[Statement], request: Request) -> bool:
    return verdict(statements, request) is Verdict.ALLOWED


def applies(statement: Statement, request: Request) -> bool:
    return (
        any(_like(request.action.lower(), action.lower()) for action in statement.actions)
        and any(_resource(request.resource, pattern) for pattern in statement.resources)
        and all(
            holds(operator, wanted, _present(request.context, key))
            for operator, keys in statement.conditions.items()
            for key, wanted in keys.items()
        )
    )


def holds(operator: str, wanted: Sequence[str], present: Sequence[str] | None) -> bool:
    """Whether a condition with this operator holds for a key with these values; none: the key is absent.

    Several wanted values are alternatives, but for an operator that negates: then none of them may be met."""
    quantifier, _, name = operator.rpartition(":")
    name, if_exists = (name.removesuffix("IfExists"), True) if name.endswith("IfExists") else (name, False)
    if name == "Null":
        return (present is None) == (_only(wanted).lower() == "true")
    negated = "Not" in name
    matches = _OPERATORS[name.replace("Not", "")]

    def one(value: str) -> bool:
        return any(matches(value, each) for each in wanted) != negated

    if quantifier == "ForAllValues":
        return all(map(one, present or ()))  # also of none at all
    if quantifier == "ForAnyValue":
        return any(map(one, present or ()))
    if quantifier:
        raise ValueError(f"no quantifier {quantifier}")
    if present is None:
        return if_exists or negated
    return one(_only(present))


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────────


def _like(value: str, pattern: str) -> bool:
    """`*` and `?` as in IAM: brackets are no wildcards, and `*` also stands for nothing."""
    return bool(_expression(pattern).fullmatch(value))


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = (".*" if part == "*" else "." if part == "?" else re.escape(part) for part in re.split(r"([*?])", pattern))
    return re.compile("".join(parts), re.DOTALL)


def _arn(value: str, pattern: str) -> bool:
    """Part by part: a wildcard does not reach over a colon, but for those in the last part."""
    values, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(values) == len(patterns) and all(map(_like, values, patterns))


def _resource(resource: str, pattern: str) -> bool:
    return pattern == "*" or (resource != "*" and _arn(resource, pattern))


def _same(value: str, wanted: str) -> bool:
    return value == wanted


def _bool(value: str, wanted: str) -> bool:
    return value.lower() == wanted.lower()


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": _same,
    "StringLike": _like,
    "ArnEquals": _arn,  # IAM makes no difference between these two
    "ArnLike": _arn,
    "Bool": _bool,
    "NumericGreaterThan": lambda value, wanted: float(value) > float(wanted),
}


def _present(context: Mapping[str, Sequence[str]], key: str) -> Sequence[str] | None:
    """Keys are compared without regard to case, but for the tag's own name, which follows a slash."""
    return next((values for name, values in context.items() if _folded(name) == _folded(key)), None)


def _folded(key: str) -> str:
    name, slash, tag = key.partition("/")
    return f"{name.lower()}{slash}{tag}"


def _only(values: Sequence[str]) -> str:
    if len(values) != 1:
        raise ValueError(f"{list(values)}: several values need ForAllValues or ForAnyValue")
    return values[0]
