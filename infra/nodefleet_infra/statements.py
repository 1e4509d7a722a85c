"""The form of an IAM statement, and of the documents that are made of statements.

A role's statements go into one inline policy: it comes and goes with its role. IAM takes 10,240 characters of inline
policies for a role, white space not counted; what does not fit is an error in preview, not in the middle of `up`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Effect: TypeAlias = Literal["Allow", "Deny"]
Conditions: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]  # operator → key → values

MOST_CHARACTERS = 10_240
_VERSION = "2012-10-17"


class TooLongError(ValueError):
    """IAM would not take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    sid: str  # what it is for: letters and digits only
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Conditions = field(default_factory=dict)
    effect: Effect = "Allow"

    def plain(self) -> dict[str, Any]:
        conditions = {
            operator: {key: _one_or_many(values) for key, values in keys.items()}
            for operator, keys in self.conditions.items()
        }
        return {
            "Sid": self.sid,
            "Effect": self.effect,
            "Action": _one_or_many(self.actions),
            "Resource": _one_or_many(self.resources),
            **({"Condition": conditions} if conditions else {}),
        }


def document(statements: Sequence[Statement]) -> str:
    """A role's policy as IAM takes it: the same text for the same statements. TooLongError if IAM would refuse it."""
    text = _written([statement.plain() for statement in statements])
    if len(text) > MOST_CHARACTERS:
        raise TooLongError(
            f"a role's policy has {len(text):,} characters and IAM takes {MOST_CHARACTERS:,}: "
            "put some of the clusters or pools into a stack of their own"
        )
    return text


def trust(service: str, conditions: Conditions | None = None) -> str:
    """Who may take the role: one service of AWS, such as "lambda"."""
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": f"{service}.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    return _written([allowed | ({"Condition": conditions} if conditions else {})])


def _written(statements: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"Version": _VERSION, "Statement": statements}, separators=(",", ":"))


def _one_or_many(values: Sequence[str]) -> str | list[str]:
    """Each once. A list of one is written without brackets: every character counts."""
    each = list(dict.fromkeys(values))
    return each[0] if len(each) == 1 else each
