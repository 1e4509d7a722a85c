"""What a rule of advice looks at, and what it says."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import ceil

from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.machines import InstanceType
from nodefleet.domain.policy import Pool, Utilisation
from nodefleet.reporting.figures import PoolHour, PoolWeek
from nodefleet.reporting.thresholds import HOURS_PER_MONTH, USUAL, Thresholds

_ROUNDING = 1e-9


class Subject(Enum):
    """What a recommendation changes. In the order in which one gives way to another."""

    REQUESTS = "requests"
    RAISE_MAX = "raise-max"
    LOWER_MIN = "lower-min"
    TYPE = "type"
    LOWER_MAX = "lower-max"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    pool: str
    subject: Subject
    do: str  # what to change, from what to what
    because: str  # the figures that say so
    effect: str = ""  # what it would bring beside money
    usd_per_month: float | None = None  # saved (+) or spent (-), for this change alone; none: not known
    for_service: bool = False  # work waits or is interrupted: not a matter of money


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    pool: Pool
    week: PoolWeek  # since the policy is what it is
    period_hours: int
    catalog: Mapping[str, InstanceType] = field(default_factory=dict)
    told: Counter[AlertKind] = field(default_factory=Counter)  # since the policy is what it is
    only_pool: bool = True
    thresholds: Thresholds = USUAL

    @property
    def main(self) -> InstanceType | None:
        """The type that ran most, if the catalogue has it."""
        return self.catalog.get(self.week.main_type)

    @property
    def held_by_people(self) -> bool:
        """Somebody paused the pool or set its size: what it came to was not only its own doing."""
        return bool(self.told[AlertKind.PAUSED] or self.told[AlertKind.SCALED_BY_PERSON])

    def at_work(self, limit: Utilisation) -> float:
        """How busy nodes may be, in percent, without making the fleet grow at once."""
        return max(1.0, limit.up - self.pool.reactive.projection_margin)

    def monthly(self, amount: float) -> float:
        """What the judged time's amount is in a month."""
        return amount * HOURS_PER_MONTH / self.week.watched if self.week.watched else 0.0

    def paid(self, node_hours: float) -> float | None:
        """USD per month for so many node-hours of the judged time, at what a node-hour cost."""
        price = self.week.usd_per_node_hour
        return None if price is None else self.monthly(node_hours * price)

    def spot_saves(self, node_hours: float) -> float | None:
        """USD per month when so many node-hours of the judged time are Spot instead of On-Demand, of the main type."""
        main = self.main
        if main is None or main.hourly_usd is None or main.spot_usd is None:
            return None
        return self.monthly(node_hours * max(0.0, main.hourly_usd - main.spot_usd))


def needed(hour: PoolHour, case: Case) -> float | None:
    """How many nodes an hour's use needs, at the rates at which the fleet works; none: its use is not known."""
    if hour.cpu is None or hour.memory is None:
        return None
    rules = case.pool.reactive
    return hour.nodes * max(hour.cpu / case.at_work(rules.cpu), hour.memory / case.at_work(rules.memory))


def whole_nodes(nodes: float) -> int:
    """Enough whole nodes; what rounding left over does not ask for another one."""
    return ceil(nodes - _ROUNDING)
