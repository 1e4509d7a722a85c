"""`nodefleet policy`: check a policy file, show what it amounts to, and describe it to editors."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.model.names import pluralize
from nodefleet.model.serialization import to_plain
from nodefleet.policy.cluster import Policy
from nodefleet.policy.file_schema import Keys, Leaf, leaves, path_of
from nodefleet.policy.loading import Loaded
from nodefleet.policy.pool import Pool
from nodefleet_tools.cli.input_file import name_of
from nodefleet_tools.cli.outcome import issue_plain, print_json
from nodefleet_tools.cli.policy_file import policy_or_exit
from nodefleet_tools.cli.reviewing import reviewed_or_exit
from nodefleet_tools.policy_schema import schema as policy_schema

_ONE = {unit: unit.removesuffix("s") for unit in ("nodes", "days", "jobs", "pods", "growths", "readings", "runners")}


def check_file(*, file: Path, as_json: bool) -> None:
    """Say what a policy does, or everything that is wrong with it."""
    policy = policy_or_exit(file).policy
    warnings = reviewed_or_exit(name_of(file), policy)
    if as_json:
        pools = [{"pool": pool.name, "summary": summary(pool)} for pool in policy.pools]
        print_json({"pools": pools, "warnings": [issue_plain(each) for each in warnings]})
        return
    for pool in policy.pools:
        print(summary(pool))


def show_file(*, file: Path | None, preset: str | None, as_json: bool) -> None:
    """Show every value of a policy: where it comes from and what it is for."""
    loaded = policy_or_exit(file, preset)
    if as_json:
        print_json(to_plain(loaded.policy, full=True))
        return
    console = Console()
    for heading, keys, parts in _sections(loaded):
        table = Table(title=heading, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
        for column in ("setting", "value", "from", "why"):
            table.add_column(column, header_style="dim", overflow="fold", no_wrap=column == "setting")
        for leaf in parts:
            origin = loaded.origins[path_of(leaf.keys)]
            why = leaf.about.why if leaf.about else ""
            table.add_row(*map(Text, (path_of(leaf.keys[len(keys) :]), worded(leaf), origin, why)))
        console.print(table)
        console.print()


def print_schema(*, as_json: bool) -> None:  # noqa: ARG001  # it is JSON anyway
    """Print the JSON Schema of a policy file, for editors."""
    print_json(policy_schema())


_DEFAULT = Pool()
_IN_SUMMARY = frozenset(
    ("name", "limits", "reactive", "steps", "market", "strategy", "adaptive", "custom", "readings", "dry_run")
)


def summary(pool: Pool) -> str:
    """A pool in one line."""
    cpu, memory, steps, market = pool.reactive.cpu, pool.reactive.memory, pool.steps, pool.market
    rules = f"{len(pool.custom)} custom rule{'s' if len(pool.custom) > 1 else ''}" if pool.custom else "no custom rules"
    dry = "; dry run: changes nothing" if pool.dry_run else ""
    scales = (
        f" grows by {steps.up} (urgent {steps.urgent}) above CPU {cpu.up:g} % or memory {memory.up:g} %,"
        f" shrinks by {steps.down} below {cpu.down:g} % and {memory.down:g} %;"
    )
    if pool.strategy == "adaptive":
        scales = (
            f" as many as a forecast is worth at {pool.adaptive.node_minutes:g} node-minutes for a minute above"
            f" {pool.adaptive.limit:g} %;"
        )
    return (
        f"{pool.name}: {pool.limits.min} to {pluralize(pool.limits.max, 'node', 'nodes')};{scales}"
        f" {market.spot_percent:g} % Spot; {rules}{_beside(pool)}{dry}"
    )


def _beside(pool: Pool) -> str:
    """What the line has no words for and is not as by default: a reader must not take the line for all of it."""
    unlike = [each.name for each in fields(Pool) if getattr(pool, each.name) != getattr(_DEFAULT, each.name)]
    found = [name for name in unlike if name not in _IN_SUMMARY]
    return f"; also set: {', '.join(found)}" if found else ""


def worded(leaf: Leaf) -> str:
    """A value with its unit, as an operator says it."""
    value: Any = leaf.value
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    plain = to_plain(value)
    text = f"{plain:g}" if isinstance(plain, float) else str(plain)
    unit = leaf.about.unit if leaf.about and isinstance(value, int | float | timedelta) else ""
    return f"{text} {_ONE.get(unit, unit) if value == 1 else unit}".strip()


def _sections(loaded: Loaded) -> Iterator[tuple[str, Keys, list[Leaf]]]:
    found = list(leaves(loaded.policy, Policy))
    yield "cluster", (), [leaf for leaf in found if leaf.keys[0] != "pools"]
    for index, pool in enumerate(loaded.policy.pools):
        keys: Keys = ("pools", index)
        yield f"pool {pool.name}", keys, [leaf for leaf in found if leaf.keys[:2] == keys]
