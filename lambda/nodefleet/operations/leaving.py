"""A leaving node as one look shows it: its machine, its cordon, and the pods that still have to move."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodefleet.decide.disruption import Ledger, Permitted, Verdict
from nodefleet.decide.drain import DrainPlan, drain, ref
from nodefleet.domain.fleet import is_withdrawn
from nodefleet.domain.machines import Instance, InstanceState, Node
from nodefleet.domain.names import notice_in
from nodefleet.domain.observation import ClusterView, Observation
from nodefleet.domain.operations import PodRef, Removal, silence
from nodefleet.domain.policy import Policy, RemovalRules
from nodefleet.domain.readings import Missing
from nodefleet.domain.workload import Pod
from nodefleet.operations.progress import rules_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    removal: Removal
    now: datetime
    interval: timedelta
    rules: RemovalRules
    instance: Instance | None  # none: EC2 did not answer
    node: Node | None  # none: it never joined, or a person deleted it
    pods: tuple[Pod, ...]  # on this node
    ledger: Ledger
    plan: DrainPlan
    withdrawn: bool  # EC2 called off what it had announced
    verdicts: tuple[Verdict, ...]  # the budgets' word on those that have to go; the Eviction API has the last one

    @classmethod
    def of(
        cls, removal: Removal, seen: Observation, view: ClusterView, pods: tuple[Pod, ...], policy: Policy
    ) -> "Leaving":
        node = node_of(removal, view)
        pool = rules_of(policy, removal.pool)
        rules = pool.removal
        said = [notice for notice in seen.notices if notice.instance == removal.instance]
        name = node.name if node else _free_name(removal, view)
        own = tuple(pod for pod in pods if name and pod.node == name)
        plan = drain(own, removal.why, rules, seen.at, since=removal.started)
        going = frozenset(plan.to_evict)
        ledger = Ledger(view.budgets, pods)
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
            verdicts=ledger.verdicts(pod for pod in own if ref(pod) in going),
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
        """It carries this removal's own taint, which `kubectl uncordon` leaves behind, or the one that its machine got
        while nothing could be recorded."""
        if self.node is None:
            return False
        noted = notice_in(self.node.removal)
        return self.node.removal == self.removal.id or (noted is not None and noted.instance == self.removal.instance)

    @property
    def cordoned(self) -> bool:
        """Nothing new comes onto it. A person's cordon is as good as ours, and stays theirs."""
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
        return tuple(ref(verdict.pod) for verdict in self.verdicts if isinstance(verdict, Permitted))

    @property
    def left(self) -> tuple[PodRef, ...]:
        """Every pod that still holds up the drain."""
        return tuple(each.pod for each in (*self.plan.evict, *self.plan.wait, *self.plan.blocked))

    @property
    def to_force(self) -> tuple[PodRef, ...]:
        """Those that are deleted without grace before EC2 takes the node. Not the pods of a StatefulSet that are ending
        already while their kubelet lives: their successors would start beside them, under the same names."""
        ending = {ref(pod) for pod in self.pods if pod.deleted_at is not None and _is_stateful(pod)}
        lives = self.node is not None and self.node.ready
        return tuple(pod for pod in self.left if not (lives and pod in ending))


def _is_stateful(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == "StatefulSet"


def _must_not_end(own: tuple[Pod, ...], plan: DrainPlan, ledger: Ledger) -> frozenset[PodRef]:
    """Those who came back and would end with the node, though their budget does not let them all go at once."""
    returned = frozenset(plan.returned)
    verdicts = ledger.verdicts(pod for pod in own if ref(pod) in returned) if returned else ()
    return frozenset(ref(verdict.pod) for verdict in verdicts if not isinstance(verdict, Permitted))


def instance_of(removal: Removal, seen: Observation) -> Instance | None:
    if isinstance(seen.instances, Missing):
        return None
    return next((instance for instance in seen.instances if instance.id == removal.instance), None)


def is_ours(node: Node) -> bool:
    """A worker of some pool. Everything else may hold pods, and is never touched."""
    return node.pool is not None and not node.control_plane


def node_of(removal: Removal, view: ClusterView) -> Node | None:
    """Its Node: the one of its machine, or of its name unless another machine has taken that name."""
    for node in view.nodes:
        if removal.instance and node.instance == removal.instance:
            return node
        if removal.node and node.name == removal.node and node.instance in ("", removal.instance):
            return node
    return None


def _free_name(removal: Removal, view: ClusterView) -> str:
    """The name its Node had, unless that is another machine's by now."""
    return "" if any(node.name == removal.node for node in view.nodes) else removal.node
