"""`nodefleet report`: the week in figures, as operators hear of it on Mondays, whenever they want to know."""

import sys
from dataclasses import replace
from datetime import datetime, tzinfo
from enum import Enum
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.console import Console

from nodefleet.errors import NodeFleetError
from nodefleet.model.inventory import InstanceType
from nodefleet.model.readings import Missing
from nodefleet.model.serialization import Plain, to_plain
from nodefleet.model.state import Usage
from nodefleet.policy.cluster import Policy
from nodefleet.ports import State
from nodefleet.reconcile.policy_source import resolve_policy
from nodefleet.reporting.usage import HOUR, Period, last_week
from nodefleet.reporting.weekly import PoolReport, WeeklyReport, weekly_report
from nodefleet.reporting.weekly_text import headline, lines, plain
from nodefleet_tools.cli.connect import ClusterOption, TableOption, connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.outcome import JsonOption, fail, print_json
from nodefleet_tools.report_page.weekly import weekly_page

_WIDEST = 110


class Week(Enum):
    LAST = "last"
    CURRENT = "current"


def report(
    week: Annotated[Week, typer.Option(help="The last one that is over, or the one that is running.")] = Week.LAST,
    html: Annotated[
        Path | None, typer.Option(help="Write it as an HTML file with curves.", show_default=False, metavar="FILE")
    ] = None,
    as_json: JsonOption = False,
    cluster: ClusterOption = "",
    table: TableOption = "",
) -> None:
    """Show a week in figures, with recommendations.

    Node-hours, cost, savings and failures, as operators hear of them on Mondays. Nobody else is told."""
    with connected(cluster=cluster, table=table) as connection:
        found, policy = _report(connection, week)
    if html is not None:
        _write(html, weekly_page(found, policy))
    if as_json:
        print_json(as_plain(found))
        return
    terminal = Console()
    print(plain(found, min(terminal.width, _WIDEST) if terminal.is_terminal else _WIDEST))


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{file}: cannot be written: {error.strerror}")
    print(f"Report: {file}", file=sys.stderr)


def _report(connection: Connection, week: Week) -> tuple[WeeklyReport, Policy]:
    state, now, history = connection.store.state(), connection.clock(), connection.history
    policy = resolve_policy(state, connection.policies, now).policy
    zone = ZoneInfo(policy.time_zone)
    period = last_week(now, zone) if week is Week.LAST else current_week(now, zone)
    usage = (*history.usage(period.start, period.end), *_running(state, period))
    events = history.events(period.start, period.end)
    own = state.deployment.own_usd if state.deployment else {}
    catalog = _catalog(connection, policy)
    memory = state.journal.memory
    report = weekly_report(
        connection.cluster_id, period, usage, events, policy, catalog, own_monthly_usd=own, memory=memory
    )
    return report, policy


def current_week(now: datetime, zone: tzinfo) -> Period:
    """From Monday up to the hour that is running."""
    last = last_week(now, zone)
    hours = (now - last.end) // HOUR + 1
    return replace(last, start=last.end, end=last.end + max(1, hours) * HOUR)


def _running(state: State, period: Period) -> tuple[Usage, ...]:
    """The hour that is not over is not in the history yet."""
    usage = state.journal.usage
    return (usage,) if usage is not None and usage.hour in period else ()


def _catalog(connection: Connection, policy: Policy) -> tuple[InstanceType, ...]:
    types = tuple(dict.fromkeys(name for pool in policy.pools for name in pool.market.types))
    try:
        return connection.cloud.catalog(types)
    except NodeFleetError as error:
        connection.warn(f"without what types offer the report advises less: {error}")
        return ()


# ── as JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────


def as_plain(found: WeeklyReport) -> Plain:
    period = found.period
    return {
        "cluster": found.cluster,
        "week": period.name,
        "start": to_plain(period.start),
        "end": to_plain(period.end),
        "hours": period.hours,
        "watched_hours": found.record.watched,
        "node_hours": found.node_hours,
        "usd": found.usd,
        "fixed_fleet_usd": found.fixed_usd,
        "saved_usd": found.saved_usd,
        "own_usd": dict(found.own_usd),
        "pools": [_pool(pool) for pool in found.pools],
        "happened": {
            kind.value: count for kind, count in sorted(found.happened.items(), key=lambda each: each[0].value)
        },
        "recommendations": [to_plain(each) for each in found.advice.recommendations],
        "headline": headline(found),
        "lines": [str(line) for line in lines(found)],
    }


def _pool(pool: PoolReport) -> Plain:
    week = pool.week
    return {
        "pool": pool.name,
        "node_hours": week.node_hours,
        "usd": pool.usd,
        "spot_percent": week.spot_percent,
        "wanted_spot_percent": pool.wanted_spot_percent,
        "compared": to_plain(pool.compared) if not isinstance(pool.compared, Missing) else None,
        "not_compared": pool.compared.cause if isinstance(pool.compared, Missing) else "",
    }
