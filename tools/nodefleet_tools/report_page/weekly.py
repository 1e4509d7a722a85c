"""The weekly report as one HTML file, with the parts of the simulation's report: style, cards and drawing code."""

from html import escape
from string import Template
from typing import Any

from nodefleet.model.snapshot import Missing
from nodefleet.model.state import Usage
from nodefleet.policy.cluster import Policy
from nodefleet.reporting.usage import PoolHour, usd
from nodefleet.reporting.weekly import WeeklyReport
from nodefleet.reporting.weekly_text import headline, lines
from nodefleet_tools.report_page.fragments import card
from nodefleet_tools.report_page.page import embedded, script, text_of
from nodefleet_tools.report_page.series import thresholds
from nodefleet_tools.sim.summary import Fact


def weekly_page(report: WeeklyReport, policy: Policy) -> str:
    """The whole report as one HTML text."""
    return Template(text_of("weekly.html")).substitute(
        title=escape(report.period.words),
        cluster=escape(report.cluster),
        headline=escape(headline(report)),
        cards="\n".join(card(fact, big=True) for fact in _facts(report)),
        lines="\n".join(f"<dt>{escape(line.label)}</dt><dd>{escape(line.says)}</dd>" for line in lines(report)),
        style=text_of("page.css"),
        script=script("weekly.js"),
        data=embedded(_series(report, policy)),
    )


def _facts(report: WeeklyReport) -> list[Fact]:
    spot = sum(pool.week.spot_hours for pool in report.pools)
    share = f"{100 * spot / report.node_hours:.0f} % of them Spot" if report.node_hours else ""
    missing = [pool.compared.cause for pool in report.pools if isinstance(pool.compared, Missing)]
    interruptions = sum(pool.week.count("interruptions") for pool in report.pools)
    own = sum(report.own_usd.values())
    spot_usd = report.fixed_spot_usd
    on_spot = "" if spot_usd is None else f", and {usd(spot_usd)} on Spot, never interrupted"
    return [
        Fact(
            label="Cost of the workers", value=usd(report.usd), note=f"and {usd(own)} for the autoscaler" if own else ""
        ),
        Fact(
            label="Saved against fixed On-Demand fleets",
            value=usd(report.saved_usd) if report.comparisons else "not known",
            note=f"they would have cost {usd(report.fixed_usd)}{on_spot}" if report.comparisons else "; ".join(missing),
        ),
        Fact(label="Node-hours", value=f"{report.node_hours:,.1f}", note=share),
        Fact(label="Spot interruptions", value=str(interruptions)),
    ]


def _series(report: WeeklyReport, policy: Policy) -> dict[str, Any]:
    start = report.period.start
    hours = report.record.hours
    reactive = policy.pools[0].reactive if policy.pools else None
    return {
        "start": int(start.timestamp()),
        "end": int(report.period.end.timestamp()),
        "t": [int((hour.hour - start).total_seconds()) for hour in hours],
        "spot": [_nodes(hour, "spot_seconds") for hour in hours],
        "onDemand": [_nodes(hour, "on_demand_seconds") for hour in hours],
        "cpu": [_mean(hour, "cpu") for hour in hours],
        "memory": [_mean(hour, "memory") for hour in hours],
        "pending": [
            round(max((pool.waiting_pod_seconds for pool in hour.pools.values()), default=0.0) / 3600, 3)
            for hour in hours
        ],
        "thresholds": thresholds(reactive) if reactive else None,
    }


def _nodes(hour: Usage, field: str) -> float:
    """On the mean of what was watched of the hour."""
    watched = max((pool.watched_seconds for pool in hour.pools.values()), default=0.0)
    return round(sum(getattr(pool, field) for pool in hour.pools.values()) / watched, 2) if watched else 0.0


def _mean(hour: Usage, figure: str) -> float | None:
    """Over the pools, each weighed by its node-hours."""
    pools = [PoolHour(start=hour.hour, used=used) for used in hour.pools.values()]
    known = [(value, pool.node_hours) for pool in pools if (value := getattr(pool, figure)) is not None]
    total = sum(weight for _, weight in known)
    return round(sum(value * weight for value, weight in known) / total, 1) if total else None
