"""How many new nodes would the pods that wait need?

The scheduler is played through: each pod goes on the first node that takes it, booting ones included, and a new node
is added when none does. A pod that no new node could hold buys nothing and is named with the reason.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodefleet.decide.new_nodes import NewNode, NewNodes
from nodefleet.decide.scheduling.fits import why_not
from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.decide.scheduling.room import Room
from nodefleet.decide.scheduling.standing import coming, room_of, zones_in_use
from nodefleet.decide.scheduling.templates import Template, knowledge, refusal
from nodefleet.domain.fleet import Worker
from nodefleet.domain.observation import Observation
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.domain.resources import NOTHING
from nodefleet.domain.workload import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """What the pods that wait for one pool come down to. Pods are named by uid where we act on it, else by key."""

    nodes: int = 0  # new ones
    new: tuple[NewNode, ...] = ()
    placed: tuple[str, ...] = ()  # they fit on nodes that are there or on their way
    bought_for: tuple[str, ...] = ()  # they would sit on the new ones
    cannot_hold: tuple[tuple[str, str], ...] = ()  # (namespace/name, why): no new node would help
    unknown: bool = False  # nobody knows what a new node holds, so `nodes` does not say what `bought_for` needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Which pool each pod that waits belongs to."""

    by_pool: Mapping[str, tuple[Pod, ...]]
    nobody: tuple[tuple[Pod, str], ...] = ()  # with the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """One look's pods that wait and all the room there is for them. Building it is the expensive part: once a look."""

    room: Room
    waiting: tuple[Pod, ...]
    templates: Mapping[str, tuple[Template, ...]]  # by pool, in the policy's order
    outlines: Mapping[str, tuple[NodeModel, ...]]  # by pool: what its nodes look like, if nobody knows what they hold
    zones: Mapping[str, Counter[str]]  # by pool: workers in each zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Packings:
    by_pool: Mapping[str, Packing]  # every pool of the policy
    nobody: tuple[tuple[str, str], ...] = ()  # (namespace/name, why): pods that fit neither now nor on any new node


def unschedulable(pods: Iterable[Pod]) -> tuple[Pod, ...]:
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


def outlook(seen: Observation, policy: Policy, workers: Sequence[Worker]) -> Outlook | None:
    """None if the pods cannot be seen: then nothing can be placed, and no node can be shown to be free to go."""
    if isinstance(seen.kubernetes, Missing) or seen.kubernetes.pods is None:
        return None
    known = knowledge(seen)
    on_their_way = coming(seen, policy, workers, known)
    return Outlook(
        room=room_of(seen.kubernetes.nodes, seen.kubernetes.pods, workers, on_their_way),
        waiting=unschedulable(seen.kubernetes.pods),
        templates={pool.name: known.templates(pool) for pool in policy.pools},
        outlines={pool.name: tuple(known.outlines(pool)) for pool in policy.pools},
        zones=zones_in_use(workers, on_their_way),
    )


def packings(look: Outlook) -> Packings:
    """For every pool what its pods need. The room is left as it was."""
    mark = look.room.mark()
    assigned = assign(look.waiting, look)
    packed = {
        pool: _Packing(pods, look.room, look.templates[pool], look.zones.get(pool, Counter()))
        for pool, pods in assigned.by_pool.items()
    }
    _place_all(list(packed.values()))
    by_pool = {pool: each.described() for pool, each in packed.items()}
    nobody = tuple((pod.key, why) for pod, why in assigned.nobody if look.room.place(pod) is None)
    look.room.roll_back(mark)
    return Packings(by_pool=by_pool, nobody=nobody)


def assign(pods: Iterable[Pod], look: Outlook) -> Assignment:
    """Each pod to the first pool, in the policy's order, one of whose nodes can hold it.

    A pool of which nobody knows what its nodes hold gets what is left, as far as labels and taints allow.
    """
    by_pool: dict[str, list[Pod]] = {pool: [] for pool in look.templates}
    nobody = []
    for pod in pods:
        pool = _first_that_can_hold(pod, look) or _first_that_might_hold(pod, look)
        if pool is not None:
            by_pool[pool].append(pod)
        else:
            nobody.append((pod, _why_nobody(pod, look)))
    return Assignment(by_pool={pool: tuple(held) for pool, held in by_pool.items()}, nobody=tuple(nobody))


