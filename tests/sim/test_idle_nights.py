"""An idle fleet shrinks to its minimum, whatever small thing cannot be measured or does not agree meanwhile.

"No series" is often the idle state itself: no request failed, no job ran. And one exporter, one node that is not listed
or one that hangs is no reason to keep a whole pool for ever.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from nodefleet.domain.events import EventKind
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.world import World
from worlds import TICK, Cluster

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
NIGHT = 8 * 3600 // int(TICK.total_seconds())
IDLE = Traits(cpu_use=0.02)


def example(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())


def idle(policy: dict[str, Any], workers: int, **readings: Callable[[], float | None]):
    world = World(seed=1, policy=policy)
    world.add_workers(workers)
    world.deploy("shop", replicas=2, cpu=50, traits=IDLE)
    world.prometheus.custom |= {("default", name): measured for name, measured in readings.items()}
    world.settle()
    return Cluster(world)


def nights(cluster: Cluster, ticks: int = NIGHT) -> int:
    """How many workers are left in the morning."""
    cluster.calm(ticks)
    assert not cluster.world.violations
    return len(cluster.world.workers())


def told(cluster: Cluster, kind: EventKind) -> list[str]:
    return [event.text for event in cluster.world.table.events.values() if event.kind is kind]


# ── the shipped examples ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_shop_without_a_single_error_shrinks_over_night():
    policy = example("web-shop") | {"windows": []}
    cluster = idle(policy, 6, p95_ms=lambda: 120.0, error_percent=lambda: None)
    assert nights(cluster) == 2


def test_a_shop_without_a_single_visitor_shrinks_over_night():
    """No request: no quantile, and 0/0 errors."""
    policy = example("web-shop") | {"windows": []}
    cluster = idle(policy, 6, p95_ms=lambda: math.nan, error_percent=lambda: math.nan)
    assert nights(cluster) == 2


def batch(waiting: Callable[[], float], running: Callable[[], float | None], job_seconds: Callable[[], float | None]):
    policy = example("batch")
    policy["market"] |= {"types": ["t3.small", "t3a.small"]}  # what the simulated cloud sells
    world = World(seed=1, policy=policy)
    world.prometheus.custom |= {
        ("default", "waiting"): waiting,
        ("default", "running"): running,
        ("default", "job_seconds"): job_seconds,
    }
    return world


def test_an_idle_batch_fleet_goes_to_nothing_and_comes_back_for_five_thousand_jobs():
    """0/0 after ten idle minutes: the mean time of a job is unknown, and that is no reason to hold either way."""
    jobs = {"waiting": 0.0}
    world = batch(lambda: jobs["waiting"], lambda: None, lambda: math.nan)
    world.add_workers(6)
    world.settle()
    cluster = Cluster(world)
    assert nights(cluster) == 0
    jobs["waiting"] = 5000.0
    cluster.calm(1)
    assert len(world.workers()) == 30
