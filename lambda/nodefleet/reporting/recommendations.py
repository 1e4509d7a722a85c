"""Recommendations on limits, requests, the Spot share and instance types."""

import re
from dataclasses import dataclass, replace
from math import ceil

from nodefleet.capacity import on_demand_share
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceType
from nodefleet.policy.pool import MarketMix
from nodefleet.reporting.review import (
    HOURS_PER_MONTH,
    Recommendation,
    ReviewContext,
    Subject,
    Thresholds,
    nodes_needed,
    whole_nodes,
)
from nodefleet.reporting.usage import Figure, PoolHour, PoolWeek, hourly, hours, number, percent, some, times, usd

# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Min and max: too tight, too wide, or just right.


def raise_max(case: ReviewContext) -> Recommendation | None:
    """The fleet stands at max and wants more. Being as large as max is no reason by itself: min may be max."""
    week, limits, least = case.week, case.pool.limits, case.thresholds
    full = [hour for hour in week.hours if hour.used.at_max_seconds > 0]
    told = case.told[AlertKind.AT_MAX]
    if not (full or told) or (week.at_max_percent < least.at_max_percent and told < least.at_max_told):
        return None
    busiest = max((need for hour in full if (need := nodes_needed(hour, case)) is not None), default=0.0)
    waited = sum(hour.used.waiting_pod_seconds for hour in full) / 3600 if case.only_pool else 0.0
    if not told and not waited and busiest <= limits.max:
        return None
    highest = max(limits.max + 1, whole_nodes(limits.max * least.raise_max_by))
    wanted = min(max(whole_nodes(busiest), limits.max + case.pool.steps.up), highest)
    spent = case.monthly_usd((wanted - limits.max) * week.at_max_hours)
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


def lower_max(case: ReviewContext) -> Recommendation | None:
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


def lower_min(case: ReviewContext) -> Recommendation | None:
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
        usd_per_month=case.monthly_usd((limits.min - lower) * watched),
    )


def _idle_at_min(hour: PoolHour, case: ReviewContext) -> float | None:
    """How many nodes would have done, if the fleet was at min and so calm that it would have shrunk; none otherwise.

    Without the requests it is unknown whether the pods would fit on fewer."""
    rules, need = case.pool.reactive, nodes_needed(hour, case)
    asked_cpu, asked_memory = hour.requested_cpu, hour.requested_memory
    if need is None or asked_cpu is None or asked_memory is None or not hour.watched:
        return None
    calm = (hour.cpu or 0.0) < rules.cpu.down and (hour.memory or 0.0) < rules.memory.down
    if not calm or hour.used.most_nodes > case.pool.limits.min:
        return None
    return max(need, hour.nodes * max(asked_cpu, asked_memory) / case.thresholds.packed_percent)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Requests far above use: nodes are bought for what pods ask for, not for what they need.
#
# A request stays the same all week, so it is measured by the busy hours, with room for the peaks within them.


@dataclass(frozen=True, slots=True, kw_only=True)
class _OversizedRequests:
    """One resource: what pods ask for and use, in percent of the nodes."""

    name: str
    requested: float
    used: float
    busy: float  # use by request, in busy hours
    keeps: float  # the share of the requests that would do


def lower_requests(case: ReviewContext) -> Recommendation | None:
    week, least = case.week, case.thresholds
    readable = min(map(week.known_percent, ("cpu_known", "memory_known", "requested_known")))
    if readable < least.readable_percent:
        return None
    cpu = _find_oversized("CPU", week, lambda hour: hour.requested_cpu, lambda hour: hour.cpu, least)
    memory = _find_oversized("memory", week, lambda hour: hour.requested_memory, lambda hour: hour.memory, least)
    if cpu is None or memory is None:
        return None
    saved = sum(_nodes_saved(hour, cpu, memory, case) * hour.watched for hour in week.hours)
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
        usd_per_month=case.monthly_usd(saved),
        for_service=bool(case.told[AlertKind.AT_MAX]),
    )


