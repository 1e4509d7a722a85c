"""The liveness checks of a world."""

from typing import TYPE_CHECKING

from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.liveness.finishing import Finishing
from nodefleet_tools.sim.liveness.healing import Healing
from nodefleet_tools.sim.liveness.interruptions import Interruptions
from nodefleet_tools.sim.liveness.mutes import Mutes
from nodefleet_tools.sim.liveness.pods import Pods
from nodefleet_tools.sim.liveness.quiet import Quiet
from nodefleet_tools.sim.liveness.resting import RestingCost
from nodefleet_tools.sim.liveness.rotating import Rotating
from nodefleet_tools.sim.liveness.shrinking import Shrinking
from nodefleet_tools.sim.liveness.standby import Standby
from nodefleet_tools.sim.liveness.warm import Warm

if TYPE_CHECKING:
    from nodefleet_tools.sim.world import World

EVERY = 30.0  # seconds of simulated time between two polls
CHECKS: tuple[type[Check], ...] = (
    Finishing,
    Healing,
    Interruptions,
    Mutes,
    Pods,
    Quiet,
    RestingCost,
    Rotating,
    Shrinking,
    Standby,
    Warm,
)
_WHO = "liveness"


class Liveness:
    def __init__(self, world: "World") -> None:
        self._world = world
        self.checks: list[Check] = [each(world) for each in CHECKS]
        self.running = False

    def begin(self) -> None:
        """The clocks start: from now on a schedule starts runs, and nothing is wrong with the world that it does not
        show."""
        if self.running:
            return
        self.running = True
        for check in self.checks:
            check.begun()
        self.poll()
        self._world.clock.every(EVERY, self.poll)

    def poll(self) -> None:
        for check in self.checks:
            for detail in check.broken():
                self._world.guard.broken(_WHO, check.rule, detail)

    @property
    def awaited(self) -> list[str]:
        """What is not as it must be yet, and is not overdue."""
        return [subject for check in self.checks for subject in check.awaited]
