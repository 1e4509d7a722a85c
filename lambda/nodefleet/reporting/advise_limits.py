"""Min and max: too tight, too wide, or just right."""

from nodefleet.domain.alerts import AlertKind
from nodefleet.reporting.amounts import hours, number, percent, some, times, usd
from nodefleet.reporting.case import Case, Recommendation, Subject, needed, whole_nodes
from nodefleet.reporting.figures import PoolHour
from nodefleet.reporting.thresholds import HOURS_PER_MONTH


def raise_max(case: Case) -> Recommendation | None:
    """The fleet stands at max and wants more. Being as large as max is no reason by itself: min may be max."""
    week, limits, least = case.week, case.pool.limits, case.thresholds
    full = [hour for hour in week.hours if hour.used.at_max_seconds > 0]
    told = case.told[AlertKind.AT_MAX]
    if not (full or told) or (week.at_max_percent < least.at_max_percent and told < least.at_max_told):
        return None
    busiest = max((need for hour in full if (need := needed(hour, case)) is not None), default=0.0)
    waited = sum(hour.used.waiting_pod_seconds for hour in full) / 3600 if case.only_pool else 0.0
    if not told and not waited and busiest <= limits.max:
        return None
    highest = max(limits.max + 1, whole_nodes(limits.max * least.raise_max_by))
    wanted = min(max(whole_nodes(busiest), limits.max + case.pool.steps.up), highest)
    spent = case.paid((wanted - limits.max) * week.at_max_hours)
    seen = [
        f"the fleet stood at max for {hours(week.at_max_hours)} ({percent(week.at_max_percent)} of the watched time)"
    ]
    seen += [f"asked for more {times(told)}"] if told else []
    seen += [f"pods waited {number(waited)} pod-hours meanwhile"] if waited else []
    seen += [f"its busiest hour there needed {number(busiest)} nodes"] if busiest > limits.max else []
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.RAISE_MAX,
        do=f"Raise limits.max from {limits.max} to {wanted}",
        because=", ".join(seen),
        usd_per_month=None if spent is None else -spent,
        for_service=True,
    )


def lower_max(case: Case) -> Recommendation | None:
    """Max is there for the bill: far above all that is ever needed it guards nothing."""
    week, limits, least = case.week, case.pool.limits, case.thresholds
    whole = week.watched >= case.period_hours * least.whole_percent / 100
    if not week.peak or not whole or case.held_by_people or week.peak > least.far_below_max * limits.max:
        return None
    windows = [bound for window in case.pool.windows for bound in (window.min, window.max) if bound is not None]
    enough = whole_nodes(week.peak * least.max_above_peak)
    lower = max(enough, limits.min, case.pool.market.on_demand_base, *windows)
    if limits.max - lower < least.least_lower:
        return None
    price = case.main.hourly_usd if case.main else None
    guarded = f" and caps the worst month {usd((limits.max - lower) * price * HOURS_PER_MONTH)} lower" if price else ""
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.LOWER_MAX,
        do=f"Lower limits.max from {limits.max} to {lower}, unless a larger peak is to come",
        because=f"the week's peak was {some(week.peak, 'node')}",
        effect=f"leaves {number(lower / week.peak)} × the peak{guarded}",
    )


def lower_min(case: Case) -> Recommendation | None:
    """The fleet idles at min: without it, it would have shrunk further."""
    week, limits, least = case.week, case.pool.limits, case.thresholds
    idle = [(hour, need) for hour in week.hours if (need := _idle_at_min(hour, case)) is not None]
    watched = sum(hour.watched for hour, _ in idle)
    if not idle or case.held_by_people or 100 * watched / week.watched < least.at_min_percent:
        return None
    lower = max(least.least_min, whole_nodes(max(need for _, need in idle)))
    if lower >= limits.min:
        return None
    busiest = max(hour.cpu or 0.0 for hour, _ in idle), max(hour.memory or 0.0 for hour, _ in idle)
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.LOWER_MIN,
        do=f"Lower limits.min from {limits.min} to {lower}",
        because=(
            f"the fleet idled at min for {hours(watched)} ({percent(100 * watched / week.watched)} of the watched "
            f"time), with CPU at most {percent(busiest[0])} and memory at most {percent(busiest[1])} in any hour of it"
        ),
        usd_per_month=case.paid((limits.min - lower) * watched),
    )


def _idle_at_min(hour: PoolHour, case: Case) -> float | None:
    """How many nodes would have done, if the fleet was at min and so calm that it would have shrunk; none otherwise.

    Without the requests nobody knows whether the pods would fit on fewer."""
    rules, need = case.pool.reactive, needed(hour, case)
    asked_cpu, asked_memory = hour.requested_cpu, hour.requested_memory
    if need is None or asked_cpu is None or asked_memory is None or not hour.watched:
        return None
    calm = (hour.cpu or 0.0) < rules.cpu.down and (hour.memory or 0.0) < rules.memory.down
    if not calm or hour.used.most_nodes > case.pool.limits.min:
        return None
    return max(need, hour.nodes * max(asked_cpu, asked_memory) / case.thresholds.packed_percent)
