"""Pods and their owners, as the model knows them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from nodefleet.adapters.kubernetes.client import PART, Api, decode, list_if_allowed, list_objects
from nodefleet.adapters.kubernetes.objects import (
    Condition,
    ControllerShape,
    DaemonSetShape,
    Meta,
    PodShape,
    PodStatus,
    Reference,
    VolumeShape,
    condition,
)
from nodefleet.adapters.kubernetes.pod_rules import Templates
from nodefleet.adapters.kubernetes.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from nodefleet.adapters.kubernetes.volumes import Claims, VolumeClaim
from nodefleet.errors import UnavailableError
from nodefleet.model.workload import DAEMON_POD, DO_NOT_DISRUPT, SAFE_TO_EVICT, Owner, Pod, PodPhase, Volume, VolumeKind

# ── owners ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Who controls a pod, and how many of it that controller wants.
#
# For a Deployment's pods that is the Deployment, not the ReplicaSet in between: disruption budgets count it once, also
# while two of its ReplicaSets run side by side. A controller that a pod names and that is not there any more is gone:
# no controller would make the pod again. Only kinds that are listed here can be known to be gone, and Jobs only if our
# role may list them: that of an older release may not, and then a Job is taken to be there.


_REPLICA_SET = "ReplicaSet"
_DEPLOYMENT = "Deployment"
_DAEMON_SET = "DaemonSet"
_JOB = "Job"
_WITHOUT_SCALE = (_DAEMON_SET, _JOB)
_APPS = ("apps", "extensions")
_MOST_BY_NAME = 20
_HASHES = 300  # in one request: its URL must not grow without end
_HASH_LABEL = "pod-template-hash"
_LISTED: Mapping[str, tuple[Resource, tuple[str, ...]]] = {  # by kind: the list it is in, and the groups that mean it
    "StatefulSet": (STATEFUL_SETS, _APPS),
    _DAEMON_SET: (DAEMON_SETS, _APPS),
    _JOB: (JOBS, ("batch",)),
    "ReplicationController": (REPLICATION_CONTROLLERS, ("",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerName:
    """A controller that a pod names."""

    namespace: str
    reference: Reference
    template: str = ""  # the template's hash, which a Deployment writes on its pods and their ReplicaSet alike


@dataclass(frozen=True, slots=True)
class Owners:
    """Controllers by uid, as far as they were looked for."""

    known: Mapping[str, Owner] = field(default_factory=dict)
    unseen: frozenset[str] = frozenset()  # kinds that we may not list

    def of(self, reference: Reference, *, looked_for: bool) -> Owner:
        """The controller that a reference names. `looked_for`: if it is not known it is gone."""
        found = self.known.get(reference.uid)
        if found is not None:
            return found
        gone = looked_for and _is_listed(reference) and reference.kind not in self.unseen
        return Owner(kind=reference.kind, name=reference.name, uid=reference.uid, gone=gone)


def name_owner(reference: Reference, namespace: str, labels: Mapping[str, str]) -> OwnerName:
    return OwnerName(namespace=namespace, reference=reference, template=labels.get(_HASH_LABEL, ""))


def owners_of(api: Api, all_named: Iterable[OwnerName], daemon_sets: Iterable[DaemonSetShape] | None = None) -> Owners:
    """Those controllers that are still there. Only the kinds that occur are asked for, and DaemonSets only if they are
    not given."""
    by_kind: dict[str, dict[str, OwnerName]] = {}
    for each in all_named:
        if _is_listed(each.reference):
            by_kind.setdefault(each.reference.kind, {})[each.reference.uid] = each
    known: dict[str, Owner] = {}
    unseen: set[str] = set()
    if _REPLICA_SET in by_kind:
        known.update(_above(api, _replica_sets(api, by_kind.pop(_REPLICA_SET))))
    if daemon_sets is not None and _DAEMON_SET in by_kind:
        del by_kind[_DAEMON_SET]
        known.update({each.metadata.uid: _owner_of_daemons(each) for each in daemon_sets})
    for kind in by_kind:
        resource, _ = _LISTED[kind]
        ask = list_if_allowed if kind == _JOB else list_objects
        found = ask(api, resource.list(), ControllerShape)
        if found is None:
            unseen.add(kind)
        known.update({each.metadata.uid: _owner(kind, each) for each in found or ()})
    return Owners(known, frozenset(unseen))


def _replica_sets(api: Api, wanted: Mapping[str, OwnerName]) -> list[ControllerShape]:
    """A Deployment keeps ten old ReplicaSets by default, so they are asked for by their templates' hashes. Those of
    no controller have no hash and are asked for by name, unless they are many."""
    found = _with_hashes(api, sorted({each.template for each in wanted.values() if each.template}))
    missing = [wanted[uid] for uid in wanted.keys() - {each.metadata.uid for each in found}]
    if len(missing) > _MOST_BY_NAME:
        return list_objects(api, REPLICA_SETS.list(), ControllerShape)
    return [*found, *filter(None, [_replica_set(api, each) for each in missing])]


def _with_hashes(api: Api, hashes: Sequence[str]) -> list[ControllerShape]:
    asked = (hashes[start : start + _HASHES] for start in range(0, len(hashes), _HASHES))
    requests = (REPLICA_SETS.list(labelSelector=f"{_HASH_LABEL} in ({','.join(some)})") for some in asked)
    return [each for request in requests for each in list_objects(api, request, ControllerShape)]


def _replica_set(api: Api, named: OwnerName) -> ControllerShape | None:
    request = REPLICA_SETS.get(named.reference.name, named.namespace)
    answer = api.find(request)
    return decode(request, answer.body, ControllerShape) if answer else None


def _above(api: Api, sets: Iterable[ControllerShape]) -> dict[str, Owner]:
    """Each ReplicaSet's Deployment, or the ReplicaSet itself if it has none."""
    owners, deployed = {}, {}
    for each in sets:
        owners[each.metadata.uid] = _owner(_REPLICA_SET, each)
        above = each.metadata.controller
        if above and above.kind == _DEPLOYMENT and above.group in _APPS:
            deployed[each.metadata.uid] = above.uid
    if deployed:
        shapes = list_objects(api, DEPLOYMENTS.list(), ControllerShape)
        deployments = {each.metadata.uid: _owner(_DEPLOYMENT, each) for each in shapes}
        owners.update({own: deployments[above] for own, above in deployed.items() if above in deployments})
    return owners


