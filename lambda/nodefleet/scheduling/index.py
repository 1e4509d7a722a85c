"""Indexes that find the first node with enough room without visiting each."""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial

from nodefleet.model.inventory import Resources
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL, Pod, Rules
from nodefleet.scheduling.predicates import (
    NodeModel,
    NodeState,
    TopologyDemand,
    labels_asked_for,
    share_taken,
    unmet_demand,
    unmet_predicate,
    zones_asked_for,
)

# ── first fit ────────────────────────────────────────────────────────────────────────────────────────────────────────
# The first of many places with enough room, without looking at each.
#
# A binary tree over the places keeps, for every branch, the most CPU, the most memory and the most pod slots that any
# place below has free. A branch whose best is too little is passed by as a whole. In a full cluster that is the trunk,
# so asking in vain costs next to nothing; taking room costs one walk from the leaf up.


_NOTHING_AT_ALL = -(1 << 80)  # less than any overbooked node: such a leaf fits no pod


class FirstFit:
    """Places that are alike for the scheduler but for what is free on them, in the order in which they are tried."""

    def __init__(self, sample: NodeModel, places: Sequence[NodeState] = ()) -> None:
        self.sample = sample  # stands for all of them where only their labels and taints matter
        self._places = list(places)
        self._ranks = [place.index for place in self._places]  # they ascend
        self._leaf_of = {place.index: leaf for leaf, place in enumerate(self._places)}
        self._grow()

    def append(self, node_state: NodeState) -> None:
        self._leaf_of[node_state.index] = len(self._places)
        self._places.append(node_state)
        self._ranks.append(node_state.index)
        if len(self._places) > self._width:
            self._grow()
            return
        self.refresh(node_state)

    def drop_last(self) -> None:
        place = self._places.pop()
        self._ranks.pop()
        self.close(place)
        del self._leaf_of[place.index]

    def refresh(self, node_state: NodeState) -> None:
        """What is free there has changed."""
        self._set(self._leaf_of[node_state.index], node_state.cpu, node_state.memory, node_state.slots)

    def close(self, node_state: NodeState) -> None:
        """It takes no pods until it is refreshed."""
        self._set(self._leaf_of[node_state.index], _NOTHING_AT_ALL, _NOTHING_AT_ALL, _NOTHING_AT_ALL)

    def first(self, asked: Resources, suits: Callable[[NodeState], bool], start: int) -> NodeState | None:
        """The first place from rank `start` on that has the CPU, memory and slot asked for, and suits otherwise."""
        most_cpu, most_memory, most_slots, width = self._cpu, self._memory, self._slots, self._width
        # What is not asked for may be overbooked. A leaf without a place fails by its slots all the same.
        cpu, memory = asked.cpu or _NOTHING_AT_ALL, asked.memory or _NOTHING_AT_ALL
        first = bisect_left(self._ranks, start)
        at = (first + width if first else 1) if first < len(self._places) else 0
        while at:
            if most_cpu[at] >= cpu and most_memory[at] >= memory and most_slots[at] >= 1:
                if at < width:
                    at *= 2
                    continue
                if suits(self._places[at - width]):
                    return self._places[at - width]
            while at & 1:  # the last one below its branch: go on beside that
                at >>= 1
            at += bool(at)
        return None

    def _grow(self) -> None:
        """Lay the tree out again, with as much space again for places to come."""
        places, width = self._places, 1
        while width < 2 * len(places):
            width *= 2
        spare = [_NOTHING_AT_ALL] * (width - len(places))
        self._width = width
        self._cpu = _maxima([place.cpu for place in places] + spare)
        self._memory = _maxima([place.memory for place in places] + spare)
        self._slots = _maxima([place.slots for place in places] + spare)

    def _set(self, leaf: int, cpu: int, memory: int, slots: int) -> None:
        at = leaf + self._width
        most_cpu, most_memory, most_slots = self._cpu, self._memory, self._slots
        most_cpu[at], most_memory[at], most_slots[at] = cpu, memory, slots
        while at > 1:  # up to the first branch that stays as it is
            one, other, at = at & -2, at | 1, at >> 1
            cpu, memory, slots = most_cpu[one], most_memory[one], most_slots[one]
            # Not `max`: a call costs twice as much, and this is the innermost loop of packing.
            if most_cpu[other] > cpu:  # noqa: PLR1730
                cpu = most_cpu[other]
            if most_memory[other] > memory:  # noqa: PLR1730
                memory = most_memory[other]
            if most_slots[other] > slots:  # noqa: PLR1730
                slots = most_slots[other]
            if most_cpu[at] == cpu and most_memory[at] == memory and most_slots[at] == slots:
                return
            most_cpu[at], most_memory[at], most_slots[at] = cpu, memory, slots


