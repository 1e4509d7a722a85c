"""The nodes that would be bought for pods that wait: which they are, who sits on them, and what else would do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodefleet.decide.scheduling.room import Room
from nodefleet.decide.scheduling.templates import Template, refusal
from nodefleet.domain.resources import total
from nodefleet.domain.workload import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """A node that would be bought, and the pods that would sit on it."""

    zone: str
    type: str
    pods: tuple[Pod, ...]
    only_here: bool = False  # somebody on it minds the zone: who runs there, or how many
    templates: tuple[Template, ...] = field(compare=False, repr=False)  # all that the pool could launch

    @property
    def types(self) -> tuple[str, ...]:
        """Types that would hold the same pods in the same zone, in the policy's order."""
        return tuple(each.type for each in self.templates if each.zone == self.zone and self._would_do(each))

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones where each of these types would do."""
        if self.only_here:
            return (self.zone,)
        types = self.types
        fitting = Counter(each.zone for each in self.templates if each.type in types and self._would_do(each))
        return tuple(sorted(zone for zone, number in fitting.items() if number == len(types)))

    def _would_do(self, template: Template) -> bool:
        enough = template.empty.has(total(pod.requests for pod in self.pods)) and len(self.pods) <= template.free.pods
        return enough and all(template.can_hold(pod) for pod in self.pods)


class Seats(dict[str, list[Pod]]):
    """Who sits on which new node, of all pools: a pod may sit on one that another pool buys."""


class NewNodes:
    """One pool's nodes that are added to a room, each in the zone that has fewest."""

    def __init__(self, room: Room, templates: Sequence[Template], zones: Mapping[str, int], seats: Seats) -> None:
        self.chosen: dict[str, Template] = {}  # by the name of the new node
        self._seats = seats
        self._room = room
        self._templates = templates
        self._zones = Counter(zones)

    def described(self) -> tuple[NewNode, ...]:
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
        """Back into the room, from which they were rolled back, without their pods."""
        for name, template in self.chosen.items():
            self._room.add(template.named(name), template.daemons)

    def add_for(self, pod: Pod) -> str | None:
        """Add a node and put the pod on it; if no new node would hold it, none is added and the answer is why."""
        reasons = []
        for template in sorted(self._templates, key=lambda each: (self._zones[each.zone], each.zone)):
            if not template.can_hold(pod):
                continue
            reason = self._try(pod, template)
            if reason is None:
                return None
            reasons.append(f"a new {template.type} in {template.zone}: {reason}")
        return next(iter(reasons), None) or refusal(pod, self._templates)

    def _try(self, pod: Pod, template: Template) -> str | None:
        name = f"new {template.pool} {len(self.chosen)}"  # no real node's name has a space
        mark = self._room.mark()
        self._room.add(template.named(name), template.daemons)
        reason = self._room.place_on(pod, name)
        if reason is None:
            self.chosen[name] = template
            self._seats[name] = [pod]
            self._zones[template.zone] += 1
        else:
            self._room.roll_back(mark)
        return reason
