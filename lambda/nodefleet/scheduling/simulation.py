"""All nodes together: where is a place for this pod, and could that node go?

Pods are put on the first place that fits, in a stable order, so the same cluster always packs the same. Every change
can be rolled back, so a node's removal is tried and undone without building the room again.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from nodefleet.model.workload import HOST_LABEL, Pod
from nodefleet.scheduling.index import EmptiestFirst, NodeClasses, PlainRoom
from nodefleet.scheduling.predicates import (
    NodeModel,
    NodeState,
    TopologyDemand,
    asks_by_name,
    attachments,
    is_plain,
    names_asked_for,
    shortage,
    unmet_demand,
    unmet_predicate,
    zones_asked_for,
)
from nodefleet.scheduling.topology import TopologyTracker

# ── pods that take each other's place ────────────────────────────────────────────────────────────────────────────────
# Whether pods that look for a place at the same time may take every place that one of them has.
#
# The scheduler takes pods as they come and puts each where it likes. So it is not enough that all of them fit when they
# are packed well: each must still find a place when the others came first and stand in its way.


def crowded_out(pod: Pod, places: Iterable[NodeState], others: Iterable[Pod]) -> bool:
    """Whether the others can leave none of these places, which are all that the pod has, for it."""
    coming = sorted(others, key=_size)
    for place in sorted(places, key=lambda place: (_slack(pod, place), place.index)):
        in_the_way = _in_the_way(pod, place, coming)
        if not in_the_way:
            return False
        for each in in_the_way:
            coming.remove(each)
    return True


def _in_the_way(pod: Pod, node_state: NodeState, coming: Sequence[Pod]) -> list[Pod]:
    """The smallest of those who come that would do, or as few of them as together would; none if they cannot."""
    able = [each for each in coming if unmet_predicate(each, node_state.node) is None]
    for one in able:
        if alone := _until_too_little(pod, node_state, [one]):
            return alone
    return _until_too_little(pod, node_state, able[::-1])


def _until_too_little(pod: Pod, node_state: NodeState, coming: Iterable[Pod]) -> list[Pod]:
    """Those who go there, one after the other, until the place has too little for the pod; none if it never has."""
    there: list[Pod] = []
    for each in coming:
        if shortage(each, node_state) is None:
            node_state.put(each)
            there.append(each)
            if shortage(pod, node_state) is not None:
                break
    enough = shortage(pod, node_state) is None
    for _ in there:
        node_state.take_last()
    return [] if enough else there


def _slack(pod: Pod, node_state: NodeState) -> float:
    """How much more the place has than the pod asks for, as a share of the node: what has little is taken soonest."""
    offered, asked = node_state.node.allocatable, pod.requests
    cpu = (node_state.cpu - asked.cpu) / max(offered.cpu, 1)
    return min(cpu, (node_state.memory - asked.memory) / max(offered.memory, 1))


def _size(pod: Pod) -> tuple[int, int, str]:
    return (pod.requests.cpu, pod.requests.memory, pod.key)


# ── the simulation ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class UnplaceablePod:
    """A pod that has nowhere to go if its node leaves, and how that is."""

    pod: Pod
    why: str


class SchedulerSimulation:
    def __init__(self, nodes: Iterable[NodeModel], pods: Iterable[Pod] = ()) -> None:
        """Nodes in the order in which they are filled, and the pods on them. A finished pod takes no room."""
        self._places: list[NodeState] = []
        self._by_name: dict[str, NodeState] = {}
        self._by_host: dict[str, list[NodeState]] = {}  # by the host label, which is nearly always the name
        self._start_for: dict[int, int] = {}
        self._shapes: dict[Hashable, int] = {}
        self._shape_of: dict[int, tuple[Pod, int]] = {}  # by the id of a pod, which is kept so that no other gets it
        self._undo: list[Callable[[], None]] = []
        self._lifted: dict[int, NodeState] = {}  # by index: places of which the classes do not know yet what is free
        self._neighbours: TopologyTracker | None = None  # made for the first pod whose rules speak of other pods
        self._taken_out: dict[str, NodeModel] = {}
        for node in nodes:
            self._new_place(node)
        for pod in pods:
            place = self._by_name.get(pod.node or "")
            if place is not None and not pod.finished:
                self._put(pod, place)
        self._classes = NodeClasses(self._places)

    # ── changes, each of which can be rolled back ────────────────────────────────────────────────────────────────

    def place(self, pod: Pod) -> str | None:
        """Put the pod on the first node that fits, and say which; none if no node does."""
        found = self._first_fit(pod)
        if found is None:
            return None
        self._settle(pod, found)
        return found.node.name

    def place_on(self, pod: Pod, name: str) -> str | None:
        """Put the pod on this very node; if that cannot be, the answer is why."""
        reason = self.why_not(pod, name)
        if reason is None:
            self._settle(pod, self._by_name[name])
        return reason

    def put_on(self, pod: Pod, name: str) -> None:
        """Put the pod on this node. The caller knows that it fits."""
        self._settle(pod, self._by_name[name])

    def emptiest(self) -> EmptiestFirst:
        """All places as they are now."""
        return EmptiestFirst(self._places)

    def placing_on_emptiest(self) -> Callable[[Pod], str | None]:
        """Puts each pod that it is called with on the emptiest node that fits."""
        places = self.emptiest()
        return lambda pod: self.place_on_emptiest(pod, places)

    def place_on_emptiest(self, pod: Pod, places: EmptiestFirst) -> str | None:
        """Put the pod on the emptiest node that fits, as the scheduler would, and say which; none if no node does."""
        demands = self._demands(pod)
        found = next((place for place in places if self._fits(pod, place, demands)), None)
        if found is None:
            return None
        self._settle(pod, found)
        places.rank_anew(found)
        return found.node.name

    def add(self, node: NodeModel, occupants: Iterable[Pod] = ()) -> None:
        """A new node, tried after all others, with pods that run on it from the start."""
        place = self._new_place(node)
        for pod in occupants:
            self._put(pod, place)
        self._classes.append(place)
        self._undo.append(self._drop_last_place)

    def take_out(self, name: str) -> tuple[Pod, ...]:
        """Close a node and lift its pods off; they are the answer, for they need another place.

        The node still stands while its pods look for one, so it counts as an empty domain for those that are spread,
        unless their constraint honours its taints.
        """
        place = self._by_name[name]
        pods = tuple(place.pods)
        self._replace_pods(place, ())
        self._set_leaving(place.node, leaving=True)
        self._replace_pods(place, [pod for pod in pods if not _needs_a_place(pod)])
        self._classes.close(place)
        self._start_for.clear()
        self._undo.append(partial(self._take_back, place, pods))
        return tuple(pod for pod in pods if _needs_a_place(pod))

    def try_drain(self, *names: str) -> UnplaceablePod | None:
        """Take these nodes out together and settle their pods on the others.

        That they can be packed there is not enough: the scheduler takes them as they come and spreads them. If one of
        them may find no place nothing is changed, and that pod is the answer.
        """
        mark = self.mark()
        unplaceable = self._without_place(_biggest_first(self._take_out_all(names)), self.place)
        self.roll_back(mark)
        if unplaceable is None:
            pods = self._take_out_all(names)
            spread = self.emptiest()
            unplaceable = self._crowded_out(pods, spread)
            unplaceable = unplaceable or self._without_place(pods, lambda pod: self.place_on_emptiest(pod, spread))
            if unplaceable is not None:
                self.roll_back(mark)
        return unplaceable

    def _take_out_all(self, names: Iterable[str]) -> tuple[Pod, ...]:
        return tuple(pod for taken in [self.take_out(name) for name in names] for pod in taken)

    def mark(self) -> int:
        return len(self._undo)

    def roll_back(self, mark: int) -> None:
        """Undo everything that was done since the mark."""
        self._start_for.clear()
        while len(self._undo) > mark:
            self._undo.pop()()
        for place in self._lifted.values():
            self._classes.refresh(place)
        self._lifted.clear()

    # ── finding a place ──────────────────────────────────────────────────────────────────────────────────────────

    def fits_all(self, pods: Iterable[Pod]) -> bool:
        """Whether all of them find room together. The simulation is left as it was."""
        mark = self.mark()
        fits = all(self.place(pod) is not None for pod in pods)
        self.roll_back(mark)
        return fits

    def why_not(self, pod: Pod, name: str) -> str | None:
        """What keeps the pod off this node, in words."""
        return self._why_not(pod, self._by_name[name], self._demands(pod))

    def minds_more_than_the_host(self, pod: Pod) -> bool:
        """Who runs in the same zone, or in another domain larger than a host, decides whether it may run there."""
        return any(demand.topology != HOST_LABEL for demand in self._demands(pod))

    def plain_room(self, pods: Sequence[Pod]) -> PlainRoom | None:
        """A copy that is faster, for these pods alone; none if more than CPU, memory and slot decides about one."""
        if not all(is_plain(pod) and self.is_free_of_others(pod) for pod in pods):
            return None
        return PlainRoom((place for place in self._places if not self._classes.is_closed(place)), pods)

    def is_free_of_others(self, pod: Pod) -> bool:
        """No pod that runs somewhere, nor its own rules on other pods, restrict where it may run."""
        return not self._demands(pod)

    def _first_fit(self, pod: Pod) -> NodeState | None:
        demands = self._demands(pod)
        if asks_by_name(pod):
            return self._first_named(pod, demands)
        suits = _suits(pod, demands)
        if pod.rules.affinity or pod.rules.spread:
            return self._classes.first(pod, demands, suits, start=0)
        # Room only shrinks until something is rolled back: what did not fit a pod like this does not fit the next one.
        # (For affinity and spread that is not so: a place may open when a neighbour arrives.)
        shape = self._shape(pod)
        found = self._classes.first(pod, demands, suits, start=self._start_for.get(shape, 0))
        self._start_for[shape] = found.index if found else len(self._places)
        return found

    def _without_place(self, pods: Iterable[Pod], place: Callable[[Pod], str | None]) -> UnplaceablePod | None:
        """The first of them, one after the other, that fits nowhere."""
        return next((UnplaceablePod(pod, "fits on no other node") for pod in pods if place(pod) is None), None)

    def _crowded_out(self, pods: Sequence[Pod], places: Iterable[NodeState]) -> UnplaceablePod | None:
        """The first whose places the others may all take. Who has more places than there are others keeps one."""
        for pod in {self._shape(pod): pod for pod in pods}.values():
            demands = self._demands(pod)
            own = list(islice((place for place in places if self._fits(pod, place, demands)), len(pods)))
            if len(own) < len(pods) and crowded_out(pod, own, (other for other in pods if other is not pod)):
                return UnplaceablePod(pod, "may fit on no other node once the pods that leave with it are there")
        return None

    def _fits(self, pod: Pod, node_state: NodeState, demands: list[TopologyDemand]) -> bool:
        return node_state.has(pod.requests) and self._why_not(pod, node_state, demands) is None

    def _first_named(self, pod: Pod, demands: list[TopologyDemand]) -> NodeState | None:
        names = names_asked_for(pod)
        places: Iterable[NodeState] = self._places if names is None else self._nodes_named(names)
        fitting = (place for place in places if self._why_not(pod, place, demands) is None)
        return min(fitting, key=lambda place: place.index, default=None)

    def _nodes_named(self, names: Iterable[str]) -> Iterator[NodeState]:
        for name in names:
            yield from self._by_host.get(name, ())
            if name in self._by_name:
                yield self._by_name[name]

    def _why_not(self, pod: Pod, node_state: NodeState, demands: list[TopologyDemand]) -> str | None:
        if self._classes.is_closed(node_state):
            return "the node is about to leave"
        return (
            unmet_predicate(pod, node_state.node) or shortage(pod, node_state) or unmet_demand(demands, node_state.node)
        )

    def _shape(self, pod: Pod) -> int:
        """Two pods of one shape fit the same places."""
        known = self._shape_of.get(id(pod))
        if known is None:
            number = self._shapes.setdefault(self._describe_shape(pod), len(self._shapes))
            known = self._shape_of[id(pod)] = (pod, number)
        return known[1]

    def _describe_shape(self, pod: Pod) -> Hashable:
        asked = pod.requests
        sizes = (asked.cpu, asked.memory, asked.storage, frozenset(asked.extended.items()))
        rules = self._classes.number_of(pod.rules)
        volumes = (zones_asked_for(pod), frozenset(attachments([pod]))) if pod.volumes else ()
        return (rules, pod.namespace, frozenset(pod.labels.items()), sizes, volumes)

    # ── bookkeeping ──────────────────────────────────────────────────────────────────────────────────────────────

    def _everyone(self) -> Iterator[tuple[Pod, NodeModel]]:
        return ((pod, place.node) for place in self._places for pod in place.pods)

    def _new_place(self, node: NodeModel) -> NodeState:
        place = NodeState(node, len(self._places))
        self._places.append(place)
        self._by_name[node.name] = place
        self._by_host.setdefault(node.labels.get(HOST_LABEL, node.name), []).append(place)
        if self._neighbours:
            self._neighbours.add_node(node)
        return place

    def _drop_last_place(self) -> None:
        place = self._places[-1]
        self._replace_pods(place, ())
        self._lifted.pop(place.index, None)
        self._classes.drop_last()
        if self._neighbours:
            self._neighbours.remove_node(place.node)
        self._by_host[place.node.labels.get(HOST_LABEL, place.node.name)].pop()
        del self._by_name[place.node.name]
        self._places.pop()

    def _settle(self, pod: Pod, node_state: NodeState) -> None:
        self._put(pod, node_state)
        self._classes.refresh(node_state)
        self._undo.append(partial(self._unsettle, node_state))

    def _unsettle(self, node_state: NodeState) -> None:
        self._lift_last(node_state)
        self._lifted[node_state.index] = node_state

    def _take_back(self, node_state: NodeState, pods: Sequence[Pod]) -> None:
        self._replace_pods(node_state, ())
        self._set_leaving(node_state.node, leaving=False)
        self._replace_pods(node_state, pods)
        self._classes.reopen(node_state)

    def _replace_pods(self, node_state: NodeState, pods: Iterable[Pod]) -> None:
        while node_state.pods:
            self._lift_last(node_state)
        for pod in pods:
            self._put(pod, node_state)

    def _put(self, pod: Pod, node_state: NodeState) -> None:
        node_state.put(pod)
        if self._neighbours or pod.rules.anti_affinity:
            self._track_neighbours().count(pod, node_state.node, 1)

    def _lift_last(self, node_state: NodeState) -> None:
        pod = node_state.take_last()
        if self._neighbours:
            self._neighbours.count(pod, node_state.node, -1)

    # ── pods near other pods ─────────────────────────────────────────────────────────────────────────────────────

    def _demands(self, pod: Pod) -> list[TopologyDemand]:
        rules = pod.rules
        if self._neighbours or rules.affinity or rules.anti_affinity or rules.spread:
            return self._track_neighbours().demands(pod)
        return []

    def _track_neighbours(self) -> TopologyTracker:
        if self._neighbours is None:
            self._neighbours = TopologyTracker(self._everyone)
            for place in self._places:
                self._neighbours.add_node(place.node)
            for node in self._taken_out.values():
                self._neighbours.set_leaving(node, leaving=True)
        return self._neighbours

    def _set_leaving(self, node: NodeModel, *, leaving: bool) -> None:
        if leaving:
            self._taken_out[node.name] = node
        else:
            del self._taken_out[node.name]
        if self._neighbours:
            self._neighbours.set_leaving(node, leaving=leaving)


def _needs_a_place(pod: Pod) -> bool:
    return pod.movable and pod.deleted_at is None


def _biggest_first(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (-pod.requests.cpu, -pod.requests.memory, pod.key))


def _suits(pod: Pod, demands: list[TopologyDemand]) -> Callable[[NodeState], bool]:
    """What a place must satisfy besides its class and its free CPU, memory and slot."""
    asked, ports = pod.requests, pod.rules.host_ports

    def suits(node_state: NodeState) -> bool:
        if (
            not node_state.has_the_rest(asked)
            or not node_state.has_ports(ports)
            or unmet_demand(demands, node_state.node)
        ):
            return False
        return not pod.volumes or node_state.driver_at_limit([pod]) is None

    return suits
