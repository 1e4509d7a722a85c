"""An idle fleet shrinks to its minimum, whatever small thing cannot be measured or does not agree meanwhile.

"No series" is often the idle state itself: no request failed, no job ran. And one exporter, one node that is not listed
or one that hangs is no reason to keep a whole pool for ever.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from nodefleet.model.alerts import AlertKind
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.world import World
from support.wording import assert_wording
from support.worlds import TICK, Cluster

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


def told(cluster: Cluster, kind: AlertKind) -> list[str]:
    return [event.text for event in cluster.world.table.events if event.kind is kind]


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


# ── one small thing that is wrong ────────────────────────────────────────────────────────────────────────────────

SMALL = {"limits": {"min": 2, "max": 20}, "cooldown": {"down": 120}}


def test_one_exporter_that_is_down_does_not_keep_twenty_idle_workers():
    cluster = idle(SMALL, 20)
    world = cluster.world
    silent = world.node_of(world.workers()[3]).name
    world.prometheus.silent.add(silent)
    assert nights(cluster, 120) == 2
    assert silent in {node.name for node in world.ready_nodes()}, "nobody knows what it carries, so it stays"
    (text,) = told(cluster, AlertKind.NODE_IN_DOUBT)
    assert silent in text


def test_one_worker_that_ec2_does_not_list_does_not_keep_the_others():
    cluster = idle(SMALL, 8)
    world = cluster.world
    del world.ec2.machines[world.workers()[3].id]
    cluster.calm(80)
    assert len(world.ready_nodes()) == 2
    assert told(cluster, AlertKind.NODE_IN_DOUBT)


def test_many_workers_that_ec2_does_not_list_keep_everything():
    cluster = idle(SMALL, 8)
    world = cluster.world
    for machine in world.workers()[:3]:
        del world.ec2.machines[machine.id]
    cluster.calm(40)
    assert len(world.ready_nodes()) == 8
    assert len(told(cluster, AlertKind.SCALE_DOWN_BLOCKED)) == 1


def test_a_query_that_fails_keeps_the_fleet_and_is_an_alert_after_an_hour():
    cluster = idle(example("web-shop") | {"windows": []}, 4, p95_ms=lambda: 120.0, error_percent=lambda: 0.0)
    cluster.world.prometheus.missing["default", "error_percent"] = "parse error"
    cluster.calm(25)
    assert told(cluster, AlertKind.SCALE_DOWN_BLOCKED) == []
    assert nights(cluster, 20) == 4
    (text,) = told(cluster, AlertKind.SCALE_DOWN_BLOCKED)
    assert_wording(text)
