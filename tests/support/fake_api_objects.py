"""The objects behind a fake API server, and what a real one does to them.

Answers and their words are those that kube-apiserver v1.34 gave when it was asked the same.
"""

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

Object = dict[str, Any]
_FIELD_SELECTORS = {"pods": ("spec.nodeName",)}
_IN = re.compile(r"(\S+) in \((.*)\)")
_GROUPS = {
    "replicasets": "apps",
    "deployments": "apps",
    "statefulsets": "apps",
    "daemonsets": "apps",
    "poddisruptionbudgets": "policy",
    "storageclasses": "storage.k8s.io",
    "csinodes": "storage.k8s.io",
    "jobs": "batch",
    "leases": "coordination.k8s.io",
    "selfsubjectaccessreviews": "authorization.k8s.io",
}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Mapping[str, Any] | bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def failure(code: int, reason: str, message: str, **details: Any) -> Reply:
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
    return Reply(code, {**body, "details": details} if details else body)


def not_found(plural: str, name: str) -> Reply:
    return failure(404, "NotFound", f'{plural} "{name}" not found', name=name, kind=plural)


def conflict(plural: str, name: str, why: str) -> Reply:
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return failure(409, "Conflict", message, name=name, kind=plural)


class Objects:
    """Everything that is stored, by plural and then by namespace and name."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[tuple[str, str], Object]] = {}
        self.terminating: set[str] = set()  # namespaces
        self.denied: set[tuple[str, str]] = set()  # verb and resource
        self.now = datetime(2026, 11, 16, 12, tzinfo=UTC)
        self._versions = count(1)

    # ── for tests ────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, plural: str, thing: Object) -> Object:
        """Store it as it is, with a uid of its own unless it brings one."""
        made = deepcopy(thing)
        meta = made.setdefault("metadata", {})
        number = next(self._versions)
        meta.setdefault("uid", f"uid-{number}")
        meta["resourceVersion"] = str(number)
        meta.setdefault("creationTimestamp", _written(self.now))
        self.stored.setdefault(plural, {})[meta.get("namespace", ""), meta["name"]] = made
        return made

    def touch(self, plural: str, name: str, namespace: str = "") -> None:
        """Somebody else changed it."""
        self.stored[plural][namespace, name]["metadata"]["resourceVersion"] = str(next(self._versions))

    def find(self, plural: str, name: str, namespace: str = "") -> Object | None:
        return self.stored.get(plural, {}).get((namespace, name))

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        self.stored.get(plural, {}).pop((namespace, name), None)

    # ── what a server does ───────────────────────────────────────────────────────────────────────────────────────

    def list(self, plural: str, query: Mapping[str, str]) -> Reply:
        chosen = sorted(self.stored.get(plural, {}).items())
        found = [thing for _, thing in chosen]
        if "fieldSelector" in query:
            path, _, wanted = query["fieldSelector"].partition("=")
            if path not in _FIELD_SELECTORS.get(plural, ()):
                return failure(400, "BadRequest", f'"{path}" is not a known field selector')
            found = [thing for thing in found if _at(thing, path) == wanted]
        if "labelSelector" in query:
            key, values = _IN.fullmatch(query["labelSelector"]).groups()
            found = [thing for thing in found if thing["metadata"].get("labels", {}).get(key) in values.split(",")]
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or len(found) or 1)
        meta = {"resourceVersion": "1", **({"continue": str(start + limit)} if start + limit < len(found) else {})}
        return Reply(200, {"kind": "List", "metadata": meta, "items": found[start : start + limit]})

    def get(self, plural: str, namespace: str, name: str) -> Reply:
        found = self.find(plural, name, namespace)
        return Reply(200, found) if found else not_found(plural, name)

    def create(self, plural: str, namespace: str, body: Object) -> Reply:
        name = body["metadata"]["name"]
        if self.find(plural, name, namespace):
            return failure(409, "AlreadyExists", f'{plural} "{name}" already exists', name=name, kind=plural)
        return Reply(201, self.put(plural, body))

    def patch(self, plural: str, namespace: str, name: str, body: Object) -> Reply:
        found = self.find(plural, name, namespace)
        if found is None:
            return not_found(plural, name)
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, found["metadata"]["resourceVersion"]):
            return conflict(
                plural, name, "the object has been modified; please apply your changes to the latest version"
            )
        merged = _merged(found, body)
        merged["metadata"]["resourceVersion"] = str(next(self._versions))
        self.stored[plural][namespace, name] = merged
        return Reply(200, merged)

    def delete(self, plural: str, namespace: str, name: str, options: Object) -> Reply:
        found = self.find(plural, name, namespace)
        if found is None:
            return not_found(plural, name)
        meta = found["metadata"]
        wanted = options.get("preconditions", {})
        for key, here in (("uid", meta["uid"]), ("resourceVersion", meta["resourceVersion"])):
            if wanted.get(key, here) != here:
                return conflict(plural, name, f"the {key} in the precondition ({wanted[key]}) does not match ({here})")
        grace = options.get("gracePeriodSeconds", 30 if found.get("spec", {}).get("nodeName") else 0)
        if plural == "pods" and grace:
            meta["deletionGracePeriodSeconds"] = grace
            meta["deletionTimestamp"] = _written(self.now + timedelta(seconds=grace))
        else:
            self.remove(plural, name, namespace)
        return Reply(200, {"kind": "Status", "status": "Success"})

    def evict(self, namespace: str, name: str, body: Object) -> Reply:
        if namespace in self.terminating:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
            return failure(403, "Forbidden", f'pods "{name}" is forbidden: {message}', kind="pods", causes=[cause])
        pod = self.find("pods", name, namespace)
        if pod is None:
            return not_found("pods", name)
        running = pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        budgets = list(self._covering(pod)) if running else []
        if len(budgets) > 1:
            words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            return Reply(500, {"kind": "Status", "status": "Failure", "message": words, "code": 500})
        if budgets and (refused := _refused(budgets[0])):
            return refused
        for budget in budgets:
            budget["status"]["disruptionsAllowed"] -= 1
        deleted = self.delete("pods", namespace, name, body.get("deleteOptions", {}))
        return Reply(201, {"kind": "Status", "status": "Success", "code": 201}) if deleted.status == 200 else deleted

    def review(self, body: Object) -> Reply:
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked.get("subresource", ""))))
        fits = asked.get("group", "") == _GROUPS.get(asked["resource"], "")
        return Reply(201, {**body, "status": {"allowed": fits and (asked["verb"], resource) not in self.denied}})

    def _covering(self, pod: Object) -> Iterable[Object]:
        labels = pod["metadata"].get("labels", {})
        for (namespace, _), budget in self.stored.get("poddisruptionbudgets", {}).items():
            wanted = budget["spec"].get("selector", {}).get("matchLabels", {})
            if namespace == pod["metadata"]["namespace"] and wanted.items() <= labels.items():
                yield budget


def _refused(budget: Object) -> Reply | None:
    name, status = budget["metadata"]["name"], budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        words = f"The disruption budget {name} is still being processed by the server."
    elif status.get("disruptionsAllowed", 0) == 0:
        needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        words = f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
    else:
        return None
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return failure(429, "TooManyRequests", message, causes=[{"reason": "DisruptionBudget", "message": words}])


def _at(thing: Object, path: str) -> Any:
    for part in path.split("."):
        thing = thing.get(part, {})
    return thing or ""


def _merged(target: Any, patch: Any) -> Any:
    """As RFC 7386 has it: null takes away, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
