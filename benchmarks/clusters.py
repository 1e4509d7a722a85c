"""A thousand clusters for a day behind one queue, some of them slow, broken or dying: who waits, and what it costs.

    .venv/bin/python benchmarks/clusters.py                  by the runs of benchmarks/recorded_runs.json
    .venv/bin/python benchmarks/clusters.py --slots 100      with another maximum of runs at once
    .venv/bin/python benchmarks/clusters.py --storm 0.3      at 18:00 three in ten grow at once for a quarter of an hour
    .venv/bin/python benchmarks/clusters.py --play           play those runs by the engine again (minutes) and keep them

Played by the shipped engine: days of the scenarios below, each run with its beginning, its iterations and the seconds
that it slept between them. Every healthy cluster follows one of these days, shifted by a time of its own, and an
iteration takes what one was measured to take at 512 MB (docs/benchmarks.md). Modelled: the queue and Lambda's slots
(nodefleet_tools/sim/fleet_queue.py). Assumed: how long a broken cluster's run takes (every connection waits for its
limit), and that SQS hands a message over within 0.2 s. Nothing here has met AWS.
"""

import argparse
import json
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from statistics import quantiles

from nodefleet.handlers.reconcile import LATE, OLDEST_TICK
from nodefleet_infra.bill import DAYS, QUIET_SECONDS, requests
from nodefleet_infra.functions import HIDDEN_SECONDS, RECONCILE
from nodefleet_infra.own_prices import PRICES
from nodefleet_tools.fleet import first_tick
from nodefleet_tools.sim.fleet_queue import Duration, Outcome, QueueRules, Served, SimulatedCluster, serve
from nodefleet_tools.sim.playing import ScenarioRun, stage_with_history
from nodefleet_tools.sim.scenarios.reading import find, read

RECORDED = Path(__file__).with_name("recorded_runs.json")
PLAYED = ("shop-day", "flash-sale", "bad-afternoon", "steady-state", "burst", "spot-interruption", "load-spike")
DAY = timedelta(days=1)
EVERY = timedelta(minutes=2)
BROKEN_SECONDS = 25.0  # API server, Prometheus and login each wait for their connection's limit, twice
FULL_SECONDS = 110.0  # a run that has work in every iteration
GB = 512 / 1024
SQS, SCHEDULER, DOLLARS = 0.50, 1.00, 1e6  # USD a million FIFO requests, and a million invocations of schedules
SQS_REQUESTS = 3  # of a message: send, receive, delete
REGION = "us-east-1"

Runs = list[tuple[float, float]]  # second of the day, seconds that the run took


# ── what the engine played ───────────────────────────────────────────────────────────────────────────────────────────


class TimedRun(ScenarioRun):
    """A played day that notes how long each of its runs took on the world's clock."""

    def tick(self, *, urgent: bool = False) -> None:
        began, looks = self.world.now, len(self.world.table.decisions)
        super().tick(urgent=urgent)
        looked = len(self.world.table.decisions) - looks
        slept = (self.world.now - began).total_seconds()
        self.took.append(((began - self.world.start).total_seconds(), slept, looked))

    took: list[tuple[float, float, int]]


def play(name: str) -> Runs:
    played = TimedRun(stage_with_history(read(find(name)).scenario), lambda _: None)
    played.took = []
    played.play()
    return [(round(at, 1), round(slept + max(1, looks) * QUIET_SECONDS, 2)) for at, slept, looks in played.took]


def record() -> None:
    days = {}
    for name in PLAYED:
        began = time.process_time()
        days[name] = play(name)
        print(f"{name}: {len(days[name])} runs, {time.process_time() - began:.0f} s of CPU time", file=sys.stderr)
    RECORDED.write_text(json.dumps(days, separators=(",", ":")) + "\n")


# ── a thousand clusters ──────────────────────────────────────────────────────────────────────────────────────────────


def following(runs: Runs, shift: float) -> Duration:
    """The run of the played day at this time, which is repeated when it is over."""
    begins = [at for at, _ in runs]
    length = max(EVERY.total_seconds(), begins[-1] + EVERY.total_seconds())

    def duration(now: float) -> float:
        return runs[max(0, bisect_right(begins, (now + shift) % length) - 1)][1]

    return duration


