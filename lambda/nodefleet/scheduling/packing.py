"""Packing of pending pods onto new nodes: how many nodes they need, of which pool, zone and type.

Pods with rules that depend on other pods go through the scheduler simulation, one after the other; all others are
packed by `bin_packing`. The cheaper of two plans wins: constrained pods first, or all pods by their size.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from zlib import crc32

from nodefleet.model.arithmetic import add_up
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import NOTHING, Market
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import Observation
from nodefleet.model.state import NOTHING_REMEMBERED, Memory
from nodefleet.model.workload import Pod, Rules
from nodefleet.policy.cluster import Policy
from nodefleet.scheduling.bin_packing import BinPacking, NodeOption, PlannedNode, PodGroup
from nodefleet.scheduling.devices import awaited_devices
from nodefleet.scheduling.index import zones_asked_for
from nodefleet.scheduling.pool_choice import cheapest_first, pools_without_capacity
from nodefleet.scheduling.predicates import NodeModel, asks_by_name, attachments, unmet_predicate
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import (
    Template,
    expected_nodes,
    simulate_fleet,
    template_refusal,
    template_source,
    zones_in_use,
)

_ORDERS = 6  # of pods of one second that a plan must stand; another needs more in one of fifty (benchmarks/packing.py)


# ── new nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """A node that would be launched, and the pods that would run on it."""

    zone: str
    type: str
    pods: tuple[Pod, ...]
    only_here: bool = False  # a pod on it depends on its zone: on pods that run there, or on their number
    templates: tuple[Template, ...] = field(compare=False, repr=False)  # all that the pool could launch

    @property
    def types(self) -> tuple[str, ...]:
        """Types that would hold the same pods in the same zone, in the policy's order."""
        return tuple(dict.fromkeys(each.type for each in self._fitting if each.zone == self.zone))

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones where each of these types would do."""
        if self.only_here:
            return (self.zone,)
        types = set(self.types)
        fitting = {(each.zone, each.type) for each in self._fitting if each.type in types}
        per_zone = Counter(zone for zone, _ in fitting)
        return tuple(sorted(zone for zone, number in per_zone.items() if number == len(types)))

    @property
    def market(self) -> Market | None:
        """The only market in which a node would hold the pods; none: they do not depend on it."""
        found = {each.market for each in self._fitting}
        return found.pop() if len(found) == 1 and len({each.market for each in self.templates}) > 1 else None

    @property
    def _fitting(self) -> list[Template]:
        return [each for each in self.templates if each.can_hold_all(self.pods)]


class Assignments(dict[str, list[Pod]]):
    """Pods by new node, of all pools: a pod may run on a node that another pool launches."""


class NewNodes:
    """One pool's nodes that are added to the simulation, each in the zone that has fewest."""

    def __init__(
        self, room: SchedulerSimulation, templates: Sequence[Template], zones: Mapping[str, int], seats: Assignments
    ) -> None:
        self.chosen: dict[str, Template] = {}  # by the name of the new node
        self.zones = Counter(zones)
        self._seats = seats
        self._room = room
        self._templates = templates

    def describe(self) -> tuple[NewNode, ...]:
        everything = tuple(self._templates)
        return tuple(
            NewNode(
                zone=each.zone,
                type=each.type,
                pods=tuple(self._seats[name]),
                only_here=any(self._room.minds_more_than_the_host(pod) for pod in self._seats[name]),
                templates=everything,
            )
            for name, each in self.chosen.items()
        )

    def stand_again(self) -> None:
        """Add the nodes, which were rolled back, to the simulation again, without their pods."""
        for name, template in self.chosen.items():
            self._room.add(template.with_name(name), template.daemons)

    def add_for(self, pod: Pod) -> str | None:
        """Add a node and put the pod on it; if no new node would hold it, none is added and the answer is why."""
        reasons = []
        for template in sorted(self._templates, key=lambda each: (self.zones[each.zone], each.zone)):
            if not template.can_hold(pod):
                continue
            reason = self._try(pod, template)
            if reason is None:
                return None
            reasons.append(f"a new {template.type} in {template.zone}: {reason}")
        return next(iter(reasons), None) or template_refusal(pod, self._templates)

    def add_planned(self, template: Template, pods: Sequence[Pod], *, spare: bool = False) -> None:
        """Add a node with the pods that a plan puts there. `spare`: they have a place in the plan already, and need
        this node only if others take it."""
        name = self._name(template)
        self._room.add(template.with_name(name), template.daemons)
        for pod in () if spare else pods:
            self._room.put_on(pod, name)
        self._add(name, template, pods)

    def _try(self, pod: Pod, template: Template) -> str | None:
        name = self._name(template)
        mark = self._room.mark()
        self._room.add(template.with_name(name), template.daemons)
        reason = self._room.place_on(pod, name)
        if reason is None:
            self._add(name, template, (pod,))
        else:
            self._room.roll_back(mark)
        return reason

    def _name(self, template: Template) -> str:
        return f"new {template.pool} {len(self.chosen)}"  # no real node's name has a space

    def _add(self, name: str, template: Template, pods: Iterable[Pod]) -> None:
        self.chosen[name] = template
        self._seats[name] = list(pods)
        self.zones[template.zone] += 1


