"""Short simulated clusters for kinds of decisions that neither scenarios nor chaos seeds bring about often."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from nodefleet.model.workload import SCALE_DOWN_DISABLED
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.workloads import Kind
from nodefleet_tools.sim.world import World
from support.worlds import Cluster, shop

_TICKS = 12
_RULES: dict[str, dict[str, Any]] = {
    "threshold": {"reading": "queue", "quantity": "queue", "limit": 50},
    "queue-and-latency": {"queue": "queue", "p95_ms": "p95", "busy": "busy"},
    "per-worker-queue": {"queue": "queue", "per_worker": 5},
    "clear-time": {"queue": "queue", "running": "busy", "job_seconds": "seconds"},
    "job-demand": {"jobs": "queue", "runners_per_node": 2},
}
_HIGH = {"queue": 200.0, "p95": 4000.0, "busy": 3.0, "seconds": 90.0}
_LOW = {"queue": 0.0, "p95": 10.0, "busy": 0.0, "seconds": 30.0}


def stories() -> Iterator[tuple[str, Callable[[], object]]]:
    """By name: what is played."""
    for kind in _RULES:
        yield f"demand-{kind}", lambda kind=kind: _demand(kind)
    for name, protect in _PROTECTED.items():
        yield f"protected-{name}", lambda protect=protect: _protected(protect)
    yield "window-min", lambda: _window(min=5)
    yield "window-max", lambda: _window(max=2)
    yield "score", lambda: _demand("threshold", sustain={"up": {"kind": "score", "threshold": 2.0, "half_life": "4m"}})
    yield "above-max", _above_max
    yield "adaptive", _adaptive
    yield "rotation", lambda: _rotation(limits={"min": 3, "max": 6})
    yield "rotation-at-max", lambda: _rotation(limits={"min": 3, "max": 3})
    yield "rotation-blocked", lambda: _rotation(annotations={"node-fleet.io/do-not-disrupt": "true"})


def _adaptive() -> None:
    """Load that rises beyond what the nodes carry, falls again, and cannot be read at last."""
    cluster = shop(workers=3, replicas=2, cpu=50, strategy="adaptive", limits={"min": 2, "max": 6})
    prometheus, shown = cluster.world.prometheus, {"cpu": 50.0}
    prometheus.fixed["default", "cpu"] = lambda: shown["cpu"]
    for cpu in (50.0, 80.0, 95.0, 40.0, 10.0):
        shown["cpu"] = cpu
        cluster.calm(_TICKS // 2)
    prometheus.missing["default", "cpu"] = "timeout"
    cluster.calm(2)


def _rotation(annotations: dict[str, str] | None = None, **policy: object) -> None:
    """Workers of a day where some hours are allowed, and a new launch template at last."""
    rules = {"max_age": "6h", "drift": True, "alert_after": "20m"}
    world = World(seed=1, policy={"cooldown": {"down": "2m"}, "rotation": rules, **policy})
    world.add_workers(3)
    world.deploy("shop", replicas=3, cpu=600, annotations=annotations or {})
    world.settle()
    cluster = Cluster(world)
    cluster.calm(2 * _TICKS)
    deployment = world.table.state().deployment
    targets = tuple(replace(target, template_version="2") for target in deployment.targets)
    world.table.put("deployment", "", replace(deployment, targets=targets))
    cluster.calm(_TICKS)


def _demand(kind: str, **policy: object) -> None:
    """A queue that grows, is worked off, and cannot be read at last."""
    world = World(
        seed=1,
        policy={
            "limits": {"min": 2, "max": 8},
            "readings": {name: {"kind": "prometheus", "query": name} for name in _HIGH},
            "custom": [{"kind": kind, "name": "jobs", **_RULES[kind]}],
            **policy,
        },
    )
    world.add_workers(3)
    world.deploy("shop", replicas=2, cpu=50, traits=Traits(cpu_use=0.02))
    shown = dict(_HIGH)
    for name in _HIGH:
        world.prometheus.custom["default", name] = lambda name=name: shown[name]
    world.settle()
    cluster = Cluster(world)
    cluster.calm(_TICKS)
    shown |= _LOW
    cluster.calm(_TICKS)
    for name in _HIGH:
        world.prometheus.missing["default", name] = "no answer within 5 s"
    cluster.calm(3)


def _window(**limits: int) -> None:
    """Opens with the third run and closes with the sixth."""
    window = {"name": "lunch", "cron": "5 12 * * *", "lasting": "7m", **limits}
    shop(workers=3, windows=[window]).calm(_TICKS)


# ── what keeps a node of a fleet that could be smaller ───────────────────────────────────────────────────────────


def _protected(protect: Callable[[World], None]) -> None:
    cluster = shop(workers=4, replicas=4, cpu=100, removal={"keep_single_replicas": True})
    protect(cluster.world)
    cluster.world.advance(60)
    cluster.calm(_TICKS)


def _opted_out(world: World) -> None:
    for node in world.ready_nodes():
        annotated = replace(node, annotations={**node.annotations, SCALE_DOWN_DISABLED[0]: "true"})
        world.kube.nodes[node.name] = annotated
    world.kube.changed()


def _unmanaged(world: World) -> None:
    for key, pod in world.kube.pods.items():
        world.kube.pods[key] = replace(pod, owner=None)
    world.kube.changed()


def _single(world: World) -> None:
    for number in range(4):
        world.deploy(f"one-{number}", replicas=1, cpu=200)


def _stateful(world: World) -> None:
    for number in range(4):
        world.deploy(f"db-{number}", replicas=1, cpu=200, kind=Kind.STATEFUL_SET)


def _slow_to_start(world: World) -> None:
    world.deploy("slow", replicas=12, cpu=50, traits=Traits(starts_in=1200.0))


_PROTECTED: dict[str, Callable[[World], None]] = {
    "opted-out": _opted_out,
    "unmanaged": _unmanaged,
    "single": _single,
    "stateful": _stateful,
    "not-whole": _slow_to_start,
}


def _above_max() -> None:
    """A new policy has a max below what is there."""
    cluster = shop(workers=5, replicas=2, cpu=100, limits={"min": 1, "max": 6})
    cluster.tick()
    cluster.world.enforce({"limits": {"min": 1, "max": 3}})
    cluster.calm(3)
