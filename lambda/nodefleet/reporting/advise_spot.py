"""Spot: taken too often, not to be had, or safe enough for more of it. One word on it for each pool."""

from dataclasses import replace

from nodefleet.decide.placement import on_demand_share
from nodefleet.domain.policy import MarketMix
from nodefleet.reporting.advise_types import larger_or_equal
from nodefleet.reporting.amounts import hourly, number, percent, some, times
from nodefleet.reporting.case import Case, Recommendation, Subject
from nodefleet.reporting.figures import PoolWeek

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


def spot(case: Case) -> Recommendation | None:
    return taken_often(case) or hard_to_get(case) or safe_enough(case)


def taken_often(case: Case) -> Recommendation | None:
    week, least, mix = case.week, case.thresholds, case.pool.market
    count = week.count("interruptions")
    if count < least.interruptions or week.spot_hours > count * least.hours_per_interruption:
        return None
    because = f"EC2 took {count} Spot nodes, one in {number(week.spot_hours / count)} Spot node-hours"
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
        because=f"{because}, though the pool has {len(mix.types)} types",
        usd_per_month=None if spent is None else -spent,
        for_service=True,
    )


def hard_to_get(case: Case) -> Recommendation | None:
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


def safe_enough(case: Case) -> Recommendation | None:
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


def _more_types(case: Case) -> str:
    types = case.pool.market.types
    others = larger_or_equal(case)[:_NAMED]
    such_as = f", such as {' and '.join(others)}" if others else ""
    return f"Give the pool more than its {some(len(types), 'type')} ({', '.join(types)}){such_as}, or more zones"