def _maxima(leaves: list[int]) -> list[int]:
    """The tree as a list: the trunk at 1, the branches of `at` at 2 × at and 2 × at + 1, then the leaves."""
    width = len(leaves)
    tree = [0] * width + leaves
    for at in range(width - 1, 0, -1):
        tree[at] = max(tree[2 * at], tree[2 * at + 1])
    return tree


# ── node classes ─────────────────────────────────────────────────────────────────────────────────────────────────────
# Nodes that are alike, so that whether a pod may go there at all is asked once for many.
#
# Two nodes are alike when they have the same taints and the same values of all labels that pods have asked for so far,
# be it to run there or to be near or far from others. Only the host label is left out: it would make every node a class
# of its own. When a pod asks for a label for the first time, the classes are told apart again.


class NodeClasses:
    def __init__(self, places: Sequence[NodeState]) -> None:
        self._labels: tuple[str, ...] = (ZONE_LABEL,)
        self._places = list(places)
        self._closed: set[int] = set()
        self._trees: dict[Hashable, FirstFit] = {}
        self._tree_of: list[FirstFit] = []  # by the place's index
        self._admitting: dict[Hashable, list[FirstFit]] = {}
        self._rules: dict[int, tuple[Rules, int]] = {}  # by id, with their number
        self._numbers: dict[str, int] = {}
        self._group()

    def first(
        self, pod: Pod, demands: Sequence[TopologyDemand], suits: Callable[[NodeState], bool], start: int
    ) -> NodeState | None:
        """The first place from rank `start` on that is in an admitting class, has enough room, and suits."""
        for_classes = [demand for demand in demands if demand.topology != HOST_LABEL]
        if for_classes:
            self._tell_apart_by(demand.topology for demand in for_classes)
        trees = self._classes_admitting(pod)
        if not for_classes and 0 < start < len(self._places):  # the place that took the last pod like it may take more
            place = self._places[start]
            if self._tree_of[start] in trees and start not in self._closed and place.has(pod.requests) and suits(place):
                return place
        fitting = [
            tree.first(pod.requests, suits, start)
            for tree in trees
            if not for_classes or unmet_demand(for_classes, tree.sample) is None
        ]
        return min((place for place in fitting if place), key=lambda place: place.index, default=None)

    def append(self, node_state: NodeState) -> None:
        key = self._key(node_state.node)
        if key not in self._trees:
            self._trees[key] = FirstFit(node_state.node)
            self._admitting.clear()
        self._places.append(node_state)
        self._tree_of.append(self._trees[key])
        self._trees[key].append(node_state)

    def drop_last(self) -> None:
        self._places.pop()
        self._tree_of.pop().drop_last()

    def refresh(self, node_state: NodeState) -> None:
        """What is free there has changed."""
        self._tree_of[node_state.index].refresh(node_state)

    def close(self, node_state: NodeState) -> None:
        self._closed.add(node_state.index)
        self._tree_of[node_state.index].close(node_state)

    def reopen(self, node_state: NodeState) -> None:
        self._closed.remove(node_state.index)
        self.refresh(node_state)

    def is_closed(self, node_state: NodeState) -> bool:
        return node_state.index in self._closed

    def number_of(self, rules: Rules) -> int:
        """The same number for equal rules. Pods of one template share them as a rule, but not always: a replay must not
        tell apart what the run did not, nor the other way round."""
        known = self._rules.get(id(rules))
        if known is None:
            number = self._numbers.setdefault(repr(rules), len(self._numbers))
            known = self._rules[id(rules)] = (rules, number)  # kept, so that the id is not given to other rules
        return known[1]

    def _classes_admitting(self, pod: Pod) -> list[FirstFit]:
        key = (self.number_of(pod.rules), zones_asked_for(pod))
        if key not in self._admitting:
            self._tell_apart_by(labels_asked_for(pod.rules))
            self._admitting[key] = [tree for tree in self._trees.values() if unmet_predicate(pod, tree.sample) is None]
        return self._admitting[key]

    def _tell_apart_by(self, labels: Iterable[str]) -> None:
        wanted = {*self._labels, *labels}
        if len(wanted) > len(self._labels):
            self._labels = tuple(sorted(wanted))
            self._group()

    def _group(self) -> None:
        members: dict[Hashable, list[NodeState]] = {}
        keys = [self._key(place.node) for place in self._places]
        for key, place in zip(keys, self._places, strict=True):
            members.setdefault(key, []).append(place)
        self._trees = {key: FirstFit(places[0].node, places) for key, places in members.items()}
        self._tree_of = [self._trees[key] for key in keys]
        self._admitting.clear()
        for index in self._closed:
            self._tree_of[index].close(self._places[index])

    def _key(self, node: NodeModel) -> Hashable:
        labels = tuple([node.labels.get(label) for label in self._labels])
        return (node.taints, node.cordoned, node.closed, labels)


