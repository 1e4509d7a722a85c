"""Packing of pending pods onto new nodes: how many nodes they need, of which pool, zone and type.

Each pool packs its pods (`pool_packing`). The cheaper of two plans wins: constrained pods first, or all pods by their
size. A pod that no new node could hold buys nothing and is named with the reason.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from types import MappingProxyType
from typing import TypeAlias

from nodefleet.capacity import awaited_devices, unseen_launches
from nodefleet.model.fleet import Phase, Worker
from nodefleet.model.inventory import Market, Node, Resources
from nodefleet.model.snapshot import Missing, Observation, add_up
from nodefleet.model.state import NOTHING_REMEMBERED, Memory
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet.scheduling.index import PlainRoom
from nodefleet.scheduling.pool_packing import Assignments, Packing, PoolPacking, queue_order
from nodefleet.scheduling.predicates import NodeModel, is_plain, unmet_predicate
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import (
    PodCompatibility,
    Template,
    TemplateSource,
    pools_without_capacity,
    template_refusal,
    template_source,
)

_ORDERS = 12  # of pods and of nodes that are tried: eight or twelve make no difference in what is bought
_GROUPS = (0, 1, 2)  # in which nodes become ready: one after the other, all in one moment, first one half of them
_TRIALS = 1200  # pods that are placed again at most, in all orders together, so that an iteration stays fast

# A good plan is not enough: the scheduler takes pods by priority and time, and knows no plan. So nodes are added until
# all pods find a place also in the order of its queue, on nodes that become ready one after the other
# (`steps.pending_fill: queue`). It prefers empty nodes as well; to allow for nodes that become ready together costs a
# third more in a large purchase. So other orders get `steps.pending_spare` nodes at most, and only until all pods find
# a place in `steps.pending_sure` of them; those that need more get none, until pods still wait though their nodes came.


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Which pool each pending pod belongs to."""

    by_pool: Mapping[str, tuple[Pod, ...]]
    unplaceable: tuple[tuple[Pod, str], ...] = ()  # with the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingInput:
    """The pending pods and all nodes. Building it is the expensive part: once an iteration."""

    simulation: SchedulerSimulation
    waiting: tuple[Pod, ...]
    templates: Mapping[str, tuple[Template, ...]]  # by pool, in the policy's order
    outlines: Mapping[str, tuple[NodeModel, ...]]  # by pool: its nodes' labels and taints, where no size is known
    zones: Mapping[str, Counter[str]]  # by pool: workers in each zone
    choices: PodCompatibility
    coming: frozenset[str] = frozenset()  # names in the simulation of nodes that are not ready yet
    in_queue_order: frozenset[str] = frozenset()  # pools whose plan allows for the order of the scheduler's queue
    spare: int = 0  # nodes at most that are added for other orders
    sure: float = 1.0  # share of the orders in which all pods must find a place
    excess: float = 1.0  # share of a plan that the order of the queue may add to it
    used_otherwise: bool = False  # nodes that were bought for some of the pods are there, and they still wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingResult:
    by_pool: Mapping[str, Packing]  # every pool of the policy
    unplaceable: tuple[
        tuple[str, str], ...
    ] = ()  # (namespace/name, why): pods that fit neither now nor on any new node


