"""Packing of pending pods onto new nodes: how many nodes they need, of which pool, zone and type."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nodefleet.model.fleet import Worker
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import Observation
from nodefleet.model.workload import NOTHING, Pod, Rules, total
from nodefleet.policy.cluster import Policy
from nodefleet.scheduling.index import zones_asked_for
from nodefleet.scheduling.predicates import NodeModel, unmet_predicate
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import (
    Template,
    expected_nodes,
    simulate_fleet,
    template_refusal,
    template_source,
    zones_in_use,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """What is wanted of one new node, when pods have a say in it."""

    zones: tuple[str, ...] = ()  # only there; empty means anywhere
    types: tuple[str, ...] = ()  # only these; empty means any of the pool's


# ── new nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────
# The nodes that would be bought for pods that wait: which they are, who sits on them, and what else would do.


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


class Assignments(dict[str, list[Pod]]):
    """Who sits on which new node, of all pools: a pod may sit on one that another pool buys."""


class NewNodes:
    """One pool's nodes that are added to a room, each in the zone that has fewest."""

    def __init__(
        self, room: SchedulerSimulation, templates: Sequence[Template], zones: Mapping[str, int], seats: Assignments
    ) -> None:
        self.chosen: dict[str, Template] = {}  # by the name of the new node
        self._seats = seats
        self._room = room
        self._templates = templates
        self._zones = Counter(zones)

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
        """Back into the room, from which they were rolled back, without their pods."""
        for name, template in self.chosen.items():
            self._room.add(template.with_name(name), template.daemons)

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
        return next(iter(reasons), None) or template_refusal(pod, self._templates)

    def _try(self, pod: Pod, template: Template) -> str | None:
        name = f"new {template.pool} {len(self.chosen)}"  # no real node's name has a space
        mark = self._room.mark()
        self._room.add(template.with_name(name), template.daemons)
        reason = self._room.place_on(pod, name)
        if reason is None:
            self.chosen[name] = template
            self._seats[name] = [pod]
            self._zones[template.zone] += 1
        else:
            self._room.roll_back(mark)
        return reason


# ── pod compatibility ────────────────────────────────────────────────────────────────────────────────────────────────
# Which of the nodes that could be bought would hold a pod. Pods of one template are asked about once.


class PodCompatibility:
    def __init__(self, templates: Mapping[str, Sequence[Template]]) -> None:
        self._templates = templates  # by pool
        self._found: dict[Hashable, Mapping[str, int]] = {}
        self._rules: dict[int, Rules] = {}

    def pools(self, pod: Pod) -> tuple[str, ...]:
        """Pools one of whose nodes could hold the pod, in the policy's order."""
        return tuple(self._of(pod))

    def number(self, pod: Pod) -> int:
        """How many kinds of nodes could, by type and zone."""
        return sum(self._of(pod).values())

    def _of(self, pod: Pod) -> Mapping[str, int]:
        shape = self._shape(pod)
        if shape not in self._found:
            by_pool = {pool: sum(each.can_hold(pod) for each in those) for pool, those in self._templates.items()}
            self._found[shape] = {pool: number for pool, number in by_pool.items() if number}
        return self._found[shape]

    def _shape(self, pod: Pod) -> Hashable:
        self._rules[id(pod.rules)] = pod.rules  # kept, so that the id is not given to other rules
        asked = pod.requests
        sizes = (asked.cpu, asked.memory, asked.storage, frozenset(asked.extended.items()))
        return (id(pod.rules), sizes, zones_asked_for(pod), any(volume.node for volume in pod.volumes))


# ── one pool ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# One pool's pods on their way into the room that there is, and what they come down to.


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
        room: SchedulerSimulation,
        templates: Sequence[Template],
        zones: Mapping[str, int],
        choices: PodCompatibility,
        seats: Assignments,
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


