"""Recorded decisions on a page: one of them whole, or many of them a line each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.model.decision import Action, DecisionRecord, PoolDecision
from nodefleet.model.names import some
from nodefleet.policy.cluster import Policy
from nodefleet_tools.audit import NOT_KEPT
from nodefleet_tools.cli.show_decision import STYLES, headline, show
from nodefleet_tools.durations import ago

_MOST_DONE = 3  # things in a line of the table
_WIDE = 160  # without a terminal
_NARROW = 110


def page_console() -> Console:
    """As wide as the terminal; without one wide enough that a line stays one."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)


def show_record(record: DecisionRecord, policy: Policy, console: Console, now: datetime) -> None:
    """Everything that was recorded of a decision."""
    console.print(Text(heading(record, now), "bold"))
    console.print()
    show(record.decision, policy, console)
    console.print(Text(f"Done: {'; '.join(record.did) or 'nothing'}"))
    console.print(Text(f"Figures: {', '.join(f'{name} {value:g}' for name, value in record.figures.items())}", "dim"))
    if record.cut:
        console.print(Text("It was too long for its record: only the beginning of its lists is shown.", "dim"))
    console.print(Text(_how_to_ask_again(record), "dim"))


def heading(record: DecisionRecord, now: datetime) -> str:
    policy = f"policy version {record.policy}" if record.policy else "the default policy"
    dry = ", dry run" if record.dry else ""
    return f"{record.cluster}, {moment(record.at)} ({ago(now - record.at)}), by {policy}{dry}"


def moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _how_to_ask_again(record: DecisionRecord) -> str:
    if record.archived:
        return f"Decide it again: nodefleet replay {record.id}"
    return f"It cannot be decided again: {NOT_KEPT}."


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One decision, or several quiet ones in a row that came to the same."""

    newest: DecisionRecord
    oldest: DecisionRecord
    iterations: int


def rows(records: Iterable[DecisionRecord]) -> Iterator[Row]:
    """Newest first, as they come."""
    for _, run in groupby(records, key=_alike):
        alike = list(run)
        yield Row(newest=alike[0], oldest=alike[-1], iterations=len(alike))


def _alike(record: DecisionRecord) -> tuple[object, ...]:
    """What is eventful is like nothing else."""
    pools = [(pool.pool, pool.action, pool.count.capacity, pool.target) for pool in record.decision.pools]
    if record.did or any(pool.action is not Action.HOLD for pool in record.decision.pools):
        return (record.id,)
    return (str(pools), record.decision.level, record.dry)


def show_table(records: Sequence[DecisionRecord], console: Console) -> None:
    table, narrow = Table(box=box.SIMPLE_HEAD, pad_edge=False), console.width < _NARROW
    for column in ("time (UTC)", "pool", "action", "size", "reason", "did")[: 5 if narrow else 6]:
        table.add_column(column, no_wrap=column in ("time (UTC)", "action", "size"), overflow="fold")
    for row in rows(records):
        for index, pool in enumerate(row.newest.decision.pools):
            *cells, did = _cells(row, pool, first=index == 0)
            if narrow:  # two columns of words would have a word in each line
                table.add_row(*cells[:-1], Text("\n→ ").join([each for each in (cells[-1], did) if each]))
            else:
                table.add_row(*cells, did)
    console.print(table)


def _cells(row: Row, pool: PoolDecision, *, first: bool) -> list[Text]:
    word, _, size = headline(pool).partition(" ")
    dry = " (dry)" if pool.dry_run else ""
    # The other columns say it already: "Holding 3: …".
    reason = pool.reason.partition(": ")[2] or pool.reason
    did = some(row.newest.did, "; ", _MOST_DONE) if first else ""
    cells = [_times(row) if first else "", pool.pool, word.lower() + dry, size, reason, did]
    return [Text(cell, STYLES[pool.action] if place == 2 else "") for place, cell in enumerate(cells)]  # noqa: PLR2004


def _times(row: Row) -> str:
    newest, oldest = row.newest.at, row.oldest.at
    if row.iterations == 1:
        return f"{newest:%Y-%m-%d %H:%M:%S}"
    return f"{oldest:%Y-%m-%d %H:%M:%S}\nto {newest:%H:%M:%S}, {row.iterations} iterations"
