"""All that a seed is played with."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from nodefleet.model.inventory import Market, Node
from nodefleet_tools.sim.chaos.fault_injection import Strikes
from nodefleet_tools.sim.chaos.invocations import Invocations
from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.instances import SimulatedInstance
from nodefleet_tools.sim.world import World


@dataclass(slots=True, kw_only=True)
class Stage:
    plan: Plan
    world: World
    strikes: Strikes
    invocations: Invocations
    figures: Counter[str] = field(default_factory=Counter)
    snapshot: tuple[Node, ...] = ()  # of the API server's store, to be restored from
    dead: set[str] = field(default_factory=set)  # nodes that do not come back when the trouble is over
    lasting: set[str] = field(default_factory=set)  # pods and workloads whose trouble goes on when all else is well

    def any_worker(self, random: Random, market: Market | None = None) -> SimulatedInstance | None:
        """One that runs, of any pool."""
        there = [each for each in self.world.ec2.live_workers() if market in (None, each.market)]
        return random.choice(there) if there else None

    def any_node(self, random: Random) -> Node | None:
        there = [node for node in self.world.kube.nodes.values() if node.pool is not None]
        return random.choice(there) if there else None
