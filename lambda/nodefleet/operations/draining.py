"""A node under removal in one observation: its instance, its cordon, and the pods that still have to be evicted."""

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
from nodefleet.model.snapshot import ClusterView, Missing, Observation, notice_in
from nodefleet.model.workload import SAFE_TO_EVICT, Pod
from nodefleet.operations.progress import pods_are, rules_of, seconds
from nodefleet.phases import is_withdrawn, nodes_by_instance
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import RemovalRules


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainingNode:
    removal: Removal
    now: datetime
    interval: timedelta
    rules: RemovalRules
    instance: Instance | None  # None: EC2 is unavailable
    node: Node | None  # None: the instance never joined, or an operator deleted its Node
    pods: tuple[Pod, ...]  # on this node
    ledger: BudgetTracker
    plan: DrainPlan
    withdrawn: bool  # EC2 withdrew its notice
    verdicts: tuple[
        EvictionVerdict, ...
    ]  # for the pods to evict, by the observed budgets; the Eviction API decides in the end

    @classmethod
    def of(
        cls, removal: Removal, observation: Observation, view: ClusterView, pods: tuple[Pod, ...], policy: Policy
    ) -> "DrainingNode":
        node = node_of(removal, view)
        pool = rules_of(policy, removal.pool)
        rules = pool.removal
        own_notices = [notice for notice in observation.notices if notice.instance == removal.instance]
        name = node.name if node else _free_name(removal, view)
        own = tuple(pod for pod in pods if name and pod.node == name)
        plan = plan_drain(own, removal.why, rules, observation.at, since=removal.started)
        pods_to_evict = frozenset(plan.to_evict)
        ledger = BudgetTracker(view.budgets, pods)
        plan = plan.waiting_for(_must_not_end(own, plan, ledger))
        shows_our_cordon = node is not None and node.cordoned and node.removal == removal.id
        return cls(
            removal=replace(
                removal,
                cordoned=removal.cordoned or shows_our_cordon,
                uncordoned_since=None if shows_our_cordon else removal.uncordoned_since,
            ),
            now=observation.at,
            interval=policy.interval,
            rules=rules,
            instance=instance_of(removal, observation),
            node=node,
            pods=own,
            ledger=ledger,
            plan=plan,
            withdrawn=is_withdrawn(own_notices, removal.why, pool, observation.at),
            verdicts=ledger.verdicts(pod for pod in own if pod_ref(pod) in pods_to_evict),
        )

    @property
    def name(self) -> str:
        return self.node.name if self.node else self.removal.node or self.removal.instance

    @property
    def deadline(self) -> datetime:
        """The removal's deadline, extended by the time in which EC2 or Kubernetes was unavailable."""
        return self.removal.deadline + silence(self.removal, self.now)

    @property
    def runs(self) -> bool:
        return self.instance is not None and self.instance.state in (InstanceState.PENDING, InstanceState.RUNNING)

    @property
    def ours(self) -> bool:
        """Whether the node carries this removal's taint, which `kubectl uncordon` does not remove, or the taint of an
        emergency drain of its instance."""
        if self.node is None:
            return False
        noted = notice_in(self.node.removal)
        return self.node.removal == self.removal.id or (noted is not None and noted.instance == self.removal.instance)

    @property
    def cordoned(self) -> bool:
        """Whether no new pods are scheduled onto the node. An operator's cordon counts too, and is left in place."""
        return self.node is None or (self.node.cordoned and self.node.removal in ("", self.removal.id))

    @property
    def ends(self) -> bool:
        """Whether EC2 was asked to terminate the instance and still has time to do so."""
        asked_at = self.removal.asked_at or self.removal.started
        done_by = asked_at + self.interval + silence(self.removal, self.now)
        return self.removal.terminating and self.now < max(self.deadline, done_by)

    @property
    def may_go(self) -> tuple[PodRef, ...]:
        """The pods to evict now. None without a Node: Kubernetes deletes the pods of a deleted Node itself."""
        if self.node is None:
            return ()
        return tuple(pod_ref(verdict.pod) for verdict in self.verdicts if isinstance(verdict, EvictionPermitted))

    @property
    def left(self) -> tuple[PodRef, ...]:
        """Every pod that still keeps the drain from completing."""
        return tuple(each.pod for each in (*self.plan.evict, *self.plan.wait, *self.plan.blocked))

    @property
    def to_force(self) -> tuple[PodRef, ...]:
        """The pods to delete without grace before EC2 interrupts the node. Terminating StatefulSet pods on a ready node
        are excluded: their replacements would run beside them under the same names."""
        ending = {pod_ref(pod) for pod in self.pods if pod.deleted_at is not None and _is_stateful(pod)}
        lives = self.node is not None and self.node.ready
        return tuple(pod for pod in self.left if not (lives and pod in ending))