def _owner(kind: str, shape: ControllerShape) -> Owner:
    replicas = None if kind in _WITHOUT_SCALE else 1 if shape.spec.replicas is None else shape.spec.replicas
    return Owner(kind=kind, name=shape.metadata.name, uid=shape.metadata.uid, replicas=replicas)


def _owner_of_daemons(shape: DaemonSetShape) -> Owner:
    return Owner(kind=_DAEMON_SET, name=shape.metadata.name, uid=shape.metadata.uid)


def _is_listed(reference: Reference) -> bool:
    if reference.kind == _REPLICA_SET:
        return reference.group in _APPS
    return reference.kind in _LISTED and reference.group in _LISTED[reference.kind][1]


# ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Pods as the domain knows them. Who controls a pod and where its volumes are is filled in from other lists.


_MIRROR = "kubernetes.io/config.mirror"
_TELLING = frozenset({*SAFE_TO_EVICT, *DO_NOT_DISRUPT, DAEMON_POD})  # the other annotations say nothing about moving
_SILENT: Mapping[str, str] = {}  # one for all pods
_PHASES = {phase.value: phase for phase in PodPhase}
_CRASHING = "CrashLoopBackOff"
_DEFAULT_GRACE = 30
_LONGEST_MESSAGE = 300  # characters of the scheduler's message: the causes stand first, preemption after them


@dataclass(frozen=True, slots=True)
class Draft:
    """A pod without its controller and its claims. It is made when they are known: making ten thousand twice takes a
    tenth of an iteration."""

    make: Callable[..., Pod]
    key: str
    placed: bool
    matters: bool  # it has not finished, so who controls it and where its volumes are is looked for
    volumes: tuple[Volume, ...]
    controller: OwnerName | None
    claims: tuple[VolumeClaim, ...]


def draft(shape: PodShape, templates: Templates) -> Draft:
    meta, spec, status = shape.metadata, shape.spec, shape.status
    try:
        labels = templates.strings(meta.labels)
        requests, rules = templates.requests(spec, status), templates.rules(spec, labels)
    except ValueError as error:
        raise UnavailableError(PART, f"pod {meta.namespace}/{meta.name} cannot be read: {error}") from error
    ready = condition(status.conditions, "Ready")
    refused = _unschedulable(shape)
    annotations = meta.annotations or {}
    phase = _PHASES.get(status.phase, PodPhase.RUNNING)  # `Unknown`: its node does not say, so it may well run
    make = partial(
        Pod,
        namespace=templates.share(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        labels=labels,
        annotations={key: annotations[key] for key in telling}
        if (telling := _TELLING & annotations.keys())
        else _SILENT,
        node=templates.share(spec.node_name) or None,
        phase=phase,
        ready=ready is not None and ready.status == "True",
        unschedulable_since=(refused.last_transition_time or meta.creation_timestamp) if refused else None,
        unschedulable_message=(refused.message or "")[:_LONGEST_MESSAGE] if refused else "",
        created_at=meta.creation_timestamp,
        deleted_at=_deleted_at(meta),
        grace=timedelta(seconds=_grace(shape)),
        priority=spec.priority or 0,
        mirror=_MIRROR in annotations,
        gated=bool(spec.scheduling_gates),
        nominated=bool(status.nominated_node_name),
        nominated_node=status.nominated_node_name,
        crashes=_crashes(shape),
        requests=requests,
        rules=rules,
    )
    return Draft(
        make=make,
        key=f"{meta.namespace}/{meta.name}",
        placed=bool(spec.node_name),
        matters=phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED),
        volumes=templates.share(
            tuple(filter(None, [_on_the_node(each, spec.node_name) for each in spec.volumes or ()]))
        ),
        controller=name_owner(meta.controller, meta.namespace, labels) if meta.controller else None,
        claims=tuple([claim for each in spec.volumes or () if (claim := _claim(each, meta, spec.node_name))]),
    )


