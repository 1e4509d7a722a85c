"""Input that all pools share: pods by node, disruption budgets, room, and the packing of pending pods.

Each part is computed when it is first needed, and once an iteration.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from nodefleet.engine.context import PoolContext, RemovalContext
from nodefleet.eviction.budgets import BudgetTracker
from nodefleet.model.fleet import Worker
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.state import NOTHING_REMEMBERED, Backoff, Memory, PoolMemory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.scheduling.packing import PackingInput, PackingResult, pack_pools, packing_input
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import Template


class ClusterContext:
    def __init__(
        self,
        observation: Observation,
        found: PackingInput | None,
        *,
        muted: frozenset[str] = frozenset(),
        used_otherwise: bool = False,
    ) -> None:
        """`muted` are uids of pods that buy nothing now. `used_otherwise`: others took the places of some."""
        self._seen = observation
        self._found = found
        self._muted = muted
        self._used_otherwise = used_otherwise

    @classmethod
    def of(
        cls,
        observation: Observation,
        policy: Policy,
        fleet: Sequence[Worker],
        memory: Memory = NOTHING_REMEMBERED,
        capped: frozenset[str] = frozenset(),
    ) -> "ClusterContext":
        """`capped`: pools that a cap of the fleet leaves no room."""
        return cls(observation, packing_input(observation, policy, fleet, memory, capped))

    def without(self, muted: frozenset[str], *, used_otherwise: bool = False) -> "ClusterContext":
        """The same, with these pods left out too."""
        return ClusterContext(
            self._seen,
            self._found,
            muted=self._muted | muted,
            used_otherwise=self._used_otherwise or used_otherwise,
        )

    def templates(self, pool: str) -> tuple[Template, ...]:
        """What the pool could launch, as far as it is known."""
        return self._found.templates[pool] if self._found else ()

    @cached_property
    def packings(self) -> PackingResult | None:
        """What the pods that wait need, by pool; none if only their number is known."""
        if self._found is None:
            return None
        waiting = tuple(pod for pod in self._found.waiting if pod.uid not in self._muted)
        return pack_pools(replace(self._found, waiting=waiting, used_otherwise=self._used_otherwise))

    def count_more(self, pool: str, placeholders: Sequence[Pod]) -> int:
        """How many new nodes of the pool the pods that wait and these placeholders need together."""
        if self._found is None:
            return 0
        waiting = (pod for pod in self._found.waiting if pod.uid not in self._muted)
        packed = pack_pools(replace(self._found, waiting=(*waiting, *placeholders), used_otherwise=False))
        return packed.by_pool[pool].nodes

    @property
    def room(self) -> SchedulerSimulation:
        """The nodes that there are and those that boot, with their pods."""
        return self._found.simulation if self._found else SchedulerSimulation(())

    @cached_property
    def pods_by_node(self) -> Mapping[str, Sequence[Pod]] | None:
        """None if the pods cannot be seen."""
        view = self._seen.kubernetes
        if not isinstance(view, ClusterView) or view.pods is None:
            return None
        found: dict[str, list[Pod]] = defaultdict(list)
        for pod in view.pods:
            if pod.node:
                found[pod.node].append(pod)
        return found

    @cached_property
    def _ledger(self) -> BudgetTracker:
        view = self._seen.kubernetes
        return BudgetTracker(view.budgets, view.pods or ()) if isinstance(view, ClusterView) else BudgetTracker((), ())

    def ground(
        self, ctx: PoolContext, backoffs: tuple[Backoff, ...], unmeasured: frozenset[str] = frozenset()
    ) -> RemovalContext:
        """Input of the choice of nodes that leave."""
        ground = self.ground_of(ctx.workers, ctx.before, ctx.pool)
        return replace(ground, idle=ctx.readings.idle, unmeasured=unmeasured, backoffs=backoffs)

    def ground_of(self, workers: Sequence[Worker], before: PoolMemory, pool: Pool) -> RemovalContext:
        """The same for workers that nothing is measured of."""
        target = self._seen.target(pool.name)
        left = before.last_left
        zones = set(target.subnets) if target else {worker.zone for worker in workers}
        return RemovalContext(
            pods=self.pods_by_node,
            ledger=self._ledger,
            simulation=self.room,
            zones=len(zones),
            idle={},
            backoffs=before.backoffs,
            now=self._seen.at,
            settles=bool(left and self._seen.at - left < pool.removal.settle),
        )
