"""A whole run through the shipped adapters, against stand-ins on loopback: its calls, its time, its memory.

    .venv/bin/python benchmarks/cycle.py [--nodes 10 100 1000] [--repeat 5] [--quick]

quiet       nothing is to be done, as in almost every run
scale-up    every node is full and 5 % more pods wait: EC2 is asked for nodes, and the observation is archived

The calls of warm runs are counted at each size; at the largest the share of each step is measured. The stand-ins run
in a process of their own, so their CPU time is not counted; how long they let us wait is in `world/server.py`.
"""

import argparse
from collections.abc import Mapping

from functions import function, surroundings
from run_tables import PARTS, Runs, by_part, steps
from tables import Row, machine, progress, table
from world.scene import PODS_PER_NODE

CASES: Mapping[str, tuple[str, ...]] = {"quiet": (), "scale-up": ("--waiting", "5")}
_LEAN = "quiet, lean"


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
        steps({case: runs[1:] for case, runs in largest.items()}),
    )
    table(
        "Peak memory in MiB, and what was decided",
        ("run", "peak MiB", "decided"),
        ((case, runs[-1]["peak"], runs[-1]["decided"][0]) for case, runs in largest.items()),
    )


def _runs(case: str, nodes: int, runs: int, *flags: str) -> Runs:
    progress(f"{case}, {nodes:,} nodes: {runs} runs")
    with surroundings("--nodes", str(nodes), *flags) as around:
        found: Runs = function("reconcile", around, runs=runs, afresh=True, steps=True)["runs"]
    return found


def _calls(case: str, nodes: int, runs: Runs) -> Row:
    warm = by_part(runs[-1])
    return (case, nodes, *(warm[part] for part in PARTS), warm.total(), by_part(runs[0]).total())


def _pages(runs: Runs) -> str:
    several = {what: count for what, count in runs[-1]["calls"].items() if count > 1 and _is_list(what)}
    return ", ".join(f"{what} {count}" for what, count in sorted(several.items())) or "none"


def _is_list(what: str) -> bool:
    return what.startswith("Kubernetes list") or what == "EC2 DescribeInstances"


if __name__ == "__main__":
    main()