def _is_stateful(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == "StatefulSet"


def _must_not_end(own: tuple[Pod, ...], plan: DrainPlan, ledger: BudgetTracker) -> frozenset[PodRef]:
    """Pods that returned to the node and would end with it, although their budget does not permit all of them to."""
    returned = frozenset(plan.returned)
    verdicts = ledger.verdicts(pod for pod in own if pod_ref(pod) in returned) if returned else ()
    return frozenset(pod_ref(verdict.pod) for verdict in verdicts if not isinstance(verdict, EvictionPermitted))


def instance_of(removal: Removal, observation: Observation) -> Instance | None:
    if isinstance(observation.instances, Missing):
        return None
    return next((instance for instance in observation.instances if instance.id == removal.instance), None)


def is_ours(node: Node) -> bool:
    """Whether the node is a worker of a pool. Other nodes are never touched."""
    return node.pool is not None and not node.control_plane


def node_of(removal: Removal, view: ClusterView) -> Node | None:
    """The Node of the removal's instance, or the Node of the removal's name unless that belongs to another instance."""
    if removal.instance and (node := nodes_by_instance(view.nodes).get(removal.instance)):
        return node
    return next((node for node in view.nodes if removal.node and node.name == removal.node and not node.instance), None)


def _free_name(removal: Removal, view: ClusterView) -> str:
    """The name that the removal's Node had, unless another Node has that name now."""
    return "" if any(node.name == removal.node for node in view.nodes) else removal.node


# ── blockers ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# A blocker is the reason why a voluntary drain cannot complete, with the remedy for operators.
#
#     observed                                                     blocker
#     EC2 was asked to terminate the instance and has not          the instance
#     a pod that no controller would recreate                      the pod
#     several budgets cover a pod: it can never be evicted         the budgets
#     the node or a pod has become protected                       the protection
#     past the deadline, a budget refuses an eviction              the budget
#     past the deadline, pods are left                             the first pod
#     past the deadline, the node never showed our cordon          the cordon
# A budget that refuses is waited for until the deadline: it may permit the eviction when a replacement is ready.


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    name: str  # identifies the cause without figures: the backoff is counted by it
    sentence: str
    remedy: str


def blocker(draining: DrainingNode, fleet: Sequence[Worker]) -> Blocker | None:
    """The blocker of the drain: a permanent one, or any one past the deadline."""
    asked = draining.removal.terminating and not draining.ends
    return (
        (not_terminated(draining) if asked else None)
        or _for_good(draining)
        or _protection_blocker(draining, fleet)
        or _too_late(draining)
    )


def not_terminated(draining: DrainingNode) -> Blocker:
    end, guard = ("stop", "stop") if draining.removal.keeps else ("terminate", "termination")
    return Blocker(
        name=f"instance {draining.removal.instance}",
        sentence=f"EC2 was asked to {end} {draining.removal.instance} and has not done so",
        remedy=f"Look for {guard} protection, and for the role's right to {end} it",
    )


def _for_good(draining: DrainingNode) -> Blocker | None:
    for plan in draining.plan.blocked:
        return Blocker(
            name=f"pod {plan.pod.namespace}/{plan.pod.name}",
            sentence=plan.sentence,
            remedy=f'Give it a controller, or annotate it {SAFE_TO_EVICT[0]}: "true"',
        )
    for refused in _refusals(draining):
        if refused.why is EvictionRefusal.SEVERAL_BUDGETS:
            return Blocker(
                name=f"budgets {', '.join(refused.budgets)}",
                sentence=refused.sentence,
                remedy="Let only one budget select it",
            )
    return None


def _protection_blocker(draining: DrainingNode, fleet: Sequence[Worker]) -> Blocker | None:
    worker = next((worker for worker in fleet if worker.id == draining.removal.instance), None)
    staying = [pod for pod in draining.pods if pod.deleted_at is None]
    found = find_protection(worker, staying, draining.ledger, draining.rules, (), draining.now) if worker else None
    if found is None or found.reason in (KeepReason.BUDGET, KeepReason.CORDONED_BY_OPERATOR):
        return None
    remedy = "It was not so when the removal began; take it back if the node may go after all"
    return Blocker(name=f"{found.reason.value} on {draining.name}", sentence=found.sentence, remedy=remedy)


def _too_late(draining: DrainingNode) -> Blocker | None:
    if draining.now < draining.deadline or (draining.plan.done and draining.cordoned):
        return None
    after = f"after {seconds(draining.removal.deadline - draining.removal.started)}"
    for refused in _refusals(draining):
        return Blocker(
            name=f"budget {refused.budgets[0]}",
            sentence=f"{refused.sentence}, so pod {refused.pod.key} is still there {after}",
            remedy="Give the workload one more replica, or let the budget allow a disruption",
        )
    for plan in (*draining.plan.wait, *draining.plan.evict):
        return Blocker(
            name=f"pod {plan.pod.namespace}/{plan.pod.name}",
            sentence=f"{pods_are(len(draining.left))} still there {after}; {plan.sentence}",
            remedy="Look at why it does not end: a finalizer, a long grace, or a refused eviction",
        )
    return Blocker(
        name="cordon",
        sentence=f"the node did not show our cordon {after}",
        remedy="Look at the right to patch nodes, and at who takes the cordon off",
    )


def _refusals(draining: DrainingNode) -> list[EvictionRefused]:
    return [verdict for verdict in draining.verdicts if isinstance(verdict, EvictionRefused)]
