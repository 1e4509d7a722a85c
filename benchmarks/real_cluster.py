"""A run on a real control plane with 1,000 nodes and 10,000 pods: its time, its memory, and whether both are allowed.

    .venv/bin/python benchmarks/real_cluster.py [--nodes 1000] [--pods 10000] [--waiting 200] [--repeat 5]

quiet           nothing is to be done, as in almost every run
unschedulable   so many pods wait that the real scheduler cannot place: nodes are launched, the observation is archived

Real are etcd, the API server, its controllers and scheduler, KWOK behind the nodes, and DynamoDB Local behind the
table; they are built at first use (`tests/e2e/README.md`). The pods are made by Deployments and a DaemonSet and bound
by the scheduler. EC2, S3, Secrets Manager and Prometheus are the stand-ins of `world/`. The function is the shipped
handler with the shipped role, in a process of its own, with the CPU share that Lambda gives at `--memory`.

Ends with 1 if a limit is exceeded (`limits.py`).
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpu_share import FULL, Share, means
from functions import Started, Surroundings, cold, function, leave_in_order, surroundings
from limits import Deployed, Limit, limits, rows, verdict
from run_tables import PARTS, Runs, by_part, steps
from tables import Row, machine, middle, progress, table
from world.records import REGION
from world.scene import CLUSTER

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from real.populated import overfill, populate
from real.workload import Plan

from e2e.parts.running import RunningParts, running
from e2e.site.login import apply, login
from nodefleet.adapters.kubernetes.client import Api
from nodefleet.adapters.kubernetes.client import CallLimits as Patience
from nodefleet.adapters.kubernetes.cluster import from_kubeconfig
from nodefleet_infra import manifests
from support.real_cluster_world import Admin

_PARTS = ("controller-manager", "scheduler", "kwok", "dynamodb")
# A busy machine must not make nodes look dead while the others are still being made.
_FLAGS = {"controller-manager": ["--node-monitor-grace-period=300s"]}
_PATIENCE = Patience(read=60)
_MEANT = {"quiet": "normal: hold", "unschedulable": "normal: grow"}
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A situation, measured."""

    name: str
    first: Mapping[str, Any]  # a function that was not there yet
    warm: Mapping[str, Any]  # one that stays, with its steps

    @property
    def runs(self) -> Runs:
        """Those of a warm function."""
        found: Runs = self.warm["runs"][1:]
        return found

    @property
    def peak(self) -> float:
        return float(max(self.first["peak"], self.warm["peak"]))

    def limits(self, deployed: Deployed) -> Iterator[Limit]:
        return limits(
            self.name,
            first=cold(self.first, "wall"),
            warm=[run["wall"] for run in self.runs],
            peak=self.peak,
            deployed=deployed,
        )


def main() -> int:
    options = _options()
    plan = Plan(nodes=options.nodes, pods=options.pods, waiting=options.waiting)
    deployed = Deployed(memory=options.memory, timeout=options.timeout)
    leave_in_order()
    with running(*_PARTS, extra=_FLAGS) as parts, _api(parts) as api:
        admin = Admin(str(parts.kubeconfig))
        apply(admin, manifests.Site(cluster=CLUSTER, region=REGION, wake_topic="", grafana=False))
        populate(api, plan)
        stand_ins = ("--nodes", str(plan.nodes), "--dynamodb", parts.dynamodb_endpoint, "--no-kubernetes")
        with surroundings(*stand_ins, login=login(admin)) as around:
            print(machine())
            print(f"CPU limited to {deployed.memory / FULL:.0%} of one by: {means()}")
            quiet = _measured("quiet", around, deployed, options.repeat)
            overfill(api, plan)
            cases = [quiet, _measured("unschedulable", around, deployed, options.repeat)]
            return _told(plan, cases, deployed)  # now: stopping everything takes a while, and may be cut short


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A run on a big cluster with a real control plane.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000, help="more than nodes: each has one of a DaemonSet")
    parser.add_argument("--waiting", type=int, default=200, help="pods that find no room")
    parser.add_argument("--memory", type=int, default=Deployed().memory, help="MB that the function may use")
    parser.add_argument("--timeout", type=float, default=Deployed().timeout, help="seconds that it may take")
    parser.add_argument("--repeat", type=int, default=5, help="warm runs of each case")
    options = parser.parse_args()
    if options.pods <= options.nodes:
        parser.error("there must be more pods than nodes")
    return options


