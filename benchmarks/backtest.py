"""How much CPU time `nodefleet backtest` takes for 30 days of load and all its policies, against its budget.

    .venv/bin/python benchmarks/backtest.py

The load is made up: a rhythm of days and weeks, bursts, and the noise of single minutes. CPU time is counted instead of
wall time, so that the figure does not depend on what else the machine does: 60 s on two cores are 120 s of it.
"""

import sys
from datetime import UTC, datetime
from math import pi, sin
from random import Random
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from nodefleet_tools.backtest.play import DAY, Conditions
from nodefleet_tools.backtest.suite import ADAPTIVE, PEERS, jobs_for, run_all
from nodefleet_tools.backtest.traces import by_minute

DAYS = 30
BUDGET = 110.0  # s of CPU: the rest of two cores' minute is for starting processes and for the report


def made_up(days: int) -> list[tuple[float, float]]:
    """A reading every five minutes."""
    random, start = Random(0), datetime(2026, 10, 1, tzinfo=UTC).timestamp()  # noqa: S311  # reproducible
    rows = []
    for minute in range(0, days * DAY, 5):
        day, week = sin(2 * pi * minute / DAY), sin(2 * pi * minute / (7 * DAY))
        burst = random.choices((0.0, 3.0), (0.998, 0.002))[0]
        rows.append((start + 60 * minute, 4 + 2 * day + week + burst))
    return rows


def cpu_seconds() -> float:
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    before = cpu_seconds()
    jobs = jobs_for([by_minute("made up", made_up(DAYS))], Conditions(), [*PEERS, *ADAPTIVE])
    runs = list(run_all(jobs, 2))
    used = cpu_seconds() - before
    print(f"{DAYS} days × {len(runs)} policies: {used:.1f} s of CPU (budget {BUDGET:.0f} s)")
    sys.exit(used > BUDGET)


if __name__ == "__main__":
    main()
