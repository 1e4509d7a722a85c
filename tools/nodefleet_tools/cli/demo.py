"""`nodefleet demo`: a shop's day in about a minute, played by the shipped loop in a simulated world."""

from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from nodefleet.model.decision import BoundSource
from nodefleet_tools.cli.dashboard import demo_source, has_browser, serve
from nodefleet_tools.cli.operators import someone
from nodefleet_tools.cli.outcome import Status, print_json
from nodefleet_tools.cli.playing import is_lively, played_with_progress, write_report
from nodefleet_tools.cli.show_played import as_plain, show_lines, show_live, show_sentences, show_summary
from nodefleet_tools.sim.scenarios.reading import Read, find, read

SCENARIO = "shop-day"
_SECONDS, _FAST = 50.0, 10.0  # that the day is shown for


def play_demo(
    *, adaptive: bool, fast: bool, report: Path, seed: int | None, page: bool | None, verbose: bool, as_json: bool
) -> None:
    """See a shop's day in about a minute, in a simulated world."""
    console = Console(highlight=False)
    chosen = read_day(adaptive=adaptive)
    if not as_json and (has_browser() if page is None else page):
        serve(demo_source(chosen), browser=True, by=someone())
        return
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
    if not adaptive:
        console.print(Text("The same day with strategy: adaptive: nodefleet demo --adaptive", "bright_black"))
    if not played.holds:
        raise typer.Exit(Status.FAILED)


def read_day(*, adaptive: bool) -> Read:
    """The day, with the policy of its file or with `strategy: adaptive`. The same outcome is expected of both; at which
    minute the classic layers act, and how many nodes there are then, is expected of these only."""
    chosen = read(find(SCENARIO))
    if not adaptive:
        return chosen
    day = chosen.scenario
    moments = tuple(each for each in day.expect.moments if each.by != BoundSource.PREDICTIVE)
    policy = {**day.policy, "strategy": "adaptive"}
    return replace(
        chosen, scenario=replace(day, policy=policy, expect=replace(day.expect, moments=moments, nodes_at={}))
    )
