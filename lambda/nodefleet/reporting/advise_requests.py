"""Requests far above use: nodes are bought for what pods ask for, not for what they need.

A request stays the same all week, so it is measured by the busy hours, with room for the peaks within them.
"""

from dataclasses import dataclass
from math import ceil

from nodefleet.domain.alerts import AlertKind
from nodefleet.reporting.amounts import number, percent
from nodefleet.reporting.case import Case, Recommendation, Subject, needed, whole_nodes
from nodefleet.reporting.figures import Figure, PoolHour, PoolWeek
from nodefleet.reporting.thresholds import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One resource: what pods ask for and use, in percent of the nodes."""

    name: str
    requested: float
    used: float
    busy: float  # use by request, in busy hours
    keeps: float  # the share of the requests that would do


def lower_requests(case: Case) -> Recommendation | None:
    week, least = case.week, case.thresholds
    readable = min(map(week.known_percent, ("cpu_known", "memory_known", "requested_known")))
    if readable < least.readable_percent:
        return None
    cpu = _asked("CPU", week, lambda hour: hour.requested_cpu, lambda hour: hour.cpu, least)
    memory = _asked("memory", week, lambda hour: hour.requested_memory, lambda hour: hour.memory, least)
    if cpu is None or memory is None:
        return None
    saved = sum(_saved(hour, cpu, memory, case) * hour.watched for hour in week.hours)
    if saved / week.watched < least.least_nodes_saved:
        return None
    high = [each for each in (cpu, memory) if each.keeps < 1]
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.REQUESTS,
        do=f"Lower the pods' {' and '.join(each.name for each in high)} requests",
        because="; ".join(
            f"they ask for {percent(each.requested)} of the nodes' {each.name} and use {percent(each.used)} "
            f"({percent(100 * each.busy)} of what they ask for in busy hours)"
            for each in high
        ),
        effect=(
            f"at {least.requests_headroom:g} × busy use the fleet needs "
            f"{number(saved / week.watched)} nodes less on the mean of {number(week.nodes)}"
        ),
        usd_per_month=case.paid(saved),
        for_service=bool(case.told[AlertKind.AT_MAX]),
    )


def _asked(name: str, week: PoolWeek, asks: Figure, uses: Figure, least: Thresholds) -> _Asked | None:
    requested, used = week.mean(asks), week.mean(uses)
    shares = sorted(
        use / asked
        for hour in week.hours
        if (use := uses(hour)) is not None and (asked := asks(hour)) is not None and asked > 0
    )
    if requested is None or used is None or not shares:
        return None
    busy = shares[ceil(least.busy_quantile * len(shares)) - 1]
    far_above = requested >= least.requests_over_use * used
    keeps = min(1.0, least.requests_headroom * busy) if far_above else 1.0
    return _Asked(name=name, requested=requested, used=used, busy=busy, keeps=keeps)


def _saved(hour: PoolHour, cpu: _Asked, memory: _Asked, case: Case) -> float:
    """Nodes that an hour would have done without. Neither use nor min would have allowed more."""
    asked_cpu, asked_memory, by_use = hour.requested_cpu, hour.requested_memory, needed(hour, case)
    if asked_cpu is None or asked_memory is None or by_use is None:
        return 0.0
    fill = max(asked_cpu, asked_memory)
    if fill < case.thresholds.requests_fill_percent:
        return 0.0
    by_requests = hour.nodes * max(asked_cpu * cpu.keeps, asked_memory * memory.keeps) / fill
    return max(0.0, hour.nodes - max(whole_nodes(by_requests), whole_nodes(by_use), case.pool.limits.min))
