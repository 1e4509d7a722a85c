"""A world for the contract of ports.Cluster, behind a fake API server."""

from collections.abc import Iterable, Mapping
from typing import Any

from contracts.cluster_contract import WEB, Said
from nodefleet.model.operations import PodRef
from nodefleet.ports import Cluster
from support import k8s_objects
from support.fake_api_server import FakeApiServer


class FakeWorld:
    def __init__(self, server: FakeApiServer, cluster: Cluster) -> None:
        self.objects = server.objects
        self.cluster = cluster
        self.namespace = "default"

    def node(self, name: str, **how: Any) -> None:
        self.objects.put("nodes", k8s_objects.node(name, **how))

    def pod(self, name: str, *, labels: Mapping[str, str] = WEB, **how: Any) -> PodRef:
        made = self.objects.put("pods", k8s_objects.pod(name, labels=labels, **how))
        return PodRef(namespace=self.namespace, name=name, uid=made["metadata"]["uid"])

    def replaced(self, pod: PodRef) -> PodRef:
        found = self.objects.find("pods", pod.name, pod.namespace)
        del found["metadata"]["uid"]
        made = self.objects.put("pods", found)
        return PodRef(namespace=pod.namespace, name=pod.name, uid=made["metadata"]["uid"])

    def budget(self, name: str, *, needs: int, labels: Mapping[str, str] = WEB) -> None:
        pods = self.objects.stored.get("pods", {}).values()
        healthy = sum(is_healthy(pod, labels) for pod in pods)
        made = k8s_objects.budget(
            name, labels=labels, allowed=max(0, healthy - needs), healthy=healthy, needed=needs, minAvailable=needs
        )
        self.objects.put("poddisruptionbudgets", made)

    def namespace_ends(self) -> None:
        self.objects.terminating.add(self.namespace)

    def person_cordons(self, node: str) -> None:
        self.objects.patch("nodes", "", node, {"spec": {"unschedulable": True}})

    def person_uncordons(self, node: str) -> None:
        self.objects.patch("nodes", "", node, {"spec": {"unschedulable": None}})

    def events_on(self, node: str) -> list[Said]:
        return said_on(node, self.objects.stored.get("events", {}).values())


def is_healthy(pod: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
    return ready and labels.items() <= pod["metadata"].get("labels", {}).items()


def said_on(node: str, events: Iterable[Mapping[str, Any]]) -> list[Said]:
    """Events as `kubectl describe node` would find them."""
    return [
        Said(
            reason=event["reason"],
            message=event["message"],
            count=event["count"],
            warning=event["type"] == "Warning",
        )
        for event in events
        if event["involvedObject"]["name"] == node and event["involvedObject"]["uid"] == node
    ]
