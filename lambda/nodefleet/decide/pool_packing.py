"""One pool's pods on their way into the room that there is, and what they come down to."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodefleet.decide.choices import Choices
from nodefleet.decide.new_nodes import NewNode, NewNodes, Seats
from nodefleet.decide.scheduling.room import Room
from nodefleet.decide.scheduling.templates import Template
from nodefleet.domain.resources import NOTHING
from nodefleet.domain.workload import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """What the pods that wait for one pool come down to. Pods are named by uid where we act on it, else by key."""

    nodes: int = 0  # new ones
    new: tuple[NewNode, ...] = ()
    placed: tuple[str, ...] = ()  # they fit on nodes that are there or on their way
    on_ready: tuple[str, ...] = ()  # those of them that fit on nodes that are ready now
    bought_for: tuple[str, ...] = ()  # they would sit on the new ones
    cannot_hold: tuple[tuple[str, str], ...] = ()  # (namespace/name, why): no new node would help
    unknown: bool = False  # nobody knows what a new node holds, so `nodes` does not say what `bought_for` needs


class PoolPacking:
    """`zones` says how many workers the pool has in each zone: new ones go where there are fewest."""

    def __init__(
        self,
        room: Room,
        templates: Sequence[Template],
        zones: Mapping[str, int],
        choices: Choices,
        seats: Seats,
        coming: Collection[str] = (),
    ) -> None:
        self.new = NewNodes(room, templates, zones, seats)
        self.settled: dict[str, Pod] = {}  # by key: who has a place
        self._room = room
        self._templates = templates
        self._choices = choices
        self._seats = seats
        self._coming = coming
        self._left: list[Pod] = []
        self._placed: list[str] = []
        self._on_ready: list[str] = []
        self._bought_for: list[str] = []
        self._cannot_hold: dict[str, str] = {}

    def take(self, pods: Iterable[Pod]) -> None:
        self._left += sorted(pods, key=self._rank)

    def place(self) -> bool:
        """Find a place for everybody who may still get one. Whether somebody did: others may want to be near them."""
        trying, self._left = self._left, []
        for pod in trying:
            reason = self._why_not(pod)
            if reason is None:
                self.settled[pod.key] = pod
                self._cannot_hold.pop(pod.key, None)
                continue
            self._cannot_hold[pod.key] = reason
            if pod.rules.affinity or pod.rules.spread:
                self._left.append(pod)
        return len(self._left) < len(trying)

    def described(self) -> Packing:
        return Packing(
            nodes=len(self.new.chosen),
            new=self.new.described(),
            placed=tuple(self._placed),
            on_ready=tuple(self._on_ready),
            bought_for=tuple(self._bought_for),
            cannot_hold=tuple(self._cannot_hold.items()),
            unknown=not self._templates and bool(self._bought_for),
        )

    def _rank(self, pod: Pod) -> tuple[int, float, str, str]:
        """What is hard to place comes first: who has the fewest kinds of nodes to choose from, then who takes the
        largest share of a node. Then by name."""
        node = self._templates[0].free if self._templates else NOTHING
        share = max(pod.requests.cpu / max(node.cpu, 1), pod.requests.memory / max(node.memory, 1))
        return (self._choices.number(pod), -share, pod.key, pod.uid)

    def _why_not(self, pod: Pod) -> str | None:
        node = self._room.place(pod)
        if node is not None and node in self._seats:
            self._seats[node].append(pod)
        if node is not None and node not in self.new.chosen:
            self._placed.append(_id(pod))
            if node not in self._coming:
                self._on_ready.append(_id(pod))
            return None
        if node is None and self._templates and (reason := self.new.add_for(pod)) is not None:
            return reason
        self._bought_for.append(_id(pod))
        return None


def _id(pod: Pod) -> str:
    return pod.uid or pod.key
