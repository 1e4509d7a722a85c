"""node-fleet, Karpenter and cluster-autoscaler on the same control plane, with the same workloads and node size.

    make peers                                     # seven workloads of 240 pods each; hours
    make peers ARGS="--scheduling pack"            # the same on a scheduler that packs
    make peers ARGS="--results build/peers.jsonl"  # goes on where it was stopped
    .venv/bin/python benchmarks/peers/side_by_side.py --pods 60 --workloads 3 --settle 60

A real etcd, API server, controllers and scheduler, and KWOK behind the nodes. Ours is the shipped deployment
(functions, watcher for pending pods, packing) with the policy in compressed time of tests/e2e; the other two are their
own controllers with their KWOK providers and default batching or scanning. All begin with one idle worker and buy one
instance type. All consolidate under-used nodes a few seconds after the pods run.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import TypeAlias, TypeVar

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).parents[2] / "tests"))
from cluster_autoscaler import cluster_autoscaler, nodes_of
from karpenter import CLAIMS, karpenter, node_size
from tables import machine, progress, table

from e2e.site.policy import compressed
from e2e.site.site import Site, running_site
from e2e.site.waiting import until
from e2e.site.watcher import watching
from nodefleet.errors import UnreachableError
from support.lower_bound import lower_bound

USD = 0.0208  # an hour of a t3.small on demand in us-east-1
_EVERY = 0.25  # seconds between two looks at the cluster
_LONGEST = 300.0  # seconds that pods may wait
_Answer = TypeVar("_Answer")
_POLICY = {
    "limits": {"min": 1, "max": 200},
    "cooldown": {"up": 5, "down": 5},
    "market": {"types": ["t3.small"]},
    "consolidation": {"mode": "underutilised", "after": 5, "min_age": 5},
    "budgets": {"removals": 5},
}


@dataclass(frozen=True, slots=True)
class App:
    name: str
    replicas: int
    cpu: int  # millicores of each pod
    memory: int  # MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One workload, met by one autoscaler."""

    who: str
    day: str
    workload: int
    bound: int
    to_request: float  # seconds from the first unschedulable pod
    to_running: float | None  # seconds from there until all pods run; none: never
    bought: int  # nodes at the most, the first one included
    after: int  # nodes when it had time to consolidate
    settle: float  # seconds of that time
    waiting_minutes: float  # of all pods together


def workload(seed: int, pods: int) -> list[App]:
    """Deployments of small, middle and large pods, most of them asking for more of one resource than of the other."""
    random, apps = Random(f"peers/{seed}"), []  # noqa: S311  # repeatable on purpose
    while pods > 0:
        replicas = min(pods, random.randint(2, 8))
        cpu, memory = random.choice((100, 250, 400, 700, 1100)), random.choice((96, 200, 420, 800, 1300))
        apps.append(App(f"app-{len(apps)}", replicas, cpu, memory))
        pods -= replicas
    return apps


def bound(apps: Sequence[App], cores: int, kib: int) -> int:
    """No packing needs fewer nodes."""
    return lower_bound([(app.cpu, app.memory * 1024) for app in apps for _ in range(app.replicas)], cores, kib)


