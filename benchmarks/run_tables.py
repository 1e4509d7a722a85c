"""What runs asked for and what their steps took, as rows."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from step_clock import NAMES
from tables import Row

Runs: TypeAlias = Sequence[Mapping[str, Any]]

PARTS = ("Kubernetes", "EC2", "DynamoDB", "S3", "Prometheus", "Secrets Manager")


def by_part(run: Mapping[str, Any]) -> Counter[str]:
    calls: Counter[str] = Counter()
    for what, count in run["calls"].items():
        calls[next(part for part in PARTS if what.startswith(part))] += count
    return calls


def steps(cases: Mapping[str, Runs]) -> Iterator[Row]:
    """For each step and case: CPU ms, its share of the run in percent, wall ms."""
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
