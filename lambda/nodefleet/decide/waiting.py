"""The pods that wait for one pool: which of them have a vote, what they would fill, and whom to tell about the rest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nodefleet.decide.case import Case
from nodefleet.decide.naming import workload
from nodefleet.decide.new_nodes import NewNode
from nodefleet.decide.packing import Packings
from nodefleet.decide.pending_classes import Muted, Pending, PendingVotes
from nodefleet.decide.placement import Ask
from nodefleet.decide.sizing import Unschedulable
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.memory import PendingClass
from nodefleet.domain.observation import ClusterView
from nodefleet.domain.operations import Tell
from nodefleet.domain.wording import counted, some

NO_VOTES = PendingVotes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    unschedulable: Unschedulable
    votes: PendingVotes = NO_VOTES
    pending: Pending = field(default_factory=Pending)
    new: tuple[NewNode, ...] = ()  # nodes that they would fill
    tells: tuple[Tell, ...] = ()

    def asks(self, nodes: int) -> tuple[Ask, ...]:
        """What the pods need of the first so many new nodes."""
        return tuple(Ask(zones=new.zones, types=new.types) for new in self.new[:nodes])

    def bought(self, nodes: int, now: datetime, most: int) -> tuple[PendingClass, ...]:
        """What is remembered after the first so many new nodes were bought: `most` classes."""
        served = [pod.uid for new in self.new[:nodes] for pod in new.pods]
        return self.votes.bought(self.pending.classes_of(served), now, most)


def waiting_for(this: Case, packings: Packings | None, pending: Pending, votes: PendingVotes = NO_VOTES) -> Waiting:
    name, view = this.pool.name, this.seen.kubernetes
    if packings is None:
        count = view.unschedulable.get(name, 0) if isinstance(view, ClusterView) else 0
        return Waiting(unschedulable=Unschedulable(count=count))
    packing = packings.by_pool[name]
    return Waiting(
        unschedulable=Unschedulable(
            count=len(packing.placed) + len(packing.bought_for) + len(votes.held),
            nodes=None if packing.unknown else packing.nodes,
            without_vote=len(votes.silent) + len(packing.cannot_hold),
        ),
        votes=votes,
        pending=pending,
        new=packing.new,
        tells=(*_no_vote(this, votes.newly), *cannot_hold(packing.cannot_hold, name)),
    )


def cannot_hold(pods: Iterable[tuple[str, str]], pool: str) -> list[Tell]:
    """Pods that no node would help: people have to."""
    found = list(pods)
    if not found:
        return []
    listed = [f"{key}: {why}" for key, why in found]
    workloads = tuple(sorted({workload(key) for key, _ in found}))
    fit = counted(len(listed), "pod fits", "pods fit")
    text = f"{fit} on no node that could be launched; {some(listed, '; ')}. Change the pods or the pool."
    return [Tell(alert=AlertKind.CANNOT_HOLD, pool=pool, subjects=workloads, text=text)]


def _no_vote(this: Case, newly: Sequence[Muted]) -> list[Tell]:
    """One alert for each class, with the names of its pods: a person has to look at them."""
    return [
        Tell(alert=AlertKind.PODS_REFUSED, pool=this.pool.name, subjects=(each.workload,), text=_why_no_vote(each))
        for each in newly
    ]


def _why_no_vote(muted: Muted) -> str:
    names = some(pod.key for pod in muted.pods)
    wait = counted(len(muted.pods), "pod waits", "pods wait")
    if muted.in_vain:
        return (
            f"{wait} ({names}) and the nodes that were bought for them do not take them; {muted.in_vain}."
            " No more nodes are bought for them for now."
        )
    said = next((pod.unschedulable_message for pod in muted.pods if pod.unschedulable_message), "nothing")
    return (
        f"{wait} ({names}) though a ready node has room for them as far as can be told. The scheduler says: {said}"
        f"{'' if said.endswith('.') else '.'} They neither buy nodes nor keep any for now."
    )
