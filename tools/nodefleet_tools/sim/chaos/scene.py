"""The cluster at the beginning of a seed: a policy, workers, workloads that may and may not be moved, budgets.

All of it is drawn at once and is plain data, as a file would hold it: a plan that is kept plays the same scene again,
however scenes are drawn by then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from nodefleet.model.state import HourLoad, LoopState, Memory, PoolMemory
from nodefleet.model.workload import SAFE_TO_EVICT, Rules, Toleration, Volume, VolumeKind
from nodefleet_tools.sim.chaos.drawing import chance, coin
from nodefleet_tools.sim.chaos.timing import BACKLOG, REGION
from nodefleet_tools.sim.instances import CloudSettings
from nodefleet_tools.sim.kube import KubeSettings, Order, Traits
from nodefleet_tools.sim.workloads import Kind
from nodefleet_tools.sim.world import World

if TYPE_CHECKING:
    from nodefleet_tools.sim.chaos.plan import Plan

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
SECOND_POOL = "batch"
COMMON = ("burst", "trust", "preset", "fleet", "tenants")  # what a policy says for all its pools
_HOURS = 24
_JOBS = 500.0  # that wait: far above the limit
_UP = 3.0  # nodes of the other region


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    policy: Mapping[str, Any] = field(default_factory=dict)
    zones: int = 2
    cloud: Mapping[str, Any] = field(default_factory=dict)  # CloudSettings
    kubernetes: Mapping[str, Any] = field(default_factory=dict)  # KubeSettings
    workers: Mapping[str, int] = field(default_factory=dict)  # by pool
    warm: int = 0  # stopped instances that are kept, of the first pool
    workloads: tuple[Mapping[str, Any], ...] = ()  # what World.deploy takes, and perhaps a budget
    history_days: int = 0  # of load that is remembered by the hour
    backlog: tuple[float, ...] | None = None  # seconds from and to which jobs wait; none: there is no such queue
    region: Mapping[str, Any] | None = None  # another one that this stands by: when it `fails`, and who `moves_back`


# ── drawing one ──────────────────────────────────────────────────────────────────────────────────────────────────


def drawn(random: Random) -> Scene:
    rules = _policy(random)
    zones = random.choice((1, 2, 2, 3))
    cloud = {
        "shows_in": random.choice(((0.0, 0.0), (0.0, 10.0), (5.0, 60.0))),
        "read_lag": random.choice((0.0, 0.0, 5.0, 20.0)),
        "listed_for": random.choice((60.0, 600.0, 3600.0)),
    }
    kubernetes = {
        "never_joins": random.choice((0.0, 0.0, 0.0, 0.2, 0.6)),
        "joins_late": random.choice((0.0, 0.0, 0.1, 0.4)),
    }
    workers = {
        name: random.randint(limits["min"], limits["max"])
        for name, limits in _limits(rules).items()
        if chance(random, 0.8)
    }
    return Scene(
        policy=rules,
        zones=zones,
        cloud=cloud,
        kubernetes=kubernetes,
        workers=workers,
        workloads=tuple(_workloads(random)),
    )


def _policy(random: Random) -> dict[str, Any]:
    """Small fleets, quick rules: an hour shall see everything."""
    least = random.choice((0, 1, 1, 2, 2, 3))
    most = max(2, least + random.choice((0, 1, 2, 4, 8)))
    if chance(random, 0.05):
        least, most = 8, 16  # large enough that a fifth of it is more than one
    first: dict[str, Any] = {
        "limits": {"min": least, "max": most},
        "steps": {"up": random.choice((1, 2)), "urgent": random.choice((2, 3))},
        "cooldown": {"up": random.choice((60, 300)), "down": random.choice((60, 60, 300, 600))},
        "sustain": {"down": {"kind": "readings", "count": random.choice((1, 1, 2, 5))}},
        "market": {"on_demand_base": random.choice((0, 1)), "spot_percent": random.choice((50, 70, 100))},
    }
    common: dict[str, Any] = {
        "burst": {"every": random.choice((10, 20, 30))},
        "trust": {"recovery_hold": random.choice((0, 60, 600))},
    }
    if chance(random, 0.2):
        second = {"name": SECOND_POOL, "limits": {"min": random.choice((0, 1)), "max": random.choice((1, 3))}}
        return {**common, "pools": [{"name": "default", **first}, second]}
    return {**common, **first}


def _limits(policy: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    if "pools" not in policy:
        return {"default": policy["limits"]}
    return {pool["name"]: pool["limits"] for pool in policy["pools"]}


def _workloads(random: Random) -> list[dict[str, Any]]:
    found = []
    for number in range(random.randint(1, 4)):
        service = _service(random, f"app{number}")
        found.append({**service, "budget": _budget(random)} if coin(random) else service)
    found.append({"name": "agent", "kind": Kind.DAEMON_SET.name, "cpu": 20, "memory": 16})
    if chance(random, 0.3):
        found.append({"name": "dns", "namespace": "kube-system", "replicas": 1, "cpu": 50})
    if chance(random, 0.3):
        replicas = random.randint(1, 6)
        found.append(
            {"name": "jobs", "kind": Kind.JOB.name, "replicas": replicas, "cpu": 300, "traits": {"runs_for": 400.0}}
        )
    if chance(random, 0.2):
        kept = {"kind": random.choice((VolumeKind.LOCAL, VolumeKind.CLAIM)).name, "name": "data"}
        replicas = random.randint(1, 3)
        found.append(
            {"name": "db", "kind": Kind.STATEFUL_SET.name, "replicas": replicas, "cpu": 200, "volumes": [kept]}
        )
    return found


def _service(random: Random, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "replicas": random.choice((1, 1, 2, 3, 5, 7)),
        "cpu": random.choice((100, 300, 600, 1000)),
        "traits": {
            "stops_in": random.choice((2.0, 2.0, 25.0)),
            "stuck": chance(random, 0.05),
            "cpu_use": random.choice((0.05, 0.1, 0.5, 1.5)),
        },
        "annotations": {SAFE_TO_EVICT[0]: random.choice(("true", "false"))} if chance(random, 0.1) else {},
    }


def _budget(random: Random) -> dict[str, str]:
    if coin(random):
        return {"max_unavailable": random.choice(("0", "1", "50%"))}
    return {"min_available": random.choice(("1", "2", "70%"))}


# ── setting it up ────────────────────────────────────────────────────────────────────────────────────────────────


def staged(plan: "Plan") -> World:
    scene = plan.scene
    cloud: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in scene.cloud.items()
    }
    world = World(
        seed=plan.seed,
        policy=scene.policy,
        zones=ZONES[: scene.zones],
        cloud=CloudSettings(**cloud),
        kubernetes=_kubernetes(scene.kubernetes),
    )
    for pool, number in scene.workers.items():
        world.add_workers(number, pool=pool)
    world.add_warm(scene.warm, pool=world.policy.pools[0].name)
    for workload in scene.workloads:
        _deploy(world, **workload)
    if scene.history_days:
        world.table.put("journal", "", LoopState(memory=_remembered(world, scene.history_days, plan.random("history"))))
    if scene.backlog is not None:
        _queue(world, scene.backlog)
    if scene.region is not None:
        _probe(world, scene.region["fails"])
    world.settle()
    return world


def _queue(world: World, busy: Sequence[float]) -> None:
    """While it is idle its query finds no series."""
    from_, to = [world.start + timedelta(seconds=each) for each in busy] or [world.start, world.start]
    world.prometheus.custom["default", BACKLOG] = lambda: _JOBS if from_ <= world.now < to else None


def _probe(world: World, fails: Sequence[Sequence[float]]) -> None:
    """The reading of the other region's health: so many of its nodes are up, none while it fails."""
    spans = [tuple(world.start + timedelta(seconds=each) for each in span) for span in fails]
    world.prometheus.custom["default", REGION] = lambda: (
        0.0 if any(begins <= world.now < ends for begins, ends in spans) else _UP
    )


