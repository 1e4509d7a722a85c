"""`nodefleet demo`: a shop's day in about a minute, played by the shipped loop in a simulated world."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from nodefleet_tools.cli.dashboard import demo_source, has_browser, serve
from nodefleet_tools.cli.operators import someone
from nodefleet_tools.cli.outcome import JsonOption, Status, print_json
from nodefleet_tools.cli.playing import is_lively, played_with_progress, write_report
from nodefleet_tools.cli.show_played import as_plain, show_lines, show_live, show_sentences, show_summary
from nodefleet_tools.sim.scenarios.reading import find, read

SCENARIO = "shop-day"
_SECONDS, _FAST = 50.0, 10.0  # that the day is shown for


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Show the day in ten seconds.")] = False,
    report: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("build/node-fleet-demo.html"),
    seed: Annotated[int | None, typer.Option(help="Another seed: other noise, other boot times.")] = None,
    page: Annotated[
        bool | None,
        typer.Option("--page/--terminal", help="The live page, or the terminal; else as there is a browser."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All figures, and every check.")] = False,
    as_json: JsonOption = False,
) -> None:
    """See a shop's day in about a minute, in a simulated world.

    A quiet night, a morning ramp, a Spot interruption, a drain that a budget blocks, a flash sale, and what it cost.
    """
    console = Console(highlight=False)
    if not as_json and (has_browser() if page is None else page):
        serve(demo_source(SCENARIO), browser=True, by=someone())
        return
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
    if verbose or not played.holds:
        show_summary(played, console)
    else:
        show_sentences(played, console)
    write_report(played, report)
    where = Text.assemble("\nThe report, with plots and every decision: ", (report.resolve().as_uri(), "bold"))
    console.print(where, soft_wrap=True)
    console.print(
        Text("Live on a page: nodefleet dashboard --demo. Any other day: nodefleet simulate --list", "bright_black")
    )
    if not played.holds:
        raise typer.Exit(Status.FAILED)
