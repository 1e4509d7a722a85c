"""What a recommendation rests on: a pool's period, its limits and prices, and the thresholds with their reasons."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import ceil

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceType
from nodefleet.policy.fields import NODES, PERCENT, setting
from nodefleet.policy.pool import Pool, Utilisation
from nodefleet.reporting.usage import PoolHour, PoolWeek

# ── thresholds ───────────────────────────────────────────────────────────────────────────────────────────────────────
# When a rule speaks up. Each number with its unit and its reason.


HOURS = "h"
HOURS_PER_MONTH = 365 * 24 / 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    # ── trust ────────────────────────────────────────────────────────────────────────────────────────────────────
    enough_hours: float = setting(84, HOURS, "half a week: less does not show its rhythm, so nothing is advised")
    whole_percent: float = setting(95, PERCENT, "of the week watched: less is said in the first sentence")
    unpriced_percent: float = setting(5, PERCENT, "of node-hours without a price: with more, costs are not compared")
    readable_percent: float = setting(50, PERCENT, "of the watched time: a reading that is known less proves nothing")
    most_advice: int = setting(5, "", "more than that is not done in a week")
    most_pools: int = setting(10, "", "told one by one; the rest is added up")

    # ── min and max ──────────────────────────────────────────────────────────────────────────────────────────────
    at_max_percent: float = setting(5, PERCENT, "of the watched time at max: more than a rare peak")
    at_max_told: int = setting(3, "times", "that the fleet asked for more than max: not a single accident")
    raise_max_by: float = setting(1.5, "×", "at most in one week: behind a limit the true demand is not seen")
    far_below_max: float = setting(0.5, "× max", "a peak below this leaves half of max unused")
    max_above_peak: float = setting(2, "× peak", "what a lower max still leaves for a busier week")
    least_lower: int = setting(3, NODES, "that max could be lower by: less is not worth a change")
    at_min_percent: float = setting(15, PERCENT, "of the watched time idle at min: more than a short night")
    least_min: int = setting(2, NODES, "one may fail and work goes on")
    packed_percent: float = setting(90, PERCENT, "of a node that pods can fill on the mean: they do not fit seamlessly")

    # ── requests and types ───────────────────────────────────────────────────────────────────────────────────────
    requests_over_use: float = setting(1.5, "×", "requests this far above use are guesses, not measurements")
    requests_headroom: float = setting(1.3, "× busy use", "for the peaks within an hour that its mean hides")
    requests_fill_percent: float = setting(50, PERCENT, "of the nodes asked for: below this requests do not size them")
    busy_quantile: float = setting(0.95, "", "of the hours: the busy ones, without the odd outlier")
    least_nodes_saved: float = setting(0.5, NODES, "on the mean: less is lost in the rounding to whole nodes")
    lopsided: float = setting(2, "×", "one resource needed so much more than the other: the type has the wrong shape")
    needed_percent: float = setting(50, PERCENT, "of a node at least, of what is scarce: otherwise min sizes the fleet")
    cheaper_percent: float = setting(10, PERCENT, "a type must save this much to be worth the change")

    # ── Spot ─────────────────────────────────────────────────────────────────────────────────────────────────────
    interruptions: int = setting(3, "", "in the week: fewer are chance")
    hours_per_interruption: float = setting(
        100, "Spot node-hours", "a node that lives shorter costs more than it saves"
    )
    calm_hours_per_interruption: float = setting(1000, "Spot node-hours", "a node that lives six weeks is safe enough")
    known_spot_hours: float = setting(150, "Spot node-hours", "about a node for a week: less is no experience")
    few_types: int = setting(4, "types", "with fewer EC2 has little to choose from")
    less_spot: float = setting(20, "points", "a change that can be felt, and undone")
    usual_spot_percent: float = setting(70, PERCENT, "the default: the rest keeps running when Spot is taken")
    spot_gap: float = setting(15, "points", "below what the policy aims at: more than rounding to whole nodes")
    shortages: int = setting(3, "times", "that EC2 had no capacity: not a single accident")


USUAL = Thresholds()


# ── context ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# What a rule of advice looks at, and what it says.


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
class ReviewContext:
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
        """An operator paused the pool or set its size: the result was not only its own doing."""
        return bool(self.told[AlertKind.PAUSED] or self.told[AlertKind.SCALED_BY_OPERATOR])

    def at_work(self, limit: Utilisation) -> float:
        """How busy nodes may be, in percent, without making the fleet grow at once."""
        return max(1.0, limit.up - self.pool.reactive.projection_margin)

    def monthly(self, amount: float) -> float:
        """What the judged time's amount is in a month."""
        return amount * HOURS_PER_MONTH / self.week.watched if self.week.watched else 0.0

    def monthly_usd(self, node_hours: float) -> float | None:
        """USD per month for so many node-hours of the judged time, at what a node-hour cost."""
        price = self.week.usd_per_node_hour
        return None if price is None else self.monthly(node_hours * price)

    def spot_saves(self, node_hours: float) -> float | None:
        """USD per month when so many node-hours of the judged time are Spot instead of On-Demand, of the main type."""
        main = self.main
        if main is None or main.hourly_usd is None or main.spot_usd is None:
            return None
        return self.monthly(node_hours * max(0.0, main.hourly_usd - main.spot_usd))


def nodes_needed(hour: PoolHour, case: ReviewContext) -> float | None:
    """How many nodes an hour's use needs, at the rates at which the fleet works; none: its use is not known."""
    if hour.cpu is None or hour.memory is None:
        return None
    rules = case.pool.reactive
    return hour.nodes * max(hour.cpu / case.at_work(rules.cpu), hour.memory / case.at_work(rules.memory))


def whole_nodes(nodes: float) -> int:
    """Enough whole nodes; what rounding left over does not ask for another one."""
    return ceil(nodes - _ROUNDING)
