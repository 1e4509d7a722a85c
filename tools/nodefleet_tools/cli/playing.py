"""Plays a scenario for a command: progress on a terminal, the report into a file, errors as one message."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from nodefleet_tools.cli.outcome import write_file
from nodefleet_tools.report_page import page
from nodefleet_tools.sim.playing import play
from nodefleet_tools.sim.scenario_result import ScenarioResult
from nodefleet_tools.sim.scenarios.model import Scenario
from nodefleet_tools.sim.traces import Points


def played_with_progress(scenario: Scenario, traces: Mapping[str, Points]) -> ScenarioResult:
    """Progress is for the viewer: on the terminal's error stream, and gone afterwards."""
    console = Console(stderr=True)
    if not is_lively(console):
        return play(scenario, traces=traces)
    columns = (TextColumn("Playing {task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: float) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=1.0)
            progress.update(tasks[what], completed=done)

        return play(scenario, traces=traces, progress=tell)


def is_lively(console: Console) -> bool:
    """A terminal that can be drawn on: not a file, not a dumb one, and colours are welcome."""
    return console.is_terminal and not console.is_dumb_terminal and not console.no_color


def write_report(
    played: ScenarioResult, path: Path, other: ScenarioResult | None = None, options: Sequence[str] = ()
) -> None:
    """The page into a file; its folder is made if need be. `other`: the same day with another policy. `options`: those
    that play it again."""
    write_file(path, page(played, other, options))
