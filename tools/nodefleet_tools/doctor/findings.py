"""What a check says: it is right, it is wrong and how to fix it, or it is worth a look."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from nodefleet.errors import DeniedError, MisconfiguredError, NodeFleetError
from nodefleet.model.serialization import ValidationError


class Verdict(Enum):
    FINE = "✓"
    WRONG = "✗"
    HINT = "!"  # it works, but could be better; or it could not be checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    verdict: Verdict
    found: str
    fix: str = ""  # what to do; empty: nothing needs doing


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    look: Callable[[], Iterable[Finding]]
    needed: bool = True  # the autoscaler itself needs what this asks for; else not being allowed to ask is no fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    name: str
    findings: tuple[Finding, ...]

    @property
    def is_wrong(self) -> bool:
        return any(finding.verdict is Verdict.WRONG for finding in self.findings)


class UnknownError(Exception):
    """A check needs to know something that another check already found to be unknown."""


def fine(found: str) -> Finding:
    return Finding(verdict=Verdict.FINE, found=found)


def wrong(found: str, fix: str) -> Finding:
    return Finding(verdict=Verdict.WRONG, found=found, fix=fix)


def hint(found: str, fix: str = "") -> Finding:
    return Finding(verdict=Verdict.HINT, found=found, fix=fix)


def failure(check: Check, problem: Exception) -> Finding:
    """What it means that a check could not be made."""
    graver = Verdict.WRONG if check.needed else Verdict.HINT
    match problem:
        case UnknownError():
            return hint(f"not checked: {problem}")
        case DeniedError() if check.needed:
            return wrong(f"{problem.part}: {problem.cause}", problem.remedy)
        case DeniedError():
            return hint(f"these credentials may not check it: {problem.part}: {problem.cause}")
        case MisconfiguredError():
            return wrong(str(problem), "")
        case ValidationError():
            first = problem.problems[0]
            return wrong(f"{first.path} {first.wrong}", first.right)
        case TimeoutError():
            return Finding(verdict=graver, found=str(problem), fix="See that it is reachable from here")
        case NodeFleetError():
            return Finding(verdict=graver, found=str(problem))
        case _:
            return wrong(f"the check itself failed: {type(problem).__name__}: {problem}", "Please report this")
