"""The pods that wait for one pool: which of them have a vote, what they would fill, and whom to tell about the rest."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from nodefleet.decide import benefit
from nodefleet.decide.case import Case
from nodefleet.decide.naming import workload
from nodefleet.decide.new_nodes import NewNode
from nodefleet.decide.packing import Packings, unschedulable
from nodefleet.decide.placement import Ask
from nodefleet.decide.sizing import SIGNAL as PODS
from nodefleet.decide.sizing import Unschedulable
from nodefleet.domain.fleet import Phase
from nodefleet.domain.memory import PodGrant
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.operations import AlertKind, Tell
from nodefleet.domain.wording import counted, some


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    unschedulable: Unschedulable
    grants: tuple[PodGrant, ...] = ()
    new: tuple[NewNode, ...] = ()  # nodes that they would fill
    tells: tuple[Tell, ...] = ()

    def asks(self, nodes: int) -> tuple[Ask, ...]:
        """What the pods need of the first so many new nodes."""
        return tuple(Ask(zones=new.zones, types=new.types) for new in self.new[:nodes])

    def served_by(self, nodes: int) -> tuple[str, ...]:
        """The pods for which so many new nodes are bought, by uid."""
        return tuple(pod.uid for new in self.new[:nodes] for pod in new.pods)


def judged(this: Case, uids: frozenset[str]) -> tuple[tuple[PodGrant, ...], frozenset[str]]:
    """The grants of pods that still wait, and the uids of those that lost their vote."""
    return benefit.pods_judged(
        this.before.pod_grants,
        uids,
        booting=this.count.booting,
        last_joined=_last_joined(this),
        join_limit=this.pool.health.join_limit,
        benefit=this.pool.benefit,
        now=this.seen.at,
    )


def used_otherwise(this: Case, uids: frozenset[str]) -> bool:
    """Nodes that were bought for some of these pods are there, and they still wait: others have taken their places."""
    joined = _last_joined(this)
    return any(
        grant.uid in uids and benefit.had_its_node(grant, booting=this.count.booting, last_joined=joined)
        for grant in this.before.pod_grants
    )


def _last_joined(this: Case) -> datetime | None:
    joined = [
        worker.node.ready_changed_at
        for worker in this.workers
        if worker.phase is Phase.READY and worker.node and worker.node.ready_changed_at
    ]
    return max(joined, default=None)


def uids_waiting(seen: Observation) -> frozenset[str]:
    view = seen.kubernetes
    pods = view.pods if isinstance(view, ClusterView) else None
    return frozenset(pod.uid for pod in unschedulable(pods or ()))


def waiting_for(this: Case, packings: Packings | None) -> Waiting:
    name, view = this.pool.name, this.seen.kubernetes
    if packings is None:
        count = view.unschedulable.get(name, 0) if isinstance(view, ClusterView) else 0
        return Waiting(unschedulable=Unschedulable(count=count))
    grants, lost = judged(this, uids_waiting(this.seen))
    packing = packings.by_pool[name]
    return Waiting(
        unschedulable=Unschedulable(
            count=len(packing.placed) + len(packing.bought_for),
            nodes=None if packing.unknown else packing.nodes,
            without_vote=len(lost) + len(packing.cannot_hold),
        ),
        grants=grants,
        new=packing.new,
        tells=(*_stuck(this, grants), *cannot_hold(packing.cannot_hold, name)),
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


def _stuck(this: Case, grants: Iterable[PodGrant]) -> list[Tell]:
    known = {grant.uid for grant in this.before.pod_grants if grant.lost}
    newly = sorted(grant.uid for grant in grants if grant.lost and grant.uid not in known)
    if not newly:
        return []
    wait = counted(len(newly), "pod got a node and still waits", "pods got a node and still wait")
    text = f"{wait} ({some(newly)}): no more is bought for that. See the pods' events for what keeps them."
    return [Tell(alert=AlertKind.NO_BENEFIT, pool=this.pool.name, subjects=(PODS,), text=text)]
