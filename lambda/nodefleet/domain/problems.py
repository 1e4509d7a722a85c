"""What is wrong with something a person wrote: where, what, and what would be right. All of it at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class IssueCode(Enum):
    """What kind of thing is wrong, for whoever must not depend on the wording."""

    INVALID = "invalid"  # none of the others
    MISSING = "missing"
    UNKNOWN_KEY = "unknown-key"
    UNKNOWN_KIND = "unknown-kind"  # of a tagged table
    UNKNOWN_NAME = "unknown-name"  # it refers to something that is not there
    WRONG_TYPE = "wrong-type"
    NOT_A_CHOICE = "not-a-choice"
    EMPTY = "empty"
    OUT_OF_RANGE = "out-of-range"
    OUT_OF_ORDER = "out-of-order"  # two values that must stand in the other order
    DUPLICATE = "duplicate"
    WITHOUT_EFFECT = "without-effect"  # it would never do anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    path: str  # pools[0].limits.min
    value: object  # what stands there
    wrong: str  # what is wrong with it
    right: str  # what would be right
    code: IssueCode = IssueCode.INVALID

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.value)} {self.wrong}; {self.right}"


class RefusedError(ValueError):
    """Input that cannot be taken, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def shown(value: object, limit: int = 60) -> str:
    """The value as it may stand in a message: short, and never a whole file."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
