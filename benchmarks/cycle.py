"""A whole run through the shipped adapters, against stand-ins on loopback: its calls, its time, its memory.

    .venv/bin/python benchmarks/cycle.py [--nodes 10 100 1000] [--repeat 5] [--quick]

quiet       nothing is to be done, as in almost every run
scale-up    every node is full and 5 % more pods wait: EC2 is asked for nodes, and the look is archived

The calls of warm runs are counted at each size; at the largest the share of each step is measured. The stand-ins run
in a process of their own, so their CPU time is not counted; how long they let us wait is in `world/server.py`.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from functions import function, surroundings
from step_clock import NAMES
from tables import Row, machine, progress, table
from world.scene import PODS_PER_NODE

CASES: Mapping[str, tuple[str, ...]] = {"quiet": (), "scale-up": ("--waiting", "5")}
PARTS = ("Kubernetes", "EC2", "DynamoDB", "S3", "Prometheus", "Secrets Manager")
_LEAN = "quiet, lean"
Runs = Sequence[Mapping[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description="The calls, the time and the memory of a run.")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeat", type=int, default=7, help="warm runs of each case")
    parser.add_argument("--quick", action="store_true", help="10 nodes, two runs, to see that it runs")
    options = parser.parse_args()
    sizes = [10] if options.quick else sorted(options.nodes)
    repeat = 2 if options.quick else options.repeat
    print(machine())
    found = {(case, nodes): _runs(case, nodes, 2, *CASES[case]) for case in CASES for nodes in sizes[:-1]}
    largest = {case: _runs(case, sizes[-1], repeat + 1, *flags) for case, flags in CASES.items()}
    largest[_LEAN] = _runs(_LEAN, sizes[-1], repeat + 1, "--lean")
    found |= {(case, sizes[-1]): largest[case] for case in CASES}
    table(
        "Requests of one warm run; `first`: all of the first run of a cold function",
        ("run", "nodes", *PARTS, "all", "first"),
        (_calls(case, nodes, runs) for (case, nodes), runs in sorted(found.items())),
    )
    pages = {nodes: _pages(runs) for (case, nodes), runs in found.items() if case == "scale-up"}
    table("Requests of more than one page, scale-up", ("nodes", "pages"), sorted(pages.items()))
    table(
        f"Steps of a warm run, {sizes[-1]:,} nodes and {sizes[-1] * PODS_PER_NODE:,} pods: CPU ms, share, wall ms",
        ("step", *(f"{case} {what}" for case in largest for what in ("CPU", "%", "wall"))),
        _steps({case: runs[1:] for case, runs in largest.items()}),
    )
    table(
        "Peak memory in MiB, and what was decided",
        ("run", "peak MiB", "decided"),
        ((case, runs[-1]["peak"], runs[-1]["decided"][0]) for case, runs in largest.items()),
    )


def _runs(case: str, nodes: int, runs: int, *flags: str) -> Runs:
    progress(f"{case}, {nodes:,} nodes: {runs} runs")
    with surroundings("--nodes", str(nodes), *flags) as around:
        found: Runs = function("reconcile", around, runs=runs, anew=True, steps=True)["runs"]
    return found


def _calls(case: str, nodes: int, runs: Runs) -> Row:
    warm = _by_part(runs[-1])
    return (case, nodes, *(warm[part] for part in PARTS), warm.total(), _by_part(runs[0]).total())


def _by_part(run: Mapping[str, Any]) -> Counter[str]:
    calls: Counter[str] = Counter()
    for what, count in run["calls"].items():
        calls[next(part for part in PARTS if what.startswith(part))] += count
    return calls


def _pages(runs: Runs) -> str:
    several = {what: count for what, count in runs[-1]["calls"].items() if count > 1 and _is_list(what)}
    return ", ".join(f"{what} {count}" for what, count in sorted(several.items())) or "none"


def _is_list(what: str) -> bool:
    return what.startswith("Kubernetes list") or what == "EC2 DescribeInstances"


def _steps(cases: Mapping[str, Runs]) -> Iterator[Row]:
    whole = {case: median(run["cpu"] for run in runs) for case, runs in cases.items()}
    for name in NAMES:
        row: list[str | float] = [name]
        for case, runs in cases.items():
            cpu, wall = (median(_taken(run, name, kind) for run in runs) for kind in ("cpu", "wall"))
            row += [1000 * cpu, 100 * cpu / whole[case], 1000 * wall] if wall else ["", "", ""]
        if any(row[1:]):
            yield row
    rest: list[str | float] = ["the rest"]
    run_whole: list[str | float] = ["the run"]
    for case, runs in cases.items():
        left = median(run["cpu"] - sum(_taken(run, name, "cpu") for name in NAMES) for run in runs)
        rest += [1000 * left, 100 * left / whole[case], ""]
        run_whole += [1000 * whole[case], 100, 1000 * median(run["wall"] for run in runs)]
    yield rest
    yield run_whole


def _taken(run: Mapping[str, Any], name: str, kind: str) -> float:
    return float(run["steps"].get(name, {}).get(kind, 0.0))


if __name__ == "__main__":
    main()