# ── all pools ────────────────────────────────────────────────────────────────────────────────────────────────────────
# How many new nodes would the pods that wait need?
#
# The scheduler is played through: each pod goes on the first node that takes it, booting ones included, and a new node
# is added when none does. A pod that no new node could hold buys nothing and is named with the reason.
#
# That is the fewest nodes that could do. The scheduler spreads pods instead of packing them, so they may not be enough;
# if some of the pods still wait when their nodes are there, more is allowed for that.


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Which pool each pod that waits belongs to."""

    by_pool: Mapping[str, tuple[Pod, ...]]
    nobody: tuple[tuple[Pod, str], ...] = ()  # with the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingInput:
    """One iteration's pods that wait and all the room there is for them. Building it is the expensive part: once an
    iteration."""

    room: SchedulerSimulation
    waiting: tuple[Pod, ...]
    templates: Mapping[str, tuple[Template, ...]]  # by pool, in the policy's order
    outlines: Mapping[str, tuple[NodeModel, ...]]  # by pool: what its nodes look like, if nobody knows what they hold
    zones: Mapping[str, Counter[str]]  # by pool: workers in each zone
    choices: PodCompatibility
    coming: frozenset[str] = frozenset()  # names in the room of nodes that are not ready yet
    used_otherwise: bool = False  # nodes that were bought for some of the pods are there, and they still wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingResult:
    by_pool: Mapping[str, Packing]  # every pool of the policy
    nobody: tuple[tuple[str, str], ...] = ()  # (namespace/name, why): pods that fit neither now nor on any new node


def list_unschedulable(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Those that a new node could help: the scheduler gave them up, and nothing else is about to happen to them."""
    return tuple(
        pod
        for pod in pods
        if pod.unschedulable_since is not None
        and pod.node is None
        and pod.deleted_at is None
        and pod.priority >= 0
        and not (pod.finished or pod.is_daemon or pod.gated or pod.nominated)
    )


def packing_input(seen: Observation, policy: Policy, workers: Sequence[Worker]) -> PackingInput | None:
    """None if the pods cannot be seen: then nothing can be placed, and no node can be shown to be free to go."""
    if isinstance(seen.kubernetes, Missing) or seen.kubernetes.pods is None:
        return None
    known = template_source(seen)
    templates = {pool.name: known.templates(pool) for pool in policy.pools}
    on_their_way = expected_nodes(seen, policy, workers, known)
    return PackingInput(
        room=simulate_fleet(seen.kubernetes.nodes, seen.kubernetes.pods, workers, on_their_way),
        waiting=list_unschedulable(seen.kubernetes.pods),
        templates=templates,
        outlines={pool.name: tuple(known.outlines(pool)) for pool in policy.pools},
        zones=zones_in_use(workers, on_their_way),
        choices=PodCompatibility(templates),
        coming=frozenset(each.name for each in on_their_way),
    )


def pack_pools(look: PackingInput) -> PackingResult:
    """For every pool what its pods need. The room is left as it was."""
    mark, choices, seats = look.room.mark(), look.choices, Assignments()
    assigned = assign(look.waiting, look)
    packed = {
        pool: PoolPacking(look.room, templates, look.zones.get(pool, Counter()), choices, seats, look.coming)
        for pool, templates in look.templates.items()
    }
    # Who has a choice of pools comes last, and may find a place on a node that is bought for those who have none.
    for chooses in (False, True):
        for pool, pods in assigned.by_pool.items():
            packed[pool].take(pod for pod in pods if (len(choices.pools(pod)) > 1) is chooses)
        _place_all(list(packed.values()))
    nobody = tuple((pod.key, why) for pod, why in assigned.nobody if look.room.place(pod) is None)
    if look.used_otherwise:
        _allow_for_spreading(look, mark, list(packed.values()))
    by_pool = {pool: each.describe() for pool, each in packed.items()}
    look.room.roll_back(mark)
    return PackingResult(by_pool=by_pool, nobody=nobody)


def assign(pods: Iterable[Pod], look: PackingInput) -> Assignment:
    """Each pod to the first pool, in the policy's order, one of whose nodes can hold it.

    A pool of which nobody knows what its nodes hold gets what is left, as far as labels and taints allow.
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
    """Round after round, for whoever is placed may be the one that others, of other pools too, want to be near."""
    while any(each.place() for each in packed):
        pass


def _allow_for_spreading(look: PackingInput, mark: int, packed: Sequence[PoolPacking]) -> None:
    """More nodes, until everybody finds a place also if each goes to the emptiest: as they come, and small ones first.

    Only those who found a place at all are tried; who finds none now gets a new node as before.
    """
    settled = [(pod, each) for each in packed for pod in each.settled.values()]
    for order in (_as_they_come, _smallest_first):
        look.room.roll_back(mark)
        for each in packed:
            each.new.stand_again()
        places = look.room.emptiest()
        for pod, each in order(settled):
            if look.room.place_on_emptiest(pod, places) is None and each.new.add_for(pod) is None:
                places = look.room.emptiest()


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
