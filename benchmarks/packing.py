"""How many nodes generated workloads need: planned, bought and after consolidation, against a lower bound.

    .venv/bin/python benchmarks/packing.py                    200 workloads of 240 pods, and the time for 1,000 pods
    .venv/bin/python benchmarks/packing.py --workloads 40

Each workload is 240 pending pods of one shape on nodes with 1900m CPU and 2038 MiB for pods. The lower bound is the
larger of what CPU and memory add up to, with pods that exclude each other counted (Martello and Toth's L2).

    first fit        the packing before this one: pods by dominant share through the scheduler simulation
    planned          the best plan (`steps.pending_fill: tight`)
    after it         the bought nodes after consolidation (`consolidation.mode: underutilised`), filled as the
                     scheduler does, without the workloads with rules
    bought           with the nodes that the order of the scheduler's queue needs (`steps.pending_fill: queue`)
    second purchase  workloads in which a played scheduler leaves pods pending on the bought nodes: pods in a random
                     order of equal times, nodes ready one after the other (the scheduler is faster than they boot), or
                     all in one moment

Figures, not tests: times depend on the machine.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

from nodefleet.model.inventory import InstanceType, Resources
from nodefleet.model.snapshot import ClusterView, LaunchTarget, Observation
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL, Pod, PodPhase, PodTerm, Rules, Selector, Spread
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, MarketMix, Pool, Steps
from nodefleet.scheduling.bin_packing import BinPacking, NodeOption, PodGroup
from nodefleet.scheduling.packing import PackingInput, pack_pools, packing_input
from nodefleet.scheduling.pool_packing import Assignments, PoolPacking
from nodefleet.scheduling.predicates import NodeModel
from nodefleet.scheduling.simulation import SchedulerSimulation

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.lower_bound import lower_bound

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
CPU, MEMORY = 1900, 2038  # millicores, MiB
PODS = 240
TYPE = "t3.small"
NODE = Resources(cpu=CPU, memory=MEMORY << 20, pods=110)
Size: TypeAlias = tuple[int, int]  # millicores, MiB
Fill: TypeAlias = Literal["tight", "queue"]


@dataclass(frozen=True, slots=True)
class Workload:
    shape: str
    seed: int
    pods: tuple[Pod, ...]

    @property
    def sizes(self) -> list[Size]:
        return [(pod.requests.cpu, pod.requests.memory >> 20) for pod in self.pods]


# ── workloads ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _step(value: float, unit: int) -> int:
    return max(unit, int(value / unit) * unit)


def _mixed(draw: Random) -> Size:
    cpu = draw.choice([50, 100, 150, 200, 250, 300, 400, 500, 750, 1000])
    return cpu, draw.choice([64, 128, 192, 256, 384, 512, 768, 1024])


def _lopsided(draw: Random) -> Size:
    if draw.choice([True, False]):
        return _step(draw.uniform(400, 1200), 50), _step(draw.uniform(64, 256), 32)
    return _step(draw.uniform(50, 200), 25), _step(draw.uniform(512, 1200), 32)


def _large(draw: Random) -> Size:
    return _step(draw.uniform(300, 1100), 50), _step(draw.uniform(128, 900), 32)


def _small(draw: Random) -> Size:
    return _step(draw.uniform(25, 250), 25), _step(draw.uniform(32, 300), 16)


def _proportional(draw: Random) -> Size:
    cpu = draw.uniform(100, 900)
    return _step(cpu, 25), _step(min(MEMORY, cpu * draw.uniform(0.6, 1.6)), 16)


SHAPES: dict[str, Callable[[Random], Size]] = {
    "mixed": _mixed,
    "lopsided": _lopsided,
    "large": _large,
    "small": _small,
    "proportional": _proportional,
}


def workload(seed: int, pods: int = PODS) -> Workload:
    """Every seventh is of one shape: the five above, twelve apps of twenty replicas, and apps with rules."""
    draw = Random(f"packing {seed}")  # noqa: S311  # repeatable on purpose
    kinds = [*SHAPES, "replicas", "rules"]
    kind = kinds[seed % len(kinds)]
    if kind in SHAPES:
        made = [_pod(f"{kind}-{number}", *SHAPES[kind](draw)) for number in range(pods)]
    else:
        made = list(_apps(draw, pods, with_rules=kind == "rules"))
    draw.shuffle(made)
    return Workload(kind, seed, tuple(replace(pod, name=f"p{n:04}-{pod.name}") for n, pod in enumerate(made)))


def _apps(draw: Random, pods: int, *, with_rules: bool) -> Iterator[Pod]:
    for app in range(12):
        labels = {"app": f"app-{app}"}
        like = Selector(labels=labels)
        rules = Rules()
        if with_rules and app % 4 == 0:
            rules = Rules(spread=(Spread(topology=ZONE_LABEL, selector=like),))
        elif with_rules and app % 4 == 1:
            rules = Rules(anti_affinity=(PodTerm(topology=HOST_LABEL, selector=like),))
        cpu, memory = _step(draw.uniform(50, 1000), 50), _step(draw.uniform(64, 1024), 64)
        for number in range(pods // 12):
            yield replace(_pod(f"app-{app}-{number}", cpu, memory), labels=labels, rules=rules)


def _pod(name: str, cpu: int, memory: int) -> Pod:
    return Pod(
        name=name,
        uid=name,
        phase=PodPhase.PENDING,
        ready=False,
        unschedulable_since=NOW,
        requests=Resources(cpu=cpu, memory=memory << 20),
    )


# ── figures ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def bound_of(made: Workload) -> int:
    return lower_bound(made.sizes, CPU, MEMORY)


def packing_of(made: Workload, fill: Fill) -> PackingInput:
    market = MarketMix(types=(TYPE,), memory_overhead_percent=0)  # the size is what a node has for pods
    pool = Pool(limits=Limits(min=0, max=1000), market=market, steps=Steps(pending_fill=fill))
    seen = Observation(
        at=NOW,
        kubernetes=ClusterView(pods=made.pods),
        targets=(LaunchTarget(subnets={"a": "subnet-a", "b": "subnet-b", "c": "subnet-c"}),),
        catalog=(InstanceType(name=TYPE, resources=NODE),),
    )
    found = packing_input(seen, Policy(pools=(pool,)), ())
    assert found is not None
    return found


def nodes_of(made: Workload, fill: Fill) -> int:
    packed = pack_pools(packing_of(made, fill)).by_pool["default"]
    assert not packed.cannot_hold
    return packed.nodes


def by_heuristic(made: Workload) -> dict[str, int]:
    """Without rules: what each heuristic gives, and the improvement step."""
    sizes = sorted(made.sizes, key=lambda size: -max(size[0] / CPU, size[1] / MEMORY))
    kinds = sorted(set(sizes))
    groups = [PodGroup(cpu=cpu, memory=memory, options=1, count=sizes.count((cpu, memory))) for cpu, memory in kinds]
    packing = BinPacking(groups, [NodeOption(zone="a", cpu=CPU, memory=MEMORY, slots=110, price=1.0)], {})
    ranked = [kinds.index(size) for size in sizes]
    plans = packing.plans(ranked)
    return {**{name: len(plan) for name, plan in plans.items()}, "improved": len(packing.best_plan(ranked))}


def fill(made: Workload, nodes: int, draw: Random, *, at_once: bool) -> list[list[Pod]]:
    """Pods by node as a scheduler places them (least allocated and balanced first, ties by chance), and those that it
    leaves pending as the last entry. Nodes become ready one after the other, or at once."""
    queue = draw.sample(made.pods, len(made.pods))
    free: list[list[int]] = []
    placed: list[list[Pod]] = [[] for _ in range(nodes)]
    for wave in [nodes] if at_once else [1] * nodes:
        free += [[CPU, MEMORY] for _ in range(wave)]
        left = []
        for pod in queue:
            node = _schedule((pod.requests.cpu, pod.requests.memory >> 20), free, draw)
            (left if node is None else placed[node]).append(pod)
        queue = left
    return [*placed, queue]


def consolidated(placed: Sequence[Sequence[Pod]]) -> int:
    """Nodes after `consolidation.mode: underutilised`: one after the other leaves while its pods fit on the others,
    those with the fewest pods first."""
    names = [f"w{number:03}" for number in range(len(placed))]
    pods = [replace(pod, node=name) for name, each in zip(names, placed, strict=True) for pod in each]
    owned = [replace(pod, phase=PodPhase.RUNNING, unschedulable_since=None) for pod in pods]
    room = SchedulerSimulation([NodeModel(name=name, allocatable=NODE) for name in names], owned)
    fewest_first = sorted(names, key=lambda name: (len(placed[names.index(name)]), name))
    return len(names) - sum(room.try_drain(name) is None for name in fewest_first)


def _schedule(size: Size, free: list[list[int]], draw: Random) -> int | None:
    """The index of the node that takes the pod."""
    cpu, memory = size
    scored = [
        (_score(node[0] - cpu, node[1] - memory), index)
        for index, node in enumerate(free)
        if node[0] >= cpu and node[1] >= memory
    ]
    if not scored:
        return None
    best = max(score for score, _ in scored)
    index = draw.choice([index for score, index in scored if score == best])
    free[index][0] -= cpu
    free[index][1] -= memory
    return index


def _score(cpu: int, memory: int) -> int:
    one, other = cpu / CPU, memory / MEMORY
    return int(50 * (one + other)) + int(100 * (1 - abs(one - other) / 2))


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Row:
    workloads: int = 0
    bound: int = 0
    first_fit: int = 0
    planned: int = 0
    bought: int = 0
    second: int = 0
    second_at_once: int = 0
    worse: int = 0
    consolidated: int = 0
    without_rules: int = 0  # of the bound

    def add(self, made: Workload, old: int, planned: int, bought: int) -> None:
        self.workloads += 1
        self.bound += bound_of(made)
        self.first_fit += old
        self.planned += planned
        self.bought += bought
        self.worse += planned > old
        if made.shape != "rules":
            draw = Random(f"scheduler {made.seed}")  # noqa: S311  # repeatable on purpose
            self.without_rules += bound_of(made)
            *placed, left = fill(made, bought, draw, at_once=False)
            self.second += bool(left)
            self.consolidated += consolidated(placed) + math.ceil(len(left) / PODS)
            self.second_at_once += bool(fill(made, bought, draw, at_once=True)[-1])

    def __str__(self) -> str:
        ratios = [f"{each / self.bound:9.3f}" for each in (self.first_fit, self.planned, self.bought)]
        shares = [f"{each / self.workloads:8.0%}" for each in (self.second, self.second_at_once)]
        after = f"{self.consolidated / self.without_rules:9.3f}" if self.without_rules else f"{'':9}"
        return f"{self.workloads:5} {self.bound:6} {' '.join(ratios)} {after} {' '.join(shares)} {self.worse:6}"


def first_fit(made: Workload) -> int:
    """All pods one by one through the scheduler simulation."""
    found = packing_of(made, "tight")
    alone = PoolPacking(found.simulation, found.templates["default"], {}, found.choices, Assignments())
    alone.take(found.waiting)
    while alone.place():
        pass
    return len(alone.new.chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=200)
    asked = parser.parse_args()
    rows: dict[str, Row] = {}
    heuristics: dict[str, int] = {}
    bound = 0
    for seed in range(asked.workloads):
        made = workload(seed)
        figures = (made, first_fit(made), nodes_of(made, "tight"), nodes_of(made, "queue"))
        for name in (made.shape, "all"):
            rows.setdefault(name, Row()).add(*figures)
        if made.shape != "rules":
            bound += bound_of(made)
            for name, nodes in by_heuristic(made).items():
                heuristics[name] = heuristics.get(name, 0) + nodes
    print(f"{'':13}    n  bound first fit   planned    bought after it  2nd buy  at once  worse")
    for name in [*(name for name in rows if name != "all"), "all"]:
        print(f"{name:13}{rows[name]}")
    print("\nnodes / lower bound by heuristic, workloads without rules")
    for name, nodes in heuristics.items():
        print(f"  {name:15} {nodes / bound:.3f}")
    print("\nCPU time for 1,000 pending pods, best of 5")
    for kind, seeds in (("without rules", (0, 1, 2, 3, 4)), ("with rules", (0, 1, 2, 3, 6))):
        pods = tuple(pod for seed in seeds for pod in workload(seed).pods[:200])
        many = Workload(kind, 0, tuple(replace(pod, uid=f"{n}", name=f"p{n}") for n, pod in enumerate(pods)))
        print(f"  {kind:15} {min(_time(many) for _ in range(5)) * 1000:.0f} ms")


def _time(made: Workload) -> float:
    found = packing_of(made, "queue")
    began = time.process_time()
    pack_pools(found)
    return time.process_time() - began


if __name__ == "__main__":
    main()
