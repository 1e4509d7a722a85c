"""A decision on a page: what happens, why, who had a say, what is planned, and why the others stay."""

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nodefleet.engine.target import resolve_target
from nodefleet.model.decision import Action, Bound, Decision, PoolDecision, Side
from nodefleet.model.fleet import Count
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli.plan_words import sentence, stay_lines

STYLES = {Action.GROW: "bold green", Action.SHRINK: "bold yellow", Action.HOLD: "bold cyan"}
_INDENT = 2


def show(decision: Decision, policy: Policy, console: Console) -> None:
    for pool in decision.pools:
        _pool(pool, console)
    for step in decision.plan:
        console.print(Text(f"Workers of no pool: {sentence(step)}"))
    for tell in decision.tells:
        console.print(Text(f"Cluster: {sentence(tell)}"))
    console.print(Text(f"Level: {decision.level.value}"))
    console.print(Text(f"Next iteration: {_next_iteration(decision, policy)}"))


def headline(pool: PoolDecision) -> str:
    """GROW 3 → 5, or HOLD 3."""
    word, before = pool.action.name, pool.count.capacity
    return f"{word} {before}" if pool.target == before else f"{word} {before} → {pool.target}"


def side(bound: Bound) -> str:
    return f"≥ {bound.nodes}" if bound.side is Side.FLOOR else f"≤ {bound.nodes}"


def _pool(pool: PoolDecision, console: Console) -> None:
    dry = "  (dry run: nothing of it is carried out)" if pool.dry_run else ""
    console.print(Text.assemble((f"{pool.pool}: ", "bold"), (headline(pool), STYLES[pool.action]), dry))
    console.print(Padding(Text(pool.reason), (0, 0, 0, _INDENT), expand=False))
    _section(console, "Workers", _lines([_counted(pool.count)]))
    _section(console, "Signals", _lines(pool.votes or ["none was heard"]))
    _section(console, "Bounds, the strongest last: it has the last word", _bounds(pool))
    _section(console, "Plan", _lines([sentence(step) for step in pool.plan] or ["nothing to do"], bullet="-"))
    _section(console, "Who stays, and why", _stays(pool))
    console.print()


def _counted(count: Count) -> str:
    besides = {
        "leaving": count.leaving,
        "taken by EC2": count.interrupted,
        "failed": count.failed,
    }
    parts = [f"{count.ready} ready", f"{count.booting} booting"]
    parts += [f"{number} {what}" for what, number in besides.items() if number]
    return f"{', '.join(parts)}; {count.occupied} count against max"


def _bounds(pool: PoolDecision) -> Table:
    settled = resolve_target(pool.bounds)
    overruled = {each.bound: each.by for each in pool.overruled}
    table = _table("rank", "nodes", "from", "because")
    for bound in sorted(pool.bounds, key=lambda bound: bound.rank):
        because = Text(bound.sentence)
        if bound is settled.by:
            because.append(f" (sets the target: {settled.target})", "bold")
        elif bound in overruled:
            because.append(f" (overruled by {overruled[bound]})", "italic")
        table.add_row(Text(bound.rank.name.lower()), Text(side(bound)), Text(bound.source), because)
    return table


def _stays(pool: PoolDecision) -> Table:
    table = _table()
    for who, why in stay_lines(pool.stays):
        table.add_row(Text(who), Text(why))
    if not pool.stays:
        table.add_row(Text("there are no workers"))
    return table


def _next_iteration(decision: Decision, policy: Policy) -> str:
    if decision.look_again:
        return f"in {policy.burst.every.total_seconds():g} s, because {decision.look_again}"
    return f"in {policy.interval.total_seconds():g} s, with the next tick"


def _section(console: Console, heading: str, content: Table) -> None:
    console.print()
    console.print(Padding(Text(heading, "bold"), (0, 0, 0, _INDENT), expand=False))
    console.print(Padding(content, (0, 0, 0, 2 * _INDENT), expand=False))


def _lines(lines: Iterable[str], bullet: str = "") -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for line in lines:
        table.add_row(*[Text(cell) for cell in (bullet, line) if cell])
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=bool(columns), pad_edge=False)
    for column in columns:
        table.add_column(column, header_style="dim", overflow="fold")
    return table
