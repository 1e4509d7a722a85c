"""New nodes in a plan: which of the nodes that could be launched hold a pod, and nodes that are added for pods."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from nodefleet.model.inventory import Market
from nodefleet.model.workload import Pod, Rules
from nodefleet.scheduling.index import zones_asked_for
from nodefleet.scheduling.pool_choice import cheapest_first
from nodefleet.scheduling.predicates import asks_by_name, attachments
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import Template, template_refusal

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

    def stand_again(self, salt: int = 0) -> None:
        """Add the nodes, which were rolled back, to the simulation again, without their pods: in their order, or in
        another one for each `salt`."""
        order = sorted(self.chosen, key=lambda name: shuffled(name, salt)) if salt else self.chosen
        for name in order:
            self._room.add(self.chosen[name].with_name(name), self.chosen[name].daemons)

    def drop_last(self, number: int) -> None:
        """Take back the nodes that were added last. The caller rolls the simulation back."""
        for name in list(self.chosen)[len(self.chosen) - number :]:
            self.zones[self.chosen.pop(name).zone] -= 1
            del self._seats[name]

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

    def can_launch(self, pool: str) -> bool:
        return pool not in self._without_capacity

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


def shuffled(name: str, salt: int) -> bytes:
    """A key that sorts names in another order for each salt, the same everywhere; in their own for none."""
    return blake2b(f"{salt} {name}".encode(), digest_size=8).digest() if salt else b""


def is_plain(pod: Pod) -> bool:
    """Only its CPU, memory and slot decide whether a node that admits it has room for it, whatever else runs there."""
    asked, rules = pod.requests, pod.rules
    if asked.storage or asked.extended or rules.host_ports or attachments([pod]):
        return False
    return not (rules.affinity or rules.anti_affinity or rules.spread or asks_by_name(pod))
