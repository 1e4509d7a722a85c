"""Where the volumes are that pods claim: on one node, in some zones, or anywhere.

K3s keeps local-path volumes on one node's disk: such a pod can run nowhere else, and its data ends with the node.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodefleet.adapters.k8s.calls import Api
from nodefleet.adapters.k8s.decoding import listed
from nodefleet.adapters.k8s.resources import CLAIMS, VOLUMES
from nodefleet.adapters.k8s.shapes import ClaimShape, Line, NodeSelectorTerm, StoredShape, labels_of
from nodefleet.domain.workload import HOST_LABEL, ZONE_LABEL, Volume, VolumeKind

_ZONES = (ZONE_LABEL, "topology.ebs.csi.aws.com/zone", "failure-domain.beta.kubernetes.io/zone")
_SEVERAL_ZONES = "__"  # between zones in a volume's label
_NAME_FIELD = "metadata.name"

# A place where no node is: a pod that waits for a claim or a volume that does not exist is not helped by a new node.
_NO_CLAIM = ("no zone: there is no such claim",)
_NO_VOLUME = ("no zone: its claim names a volume that is not there",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    namespace: str
    name: str
    made_for_pod: bool = False  # Kubernetes makes it for this pod alone, shortly after the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    bound: Mapping[tuple[str, str], str] = field(default_factory=dict)  # claim → its volume, empty while it has none
    volumes: Mapping[str, Volume] = field(default_factory=dict)

    def volume(self, claim: Claim, *, placed: bool) -> Volume:
        """What a claim means for a pod. `placed`: it runs already, so what is missing was there when it started."""
        bound_to = self.bound.get((claim.namespace, claim.name))
        if bound_to is None:
            unmet = not placed and not claim.made_for_pod
            return Volume(kind=VolumeKind.CLAIM, name=claim.name, zones=_NO_CLAIM if unmet else ())
        if not bound_to:
            return Volume(kind=VolumeKind.CLAIM, name=claim.name)
        found = self.volumes.get(bound_to)
        if found is None:
            return Volume(kind=VolumeKind.CLAIM, name=claim.name, zones=() if placed else _NO_VOLUME)
        return Volume(kind=found.kind, name=claim.name, zones=found.zones, node=found.node)


def claims_in(api: Api, names_of_hosts: Mapping[str, str]) -> Claims:
    """All claims and volumes. `names_of_hosts`: node names by host label, for volumes that name their host."""
    claims = listed(api, CLAIMS.list(), ClaimShape)
    volumes = listed(api, VOLUMES.list(), StoredShape)
    return Claims(
        bound={(each.metadata.namespace, each.metadata.name): each.spec.volume_name for each in claims},
        volumes={each.metadata.name: volume_from(each, names_of_hosts) for each in volumes},
    )


def volume_from(shape: StoredShape, names_of_hosts: Mapping[str, str]) -> Volume:
    affinity = shape.spec.node_affinity
    terms = (affinity.required.node_selector_terms if affinity and affinity.required else None) or []
    node = _only_node(terms, names_of_hosts)
    is_local = shape.spec.local is not None or shape.spec.host_path is not None or node is not None
    return Volume(
        kind=VolumeKind.LOCAL if is_local else VolumeKind.CLAIM,
        name=shape.metadata.name,
        zones=_zones(terms) or _zones_in_labels(shape),
        node=node,
    )


def _only_node(terms: Iterable[NodeSelectorTerm], names_of_hosts: Mapping[str, str]) -> str | None:
    """The one node that all terms agree on. Drivers have labels of their own for it, with the node's name as value."""
    names = {_node_in(term, names_of_hosts) for term in terms}
    return names.pop() if len(names) == 1 else None


def _node_in(term: NodeSelectorTerm, names_of_hosts: Mapping[str, str]) -> str | None:
    for line in (*(term.match_expressions or ()), *(term.match_fields or ())):
        match line:
            case Line(operator="In", values=[value]) if line.key in (HOST_LABEL, _NAME_FIELD):
                return names_of_hosts.get(value, value)
            case Line(operator="In", values=[value]) if value in names_of_hosts:
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


def _names_zones(line: Line) -> bool:
    return line.key in _ZONES and line.operator == "In"


def _zones_in_labels(shape: StoredShape) -> tuple[str, ...]:
    labels = labels_of(shape.metadata)
    named = next((labels[key] for key in _ZONES if key in labels), "")
    return tuple(sorted(filter(None, named.split(_SEVERAL_ZONES))))
