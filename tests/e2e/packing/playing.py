"""Many worlds at once, one phase after the other: all wait for the slowest, and one look at the API serves all.

A world's workload surges; the loop looks, buys, looks again and buys once more. Then the same surge is played again
with two nodes fewer than the first iteration bought. (What the second one bought makes up for where the scheduler
happened to put the pods, which is different each time, so nothing can be said about that.)
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from e2e.parts.running import RunningParts
from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.cluster import from_kubeconfig
from nodefleet.model.inventory import Instance
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import Pod, PodPhase
from nodefleet.reconcile.audit import CycleResult  # noqa: TC001  # what stands here is also read at run time
from nodefleet.scheduling.packing import PackingResult

from .rest import Rest
from .workloads import WORLD_LABEL, App, Workload
from .worlds import World

AT_ONCE = 30  # worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """One iteration, and what came of it when everything had come to rest."""

    packed: PackingResult
    bought: tuple[Instance, ...]
    waited: tuple[Pod, ...]  # that no node was found for before the iteration
    waiting: tuple[Pod, ...]  # … and afterwards

    @property
    def never(self) -> tuple[tuple[str, str], ...]:
        """Pods by namespace/name that nothing could hold, and why."""
        of_pools = [pair for each in self.packed.by_pool.values() for pair in each.cannot_hold]
        return (*of_pools, *self.packed.unplaceable)

    @property
    def said_never(self) -> Counter[str]:
        """How many pods of each app nothing could hold. Which of an app's replicas it is makes no difference."""
        keys = {key for key, _ in self.never}
        return Counter(pod.labels["app"] for pod in self.waited if pod.key in keys)

    @property
    def left(self) -> Counter[str]:
        """How many pods of each app still waited when everything had come to rest."""
        return Counter(pod.labels["app"] for pod in self.waiting)


@dataclass(slots=True, kw_only=True)
class Played:
    workload: Workload
    cycles: list[Cycle] = field(default_factory=list)
    without: tuple[str, ...] = ()  # instances of the first iteration that were left out the second time
    left_over: tuple[str, ...] = ()  # apps whose pods then found no place, of those that ran before


def surges(parts: RunningParts, workloads: Sequence[Workload]) -> dict[int, Played]:
    """By seed, what came of each workload."""
    found: dict[int, Played] = {}
    for start in range(0, len(workloads), AT_ONCE):
        with stage(parts, workloads[start : start + AT_ONCE]) as scene:
            found |= {played.workload.seed: played for played in _played(scene)}
    return found


class Stage:
    """Worlds that are played together."""

    def __init__(self, parts: RunningParts, workloads: Sequence[Workload]) -> None:
        client = from_kubeconfig(str(parts.kubeconfig))
        whole = KubernetesCluster(client)
        self.rest = Rest(lambda: _of_worlds(whole.view(), workloads), parts.control_plane.scheduler_metrics)
        self.worlds = [World(workload, client, lambda: self.rest.last) for workload in workloads]

    def join(self) -> None:
        """What was launched boots. That takes longer than a second, and the API tells times to the second."""
        time.sleep(1)
        for world in self.worlds:
            world.machines.join()

    def wait(self, apps_of: Callable[[Workload], Sequence[App]]) -> None:
        self.rest.wait([app for world in self.worlds for app in apps_of(world.workload)])


@contextmanager
def stage(parts: RunningParts, workloads: Sequence[Workload]) -> Iterator[Stage]:
    """All worlds with what runs before anything happens; they are gone afterwards."""
    scene = Stage(parts, workloads)
    try:
        for world in scene.worlds:
            world.found()
        scene.wait(_before)
        yield scene
    finally:
        for world in scene.worlds:
            world.end()


def _before(workload: Workload) -> Sequence[App]:
    return workload.settled


def _all(workload: Workload) -> Sequence[App]:
    return (*workload.settled, *workload.surge)


def _played(scene: Stage) -> list[Played]:
    played = [Played(workload=world.workload) for world in scene.worlds]
    for world in scene.worlds:
        world.create(world.workload.surge)
    scene.wait(_all)
    for _ in range(3):  # the first, the further one, and one that must find nothing left to do
        _cycle(scene, played)
    running = [_running(world) for world in scene.worlds]
    for world, each in zip(scene.worlds, played, strict=True):
        each.without = tuple(_emptiest(world, each.cycles[0].bought))
        world.delete(world.workload.surge)
    scene.wait(_before)
    for world, each in zip(scene.worlds, played, strict=True):
        later = (machine.id for cycle in each.cycles[1:] for machine in cycle.bought)
        for machine in (*each.without, *later):
            world.machines.vanish(machine)
        world.create(world.workload.surge)
    scene.wait(_all)
    for world, each, before in zip(scene.worlds, played, running, strict=True):
        each.left_over = tuple(sorted((before - _running(world)).elements()))
    return played


def _cycle(scene: Stage, played: Sequence[Played]) -> None:
    looks: list[tuple[CycleResult, tuple[Instance, ...], tuple[Pod, ...]]] = []
    for world in scene.worlds:
        waited = tuple(world.waiting())
        had = set(world.machines.instances())
        came = world.look()
        looks.append((came, tuple(each for each in world.machines.instances() if each not in had), waited))
    if any(bought for _, bought, _ in looks):
        scene.join()
        scene.wait(_all)
    for world, each, (came, bought, waited) in zip(scene.worlds, played, looks, strict=True):
        cycle = Cycle(
            packed=world.packed(came.observation), bought=bought, waited=waited, waiting=tuple(world.waiting())
        )
        each.cycles.append(cycle)


def _of_worlds(view: ClusterView, workloads: Sequence[Workload]) -> ClusterView:
    """Without what others have on the same control plane."""
    worlds = {workload.name for workload in workloads}
    namespaces = {name for workload in workloads for name in workload.namespaces}
    return ClusterView(
        nodes=tuple(node for node in view.nodes if node.labels.get(WORLD_LABEL) in worlds),
        pods=tuple(pod for pod in view.pods or () if pod.namespace in namespaces),
        budgets=tuple(budget for budget in view.budgets if budget.namespace in namespaces),
        daemon_sets=tuple(each for each in view.daemon_sets if each.namespace in namespaces),
    )


def _running(world: World) -> Counter[str]:
    """How many pods of each app run."""
    return Counter(pod.labels["app"] for pod in world.pods() if pod.phase is PodPhase.RUNNING)


def _emptiest(world: World, bought: Sequence[Instance]) -> list[str]:
    """The two of these instances on which least is asked for; of two only one, and the last one stays."""
    nodes = {node.name: node.allocatable for node in world.cluster.view().nodes}
    load: Counter[str] = Counter({machine.id: 0 for machine in bought})
    for pod in world.pods():
        if pod.node in load:
            size = nodes[pod.node]
            load[pod.node] += max(1000 * pod.requests.cpu // size.cpu, 1000 * pod.requests.memory // size.memory)
    return sorted(load, key=lambda name: (load[name], name))[: min(2, max(0, len(bought) - 1))]
