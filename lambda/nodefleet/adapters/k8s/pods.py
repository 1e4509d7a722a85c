"""Pods as the domain knows them. Who controls a pod and where its volumes are is filled in from other lists."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodefleet.adapters.k8s.owners import Owners
from nodefleet.adapters.k8s.pod_shapes import PodShape, VolumeShape
from nodefleet.adapters.k8s.refusals import PART
from nodefleet.adapters.k8s.shapes import Condition, Meta, Reference, condition
from nodefleet.adapters.k8s.templates import Templates
from nodefleet.adapters.k8s.volumes import Claim, Claims
from nodefleet.domain.workload import DAEMON_POD, DO_NOT_DISRUPT, SAFE_TO_EVICT, Pod, PodPhase, Volume, VolumeKind
from nodefleet.errors import UnavailableError

_MIRROR = "kubernetes.io/config.mirror"
_TELLING = frozenset({*SAFE_TO_EVICT, *DO_NOT_DISRUPT, DAEMON_POD})  # the other annotations say nothing about moving
_PHASES = {phase.value: phase for phase in PodPhase}
_CRASHING = "CrashLoopBackOff"
_DEFAULT_GRACE = 30
_LONGEST_MESSAGE = 300  # characters of the scheduler's message: the causes stand first, preemption after them


@dataclass(frozen=True, slots=True)
class Draft:
    """A pod without its controller and its claims."""

    pod: Pod
    controller: Reference | None
    claims: tuple[Claim, ...]

    @property
    def matters(self) -> bool:
        """It has not finished, so who controls it and where its volumes are is looked for."""
        return not self.pod.finished


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
    pod = Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        labels=labels,
        annotations={key: annotations[key] for key in _TELLING & annotations.keys()},
        node=spec.node_name or None,
        phase=_PHASES.get(status.phase, PodPhase.RUNNING),  # `Unknown`: its node does not say, so it may well run
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
        crashes=_crashes(shape),
        requests=requests,
        rules=rules,
        volumes=tuple([volume for each in spec.volumes or () if (volume := _on_the_node(each, spec.node_name))]),
    )
    claims = tuple([claim for each in spec.volumes or () if (claim := _claim(each, pod))])
    return Draft(pod=pod, controller=meta.controller, claims=claims)


def finished(drafted: Draft, owners: Owners, claims: Claims) -> Pod:
    pod = drafted.pod
    owner = owners.of(drafted.controller, looked_for=drafted.matters) if drafted.controller else None
    placed = pod.node is not None
    volumes = (*pod.volumes, *[claims.volume(claim, pod.key, placed=placed) for claim in drafted.claims])
    return replace(pod, owner=owner, volumes=volumes) if owner or drafted.claims else pod


def unlooked(drafted: Draft) -> Pod:
    """As far as the pod itself tells: its controller by the name it gives, and no claims."""
    owner = Owners().of(drafted.controller, looked_for=False) if drafted.controller else None
    return replace(drafted.pod, owner=owner) if owner else drafted.pod


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


def _claim(volume: VolumeShape, pod: Pod) -> Claim | None:
    if volume.persistent_volume_claim is not None:
        return Claim(namespace=pod.namespace, name=volume.persistent_volume_claim.claim_name)
    if volume.ephemeral is not None and pod.node is None:
        return Claim(namespace=pod.namespace, name=f"{pod.name}-{volume.name}", made_for_pod=True)
    return None
