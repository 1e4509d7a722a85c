"""A leaving node as one iteration shows it: its instance, its cordon, and the pods that still have to move."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodefleet.eviction.budgets import (
    BudgetTracker,
    EvictionPermitted,
    EvictionRefusal,
    EvictionRefused,
    EvictionVerdict,
)
from nodefleet.eviction.drain import DrainPlan, plan_drain, pod_ref
from nodefleet.eviction.protection import find_protection
from nodefleet.model.decision import KeepReason
from nodefleet.model.fleet import Worker
from nodefleet.model.inventory import Instance, InstanceState, Node
from nodefleet.model.operations import PodRef, Removal, silence
from nodefleet.model.readings import Missing
from nodefleet.model.snapshot import ClusterView, Observation, notice_in
from nodefleet.model.workload import SAFE_TO_EVICT, Pod
from nodefleet.operations.progress import pods_are, rules_of, seconds
from nodefleet.phases import is_withdrawn
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import RemovalRules


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainingNode:
    removal: Removal
    now: datetime
    interval: timedelta
    rules: RemovalRules
    instance: Instance | None  # none: EC2 did not answer
    node: Node | None  # none: it never joined, or an operator deleted it
    pods: tuple[Pod, ...]  # on this node
    ledger: BudgetTracker
    plan: DrainPlan
    withdrawn: bool  # EC2 called off what it had announced
    verdicts: tuple[
        EvictionVerdict, ...
    ]  # the budgets' word on those that have to go; the Eviction API has the last one

    @classmethod
    def of(
        cls, removal: Removal, seen: Observation, view: ClusterView, pods: tuple[Pod, ...], policy: Policy
    ) -> "DrainingNode":
        node = node_of(removal, view)
        pool = rules_of(policy, removal.pool)
        rules = pool.removal
        said = [notice for notice in seen.notices if notice.instance == removal.instance]
        name = node.name if node else _free_name(removal, view)
        own = tuple(pod for pod in pods if name and pod.node == name)
        plan = plan_drain(own, removal.why, rules, seen.at, since=removal.started)
        going = frozenset(plan.to_evict)
        ledger = BudgetTracker(view.budgets, pods)
        plan = plan.waiting_for(_must_not_end(own, plan, ledger))
        shows_our_cordon = node is not None and node.cordoned and node.removal == removal.id
        return cls(
            removal=replace(removal, cordoned=removal.cordoned or shows_our_cordon),
            now=seen.at,
            interval=policy.interval,
            rules=rules,
            instance=instance_of(removal, seen),
            node=node,
            pods=own,
            ledger=ledger,
            plan=plan,
            withdrawn=is_withdrawn(said, removal.why, pool, seen.at),
            verdicts=ledger.verdicts(pod for pod in own if pod_ref(pod) in going),
        )

    @property
    def name(self) -> str:
        return self.node.name if self.node else self.removal.node or self.removal.instance

    @property
    def deadline(self) -> datetime:
        """Draining stands still while nobody answers, and so does its clock."""
        return self.removal.deadline + silence(self.removal, self.now)

    @property
    def runs(self) -> bool:
        return self.instance is not None and self.instance.state in (InstanceState.PENDING, InstanceState.RUNNING)

    @property
    def ours(self) -> bool:
        """It carries this removal's own taint, which `kubectl uncordon` leaves behind, or the one that its instance got
        while nothing could be recorded."""
        if self.node is None:
            return False
        noted = notice_in(self.node.removal)
        return self.node.removal == self.removal.id or (noted is not None and noted.instance == self.removal.instance)

    @property
    def cordoned(self) -> bool:
        """Nothing new comes onto it. An operator's cordon is as good as ours, and stays theirs."""
        return self.node is None or (self.node.cordoned and self.node.removal in ("", self.removal.id))

    @property
    def ends(self) -> bool:
        """EC2 was asked to terminate it, and may still be doing so."""
        asked_at = self.removal.asked_at or self.removal.started
        done_by = asked_at + self.interval + silence(self.removal, self.now)
        return self.removal.terminating and self.now < max(self.deadline, done_by)

    @property
    def may_go(self) -> tuple[PodRef, ...]:
        """What is evicted now. Without the Node nobody can tell whose pods these are, and Kubernetes deletes them."""
        if self.node is None:
            return ()
        return tuple(pod_ref(verdict.pod) for verdict in self.verdicts if isinstance(verdict, EvictionPermitted))

    @property
    def left(self) -> tuple[PodRef, ...]:
        """Every pod that still holds up the drain."""
        return tuple(each.pod for each in (*self.plan.evict, *self.plan.wait, *self.plan.blocked))

    @property
    def to_force(self) -> tuple[PodRef, ...]:
        """Those that are deleted without grace before EC2 takes the node. Not the pods of a StatefulSet that are ending
        already while their kubelet lives: their successors would start beside them, under the same names."""
        ending = {pod_ref(pod) for pod in self.pods if pod.deleted_at is not None and _is_stateful(pod)}
        lives = self.node is not None and self.node.ready
        return tuple(pod for pod in self.left if not (lives and pod in ending))


