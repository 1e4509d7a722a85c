"""Deployments, StatefulSets, daemonsets and jobs: the controllers that make pods, and make them again.

A deployment replaces a pod as soon as it is asked to go. A StatefulSet waits until it is really gone, because the new
one has its name and its volume. A daemonset has one pod on each node that it may run on. A job runs until enough pods
have succeeded.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from nodefleet.model.inventory import Effect, Node
from nodefleet.model.workload import NodeTerm, Owner, Pod, PodPhase, Requirement, Rules, Toleration, Volume, VolumeKind
from nodefleet.scheduling.predicates import CORDON, NAME_FIELD, admits, tolerates
from nodefleet_tools.sim.kube import Kube, Traits
from nodefleet_tools.sim.kubelets import Kubelets
from nodefleet_tools.sim.nodes import NOT_READY, UNREACHABLE

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # what Kubernetes makes generated names of


class Kind(Enum):
    """By the kind that owns the pods: a Deployment's pods belong to its ReplicaSet."""

    DEPLOYMENT = "ReplicaSet"
    STATEFUL_SET = "StatefulSet"
    DAEMON_SET = "DaemonSet"
    JOB = "Job"


_SCALED = (Kind.DEPLOYMENT, Kind.STATEFUL_SET)  # those whose scale a budget can ask for


@dataclass(slots=True, kw_only=True)
class Workload:
    name: str
    kind: Kind = Kind.DEPLOYMENT
    namespace: str = "default"
    replicas: int = 1  # of a job: how many must succeed
    template: Pod  # what its pods are like; its name, node and state do not matter
    traits: Traits = field(default_factory=Traits)
    made: int = 0  # pods so far
    done: set[str] = field(default_factory=set)  # a job's pods that succeeded

    @property
    def uid(self) -> str:
        return f"{self.kind.value}/{self.namespace}/{self.name}"

    @property
    def owner(self) -> Owner:
        scale = self.replicas if self.kind in _SCALED else None
        return Owner(kind=self.kind.value, name=self.name, uid=self.uid, replicas=scale)


