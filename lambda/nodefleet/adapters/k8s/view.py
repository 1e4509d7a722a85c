"""One look at the cluster: nodes, pods and budgets, and of the rest only what some pod needs.

Nodes come before pods: a pod on a node that is not in the list is harmless, a node that looks empty because its pods
were read too early is not. What pods belong to comes after them, so that it is there if it exists at all.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from nodefleet.adapters.k8s.budgets import budget_from
from nodefleet.adapters.k8s.calls import Api
from nodefleet.adapters.k8s.decoding import digested, listed
from nodefleet.adapters.k8s.nodes import node_from
from nodefleet.adapters.k8s.owners import Named, named, owners_of
from nodefleet.adapters.k8s.pod_shapes import PodShape
from nodefleet.adapters.k8s.pods import Draft, draft, finished, unlooked
from nodefleet.adapters.k8s.resources import BUDGETS, LEASES, NAMESPACES, NODES, PODS, Request
from nodefleet.adapters.k8s.shapes import BudgetShape, LeaseShape, NamespaceShape, NodeShape, labels_of
from nodefleet.adapters.k8s.templates import Templates
from nodefleet.adapters.k8s.volumes import Claims, Use, claims_in
from nodefleet.domain.machines import Node
from nodefleet.domain.observation import ClusterView
from nodefleet.domain.workload import HOST_LABEL, Pod
from nodefleet.errors import LoginRefusedError, NodeFleetError

_LOG = logging.getLogger(__name__)
_NODE_LEASES = "kube-node-lease"  # the namespace of the kubelets' own leases


def view(api: Api) -> ClusterView:
    listed_nodes = _heard(api, nodes(api))
    pods = _pods(_drafts(api, PODS.list()), api, listed_nodes)
    budgets = tuple(digested(api, BUDGETS.list(), BudgetShape, budget_from))
    return ClusterView(nodes=listed_nodes, pods=pods, budgets=budgets)


def nodes(api: Api) -> tuple[Node, ...]:
    return tuple(digested(api, NODES.list(), NodeShape, node_from))


def _heard(api: Api, found: tuple[Node, ...]) -> tuple[Node, ...]:
    """With each kubelet's last heartbeat. Only a node that is not ready needs it, so a healthy cluster is not asked for
    it; without it the Ready condition alone tells how long a node has been away."""
    if all(node.ready for node in found):
        return found
    try:
        leases = listed(api, LEASES.list_in(_NODE_LEASES), LeaseShape)
    except LoginRefusedError:
        raise
    except NodeFleetError as error:
        _LOG.warning("Heartbeats are not known: %s", error)
        return found
    renewed = {lease.metadata.name: lease.spec.renew_time for lease in leases}
    return tuple([replace(node, heartbeat_at=renewed.get(node.name)) for node in found])


def pods_on(api: Api, node: str, *, brief: bool = False) -> tuple[Pod, ...]:
    drafts = _drafts(api, PODS.list(fieldSelector=f"spec.nodeName={node}"))
    return tuple([unlooked(each) for each in drafts]) if brief else _pods(drafts, api, ())


def _drafts(api: Api, request: Request) -> list[Draft]:
    templates = Templates(cache(partial(_namespaces, api)))
    return digested(api, request, PodShape, lambda shape: draft(shape, templates))


def _pods(drafts: Sequence[Draft], api: Api, nodes: Sequence[Node]) -> tuple[Pod, ...]:
    mattering = [each for each in drafts if each.matters]
    owners = owners_of(api, _controllers(mattering))
    uses = [
        Use(claim=claim, pod=each.pod.key, placed=each.pod.node is not None)
        for each in mattering
        for claim in each.claims
    ]
    claims = claims_in(api, _names_of_hosts(nodes), uses) if uses else Claims()
    return tuple([finished(each, owners, claims) for each in drafts])


def _controllers(drafts: Iterable[Draft]) -> Iterable[Named]:
    return (named(each.controller, each.pod.namespace, each.pod.labels) for each in drafts if each.controller)


def _names_of_hosts(nodes: Iterable[Node]) -> Mapping[str, str]:
    return {name: node.name for node in nodes for name in (node.name, node.labels.get(HOST_LABEL, node.name))}


def _namespaces(api: Api) -> Mapping[str, Mapping[str, str]]:
    return {each.metadata.name: labels_of(each.metadata) for each in listed(api, NAMESPACES.list(), NamespaceShape)}
