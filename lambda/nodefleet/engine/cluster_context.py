"""Input that all pools share: pods by node, disruption budgets, room, the packing of pending pods; and headroom.

Each part is computed when it is first needed, and once an iteration.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from nodefleet.capacity import spare_nodes
from nodefleet.engine.context import PoolContext, RemovalContext, headroom_times
from nodefleet.eviction.budgets import BudgetTracker
from nodefleet.model.decision import Bound, BoundSource, Rank, floor
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Resources, total
from nodefleet.model.names import POOL_LABEL, figure, pluralize
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.state import NOTHING_REMEMBERED, Backoff, Memory, PoolMemory
from nodefleet.model.workload import Pod, Rules, Toleration
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Headroom
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
        stopped: frozenset[str] = frozenset(),
    ) -> "ClusterContext":
        """`stopped`: pools that may not have a node more now."""
        return cls(observation, packing_input(observation, policy, fleet, memory, stopped))

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
            refused=self._refused,
        )

    @cached_property
    def _refused(self) -> frozenset[str]:
        """Owners of pods that buy nothing now: what packing says of their places is not what the scheduler does."""
        waiting = self._found.waiting if self._found and self._muted else ()
        return frozenset(pod.owner.uid for pod in waiting if pod.owner and pod.uid in self._muted)


# ── headroom ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Headroom: the floor that keeps part of a pool's capacity free.
#
# The scheduler simulation places placeholder pods after all pods that wait. Placeholders that find no room ask for new
# nodes; and a node may only leave while all of them still find room without it. The cluster itself never sees them, so
# nothing has to be evicted before a real pod can start.

_GIB = 1 << 30
_NOISE = 1e-9  # of a product of floats: 7 % of 100 pods are not eight


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    """So many placeholders of one size."""

    count: int
    size: Resources
    described: str  # room for 3 pods of 500m CPU and 512 MiB

    def placeholders(self, pool: Pool) -> tuple[Pod, ...]:
        """Pods that only this pool's nodes take. They tolerate its taints, and no other."""
        rules = Rules(
            node_selector={POOL_LABEL: pool.name},
            tolerations=tuple(Toleration(key=each.key, value=each.value, effect=each.effect) for each in pool.taints),
        )
        names = (f"headroom-{number}" for number in range(self.count))
        return tuple(Pod(namespace="", name=name, uid=name, requests=self.size, rules=rules) for name in names)


def headroom_bounds(ctx: PoolContext, cluster: ClusterContext, fewer: int) -> list[Bound]:
    """The floor that the pool's headroom asks for. `fewer`: how many nodes the other rules would let go.

    Nothing while pods, or what a new node holds, are unknown: then no placeholder can be placed.
    """
    demands = _demands(ctx, cluster)
    if not demands:
        return []
    bounds = []
    for demand in demands:
        more = cluster.count_more(ctx.pool.name, demand.placeholders(ctx.pool))
        if more:
            sentence = f"headroom of {demand.described} needs {pluralize(more, 'more node', 'more nodes')}"
            bounds.append(_floor(ctx.count.capacity + more, sentence))
        elif fewer:
            spare = _spare_nodes(ctx, cluster, demand, fewer)
            sentence = f"headroom of {demand.described} needs {pluralize(ctx.count.capacity - spare, 'node', 'nodes')}"
            bounds.append(_floor(ctx.count.capacity - spare, sentence))
    return bounds


def list_placeholders(ctx: PoolContext, cluster: ClusterContext) -> tuple[tuple[Pod, ...], ...]:
    """The placeholders of each amount that the pool keeps free: they must find room without a node that leaves."""
    return tuple(demand.placeholders(ctx.pool) for demand in _demands(ctx, cluster))


def _floor(nodes: int, sentence: str) -> Bound:
    # Like a window it is planned, so no cooldown holds it back; and an operator, max and safety overrule it.
    return floor(nodes, BoundSource.HEADROOM, Rank.WINDOW, sentence)


