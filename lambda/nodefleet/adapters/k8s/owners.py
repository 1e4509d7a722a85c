"""Who controls a pod, and how many of it that controller wants.

For a Deployment's pods that is the Deployment, not the ReplicaSet in between: disruption budgets count it once, also
while two of its ReplicaSets run side by side. A controller that a pod names and that is not there any more is gone:
nobody would make the pod again. Only kinds that are listed here can be known to be gone, and Jobs only if our role may
list them: that of an older release may not, and then a Job is taken to be there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nodefleet.adapters.k8s.calls import Api
from nodefleet.adapters.k8s.decoding import decoded, listed, listed_if_allowed
from nodefleet.adapters.k8s.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from nodefleet.adapters.k8s.shapes import ControllerShape, Reference
from nodefleet.domain.workload import Owner

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
class Named:
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


def named(reference: Reference, namespace: str, labels: Mapping[str, str]) -> Named:
    return Named(namespace=namespace, reference=reference, template=labels.get(_HASH_LABEL, ""))


def owners_of(api: Api, all_named: Iterable[Named]) -> Owners:
    """Those controllers that are still there. Only the kinds that occur are asked for."""
    by_kind: dict[str, dict[str, Named]] = {}
    for each in all_named:
        if _is_listed(each.reference):
            by_kind.setdefault(each.reference.kind, {})[each.reference.uid] = each
    known: dict[str, Owner] = {}
    unseen: set[str] = set()
    if _REPLICA_SET in by_kind:
        known.update(_above(api, _replica_sets(api, by_kind.pop(_REPLICA_SET))))
    for kind in by_kind:
        resource, _ = _LISTED[kind]
        ask = listed_if_allowed if kind == _JOB else listed
        found = ask(api, resource.list(), ControllerShape)
        if found is None:
            unseen.add(kind)
        known.update({each.metadata.uid: _owner(kind, each) for each in found or ()})
    return Owners(known, frozenset(unseen))


def _replica_sets(api: Api, wanted: Mapping[str, Named]) -> list[ControllerShape]:
    """A Deployment keeps ten old ReplicaSets by default, so they are asked for by their templates' hashes. Those of
    nobody have no hash and are asked for by name, unless they are many."""
    found = _with_hashes(api, sorted({each.template for each in wanted.values() if each.template}))
    missing = [wanted[uid] for uid in wanted.keys() - {each.metadata.uid for each in found}]
    if len(missing) > _MOST_BY_NAME:
        return listed(api, REPLICA_SETS.list(), ControllerShape)
    return [*found, *filter(None, [_replica_set(api, each) for each in missing])]


def _with_hashes(api: Api, hashes: Sequence[str]) -> list[ControllerShape]:
    asked = (hashes[start : start + _HASHES] for start in range(0, len(hashes), _HASHES))
    requests = (REPLICA_SETS.list(labelSelector=f"{_HASH_LABEL} in ({','.join(some)})") for some in asked)
    return [each for request in requests for each in listed(api, request, ControllerShape)]


def _replica_set(api: Api, named: Named) -> ControllerShape | None:
    request = REPLICA_SETS.get(named.reference.name, named.namespace)
    answer = api.find(request)
    return decoded(request, answer.body, ControllerShape) if answer else None


def _above(api: Api, sets: Iterable[ControllerShape]) -> dict[str, Owner]:
    """Each ReplicaSet's Deployment, or the ReplicaSet itself if it has none."""
    owners, deployed = {}, {}
    for each in sets:
        owners[each.metadata.uid] = _owner(_REPLICA_SET, each)
        above = each.metadata.controller
        if above and above.kind == _DEPLOYMENT and above.group in _APPS:
            deployed[each.metadata.uid] = above.uid
    if deployed:
        shapes = listed(api, DEPLOYMENTS.list(), ControllerShape)
        deployments = {each.metadata.uid: _owner(_DEPLOYMENT, each) for each in shapes}
        owners.update({own: deployments[above] for own, above in deployed.items() if above in deployments})
    return owners


def _owner(kind: str, shape: ControllerShape) -> Owner:
    replicas = None if kind in _WITHOUT_SCALE else 1 if shape.spec.replicas is None else shape.spec.replicas
    return Owner(kind=kind, name=shape.metadata.name, uid=shape.metadata.uid, replicas=replicas)


def _is_listed(reference: Reference) -> bool:
    if reference.kind == _REPLICA_SET:
        return reference.group in _APPS
    return reference.kind in _LISTED and reference.group in _LISTED[reference.kind][1]