def pack(pods: Iterable[Pod], room: Room, templates: Sequence[Template], zones: Mapping[str, int]) -> Packing:
    """Put one pool's pods into the room, adding new nodes to it where they are needed.

    `zones` says how many workers the pool has in each zone: new ones go where there are fewest.
    """
    packing = _Packing(pods, room, templates, zones)
    _place_all([packing])
    return packing.described()


def _place_all(packings: Sequence["_Packing"]) -> None:
    """Round after round, for whoever is placed may be the one that others, of other pools too, want to be near."""
    while any(each.place() for each in packings):
        pass


class _Packing:
    """One pool's pods on their way into the room."""

    def __init__(
        self, pods: Iterable[Pod], room: Room, templates: Sequence[Template], zones: Mapping[str, int]
    ) -> None:
        self._room = room
        self._templates = templates
        self._new = NewNodes(room, templates, zones)
        self._left = _biggest_first(pods, templates)
        self._placed: list[str] = []
        self._bought_for: list[str] = []
        self._cannot_hold: dict[str, str] = {}

    def place(self) -> bool:
        """Find a place for everybody who may still get one. Whether somebody did: others may want to be near them."""
        trying, self._left = self._left, []
        for pod in trying:
            reason = self._why_not(pod)
            if reason is None:
                self._cannot_hold.pop(pod.key, None)
                continue
            self._cannot_hold[pod.key] = reason
            if pod.rules.affinity or pod.rules.spread:
                self._left.append(pod)
        return len(self._left) < len(trying)

    def described(self) -> Packing:
        return Packing(
            nodes=len(self._new.chosen),
            new=self._new.described(),
            placed=tuple(self._placed),
            bought_for=tuple(self._bought_for),
            cannot_hold=tuple(self._cannot_hold.items()),
            unknown=not self._templates and bool(self._bought_for),
        )

    def _why_not(self, pod: Pod) -> str | None:
        node = self._room.place(pod)
        if node is not None and node not in self._new.chosen:
            self._placed.append(_id(pod))
            return None
        if node is not None:
            self._new.seat(pod, node)
        elif self._templates and (reason := self._new.add_for(pod)) is not None:
            return reason
        self._bought_for.append(_id(pod))
        return None


def _first_that_can_hold(pod: Pod, look: Outlook) -> str | None:
    return next(
        (pool for pool, templates in look.templates.items() if any(each.can_hold(pod) for each in templates)), None
    )


def _first_that_might_hold(pod: Pod, look: Outlook) -> str | None:
    blind = (pool for pool, templates in look.templates.items() if not templates)
    return next((pool for pool in blind if any(why_not(pod, each) is None for each in look.outlines[pool])), None)


def _why_nobody(pod: Pod, look: Outlook) -> str:
    reasons = []
    for pool, templates in look.templates.items():
        outlines = (why_not(pod, each) for each in look.outlines[pool])
        reasons.append((pool, refusal(pod, templates) or next(outlines, None) or "it has no instance types"))
    if len(reasons) == 1:
        return reasons[0][1]
    return "; ".join(f"pool {pool}: {reason}" for pool, reason in reasons)


def _biggest_first(pods: Iterable[Pod], templates: Sequence[Template]) -> list[Pod]:
    """By the larger of a pod's shares of a new node, for what is big is hard to place; then by name."""
    node = templates[0].free if templates else NOTHING

    def rank(pod: Pod) -> tuple[float, str, str]:
        share = max(pod.requests.cpu / max(node.cpu, 1), pod.requests.memory / max(node.memory, 1))
        return (-share, pod.key, pod.uid)

    return sorted(pods, key=rank)


def _id(pod: Pod) -> str:
    return pod.uid or pod.key
