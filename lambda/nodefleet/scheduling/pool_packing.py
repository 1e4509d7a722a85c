"""What one pool's pending pods need: places on nodes that are there, and new nodes for the others.

Pods with rules that depend on other pods go through the scheduler simulation, one after the other; all others are
packed by `bin_packing`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from nodefleet.model.inventory import NOTHING, Market
from nodefleet.model.snapshot import add_up
from nodefleet.model.workload import Pod
from nodefleet.scheduling.bin_packing import BinPacking, NodeOption, PlannedNode, PodGroup
from nodefleet.scheduling.index import PlainRoom
from nodefleet.scheduling.predicates import NodeModel, is_plain
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import PodCompatibility, Template, price_of_part, template_refusal

_MOST_TIMES = 2  # the price of the planned type: the next size of its family
_SHORT_TIMES = 1000  # what a type that EC2 lacks counts for: it is planned only where no other holds the pod

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
    def priority(self) -> int:
        """The highest of its pods."""
        return max((pod.priority for pod in self.pods), default=0)

    @property
    def types(self) -> tuple[str, ...]:
        """Types that would hold the same pods in the same zone, in the policy's order."""
        return tuple(dict.fromkeys(each.type for each in self._fitting if each.zone == self.zone))

    def prefer(self, types: Sequence[str]) -> tuple[str, ...]:
        """Those of `types` that cost little more than the planned one; none if that is all of them. A much larger node
        pays only for more pods: when EC2 lacks the others, what waits is packed again."""
        if len(types) <= 1:
            return ()
        price = {each.type: each.price for each in self.templates}
        planned = price.get(self.type)
        if planned is None or any(price[type_] is None for type_ in types):
            return ()
        found = tuple(type_ for type_ in types if (price[type_] or 0.0) <= _MOST_TIMES * planned)
        return found if len(found) < len(types) else ()

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
        self,
        simulation: SchedulerSimulation,
        templates: Sequence[Template],
        zones: Mapping[str, int],
        seats: Assignments,
    ) -> None:
        self.chosen: dict[str, Template] = {}  # by the name of the new node
        self.zones = Counter(zones)
        self._seats = seats
        self._room = simulation
        self._templates = templates
        self._nodes: dict[tuple[str, int], NodeModel] = {}  # by name and template: made once for all orders

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

    def stand_again(
        self, salt: int = 0, group: int = 0, groups: int = 1, room: SchedulerSimulation | PlainRoom | None = None
    ) -> None:
        """Add the nodes, which were rolled back, to the simulation or another `room` again, without their pods: in
        their order, or in another one for each `salt`; all of them, or one of so many groups."""
        order = sorted(self.chosen, key=lambda name: shuffle_key(name, salt)) if salt else list(self.chosen)
        for name in order[len(order) * group // groups : len(order) * (group + 1) // groups]:
            (room or self._room).add(self._node_model(name, self.chosen[name]), self.chosen[name].daemons)

    def drop_last(self, number: int) -> None:
        """Take back the nodes that were added last. The caller rolls the simulation back."""
        for name in list(self.chosen)[len(self.chosen) - number :]:
            self.zones[self.chosen.pop(name).zone] -= 1
            del self._seats[name]

    def add_for(self, pod: Pod, room: PlainRoom | None = None) -> str | None:
        """Add a node and put the pod on it; if no new node would hold it, none is added and the answer is why."""
        reasons = []
        known = bool(pod.requests.extended) and all(each.price is not None for each in self._templates)

        def rank(each: Template) -> tuple[bool, int, str, float]:
            """Devices are what such a node costs: the type that has them for the least comes first."""
            return (each.short, self.zones[each.zone], each.zone, price_of_part(pod, each) if known else 0.0)

        for template in sorted(self._templates, key=rank):
            if not template.can_hold(pod):
                continue
            if room:  # an empty node holds there whatever the template can hold
                self._add_plain(pod, template, room)
                return None
            reason = self._try(pod, template)
            if reason is None:
                return None
            reasons.append(f"a new {template.type} in {template.zone}: {reason}")
        return next(iter(reasons), None) or template_refusal(pod, self._templates)

    def add_planned(self, template: Template, pods: Sequence[Pod], *, spare: bool = False) -> None:
        """Add a node with the pods that a plan puts there. `spare`: they have a place in the plan already, and need
        this node only if others take it."""
        name = self._name(template)
        self._room.add(self._node_model(name, template), template.daemons)
        for pod in () if spare else pods:
            self._room.put_on(pod, name)
        self._add(name, template, pods)

    def _try(self, pod: Pod, template: Template) -> str | None:
        name = self._name(template)
        mark = self._room.mark()
        self._room.add(self._node_model(name, template), template.daemons)
        reason = self._room.place_on(pod, name)
        if reason is None:
            self._add(name, template, (pod,))
        else:
            self._room.roll_back(mark)
        return reason

    def _add_plain(self, pod: Pod, template: Template, room: PlainRoom) -> None:
        name = self._name(template)
        room.add(self._node_model(name, template), template.daemons)
        room.place_last(pod)
        self._add(name, template, (pod,))

    def _node_model(self, name: str, template: Template) -> NodeModel:
        known = self._nodes.get((name, id(template)))
        return known or self._nodes.setdefault((name, id(template)), template.with_name(name))

    def _name(self, template: Template) -> str:
        return f"new {template.pool} {len(self.chosen)}"  # no real node's name has a space

    def _add(self, name: str, template: Template, pods: Iterable[Pod]) -> None:
        self.chosen[name] = template
        self._seats[name] = list(pods)
        self.zones[template.zone] += 1


@lru_cache(maxsize=20_000)  # an iteration asks for the same orders of the same pods again and again
def shuffle_key(name: str, salt: int) -> bytes:
    """A key that sorts names in another order for each salt, the same everywhere; in their own for none."""
    return blake2b(f"{salt} {name}".encode(), digest_size=8).digest() if salt else b""


# ── plans ────────────────────────────────────────────────────────────────────────────────────────────────────────────


ORDERS = 6  # of pods that a plan must stand; another needs more in one of fifty (benchmarks/packing.py)


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
        simulation: SchedulerSimulation,
        templates: Sequence[Template],
        zones: Mapping[str, int],
        choices: PodCompatibility,
        seats: Assignments,
        coming: Collection[str] = (),
        *,
        together: bool = False,
        in_queue_order: bool = False,
        excess: Callable[[int], int] = int,
    ) -> None:
        """`together`: plain pods are packed together, after those with rules; else all one by one, by their size.
        `excess`: nodes that the order of the queue may add to a plan of so many."""
        self.new = NewNodes(simulation, templates, zones, seats)
        self.settled: dict[str, Pod] = {}  # by key: pods that have a place
        self._room = simulation
        self._templates = templates
        self._choices = choices
        self._seats = seats
        self._coming = coming
        self._together = together
        self._in_queue_order = in_queue_order
        self._most_excess = excess
        self.excess = 0  # nodes that were added for it
        self._left: list[Pod] = []
        self._placed: list[str] = []
        self._on_ready: list[str] = []
        self._bought_for: list[str] = []
        self._cannot_hold: dict[str, str] = {}

    @property
    def most_excess(self) -> int:
        """Nodes that the order of the queue may add."""
        return self._most_excess(len(self.new.chosen))

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
            missing = missing[: self._most_excess(len(plan))]
            self.excess = len(missing)
            self._launch(missing, groups.in_order(reversed(queue)), spare=True)

    def _missing(
        self, packing: BinPacking, plan: Sequence[PlannedNode], groups: "_PodGroups", pods: Sequence[Pod]
    ) -> Iterator[tuple[list[PlannedNode], list[Pod]]]:
        """What the plan lacks in several orders of the queue: pods of the same second may come in any."""
        for salt in range(ORDERS):
            queue = sorted(pods, key=lambda pod: queue_order(pod, salt))
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
    times = _SHORT_TIMES if template.short else 1
    if known and template.price is not None:
        return template.price * times
    size, unit = template.node.allocatable, first.node.allocatable
    return (size.cpu / max(unit.cpu, 1) + size.memory / max(unit.memory, 1)) * times


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


def queue_order(pod: Pod, salt: int = 0) -> tuple[int, str, bytes, str]:
    """As the scheduler's queue has them: by priority, then by time and name; or shuffled for each `salt`. The time that
    counts there is that of its last try, which is another one whenever a node joins, and which no pod tells."""
    since = "" if salt else str(pod.unschedulable_since)
    return (-pod.priority, since, shuffle_key(pod.uid, salt), pod.key)


def _id(pod: Pod) -> str:
    return pod.uid or pod.key
