"""How long one decision takes, how much memory it needs, and how both grow with the cluster.

    .venv/bin/python benchmarks/decide.py                            10, 100, 1,000 and 5,000 nodes
    .venv/bin/python benchmarks/decide.py --nodes 1000 --repeat 5
    .venv/bin/python benchmarks/decide.py --quick

`unschedulable`: every node is full and 5 % more pods wait. `shrinking`: everything is calm and one node may leave.
`nowhere to go`: everything is calm, but no node's pods fit elsewhere.
Figures, not tests: they depend on the machine. Time is the best of several runs; memory is the peak of what Python
allocated during one decision, measured in a run of its own.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from nodefleet.engine.decide import decide
from nodefleet.model.decision import Action, Decision
from nodefleet.model.inventory import Instance, InstanceType, Market, Node, Resources
from nodefleet.model.snapshot import ClusterView, LaunchTarget, Observation, PoolReadings, Reading
from nodefleet.model.state import Breaches, Memory, PoolMemory
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Budget, Owner, Pod, PodPhase, Selector
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ZONES = ("a", "b", "c")
PODS_PER_NODE = 10
REPLICAS = 10
SIZE = Resources(cpu=2000, memory=4 << 30, pods=110)
POLICY = Policy(pools=(Pool(limits=Limits(min=2, max=10_000)),))


def cluster(nodes: int, *, unschedulable: float, cpu_each: int, cpu: float, memory: float) -> Observation:
    total = nodes * PODS_PER_NODE
    waiting = int(total * unschedulable)
    pods = [_pod(number, f"w{number % nodes:05}", cpu_each) for number in range(total)]
    pods += [
        replace(_pod(total + number, None, cpu_each), phase=PodPhase.PENDING, unschedulable_since=NOW)
        for number in range(waiting)
    ]
    budgets = tuple(
        Budget(name=f"app-{app}", selector=Selector(labels={"app": f"app-{app}"}), max_unavailable="1")
        for app in range(0, total // REPLICAS, 4)
    )
    return Observation(
        at=NOW,
        instances=tuple(_instance(number) for number in range(nodes)),
        kubernetes=ClusterView(
            nodes=tuple(_node(number) for number in range(nodes)), pods=tuple(pods), budgets=budgets
        ),
        readings={"default": PoolReadings(cpu=Reading(cpu, NOW), memory=Reading(memory, NOW))},
        targets=(LaunchTarget(template="lt", subnets={zone: f"subnet-{zone}" for zone in ZONES}),),
        catalog=(InstanceType(name="t3.small", resources=SIZE),),
    )


def _instance(number: int) -> Instance:
    market = Market.ON_DEMAND if number % 3 == 0 else Market.SPOT
    return Instance(id=f"i-{number:05}", zone=ZONES[number % 3], market=market, launched_at=NOW - timedelta(days=1))


def _node(number: int) -> Node:
    name = f"w{number:05}"
    return Node(
        name=name,
        instance=f"i-{number:05}",
        ready_changed_at=NOW - timedelta(hours=20),
        labels={ZONE_LABEL: ZONES[number % 3], TYPE_LABEL: "t3.small", HOST_LABEL: name},
        allocatable=SIZE,
    )


def _pod(number: int, node: str | None, cpu: int) -> Pod:
    app = f"app-{number // REPLICAS}"
    return Pod(
        namespace="shop",
        name=f"{app}-{number}",
        uid=f"uid-{number}",
        labels={"app": app},
        node=node,
        owner=Owner(kind="ReplicaSet", name=app, uid=f"rs-{app}", replicas=REPLICAS),
        requests=Resources(cpu=cpu, memory=200 << 20),
    )


def calm_memory() -> Memory:
    """Ten quiet minutes lie behind us."""
    times = tuple(NOW - timedelta(minutes=2 * ago) for ago in range(5, 0, -1))
    calm = Breaches(times=times, since=times[0], last=times[-1])
    return Memory(pools={"default": PoolMemory(breaches={"cpu:down": calm, "memory:down": calm})})


def growing(nodes: int) -> tuple[Observation, Memory]:
    return cluster(nodes, unschedulable=0.05, cpu_each=200, cpu=85, memory=60), Memory()


def shrinking(nodes: int) -> tuple[Observation, Memory]:
    return cluster(nodes, unschedulable=0, cpu_each=100, cpu=20, memory=30), calm_memory()


def stuck(nodes: int) -> tuple[Observation, Memory]:
    """Everybody is calm, but no node's pods fit elsewhere: every candidate is tried."""
    return cluster(nodes, unschedulable=0, cpu_each=200, cpu=20, memory=30), calm_memory()


CASES: dict[str, tuple[Callable[[int], tuple[Observation, Memory]], Action]] = {
    "unschedulable": (growing, Action.GROW),
    "shrinking": (shrinking, Action.SHRINK),
    "nowhere to go": (stuck, Action.HOLD),
}


def best_of(repeat: int, run: Callable[[], Decision]) -> float:
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def peak(run: Callable[[], Decision]) -> float:
    tracemalloc.start()
    run()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / (1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 100, 1000, 5000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="10 nodes, once, to see that it runs")
    options = parser.parse_args()
    sizes, repeat = ([10], 1) if options.quick else (options.nodes, options.repeat)
    print(f"{'case':14} {'nodes':>6} {'pods':>7} {'time':>10} {'growth':>8} {'peak':>9}")
    for name, (build, expected) in CASES.items():
        before = 0.0
        for nodes in sizes:
            seen, memory = build(nodes)
            (pool,) = decide(seen, memory, POLICY).pools
            assert pool.action is expected, pool.reason
            run = partial(decide, seen, memory, POLICY)
            seconds, mib = best_of(repeat, run), peak(run)
            growth = f"× {seconds / before:.1f}" if before else ""
            pods = nodes * PODS_PER_NODE
            print(f"{name:14} {nodes:>6} {pods:>7} {seconds * 1000:>7.1f} ms {growth:>8} {mib:>5.1f} MiB", flush=True)
            before = seconds


if __name__ == "__main__":
    main()
