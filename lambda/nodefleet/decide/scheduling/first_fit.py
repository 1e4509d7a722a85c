"""The first of many places with enough room, without looking at each.

A binary tree over the places keeps, for every branch, the most CPU, the most memory and the most pod slots that any
place below has free. A branch whose best is too little is passed by as a whole. In a full cluster that is the trunk,
so asking in vain costs next to nothing; taking room costs one walk from the leaf up.
"""

from collections.abc import Callable, Sequence

from nodefleet.decide.scheduling.places import NodeModel, Place
from nodefleet.domain.resources import Resources

_NOTHING_AT_ALL = -(1 << 80)  # less than any overbooked node: such a leaf fits nobody


class FirstFit:
    """Places that are alike for the scheduler but for what is free on them, in the order in which they are tried."""

    def __init__(self, sample: NodeModel, places: Sequence[Place] = ()) -> None:
        self.sample = sample  # stands for all of them where only their labels and taints matter
        self._places = list(places)
        self._leaf_of = {place.index: leaf for leaf, place in enumerate(self._places)}
        self._grow()

    def append(self, place: Place) -> None:
        self._leaf_of[place.index] = len(self._places)
        self._places.append(place)
        if len(self._places) > self._width:
            self._grow()
            return
        self.refresh(place)
        at = self._leaf_of[place.index] + self._width
        while at:
            self._last[at] = max(self._last[at], place.index)
            at //= 2

    def drop_last(self) -> None:
        place = self._places.pop()
        self.close(place)
        del self._leaf_of[place.index]

    def refresh(self, place: Place) -> None:
        """What is free there has changed."""
        self._set(self._leaf_of[place.index], place.cpu, place.memory, place.slots)

    def close(self, place: Place) -> None:
        """It takes no pods until it is refreshed."""
        self._set(self._leaf_of[place.index], _NOTHING_AT_ALL, _NOTHING_AT_ALL, _NOTHING_AT_ALL)

    def first(self, asked: Resources, suits: Callable[[Place], bool], start: int) -> Place | None:
        """The first place from rank `start` on that has the CPU, memory and slot asked for, and suits otherwise."""
        most_cpu, most_memory, most_slots, last = self._cpu, self._memory, self._slots, self._last
        # What is not asked for may be overbooked. A leaf without a place fails by its slots all the same.
        cpu, memory = asked.cpu or _NOTHING_AT_ALL, asked.memory or _NOTHING_AT_ALL
        branches = [1]
        while branches:
            at = branches.pop()
            if most_cpu[at] < cpu or most_memory[at] < memory or most_slots[at] < 1 or last[at] < start:
                continue
            if at < self._width:
                branches += (2 * at + 1, 2 * at)
            elif suits(self._places[at - self._width]):
                return self._places[at - self._width]
        return None

    def _grow(self) -> None:
        """Lay the tree out anew, with as much space again for places to come."""
        places, width = self._places, 1
        while width < 2 * len(places):
            width *= 2
        spare = [_NOTHING_AT_ALL] * (width - len(places))
        self._width = width
        self._cpu = _maxima([place.cpu for place in places] + spare)
        self._memory = _maxima([place.memory for place in places] + spare)
        self._slots = _maxima([place.slots for place in places] + spare)
        self._last = _maxima([place.index for place in places] + spare)

    def _set(self, leaf: int, cpu: int, memory: int, slots: int) -> None:
        at = leaf + self._width
        most_cpu, most_memory, most_slots = self._cpu, self._memory, self._slots
        most_cpu[at], most_memory[at], most_slots[at] = cpu, memory, slots
        while at > 1:
            at //= 2
            one, other = 2 * at, 2 * at + 1
            most_cpu[at] = max(most_cpu[one], most_cpu[other])
            most_memory[at] = max(most_memory[one], most_memory[other])
            most_slots[at] = max(most_slots[one], most_slots[other])


def _maxima(leaves: list[int]) -> list[int]:
    """The tree as a list: the trunk at 1, the branches of `at` at 2 × at and 2 × at + 1, then the leaves."""
    width = len(leaves)
    tree = [0] * width + leaves
    for at in range(width - 1, 0, -1):
        tree[at] = max(tree[2 * at], tree[2 * at + 1])
    return tree