# ── pod compatibility ────────────────────────────────────────────────────────────────────────────────────────────────
# Which of the nodes that could be launched would hold a pod. Pods of one template are asked about once.


class PodCompatibility:
    def __init__(
        self, templates: Mapping[str, Sequence[Template]], without_capacity: frozenset[str] = frozenset()
    ) -> None:
        """`without_capacity`: pools that launch nothing now. They come last."""
        self._templates = templates  # by pool
        self._without_capacity = without_capacity
        self._found: dict[Hashable, Mapping[str, int]] = {}
        self._of_pods: dict[int, tuple[Pod, Mapping[str, int]]] = {}
        self._rules: dict[int, Rules] = {}

    def pools(self, pod: Pod) -> tuple[str, ...]:
        """Pools one of whose nodes could hold the pod: the cheapest first, else in the policy's order."""
        return tuple(self._of(pod))

    def number(self, pod: Pod) -> int:
        """How many kinds of nodes could, by type and zone."""
        return sum(mask.bit_count() for mask in self._of(pod).values())

    def mask(self, pod: Pod, pool: str) -> int:
        """Bit n: the pool's template n could hold the pod."""
        return self._of(pod).get(pool, 0)

    def _of(self, pod: Pod) -> Mapping[str, int]:
        known = self._of_pods.get(id(pod))
        if known is None:
            known = self._of_pods[id(pod)] = (pod, self._of_shape(pod))  # kept, so that no other pod gets the id
        return known[1]

    def _of_shape(self, pod: Pod) -> Mapping[str, int]:
        shape = self._shape(pod)
        if shape not in self._found:
            by_pool = {
                pool: sum(each.can_hold(pod) << index for index, each in enumerate(those))
                for pool, those in self._templates.items()
            }
            fitting = {pool: mask for pool, mask in by_pool.items() if mask}
            self._found[shape] = cheapest_first(pod, fitting, self._templates, self._without_capacity)
        return self._found[shape]

    def _shape(self, pod: Pod) -> Hashable:
        self._rules[id(pod.rules)] = pod.rules  # kept, so that the id is not given to other rules
        asked = pod.requests
        sizes = (asked.cpu, asked.memory, asked.storage, frozenset(asked.extended.items()))
        volumes = (zones_asked_for(pod), any(volume.node for volume in pod.volumes), frozenset(attachments([pod])))
        return (id(pod.rules), sizes, volumes if pod.volumes else ())


def is_plain(pod: Pod) -> bool:
    """Only its CPU, memory and slot decide whether a node that admits it has room for it, whatever else runs there."""
    asked, rules = pod.requests, pod.rules
    if asked.storage or asked.extended or rules.host_ports or attachments([pod]):
        return False
    return not (rules.affinity or rules.anti_affinity or rules.spread or asks_by_name(pod))