def _find_oversized(
    name: str, week: PoolWeek, asks: Figure, uses: Figure, least: Thresholds
) -> _OversizedRequests | None:
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
    return _OversizedRequests(name=name, requested=requested, used=used, busy=busy, keeps=keeps)


def _nodes_saved(hour: PoolHour, cpu: _OversizedRequests, memory: _OversizedRequests, case: ReviewContext) -> float:
    """Nodes that an hour would have done without. Neither use nor min would have allowed more."""
    asked_cpu, asked_memory, by_use = hour.requested_cpu, hour.requested_memory, nodes_needed(hour, case)
    if asked_cpu is None or asked_memory is None or by_use is None:
        return 0.0
    fill = max(asked_cpu, asked_memory)
    if fill < case.thresholds.requests_fill_percent:
        return 0.0
    by_requests = hour.nodes * max(asked_cpu * cpu.keeps, asked_memory * memory.keeps) / fill
    return max(0.0, hour.nodes - max(whole_nodes(by_requests), whole_nodes(by_use), case.pool.limits.min))


# ── instance types ───────────────────────────────────────────────────────────────────────────────────────────────────
# Instance types: when the work needs much of one resource and little of the other, another shape is cheaper.


_TYPE = re.compile(r"(?P<family>[a-z]+)\d+(?P<attributes>[a-z-]*)\.")
_ARM_BEFORE_NAMES = "a1."  # the first generation did not say it
_GRAVITON = "g"
_MOST_MEMORY = ("r", "x", "u", "z")
_MOST_CPU = ("c",)


def other_type(case: ReviewContext) -> Recommendation | None:
    week, least, main = case.week, case.thresholds, case.main
    if main is None or min(map(week.known_percent, ("cpu_known", "memory_known"))) < least.readable_percent:
        return None
    cpu, memory = _needed_cpu(case), _needed_memory(case)
    if cpu is None or memory is None:
        return None
    scarce, ample = max(cpu, memory), min(cpu, memory)
    if scarce < least.needed_percent / 100 or scarce < least.lopsided * ample:
        return None
    for_memory = memory > cpu
    high, low = (("memory", memory), ("CPU", cpu)) if for_memory else (("CPU", cpu), ("memory", memory))
    because = f"{main.name} is needed for its {high[0]} ({percent(100 * high[1])}), its {low[0]} much less "
    because += f"({percent(100 * low[1])})"
    better = _cheapest(case, main, cpu, memory, for_memory=for_memory)
    if better is None:
        return _family(case, main, because, for_memory=for_memory)
    offer, share = better
    spent = case.monthly_usd(week.node_hours)
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.TYPE,
        do=f"Try {offer.name} in place of {main.name} in market.types{_price_to_allow(offer, case)}",
        because=because,
        effect=f"for the same need it costs {percent(100 * (1 - share))} less at On-Demand prices",
        usd_per_month=None if spent is None else spent * (1 - share),
    )


def larger_or_equal(case: ReviewContext) -> list[str]:
    """Types of the catalogue that the pool does not use and that could stand in for its main one, cheapest first."""
    main = case.main
    if main is None:
        return []
    offers = [
        (offer.hourly_usd, offer.name)
        for offer in case.catalog.values()
        if offer.name not in case.pool.market.types
        and offer.hourly_usd is not None
        and not _price_to_allow(offer, case)
        and offer.resources.cpu >= main.resources.cpu
        and offer.resources.memory >= main.resources.memory
        and _could_replace(offer.name, main.name)
    ]
    return [name for _, name in sorted(offers)]


def _needed_cpu(case: ReviewContext) -> float | None:
    use = case.week.mean(lambda hour: hour.cpu)
    asked = case.week.mean(lambda hour: hour.requested_cpu) or 0.0
    return None if use is None else max(use / case.at_work(case.pool.reactive.cpu), asked / 100)


def _needed_memory(case: ReviewContext) -> float | None:
    use = case.week.mean(lambda hour: hour.memory)
    asked = case.week.mean(lambda hour: hour.requested_memory) or 0.0
    return None if use is None else max(use / case.at_work(case.pool.reactive.memory), asked / 100)


