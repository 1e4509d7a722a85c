"""Churn: while nothing changes but what consolidation does, each consolidated node leaves a cheaper fleet behind.

A removal that makes the pool buy a node again, which is consolidated in its turn, comes back to a bill that was there
before: that is the violation. The bill is the sum of list prices of a pool's live workers without the one that leaves.

The comparison starts again when something else changed: a worker left by another way, a workload, its use of CPU or the
policy changed, or a launch may have another cause: a forecast, a window, a command, a reading of the pool's own, an
announcement of EC2, a node that is not ready, an operator's instance. That is seen at each launch and at each
consolidated node, so an increase that was met by a launch is never held against consolidation.

Of several nodes that one new node replaces only the last one is compared, with the bill before the first: until it has
left, the new node is paid for beside it.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nodefleet.model.inventory import Market
from nodefleet.model.operations import Removal
from nodefleet.model.snapshot import add_up
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.instances import OPERATOR, SimulatedInstance
from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from nodefleet_tools.sim.invariants import Guard
    from nodefleet_tools.sim.world import World

_LESS = 1e-9  # USD an hour: sums of prices in another order differ by less


@dataclass(frozen=True, slots=True, kw_only=True)
class _Consolidated:
    """The pool after the last consolidated node."""

    demand: Any
    workers: frozenset[str]
    usd: float  # an hour


class Churn:
    def __init__(self, guard: "Guard", world: "World") -> None:
        self._guard = guard
        self._world = world
        self._last: dict[str, _Consolidated] = {}  # by pool

    def launched(self, pool: str) -> None:
        known = self._last.get(pool)
        if known is not None and known.demand != self._demand(pool):
            del self._last[pool]

    def terminated(self, run: Run, machine: SimulatedInstance) -> None:
        if not machine.live or not self._is_consolidated(machine):
            return
        pool, world = machine.pool, self._world
        live = {each.id: each for each in world.ec2.live_workers(pool)}
        left = [each for each in live.values() if each.id != machine.id]
        now = _Consolidated(
            demand=self._demand(pool),
            workers=frozenset(each.id for each in left),
            usd=add_up(map(self._hourly_usd, left)),
        )
        before = self._last.get(pool)
        if before is not None and now.demand is not None and self._others_follow(pool):
            self._last[pool] = replace(before, workers=before.workers - {machine.id})
            return
        same = before is not None and before.demand == now.demand and before.workers <= live.keys()
        if before is not None and same and now.usd > before.usd - _LESS:
            detail = (
                f"{machine.id} left pool {pool} at {now.usd:.4f} USD an hour,"
                f" and it was at {before.usd:.4f} after the last consolidated node"
            )
            self._guard.broken(run.name, Rule.CHURN, detail)
        if now.demand is None:
            self._last.pop(pool, None)
        else:
            self._last[pool] = now

    def _is_consolidated(self, machine: SimulatedInstance) -> bool:
        removals = (each for each in self._world.table.operations if isinstance(each, Removal))
        return any(each.instance == machine.id and each.consolidates for each in removals)

    def _others_follow(self, pool: str) -> bool:
        """More nodes are to leave for the one that came for this one."""
        state = self._world.table.journal.memory.pool(pool).rotation
        return state is not None and bool(state.together)

    def _demand(self, pool: str) -> Any:
        """What decides how many nodes there are; none: not to be compared."""
        world, conditions, prometheus = self._world, self._world.conditions, self._world.prometheus
        known, rules = world.table.journal.memory.pool(pool), world.policy.pool(pool)
        works = conditions.launches_work and conditions.readings_are_true and conditions.lists_are_true
        if rules is None or rules.windows or conditions.paused or not works or world.table.notices:
            return None
        if known.forecast or known.adaptive or any(key[0] == pool for key in (*prometheus.custom, *prometheus.fixed)):
            return None
        if any(node.pool == pool and not node.ready for node in world.kube.nodes.values()):
            return None
        if any(each.by == OPERATOR or each.interrupted_at or each.failed for each in world.ec2.live_workers(pool)):
            return None
        workloads = {
            uid: (each.replicas, len(each.done), each.template.requests, round(each.traits.cpu_use, 1))
            for uid, each in world.controllers.workloads.items()
        }
        return (world.policy, workloads)

    def _hourly_usd(self, machine: SimulatedInstance) -> float:
        offer = self._world.ec2.shop.types[machine.type]
        price = offer.spot_usd if machine.market is Market.SPOT else offer.hourly_usd
        return price or 0.0
