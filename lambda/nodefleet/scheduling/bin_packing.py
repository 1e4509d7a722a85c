"""Vector packing of plain pods onto new nodes: several heuristics, an improvement step, the cheapest plan wins.

A plain pod asks for CPU, memory and a pod slot; which kinds of nodes admit it is known beforehand. Pods with affinity,
spread, host ports or other resources go through the scheduler simulation instead (`packing`).

    first fit        in the order of the simulation, so that no plan is more expensive than its own
    scarcest first   first fit, pods by their share of the resource that all of them need most
    best fit         pods by dominant share, each on the node that it leaves least free
    fill a node      node after node, with the pods that leave least of it, weighted by what is still to be packed;
                     of several kinds of nodes the one with the lowest price for what it holds
    match a node     the same, with the pods whose shape is most like what is free on it

The cheapest plan is then improved: the emptiest node and some others are emptied and their pods packed again.
Everything is deterministic, so that the same cluster always buys the same. Numbers are kept in lists by group and by
node, because a thousand pending pods are packed in a tenth of a second.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import mul

from nodefleet.model.snapshot import add_up

_WIDTH = 24  # largest pods that fit and are compared for one seat: more do not pack better (benchmarks/packing.py)
_ROUNDS = 24  # of the improvement step: more gain less than a node in a hundred (benchmarks/packing.py)
_SWEEP = 16  # pods after which full nodes are left out
_OTHERS = 2  # nodes that are emptied together with the emptiest one


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOption:
    """A kind of node that could be launched, with what is free on it when it is new."""

    zone: str
    cpu: int
    memory: int
    slots: int
    price: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods that are alike for packing."""

    cpu: int
    memory: int
    options: int  # bit n: a new node of kind n would hold such a pod
    count: int


@dataclass(slots=True, kw_only=True)
class PlannedNode:
    """A node of the plan and what is still free on it."""

    option: int
    cpu: float  # whole numbers: Python multiplies floats faster than integers of more than 30 bits
    memory: float
    slots: int
    groups: list[int] = field(default_factory=list)  # the group of each pod on it


class _Score(Enum):
    LEAST_LEFT = "fill a node"
    BEST_MATCH = "match a node"