def _cheapest(
    case: ReviewContext, main: InstanceType, cpu: float, memory: float, *, for_memory: bool
) -> tuple[InstanceType, float] | None:
    """The type that does the same work for the least, and for what share of the present price."""
    if main.hourly_usd is None or not main.hourly_usd:
        return None
    nodes = case.week.nodes
    found = []
    for offer in case.catalog.values():
        if not _fits(offer, main, for_memory=for_memory):
            continue
        each = max(
            cpu * main.resources.cpu / offer.resources.cpu, memory * main.resources.memory / offer.resources.memory
        )
        count = max(nodes * each / max(cpu, memory), float(case.pool.limits.min))
        found.append((count * (offer.hourly_usd or 0.0) / (nodes * main.hourly_usd), offer.name))
    share, name = min(found, default=(1.0, ""))
    return (case.catalog[name], share) if share <= 1 - case.thresholds.cheaper_percent / 100 else None


def _fits(offer: InstanceType, main: InstanceType, *, for_memory: bool) -> bool:
    """Priced, of the same kind, and not smaller in what is scarce: the largest pod must still fit."""
    has, had = offer.resources, main.resources
    if offer.name == main.name or not offer.hourly_usd or not has.cpu or not has.memory:
        return False
    as_large = has.memory >= had.memory if for_memory else has.cpu >= had.cpu
    return as_large and _could_replace(offer.name, main.name)


def _could_replace(name: str, main: str) -> bool:
    """Of the same architecture, so that images run; and no burstable type for one that is always at full speed."""
    return _is_arm(name) == _is_arm(main) and (_is_burstable(main) or not _is_burstable(name))


def _is_arm(name: str) -> bool:
    found = _TYPE.match(name)
    return name.startswith(_ARM_BEFORE_NAMES) or (found is not None and _GRAVITON in found["attributes"])


def _is_burstable(name: str) -> bool:
    found = _TYPE.match(name)
    return found is not None and found["family"] == "t"


def _price_to_allow(offer: InstanceType, case: ReviewContext) -> str:
    """Spot above max_price_usd is never bought."""
    price = offer.spot_usd if offer.spot_usd is not None else offer.hourly_usd
    market = case.pool.market
    if not market.spot_percent or price is None or price <= market.max_price_usd:
        return ""
    return f", and allow its Spot price ({hourly(price)}; market.max_price_usd is {market.max_price_usd:g})"


def _family(case: ReviewContext, main: InstanceType, because: str, *, for_memory: bool) -> Recommendation | None:
    """No type that we know the price of is better: say where to look, unless that is where we are.

    Of a fleet at min there would be as many of the other type, at its higher price."""
    if case.week.nodes - case.pool.limits.min < case.thresholds.least_nodes_saved:
        return None
    found = _TYPE.match(main.name)
    family = found["family"] if found else ""
    if family.startswith(_MOST_MEMORY if for_memory else _MOST_CPU):
        return None
    if for_memory:
        where = "the memory-optimised families (r)"
        where += ", or the next larger size of the same family" if family == "t" else ""
    else:
        where = "the compute-optimised families (c)"
        where += ", or the next smaller size of the same family" if family == "t" else ""
    more, less = ("memory", "CPU") if for_memory else ("CPU", "memory")
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.TYPE,
        do=f"Look for a type with more {more} for its {less} than {main.name}: {where}",
        because=because,
        effect="no type in the catalogue does the same for less",
    )


# ── Spot share ───────────────────────────────────────────────────────────────────────────────────────────────────────
# Spot: taken too often, not to be had, or safe enough for more of it. One word on it for each pool.


_NAMED = 2  # types that are named as examples


def wanted_spot_percent(week: PoolWeek, mix: MarketMix) -> float | None:
    """The share of Spot that the policy aims at, for fleets of the week's sizes: a base weighs most on small ones."""
    spot = total = 0.0
    for hour in week.hours:
        nodes = round(hour.nodes)
        if nodes:
            total += hour.node_hours
            spot += hour.node_hours * (nodes - on_demand_share(nodes, mix)) / nodes
    return 100 * spot / total if total else None


