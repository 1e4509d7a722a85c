"""How good decisions are on recorded load: the adaptive strategy, the classic rules and models of other autoscalers.

    make bench-decisions TRACES=DIR
    .venv/bin/python benchmarks/decisions.py DIR --max 40 --join 90

DIR holds CSV files `timestamp,value`. Each is scaled so that its 99.5th percentile is 56 % of the largest fleet; its
first seven days (or half) are only learned from. A violation is a minute with more than 85 % utilisation; minutes that
even the largest fleet could not carry are shown apart. Traces shorter than two days are shown, but not in the mean.
"""

import argparse
import math
import time
from pathlib import Path

from nodefleet_tools.backtest.play import Conditions, Run
from nodefleet_tools.backtest.suite import ADAPTIVE, BUDGET, PEERS, SHORTEST, cost_at, jobs_for, mean, run_all
from nodefleet_tools.backtest.traces import load_directory

OPTIONS = ("adaptive, no requeue", "adaptive, headroom 1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--min", type=int, default=2)
    parser.add_argument("--max", type=int, default=10)
    parser.add_argument("--join", type=int, default=180, help="seconds until a launched node serves")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="policies, by their names in the table")
    asked = parser.parse_args()
    conditions = Conditions(least=asked.min, most=asked.max, join=math.ceil(asked.join / 60))
    started = time.monotonic()
    traces = load_directory(asked.traces, most=asked.max, seed=asked.seed)
    for trace in traces:
        for begin, end in trace.gaps:
            print(f"{trace.name}: no data from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}, skipped")
    counted = {trace.name for trace in traces if trace.minutes >= SHORTEST}
    policies = asked.only or [*PEERS, *ADAPTIVE, *OPTIONS]
    runs: list[Run] = []
    for run in run_all(jobs_for(traces, conditions, policies), asked.processes):
        runs.append(run)
        if run.policy == "adaptive balanced":
            print(_line(run), flush=True)
    print(f"\n{'policy':26} violations %  unavoidable %  × optimum  actions/day  undone %   ({len(counted)} traces)")
    means = [
        mean(policy, [run for run in runs if run.policy == policy and run.trace in counted]) for policy in policies
    ]
    for each in means:
        print(
            f"{each.policy:26} {each.violation_pct:12.2f}  {each.unavoidable_pct:13.2f}  {each.vs_optimum:9.3f}  "
            f"{each.actions_per_day:11.1f}  {each.undone_pct:8.0f}"
        )
    at_budget = cost_at(BUDGET, [each for each in means if each.policy in ADAPTIVE])
    if at_budget is not None:
        print(f"\nadaptive at {BUDGET} % violations: {at_budget:.3f} × optimum (between its prices)")
    print(f"{time.monotonic() - started:.0f} s")


def _line(run: Run) -> str:
    return (
        f"{run.trace:32} {run.violation_pct:6.2f} %  {run.vs_optimum:.3f} × optimum  "
        f"{run.actions_per_day:5.1f} actions/day  longest {run.longest_violation_min} min"
    )


if __name__ == "__main__":
    main()
