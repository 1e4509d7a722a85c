"""`nodefleet demo`: a shop's day in about a minute, played by the shipped loop in a simulated world."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from nodefleet_tools.cli.outcome import JsonOption, Status, print_json
from nodefleet_tools.cli.playing import is_lively, played_with_progress, write_report
from nodefleet_tools.cli.show_played import as_plain, show_lines, show_live, show_summary
from nodefleet_tools.sim.scenarios.reading import find, read

SCENARIO = "shop-day"
_SECONDS, _FAST = 50.0, 10.0  # that the day is shown for


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Show the day in ten seconds.")] = False,
    report: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("build/node-fleet-demo.html"),
    seed: Annotated[int | None, typer.Option(help="Another seed: other noise, other boot times.")] = None,
    as_json: JsonOption = False,
) -> None:
    """See a shop's day in about a minute, in a simulated world.

    A quiet night, a morning ramp, a Spot interruption, a drain that a budget blocks, a flash sale, and what it cost.
    """
    console = Console(highlight=False)
    chosen = read(find(SCENARIO))
    scenario = chosen.scenario if seed is None else replace(chosen.scenario, seed=seed)
    played = played_with_progress(scenario, chosen.traces)
    if as_json:
        write_report(played, report)
        print_json({**as_plain(played), "report": str(report)})
        raise typer.Exit(Status.DONE if played.holds else Status.FAILED)
    if is_lively(console):
        show_live(played, console, _FAST if fast else _SECONDS)
        console.print()
    else:
        show_lines(played, console)
    show_summary(played, console)
    write_report(played, report)
    where = Text.assemble("\nThe report, with plots and every decision: ", (report.resolve().as_uri(), "bold"))
    console.print(where, soft_wrap=True)
    console.print(Text("Any other day: nodefleet simulate --list", "bright_black"))
    if not played.holds:
        raise typer.Exit(Status.FAILED)