# ── one pool ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """What one pool's pending pods need. Pods are named by uid where the decision acts on them, else by key."""

    nodes: int = 0  # new ones
    new: tuple[NewNode, ...] = ()
    placed: tuple[str, ...] = ()  # they fit on nodes that are there or booting
    on_ready: tuple[str, ...] = ()  # those of them that fit on nodes that are ready now
    bought_for: tuple[str, ...] = ()  # they would run on the new ones
    cannot_hold: tuple[tuple[str, str], ...] = ()  # (namespace/name, why): no new node would help
    unknown: bool = False  # what a new node holds is not known, so `nodes` does not say what `bought_for` needs


class PoolPacking:
    """One pool's pods and the nodes that they get. `zones`: workers that the pool has in each zone."""

    def __init__(
        self,
        room: SchedulerSimulation,
        templates: Sequence[Template],
        zones: Mapping[str, int],
        choices: PodCompatibility,
        seats: Assignments,
        coming: Collection[str] = (),
        *,
        together: bool = False,
        in_queue_order: bool = False,
    ) -> None:
        """`together`: plain pods are packed together, after those with rules; else all one by one, by their size."""
        self.new = NewNodes(room, templates, zones, seats)
        self.settled: dict[str, Pod] = {}  # by key: pods that have a place
        self._room = room
        self._templates = templates
        self._choices = choices
        self._seats = seats
        self._coming = coming
        self._together = together
        self._in_queue_order = in_queue_order
        self._left: list[Pod] = []
        self._placed: list[str] = []
        self._on_ready: list[str] = []
        self._bought_for: list[str] = []
        self._cannot_hold: dict[str, str] = {}

    @property
    def price(self) -> float:
        """Of all new nodes, in the unit of their templates."""
        known = all(each.price is not None for each in self._templates)
        return add_up(_price_of(each, self._templates[0], known=known) for each in self.new.chosen.values())

    def take(self, pods: Iterable[Pod]) -> None:
        self._left += sorted(pods, key=self._rank)

    def place(self) -> bool:
        """Find a place for every pod that may still get one. Whether one did: others may have to be near it."""
        trying, self._left = self._left, []
        plain = [pod for pod in trying if is_plain(pod)] if self._together and self._templates else []
        waiting = {_id(pod) for pod in plain}
        for pod in trying:
            if _id(pod) not in waiting:
                self._place_one(pod, self._find_obstacle(pod))
        packed = []
        for pod in plain:
            if self._place_on_existing(pod):
                self._place_one(pod, None)
            elif self._room.is_free_of_others(pod) and self._choices.mask(pod, self._templates[0].pool):
                packed.append(pod)
            else:
                self._place_one(pod, self._find_obstacle(pod))
        if packed:
            self._pack_together(packed)
        return len(self._left) < len(trying)

    def describe(self) -> Packing:
        return Packing(
            nodes=len(self.new.chosen),
            new=self.new.describe(),
            placed=tuple(self._placed),
            on_ready=tuple(self._on_ready),
            bought_for=tuple(self._bought_for),
            cannot_hold=tuple(self._cannot_hold.items()),
            unknown=not self._templates and bool(self._bought_for),
        )

    def _rank(self, pod: Pod) -> tuple[int, float, str, str]:
        """Pods that are hard to place come first: those with the fewest kinds of nodes, then those with the largest
        share of a node. Then by name."""
        node = self._templates[0].free if self._templates else NOTHING
        share = max(pod.requests.cpu / max(node.cpu, 1), pod.requests.memory / max(node.memory, 1))
        return (self._choices.number(pod), -share, pod.key, pod.uid)

    def _place_one(self, pod: Pod, obstacle: str | None) -> None:
        if obstacle is None:
            self.settled[pod.key] = pod
            self._cannot_hold.pop(pod.key, None)
            return
        self._cannot_hold[pod.key] = obstacle
        if pod.rules.affinity or pod.rules.spread:
            self._left.append(pod)

    def _find_obstacle(self, pod: Pod) -> str | None:
        """Put the pod on a node that is there or a new one; the answer is why not."""
        if self._place_on_existing(pod):
            return None
        if self._templates and (reason := self.new.add_for(pod)) is not None:
            return reason
        self._bought_for.append(_id(pod))
        return None

    def _place_on_existing(self, pod: Pod) -> bool:
        """On a node that is there, booting, or new."""
        node = self._room.place(pod)
        if node is None:
            return False
        if node in self._seats:
            self._seats[node].append(pod)
        if node in self.new.chosen:
            self._bought_for.append(_id(pod))
            return True
        self._placed.append(_id(pod))
        if node not in self._coming and node not in self._seats:
            self._on_ready.append(_id(pod))
        return True

    def _pack_together(self, pods: Sequence[Pod]) -> None:
        pool, groups = self._templates[0].pool, _PodGroups()
        for pod in pods:
            groups.add(pod, self._choices.mask(pod, pool))
        packing = BinPacking(groups.describe(), _options(self._templates), self.new.zones)
        plan = packing.best_plan([groups.number(pod) for pod in pods])
        self._launch(plan, groups.in_order(pods), spare=False)
        for pod in pods:
            self._place_one(pod, None)
            self._bought_for.append(_id(pod))
        if self._in_queue_order:
            missing, queue = max(self._missing(packing, plan, groups, pods), key=lambda found: len(found[0]))
            self._launch(missing, groups.in_order(reversed(queue)), spare=True)

    def _missing(
        self, packing: BinPacking, plan: Sequence[PlannedNode], groups: "_PodGroups", pods: Sequence[Pod]
    ) -> Iterator[tuple[list[PlannedNode], list[Pod]]]:
        """What the plan lacks in several orders of the queue: pods of the same second may come in any."""
        for salt in range(_ORDERS):
            queue = sorted(pods, key=lambda pod: _queue_order(pod, salt))
            yield packing.missing_in_queue_order(plan, [groups.number(pod) for pod in queue]), queue

    def _launch(self, plan: Iterable[PlannedNode], pods: Callable[[int], Pod], *, spare: bool) -> None:
        for node in plan:
            self.new.add_planned(self._templates[node.option], [pods(number) for number in node.groups], spare=spare)


