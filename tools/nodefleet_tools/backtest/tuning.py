"""The settings of the adaptive strategy that fit one's own load, found without looking ahead.

Every candidate is played once; decisions never see the future, so its days can be scored apart. Each day is then given
the candidate that was cheapest within the budget on the days before it: a score on days that had no say in the choice.
How sure the saving is comes from drawing the days again, many times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Settings to try, under their names in the policy."""

    price: float  # node-minutes per violation minute
    waits: int = 2  # readings that must find a scale-down worth it
    headroom: int = 0  # nodes

    @property
    def name(self) -> str:
        return f"price {self.price:g}, waits {self.waits}, headroom {self.headroom}"


# Prices finely, because they matter most; patience and a spare node beside the usual prices.
CANDIDATES = (
    *(Candidate(price=price) for price in (10.0, 25.0, 40.0, 65.0, 100.0, 140.0, 250.0)),
    *(Candidate(price=price, waits=waits) for price in (25.0, 65.0, 140.0) for waits in (1, 4)),
    *(Candidate(price=price, headroom=1) for price in (10.0, 25.0)),
)
FIRST = 3  # scored days before the first choice: two days are no rhythm
_DRAWS = 1000
_LOW, _HIGH = 0.05, 0.95

Days = Sequence[Sequence[int]]  # minutes, violation minutes, node-minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    choice: Candidate  # to adopt: the best on all days
    days: int  # that were scored
    violation_pct: float  # of the days that were scored with what earlier days chose
    node_hours: float
    classic_violation_pct: float  # on the same days
    classic_node_hours: float
    saving_pct: float
    saving_low_pct: float  # nine of ten draws lie between these
    saving_high_pct: float
    within_budget_pct: float  # of the draws


def are_enough(days: Days) -> bool:
    return len(days) > FIRST + 1


def tune(candidates: Mapping[Candidate, Days], classic: Days, budget: float, seed: int = 0) -> Tuned | None:
    """None if there are too few days to choose from and to score on."""
    if not are_enough(classic):
        return None
    count = len(classic)
    scored = [candidates[choose(candidates, budget, until=day)][day] for day in range(FIRST, count)]
    before = classic[FIRST:]
    random = Random(seed)  # noqa: S311  # reproducible
    draws = [random.choices(range(len(scored)), k=len(scored)) for _ in range(_DRAWS)]
    savings = sorted(saving([scored[i] for i in draw], [before[i] for i in draw]) for draw in draws)
    within = sum(violations([scored[i] for i in draw]) <= budget for draw in draws)
    return Tuned(
        choice=choose(candidates, budget, until=count),
        days=len(scored),
        violation_pct=violations(scored),
        node_hours=sum(day[2] for day in scored) / 60,
        classic_violation_pct=violations(before),
        classic_node_hours=sum(day[2] for day in before) / 60,
        saving_pct=saving(scored, before),
        saving_low_pct=savings[int(_LOW * _DRAWS)],
        saving_high_pct=savings[int(_HIGH * _DRAWS)],
        within_budget_pct=100 * within / _DRAWS,
    )


def choose(candidates: Mapping[Candidate, Days], budget: float, *, until: int) -> Candidate:
    """The cheapest within the budget on the days before; if none is, the one with the fewest violations."""
    within = [each for each, days in candidates.items() if violations(days[:until]) <= budget]
    if within:
        return min(within, key=lambda each: sum(day[2] for day in candidates[each][:until]))
    return min(candidates, key=lambda each: violations(candidates[each][:until]))


def violations(days: Days) -> float:
    """Percent of minutes."""
    return 100 * sum(day[1] for day in days) / max(1, sum(day[0] for day in days))


def saving(days: Days, before: Days) -> float:
    """Percent of node-minutes."""
    was = sum(day[2] for day in before)
    return 100 * (was - sum(day[2] for day in days)) / was if was else 0.0
