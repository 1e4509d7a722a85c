"""A run on 5,000 nodes and 100,000 pods, over stand-ins: its time, its memory, and whether both are allowed.

    .venv/bin/python benchmarks/large_cluster.py [--nodes 5000] [--per-node 20] [--memory 1024] [--repeat 2]

quiet       nothing is to be done, as in almost every run
scale-up    every node is full and 1 % more pods wait: EC2 is asked for nodes, and the decision's input is archived

The function is the shipped handler in a process of its own, with the CPU share that Lambda gives at `--memory`. The
stand-ins of `world/` answer over HTTP and TLS from another process; a real control plane of this size does not fit
beside it on one machine (`real_cluster.py` has one of 1,000 nodes). Ends with 1 if a limit is exceeded.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from cpu_share import FULL, Share, means
from functions import Started, cold, function, surroundings
from limits import Limit, rows, verdict
from run_tables import by_part, steps
from tables import Row, machine, middle, progress, table

CASES: Mapping[str, tuple[str, ...]] = {"quiet": (), "scale-up": ("--waiting", "1")}
_MEANT = {"quiet": "normal: hold", "scale-up": "normal: grow"}
_SECONDS = 60.0  # half of the function's timeout, and of the schedule's interval
_MB = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description="A run on a cluster that is larger than any we could start.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--per-node", type=int, default=20, help="pods on each node")
    parser.add_argument("--memory", type=int, default=1024, help="MB that the function may use")
    parser.add_argument("--repeat", type=int, default=2, help="warm runs of each case")
    options = parser.parse_args()
    print(machine())
    print(f"CPU limited to {options.memory / FULL:.0%} of one by: {means()}")
    print(f"{options.nodes:,} nodes and {options.nodes * options.per_node:,} pods")
    found = {case: _measured(case, options) for case in CASES}
    table(
        "Runs: wall and CPU in s, memory in MiB; a first one with its cold start, warm ones as the median",
        ("run", "wall, first", "CPU, first", "wall, warm", "CPU, warm", "peak", "requests", "MB read", "decided"),
        (_figures(case, each) for case, each in found.items()),
    )
    table(
        "Steps of a warm run: CPU ms, share, wall ms",
        ("step", *(f"{case} {what}" for case in found for what in ("CPU", "%", "wall"))),
        steps({case: each["runs"][1:] for case, each in found.items()}),
    )
    kept = [limit for case, each in found.items() for limit in _limits(case, each, options.memory)]
    table("Limits", ("limit", "unit", "taken", "allowed", "% of it", "kept", "because"), rows(kept))
    fine, sentence = verdict(kept)
    print(f"\n{sentence}")
    return 0 if fine else 1


def _measured(case: str, options: argparse.Namespace) -> dict[str, Any]:
    scene = ("--nodes", str(options.nodes), "--per-node", str(options.per_node), *CASES[case])
    progress(f"{case}: making the stand-ins")
    with surroundings(*scene) as around:
        progress(f"{case}: a first run and {options.repeat} warm ones at {options.memory} MB")
        started = Started(share=Share(options.memory))
        found = function("reconcile", around, runs=options.repeat + 1, afresh=True, steps=True, started=started)
    for run in found["runs"]:
        if not (run["decided"] and run["decided"][0].startswith(_MEANT[case])):
            raise SystemExit(f"{case} is not what was measured. It was decided: {run['decided']}")
    return found


def _figures(case: str, found: Mapping[str, Any]) -> Row:
    warm = found["runs"][1:]
    return (
        case,
        cold(found, "wall"),
        cold(found, "cpu"),
        middle(warm, lambda run: run["wall"]),
        middle(warm, lambda run: run["cpu"]),
        found["peak"],
        by_part(warm[-1]).total(),
        sum(warm[-1]["read"].values()) / _MB,
        warm[-1]["decided"][0],
    )


def _limits(case: str, found: Mapping[str, Any], memory: int) -> Iterator[Limit]:
    killed, half = "more, and Lambda kills it", "half of the function's timeout and of the schedule's interval"
    slowest = max(run["wall"] for run in found["runs"][1:])
    yield Limit(what=f"{case}, peak memory", unit="MiB", taken=found["peak"], allowed=memory, because=killed)
    yield Limit(what=f"{case}, first run", unit="s", taken=cold(found, "wall"), allowed=_SECONDS, because=half)
    yield Limit(what=f"{case}, slowest warm run", unit="s", taken=slowest, allowed=_SECONDS, because=half)


if __name__ == "__main__":
    sys.exit(main())
