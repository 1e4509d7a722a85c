"""Reads: nodes, pods and budgets, of the rest only what some pod needs, and the checks of `nodefleet doctor`."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial

import msgspec

from nodefleet.adapters.kubernetes.client import PART, Api, decode, list_digests, list_objects
from nodefleet.adapters.kubernetes.objects import (
    BudgetShape,
    DaemonSetShape,
    LeaseShape,
    NamespaceShape,
    NodeShape,
    PodShape,
    TaintShape,
    condition,
    labels_of,
)
from nodefleet.adapters.kubernetes.pod_rules import Templates, effect_named, selector_of
from nodefleet.adapters.kubernetes.pods import (
    Draft,
    daemon_pod,
    draft,
    finish_pod,
    owners_of,
    partial_pod,
)
from nodefleet.adapters.kubernetes.resources import (
    ACCESS_REVIEWS,
    BUDGETS,
    DAEMON_SETS,
    LEASES,
    NAMESPACES,
    NEEDED,
    NODES,
    PODS,
    VERSION,
    Permission,
    Request,
)
from nodefleet.adapters.kubernetes.volumes import Claims, Use, claims_in
from nodefleet.errors import LoginRefusedError, NodeFleetError, UnavailableError
from nodefleet.model.inventory import Effect, Node, Resources, Taint
from nodefleet.model.names import CONTROL_PLANE_LABELS, LEAVING_TAINT, POOL_LABEL, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import (
    HOST_LABEL,
    SCALE_DOWN_DISABLED,
    Budget,
    BudgetStatus,
    Pod,
    UnhealthyPodPolicy,
    resources_from,
)

# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# Nodes as the domain knows them.
#
# Our own taint stays among the taints: the scheduler sees it too, also when an operator lifted the cordon and left it
# there.


PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_PROVIDER_ID = re.compile(r"aws:///[^/]*/(i-[^/]+)")
_TELLING = frozenset({*SCALE_DOWN_DISABLED, REMOVAL_ANNOTATION, REASON_ANNOTATION})  # the rest is of no use to us


def node_from(shape: NodeShape) -> Node:
    meta, spec = shape.metadata, shape.spec
    labels = labels_of(meta)
    annotations = meta.annotations or {}
    taints = tuple(taint_from(taint) for taint in spec.taints or ())
    ready = condition(shape.status.conditions, "Ready")
    pressing = [each for each in shape.status.conditions or () if each.type in PRESSURES and each.status == "True"]
    machine = _PROVIDER_ID.fullmatch(spec.provider_id)
    return Node(
        name=meta.name,
        pool=labels.get(POOL_LABEL) or None,
        instance=machine[1] if machine else "",
        control_plane=any(label in labels for label in CONTROL_PLANE_LABELS),
        ready=ready is not None and ready.status == "True",
        ready_changed_at=(ready and ready.last_transition_time) or meta.creation_timestamp,
        created_at=meta.creation_timestamp,
        cordoned=spec.unschedulable,
        removal=annotations.get(REMOVAL_ANNOTATION, "") if _is_leaving(taints) else "",
        labels=labels,
        annotations={key: text for key, text in annotations.items() if key in _TELLING},
        taints=taints,
        pressures=tuple(each.type for each in pressing),
        pressed_since=min((each.last_transition_time for each in pressing if each.last_transition_time), default=None),
        allocatable=_amounts(meta.name, shape.status.allocatable or {}),
    )


def taint_from(shape: TaintShape) -> Taint:
    """An effect that is new to us keeps pods off like the strictest that we know to do so."""
    return Taint(key=shape.key, value=shape.value, effect=effect_named(shape.effect) or Effect.NO_SCHEDULE)


def _is_leaving(taints: tuple[Taint, ...]) -> bool:
    return any(taint.key == LEAVING_TAINT for taint in taints)


def _amounts(name: str, quantities: Mapping[str, str]) -> Resources:
    try:
        return resources_from(quantities)
    except ValueError as error:
        raise UnavailableError(PART, f"node {name}: {error}") from error


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# PodDisruptionBudgets as the domain knows them.


_POLICIES = {policy.value: policy for policy in UnhealthyPodPolicy}


def budget_from(shape: BudgetShape) -> Budget:
    spec = shape.spec
    return Budget(
        namespace=shape.metadata.namespace,
        name=shape.metadata.name,
        selector=selector_of(spec.selector) if spec.selector is not None else None,
        min_available=None if spec.min_available is None else str(spec.min_available),
        max_unavailable=None if spec.max_unavailable is None else str(spec.max_unavailable),
        unhealthy_policy=_POLICIES.get(spec.unhealthy_pod_eviction_policy or "", UnhealthyPodPolicy.IF_HEALTHY_BUDGET),
        status=_status(shape),
    )


def _status(shape: BudgetShape) -> BudgetStatus | None:
    """The Eviction API refuses every eviction while the status is older than the budget itself."""
    figures = shape.status
    if figures is None:
        return None
    current = figures.observed_generation >= shape.metadata.generation
    return BudgetStatus(
        disruptions_allowed=figures.disruptions_allowed if current else 0,
        current_healthy=figures.current_healthy,
        desired_healthy=figures.desired_healthy,
        expected_pods=figures.expected_pods,
    )


# ── the view ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# One iteration at the cluster: nodes, pods and budgets, and of the rest only what some pod needs.
#
# Nodes come before pods: a pod on a node that is not in the list is harmless, a node that looks empty because its pods
# were read too early is not. What pods belong to comes after them, so that it is there if it exists at all.


_LOG = logging.getLogger(__name__)
_NODE_LEASES = "kube-node-lease"  # the namespace of the kubelets' own leases


def view(api: Api) -> ClusterView:
    listed_nodes = _with_heartbeats(api, nodes(api))
    templates = _templates(api)
    drafts = _drafts(api, PODS.list(), templates)
    daemon_sets = list_objects(api, DAEMON_SETS.list(), DaemonSetShape)
    claims = _claims(drafts, api, listed_nodes)
    pods = _with_valid_nominations(_pods(drafts, api, claims, daemon_sets), listed_nodes)
    budgets = tuple(list_digests(api, BUDGETS.list(), BudgetShape, budget_from))
    return ClusterView(
        nodes=_with_attach_limits(listed_nodes, claims),
        pods=pods,
        budgets=budgets,
        daemon_sets=tuple(
            [daemon_pod(each, templates) for each in daemon_sets if each.metadata.deletion_timestamp is None]
        ),
    )


def nodes(api: Api) -> tuple[Node, ...]:
    return tuple(list_digests(api, NODES.list(), NodeShape, node_from))


def _with_heartbeats(api: Api, found: tuple[Node, ...]) -> tuple[Node, ...]:
    """With each kubelet's last heartbeat. Only a node that is not ready needs it, so a healthy cluster is not asked for
    it; without it the Ready condition alone tells how long a node has been away."""
    if all(node.ready for node in found):
        return found
    try:
        leases = list_objects(api, LEASES.list_in(_NODE_LEASES), LeaseShape)
    except LoginRefusedError:
        raise
    except NodeFleetError as error:
        _LOG.warning("Heartbeats are not known: %s", error)
        return found
    renewed = {lease.metadata.name: lease.spec.renew_time for lease in leases}
    return tuple([replace(node, heartbeat_at=renewed.get(node.name)) for node in found])


def pods_on(api: Api, node: str, *, brief: bool) -> tuple[Pod, ...]:
    drafts = _drafts(api, PODS.list(fieldSelector=f"spec.nodeName={node}"), _templates(api))
    return tuple([partial_pod(each) for each in drafts]) if brief else _pods(drafts, api, _claims(drafts, api, ()))


def _templates(api: Api) -> Templates:
    return Templates(cache(partial(_namespaces, api)))


def _drafts(api: Api, request: Request, templates: Templates) -> list[Draft]:
    return list_digests(api, request, PodShape, lambda shape: draft(shape, templates))


def _pods(
    drafts: Sequence[Draft], api: Api, claims: Claims, daemon_sets: Sequence[DaemonSetShape] | None = None
) -> tuple[Pod, ...]:
    named = (each.controller for each in drafts if each.matters and each.controller)
    owners = owners_of(api, named, daemon_sets)
    return tuple([finish_pod(each, owners, claims) for each in drafts])


def _with_valid_nominations(pods: tuple[Pod, ...], nodes: Sequence[Node]) -> tuple[Pod, ...]:
    """A nomination for a node that is gone makes no room: the pod waits like any other until the scheduler tries it
    again."""
    names = {node.name for node in nodes}
    return tuple(
        [
            replace(pod, nominated=False, nominated_node="")
            if pod.nominated and pod.nominated_node not in names
            else pod
            for pod in pods
        ]
    )


def _claims(drafts: Iterable[Draft], api: Api, nodes: Sequence[Node]) -> Claims:
    uses = [
        Use(claim=claim, pod=each.key, placed=each.placed) for each in drafts if each.matters for claim in each.claims
    ]
    return claims_in(api, _names_of_hosts(nodes), uses) if uses else Claims()


def _with_attach_limits(nodes: tuple[Node, ...], claims: Claims) -> tuple[Node, ...]:
    if not claims.limits:
        return nodes
    return tuple([replace(node, attach_limits=claims.limits.get(node.name, {})) for node in nodes])


def _names_of_hosts(nodes: Iterable[Node]) -> Mapping[str, str]:
    return {name: node.name for node in nodes for name in (node.name, node.labels.get(HOST_LABEL, node.name))}


def _namespaces(api: Api) -> Mapping[str, Mapping[str, str]]:
    return {
        each.metadata.name: labels_of(each.metadata) for each in list_objects(api, NAMESPACES.list(), NamespaceShape)
    }


# ── checks ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# What `nodefleet doctor` asks: which server this is, what its clock shows, and what we may do there.


class _Version(msgspec.Struct, rename="camel"):
    git_version: str


class _Verdict(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Verdict


def server_version(api: Api) -> str:
    """Such as v1.31.4+k3s1."""
    return decode(VERSION, api.do(VERSION).body, _Version).git_version


def server_time(api: Api) -> datetime:
    """What the API server's clock shows, to the second."""
    date = api.do(VERSION).date
    try:
        return parsedate_to_datetime(date)
    except ValueError as error:
        raise UnavailableError(PART, f"{VERSION}: the answer says no time ({date!r})") from error


def is_allowed(
    api: Api, verb: str, resource: str, *, group: str = "", subresource: str = "", namespace: str = ""
) -> bool:
    """Whether our role lets us do this. Without a namespace: in all of them."""
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
    attributes = {key: value for key, value in asked.items() if value}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    request = ACCESS_REVIEWS.create(body)
    return decode(request, api.do(request).body, _Review).status.allowed


def missing(api: Api) -> Iterator[tuple[Permission, str]]:
    """What our role lacks: the permission, and which of its verbs."""
    for permission in NEEDED:
        resource, _, subresource = permission.resource.partition("/")
        for verb in permission.verbs:
            if not is_allowed(api, verb, resource, group=permission.group, subresource=subresource):
                yield permission, verb
