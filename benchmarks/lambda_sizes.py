"""How long runs take at the CPU share that Lambda gives at each memory size, whether they fit, and what they cost.

    .venv/bin/python benchmarks/lambda_sizes.py [--memory 256 512 1024 1769] [--nodes 10 1000] [--repeat 3] [--quick]

Lambda is billed by memory × time, and more memory is also more CPU: a run that computes costs about the same at every
size and is over sooner at a bigger one; a run that waits only costs more there. How CPU is limited here, see
`cpu_share.py`. Memory is not limited but measured.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from cpu_share import FULL, Share, means
from functions import Started, Surroundings, cold, function, surroundings
from shipped import without_bytecode
from tables import Row, machine, middle, progress, table

# List prices of x86 in us-east-1, May 2026, without the free tier (400,000 GB-seconds a month).
GB_SECOND_USD = 0.0000166667
MILLION_REQUESTS_USD = 0.20
MB_PER_GB = 1024
RUNS_A_MONTH = 30 * 24 * 30  # every two minutes
COLD_STARTS_A_MONTH = 30 * 12  # an assumption: a new instance every other hour
BURST_SECONDS_AN_HOUR = 30 * 110  # of each tick of 120 s, while pods wait


@dataclass(slots=True)
class Situation:
    """One way to be called, measured at some sizes."""

    name: str
    handler: str
    flags: tuple[str, ...] = ()
    first: bool = False  # of a function that was not there yet; otherwise of one that is warm
    bare: bool = False  # without bytecode
    walls: dict[int, float] = field(default_factory=dict)  # seconds by memory size
    cpu: dict[int, float] = field(default_factory=dict)
    peak: float = 0.0  # MiB
    decided: set[str] = field(default_factory=set)


def situations() -> list[Situation]:
    return [
        Situation("first run", "reconcile", first=True),
        Situation("first run, no bytecode", "reconcile", first=True, bare=True),
        Situation("quiet run", "reconcile"),
        Situation("scale-up run", "reconcile", ("--waiting", "5")),
        Situation("Spot warning, first", "interruption", first=True),
        Situation("Spot warning, first, no bytecode", "interruption", first=True, bare=True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs at Lambda's memory sizes.")
    parser.add_argument("--memory", type=int, nargs="+", default=[256, 512, 1024, FULL], help="MB")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gb-second-usd", type=float, default=GB_SECOND_USD)
    parser.add_argument("--million-requests-usd", type=float, default=MILLION_REQUESTS_USD)
    parser.add_argument("--quick", action="store_true", help="512 MB, 10 nodes, once, to see that it runs")
    options = parser.parse_args()
    sizes, repeat = ([512], 1) if options.quick else (options.memory, options.repeat)
    print(machine())
    print(f"CPU limited by: {means()}")
    for nodes in [10] if options.quick else options.nodes:
        found = situations()
        with without_bytecode() as bare:
            for flags in dict.fromkeys(each.flags for each in found):
                with surroundings("--nodes", str(nodes), *flags) as around:
                    for situation, size in product((each for each in found if each.flags == flags), sizes):
                        progress(f"{nodes:,} nodes, {situation.name}, {size} MB")
                        started = replace(bare if situation.bare else Started(), share=Share(size))
                        _measure(situation, size, around, started, repeat)
                        progress(f"    {situation.walls[size]:.1f} s, of CPU {situation.cpu[size]:.1f} s")
        table(
            f"{nodes:,} nodes: seconds that a run takes, by memory in MB (and its share of a CPU)",
            ("run", *(f"{size} ({size / FULL:.0%})" for size in sizes), "CPU s", "peak MiB", "decided"),
            map(_row, found),
        )
        table(
            f"{nodes:,} nodes: USD",
            ("MB", "quiet month", "an hour of bursts", "a quiet run, GB-seconds"),
            _costs({each.name: each for each in found}, sizes, options.gb_second_usd, options.million_requests_usd),
        )


def _measure(situation: Situation, size: int, around: Surroundings, started: Started, repeat: int) -> None:
    if situation.first:
        found = [function(situation.handler, around, runs=1, started=started) for _ in range(repeat)]
        runs = [{"wall": cold(each, "wall"), "cpu": cold(each, "cpu")} for each in found]
        told = [run for each in found for run in each["runs"]]
    else:
        found = [function(situation.handler, around, runs=repeat + 1, afresh=True, started=started)]
        runs = told = found[0]["runs"][1:]
    situation.walls[size] = middle(runs, lambda run: run["wall"])
    situation.cpu[size] = middle(runs, lambda run: run["cpu"])
    situation.peak = max(situation.peak, *(each["peak"] for each in found))
    situation.decided |= {f"{size}: {what}" for run in told for what in run["decided"]}


def _row(situation: Situation) -> Row:
    said = {what.partition(": ")[2] for what in situation.decided}
    decided = said.pop() if len(said) == 1 else "; ".join(sorted(situation.decided))
    cpu = min(situation.cpu.values())
    return (situation.name, *situation.walls.values(), cpu, situation.peak, decided)


def _costs(
    found: Mapping[str, Situation], sizes: Sequence[int], gb_second: float, million_requests: float
) -> Iterator[Row]:
    quiet, first = found["quiet run"].walls, found["first run"].walls
    for size in sizes:
        gigabytes = size / MB_PER_GB
        seconds = RUNS_A_MONTH * quiet[size] + COLD_STARTS_A_MONTH * (first[size] - quiet[size])
        month = seconds * gigabytes * gb_second + RUNS_A_MONTH * million_requests / 1_000_000
        burst = BURST_SECONDS_AN_HOUR * gigabytes * gb_second
        yield (size, f"{month:.2f}", f"{burst:.3f}", quiet[size] * gigabytes)


if __name__ == "__main__":
    main()
