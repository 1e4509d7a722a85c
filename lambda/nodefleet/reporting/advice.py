"""All advice together: every rule is asked, no two answers contradict each other, the most valuable come first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nodefleet.reporting.advise_limits import lower_max, lower_min, raise_max
from nodefleet.reporting.advise_requests import lower_requests
from nodefleet.reporting.advise_spot import spot
from nodefleet.reporting.advise_types import other_type
from nodefleet.reporting.case import Case, Recommendation, Subject

Rule = Callable[[Case], Recommendation | None]

RULES: tuple[Rule, ...] = (lower_requests, raise_max, lower_min, other_type, lower_max, spot)
RULES_OF_A_DRY_RUN: tuple[Rule, ...] = (lower_requests, other_type)  # its size and its purchases are not our doing

# What the key's advice makes moot: each figure of a pair holds only without the other's change.
_FIRST: dict[Subject, frozenset[Subject]] = {
    Subject.REQUESTS: frozenset({Subject.RAISE_MAX, Subject.TYPE, Subject.LOWER_MAX}),
    Subject.RAISE_MAX: frozenset({Subject.LOWER_MAX, Subject.TYPE}),
    Subject.LOWER_MIN: frozenset({Subject.TYPE}),
    Subject.TYPE: frozenset({Subject.LOWER_MAX}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    recommendations: tuple[Recommendation, ...] = ()
    left_out: int = 0  # of less value


def advise(cases: Iterable[Case], most: int) -> Advice:
    """At most so many for the whole cluster. What serves the work is never left out for what saves money."""
    found = [each for case in cases for each in _agreeing(_of_pool(case))]
    chosen = sorted(found, key=lambda each: (not each.for_service, -_worth(each)))[:most]
    shown = sorted(chosen, key=lambda each: (-_worth(each), not each.for_service, each.pool, each.subject.value))
    return Advice(recommendations=tuple(shown), left_out=len(found) - len(chosen))


def _of_pool(case: Case) -> list[Recommendation]:
    rules = RULES_OF_A_DRY_RUN if case.pool.dry_run else RULES
    return [each for rule in rules if (each := rule(case)) is not None]


def _agreeing(found: Sequence[Recommendation]) -> list[Recommendation]:
    """Without those that another one makes moot; who gives way is the same whatever the sums."""
    kept: list[Recommendation] = []
    for each in sorted(found, key=lambda each: list(Subject).index(each.subject)):
        if not any(each.subject in _FIRST.get(other.subject, ()) for other in kept):
            kept.append(each)
    return kept


def _worth(each: Recommendation) -> float:
    return each.usd_per_month or 0.0
