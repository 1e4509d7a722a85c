"""The steps of the presets reach the rule that they were made for (seed of the queue-and-latency rule)."""

import pytest

from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.world import World
from support.worlds import Cluster

RULE = {"kind": "queue-and-latency", "name": "jobs", "queue": "queue", "p95_ms": "p95", "busy": "busy"}
READINGS = {name: {"kind": "prometheus", "query": name} for name in ("queue", "p95", "busy")}


def fleet(preset: str, workers: int, *, queue: float, busy: float) -> Cluster:
    world = World(seed=1, policy={"preset": preset, "readings": READINGS, "custom": [RULE]})
    world.add_workers(workers)
    world.deploy("shop", replicas=2, cpu=50, traits=Traits(cpu_use=0.02))
    for name, value in {"queue": queue, "p95": 10.0, "busy": busy}.items():
        world.prometheus.custom["default", name] = lambda value=value: value
    world.settle()
    return Cluster(world)


@pytest.mark.parametrize(
    ("preset", "workers", "looks", "after"),
    [
        ("low-latency", 6, 1, 9),
        ("high-throughput", 12, 2, 16),
        ("balanced", 3, 2, 5),
        ("cost-optimized", 3, 2, 4),
        ("node-fleet", 3, 2, 5),
    ],
)
def test_a_backlog_gets_the_presets_step(preset, workers, looks, after):
    cluster = fleet(preset, workers, queue=1000, busy=workers)
    for _ in range(looks - 1):
        cluster.look()
        assert len(cluster.world.workers()) == workers
    cluster.look()
    assert len(cluster.world.workers()) == after
    assert not cluster.world.violations


def test_low_latency_answers_a_spike_that_goes_on_without_waiting_for_the_nodes_of_the_first():
    cluster = fleet("low-latency", 6, queue=1000, busy=6)
    sizes = []
    for _ in range(4):
        cluster.tick()
        sizes.append(len(cluster.world.workers()))
    assert sizes[0] == 9
    assert sizes[-1] > 9


@pytest.mark.parametrize(
    ("preset", "workers", "after"),
    [("low-latency", 6, 5), ("high-throughput", 12, 10), ("balanced", 3, 2), ("cost-optimized", 3, 2)],
)
def test_calm_gives_the_presets_step_back_at_once(preset, workers, after):
    cluster = fleet(preset, workers, queue=0, busy=0)
    cluster.until(lambda: len(cluster.world.workers()) < workers, ticks=12)
    cluster.tick()
    assert len(cluster.world.workers()) == after
    assert not cluster.world.violations
