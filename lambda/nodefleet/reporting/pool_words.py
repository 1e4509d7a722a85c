"""A pool's week in sentences, one for each subject."""

from collections.abc import Iterator
from dataclasses import dataclass

from nodefleet.domain.readings import Missing
from nodefleet.reporting.amounts import hourly, hours, number, percent, some, times, usd
from nodefleet.reporting.cost import Comparison
from nodefleet.reporting.figures import PoolWeek
from nodefleet.reporting.weekly import PoolReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    about: str
    says: str
    pool: str = ""  # empty: the whole cluster, or its only pool

    @property
    def label(self) -> str:
        return f"{self.about} ({self.pool})" if self.pool else self.about

    def __str__(self) -> str:
        return f"{self.label}: {self.says}."


def pool_lines(pool: PoolReport, watched: float, name: str) -> Iterator[Line]:
    """`watched` is the whole cluster's; `name` stands in the lines if there are several pools."""
    week = pool.week
    if not pool.in_policy:
        yield Line(about="Pool", says="no longer in the policy", pool=pool.name)
    if pool.dry_run:
        yield Line(about="Pool", says="a dry run: it was watched, and nothing in it was changed", pool=pool.name)
    if not week.watched:
        yield Line(about="Nodes", says="nothing was recorded", pool=name)
        return
    seen = f", seen for {hours(week.watched)}" if week.watched < watched - 1 else ""
    yield Line(about="Nodes", says=f"{_nodes(week)}{seen}", pool=name)
    if not week.node_hours:
        return
    yield Line(about="Cost", says=_cost(pool), pool=name)
    yield Line(about="Fixed fleet", says=_fixed(pool.compared), pool=name)
    yield Line(about="Spot", says=_spot(pool), pool=name)
    yield Line(about="Scaling", says=_scaling(week), pool=name)
    yield Line(about="Use", says=_use(week), pool=name)


def compared_with(saved: float, fixed: float, *, at_most: bool) -> str:
    """USD 15.47 (75 %) less than; `at_most` when part of the cost is not known."""
    if not saved:
        return "no less than" if at_most else "as much as"
    share = percent(100 * abs(saved) / fixed)
    if saved < 0:
        return f"{'at least ' if at_most else ''}{usd(-saved)} ({share}) more than"
    return f"{'at most ' if at_most else ''}{usd(saved)} ({share}) less than"


def _nodes(week: PoolWeek) -> str:
    if not week.node_hours:
        return "no node ran"
    several = f"{week.fewest} to {week.peak}" if week.fewest < week.peak else f"{week.peak}"
    return (
        f"{number(week.node_hours)} node-hours ({number(week.spot_hours)} Spot, {number(week.on_demand_hours)} "
        f"On-Demand), {several} at a time, {number(week.nodes)} on the mean"
    )


def _cost(pool: PoolReport) -> str:
    unpriced = pool.week.unpriced_percent
    if not unpriced:
        return f"{usd(pool.usd)} by the catalogue's prices"
    if not pool.usd:
        return "not known: no node-hour has a known price"
    return f"at least {usd(pool.usd)}: {percent(unpriced)} of the node-hours have no known price and are not in it"


def _fixed(compared: Comparison | Missing) -> str:
    if isinstance(compared, Missing):
        return f"not compared: {compared.cause}"
    difference = compared_with(compared.saved_usd, compared.fixed_usd, at_most=compared.lower_bound)
    return (
        f"{compared.nodes} × {compared.type} On-Demand at {hourly(compared.hourly_usd)} (as many as the week's peak, "
        f"of the type that ran most) for the same {hours(compared.hours)} cost {usd(compared.fixed_usd)}; "
        f"the autoscaled fleet cost {difference} that"
    )


def _spot(pool: PoolReport) -> str:
    week, count = pool.week, pool.week.count("interruptions")
    said = f"{percent(week.spot_percent or 0.0)} of the node-hours"
    if pool.wanted_spot_percent is not None and not pool.dry_run:
        said += f", where the policy aims at {percent(pool.wanted_spot_percent)} for fleets of these sizes"
    if pool.spot_is_short:
        said += f" ({_why_less(week)})"
    often = f", one in {number(week.spot_hours / count)} Spot node-hours" if count and week.spot_hours else ""
    swaps = week.count("market_swaps")
    healed = f"; {some(swaps, 'On-Demand node')} above the share replaced by Spot" if swaps else ""
    return f"{said}; {some(count, 'interruption') if count else 'no interruption'}{often}{healed}"


def _why_less(week: PoolWeek) -> str:
    short = week.count("no_capacity")
    if short:
        return f"EC2 had no capacity {times(short)}, and what Spot lacks is bought On-Demand"
    if week.count("interruptions"):
        return "what replaces lost nodes to hold min is bought On-Demand"
    return "nothing recorded says why"


def _scaling(week: PoolWeek) -> str:
    at_max = percent(week.at_max_percent)
    added, removed = week.count("scale_ups"), week.count("scale_downs")
    return f"{some(added, 'node')} added, {removed:,} removed; as large as max for {at_max} of the time"


def _use(week: PoolWeek) -> str:
    return "; ".join(
        (
            _readable("CPU", week.mean(lambda hour: hour.cpu), week.known_percent("cpu_known")),
            _readable("memory", week.mean(lambda hour: hour.memory), week.known_percent("memory_known")),
            _requested(week),
        )
    )


def _requested(week: PoolWeek) -> str:
    cpu, memory = week.mean(lambda hour: hour.requested_cpu), week.mean(lambda hour: hour.requested_memory)
    known = week.known_percent("requested_known")
    if cpu is None or memory is None:
        return "what pods ask for is not known"
    return f"pods ask for {percent(cpu)} of the CPU and {percent(memory)} of the memory{_partly(known)}"


def _readable(name: str, mean: float | None, known: float) -> str:
    return f"{name} not readable" if mean is None else f"{name} {percent(mean)}{_partly(known)}"


def _partly(known: float) -> str:
    return "" if round(known) >= 100 else f" (readable for {percent(known)} of the watched time)"  # noqa: PLR2004