class BinPacking:
    """One pool's plain pods and the kinds of nodes that it could launch. `zones`: nodes that it has in each."""

    def __init__(self, groups: Sequence[PodGroup], options: Sequence[NodeOption], zones: Mapping[str, int]) -> None:
        self.groups = groups
        self.options = options
        self._zones = zones
        self._cpu = [float(group.cpu) for group in groups]
        self._memory = [float(group.memory) for group in groups]
        self._masks = [group.options for group in groups]
        self._zones_for: dict[int, list[str]] = {}  # by what admits a pod, as what follows
        self._kinds: dict[tuple[int, str], list[int]] = {}
        self._elsewhere: dict[tuple[int, int], list[int]] = {}
        self._all_alike = len(set(self._masks)) <= 1  # every kind of node that admits one pod admits all of them
        self._cpu_unit = float(max((option.cpu for option in options), default=0) or 1)
        self._memory_unit = float(max((option.memory for option in options), default=0) or 1)

    def best_plan(self, ranked: Sequence[int]) -> list[PlannedNode]:
        """The cheapest plan; of equally cheap ones that of the earlier heuristic. `ranked`: the group of each pod in
        the order in which the simulation would place them."""
        plan = min((self._with_cheapest_options(plan) for plan in self.plans(ranked).values()), key=self.price)
        return self._balance_zones(self._improve(plan))

    def plans(self, ranked: Sequence[int]) -> dict[str, list[PlannedNode]]:
        """What each heuristic gives, by its name."""
        counts = [group.count for group in self.groups]
        by_demand = self._by_demand(counts)
        return {
            "first fit": self.missing_in_queue_order([], ranked),
            "scarcest first": self.missing_in_queue_order([], self._expand(by_demand)),
            "best fit": self._best_fit(self._largest_first(range(len(self.groups)))),
            **{score.value: self._node_by_node(list(counts), by_demand, score) for score in _Score},
        }

    def price(self, plan: Iterable[PlannedNode]) -> float:
        return add_up(self.options[node.option].price for node in plan)

    def missing_in_queue_order(self, plan: Sequence[PlannedNode], queue: Iterable[int]) -> list[PlannedNode]:
        """Nodes that are missing if each pod takes the first node with room, in this order of their groups.

        So the scheduler fills nodes that become ready one after the other: it knows no plan.
        """
        ready = [self._empty(node.option) for node in plan]
        zones, extra = self._zones_of(plan), list[PlannedNode]()
        least_cpu, least_memory = min(self._cpu, default=0.0), min(self._memory, default=0.0)
        for place, number in enumerate(queue):
            if place % _SWEEP == 0:  # nodes that are too full for every pod are not tried again
                ready = [n for n in ready if n.cpu >= least_cpu and n.memory >= least_memory and n.slots]
            cpu, memory, mask = self._cpu[number], self._memory[number], self._masks[number]
            for node in ready:
                if node.cpu >= cpu and node.memory >= memory and node.slots and mask >> node.option & 1:
                    break
            else:
                node = self._open(number, zones)
                ready.append(node)
                extra.append(node)
            self._put(number, node)
        return extra

    # ── heuristics ───────────────────────────────────────────────────────────────────────────────────────────────

    def _expand(self, order: Iterable[int]) -> list[int]:
        return [number for number in order for _ in range(self.groups[number].count)]

    def _by_demand(self, remaining: Sequence[int]) -> list[int]:
        """Pods with the fewest kinds of nodes first, then those with most of what all of them need most."""
        total_cpu, total_memory = self._demand(remaining)
        by_cpu, by_memory = total_cpu / self._cpu_unit**2, total_memory / self._memory_unit**2
        share = [by_cpu * cpu + by_memory * memory for cpu, memory in zip(self._cpu, self._memory, strict=True)]
        return sorted(
            (number for number in range(len(self.groups)) if remaining[number]),
            key=lambda number: (self._masks[number].bit_count(), -share[number], number),
        )

    def _largest_first(self, numbers: Iterable[int]) -> list[int]:
        """Pods with the fewest kinds of nodes first, then those with the largest share of a node."""

        def rank(number: int) -> tuple[int, float, int]:
            share = self._cpu[number] / self._cpu_unit + self._memory[number] / self._memory_unit
            return (self._masks[number].bit_count(), -share, number)

        return sorted(numbers, key=rank)

    def _demand(self, remaining: Sequence[int]) -> tuple[float, float]:
        """CPU and memory that are still to be packed."""
        return sum(map(mul, self._cpu, remaining)), sum(map(mul, self._memory, remaining))

    def _best_fit(self, order: Iterable[int]) -> list[PlannedNode]:
        plan: list[PlannedNode] = []
        zones = Counter(self._zones)
        for number in self._expand(order):
            node = self._tightest(number, plan)
            if node is None:
                node = self._open(number, zones)
                plan.append(node)
            self._put(number, node)
        return plan

    def _tightest(self, number: int, plan: Sequence[PlannedNode]) -> PlannedNode | None:
        """The node with room for the pod on which least is free."""
        cpu, memory, mask = self._cpu[number], self._memory[number], self._masks[number]
        found, least = None, float("inf")
        for node in plan:
            if node.cpu >= cpu and node.memory >= memory and node.slots and mask >> node.option & 1:
                left = node.cpu / self._cpu_unit + node.memory / self._memory_unit
                if left < least:
                    found, least = node, left
        return found

    def _node_by_node(self, remaining: list[int], order: Sequence[int], score: _Score) -> list[PlannedNode]:
        plan: list[PlannedNode] = []
        zones, left = Counter(self._zones), list(order)
        cpu, memory = self._demand(remaining)
        while left:
            demand = (cpu / self._cpu_unit, memory / self._memory_unit)
            choices = self._choices(left[0], zones)
            tried = [self._fill(option, left, remaining, demand, score) for option in choices]
            node = min(tried, key=lambda node: self._price_of_load(node, demand)) if len(tried) > 1 else tried[0]
            for number in node.groups:
                remaining[number] -= 1
                cpu -= self._cpu[number]
                memory -= self._memory[number]
            plan.append(node)
            zones[self.options[node.option].zone] += 1
            left = [number for number in left if remaining[number]]
        return plan

    def _fill(
        self, option: int, order: Sequence[int], remaining: Sequence[int], demand: tuple[float, float], score: _Score
    ) -> PlannedNode:
        """A new node with the pods that suit it best, chosen one by one among the largest that still fit."""
        all_cpu, all_memory, node, bit = self._cpu, self._memory, self._empty(option), 1 << option
        size = self.options[option]
        # Shares of this node, squared, each with the weight of what is still to be packed.
        by_cpu, by_memory = demand[0] / max(size.cpu, 1) ** 2, demand[1] / max(size.memory, 1) ** 2
        fitting = order if self._all_alike else [number for number in order if self._masks[number] & bit]
        while fitting and node.slots:
            free_cpu, free_memory, near = node.cpu, node.memory, fitting[:_WIDTH]
            if score is _Score.LEAST_LEFT:
                scores = [
                    by_cpu * ((cpu := free_cpu - all_cpu[n]) * cpu)
                    + by_memory * ((memory := free_memory - all_memory[n]) * memory)
                    for n in near
                ]
            else:
                to_cpu, to_memory = by_cpu * free_cpu, by_memory * free_memory
                scores = [-to_cpu * all_cpu[n] - to_memory * all_memory[n] for n in near]
            best = near[scores.index(min(scores))]
            self._put(best, node)
            free_cpu, free_memory = node.cpu, node.memory
            fitting = [n for n in fitting if all_cpu[n] <= free_cpu and all_memory[n] <= free_memory]
            if node.groups.count(best) == remaining[best] and best in fitting:
                fitting.remove(best)
        return node

    def _price_of_load(self, node: PlannedNode, demand: tuple[float, float]) -> tuple[float, float]:
        """What the node costs for what it holds of the demand; pods that ask for nothing take the cheapest."""
        cpu, memory = demand
        size = self.options[node.option]
        load = cpu * (size.cpu - node.cpu) / self._cpu_unit + memory * (size.memory - node.memory) / self._memory_unit
        return (size.price / load if load else 0.0, size.price)

    # ── improvement ──────────────────────────────────────────────────────────────────────────────────────────────

    def _improve(self, plan: list[PlannedNode]) -> list[PlannedNode]:
        """Empty the emptiest node and some others in turn, and pack their pods again where that costs no more."""
        turn = 0
        for _ in range(_ROUNDS if len(plan) > 1 else 0):
            plan.sort(key=self._fullness)
            others = min(_OTHERS, len(plan) - 1)
            emptied = {0, *(1 + (turn + number) % (len(plan) - 1) for number in range(others))}
            turn += others
            plan = self._repack(plan, emptied)
        return plan

    def _repack(self, plan: list[PlannedNode], emptied: set[int]) -> list[PlannedNode]:
        """The plan with the pods of these nodes packed again; as it was if that would cost more."""
        stay = [node for index, node in enumerate(plan) if index not in emptied]
        moved: list[tuple[int, PlannedNode]] = []
        remaining = [0] * len(self.groups)
        pods = [number for index in sorted(emptied) for number in plan[index].groups]
        for number in self._largest_first(pods):
            node = self._tightest(number, stay)
            if node is None:
                remaining[number] += 1
            else:
                self._put(number, node)
                moved.append((number, node))
        new = self._node_by_node(remaining, self._by_demand(remaining), _Score.LEAST_LEFT)
        new = self._with_cheapest_options(new)
        if self.price(new) <= self.price(plan[index] for index in emptied):
            return [*stay, *new]
        for number, node in reversed(moved):
            self._take_last(number, node)
        return plan

    def _fullness(self, node: PlannedNode) -> float:
        return -(node.cpu / self._cpu_unit + node.memory / self._memory_unit)

    def _with_cheapest_options(self, plan: Iterable[PlannedNode]) -> list[PlannedNode]:
        """Each node of the cheapest kind in its zone that holds the same pods."""
        if len({option.price for option in self.options}) == 1:
            return list(plan)
        return [self._cheapest(node) for node in plan]

    def _cheapest(self, node: PlannedNode) -> PlannedNode:
        now = self.options[node.option]
        cpu, memory, pods = now.cpu - node.cpu, now.memory - node.memory, len(node.groups)
        masks = [self._masks[number] for number in node.groups]
        enough = [
            index
            for index, option in enumerate(self.options)
            if option.zone == now.zone
            and option.cpu >= cpu
            and option.memory >= memory
            and option.slots >= pods
            and all(mask >> index & 1 for mask in masks)
        ]
        index = min(enough, key=lambda index: (self.options[index].price, index != node.option, index))
        size = self.options[index]
        return PlannedNode(
            option=index,
            cpu=size.cpu - cpu,
            memory=size.memory - memory,
            slots=size.slots - pods,
            groups=node.groups,
        )

    def _balance_zones(self, plan: list[PlannedNode]) -> list[PlannedNode]:
        """The same nodes, each in the zone with the fewest of those that it could be in."""
        zones = Counter(self._zones)
        choices = [self._same_elsewhere(node) for node in plan]
        for index in sorted(range(len(plan)), key=lambda index: (len(choices[index]), index)):
            node = plan[index]
            node.option = min(choices[index], key=lambda option: (zones[self.options[option].zone], option))
            zones[self.options[node.option].zone] += 1
        return plan

    def _same_elsewhere(self, node: PlannedNode) -> list[int]:
        """Kinds of nodes that are the same in all but the zone and admit its pods."""
        kind, found = self.options[node.option], -1
        for number in node.groups:
            found &= self._masks[number]
        if (node.option, found) not in self._elsewhere:
            self._elsewhere[node.option, found] = [
                index
                for index, option in enumerate(self.options)
                if found >> index & 1 and replace(option, zone=kind.zone) == kind
            ]
        return self._elsewhere[node.option, found]

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _choices(self, number: int, zones: Mapping[str, int]) -> list[int]:
        """Kinds of nodes for such a pod, in the zone with the fewest nodes; of alike ones the first."""
        mask = self._masks[number]
        if mask not in self._zones_for:
            self._zones_for[mask] = sorted({each.zone for index, each in enumerate(self.options) if mask >> index & 1})
        zone = min(self._zones_for[mask], key=lambda zone: zones.get(zone, 0))
        if (mask, zone) not in self._kinds:
            first: dict[NodeOption, int] = {}
            for index, option in enumerate(self.options):
                if mask >> index & 1 and option.zone == zone:
                    first.setdefault(option, index)
            self._kinds[mask, zone] = list(first.values())
        return self._kinds[mask, zone]

    def _open(self, number: int, zones: Counter[str]) -> PlannedNode:
        """A new node in the zone with the fewest, of the first kind that admits such a pod."""
        index = self._choices(number, zones)[0]
        zones[self.options[index].zone] += 1
        return self._empty(index)

    def _empty(self, option: int) -> PlannedNode:
        size = self.options[option]
        return PlannedNode(option=option, cpu=float(size.cpu), memory=float(size.memory), slots=size.slots)

    def _put(self, number: int, node: PlannedNode) -> None:
        node.cpu -= self._cpu[number]
        node.memory -= self._memory[number]
        node.slots -= 1
        node.groups.append(number)

    def _take_last(self, number: int, node: PlannedNode) -> None:
        node.cpu += self._cpu[number]
        node.memory += self._memory[number]
        node.slots += 1
        node.groups.pop()

    def _zones_of(self, plan: Iterable[PlannedNode]) -> Counter[str]:
        zones = Counter(self._zones)
        zones.update(self.options[node.option].zone for node in plan)
        return zones