def list_unschedulable(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods that a new node could help: the scheduler found no node for them, and nothing else is about to happen."""
    return tuple(
        pod
        for pod in pods
        if pod.unschedulable_since is not None
        and pod.node is None
        and pod.deleted_at is None
        and pod.priority >= 0
        and not (pod.finished or pod.is_daemon or pod.gated or pod.nominated)
    )


def packing_input(
    observation: Observation,
    policy: Policy,
    workers: Sequence[Worker],
    memory: Memory = NOTHING_REMEMBERED,
    stopped: frozenset[str] = frozenset(),
) -> PackingInput | None:
    """None if the pods cannot be seen: then nothing can be placed, and no node can be shown to be removable. `stopped`:
    pools that may not have one node more now."""
    if isinstance(observation.kubernetes, Missing) or observation.kubernetes.pods is None:
        return None
    known = template_source(observation, memory)
    templates = {pool.name: known.templates(pool) for pool in policy.pools}
    on_their_way = expected_nodes(observation, policy.pools, workers, known)
    devices = awaited_devices(observation, policy, workers)
    return PackingInput(
        simulation=simulate_fleet(
            observation.kubernetes.nodes, observation.kubernetes.pods, workers, on_their_way, devices
        ),
        waiting=list_unschedulable(observation.kubernetes.pods),
        templates=templates,
        outlines={pool.name: tuple(known.outlines(pool)) for pool in policy.pools},
        zones=zones_in_use(workers, on_their_way),
        choices=PodCompatibility(templates, pools_without_capacity(observation, policy, workers, memory), stopped),
        coming=frozenset((*devices, *(each.name for each in on_their_way))),
        in_queue_order=frozenset(pool.name for pool in policy.pools if pool.steps.pending_fill == "queue"),
        spare=max((pool.steps.pending_spare for pool in policy.pools), default=0),
        sure=max((pool.steps.pending_sure for pool in policy.pools), default=0) / 100,
        excess=max((pool.steps.pending_excess for pool in policy.pools), default=0) / 100,
    )


def pack_pools(packing_input: PackingInput) -> PackingResult:
    """For every pool what its pods need. The simulation is left as it was."""
    mark = packing_input.simulation.mark()
    assigned = assign(packing_input.waiting, packing_input)
    constrained = not all(map(is_plain, packing_input.waiting))
    packed, unplaceable = _pack(packing_input, assigned, together=True, in_queue_order=not constrained)
    if constrained:
        packing_input.simulation.roll_back(mark)
        one_by_one, others = _pack(packing_input, assigned, together=False, in_queue_order=False)
        if _price(one_by_one) <= _price(packed):
            packed, unplaceable = one_by_one, others
    if packing_input.used_otherwise:
        _allow_for_spreading(packing_input, mark, list(packed.values()))
    else:
        in_queue_order = [packed[pool] for pool in packed if pool in packing_input.in_queue_order]
        if constrained:
            _allow_for_queue_order(packing_input, mark, in_queue_order)
        if any(each.new.chosen for each in in_queue_order):  # a spare node is never a reason to buy
            _allow_for_other_orders(packing_input, mark, in_queue_order)
    by_pool = {pool: each.describe() for pool, each in packed.items()}
    packing_input.simulation.roll_back(mark)
    return PackingResult(by_pool=by_pool, unplaceable=unplaceable)


def _pack(
    packing_input: PackingInput, assigned: Assignment, *, together: bool, in_queue_order: bool
) -> tuple[Mapping[str, PoolPacking], tuple[tuple[str, str], ...]]:
    choices, seats = packing_input.choices, Assignments()
    packed = {
        pool: PoolPacking(
            packing_input.simulation,
            templates,
            packing_input.zones.get(pool, Counter()),
            choices,
            seats,
            packing_input.coming,
            together=together,
            in_queue_order=in_queue_order and pool in packing_input.in_queue_order,
            excess=lambda plan: max(packing_input.spare, ceil(packing_input.excess * plan)),
        )
        for pool, templates in packing_input.templates.items()
    }
    # Pods with a choice of pools come after those without one, and may find a place on a node that is bought for them.
    # Pools that launch nothing now come last of all: no pod may count on a node of theirs.
    for launches, chooses in ((True, False), (True, True), (False, False), (False, True)):
        for pool, pods in assigned.by_pool.items():
            if choices.can_launch(pool) is launches:
                packed[pool].take(pod for pod in pods if (len(choices.pools(pod)) > 1) is chooses)
        _place_all(list(packed.values()))
    return packed, tuple(
        (pod.key, why) for pod, why in assigned.unplaceable if packing_input.simulation.place(pod) is None
    )


def _price(packed: Mapping[str, PoolPacking]) -> float:
    return add_up(each.price for each in packed.values())


def assign(pods: Iterable[Pod], packing_input: PackingInput) -> Assignment:
    """Each pod to the cheapest pool one of whose nodes can hold it and that can launch one.

    A pool whose nodes are of unknown size gets what is left, as far as labels and taints allow.
    """
    by_pool: dict[str, list[Pod]] = {pool: [] for pool in packing_input.templates}
    unplaceable = []
    for pod in pods:
        pool = next(iter(packing_input.choices.pools(pod)), None) or _first_that_might_hold(pod, packing_input)
        if pool is not None:
            by_pool[pool].append(pod)
        else:
            unplaceable.append((pod, _why_unplaceable(pod, packing_input)))
    return Assignment(by_pool={pool: tuple(held) for pool, held in by_pool.items()}, unplaceable=tuple(unplaceable))


def _place_all(packed: Sequence[PoolPacking]) -> None:
    """Round after round: pods that are placed may be those that others, of other pools too, have to be near."""
    while any(each.place() for each in packed):
        pass


def _allow_for_queue_order(packing_input: PackingInput, mark: int, packed: Sequence[PoolPacking]) -> None:
    """More nodes, until all pods find a place also in the order of the scheduler's queue."""
    settled = [(pod, each) for each in packed for pod in each.settled.values()]
    most = {each: each.most_excess for each in packed}
    _stand_empty(packing_input, mark, packed)
    for pod, each in sorted(settled, key=lambda pair: queue_order(pair[0])):
        if packing_input.simulation.place(pod) is None and each.excess < most[each]:
            each.excess += each.new.add_for(pod) is None


def _allow_for_other_orders(packing_input: PackingInput, mark: int, packed: Sequence[PoolPacking]) -> None:
    """At most `steps.pending_spare` nodes more, so that all pods find a place in most other orders of pods of one
    second and of the nodes too, which become ready one after the other or all in one moment."""
    settled = [(pod, each) for each in packed for pod in each.settled.values()]
    salts = range(min(_ORDERS, _TRIALS // max(len(_GROUPS) * len(settled), 1)))
    packing_input.simulation.roll_back(mark)
    daemons = (pod for templates in packing_input.templates.values() for each in templates for pod in each.daemons)
    mind_others = any(pod.rules.anti_affinity for pod in daemons)
    plain = None if mind_others else packing_input.simulation.plain_room([pod for pod, _ in settled])
    queues = [sorted(settled, key=lambda pair: queue_order(pair[0], salt)) for salt in salts]
    trials = [
        _Trial(packing_input.simulation, mark, packed, plain, queues[salt], salt, groups)
        for salt, groups in product(salts, _GROUPS)
    ]
    left, failing = packing_input.spare - sum(each.excess for each in packed), trials
    may_fail = int((1 - packing_input.sure) * len(trials))
    while left > 0:
        needed = {trial: number for trial in failing if (number := trial.add_missing(left, keep=False)) != 0}
        failing = list(needed)
        within = [trial for trial in failing if needed[trial] is not None]
        if len(failing) <= may_fail or not within:
            return
        left -= min(within, key=lambda trial: needed[trial] or 0).add_missing(left, keep=True) or 0


@dataclass(frozen=True, slots=True, eq=False)
class _Trial:
    """One order of the pods and of the nodes, which become ready in so many groups: each pod goes to the emptiest node
    that is ready. Without groups nodes are filled one after the other."""

    simulation: SchedulerSimulation
    mark: int
    packed: Sequence[PoolPacking]
    plain: PlainRoom | None  # which is much faster, if it does for all pods
    queue: "_Settled"
    salt: int
    groups: int

    def add_missing(self, most: int, *, keep: bool) -> int | None:
        """How many nodes pods need that find no place in this order; none if more than `most`, for so many would not
        spare it the second purchase. `keep`: they stay in the plan."""
        before = [len(each.new.chosen) for each in self.packed]
        added = self._add(most)
        if added is None or not keep:
            for pool, number in zip(self.packed, before, strict=True):
                pool.new.drop_last(len(pool.new.chosen) - number)
        return added

    def _add(self, most: int) -> int | None:
        added, waiting = 0, self.queue
        self.simulation.roll_back(self.mark)
        plain = self.plain.copy() if self.plain else None
        room = plain or self.simulation
        for group in range(self.groups or 1):
            for each in self.packed:
                each.new.stand_again(self.salt, group, self.groups or 1, room)
            if group + 1 < self.groups:
                waiting = _without_place(room, waiting, together=True)
        while waiting := _without_place(room, waiting, together=bool(self.groups)):
            pod, each = waiting[0]
            if added == most or each.new.add_for(pod, plain) is not None:
                return None
            added, waiting = added + 1, waiting[1:]
        return added


def _without_place(room: SchedulerSimulation | PlainRoom, waiting: "_Settled", *, together: bool) -> "_Settled":
    """Those that find no place, one after the other; who has to be near others is tried again when they have one."""
    while waiting:
        place = room.placing_on_emptiest() if together else room.place
        left = [(pod, each) for pod, each in waiting if place(pod) is None]
        if len(left) == len(waiting) or not any(pod.rules.affinity or pod.rules.spread for pod, _ in left):
            return left
        waiting = left
    return []


def _allow_for_spreading(packing_input: PackingInput, mark: int, packed: Sequence[PoolPacking]) -> None:
    """More nodes, until all pods find a place also if each goes to the emptiest: as they come, and small ones first.

    Only those that found a place at all are tried; one that finds none now gets a new node as before.
    """
    settled = [(pod, each) for each in packed for pod in each.settled.values()]
    for order in (_as_they_come, _smallest_first):
        _stand_empty(packing_input, mark, packed)
        places = packing_input.simulation.emptiest()
        for pod, each in order(settled):
            if packing_input.simulation.place_on_emptiest(pod, places) is None and each.new.add_for(pod) is None:
                places = packing_input.simulation.emptiest()


def _stand_empty(packing_input: PackingInput, mark: int, packed: Sequence[PoolPacking], salt: int = 0) -> None:
    """The simulation with the new nodes, which come in another order for each `salt`, and without the pending pods."""
    packing_input.simulation.roll_back(mark)
    for each in packed:
        each.new.stand_again(salt)


_Settled: TypeAlias = list[tuple[Pod, PoolPacking]]


def _as_they_come(settled: _Settled) -> _Settled:
    return sorted(settled, key=lambda pair: (str(pair[0].unschedulable_since), pair[0].key))


def _smallest_first(settled: _Settled) -> _Settled:
    return sorted(settled, key=lambda pair: (pair[0].requests.cpu, pair[0].requests.memory, pair[0].key))


def _first_that_might_hold(pod: Pod, packing_input: PackingInput) -> str | None:
    blind = (pool for pool, templates in packing_input.templates.items() if not templates)
    return next(
        (pool for pool in blind if any(unmet_predicate(pod, each) is None for each in packing_input.outlines[pool])),
        None,
    )


def _why_unplaceable(pod: Pod, packing_input: PackingInput) -> str:
    reasons = []
    for pool, templates in packing_input.templates.items():
        outlines = (unmet_predicate(pod, each) for each in packing_input.outlines[pool])
        reasons.append((pool, template_refusal(pod, templates) or next(outlines, None) or "it has no instance types"))
    if len(reasons) == 1:
        return reasons[0][1]
    return "; ".join(f"pool {pool}: {reason}" for pool, reason in reasons)


# ── the nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────
# Nodes that exist and nodes that are expected, in one simulation.
#
# A booting node has room already: pods that will run on it must not buy another one. A node that is leaving, unhealthy
# or not ready takes no new pod, but the pods on it still count for affinity and spread.


_ON_THEIR_WAY = (Phase.REQUESTED, Phase.BOOTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedNode:
    """A node that is not there yet."""

    name: str
    pool: str
    zone: str
    template: Template | None  # none: its size is not known


def simulate_fleet(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    workers: Sequence[Worker],
    coming: Sequence[ExpectedNode],
    devices: Mapping[str, Resources] = MappingProxyType({}),
) -> SchedulerSimulation:
    """Ready nodes first, by name; then those that boot. `devices`: by node, what it will hold with its devices.

    A pod that preemption makes room for has its node already: the scheduler keeps that room from others.
    """
    pods = [replace(pod, node=pod.nominated_node) if pod.node is None and pod.nominated_node else pod for pod in pods]
    awaited = {each.name for each in coming}
    phases = {worker.node.name: worker.phase for worker in workers if worker.node}
    standing = sorted((node for node in nodes if node.name not in awaited), key=lambda node: node.name)
    complete = (replace(node, allocatable=devices[node.name]) if node.name in devices else node for node in standing)
    room = SchedulerSimulation([_model(node, phases.get(node.name)) for node in complete], pods)
    early: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node in awaited and not pod.is_daemon and not pod.finished:
            early[pod.node].append(pod)
    for each in coming:
        if each.template:
            room.add(each.template.with_name(each.name), (*each.template.daemons, *early[each.name]))
    return room


def expected_nodes(
    observation: Observation, pools: Iterable[Pool], workers: Sequence[Worker], known: TemplateSource
) -> tuple[ExpectedNode, ...]:
    """Workers that boot, and launches that EC2 does not show yet."""
    by_name = {pool.name: pool for pool in pools}
    found = [
        _expected_node(
            known, by_name, worker.name, worker.pool, (worker.instance.type,), worker.zone, worker.instance.market
        )
        for worker in workers
        if worker.instance and worker.phase in _ON_THEIR_WAY and worker.is_capacity
    ]
    listed = () if isinstance(observation.instances, Missing) else observation.instances
    found += [
        _expected_node(known, by_name, f"{launch.id}/{number}", launch.pool, launch.types, launch.zone, launch.market)
        for launch, missing in unseen_launches(observation.operations, listed)
        for number in range(missing)
    ]
    return tuple(found)


def zones_in_use(workers: Sequence[Worker], coming: Sequence[ExpectedNode]) -> Mapping[str, Counter[str]]:
    """How many workers each pool has in each zone, those on their way included."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for worker in workers:
        if worker.is_capacity and worker.phase not in _ON_THEIR_WAY:
            found[worker.pool][worker.zone] += 1
    for each in coming:
        found[each.pool][each.zone] += 1
    return found


def _expected_node(
    known: TemplateSource,
    pools: Mapping[str, Pool],
    name: str,
    pool_name: str,
    types: Sequence[str],
    zone: str,
    market: Market,
) -> ExpectedNode:
    pool = pools.get(pool_name)
    found = (known.template(pool, type_, zone, market) for type_ in types) if pool else iter(())
    return ExpectedNode(name=name, pool=pool_name, zone=zone, template=next(filter(None, found), None))


def _model(node: Node, phase: Phase | None) -> NodeModel:
    """`phase` is none for nodes that are not ours, and for all nodes while EC2 does not answer."""
    if phase not in (None, Phase.READY, Phase.UNLISTED, Phase.CORDONED):
        closed = f"the node is {phase.value}"
    else:
        closed = "" if node.ready else "the node is not ready"
    return NodeModel(
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        allocatable=node.allocatable,
        cordoned=node.cordoned or phase is Phase.CORDONED,
        closed=closed,
        attach_limits=node.attach_limits,
    )