def _kubernetes(settings: Mapping[str, Any]) -> KubeSettings:
    known = dict(settings)
    if "scheduling_order" in known:
        known["scheduling_order"] = Order(known["scheduling_order"])
    return KubeSettings(**known)


def _remembered(world: World, days: int, random: Random) -> Memory:
    """What so many days of load leave behind."""
    first = world.start - timedelta(days=days)
    hours = [first + timedelta(hours=number) for number in range(_HOURS * days)]
    pools = {
        pool.name: PoolMemory(
            profile=tuple(
                HourLoad(
                    day=f"{hour:%Y-%m-%d}",
                    hour=hour.hour,
                    load=random.uniform(0, pool.limits.max),
                    samples=30,
                    last=hour + timedelta(minutes=58),
                )
                for hour in hours
            )
        )
        for pool in world.policy.pools
    }
    return Memory(pools=pools)


def _deploy(
    world: World,
    *,
    name: str,
    kind: str = Kind.DEPLOYMENT.name,
    traits: Mapping[str, Any] | None = None,
    volumes: tuple[Mapping[str, str], ...] = (),
    budget: Mapping[str, str] | None = None,
    tolerates_all: bool = False,
    **pod: Any,
) -> None:
    if tolerates_all:
        pod["rules"] = Rules(tolerations=(Toleration(operator="Exists"),))
    held = tuple(Volume(kind=VolumeKind[each["kind"]], name=each["name"]) for each in volumes)
    world.deploy(name, kind=Kind[kind], traits=Traits(**(traits or {})), volumes=held, **pod)
    if budget:
        world.protect(name, **budget)
