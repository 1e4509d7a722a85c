"""The figures that must not get worse, as ratios to those of the last recorded release.

    .venv/bin/python benchmarks/ratios.py             # prints them
    .venv/bin/python benchmarks/ratios.py --record    # writes recorded.json: for a release, on a quiet machine

CPU times are the best of several runs: other work on the machine makes them longer, never shorter. They belong to one
machine, so a record of another one only tells the order of magnitude; `machine` in the file says which.
"""

import argparse
import json
from pathlib import Path

from functions import cold, function, surroundings
from tables import machine, progress, table

FILE = Path(__file__).with_name("recorded.json")
_NODES = 1000


def measured(repeat: int) -> dict[str, float]:
    with surroundings("--nodes", "10") as around:
        progress(f"{repeat} cold starts on 10 nodes")
        first = [function("reconcile", around, runs=1) for _ in range(repeat)]
    figures = {
        "cold start, 10 nodes: CPU ms": 1000 * min(cold(each, "cpu") for each in first),
        "cold start, 10 nodes: peak MiB": min(each["peak"] for each in first),
    }
    for name, flags in (("quiet", ()), ("scale-up", ("--waiting", "5"))):
        progress(f"{repeat} warm {name} runs on {_NODES:,} nodes")
        with surroundings("--nodes", str(_NODES), *flags) as around:
            found = function("reconcile", around, runs=repeat + 1, afresh=True, steps=True)
        runs = found["runs"][1:]
        best = min(runs, key=lambda run: run["cpu"])
        figures |= {
            f"{name}, {_NODES:,} nodes: CPU ms": 1000 * best["cpu"],
            f"{name}, {_NODES:,} nodes: peak MiB": found["peak"],
            f"{name}, {_NODES:,} nodes: MB from the API server": sum(best["read"].values()) / 1e6,
            f"{name}, {_NODES:,} nodes: encoding, % of CPU": 100
            * best["steps"].get("encode", {}).get("cpu", 0)
            / best["cpu"],
        }
    return {name: round(value, 1) for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures as ratios to the last recorded release.")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    now = measured(options.repeat)
    if options.record:
        FILE.write_text(json.dumps({"machine": machine(), "figures": now}, indent=2) + "\n")
    record = json.loads(FILE.read_text())
    before: dict[str, float] = record["figures"]
    print(machine())
    print(f"recorded on: {record['machine']}")
    table(
        "Now, and as a ratio to the record (below 1 is better)",
        ("figure", "now", "recorded", "ratio"),
        [
            (name, value, before.get(name, ""), f"{value / before[name]:.2f}" if before.get(name) else "new")
            for name, value in now.items()
        ],
    )


if __name__ == "__main__":
    main()