def fleet(days: dict[str, Runs], many: int, storm: float) -> dict[str, SimulatedCluster]:
    """One in 50 is slow in every run, one in 50 broken, one in 200 dies each time. From 12:00 to 13:00 another tenth is
    slow, as when a region's EC2 is."""
    luck, clusters = Random(1), {}  # noqa: S311  # the same fleet each time
    for number in range(many):
        name = f"many-{number:04}"
        usual = following(days[luck.choice(list(days))], luck.uniform(0, DAY.total_seconds()))
        first = first_tick(name, EVERY).total_seconds()
        urgent = tuple(sorted(luck.uniform(0, DAY.total_seconds()) for _ in range(luck.randrange(20))))
        kind, duration, dies = "healthy", usual, False
        if number % 200 == 0:
            kind, duration, dies = "dying", lambda _: float(RECONCILE.timeout), True
        elif number % 50 == 1:
            kind, duration = "slow", lambda _: FULL_SECONDS + QUIET_SECONDS
        elif number % 50 == 2:  # noqa: PLR2004  # as the docstring says
            kind, duration = "broken", lambda _: BROKEN_SECONDS
        elif number % 10 == 3:  # noqa: PLR2004
            kind, duration = "slow at noon", _slow_between(usual, 12, 13)
        elif luck.random() < storm:
            duration = _slow_between(usual, 18, 18.25)
        clusters[name] = SimulatedCluster(
            kind=kind,
            first=first,
            duration=duration,
            iteration=QUIET_SECONDS if kind == "healthy" else None,
            dies=dies,
            urgent=urgent,
        )
    return clusters


def _slow_between(usual: Duration, begins: float, ends: float) -> Duration:
    return lambda now: FULL_SECONDS if begins * 3600 <= now % 86400 < ends * 3600 else usual(now)


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def rows(clusters: dict[str, SimulatedCluster], outcome: Outcome) -> Iterator[str]:
    yield "| clusters | | runs each | ticks dropped | age p50 | p99 | longest | longest gap between runs |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    kinds = Counter(each.kind for each in clusters.values())
    for kind, many in kinds.most_common():
        served = [outcome.clusters[name] for name, each in clusters.items() if each.kind == kind]
        yield f"| {kind} | {many} | {_figures(served)} |"


def _figures(served: Sequence[Served]) -> str:
    ages = sorted(age for each in served for age in each.ages)
    begun, dropped = len(ages), sum(each.dropped for each in served)
    p50, p99 = (quantiles(ages, n=100)[place] for place in (49, 98))
    gap = max(each.longest_gap for each in served)
    share = 100 * dropped / (begun + dropped)
    return f"{begun / len(served):.0f} | {share:.1f} % | {p50:.1f} s | {p99:.1f} s | {ages[-1]:.1f} s | {gap:.0f} s"


def usd(clusters: dict[str, SimulatedCluster], outcome: Outcome) -> dict[str, float]:
    """A month of a healthy cluster in this fleet, by part, at list prices."""
    healthy = [outcome.clusters[name] for name, each in clusters.items() if each.kind == "healthy"]
    runs = DAYS * sum(len(each.ages) + each.dropped for each in healthy) / len(healthy)
    seconds = DAYS * sum(each.busy for each in healthy) / len(healthy)
    prices, day = PRICES[REGION], requests()
    ticks = DAYS * DAY / EVERY
    return {
        "functions": seconds * GB * prices.compute + runs / DOLLARS * prices.calls,
        "queue": SQS_REQUESTS * runs / DOLLARS * SQS,
        "schedule": ticks / DOLLARS * SCHEDULER,
        "table": DAYS * (day["write_units"] * prices.writes + day["read_units"] * prices.reads) / DOLLARS,
        "archive": DAYS * day["archived"] / 1000 * prices.puts,
        "login (one secret)": prices.secret,
        "logs": 0.2 * prices.logs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=200, help="runs at once (autoscaler.fleet.max_concurrency)")
    parser.add_argument("--storm", type=float, default=0.0, help="share that grows at once at 18:00")
    parser.add_argument("--play", action="store_true", help="play the days again by the engine")
    given = parser.parse_args()
    if given.play:
        record()
    days: dict[str, Runs] = {
        name: [(at, took) for at, took in runs] for name, runs in json.loads(RECORDED.read_text()).items()
    }
    clusters = fleet(days, given.clusters, given.storm)
    rules = QueueRules(
        slots=given.slots,
        every=EVERY.total_seconds(),
        oldest=OLDEST_TICK.total_seconds(),
        late=LATE.total_seconds(),
        hidden=float(HIDDEN_SECONDS),
    )
    began = time.process_time()
    outcome = serve(clusters, rules, DAY)
    took = time.process_time() - began
    print(f"{given.clusters} clusters, {given.slots} runs at once, a day ({took:.0f} s of CPU time)\n")
    print("\n".join(rows(clusters, outcome)))
    mean = outcome.slot_seconds / DAY.total_seconds()
    print(f"\nruns at once: {mean:.0f} on average, {outcome.most_slots} at most")
    parts = usd(clusters, outcome)
    print(
        f"a healthy cluster, USD a month: {sum(parts.values()):.2f}: "
        + ", ".join(f"{k} {v:.2f}" for k, v in parts.items())
    )


if __name__ == "__main__":
    main()
