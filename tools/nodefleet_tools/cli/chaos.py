"""`nodefleet chaos`: the shipped loop in worlds where everything fails, by the thousand."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from nodefleet_tools.cli import policy_file
from nodefleet_tools.cli.input_file import read_or_exit
from nodefleet_tools.cli.outcome import Status, is_json, print_json
from nodefleet_tools.cli.playing import is_lively
from nodefleet_tools.cli.policy_file import UnreadableError
from nodefleet_tools.sim.chaos.kept import plan_from, text_of
from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.chaos.play import Verdict, play
from nodefleet_tools.sim.chaos.seeds import verdicts
from nodefleet_tools.sim.chaos.shortening import Shortening, story

FAILED = Status.FAILED  # something happened that must never happen
_TOLD = 3  # seeds that are told of in full; the others are named
_ENOUGH = 20  # seeds that went wrong: there is no use in looking for more
_ENDS = {
    "to and fro": "scaled to and fro for ever",
    "under way": "still shrank or rotated at the end",
    "awaited": "were at rest while something was awaited",
}
_LINES = 20  # of progress where no bar can be drawn


def play_chaos(
    *,
    seeds: int,
    first: int,
    seed: int | None,
    jobs: int,
    plan: Path | None,
    trace: bool,
    save: Path | None,
    about: str,
    as_json: bool,
) -> None:
    """Play hours full of faults and check what must always hold."""
    console = Console(highlight=False, soft_wrap=True, stderr=as_json)
    one = read_or_exit(plan, _read_plan) if plan else None if seed is None else Plan.of(seed)
    if one is not None:
        _play_one(one, console, trace=trace, save=save, about=about)
        return
    tally, wrong = _play_all(range(first, first + seeds), jobs, console)
    if as_json:
        _print_verdicts(tally, wrong)
    for verdict in wrong[:_TOLD]:
        _tell(verdict, console)
    if len(wrong) > _TOLD:
        others = ", ".join(str(verdict.seed) for verdict in wrong[_TOLD:])
        console.print(Text(f"Also wrong: {others}\n", "bold"))
    console.print(Text(_summary(tally)))
    if wrong:
        raise typer.Exit(FAILED)
    console.print(Text("Nothing happened that must never happen.", "bold green"))


def _read_plan(path: Path) -> Plan:
    try:
        return plan_from(policy_file.text_of(path))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableError(f"is no plan that `nodefleet chaos --save` wrote ({error!r})") from error


def _play_one(plan: Plan, console: Console, *, trace: bool, save: Path | None, about: str) -> None:
    verdict = play(plan)
    if is_json():
        _print_verdicts(verdict.figures + Counter(seeds=1), [verdict] if verdict.violations else [])
    if trace:
        for each in verdict.trace:
            console.print(Text(str(each), _style(each.what)))
        console.print()
    least = _tell(verdict, console, plan) if verdict.violations else plan
    if save:
        save.write_text(text_of(least, about), encoding="utf-8")
    if verdict.violations:
        raise typer.Exit(FAILED)
    console.print(Text(_summary(verdict.figures + Counter(seeds=1))))
    console.print(Text(f"Seed {plan.seed}: nothing happened that must never happen.", "bold green"))


def _play_all(seeds: Sequence[int], jobs: int, console: Console) -> tuple[Counter[str], list[Verdict]]:
    tally: Counter[str] = Counter()
    wrong: list[Verdict] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[wrong]}"),
    )
    lively = is_lively(console)
    with Progress(*columns, console=console, transient=True, disable=not lively) as progress:
        task = progress.add_task("seeds", total=len(seeds), wrong="")
        for verdict in verdicts(seeds, jobs):
            tally += verdict.figures + Counter(seeds=1)
            if verdict.first:
                wrong.append(verdict)
                console.print(Text(f"Seed {verdict.seed}: {verdict.first}", "bold red"))
            progress.update(task, advance=1, wrong=f"{len(wrong)} wrong" if wrong else "")
            if not lively and tally["seeds"] % max(1, len(seeds) // _LINES) == 0:
                console.print(Text(f"{tally['seeds']:,} of {len(seeds):,} seeds, {len(wrong)} wrong"))
            if len(wrong) >= _ENOUGH:
                break
    return tally, wrong


def _print_verdicts(tally: Counter[str], wrong: Sequence[Verdict]) -> None:
    """What people read goes to stderr meanwhile."""
    plain = [
        {"seed": each.seed, "violations": [str(found) for found in each.violations] or [each.first]} for each in wrong
    ]
    print_json({"holds": not wrong, "figures": dict(tally), "violations": plain})


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────────


def _tell(evaluation: Verdict, console: Console, plan: Plan | None = None) -> Plan:
    """The violation, the least that it takes, what led to it, and how to see it again."""
    short = Shortening(evaluation, plan)
    found = evaluation.violations[0]
    short.shorten()
    console.print(Text(f"\nSeed {evaluation.seed}: {found.rule.value}", "bold red"))
    console.print(Text(f"{found}\n"))
    console.print(Text(f"It takes no more than {_needs(short.plan)}:\n"))
    for line in story(short.verdict.trace, short.verdict.violations[0]):
        console.print(Text(line, _style(line)))
    console.print(Text(f"\nPlay it again: nodefleet chaos --seed {evaluation.seed} --trace\n", "bold"))
    return short.plan


def _needs(plan: Plan) -> str:
    """What is left of a plan, in words."""
    faults = [
        f"{share:.1%} {each.name.replace('_', ' ')}"
        for part in (plan.rates, plan.delivery)
        for each in fields(part)
        if (share := getattr(part, each.name))
    ]
    said = ["1 incident" if len(plan.incidents) == 1 else f"{len(plan.incidents)} incidents"]
    said += [f"calls and events with {', '.join(faults)}"] if faults else []
    said += [f"clocks that are wrong by {plan.skew:g} s"] if plan.skew else []
    return ", ".join(said)


def _summary(tally: Counter[str]) -> str:
    ends = ((name, tally[name]) for name in ("to and fro", "under way", "awaited"))
    restless = "".join(f" {number} {_ENDS[name]}." for name, number in ends if number)
    return (
        f"{tally['seeds']:,} seeds, {tally['seconds'] / 3600:,.0f} simulated hours: {tally['runs']:,} runs with"
        f" {tally['iterations']:,} iterations and {tally['calls']:,} calls, {tally['faults']:,} faults at calls,"
        f" {tally['incidents']:,} incidents around them.{restless}"
    )


def _style(line: str) -> str:
    if "VIOLATION" in line:
        return "bold red"
    if "incident" in line or ": !" in line or line.startswith("!"):
        return "yellow"
    return "dim" if "lease" in line or "begins" in line else ""