def main() -> None:
    parser = argparse.ArgumentParser(description="node-fleet, Karpenter and cluster-autoscaler side by side.")
    parser.add_argument("--workloads", type=int, default=7)
    parser.add_argument("--first", type=int, default=1, help="number of the first workload")
    parser.add_argument("--pods", type=int, default=240)
    parser.add_argument("--settle", type=float, default=120, help="seconds to consolidate in")
    parser.add_argument(
        "--scheduling", choices=("spread", "pack"), default="spread", help="of all: clusters[].master.scheduling"
    )
    parser.add_argument("--only", choices=tuple(_MANNERS), help="one of the three")
    parser.add_argument(
        "--results", type=Path, help="a file that each outcome is added to; what is in it already is shown and not run"
    )
    parser.add_argument("--plot", type=Path, default=Path(__file__).parents[2] / "docs" / "peers.svg")
    options = parser.parse_args()
    manners = {options.only: _MANNERS[options.only]} if options.only else _MANNERS
    outcomes = _read(options.results) if options.results else []
    known = {(each.workload, each.who) for each in outcomes}
    numbers = range(options.first, options.first + options.workloads)
    left = [(number, who) for number in numbers for who in manners if (number, who) not in known]
    # A scheduler that packs comes close to the plan whatever the order, so nothing is added for it.
    fill = "tight" if options.scheduling == "pack" else "queue"
    for number, runs in groupby(left, key=itemgetter(0)):
        # A new site for each: moto never forgets an instance that has ended, and is slower for each.
        with tempfile.TemporaryDirectory(prefix="node-fleet-peers-") as name, ExitStack() as stack:
            site = stack.enter_context(running_site(Path(name), packs=options.scheduling == "pack"))
            whos = [who for _, who in runs]
            for outcome in _compare(site, Path(name), number, whos, options.pods, options.settle, fill):
                outcomes.append(outcome)
                if options.results:
                    with options.results.open("a") as file:
                        file.write(json.dumps(asdict(outcome)) + "\n")
    outcomes.sort(key=lambda each: (each.workload, list(_MANNERS).index(each.who)))
    days = ", ".join(sorted({each.day for each in outcomes}))
    print(machine())
    table(
        f"{options.pods} pods a workload, scheduler: {options.scheduling}, {days}",
        (
            "workload",
            "autoscaler",
            "bound",
            "to request, s",
            "all run after, s",
            "bought",
            f"nodes {outcomes[0].settle:.0f} s later",
            "pods waited, min",
            "USD an hour then",
        ),
        [_row(each) for each in outcomes],
    )
    options.plot.write_text(plot(outcomes, f"{days}, {options.pods} pods each"))
    progress(f"plot: {options.plot}")


