"""A world as a scenario describes it, before its start. What will happen in it is put on its clock by `acting`.

The same scenario can be staged with a fixed fleet in place of the autoscaled one: same seed, same load, no autoscaler,
and nothing that only happens to a fleet that comes and goes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from nodefleet.model.inventory import Market
from nodefleet.model.workload import ZONE_LABEL, Rules, Toleration
from nodefleet_tools.sim.instances import CloudSettings
from nodefleet_tools.sim.kube import KubeSettings, Traits
from nodefleet_tools.sim.load import Service
from nodefleet_tools.sim.scenarios.model import (
    Backlog,
    BusyPods,
    Latency,
    Rate,
    ReadingSpec,
    Scenario,
    Scripted,
    ServiceSpec,
    Span,
    WorkloadKind,
    WorkloadSpec,
)
from nodefleet_tools.sim.shapes import Demand, Ground, Shape, demand
from nodefleet_tools.sim.traces import Points
from nodefleet_tools.sim.workloads import Kind
from nodefleet_tools.sim.world import World

_KINDS = {
    WorkloadKind.DEPLOYMENT: Kind.DEPLOYMENT,
    WorkloadKind.STATEFUL_SET: Kind.STATEFUL_SET,
    WorkloadKind.DAEMON_SET: Kind.DAEMON_SET,
    WorkloadKind.JOB: Kind.JOB,
}
GPU = "nvidia.com/gpu"
_LONGEST_MS = 60_000.0  # what a histogram of latencies shows at most
_CPU_AND_MEMORY = ("cpu", "memory")


@dataclass(slots=True, kw_only=True)
class Stage:
    world: World
    scenario: Scenario
    fixed: int | None  # a fleet of so many workers that is not scaled
    services: dict[str, Service] = field(default_factory=dict)  # by the workload that serves it


def stage(
    scenario: Scenario,
    *,
    traces: Mapping[str, Points] | None = None,
    fixed: int | None = None,
    at: datetime | None = None,
) -> Stage:
    """The world before its start; `at` lets it start earlier, for the days before."""
    cluster = scenario.cluster
    world = World(
        seed=scenario.seed,
        start=at or scenario.starts,
        policy=scenario.policy,
        zones=cluster.zones,
        cloud=CloudSettings(boots_in=_range(cluster.boots)),
        kubernetes=KubeSettings(
            joins_in=_range(cluster.joins), ready_in=_range(cluster.ready), devices_in=_range(cluster.devices)
        ),
    )
    pool = world.policy.pools[0].name
    if fixed is None:
        world.add_workers(cluster.workers, pool=pool, type_=cluster.type)
        world.add_warm(cluster.warm, pool=pool, type_=cluster.type)
    else:
        world.add_workers(fixed, pool=pool, market=Market.ON_DEMAND, type_=cluster.type)
    set_up = Stage(world=world, scenario=scenario, fixed=fixed)
    for workload in scenario.workloads:
        _deploy(world, workload)
    ground = Ground(starts=scenario.starts, seed=str(scenario.seed), traces=traces)
    for spec in scenario.services:
        set_up.services[spec.workload] = world.load.add(_service(world, spec, ground))
    for reading in scenario.readings:
        _show(world, reading, set_up.services, ground)
    return set_up


def _range(span: Span) -> tuple[float, float]:
    return (span.least, span.most)


# ── what runs ────────────────────────────────────────────────────────────────────────────────────────────────────


def _deploy(world: World, spec: WorkloadSpec) -> None:
    world.deploy(
        spec.name,
        kind=_KINDS[spec.kind],
        replicas=spec.replicas,
        cpu=spec.cpu,
        memory=spec.memory,
        extended={GPU: spec.gpus} if spec.gpus else {},
        rules=Rules(
            tolerations=tuple(Toleration(key=key, operator="Exists") for key in spec.tolerates),
            node_selector={ZONE_LABEL: spec.zone} if spec.zone else {},
        ),
        namespace=spec.namespace,
        priority=spec.priority,
        traits=Traits(
            starts_in=spec.starts_in.total_seconds(),
            stops_in=spec.stops_in.total_seconds(),
            runs_for=spec.runs_for.total_seconds() if spec.runs_for else None,
            cpu_use=spec.cpu_use,
            memory_use=spec.memory_use,
        ),
    )
    if spec.budget:
        world.protect(
            spec.name,
            min_available=spec.budget.min_available,
            max_unavailable=spec.budget.max_unavailable,
            namespace=spec.namespace,
        )


def _service(world: World, spec: ServiceSpec, ground: Ground) -> Service:
    replicas = spec.replicas
    return Service(
        workload=world.controllers.named(spec.workload),
        demand=_demand(spec.load, ground, spec.workload),
        per_pod=spec.per_pod,
        base_ms=spec.base_ms,
        slo_ms=spec.slo_ms,
        replicas=(replicas.min, replicas.max) if replicas else None,
        target=replicas.target if replicas else 1.0,
    )


def _demand(shapes: Sequence[Shape], ground: Ground, name: str) -> Demand:
    return demand(shapes, replace(ground, seed=f"{ground.seed}/{name}"))


def _show(world: World, spec: ReadingSpec, services: Mapping[str, Service], ground: Ground) -> None:
    measured = world.prometheus.fixed if spec.name in _CPU_AND_MEMORY else world.prometheus.custom
    measured[spec.pool, spec.name] = _measure(world, spec, services, ground)


def _measure(world: World, spec: ReadingSpec, services: Mapping[str, Service], ground: Ground) -> Callable[[], float]:
    match spec.shows:
        case Backlog(service=name, divided_by=parts):
            return lambda: services[name].backlog / parts
        case Latency(service=name):
            return lambda: min(_LONGEST_MS, services[name].latency_ms)
        case Rate(service=name):
            return lambda: services[name].asked
        case BusyPods(service=name, divided_by=parts):
            return lambda: services[name].busy_pods / parts
        case Scripted(load=load):
            scripted = _demand(load, ground, spec.name)
            return lambda: scripted(world.now)
        case _:
            assert_never(spec.shows)
