"""Small worlds for tests: some workers, some readings, some pods, at a time of day."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from nodefleet.eviction.budgets import BudgetTracker
from nodefleet.model.decision import Decision, PoolDecision
from nodefleet.model.inventory import Instance, InstanceType, Market, Node, Resources
from nodefleet.model.snapshot import ClusterView, LaunchTarget, Observation, PoolReadings, Reading, Sample
from nodefleet.model.state import Memory
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Budget, BudgetStatus, Owner, Pod, PodPhase
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.scheduling.templates import Template, template_source

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
GIB = 1 << 30
SMALL = Resources(cpu=2000, memory=2 * GIB, pods=30)
CATALOG = (
    InstanceType(name="t3.small", resources=SMALL),
    InstanceType(name="t3a.small", resources=SMALL),
    InstanceType(name="t2.small", resources=SMALL),
)
TARGET = LaunchTarget(template="lt-1", template_version="3", subnets={"a": "subnet-a", "b": "subnet-b"})


def after(seconds: float, start: datetime = NOON) -> datetime:
    return start + timedelta(seconds=seconds)


_LAUNCHED, _BECAME_READY = after(-86400), after(-80000)
_HALF_A_CORE = Resources(cpu=500, memory=GIB // 4)


def instance(number: int, **changes: object) -> Instance:
    """Zones take turns; the first is On-Demand, the others Spot."""
    fields = {
        "id": f"i-{number:03}",
        "zone": "ab"[number % 2],
        "launched_at": _LAUNCHED,
        "market": Market.ON_DEMAND if number == 0 else Market.SPOT,
    }
    return Instance(**(fields | changes))


def node(number: int, **changes: object) -> Node:
    name = f"w{number:03}"
    fields = {
        "name": name,
        "instance": f"i-{number:03}",
        "ready_changed_at": _BECAME_READY,
        "labels": {
            ZONE_LABEL: "ab"[number % 2],
            TYPE_LABEL: "t3.small",
            HOST_LABEL: name,
            "node-fleet.io/pool": "default",
        },
        "allocatable": SMALL,
    }
    return Node(**(fields | changes))


def pod(name: str, on: str | None = None, **changes: object) -> Pod:
    """A replica of a deployment of three that asks for half a core."""
    app = name.split("-", maxsplit=1)[0]
    fields = {
        "name": name,
        "uid": name,
        "node": on,
        "labels": {"app": app},
        "owner": Owner(kind="ReplicaSet", name=app, uid=f"rs-{app}", replicas=3),
        "requests": _HALF_A_CORE,
    }
    return Pod(**(fields | changes))


def waiting(name: str, **changes: object) -> Pod:
    """A pod that the scheduler found no node for."""
    return pod(name, None, **{"phase": PodPhase.PENDING, "ready": False, "unschedulable_since": NOON, **changes})


def look(
    workers: int | Iterable[int] = 3,
    *,
    at: datetime = NOON,
    cpu: Sample | float = 50.0,
    memory: Sample | float = 60.0,
    pending: int = 0,
    pods: Iterable[Pod] | None = None,
    instances: Iterable[Instance] = (),
    nodes: Iterable[Node] = (),
    custom: Mapping[str, float] | None = None,
    idle: Mapping[str, float] | None = None,
    budgets: tuple = (),
    **changes: object,
) -> Observation:
    """So many ready workers, and what was measured at this very moment. With `pods` the API's pod objects are known."""
    numbers = range(workers) if isinstance(workers, int) else list(workers)
    fields = {
        "at": at,
        "instances": (*map(instance, numbers), *instances),
        "kubernetes": ClusterView(
            nodes=(*map(node, numbers), *nodes),
            pods=None if pods is None else tuple(pods),
            unschedulable={"default": pending} if pending else {},
            budgets=budgets,
        ),
        "readings": {
            "default": PoolReadings(
                cpu=_sample(cpu, at),
                memory=_sample(memory, at),
                custom={name: _sample(value, at) for name, value in (custom or {}).items()},
                idle=idle or {},
            )
        },
        "targets": (TARGET,),
        "catalog": CATALOG,
    }
    return Observation(**(fields | changes))


def _sample(value: Sample | float, at: datetime) -> Sample:
    return Reading(float(value), at) if isinstance(value, int | float) else value


def only(decision: Decision) -> PoolDecision:
    """The decision of the one pool there is."""
    (pool,) = decision.pools
    return pool


def calm_for(looks: int, policy: Policy, **scene: object) -> tuple[Memory, datetime]:
    """The memory after so many quiet iterations, an interval apart, and the time of the next one."""
    from nodefleet.engine.decide import decide  # noqa: PLC0415  # builders serve tests that do not need the engine

    memory, at = Memory(), NOON
    for _ in range(looks):
        memory = decide(look(at=at, **scene), memory, policy).memory
        at += policy.interval
    return memory, at


def allowance(budget: Budget, pods: Iterable[Pod]) -> BudgetStatus:
    """How one budget stands with these pods."""
    return BudgetTracker([budget], pods).status(budget)


def templates(pool: Pool, observation: Observation) -> tuple[Template, ...]:
    """What the pool could launch, by the observation alone."""
    return template_source(observation).templates(pool)
