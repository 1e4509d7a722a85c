"""What a cold start needs: importing each handler, making its clients, and its first call.

    .venv/bin/python benchmarks/imports.py [--repeat 5] [--quick]

Each figure is the median of several fresh interpreters. The first call goes to stand-ins on loopback, with a cluster of
ten nodes. Lambda unpacks what is deployed to a place where nothing can be written, so a package without bytecode is
compiled at every cold start: that is measured too.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from functions import Started, Surroundings, cold, function, surroundings
from shipped import without_bytecode
from tables import Row, machine, middle, progress, table

HANDLERS = ("reconcile", "interruption", "notify", "report")
_TOLD = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)
_COSTLIEST = 15


def main() -> None:
    parser = argparse.ArgumentParser(description="What a cold start needs.")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="once each, to see that it runs")
    options = parser.parse_args()
    repeat = 1 if options.quick else options.repeat
    print(machine())
    with surroundings("--nodes", "10") as around, without_bytecode() as bare:
        rows = [_row(handler, _measured(handler, around, repeat)) for handler in HANDLERS]
        rows += [_row(f"{handler}, no bytecode", _measured(handler, around, repeat, bare)) for handler in HANDLERS]
        packages = _packages([_told(around) for _ in range(repeat)])
    table(
        "Cold starts, 10 nodes: CPU time in ms, memory in MiB",
        ("handler", "import", "MiB", "first call", "cold start", "peak MiB", "wall s", "calls"),
        rows,
    )
    table(
        "Where importing for a first `reconcile` goes, by package",
        ("package", "ms", "modules"),
        packages,
    )


def _measured(
    handler: str,
    around: Surroundings,
    repeat: int,
    started: Started = Started(),  # noqa: B008  # frozen
) -> list[dict[str, Any]]:
    progress(f"{handler}: {repeat} cold starts{' without bytecode' if started.paths else ''}")
    return [function(handler, around, runs=1, started=started) for _ in range(repeat)]


def _row(name: str, found: Sequence[Mapping[str, Any]]) -> Row:
    return (
        name,
        1000 * middle(found, lambda each: each["imported"]["cpu"]),
        middle(found, lambda each: each["imported"]["now"]),
        1000 * middle(found, lambda each: each["runs"][0]["cpu"]),
        1000 * middle(found, lambda each: cold(each, "cpu")),
        middle(found, lambda each: each["peak"]),
        middle(found, lambda each: cold(each, "wall")),
        sum(found[0]["runs"][0]["calls"].values()),
    )


def _told(around: Surroundings) -> Counter[str]:
    """Microseconds by package, as the interpreter tells them."""
    figures = function("reconcile", around, runs=1, started=Started(flags=("-X", "importtime")))
    spent: Counter[str] = Counter()
    for microseconds, module in _TOLD.findall(figures["complaints"]):
        package = module.partition(".")[0]
        spent[package] += int(microseconds)
        spent[f"{package} modules"] += 1
    return spent


def _packages(told: Sequence[Counter[str]]) -> Iterator[Row]:
    names = [name for name in told[0] if not name.endswith(" modules")]
    spent = {name: median(each[name] for each in told) / 1000 for name in names}
    costliest = sorted(names, key=lambda name: -spent[name])[:_COSTLIEST]
    yield from ((name, spent[name], told[0][f"{name} modules"]) for name in costliest)
    others = [name for name in names if name not in costliest]
    yield ("all others", sum(spent[name] for name in others), sum(told[0][f"{name} modules"] for name in others))


if __name__ == "__main__":
    main()