def _read(file: Path) -> list[Outcome]:
    return [Outcome(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def _compare(
    site: Site, folder: Path, number: int, whos: Iterable[str], pods: int, settle: float, fill: str
) -> Iterator[Outcome]:
    for who in whos:
        place = folder / who
        place.mkdir()
        _begin(site, fill)
        progress(f"workload {number}: {who}")
        with _MANNERS[who](site, place) as count:
            outcome = _measure(site, who, number, workload(number, pods), count, settle)
        progress(f"    {outcome}")
        yield outcome


def _begin(site: Site, fill: str) -> None:
    site.reset()
    site.load.memory(40)
    site.load.cpu(50)
    site.begin(compressed(**{**_POLICY, "steps": {"pending": "packing", "pending_fill": fill, "down": 5}}))


@contextmanager
def _ours(site: Site, folder: Path) -> Iterator[Callable[[], int]]:
    with watching(site, folder), site.schedule.going_on():
        yield lambda: len(site.hardware.instances())


@contextmanager
def _karpenter(site: Site, folder: Path) -> Iterator[Callable[[], int]]:
    site.topics.stop()  # nothing of ours is woken
    with ExitStack() as stack:
        stack.callback(site.workloads.clear)
        stack.enter_context(karpenter(site.admin, site.parts.kubeconfig, folder, usd=USD, joins_in=2))
        yield lambda: 1 + len(site.admin.items(CLAIMS))
        site.workloads.clear()


@contextmanager
def _cluster_autoscaler(site: Site, folder: Path) -> Iterator[Callable[[], int]]:
    site.topics.stop()
    with ExitStack() as stack:
        stack.callback(site.workloads.clear)
        stack.enter_context(cluster_autoscaler(site.admin, site.parts.kubeconfig, folder))
        yield lambda: 1 + len(nodes_of(site.admin))
        site.workloads.clear()


_Manner: TypeAlias = Callable[[Site, Path], AbstractContextManager[Callable[[], int]]]
_Manners: TypeAlias = Mapping[str, _Manner]
_MANNERS: _Manners = {"node-fleet": _ours, "Karpenter": _karpenter, "cluster-autoscaler": _cluster_autoscaler}


def _measure(
    site: Site, who: str, number: int, apps: Sequence[App], count: Callable[[], int], settle: float
) -> Outcome:
    size = node_size([*site.nodes().values()])
    for app in apps:
        site.workloads.deploy(app.name, app.replicas, cpu=f"{app.cpu}m", memory=f"{app.memory}Mi")
    pods = sum(app.replicas for app in apps)
    until(site.workloads.unschedulable, "a pod finds no node", every=0.05)
    began = last = time.monotonic()
    requested = running = None
    most, waited = 1, 0.0
    while running is None and last - began < _LONGEST:
        most, found = max(most, _insist(count)), _insist(site.workloads.pods)
        now = time.monotonic()
        requested = requested or (now - began if most > 1 else None)
        waited += (now - last) * (pods - sum(pod["status"]["phase"] == "Running" for pod in found)) / 60
        running = now - began if sum(pod["status"]["phase"] == "Running" for pod in found) >= pods else None
        last = now
        time.sleep(_EVERY)
    ends = time.monotonic() + settle
    while time.monotonic() < ends:
        most = max(most, _insist(count))
        time.sleep(2)
    least = bound(apps, *size)
    if running is not None and most < least:
        raise SystemExit(f"{who} ran all pods on {most} nodes, and {least} are needed: the nodes are not of one size")
    return Outcome(
        who=who,
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        workload=number,
        bound=least,
        to_request=requested if requested is not None else _LONGEST,
        to_running=running,
        bought=most,
        after=_insist(count),
        settle=settle,
        waiting_minutes=waited,
    )


def _insist(ask: Callable[[], _Answer]) -> _Answer:
    """What it says; an API server that has too much to do is asked again."""
    ends = time.monotonic() + _LONGEST
    while True:
        try:
            return ask()
        except UnreachableError:
            if time.monotonic() > ends:
                raise


def _row(it: Outcome) -> tuple[object, ...]:
    runs = f"{it.to_running:.1f}" if it.to_running is not None else "never"
    return (
        it.workload,
        it.who,
        it.bound,
        f"{it.to_request:.1f}",
        runs,
        it.bought,
        it.after,
        f"{it.waiting_minutes:.1f}",
        f"{it.after * USD:.2f}",
    )


def plot(outcomes: Sequence[Outcome], title: str) -> str:
    """Nodes bought and nodes after consolidation, with the lower bound as a line, for each workload."""
    colours = {
        "node-fleet": ("#1f6feb", "#9ec5fe"),
        "Karpenter": ("#b35900", "#ffc680"),
        "cluster-autoscaler": ("#57606a", "#c4cad1"),
    }
    groups = sorted({each.workload for each in outcomes})
    present = [who for who in colours if any(each.who == who for each in outcomes)]
    height, pair, scale = 230, 60, 170 / max(each.bought for each in outcomes)
    wide = pair * len(present) + 30
    parts = [f'<text x="10" y="16" font-weight="bold">Nodes bought (dark), after consolidation (light): {title}</text>']
    for place, who in enumerate(present):
        x = 10 + place * 130
        parts.append(f'<rect x="{x}" y="26" width="11" height="11" fill="{colours[who][0]}"/>')
        parts.append(f'<text x="{x + 16}" y="36">{who}</text>')
    for place, group in enumerate(groups):
        left = 30 + place * wide
        here = {each.who: each for each in outcomes if each.workload == group}
        for index, who in enumerate(present):
            for step, nodes in enumerate((here[who].bought, here[who].after) if who in here else ()):
                x, y = left + index * pair + step * 26, height - nodes * scale
                colour = colours[who][step]
                parts.append(f'<rect x="{x}" y="{y:.0f}" width="24" height="{nodes * scale:.0f}" fill="{colour}"/>')
                parts.append(f'<text x="{x + 4}" y="{y - 3:.0f}">{nodes}</text>')
        bound = next(iter(here.values())).bound
        line = height - bound * scale
        parts.append(
            f'<line x1="{left - 6}" x2="{left + pair * len(present)}" y1="{line:.0f}" y2="{line:.0f}" stroke="#555" '
            f'stroke-dasharray="4 3"/><text x="{left}" y="{height + 18}">workload {group}, bound {bound}</text>'
        )
    size = f'width="{max(420, 40 + wide * len(groups))}" height="{height + 30}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    main()