@contextmanager
def _api(parts: RunningParts) -> Iterator[Api]:
    api = Api(from_kubeconfig(str(parts.kubeconfig)), _PATIENCE)
    try:
        yield api
    finally:
        api.close()


def _measured(name: str, around: Surroundings, deployed: Deployed, repeat: int) -> Case:
    started = Started(share=Share(deployed.memory))
    progress(f"{name}: a first run at {deployed.memory} MB")
    first = function("reconcile", around, runs=1, started=started)
    progress(f"    {cold(first, 'wall'):.1f} s; {repeat} warm runs")
    warm = function("reconcile", around, runs=repeat + 1, afresh=True, steps=True, started=started)
    case = Case(name=name, first=first, warm=warm)
    progress(f"    {middle(case.runs, lambda run: run['wall']):.1f} s each")
    for run in (*first["runs"], *warm["runs"]):
        if not (run["decided"] and run["decided"][0].startswith(_MEANT[name])):
            raise SystemExit(f"{name} is not what was measured. It was decided: {run['decided']}")
    return case


def _told(plan: Plan, cases: Sequence[Case], deployed: Deployed) -> int:
    print(f"{plan.nodes:,} nodes and {plan.pods:,} pods, made by real controllers and bound by the real scheduler")
    table(
        "Runs: wall and CPU in s, memory in MiB; a first one with its cold start, warm ones as the median",
        ("run", "wall, first", "CPU, first", "wall, warm", "CPU, warm", "peak", "decided"),
        map(_figures, cases),
    )
    table(
        "Requests of one warm run, and MB read from the API server",
        ("run", *PARTS, "all", "MB read"),
        map(_calls, cases),
    )
    table(
        "What was asked of the API server in one warm run",
        ("request", *(f"{case.name} {what}" for case in cases for what in ("calls", "MB"))),
        _asked(cases),
    )
    table(
        "Steps of a warm run: CPU ms, share, wall ms",
        ("step", *(f"{case.name} {what}" for case in cases for what in ("CPU", "%", "wall"))),
        steps({case.name: case.runs for case in cases}),
    )
    found = [each for case in cases for each in case.limits(deployed)]
    table(
        f"Limits of the function as deployed, {deployed.memory} MB",
        ("limit", "unit", "taken", "allowed", "% of it", "kept", "because"),
        rows(found),
    )
    kept, sentence = verdict(found)
    print(f"\n{sentence}")
    return 0 if kept else 1


def _figures(case: Case) -> Row:
    wall, cpu = middle(case.runs, lambda run: run["wall"]), middle(case.runs, lambda run: run["cpu"])
    decided = case.runs[-1]["decided"][0]
    return (case.name, cold(case.first, "wall"), cold(case.first, "cpu"), wall, cpu, case.peak, decided)


def _calls(case: Case) -> Row:
    last = case.runs[-1]
    calls = by_part(last)
    return (case.name, *(calls[part] for part in PARTS), calls.total(), sum(last["read"].values()) / _MB)


def _asked(cases: Sequence[Case]) -> Iterator[Row]:
    sent: list[Counter[str]] = [Counter(case.runs[-1]["calls"]) for case in cases]
    read: list[Counter[str]] = [Counter(case.runs[-1]["read"]) for case in cases]
    for what in sorted({what for each in read for what in each}, key=lambda what: -read[0][what]):
        counts = [(calls[what], amount[what] / _MB) for calls, amount in zip(sent, read, strict=True)]
        yield (what, *(figure for pair in counts for figure in pair))


if __name__ == "__main__":
    sys.exit(main())
