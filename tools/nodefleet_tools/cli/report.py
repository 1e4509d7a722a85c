"""`nodefleet report`: the week in figures, as operators hear of it on Mondays, whenever they want to know."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.table import Table

from nodefleet.errors import NodeFleetError
from nodefleet.model.inventory import InstanceType
from nodefleet.model.names import SHARED_PARTITION, pluralize
from nodefleet.model.serialization import Plain, to_plain
from nodefleet.model.snapshot import Missing
from nodefleet.model.state import Usage
from nodefleet.policy.cluster import Policy
from nodefleet.ports import State
from nodefleet.reconcile.observe import resolve_policy
from nodefleet.reporting.usage import HOUR, Period, last_week
from nodefleet.reporting.weekly import PoolReport, WeeklyReport, weekly_report
from nodefleet.reporting.weekly_text import headline, lines, plain
from nodefleet_tools.cli.clusters import registry
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.operators import known_state
from nodefleet_tools.cli.options import Week
from nodefleet_tools.cli.outcome import Status, fail, print_json, write_file
from nodefleet_tools.cli.show_record import page_console
from nodefleet_tools.report_page.weekly import weekly_page

_WIDEST = 110
_AT_ONCE = 16  # clusters whose records are read


def report(*, week: Week, html: Path | None, everything: bool, as_json: bool, cluster: str, table: str) -> None:
    if everything:
        with connected(cluster=SHARED_PARTITION, table=table) as connection:
            _show_all(connection, week, as_json=as_json)
        return
    with connected(cluster=cluster, table=table) as connection:
        known_state(connection)
        found, policy = _report(connection, week)
    if html is not None:
        _write(html, weekly_page(found, policy))
    if not found.record.hours:
        fail(f"{found.cluster}: {headline(found)}", Status.NOTHING)
    if as_json:
        print_json(as_plain(found))
        return
    terminal = Console()
    print(plain(found, min(terminal.width, _WIDEST) if terminal.is_terminal else _WIDEST))


def _show_all(connection: Connection, week: Week, *, as_json: bool) -> None:
    """The clusters by their cost, and their sum. One that cannot be read is named, and not counted."""
    found, unreadable = all_reports(connection, week)
    if not found and not unreadable:
        fail("No cluster is registered: see `nodefleet clusters`.", Status.NOTHING)
    total = sum(report.usd for report in found)
    saved = sum(each.fixed_usd - each.usd for report in found for each in report.comparisons)
    if as_json:
        plainly = [as_plain(report) for report in found]
        print_json(
            {"clusters": plainly, "usd": round(total, 2), "saved_usd": round(saved, 2), "unreadable": unreadable}
        )
        return
    shown = Table("cluster", "USD", "node hours", "watched", "told", box=None, pad_edge=False)
    for report in found:
        told = sum(report.happened.values())
        cells = (f"{report.usd:.2f}", f"{report.node_hours:.0f}", f"{report.watched_percent:.0f} %", str(told))
        shown.add_row(report.cluster, *cells)
    console = page_console()
    console.print(shown)
    against = f", {saved:.2f} USD less than fixed fleets" if saved > 0 else ""
    console.print(f"{pluralize(len(found), 'cluster', 'clusters')}: {total:.2f} USD{against}")
    for name, cause in unreadable.items():
        console.print(f"! {name}: {cause}")


def all_reports(connection: Connection, week: Week) -> tuple[list[WeeklyReport], dict[str, str]]:
    """The most expensive first, without advice; and why some could not be read."""
    names = [each.name for each in registry(connection).clusters()]

    def read(name: str) -> WeeklyReport | str:
        own = Connection(replace(connection.settings, clusters=(name,)), os.environ, connection.redact)
        vars(own).update(session=connection.session, clock=connection.clock)
        try:
            return _report(own, week, with_catalog=False)[0]
        except NodeFleetError as error:
            return str(error)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = dict(zip(names, pool.map(read, names), strict=True))
    reports = [each for each in found.values() if isinstance(each, WeeklyReport)]
    unreadable = {name: each for name, each in found.items() if isinstance(each, str)}
    return sorted(reports, key=lambda report: -report.usd), unreadable


def _write(file: Path, text: str) -> None:
    write_file(file, text)
    print(f"Report: {file}", file=sys.stderr)


def _report(connection: Connection, week: Week, *, with_catalog: bool = True) -> tuple[WeeklyReport, Policy]:
    state, now, history = connection.store.state(), connection.clock(), connection.history
    policy = resolve_policy(state, connection.policies, now).policy
    zone = ZoneInfo(policy.time_zone)
    period = last_week(now, zone) if week is Week.LAST else current_week(now, zone)
    usage = (*history.usage(period.start, period.end), *_running(state, period))
    events = history.events(period.start, period.end)
    own = state.deployment.own_usd if state.deployment else {}
    catalog = _catalog(connection, policy) if with_catalog else ()
    memory = state.journal.memory
    report = weekly_report(
        connection.cluster_id,
        period,
        usage,
        events,
        policy,
        catalog,
        own_monthly_usd=own,
        memory=memory,
        tuned=state.tuned,
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
        "fixed_spot_fleet_usd": found.fixed_spot_usd,
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