def spot(case: ReviewContext) -> Recommendation | None:
    return taken_often(case) or hard_to_get(case) or safe_enough(case)


def taken_often(case: ReviewContext) -> Recommendation | None:
    week, least, mix = case.week, case.thresholds, case.pool.market
    count = week.count("interruptions")
    if count < least.interruptions or week.spot_hours > count * least.hours_per_interruption:
        return None
    because = f"EC2 took {some(count, 'Spot node')}, one in {number(week.spot_hours / count)} Spot node-hours"
    if len(mix.types) < least.few_types:
        return Recommendation(
            pool=case.pool.name,
            subject=Subject.SPOT,
            do=_more_types(case),
            because=because,
            effect="EC2 picks those that it will hardly need back",
            for_service=True,
        )
    lower = max(0.0, mix.spot_percent - least.less_spot)
    if lower >= mix.spot_percent:
        return None
    spent = case.spot_saves(week.node_hours * (mix.spot_percent - lower) / 100)
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.SPOT,
        do=f"Lower market.spot_percent from {mix.spot_percent:g} to {lower:g}",
        because=f"{because}, though the pool has {some(len(mix.types), 'type')}",
        usd_per_month=None if spent is None else -spent,
        for_service=True,
    )


def hard_to_get(case: ReviewContext) -> Recommendation | None:
    week, least, mix = case.week, case.thresholds, case.pool.market
    has, wants = week.spot_percent, wanted_spot_percent(week, mix)
    if has is None or wants is None or wants - has < least.spot_gap:
        return None
    shares = f"{percent(has)} of the node-hours were Spot, the policy aims at {percent(wants)}"
    saved = case.spot_saves(week.node_hours * (wants - has) / 100)
    prices = [offer.spot_usd for name in mix.types if (offer := case.catalog.get(name)) and offer.spot_usd is not None]
    if prices and min(prices) > mix.max_price_usd:
        return Recommendation(
            pool=case.pool.name,
            subject=Subject.SPOT,
            do=f"Raise market.max_price_usd from {mix.max_price_usd:g} to more than {min(prices):.4f}",
            because=f"{shares}; none of its types is to be had as Spot for less than {hourly(min(prices))} now",
            usd_per_month=saved,
        )
    short = week.count("no_capacity")
    if short < least.shortages:
        return None
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.SPOT,
        do=_more_types(case),
        because=f"{shares}; EC2 had no capacity {times(short)}",
        usd_per_month=saved,
    )


def safe_enough(case: ReviewContext) -> Recommendation | None:
    week, least, mix = case.week, case.thresholds, case.pool.market
    if not mix.spot_percent or mix.spot_percent >= least.usual_spot_percent or week.spot_hours < least.known_spot_hours:
        return None
    count = week.count("interruptions")
    if count * least.calm_hours_per_interruption > week.spot_hours or week.count("no_capacity") >= least.shortages:
        return None
    more = wanted_spot_percent(week, replace(mix, spot_percent=least.usual_spot_percent))
    gained = (more or 0.0) - (wanted_spot_percent(week, mix) or 0.0)
    if gained <= 0:
        return None
    return Recommendation(
        pool=case.pool.name,
        subject=Subject.SPOT,
        do=f"Raise market.spot_percent from {mix.spot_percent:g} to {least.usual_spot_percent:g}",
        because=f"{some(count, 'interruption')} in {number(week.spot_hours)} Spot node-hours",
        usd_per_month=case.spot_saves(week.node_hours * gained / 100),
    )


def _more_types(case: ReviewContext) -> str:
    types = case.pool.market.types
    others = larger_or_equal(case)[:_NAMED]
    such_as = f", such as {' and '.join(others)}" if others else ""
    return f"Give the pool more than its {some(len(types), 'type')} ({', '.join(types)}){such_as}, or more zones"
