"""Nodes that are alike, so that whether a pod may go there at all is asked once for many.

Two nodes are alike when they have the same taints and the same values of all labels that pods have asked for so far,
be it to run there or to be near or far from others. Only the host label is left out: it would make every node a class
of its own. When a pod asks for a label that nobody has asked for yet, the classes are told apart anew.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence

from nodefleet.decide.scheduling.first_fit import FirstFit
from nodefleet.decide.scheduling.fits import labels_asked_for, why_not
from nodefleet.decide.scheduling.neighbours import Demand, unmet
from nodefleet.decide.scheduling.places import NodeModel, Place
from nodefleet.domain.workload import HOST_LABEL, ZONE_LABEL, Pod, Rules


class Classes:
    def __init__(self, places: Sequence[Place]) -> None:
        self._labels: tuple[str, ...] = (ZONE_LABEL,)
        self._places = list(places)
        self._closed: set[int] = set()
        self._trees: dict[Hashable, FirstFit] = {}
        self._tree_of: list[FirstFit] = []  # by the place's index
        self._admitting: dict[Hashable, list[FirstFit]] = {}
        self._rules: dict[int, Rules] = {}
        self._group()

    def first(self, pod: Pod, demands: Sequence[Demand], suits: Callable[[Place], bool], start: int) -> Place | None:
        """The first place from rank `start` on that is in an admitting class, has enough room, and suits."""
        for_classes = [demand for demand in demands if demand.topology != HOST_LABEL]
        self._tell_apart_by(demand.topology for demand in for_classes)
        fitting = [
            tree.first(pod.requests, suits, start)
            for tree in self._classes_admitting(pod)
            if unmet(for_classes, tree.sample) is None
        ]
        return min((place for place in fitting if place), key=lambda place: place.index, default=None)

    def append(self, place: Place) -> None:
        key = self._key(place.node)
        if key not in self._trees:
            self._trees[key] = FirstFit(place.node)
            self._admitting.clear()
        self._places.append(place)
        self._tree_of.append(self._trees[key])
        self._trees[key].append(place)

    def drop_last(self) -> None:
        self._places.pop()
        self._tree_of.pop().drop_last()

    def refresh(self, place: Place) -> None:
        """What is free there has changed."""
        self._tree_of[place.index].refresh(place)

    def close(self, place: Place) -> None:
        self._closed.add(place.index)
        self._tree_of[place.index].close(place)

    def reopen(self, place: Place) -> None:
        self._closed.remove(place.index)
        self.refresh(place)

    def is_closed(self, place: Place) -> bool:
        return place.index in self._closed

    def number_of(self, rules: Rules) -> int:
        """The same number for the same rules; pods of one template share them."""
        self._rules[id(rules)] = rules  # kept, so that the id is not given to other rules
        return id(rules)

    def _classes_admitting(self, pod: Pod) -> list[FirstFit]:
        key = (self.number_of(pod.rules), zones_asked_for(pod))
        if key not in self._admitting:
            self._tell_apart_by(labels_asked_for(pod.rules))
            self._admitting[key] = [tree for tree in self._trees.values() if why_not(pod, tree.sample) is None]
        return self._admitting[key]

    def _tell_apart_by(self, labels: Iterable[str]) -> None:
        wanted = {*self._labels, *labels}
        if len(wanted) > len(self._labels):
            self._labels = tuple(sorted(wanted))
            self._group()

    def _group(self) -> None:
        members: dict[Hashable, list[Place]] = {}
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


def zones_asked_for(pod: Pod) -> Hashable:
    """What its volumes ask of a node, but for those that name it."""
    return tuple([(volume.zones, volume.unusable) for volume in pod.volumes if volume.zones or volume.unusable])