def daemon_pod(shape: DaemonSetShape, templates: Templates) -> Pod:
    """The pod that a new node gets of a DaemonSet, as far as its template tells."""
    meta, template = shape.metadata, shape.spec.template
    try:
        labels = templates.strings(template.metadata.labels)
        requests, rules = templates.requests(template.spec, PodStatus()), templates.rules(template.spec, labels)
    except ValueError as error:
        raise UnavailableError(PART, f"DaemonSet {meta.namespace}/{meta.name} cannot be read: {error}") from error
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        labels=labels,
        owner=_owner_of_daemons(shape),
        phase=PodPhase.PENDING,
        ready=False,
        priority=template.spec.priority or 0,
        requests=requests,
        rules=rules,
    )


def finish_pod(drafted: Draft, owners: Owners, claims: Claims) -> Pod:
    owner = owners.of(drafted.controller.reference, looked_for=drafted.matters) if drafted.controller else None
    claimed = [claims.volume(claim, drafted.key, placed=drafted.placed) for claim in drafted.claims]
    return drafted.make(owner=owner, volumes=(*drafted.volumes, *claimed) if claimed else drafted.volumes)


def partial_pod(drafted: Draft) -> Pod:
    """As far as the pod itself tells: its controller by the name it gives, and no claims."""
    owner = Owners().of(drafted.controller.reference, looked_for=False) if drafted.controller else None
    return drafted.make(owner=owner, volumes=drafted.volumes)


def _unschedulable(shape: PodShape) -> Condition | None:
    """What the scheduler says about a pod that it has given up for now."""
    placed = condition(shape.status.conditions, "PodScheduled")
    if shape.spec.node_name or placed is None or placed.status != "False" or placed.reason != "Unschedulable":
        return None
    return placed


def _crashes(shape: PodShape) -> int:
    """How often the container that crashes most has been started again, while it waits for the next time."""
    containers = (*(shape.status.container_statuses or ()), *(shape.status.init_container_statuses or ()))
    return max(
        (
            each.restart_count
            for each in containers
            if each.state and each.state.waiting and each.state.waiting.reason == _CRASHING
        ),
        default=0,
    )


def _deleted_at(meta: Meta) -> datetime | None:
    """The API server writes down when it should be gone by: that is its grace after it was asked to go."""
    if meta.deletion_timestamp is None:
        return None
    return meta.deletion_timestamp - timedelta(seconds=meta.deletion_grace_period_seconds or 0)


def _grace(shape: PodShape) -> int:
    """Who deletes a pod may give it another grace than its own."""
    if shape.metadata.deletion_timestamp is not None:
        return shape.metadata.deletion_grace_period_seconds or 0
    own = shape.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE if own is None else own


def _on_the_node(volume: VolumeShape, node: str) -> Volume | None:
    if volume.host_path is not None:
        return Volume(kind=VolumeKind.HOST_PATH, name=volume.name)
    # A claim that was made for this pod alone ends with it: for a pod that moves it is as good as an emptyDir.
    if volume.empty_dir is not None or (volume.ephemeral is not None and node):
        return Volume(kind=VolumeKind.EMPTY_DIR, name=volume.name)
    return None


def _claim(volume: VolumeShape, meta: Meta, node: str) -> VolumeClaim | None:
    if volume.persistent_volume_claim is not None:
        return VolumeClaim(namespace=meta.namespace, name=volume.persistent_volume_claim.claim_name)
    if volume.ephemeral is not None and not node:
        return VolumeClaim(namespace=meta.namespace, name=f"{meta.name}-{volume.name}", made_for_pod=True)
    return None
