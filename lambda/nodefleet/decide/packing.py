"""How many new nodes would the pods that wait need?

The scheduler is played through: each pod goes on the first node that takes it, booting ones included, and a new node
is added when none does. A pod that no new node could hold buys nothing and is named with the reason.

That is the fewest nodes that could do. The scheduler spreads pods instead of packing them, so they may not be enough;
if some of the pods still wait when their nodes are there, more is allowed for that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nodefleet.decide.choices import Choices
from nodefleet.decide.new_nodes import Seats
from nodefleet.decide.pool_packing import Packing, PoolPacking
from nodefleet.decide.scheduling.fits import why_not
from nodefleet.decide.scheduling.places import NodeModel
from nodefleet.decide.scheduling.room import Room
from nodefleet.decide.scheduling.standing import coming, room_of, zones_in_use
from nodefleet.decide.scheduling.templates import Template, knowledge, refusal
from nodefleet.domain.fleet import Worker
from nodefleet.domain.observation import Observation
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.domain.workload import Pod


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
    choices: Choices
    coming: frozenset[str] = frozenset()  # names in the room of nodes that are not ready yet
    used_otherwise: bool = False  # nodes that were bought for some of the pods are there, and they still wait


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
    templates = {pool.name: known.templates(pool) for pool in policy.pools}
    on_their_way = coming(seen, policy, workers, known)
    return Outlook(
        room=room_of(seen.kubernetes.nodes, seen.kubernetes.pods, workers, on_their_way),
        waiting=unschedulable(seen.kubernetes.pods),
        templates=templates,
        outlines={pool.name: tuple(known.outlines(pool)) for pool in policy.pools},
        zones=zones_in_use(workers, on_their_way),
        choices=Choices(templates),
        coming=frozenset(each.name for each in on_their_way),
    )


def packings(look: Outlook) -> Packings:
    """For every pool what its pods need. The room is left as it was."""
    mark, choices, seats = look.room.mark(), look.choices, Seats()
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
    by_pool = {pool: each.described() for pool, each in packed.items()}
    look.room.roll_back(mark)
    return Packings(by_pool=by_pool, nobody=nobody)


def assign(pods: Iterable[Pod], look: Outlook) -> Assignment:
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


def _allow_for_spreading(look: Outlook, mark: int, packed: Sequence[PoolPacking]) -> None:
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