class _PodGroups:
    """Plain pods that are alike for packing."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._number_of: dict[str, int] = {}
        self._counts: Counter[int] = Counter()

    def add(self, pod: Pod, mask: int) -> None:
        number = self._numbers.setdefault((pod.requests.cpu, pod.requests.memory, mask), len(self._numbers))
        self._number_of[_id(pod)] = number
        self._counts[number] += 1

    def number(self, pod: Pod) -> int:
        return self._number_of[_id(pod)]

    def describe(self) -> list[PodGroup]:
        return [
            PodGroup(cpu=cpu, memory=memory, options=mask, count=self._counts[number])
            for (cpu, memory, mask), number in self._numbers.items()
        ]

    def in_order(self, pods: Iterable[Pod]) -> Callable[[int], Pod]:
        """Gives a pod of a group at each call, in this order."""
        left: dict[int, list[Pod]] = defaultdict(list)
        for pod in pods:
            left[self.number(pod)].append(pod)
        for alike in left.values():
            alike.reverse()
        return lambda number: left[number].pop()


def _price_of(template: Template, first: Template, *, known: bool) -> float:
    """What a node costs an hour; while a price is not known, its size compared with the first template's."""
    if known and template.price is not None:
        return template.price
    size, unit = template.node.allocatable, first.node.allocatable
    return size.cpu / max(unit.cpu, 1) + size.memory / max(unit.memory, 1)


def _options(templates: Sequence[Template]) -> list[NodeOption]:
    known = all(each.price is not None for each in templates)
    return [
        NodeOption(
            zone=each.zone,
            cpu=max(each.free.cpu, 0),
            memory=max(each.free.memory, 0),
            slots=each.free.pods,
            price=_price_of(each, templates[0], known=known),
        )
        for each in templates
    ]


def _queue_order(pod: Pod, salt: int = 0) -> tuple[int, str, int, str]:
    """As the scheduler's queue has them: by priority, then by time; those of one second by name, or shuffled."""
    shuffled = crc32(f"{salt} {pod.uid}".encode()) if salt else 0
    return (-pod.priority, str(pod.unschedulable_since), shuffled, pod.key)


def _id(pod: Pod) -> str:
    return pod.uid or pod.key


