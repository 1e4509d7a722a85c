"""How good decisions are on recorded load: the adaptive strategy, the classic rules and models of other autoscalers.

    make bench-decisions TRACES=DIR
    .venv/bin/python benchmarks/decisions.py DIR --parts "max 40" --only "adaptive balanced"

DIR holds CSV files `timestamp,value`. Each is scaled so that its 99.5th percentile is 56 % of the largest fleet; its
first seven days (or half) are only learned from. A violation is a minute with more than 85 % utilisation; minutes that
even the largest fleet could not carry are shown apart. Traces shorter than two days are shown, but not in the mean.

All parts together take between 20 minutes and an hour of CPU for 570 days of traces, by the machine. Each result is
kept in `build/decisions.json` as it comes, under a digest of the code and of the trace, so a run that was stopped goes
on where it was.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodefleet_tools.backtest.play import Conditions, Run
from nodefleet_tools.backtest.suite import (
    ADAPTIVE,
    BUDGET,
    PEERS,
    SHORTEST,
    Job,
    cost_at,
    fingerprint,
    jobs_for,
    mean,
    run_all,
)
from nodefleet_tools.backtest.traces import load_directory

KEPT = Path("build/decisions.json")
OPTIONS = ("adaptive, no requeue", "adaptive, headroom 1")
FIGURES = ("minutes", "violation_minutes", "unavoidable_minutes", "longest_violation_min", "node_minutes")
FIGURES += ("scale_ups", "scale_downs", "undone", "optimum_node_minutes")


@dataclass(frozen=True, slots=True)
class Part:
    """One table: the conditions and the policies that are played under them."""

    name: str
    conditions: Conditions
    policies: tuple[str, ...]


PARTS = (
    Part("max 10", Conditions(), (*PEERS, *ADAPTIVE, *OPTIONS)),
    Part("max 40", Conditions(most=40), ADAPTIVE),
    Part("join 90 s", Conditions(join=2), ("adaptive balanced",)),
)
GOALS = {"max 10": "≤ 0.33 %, ≤ 1.14 ×, ≤ 28", "max 40": "the same", "join 90 s": "the same"}
GOAL_AT_BUDGET = 1.20  # × optimum


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--parts", nargs="*", default=[part.name for part in PARTS], help="tables, by their names")
    parser.add_argument("--only", nargs="*", help="policies, by their names in the table")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    goals = []
    for part in PARTS:
        if part.name in asked.parts:
            policies = [policy for policy in part.policies if not asked.only or policy in asked.only]
            goals += _play(part, policies, asked.traces, asked.seed, asked.processes)
    print("\n" + "\n".join(["goals", *goals]))


def _play(part: Part, policies: Sequence[str], directory: Path, seed: int, processes: int) -> list[str]:
    """Print one table, and return its lines among the goals."""
    traces = load_directory(directory, most=part.conditions.most, seed=seed)
    for trace in traces:
        for begin, end in trace.gaps:
            print(f"{trace.name}: no data from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}, skipped")
    counted = {trace.name for trace in traces if trace.minutes >= SHORTEST}
    started, runs = time.monotonic(), []
    jobs = jobs_for(traces, part.conditions, policies)
    for run in _each(jobs, processes):
        runs.append(run)
        passed = time.monotonic() - started
        print(f"{part.name}: {len(runs)} of {len(jobs)}, {passed:.0f} s  {run.policy:26} {_figures(run)}", flush=True)
    print(f"\n{part.name:26} violations %  unavoidable %  × optimum  actions/day  undone %   ({len(counted)} traces)")
    means = [
        mean(policy, [run for run in runs if run.policy == policy and run.trace in counted]) for policy in policies
    ]
    for each in means:
        print(
            f"{each.policy:26} {each.violation_pct:12.3f}  {each.unavoidable_pct:13.2f}  {each.vs_optimum:9.3f}  "
            f"{each.actions_per_day:11.1f}  {each.undone_pct:8.0f}"
        )
    goals = [
        f"{part.name:26} {each.violation_pct:.3f} %, {each.vs_optimum:.3f} ×, {each.actions_per_day:.1f} actions a day "
        f"({GOALS[part.name]})"
        for each in means
        if each.policy == "adaptive balanced"
    ]
    at_budget = cost_at(BUDGET, [each for each in means if each.policy in ADAPTIVE])
    if at_budget is not None:
        goals.append(
            f"{part.name}, at {BUDGET} % violations  {at_budget:.3f} × between its prices (≤ {GOAL_AT_BUDGET} ×)"
        )
    return goals


def _each(jobs: Sequence[Job], processes: int) -> Iterator[Run]:
    """The results, those that are kept first."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    keys = {(job.policy, job.trace.name): fingerprint(job) for job in jobs}
    for (policy, trace), key in keys.items():
        if key in kept:
            yield Run(policy=policy, trace=trace, **kept[key])
    for run in run_all([job for job in jobs if keys[job.policy, job.trace.name] not in kept], processes):
        kept[keys[run.policy, run.trace]] = {name: getattr(run, name) for name in FIGURES}
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(kept))
        yield run


def _figures(run: Run) -> str:
    return (
        f"{run.trace:32} {run.violation_pct:6.2f} %  {run.vs_optimum:.3f} × optimum  "
        f"{run.actions_per_day:5.1f} actions/day  longest {run.longest_violation_min} min"
    )


if __name__ == "__main__":
    main()
