"""A world for the contract of ports.Cluster, behind a real API server.

It is set up as an admin. The cluster under test has a ServiceAccount's token, and of permissions only those that the
adapter says it needs.
"""

import json
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from contracts.cluster_contract import WEB, Said
from nodefleet.adapters.kubernetes import NEEDED, CallLimits, KubernetesCluster
from nodefleet.adapters.kubernetes.client import Api
from nodefleet.adapters.kubernetes.cluster import from_kubeconfig
from nodefleet.adapters.kubernetes.resources import BUDGETS, EVENTS, NAMESPACES, NODES, PODS, Request, Resource
from nodefleet.model.operations import PodRef
from nodefleet.model.workload import PodPhase
from support import k8s_objects
from support.fake_cluster_world import is_healthy, said_on

_PATIENCE = 10.0  # seconds for what the server does by itself
_NAMELESS = {"metadata": {"generateName": "probe-"}}
_ACCOUNTS = Resource(plural="serviceaccounts")
_ROLES = Resource(group="rbac.authorization.k8s.io", plural="clusterroles")
_BINDINGS = Resource(group="rbac.authorization.k8s.io", plural="clusterrolebindings")


class Admin:
    """May do everything."""

    def __init__(self, kubeconfig: str) -> None:
        self._client: Any = from_kubeconfig(kubeconfig)
        self.api = Api(self._client)

    @property
    def server(self) -> str:
        return str(self._client.configuration.host)

    @property
    def ca(self) -> str:
        return Path(self._client.configuration.ssl_ca_cert).read_text()

    def do(self, request: Request) -> dict[str, Any]:
        return dict(json.loads(self.api.do(request).body))

    def items(self, resource: Resource) -> list[dict[str, Any]]:
        return list(self.do(resource.list())["items"])

    def set_status(self, path: str, status: Mapping[str, Any]) -> None:
        self.do(Request(verb="patch", path=f"{path}/status", body={"status": status}))

    def until(self, request: Request, *, fine: bool) -> None:
        """Ask until the answer is a good one, or no longer one."""
        limit = time.monotonic() + _PATIENCE
        while self.api.ask(request).fine != fine:
            assert time.monotonic() < limit, f"{request} does not change"
            time.sleep(0.02)


@cache
def narrow_token(kubeconfig: str) -> str:
    """Of an account that may do what the adapter needs, and no more."""
    admin, name = Admin(kubeconfig), f"fleet-{uuid4().hex[:8]}"
    rules = [{"apiGroups": [each.group], "resources": [each.resource], "verbs": each.verbs} for each in NEEDED]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    admin.do(_ACCOUNTS.create({"metadata": {"name": name}}, "default"))
    admin.do(_ROLES.create({"metadata": {"name": name}, "rules": rules}))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    admin.do(_BINDINGS.create({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}))
    made = admin.do(_ACCOUNTS.create_under(name, "token", {"spec": {"expirationSeconds": 3600}}, "default"))
    token = str(made["status"]["token"])
    cluster = KubernetesCluster.at(admin.server, token, admin.ca)
    limit = time.monotonic() + _PATIENCE
    while cluster.missing_permissions():  # whoever grants them hears of the role a little later
        assert time.monotonic() < limit, "the role is not enough"
    cluster.close()
    admin.api.close()
    return token


class RealWorld:
    """The API server must be empty, and may be changed at will."""

    def __init__(self, kubeconfig: str) -> None:
        token = narrow_token(kubeconfig)
        self.admin = Admin(kubeconfig)
        self.cluster = KubernetesCluster.at(self.admin.server, token, self.admin.ca, CallLimits(read=5))
        self.namespace = f"contract-{uuid4().hex[:8]}"
        self.admin.do(NAMESPACES.create({"metadata": {"name": self.namespace}}))

    def close(self) -> None:
        """Nothing stays behind that the next test could see."""
        ask = self.admin.api.ask
        ask(NAMESPACES.delete(self.namespace, {}))
        for pod in self.admin.items(PODS):
            ask(PODS.delete(pod["metadata"]["name"], {"gracePeriodSeconds": 0}, pod["metadata"]["namespace"]))
        for node in self.admin.items(NODES):
            ask(NODES.delete(node["metadata"]["name"], {}))
        for event in self.admin.items(EVENTS):
            ask(EVENTS.delete(event["metadata"]["name"], {}, event["metadata"]["namespace"]))
        self.admin.api.close()
        self.cluster.close()

    def node(self, name: str, **how: Any) -> None:
        made = k8s_objects.node(name, **how)
        self.admin.do(NODES.create(made))
        self.admin.set_status(f"/api/v1/nodes/{name}", made["status"])

    def pod(self, name: str, *, labels: Mapping[str, str] = WEB, **how: Any) -> PodRef:
        made = k8s_objects.pod(name, namespace=self.namespace, labels=labels, **how)
        stored = self.admin.do(PODS.create(made, self.namespace))
        self.admin.set_status(f"/api/v1/namespaces/{self.namespace}/pods/{name}", made["status"])
        return PodRef(namespace=self.namespace, name=name, uid=stored["metadata"]["uid"])

    def replaced(self, pod: PodRef) -> PodRef:
        found = self.admin.do(PODS.get(pod.name, pod.namespace))
        self.admin.do(PODS.delete(pod.name, {"gracePeriodSeconds": 0}, pod.namespace))
        return self.pod(
            pod.name,
            node=found["spec"].get("nodeName"),
            labels=found["metadata"]["labels"],
            phase=PodPhase(found["status"]["phase"]),
        )

    def budget(self, name: str, *, needs: int, labels: Mapping[str, str] = WEB) -> None:
        spec = {"minAvailable": needs, "selector": {"matchLabels": dict(labels)}}
        self.admin.do(BUDGETS.create({"metadata": {"name": name}, "spec": spec}, self.namespace))
        healthy = sum(is_healthy(pod, labels) for pod in self.admin.items(PODS))
        status = k8s_objects.figures(allowed=max(0, healthy - needs), healthy=healthy, needed=needs)
        # Without a controller nobody works the figures out; with one these are what it arrives at itself.
        self.admin.set_status(f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}", status)

    def namespace_ends(self) -> None:
        self.admin.do(NAMESPACES.delete(self.namespace, {}))
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.admin.until(Request(verb="create", path=path, body=_NAMELESS), fine=False)

    def person_cordons(self, node: str) -> None:
        self.admin.do(NODES.patch(node, {"spec": {"unschedulable": True}}))

    def person_uncordons(self, node: str) -> None:
        self.admin.do(NODES.patch(node, {"spec": {"unschedulable": None}}))

    def events_on(self, node: str) -> list[Said]:
        return said_on(node, self.admin.items(EVENTS))
