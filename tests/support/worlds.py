"""Simulated clusters for tests of the loop: some scenes, and ticks that run the shipped code in them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from nodefleet.model.inventory import Market, Notice
from nodefleet.model.operations import Operation
from nodefleet.ports import RunResult
from nodefleet.reconcile.emergency_drain import drain_interrupted
from nodefleet.reconcile.run import run
from nodefleet_tools.sim.hooks import Hook, KilledError
from nodefleet_tools.sim.world import World

TICK = timedelta(seconds=120)
QUICK = {"limits": {"min": 2, "max": 6}}


class Cluster:
    """A world with a schedule: every tick is a run, as EventBridge would start it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ticks = 0
        self.began = world.now

    def tick(self, *hooks: Hook, limit: timedelta = TICK) -> RunResult | None:
        """The next run of the schedule; none if it was killed."""
        self.ticks += 1
        self.world.clock.advance_to(max(self.world.now, self.began + self.ticks * TICK))
        return self.run(f"tick-{self.ticks}", *hooks, limit=limit)

    def look(self, *hooks: Hook) -> RunResult | None:
        """The next run, with time for one iteration only."""
        return self.tick(*hooks, limit=timedelta(seconds=24))

    def run(self, owner: str, *hooks: Hook, urgent: bool = False, limit: timedelta = TICK) -> RunResult | None:
        try:
            return run(self.world.parts(owner, hooks=hooks, limit=limit), owner=owner, urgent=urgent)
        except KilledError:
            return None

    def warned(self, notices: Sequence[Notice], *hooks: Hook, owner: str = "warned") -> RunResult | None:
        """EC2's warning reaches the function."""
        parts = self.world.parts(owner, hooks=hooks, limit=timedelta(seconds=150))
        try:
            return drain_interrupted(parts, notices, partial(run, parts, owner=owner))
        except KilledError:
            return None

    def until(self, reached: Callable[[], bool], *hooks: Hook, ticks: int = 60) -> int:
        """Ticks until something is so; the count of those that it took."""
        for number in range(ticks):
            if reached():
                return number
            self.tick(*hooks)
        assert reached(), f"not reached within {ticks} ticks"
        return ticks

    def calm(self, ticks: int) -> None:
        for _ in range(ticks):
            self.tick()

    def must_live(self) -> "Cluster":
        """From now on the schedule has to bring about in time what must happen, or it is a violation."""
        self.world.liveness.begin()
        return self

    @property
    def operations(self) -> tuple[Operation, ...]:
        return self.world.parts("reader").store.state().operations

    @property
    def calls(self) -> list[str]:
        """The external calls of the last tick."""
        return self.world.runs[f"tick-{self.ticks}"].log


def empty(**policy: object) -> Cluster:
    """Nothing but the control plane: the first workers are the autoscaler's own job."""
    world = World(seed=1, policy={**QUICK, **policy})
    world.settle()
    return Cluster(world)


def shop(workers: int = 3, replicas: int = 4, cpu: int = 500, **policy: object) -> Cluster:
    """A shop that runs: its pods fit, and nothing happens."""
    world = World(seed=1, policy={**QUICK, **policy})
    world.add_workers(workers)
    world.deploy("shop", replicas=replicas, cpu=cpu)
    world.settle()
    return Cluster(world)


def spot_worker(world: World) -> str:
    return next(machine.id for machine in world.workers() if machine.market is Market.SPOT)
