"""A scenario that was played, on a terminal: live, as plain lines, and what came of it."""

import time
from collections.abc import Callable, Iterator
from math import isinf
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nodefleet.model.serialization import to_plain
from nodefleet_tools.live import View, mark_line
from nodefleet_tools.pacing import schedule, weights
from nodefleet_tools.sim.scenario_result import Frame, Mark, MarkKind, ScenarioResult
from nodefleet_tools.sim.summary import breakdown, compared, facts, sentences

PER_SECOND = 12  # pictures
_WIDEST = 110
_MANY = 60  # marks: more are not listed
_INDENT = 2


def show_live(
    played: ScenarioResult,
    console: Console,
    seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """As it went on, within so many seconds. Ctrl-C skips to the end."""
    view = View(played, min(console.width, _WIDEST))
    began = clock()
    try:
        with Live(view.at(0), console=console, auto_refresh=False) as live:
            for picture, number in enumerate(schedule(weights(played), seconds, PER_SECOND)):
                live.update(view.at(number), refresh=True)
                sleep(max(0.0, began + (picture + 1) / PER_SECOND - clock()))
    except KeyboardInterrupt:
        console.print(Text("Skipped to the end."))


def show_lines(played: ScenarioResult, console: Console) -> None:
    """The same as plain lines: how it stands every hour, and everything that happens in between."""
    for each in _in_order(played):
        line = mark_line(each) if isinstance(each, Mark) else _status(each, played)
        console.print(line, soft_wrap=True)
    console.print()


def _in_order(played: ScenarioResult) -> Iterator[Frame | Mark]:
    hourly = [frame for frame in played.frames if frame.at.minute == frame.at.second == 0]
    both: list[Frame | Mark] = [*hourly, *played.marks]
    yield from sorted(both, key=lambda each: (each.at, isinstance(each, Mark)))


def _status(frame: Frame, played: ScenarioResult) -> Text:
    text = Text(
        f"{frame.at:%H:%M}   load {frame.asked:.3g}/s, {frame.ready} ready, {frame.usd:.2f} USD", "bright_black"
    )
    hours = (played.ends - played.starts).total_seconds()
    for fixed in played.fixed[:1]:
        so_far = fixed.usd * (frame.at - played.starts).total_seconds() / hours
        text.append(f" (a fixed fleet of {fixed.nodes}: {so_far:.2f} USD)")
    return text


# ── what came of it ──────────────────────────────────────────────────────────────────────────────────────────────


def show_summary(played: ScenarioResult, console: Console) -> None:
    """The figures, and every expectation with what was found."""
    console.print(Text.assemble((played.name, "bold"), f"   seed {played.seed}"))
    console.print(Text(" ".join(played.about.split())), soft_wrap=False)
    console.print()
    table = _grid()
    for fact in facts(played):
        table.add_row(Text(fact.label), Text(fact.value, "bold"), Text(fact.note, "bright_black"))
    console.print(table)
    if played.fixed:
        console.print(Text(f"\n{breakdown(played)}."))
    _checks(played, console)


def show_sentences(played: ScenarioResult, console: Console) -> None:
    """What came of it, in three sentences."""
    for sentence in sentences(played):
        console.print(Text(sentence))


def show_comparison(played: ScenarioResult, other: ScenarioResult, console: Console) -> None:
    """Two policies on the same day."""
    console.print(Text("\nThe same day with the other policy", "bold"))
    table = _grid()
    for label, mine, theirs in compared(played, other):
        table.add_row(Text(label), Text(mine, "bold"), Text(theirs))
    console.print(table)


def show_marks(played: ScenarioResult, console: Console) -> None:
    """What happened and what was decided, one line each; not the hundreds of a month."""
    told = [mark for mark in played.marks if mark.kind is not MarkKind.REMOVED]
    for mark in told[:_MANY]:
        console.print(mark_line(mark), soft_wrap=True)
    if len(told) > _MANY:
        console.print(Text(f"… and {len(told) - _MANY} more; --json and --report have them all"))
    console.print()


def _checks(played: ScenarioResult, console: Console) -> None:
    if not played.checks and not played.broken:
        return
    failed = [check for check in played.checks if not check.holds]
    console.print()
    table = _grid()
    for check in played.checks:
        sign = Text("ok", "green") if check.holds else Text("FAILS", "bold red")
        found = Text(check.found, "bold" if check.holds else "bold red")
        table.add_row(sign, Text(check.what), Text(check.wanted, "bright_black"), found)
    for each in played.broken:
        table.add_row(Text("FAILS", "bold red"), Text("invariants"), Text("none broken"), Text(each, "red"))
    console.print(table)
    if failed or played.broken:
        text = f"{len(failed) + len(played.broken)} of {len(played.checks)} expectations fail"
        console.print(Text(f"\n{text}.", "bold red"))
    else:
        all_hold = f"All {count} expectations hold." if (count := len(played.checks)) > 1 else "The expectation holds."
        console.print(Text(f"\n{all_hold}", "bold green"))


def _grid() -> Table:
    table = Table.grid(padding=(0, _INDENT, 0, 0))
    table.add_column(no_wrap=True)
    return table


def as_plain(played: ScenarioResult) -> dict[str, Any]:
    """For --json. What has no end, such as a healing that never came, is null."""
    figures = {name: _finite(value) for name, value in to_plain(played.figures, full=True).items()}
    return {
        "scenario": played.name,
        "seed": played.seed,
        "starts": played.starts.isoformat(),
        "ends": played.ends.isoformat(),
        "holds": played.holds,
        "figures": figures,
        "fixed": [
            {**to_plain(fixed, full=True), "saved_percent": fixed.saved_percent(played.figures.usd)}
            for fixed in played.fixed
        ],
        "checks": [to_plain(check, full=True) for check in played.checks],
        "broken": list(played.broken),
        "decisions": [to_plain(each, full=True) for each in played.decided],
        "marks": [to_plain(mark, full=True) for mark in played.marks],
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or isinf(value) else value