def _demands(ctx: PoolContext, cluster: ClusterContext) -> list[_Demand]:
    rules, templates = ctx.pool.headroom, cluster.templates(ctx.pool.name)
    if not rules.is_kept or not templates or cluster.pods_by_node is None:
        return []
    node = _smallest(templates)
    nodes = [worker.node.name for worker in ctx.workers if worker.node and worker.is_capacity]
    running = [pod.requests for name in nodes for pod in cluster.pods_by_node.get(name, ()) if pod.movable]
    times = headroom_times(ctx.pool, ctx.before, ctx.observation)
    size = _pod_size(rules, running, node, templates)
    demands = []
    if spare := spare_nodes(ctx.pool, ctx.fleet_size.peaks, ctx.observation.at, times):
        described = f"{pluralize(spare, 'node', 'nodes')}"
        demands.append(_Demand(count=spare, size=node, described=described))
    if pods := ceil(times * _pods(rules, running, size, node) - _NOISE):
        described = f"{pluralize(pods, 'pod', 'pods')} of {size.cpu}m CPU and {figure(size.memory / (1 << 20))} MiB"
        described += "".join(f" and {count} {name}" for name, count in size.extended.items())
        demands.append(_Demand(count=pods, size=size, described=described))
    return demands


def _smallest(templates: Sequence[Template]) -> Resources:
    """An empty node of the type that holds least: a new node may be of any of the pool's types."""
    return Resources(
        cpu=min(max(each.free.cpu, 0) for each in templates),
        memory=min(max(each.free.memory, 0) for each in templates),
    )


def _pod_size(
    rules: Headroom, running: Sequence[Resources], node: Resources, templates: Sequence[Template]
) -> Resources:
    """What one placeholder asks for: as configured, else the mean of the running pods, else a whole node.

    Devices too, as GPUs are what pods of such a pool wait for: as many as most of the running pods have."""
    asked, number = total(running), max(len(running), 1)
    # A mean that is rounded down would make 20 % of ten pods three.
    cpu = round(1000 * rules.pod_cpu) if rules.pod_cpu else ceil(asked.cpu / number)
    memory = round(_GIB * rules.pod_memory) if rules.pod_memory else ceil(asked.memory / number)
    if not cpu and not memory:
        return node
    usual = {name: round(count / number) for name, count in asked.extended.items()}
    most = {name: max(each.free.extended.get(name, 0) for each in templates) for name in usual}
    devices = {name: min(count, most[name]) for name, count in usual.items() if count and most[name]}
    return Resources(cpu=min(cpu, node.cpu), memory=min(memory, node.memory), extended=devices)


def _pods(rules: Headroom, running: Sequence[Resources], size: Resources, node: Resources) -> float:
    """How many placeholders meet the largest of the amounts."""
    asked = total(running)
    share = rules.percent / 100
    return max(
        rules.pods,
        _times(1000 * rules.cpu, size.cpu, node.cpu),
        _times(_GIB * rules.memory, size.memory, node.memory),
        _times(share * asked.cpu, size.cpu, node.cpu),
        _times(share * asked.memory, size.memory, node.memory),
    )


def _times(amount: float, size: int, of_node: int) -> float:
    """How many pods ask for the amount. Pods that ask for none of it are counted by the node."""
    return amount / max(size or of_node, 1)


def _spare_nodes(ctx: PoolContext, cluster: ClusterContext, demand: _Demand, fewer: int) -> int:
    """How many of the pool's nodes, emptiest first, could leave while the headroom stays: `fewer` at most."""
    room = cluster.room
    placeholders = demand.placeholders(ctx.pool)
    names = {worker.node.name for worker in ctx.workers if worker.node and worker.is_capacity}
    mark, spare = room.mark(), 0
    for name in [place.node.name for place in room.emptiest() if place.node.name in names]:
        if spare >= fewer:
            break
        before = room.mark()
        if room.try_drain(name) is None:
            if room.fits_all(placeholders):
                spare += 1
            else:
                room.roll_back(before)
    room.roll_back(mark)
    return spare