# ── all pools ────────────────────────────────────────────────────────────────────────────────────────────────────────
# How many new nodes the pending pods need. A pod that no new node could hold buys nothing and is named with the reason.
#
# A good plan is not enough: the scheduler takes pods by priority and time, and knows no plan. So nodes are added until
# all pods find a place also in the order of its queue, on nodes that become ready one after the other
# (`steps.pending_fill: queue`). It prefers empty nodes as well; that nodes become ready together is the exception, and
# to allow for it costs a third more nodes. So that is done only when pods still wait though their nodes are there.


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Which pool each pending pod belongs to."""

    by_pool: Mapping[str, tuple[Pod, ...]]
    nobody: tuple[tuple[Pod, str], ...] = ()  # with the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingInput:
    """The pending pods and all nodes. Building it is the expensive part: once an iteration."""

    room: SchedulerSimulation
    waiting: tuple[Pod, ...]
    templates: Mapping[str, tuple[Template, ...]]  # by pool, in the policy's order
    outlines: Mapping[str, tuple[NodeModel, ...]]  # by pool: its nodes' labels and taints, where no size is known
    zones: Mapping[str, Counter[str]]  # by pool: workers in each zone
    choices: PodCompatibility
    coming: frozenset[str] = frozenset()  # names in the simulation of nodes that are not ready yet
    in_queue_order: frozenset[str] = frozenset()  # pools whose plan allows for the order of the scheduler's queue
    used_otherwise: bool = False  # nodes that were bought for some of the pods are there, and they still wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingResult:
    by_pool: Mapping[str, Packing]  # every pool of the policy
    nobody: tuple[tuple[str, str], ...] = ()  # (namespace/name, why): pods that fit neither now nor on any new node


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
    seen: Observation, policy: Policy, workers: Sequence[Worker], memory: Memory = NOTHING_REMEMBERED
) -> PackingInput | None:
    """None if the pods cannot be seen: then nothing can be placed, and no node can be shown to be removable."""
    if isinstance(seen.kubernetes, Missing) or seen.kubernetes.pods is None:
        return None
    known = template_source(seen, memory)
    templates = {pool.name: known.templates(pool) for pool in policy.pools}
    on_their_way = expected_nodes(seen, policy.pools, workers, known)
    devices = awaited_devices(seen, policy, workers)
    return PackingInput(
        room=simulate_fleet(seen.kubernetes.nodes, seen.kubernetes.pods, workers, on_their_way, devices),
        waiting=list_unschedulable(seen.kubernetes.pods),
        templates=templates,
        outlines={pool.name: tuple(known.outlines(pool)) for pool in policy.pools},
        zones=zones_in_use(workers, on_their_way),
        choices=PodCompatibility(templates, pools_without_capacity(seen, policy, workers, memory)),
        coming=frozenset((*devices, *(each.name for each in on_their_way))),
        in_queue_order=frozenset(pool.name for pool in policy.pools if pool.steps.pending_fill == "queue"),
    )


def pack_pools(look: PackingInput) -> PackingResult:
    """For every pool what its pods need. The simulation is left as it was."""
    mark = look.room.mark()
    assigned = assign(look.waiting, look)
    constrained = not all(map(is_plain, look.waiting))
    packed, nobody = _pack(look, assigned, together=True, in_queue_order=not constrained)
    if constrained:
        look.room.roll_back(mark)
        one_by_one, others = _pack(look, assigned, together=False, in_queue_order=False)
        if _price(one_by_one) <= _price(packed):
            packed, nobody = one_by_one, others
    if look.used_otherwise:
        _allow_for_spreading(look, mark, list(packed.values()))
    elif constrained:
        _allow_for_queue_order(look, mark, [packed[pool] for pool in packed if pool in look.in_queue_order])
    by_pool = {pool: each.describe() for pool, each in packed.items()}
    look.room.roll_back(mark)
    return PackingResult(by_pool=by_pool, nobody=nobody)


def _pack(
    look: PackingInput, assigned: Assignment, *, together: bool, in_queue_order: bool
) -> tuple[Mapping[str, PoolPacking], tuple[tuple[str, str], ...]]:
    choices, seats = look.choices, Assignments()
    packed = {
        pool: PoolPacking(
            look.room,
            templates,
            look.zones.get(pool, Counter()),
            choices,
            seats,
            look.coming,
            together=together,
            in_queue_order=in_queue_order and pool in look.in_queue_order,
        )
        for pool, templates in look.templates.items()
    }
    # Pods with a choice of pools come last, and may find a place on a node that is bought for pods without one.
    for chooses in (False, True):
        for pool, pods in assigned.by_pool.items():
            packed[pool].take(pod for pod in pods if (len(choices.pools(pod)) > 1) is chooses)
        _place_all(list(packed.values()))
    return packed, tuple((pod.key, why) for pod, why in assigned.nobody if look.room.place(pod) is None)


def _price(packed: Mapping[str, PoolPacking]) -> float:
    return add_up(each.price for each in packed.values())


def assign(pods: Iterable[Pod], look: PackingInput) -> Assignment:
    """Each pod to the cheapest pool one of whose nodes can hold it and that can launch one.

    A pool whose nodes are of unknown size gets what is left, as far as labels and taints allow.
    """
    by_pool: dict[str, list[Pod]] = {pool: [] for pool in look.templates}
    nobody = []
    for pod in pods:
        pool = next(iter(look.choices.pools(pod)), None) or _first_that_might_hold(pod, look)
        if pool is not None:
            by_pool[pool].append(pod)
        else:
            nobody.append((pod, _why_nobody(pod, look)))
    return Assignment(by_pool={pool: tuple(held) for pool, held in by_pool.items()}, nobody=tuple(nobody))


def _place_all(packed: Sequence[PoolPacking]) -> None:
    """Round after round: pods that are placed may be those that others, of other pools too, have to be near."""
    while any(each.place() for each in packed):
        pass


def _allow_for_queue_order(look: PackingInput, mark: int, packed: Sequence[PoolPacking]) -> None:
    """More nodes, until all pods find a place also in the order of the scheduler's queue."""
    settled = [(pod, each) for each in packed for pod in each.settled.values()]
    _stand_empty(look, mark, packed)
    for pod, each in sorted(settled, key=lambda pair: _queue_order(pair[0])):
        if look.room.place(pod) is None:
            each.new.add_for(pod)


