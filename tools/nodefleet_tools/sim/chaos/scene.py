"""The cluster at the beginning of a seed: a policy, workers, workloads that may and may not be moved, budgets."""

from random import Random
from typing import Any

from nodefleet.domain.workload import SAFE_TO_EVICT, Volume, VolumeKind
from nodefleet_tools.sim.chaos.drawing import chance, coin
from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.kube import KubeSettings, Traits
from nodefleet_tools.sim.machines import CloudSettings
from nodefleet_tools.sim.workloads import Kind, Workload
from nodefleet_tools.sim.world import World

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
SECOND_POOL = "batch"


def policy(random: Random) -> dict[str, Any]:
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


def staged(plan: Plan) -> World:
    random = plan.random("scene")
    rules = policy(random)
    world = World(
        seed=plan.seed,
        policy=rules,
        zones=ZONES[: random.choice((1, 2, 2, 3))],
        cloud=CloudSettings(
            shows_in=random.choice(((0.0, 0.0), (0.0, 10.0), (5.0, 60.0))),
            read_lag=random.choice((0.0, 0.0, 5.0, 20.0)),
            listed_for=random.choice((60.0, 600.0, 3600.0)),
        ),
        kubernetes=KubeSettings(
            never_joins=random.choice((0.0, 0.0, 0.0, 0.2, 0.6)), joins_late=random.choice((0.0, 0.0, 0.1, 0.4))
        ),
    )
    for pool in world.policy.pools:
        if chance(random, 0.8):
            world.add_workers(random.randint(pool.limits.min, pool.limits.max), pool=pool.name)
    _deploy(world, random)
    world.settle()
    return world


def _deploy(world: World, random: Random) -> None:
    for number in range(random.randint(1, 4)):
        workload = _service(world, random, f"app{number}")
        if coin(random):
            _protect(world, random, workload.name)
    world.deploy("agent", kind=Kind.DAEMON_SET, cpu=20, memory=16)
    if chance(random, 0.3):
        world.deploy("dns", namespace="kube-system", replicas=1, cpu=50)
    if chance(random, 0.3):
        world.deploy("jobs", kind=Kind.JOB, replicas=random.randint(1, 6), cpu=300, traits=Traits(runs_for=400.0))
    if chance(random, 0.2):
        kept = Volume(kind=random.choice((VolumeKind.LOCAL, VolumeKind.CLAIM)), name="data")
        world.deploy("db", kind=Kind.STATEFUL_SET, replicas=random.randint(1, 3), cpu=200, volumes=(kept,))


def _service(world: World, random: Random, name: str) -> Workload:
    return world.deploy(
        name,
        replicas=random.choice((1, 1, 2, 3, 5, 7)),
        cpu=random.choice((100, 300, 600, 1000)),
        traits=Traits(
            stops_in=random.choice((2.0, 2.0, 25.0)),
            stuck=chance(random, 0.05),
            cpu_use=random.choice((0.05, 0.1, 0.5, 1.5)),
        ),
        annotations={SAFE_TO_EVICT[0]: random.choice(("true", "false"))} if chance(random, 0.1) else {},
    )


def _protect(world: World, random: Random, app: str) -> None:
    if coin(random):
        world.protect(app, max_unavailable=random.choice(("0", "1", "50%")))
    else:
        world.protect(app, min_available=random.choice(("1", "2", "70%")))