class Controllers:
    def __init__(self, kube: Kube, kubelets: Kubelets, seed: str = "") -> None:
        self._kube = kube
        self._random = Random(f"{seed}/names")  # noqa: S311  # repeatable on purpose
        self._kubelets = kubelets
        self.workloads: dict[str, Workload] = {}  # by uid
        self._seen = -1

    def add(self, workload: Workload) -> Workload:
        self.workloads[workload.uid] = workload
        self._kube.changed()
        return workload

    def remove(self, workload: Workload) -> None:
        """With all its pods."""
        del self.workloads[workload.uid]
        for pod in self._kube.pods_of(workload.uid):
            self._kubelets.delete(pod)
        self._kube.changed()

    def named(self, name: str) -> Workload:
        return next(workload for workload in self.workloads.values() if workload.name == name)

    def scale(self, workload: Workload, replicas: int) -> None:
        if replicas == workload.replicas:
            return
        workload.replicas = replicas
        owner = workload.owner
        for pod in self._kube.pods_of(workload.uid):
            self._kube.put_pod(replace(pod, owner=owner))
        self._kube.changed()

    def reconcile(self) -> None:
        if self._seen == self._kube.version:
            return
        for workload in tuple(self.workloads.values()):
            match workload.kind:
                case Kind.DEPLOYMENT:
                    self._deployment(workload)
                case Kind.STATEFUL_SET:
                    self._stateful_set(workload)
                case Kind.DAEMON_SET:
                    self._daemon_set(workload)
                case Kind.JOB:
                    self._job(workload)
        self._seen = self._kube.version

    # ── one for each kind ────────────────────────────────────────────────────────────────────────────────────────

    def _deployment(self, workload: Workload) -> None:
        active = [pod for pod in self._kube.pods_of(workload.uid) if pod.deleted_at is None and not pod.finished]
        for _ in range(workload.replicas - len(active)):
            self._make(workload, self._name(workload))
        if len(active) > workload.replicas:
            # As the real one does: what does not run yet, then those that share their node with most of their kind.
            crowd = Counter(pod.node for pod in active)
            order = sorted(active, key=lambda pod: (bool(pod.node), pod.ready, -crowd[pod.node], -int(pod.uid[4:])))
            for pod in order[: len(active) - workload.replicas]:
                self._kubelets.delete(pod)

    def _stateful_set(self, workload: Workload) -> None:
        there = {pod.name: pod for pod in self._kube.pods_of(workload.uid)}
        for ordinal in range(workload.replicas):
            name = f"{workload.name}-{ordinal}"
            if name not in there:
                self._make(workload, name)
                break  # the next one waits until this one is ready
            if not there[name].ready:
                break
        for name, pod in there.items():
            if int(name.rsplit("-", 1)[1]) >= workload.replicas and pod.deleted_at is None:
                self._kubelets.delete(pod)

    def _daemon_set(self, workload: Workload) -> None:
        there = {_node_of(pod): pod for pod in self._kube.pods_of(workload.uid)}
        for name, pod in there.items():
            if name not in self._kube.nodes and pod.node is None:
                self._kubelets.delete(pod)  # the node went before the pod was bound
        rules = _everywhere(workload.template.rules)
        for node in self._kube.nodes.values():
            if node.name not in there and _may_run_on(rules, node):
                pod = replace(workload.template, rules=_on(rules, node.name))
                self._make(workload, self._name(workload), pod)

    def _job(self, workload: Workload) -> None:
        pods = self._kube.pods_of(workload.uid)
        workload.done |= {pod.uid for pod in pods if pod.phase is PodPhase.SUCCEEDED}
        active = [pod for pod in pods if pod.deleted_at is None and not pod.finished]
        for _ in range(workload.replicas - len(workload.done) - len(active)):
            self._make(workload, self._name(workload))

    def _name(self, workload: Workload) -> str:
        if not self._kube.settings.random_names:
            return f"{workload.name}-{workload.made}"
        parts = [workload.name]
        if workload.kind is Kind.DEPLOYMENT:  # a ReplicaSet's own name ends in the hash of its template
            template = Random(workload.uid)  # noqa: S311  # repeatable on purpose
            parts.append("".join(template.choices(_LETTERS, k=9)))
        while True:
            name = "-".join([*parts, "".join(self._random.choices(_LETTERS, k=5))])
            if f"{workload.namespace}/{name}" not in self._kube.pods:
                return name

    def _make(self, workload: Workload, name: str, template: Pod | None = None) -> None:
        workload.made += 1
        uid = self._kube.new_uid()
        template = template or workload.template
        self._kube.traits[uid] = workload.traits
        self._kube.put_pod(
            replace(
                template,
                namespace=workload.namespace,
                name=name,
                uid=uid,
                owner=workload.owner,
                node=None,
                phase=PodPhase.PENDING,
                ready=False,
                created_at=self._kube.clock.now,
                volumes=tuple(self._claimed(workload, name, volume) for volume in template.volumes),
            )
        )

    def _claimed(self, workload: Workload, pod: str, volume: Volume) -> Volume:
        """Each pod of a StatefulSet has a claim of its own, which outlives it."""
        if volume.kind not in (VolumeKind.CLAIM, VolumeKind.LOCAL):
            return volume
        name = f"{volume.name}-{pod}" if workload.kind is Kind.STATEFUL_SET else volume.name
        return self._kube.claims.get(f"{workload.namespace}/{name}", replace(volume, name=name))


_DAEMON_TOLERATIONS = tuple(
    Toleration(key=taint.key, operator="Exists", effect=taint.effect) for taint in (NOT_READY, *UNREACHABLE, CORDON)
)


def _everywhere(rules: Rules) -> Rules:
    """What the daemonset controller adds: its pods stay on nodes that are cordoned or do not answer."""
    return replace(rules, tolerations=(*rules.tolerations, *_DAEMON_TOLERATIONS))


def _on(rules: Rules, node: str) -> Rules:
    by_name = (Requirement(key=NAME_FIELD, values=(node,)),)
    terms = tuple(replace(term, fields=by_name) for term in rules.node_terms or (NodeTerm(),))
    return replace(rules, node_terms=terms)


def _may_run_on(rules: Rules, node: Node) -> bool:
    barring = (taint for taint in node.taints if taint.effect is not Effect.PREFER_NO_SCHEDULE)
    return admits(rules, node.name, node.labels) and all(
        any(tolerates(toleration, taint) for toleration in rules.tolerations) for taint in barring
    )


def _node_of(pod: Pod) -> str | None:
    """The node that a daemonset's pod is for, bound or not."""
    terms = pod.rules.node_terms or ()
    return next((term.fields[0].values[0] for term in terms if term.fields), pod.node)