def _allow_for_spreading(look: PackingInput, mark: int, packed: Sequence[PoolPacking]) -> None:
    """More nodes, until all pods find a place also if each goes to the emptiest: as they come, and small ones first.

    Only those that found a place at all are tried; one that finds none now gets a new node as before.
    """
    settled = [(pod, each) for each in packed for pod in each.settled.values()]
    for order in (_as_they_come, _smallest_first):
        _stand_empty(look, mark, packed)
        places = look.room.emptiest()
        for pod, each in order(settled):
            if look.room.place_on_emptiest(pod, places) is None and each.new.add_for(pod) is None:
                places = look.room.emptiest()


def _stand_empty(look: PackingInput, mark: int, packed: Sequence[PoolPacking]) -> None:
    """The simulation with the new nodes and without the pending pods."""
    look.room.roll_back(mark)
    for each in packed:
        each.new.stand_again()


_Settled: TypeAlias = list[tuple[Pod, PoolPacking]]


def _as_they_come(settled: _Settled) -> _Settled:
    return sorted(settled, key=lambda pair: (str(pair[0].unschedulable_since), pair[0].key))


def _smallest_first(settled: _Settled) -> _Settled:
    return sorted(settled, key=lambda pair: (pair[0].requests.cpu, pair[0].requests.memory, pair[0].key))


def _first_that_might_hold(pod: Pod, look: PackingInput) -> str | None:
    blind = (pool for pool, templates in look.templates.items() if not templates)
    return next(
        (pool for pool in blind if any(unmet_predicate(pod, each) is None for each in look.outlines[pool])), None
    )


def _why_nobody(pod: Pod, look: PackingInput) -> str:
    reasons = []
    for pool, templates in look.templates.items():
        outlines = (unmet_predicate(pod, each) for each in look.outlines[pool])
        reasons.append((pool, template_refusal(pod, templates) or next(outlines, None) or "it has no instance types"))
    if len(reasons) == 1:
        return reasons[0][1]
    return "; ".join(f"pool {pool}: {reason}" for pool, reason in reasons)