def _is_stateful(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == "StatefulSet"


def _must_not_end(own: tuple[Pod, ...], plan: DrainPlan, ledger: BudgetTracker) -> frozenset[PodRef]:
    """Those who came back and would end with the node, though their budget does not let them all go at once."""
    returned = frozenset(plan.returned)
    verdicts = ledger.verdicts(pod for pod in own if pod_ref(pod) in returned) if returned else ()
    return frozenset(pod_ref(verdict.pod) for verdict in verdicts if not isinstance(verdict, EvictionPermitted))


def instance_of(removal: Removal, seen: Observation) -> Instance | None:
    if isinstance(seen.instances, Missing):
        return None
    return next((instance for instance in seen.instances if instance.id == removal.instance), None)


def is_ours(node: Node) -> bool:
    """A worker of some pool. Everything else may hold pods, and is never touched."""
    return node.pool is not None and not node.control_plane


def node_of(removal: Removal, view: ClusterView) -> Node | None:
    """Its Node: the one of its instance, or of its name unless another instance has taken that name."""
    for node in view.nodes:
        if removal.instance and node.instance == removal.instance:
            return node
        if removal.node and node.name == removal.node and node.instance in ("", removal.instance):
            return node
    return None


def _free_name(removal: Removal, view: ClusterView) -> str:
    """The name its Node had, unless that is another instance's by now."""
    return "" if any(node.name == removal.node for node in view.nodes) else removal.node


# ── blockers ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# Why a voluntary drain does not go on: what stands in the way, and what an operator can do about it.
#
#     seen                                                         blocker
#     EC2 was asked to terminate it and has not                    the instance
#     a pod that nobody would make again                           the pod
#     several budgets cover a pod: it can never be evicted         the budgets
#     the node or a pod became protected since                     what protects it
#     the deadline, and a budget says no                           the budget
#     the deadline, and pods are still there                       the first of them
#     the deadline, and our cordon never showed                    the cordon
# A budget that says no is waited for until the deadline: it may say yes when a replacement is up.


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    name: str  # the same for the same trouble, whatever its figures: backing off goes by it
    sentence: str
    remedy: str


def blocker(leaving: DrainingNode, fleet: Sequence[Worker]) -> Blocker | None:
    """What keeps the node from being drained, if something does for good or the time is up."""
    asked = leaving.removal.terminating and not leaving.ends
    return (
        (not_terminated(leaving) if asked else None)
        or _for_good(leaving)
        or _protection_blocker(leaving, fleet)
        or _too_late(leaving)
    )


def not_terminated(leaving: DrainingNode) -> Blocker:
    return Blocker(
        name=f"instance {leaving.removal.instance}",
        sentence=f"EC2 was asked to terminate {leaving.removal.instance} and has not done so",
        remedy="Look for termination protection, and for the role's right to terminate it",
    )


def _for_good(leaving: DrainingNode) -> Blocker | None:
    for plan in leaving.plan.blocked:
        return Blocker(
            name=f"pod {plan.pod.namespace}/{plan.pod.name}",
            sentence=plan.sentence,
            remedy=f'Give it a controller, or annotate it {SAFE_TO_EVICT[0]}: "true"',
        )
    for refused in _refusals(leaving):
        if refused.why is EvictionRefusal.SEVERAL_BUDGETS:
            return Blocker(
                name=f"budgets {', '.join(refused.budgets)}",
                sentence=refused.sentence,
                remedy="Let only one budget select it",
            )
    return None


def _protection_blocker(leaving: DrainingNode, fleet: Sequence[Worker]) -> Blocker | None:
    worker = next((worker for worker in fleet if worker.id == leaving.removal.instance), None)
    staying = [pod for pod in leaving.pods if pod.deleted_at is None]
    found = find_protection(worker, staying, leaving.ledger, leaving.rules, (), leaving.now) if worker else None
    if found is None or found.reason in (KeepReason.BUDGET, KeepReason.CORDONED_BY_OPERATOR):
        return None
    remedy = "It was not so when the removal began; take it back if the node may go after all"
    return Blocker(name=f"{found.reason.value} on {leaving.name}", sentence=found.sentence, remedy=remedy)


def _too_late(leaving: DrainingNode) -> Blocker | None:
    if leaving.now < leaving.deadline or (leaving.plan.done and leaving.cordoned):
        return None
    after = f"after {seconds(leaving.removal.deadline - leaving.removal.started)}"
    for refused in _refusals(leaving):
        return Blocker(
            name=f"budget {refused.budgets[0]}",
            sentence=f"{refused.sentence}, so pod {refused.pod.key} is still there {after}",
            remedy="Give the workload one more replica, or let the budget allow a disruption",
        )
    for plan in (*leaving.plan.wait, *leaving.plan.evict):
        return Blocker(
            name=f"pod {plan.pod.namespace}/{plan.pod.name}",
            sentence=f"{pods_are(len(leaving.left))} still there {after}; {plan.sentence}",
            remedy="Look at why it does not end: a finalizer, a long grace, or a refused eviction",
        )
    return Blocker(
        name="cordon",
        sentence=f"the node did not show our cordon {after}",
        remedy="Look at the right to patch nodes, and at who takes the cordon off",
    )


def _refusals(leaving: DrainingNode) -> list[EvictionRefused]:
    return [verdict for verdict in leaving.verdicts if isinstance(verdict, EvictionRefused)]
