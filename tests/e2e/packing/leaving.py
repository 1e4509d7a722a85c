"""Clusters with more nodes than they need, played together: the loop lets one node go after the other.

It chooses who leaves, cordons it, evicts its pods through the real Eviction API, and forgets the node. That goes on
until it says that nobody else can leave. It may buy as well: if the pods found no place, it would. Either the signals
are calm and shrink the fleet, or they are not and consolidation does.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from e2e.parts.running import RunningParts
from e2e.site.waiting import LONGEST
from nodefleet.model.decision import Action, PoolDecision

from .playing import Stage, stage
from .workloads import Workload
from .worlds import World

_PATIENCE = LONGEST  # for one removal, in all worlds at once
_PAUSE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A node that left, and how it went."""

    node: str
    did: tuple[str, ...]
    waiting: tuple[str, ...]  # pods that had no place when everything was at rest
    fullness: float  # of the workers before it left: the share of their scarcer resource that pods ask for

    @property
    def evicted(self) -> bool:
        return any("evicted from" in did for did in self.did)


@dataclass(slots=True, kw_only=True)
class Emptied:
    workload: Workload
    waited: tuple[str, ...]  # pods without a place before anything happened
    left: list[Left] = field(default_factory=list)
    launched: tuple[str, ...] = ()
    stays: str = ""  # why nobody else left
    workers: int = 0  # before the first left
    bound: int = 0  # workers that no packing of the pods can do without, where only consolidation acts
    unschedulable: set[str] = field(default_factory=set)  # pods that found no node at any look, after that

    @property
    def remaining(self) -> int:
        return self.workers + len(self.launched) - len(self.left)


def removals(parts: RunningParts, workloads: Sequence[Workload], *, calm: bool = True) -> dict[int, Emptied]:
    """By seed, who left each cluster. `calm`: the signals ask for it; else only consolidation does."""
    with stage(parts, workloads) as scene:
        _fill(scene)
        played = [(world, _begun(world)) for world in scene.worlds]
        for world, each in played:
            each.bound = 0 if calm else world.bound()
        going_on = played
        while going_on:
            going_on = _round(scene, going_on, calm=calm)
        return {each.workload.seed: each for _, each in played}


def _fill(scene: Stage) -> None:
    """Pods that do not fit from the start get their nodes first."""
    for _ in range(2):
        for world in scene.worlds:
            world.look()
        scene.join()
        scene.wait(lambda workload: workload.settled)


def _begun(world: World) -> Emptied:
    waited = tuple(pod.key for pod in world.waiting())
    return Emptied(workload=world.workload, waited=waited, workers=len(world.workers()))


def _round(scene: Stage, played: Sequence[tuple[World, Emptied]], *, calm: bool) -> list[tuple[World, Emptied]]:
    """One removal in each of these worlds, until everything is at rest. Gives those in which one more may leave."""
    before = {world.workload.seed: world.workers() for world, _ in played}
    fullness = {world.workload.seed: world.fullness() for world, _ in played}
    did: dict[int, list[str]] = {world.workload.seed: [] for world, _ in played}
    leaving = _chosen(played, did, calm=calm)
    _until_gone(scene, leaving, did)
    scene.wait(lambda workload: workload.settled)
    going_on = []
    for world, each in leaving:
        seed, now = world.workload.seed, world.workers()
        each.launched += tuple(now - before[seed])
        waiting = tuple(pod.key for pod in world.waiting())
        each.left += [
            Left(node=node, did=tuple(did[seed]), waiting=waiting, fullness=fullness[seed])
            for node in before[seed] - now
        ]
        if before[seed] != now and not waiting:
            going_on.append((world, each))
    return going_on


def _chosen(
    played: Sequence[tuple[World, Emptied]], did: dict[int, list[str]], *, calm: bool
) -> list[tuple[World, Emptied]]:
    """The worlds in which a node leaves after a while; the others say why none does."""
    leaving = []
    for world, _ in played:
        world.gauges.calm = calm
        _looked(world, did)
    time.sleep(1)  # a reading counts again after this
    for world, each in played:
        decision = _looked(world, did)
        world.gauges.calm = False
        each.stays = decision.reason
        if decision.action is not Action.HOLD or world.under_way:
            leaving.append((world, each))
    return leaving


def _until_gone(scene: Stage, played: Sequence[tuple[World, Emptied]], did: dict[int, list[str]]) -> None:
    until = time.monotonic() + _PATIENCE
    while open_in := [(world, each) for world, each in played if world.under_way]:
        assert time.monotonic() < until, f"still under way: {[world.under_way for world, _ in open_in]}"
        scene.rest.look()
        for world, each in open_in:
            each.unschedulable |= {pod.key for pod in world.pods() if pod.unschedulable_since is not None}
            _looked(world, did)
            world.machines.join()
        time.sleep(_PAUSE)


def _looked(world: World, did: dict[int, list[str]]) -> PoolDecision:
    came = world.look()
    did[world.workload.seed] += came.did
    (pool,) = came.decision.pools
    return pool
