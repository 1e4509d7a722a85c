"""What a fixed fleet would have cost instead.

Without an autoscaler somebody would run as many nodes as the busiest moment needed, all the time, and On-Demand. Both
sides cover the watched time only: what nobody saw is neither a cost nor a saving.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nodefleet.domain.machines import InstanceType
from nodefleet.domain.readings import Missing
from nodefleet.reporting.amounts import cents, percent
from nodefleet.reporting.figures import PoolWeek
from nodefleet.reporting.thresholds import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    nodes: int  # of the fixed fleet
    type: str
    hourly_usd: float
    hours: float
    fixed_usd: float  # this and `usd` to the cent, so that they add up as they are told
    usd: float
    lower_bound: bool = False  # some node-hours have no price: the true cost is higher

    @property
    def saved_usd(self) -> float:
        """Negative if the fixed fleet would have been cheaper."""
        return cents(self.fixed_usd - self.usd)

    @property
    def saved_percent(self) -> float:
        return 100 * self.saved_usd / self.fixed_usd


def compared(week: PoolWeek, catalog: Mapping[str, InstanceType], thresholds: Thresholds) -> Comparison | Missing:
    main = week.main_type
    offer = catalog.get(main)
    if not main or not week.peak:
        return Missing("no node ran")
    if offer is None or offer.hourly_usd is None:
        return Missing(f"the On-Demand price of {main}, which ran most, is not known")
    if week.unpriced_percent > thresholds.unpriced_percent:
        return Missing(f"{percent(week.unpriced_percent)} of the node-hours have no known price")
    fixed = cents(week.peak * week.watched * offer.hourly_usd)
    if fixed <= 0:
        return Missing("it ran for too short a time")
    return Comparison(
        nodes=week.peak,
        type=main,
        hourly_usd=offer.hourly_usd,
        hours=week.watched,
        fixed_usd=fixed,
        usd=cents(week.usd),
        lower_bound=week.unpriced_percent > 0,
    )
