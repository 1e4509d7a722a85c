"""`nodefleet simulate`: any day of a cluster, played by the shipped loop in a simulated world, with its checks."""

import json
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.model.serialization import ValidationError
from nodefleet_tools.cli.outcome import Status, fail, fail_with_issues, print_json
from nodefleet_tools.cli.playing import played_with_progress, write_report
from nodefleet_tools.cli.policy_file import UnreadableError, parsed, policy_or_exit, text_of
from nodefleet_tools.cli.show_played import as_plain, show_comparison, show_marks, show_summary
from nodefleet_tools.sim.scenario_result import ScenarioResult
from nodefleet_tools.sim.scenarios.reading import Read, find, read, shipped
from nodefleet_tools.sim.scenarios.tracing import with_trace
from nodefleet_tools.sim.traces import UnreadableTraceError, read_trace

FAILED = Status.FAILED  # an expectation does not hold


def play_day(
    *,
    scenario: str,
    policy: Path | None,
    against: Path | None,
    trace: Path | None,
    seed: int | None,
    as_json: bool,
    report: Path | None,
    list_: bool,
) -> None:
    """Play any day of a cluster in a simulated world."""
    console = Console(highlight=False)
    if list_:
        _list(console, as_json=as_json)
        return
    chosen = _read_or_exit(scenario, policy, trace)
    if seed is not None:
        chosen = replace(chosen, scenario=replace(chosen.scenario, seed=seed))
    played = played_with_progress(chosen.scenario, chosen.traces)
    other = _other(chosen, against) if against is not None else None
    if report is not None:
        files = {"--policy": policy, "--against": against, "--trace": trace}
        given = [word for name, file in files.items() if file is not None for word in (name, str(file))]
        write_report(played, report, other, ("--scenario", scenario, *given))
    if as_json:
        plain = as_plain(played) | ({"against": as_plain(other)} if other else {})
        print(json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        show_marks(played, console)
        show_summary(played, console)
        if other is not None:
            show_comparison(played, other, console)
        if trace is not None:
            console.print(Text("\nWhat the scenario expects was not checked: it is about the scenario's own load."))
        if report is not None:
            console.print(Text(f"\nReport: {report}"), soft_wrap=True)
    if not played.holds:
        raise typer.Exit(FAILED)


def _other(chosen: Read, policy: Path) -> ScenarioResult:
    """The same day, load and seed with another policy; fixed fleets were played already."""
    rules = _with_policy(chosen, policy).scenario
    return played_with_progress(replace(rules, compare=()), chosen.traces)


def _with_policy(found: Read, policy: Path) -> Read:
    policy_or_exit(policy)
    data = parsed(text_of(policy), is_json=policy.suffix == ".json").data
    return replace(found, scenario=replace(found.scenario, policy=data or {}))


def _read_or_exit(name: str, policy: Path | None, trace: Path | None) -> Read:
    try:
        found = read(find(name))
    except UnreadableError as error:
        fail(f"{name}: {error}")
    except ValidationError as error:
        fail_with_issues(name, error.problems)
    if policy is not None:
        found = _with_policy(found, policy)
    if trace is not None:
        if not found.scenario.services:
            fail(f"{name}: has no service whose load the trace could take the place of")
        try:
            found = with_trace(found, str(trace), read_trace(trace))
        except UnreadableTraceError as error:
            fail(f"{trace}: {error}")
    return found


def _list(console: Console, *, as_json: bool) -> None:
    known = {name: " ".join(read(path).scenario.about.split()) for name, path in shipped().items()}
    if as_json:
        print_json([{"scenario": name, "about": about} for name, about in known.items()])
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    for name, about in known.items():
        table.add_row(name, Text(about))
    console.print(table)
