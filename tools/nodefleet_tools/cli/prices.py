"""`nodefleet prices`: what instance types cost by what is known, where that comes from, and how to renew it."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.model.inventory import LIST_PRICES_YEAR, list_prices
from nodefleet.model.snapshot import KnownPrices
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.outcome import Status, fail, note_change, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping


def prices(*, refresh: bool, as_json: bool, cluster: str, table: str) -> None:
    with connected(cluster=cluster, table=table) as connection:
        types = sorted({name for pool in connection.governing().policy.pools for name in pool.market.types})
        if not types:
            fail("The policy names no instance types.", Status.NOTHING)
        if refresh:
            from nodefleet_tools.pricing import refresh as ask  # noqa: PLC0415  # loads botocore

            ask(connection, types)
            note_change("Prices are kept in the table.")
            connection.forget()
        rows = known_prices(connection, types)
        if as_json:
            print_json(rows)
        else:
            _show(rows, Console(highlight=False))


def known_prices(connection: Connection, types: list[str]) -> list[dict[str, Any]]:
    """As the runs go by them: by type, with the source of the On-Demand price."""
    state = connection.store.state()
    region = connection.session.client("ec2").meta.region_name
    stored = state.prices if state.prices is not None and state.prices.region == region else None
    sources: tuple[tuple[str, Mapping[str, float]], ...] = (
        ("the deployment record", state.deployment.prices if state.deployment else {}),
        (_when(stored), stored.on_demand if stored else {}),
        (f"the bundled list of {LIST_PRICES_YEAR}", list_prices(region)),
    )
    rows = []
    for name in types:
        source, price = next(((said, known[name]) for said, known in sources if name in known), ("", None))
        rows.append(
            {
                "type": name,
                "on_demand_usd": price,
                "source": source,
                "spot_usd": stored.spot.get(name) if stored else None,
            }
        )
    return rows


def _when(stored: KnownPrices | None) -> str:
    return f"AWS on {stored.at:%Y-%m-%d}" if stored else ""


def _show(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("type", "On-Demand USD/h", "known from", "Spot USD/h"):
        table.add_column(column, header_style="dim")
    for row in rows:
        figures = ["–" if row[name] is None else f"{row[name]:.4f}" for name in ("on_demand_usd", "spot_usd")]
        table.add_row(*map(Text, (row["type"], figures[0], row["source"] or "not known", figures[1])))
    console.print(table)
    if any(row["on_demand_usd"] is None for row in rows):
        console.print(
            Text("A type without a price is bought, but its cost is not counted. `--refresh` asks AWS.", "dim")
        )
