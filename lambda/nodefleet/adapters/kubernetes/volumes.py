"""Where the volumes are that pods claim: on one node, in some zones, or anywhere.

K3s keeps local-path volumes on one node's disk: such a pod can run nowhere else, and its data ends with the node.
A claim without a volume waits for its pod's node only if its StorageClass says so (WaitForFirstConsumer). Otherwise no
node helps the pod, and none is bought for it: the scheduler refuses it until the claim is bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodefleet.adapters.kubernetes.client import Api, list_if_allowed, list_objects
from nodefleet.adapters.kubernetes.objects import (
    ClaimShape,
    ClassShape,
    DriversShape,
    LabelExpression,
    NodeSelectorTerm,
    StoredShape,
    labels_of,
)
from nodefleet.adapters.kubernetes.resources import CLAIMS, CSI_NODES, STORAGE_CLASSES, VOLUMES
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL, Volume, VolumeKind

_ZONES = (ZONE_LABEL, "topology.ebs.csi.aws.com/zone", "failure-domain.beta.kubernetes.io/zone")
_SEVERAL_ZONES = "__"  # between zones in a volume's label
_NAME_FIELD = "metadata.name"

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_WAITS_FOR_POD = "WaitForFirstConsumer"
_ONE_POD = "ReadWriteOncePod"

_NO_CLAIM = "does not exist"
_DELETED = "is being deleted"
_NO_VOLUME = "names a volume that is not there"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    namespace: str
    name: str
    made_for_pod: bool = False  # Kubernetes makes it for this pod alone, shortly after the pod

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A claim that exists."""

    bound_to: str  # its volume, empty while it has none
    once_bound: Volume  # where its volume will be, or why there will be none; for one without a volume
    one_pod: bool = False  # ReadWriteOncePod
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    known: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    users: Mapping[tuple[str, str], str] = field(default_factory=dict)  # of claims for one pod: who has it
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by node and CSI driver: volumes at most

    def volume(self, claim: VolumeClaim, pod: str, *, placed: bool) -> Volume:
        """What a claim means for a pod. `placed`: it runs already, so what is missing was there when it started."""
        found = self._where(claim, placed=placed)
        if placed:
            return replace(found, unusable="")
        user = self.users.get(claim.key, pod)
        if not found.unusable and user != pod:
            return replace(found, unusable=f"is for one pod alone, and {user} has it")
        return found

    def _where(self, claim: VolumeClaim, *, placed: bool) -> Volume:
        plain = Volume(kind=VolumeKind.CLAIM, name=claim.name)
        known = self.known.get(claim.key)
        if known is None:
            return plain if claim.made_for_pod else replace(plain, unusable=_NO_CLAIM)
        if known.deleted and not placed:
            return replace(plain, unusable=_DELETED)
        if not known.bound_to:
            return replace(known.once_bound, name=plain.name)
        volume = self.volumes.get(known.bound_to)
        return replace(volume, name=plain.name) if volume else replace(plain, unusable=_NO_VOLUME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A pod that has not finished, and one of its claims."""

    claim: VolumeClaim
    pod: str
    placed: bool


def claims_in(api: Api, names_of_hosts: Mapping[str, str], uses: Sequence[Use]) -> Claims:
    """All claims and volumes. `names_of_hosts`: node names by host label, for volumes that name their host.

    StorageClasses are read only if some pod waits for a claim that has no volume yet, and attach limits only if there
    are volumes that a CSI driver attaches, or may soon be.
    """
    claims = {
        (each.metadata.namespace, each.metadata.name): each for each in list_objects(api, CLAIMS.list(), ClaimShape)
    }
    stored = list_objects(api, VOLUMES.list(), StoredShape)
    waited_for = {use.claim.key for use in uses if not use.placed}
    is_open = any(key in waited_for and not each.spec.volume_name for key, each in claims.items())
    classes = _classes(api) if is_open else None
    attaches = bool(names_of_hosts) and (is_open or any(each.spec.csi for each in stored))
    limits = _attach_limits(api) if attaches else {}
    limited = frozenset(driver for each in limits.values() for driver in each)
    volumes = {each.metadata.name: volume_from(each, names_of_hosts, limited) for each in stored}
    free = _free_by_class(stored, volumes)
    known = {
        key: Known(
            bound_to=each.spec.volume_name,
            once_bound=_once_bound(each, classes, free, limited),
            one_pod=_ONE_POD in (each.spec.access_modes or ()),
            deleted=each.metadata.deletion_timestamp is not None,
        )
        for key, each in claims.items()
    }
    return Claims(known=known, volumes=volumes, users=_users(uses, known), limits=limits)


def _attach_limits(api: Api) -> Mapping[str, Mapping[str, int]]:
    """How many volumes of a driver a node can attach. None are known if our role is older than this question, or while
    a node's driver has not registered: the scheduler sees no limit either."""
    found = list_if_allowed(api, CSI_NODES.list(), DriversShape)
    limits = {
        each.metadata.name: {
            driver.name: driver.allocatable.count
            for driver in each.spec.drivers or ()
            if driver.allocatable and driver.allocatable.count is not None
        }
        for each in found or ()
    }
    return {name: drivers for name, drivers in limits.items() if drivers}


def _users(uses: Iterable[Use], known: Mapping[tuple[str, str], Known]) -> Mapping[tuple[str, str], str]:
    """Who has each claim that is for one pod alone: the pod that has a node, else the first of those that wait."""
    found: dict[tuple[str, str], str] = {}
    for use in sorted(uses, key=lambda use: (not use.placed, use.pod)):
        claim = known.get(use.claim.key)
        if claim is not None and claim.one_pod:
            found.setdefault(use.claim.key, use.pod)
    return found


def _classes(api: Api) -> Mapping[str, ClassShape] | None:
    """None if our role is older than this question: then a claim is taken to wait for its pod, as most do. `doctor`
    names the permission."""
    found = list_if_allowed(api, STORAGE_CLASSES.list(), ClassShape)
    return None if found is None else {each.metadata.name: each for each in found}


def _free_by_class(stored: Iterable[StoredShape], volumes: Mapping[str, Volume]) -> Mapping[str, tuple[Volume, ...]]:
    """Volumes without a claim."""
    free: dict[str, tuple[Volume, ...]] = {}
    for each in stored:
        if each.spec.claim_ref is None:
            of_class = each.spec.storage_class_name
            free[of_class] = (*free.get(of_class, ()), volumes[each.metadata.name])
    return free


def _once_bound(
    claim: ClaimShape,
    classes: Mapping[str, ClassShape] | None,
    free: Mapping[str, tuple[Volume, ...]],
    limited: frozenset[str],
) -> Volume:
    """What the scheduler expects of a claim that has no volume yet."""
    plain = Volume(kind=VolumeKind.CLAIM)
    named = claim.spec.storage_class_name
    if classes is None:
        return plain
    if not named:
        return replace(plain, unusable="is not bound, and has no StorageClass that would give it a volume")
    found = classes.get(named)
    if found is None:
        return replace(plain, unusable=f"has StorageClass {named}, which does not exist")
    if found.volume_binding_mode != _WAITS_FOR_POD:
        return replace(plain, unusable=f"is not bound yet: StorageClass {named} binds it without waiting for a node")
    if found.provisioner != _NO_PROVISIONER:
        volume = replace(plain, zones=_zones_allowed(found))
        claimed = f"{claim.metadata.namespace}/{claim.metadata.name}"
        return replace(volume, driver=found.provisioner, handle=claimed) if found.provisioner in limited else volume
    return _one_of(free.get(named, ()), named)


def _one_of(free: Sequence[Volume], named: str) -> Volume:
    """A claim that takes one of the volumes that exist: where all of them are, as far as one answer can say."""
    plain = Volume(kind=VolumeKind.CLAIM)
    if not free:
        return replace(plain, unusable=f"waits for a volume of StorageClass {named}, and none is free")
    if len(free) == 1:
        return replace(plain, zones=free[0].zones, node=free[0].node)
    if all(each.node for each in free):
        return replace(plain, unusable=f"waits for a local volume of StorageClass {named}, and no new node has one")
    zones = {zone for each in free for zone in each.zones}
    return replace(plain, zones=tuple(sorted(zones)) if all(each.zones for each in free) else ())


def _zones_allowed(found: ClassShape) -> tuple[str, ...]:
    terms = [
        NodeSelectorTerm(match_expressions=each.match_label_expressions) for each in found.allowed_topologies or ()
    ]
    return _zones(terms)


def volume_from(shape: StoredShape, names_of_hosts: Mapping[str, str], limited: frozenset[str] = frozenset()) -> Volume:
    """`limited`: CSI drivers of which nodes can attach only so many volumes."""
    affinity = shape.spec.node_affinity
    terms = (affinity.required.node_selector_terms if affinity and affinity.required else None) or []
    node = _only_node(terms, names_of_hosts)
    is_local = shape.spec.local is not None or shape.spec.host_path is not None or node is not None
    csi = shape.spec.csi if shape.spec.csi and shape.spec.csi.driver in limited else None
    return Volume(
        kind=VolumeKind.LOCAL if is_local else VolumeKind.CLAIM,
        name=shape.metadata.name,
        zones=_zones(terms) or _zones_in_labels(shape),
        node=node,
        driver=csi.driver if csi else "",
        handle=csi.volume_handle if csi else "",
    )


def _only_node(terms: Iterable[NodeSelectorTerm], names_of_hosts: Mapping[str, str]) -> str | None:
    """The one node that all terms agree on. Drivers have labels of their own for it, with the node's name as value."""
    names = {_node_in(term, names_of_hosts) for term in terms}
    return names.pop() if len(names) == 1 else None


def _node_in(term: NodeSelectorTerm, names_of_hosts: Mapping[str, str]) -> str | None:
    for line in (*(term.match_expressions or ()), *(term.match_fields or ())):
        match line:
            case LabelExpression(operator="In", values=[value]) if line.key in (HOST_LABEL, _NAME_FIELD):
                return names_of_hosts.get(value, value)
            case LabelExpression(operator="In", values=[value]) if value in names_of_hosts:
                return names_of_hosts[value]
    return None


def _zones(terms: Iterable[NodeSelectorTerm]) -> tuple[str, ...]:
    """All that one of the terms allows. A term that says nothing of zones allows every one."""
    found: set[str] = set()
    for term in terms:
        named = [line.values or [] for line in term.match_expressions or () if _names_zones(line)]
        if not named:
            return ()
        found |= set(named[0]).intersection(*named[1:])
    return tuple(sorted(found))


def _names_zones(line: LabelExpression) -> bool:
    return line.key in _ZONES and line.operator == "In"


def _zones_in_labels(shape: StoredShape) -> tuple[str, ...]:
    labels = labels_of(shape.metadata)
    named = next((labels[key] for key in _ZONES if key in labels), "")
    return tuple(sorted(filter(None, named.split(_SEVERAL_ZONES))))