# ── emptiest first ───────────────────────────────────────────────────────────────────────────────────────────────────
# Places in the order in which the scheduler likes them: the emptiest first.


class EmptiestFirst:
    def __init__(self, places: Iterable[NodeState]) -> None:
        self._ranked = sorted(places, key=_rank)

    def __iter__(self) -> Iterator[NodeState]:
        return iter(self._ranked)

    def rank_anew(self, node_state: NodeState) -> None:
        """What is taken there has changed."""
        self._ranked.remove(node_state)
        insort(self._ranked, node_state, key=_rank)


def _rank(node_state: NodeState) -> tuple[float, int]:
    return (node_state.taken, node_state.index)


# ── plain pods ───────────────────────────────────────────────────────────────────────────────────────────────────────
# A copy of the simulation in plain numbers, for pods of which only CPU, memory and slot count. Packing plays dozens of
# orders of the same pods: there it takes a tenth of the time, and gives the same places.


class PlainRoom:
    """Places as the simulation has them, of which only those are kept that have the least that a pod asks for."""

    def __init__(self, places: Iterable[NodeState], pods: Sequence[Pod]) -> None:
        cpu = min((pod.requests.cpu for pod in pods), default=0)
        memory = min((pod.requests.memory for pod in pods), default=0)
        found = [
            place
            for place in places
            if place.slots >= 1 and (not cpu or place.cpu >= cpu) and (not memory or place.memory >= memory)
        ]
        self._nodes = [place.node for place in found]
        self._cpu = [place.cpu for place in found]
        self._memory = [place.memory for place in found]
        self._slots = [place.slots for place in found]
        self._start_for: dict[Hashable, int] = {}
        self._admitted: dict[Hashable, bool] = {}

    def copy(self) -> "PlainRoom":
        """One that is filled on its own. Which node admits which pod is remembered together."""
        other = PlainRoom((), ())
        other._nodes, other._cpu = self._nodes.copy(), self._cpu.copy()
        other._memory, other._slots = self._memory.copy(), self._slots.copy()
        other._admitted = self._admitted
        return other

    def add(self, node: NodeModel, occupants: Iterable[Pod] = ()) -> None:
        """A new node, tried after all others. The caller keeps it as long as any copy of the room."""
        free = NodeState(node, len(self._nodes))
        for pod in occupants:
            free.put(pod)
        self._nodes.append(node)
        self._cpu.append(free.cpu)
        self._memory.append(free.memory)
        self._slots.append(free.slots)

    def place(self, pod: Pod) -> str | None:
        """Put the pod on the first node that fits, and say which; none if no node does."""
        shape = (pod.requests.cpu, pod.requests.memory, _admission(pod))
        found = next((at for at in range(self._start_for.get(shape, 0), len(self._nodes)) if self._fits(pod, at)), None)
        self._start_for[shape] = len(self._nodes) if found is None else found
        return None if found is None else self._put(pod, found)

    def place_last(self, pod: Pod) -> bool:
        """Put the pod on the node that was added last, if it fits there."""
        fits = self._fits(pod, len(self._nodes) - 1)
        if fits:
            self._put(pod, len(self._nodes) - 1)
        return fits

    def placing_on_emptiest(self) -> Callable[[Pod], str | None]:
        """Puts each pod that it is called with on the emptiest node that fits."""
        return partial(self._place_on_emptiest, sorted((self._share_taken(at), at) for at in range(len(self._nodes))))

    def _place_on_emptiest(self, places: list[tuple[float, int]], pod: Pod) -> str | None:
        for rank, (_, at) in enumerate(places):
            if self._fits(pod, at):
                name = self._put(pod, at)
                del places[rank]
                insort(places, (self._share_taken(at), at))
                return name
        return None

    def _fits(self, pod: Pod, at: int) -> bool:
        asked = pod.requests
        if self._slots[at] < 1 or (asked.cpu and asked.cpu > self._cpu[at]):
            return False
        if asked.memory and asked.memory > self._memory[at]:
            return False
        node = self._nodes[at]
        key = (_admission(pod), id(node))
        admitted = self._admitted.get(key)
        if admitted is None:
            admitted = self._admitted[key] = unmet_predicate(pod, node) is None
        return admitted

    def _put(self, pod: Pod, at: int) -> str:
        self._cpu[at] -= pod.requests.cpu
        self._memory[at] -= pod.requests.memory
        self._slots[at] -= 1
        return self._nodes[at].name

    def _share_taken(self, at: int) -> float:
        offered = self._nodes[at].allocatable
        return share_taken(offered, self._cpu[at], self._memory[at])


def _admission(pod: Pod) -> int:
    """Pods with the same answer are admitted by the same nodes. They outlive the room."""
    return id(pod) if pod.volumes else id(pod.rules)
