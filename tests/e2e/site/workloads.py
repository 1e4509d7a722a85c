"""What operators run in the cluster: Deployments in a namespace of the test's, and everything that is left of them."""

from collections.abc import Mapping
from typing import Any

from e2e.site.waiting import until
from nodefleet.adapters.kubernetes.resources import BUDGETS, DEPLOYMENTS, NAMESPACES, PODS, STATEFUL_SETS, Resource
from support.real_cluster_world import Admin

NAMESPACE = "shop"
_KINDS = (BUDGETS, DEPLOYMENTS, STATEFUL_SETS, PODS)


class Workloads:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        admin.do(NAMESPACES.create({"metadata": {"name": NAMESPACE}}))

    def deploy(
        self,
        name: str,
        replicas: int,
        *,
        cpu: str = "1500m",
        memory: str = "256Mi",
        annotations: Mapping[str, str] | None = None,
        **pod: Any,
    ) -> None:
        """A Deployment; `pod` is more of its pods' spec. By default one pod fills a t3.small."""
        requests = {"cpu": cpu, "memory": memory}
        spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}], **pod}
        labels = {"app": name}
        template = {"metadata": {"labels": labels, "annotations": dict(annotations or {})}, "spec": spec}
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        self._admin.do(DEPLOYMENTS.create({"metadata": {"name": name}, "spec": body}, NAMESPACE))

    def scale(self, name: str, replicas: int) -> None:
        self._admin.do(DEPLOYMENTS.patch(name, {"spec": {"replicas": replicas}}, NAMESPACE))

    def pods(self, app: str = "") -> list[dict[str, Any]]:
        """Those that are not on their way out."""
        found = [pod for pod in self._admin.items(PODS) if pod["metadata"]["namespace"] == NAMESPACE]
        wanted = [pod for pod in found if not app or pod["metadata"].get("labels", {}).get("app") == app]
        return [pod for pod in wanted if "deletionTimestamp" not in pod["metadata"]]

    def running(self, app: str = "") -> list[dict[str, Any]]:
        return [pod for pod in self.pods(app) if pod["status"]["phase"] == "Running"]

    def unschedulable(self, app: str = "") -> list[dict[str, Any]]:
        """As the real scheduler says."""
        return [pod for pod in self.pods(app) if _is_unschedulable(pod)]

    def clear(self) -> None:
        """Nothing of any test is left, whatever holds it."""
        for kind in _KINDS:
            for name in self._names(kind):
                self._admin.api.ask(kind.patch(name, {"metadata": {"finalizers": None}}, NAMESPACE))
                self._admin.api.ask(kind.delete(name, {"gracePeriodSeconds": 0}, NAMESPACE))
        until(lambda: not self._names(PODS), "the last test's pods are gone")

    def _names(self, kind: Resource) -> list[str]:
        found = [each["metadata"] for each in self._admin.items(kind)]
        return [each["name"] for each in found if each["namespace"] == NAMESPACE]


def _is_unschedulable(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions)
