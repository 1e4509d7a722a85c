"""Puts cases into a real cluster, each in a namespace of its own, and tells how the cluster counts them.

Budgets come last, when no pod moves any more: what the disruption controller then says is its last word.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.site.waiting import LONGEST
from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.resources import BUDGETS, NAMESPACES, NODES, PODS, Request
from nodefleet.model.workload import Budget, BudgetStatus, Pod
from support.real_cluster_world import Admin, narrow_token

from .cases import DAEMON_NODES, Case, Kind
from .happenings import Raw, all_there, grouped, has_done_its_part, is_to_run, to_pods, to_workloads
from .objects import RESOURCES, budget, changed_to, node, workload_objects

_AT_ONCE = 4  # requests
_PATIENCE = LONGEST
_LOOK_EVERY = 0.4  # not oftener: all pods at once are some megabytes
_STILL = 1.0  # seconds without a change
_MOVING = (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.STATEFUL_SET, Kind.REPLICATION_CONTROLLER)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One budget as our adapter reads it, and what the controller made of it."""

    budget: Budget
    figures: BudgetStatus
    failed: str  # why the controller could not count; empty if it could


@dataclass(frozen=True, kw_only=True)
class Outcome:
    case: Case
    pods: Sequence[Pod]
    budgets: Sequence[Counted]
    answers: Mapping[str, int]  # by pod: the HTTP status of an eviction that is only tried


class Stage:
    def __init__(self, kubeconfig: str) -> None:
        self.admin = Admin(kubeconfig)
        self.cluster = KubernetesCluster.at(self.admin.server, narrow_token(kubeconfig), self.admin.ca)
        self._threads = ThreadPoolExecutor(_AT_ONCE)
        self.all(NODES.create(node(f"n{number}")) for number in range(DAEMON_NODES))

    def close(self) -> None:
        self._threads.shutdown()
        self.admin.api.close()
        self.cluster.close()

    def play(self, cases: Sequence[Case]) -> dict[str, Outcome]:
        plans = {(case.name, workload.name): workload for case in cases for workload in case.workloads}
        self.all(NAMESPACES.create({"metadata": {"name": case.name}}) for case in cases)
        self.all(
            RESOURCES[workload.kind].create(each, namespace)
            for (namespace, _), workload in plans.items()
            for each in workload_objects(workload)
        )
        until(lambda: all_there(plans, grouped(self.admin.items(PODS))), "every pod runs that can")
        self.all(to_pods(plans, grouped(self.admin.items(PODS))))
        self.all(to_workloads(plans))
        until_still(self._pods_settled, "no pod moves any more")
        self.all(BUDGETS.create(budget(each), case.name) for case in cases for each in case.budgets)
        self.counted()
        changed = [(each, case.name) for case in cases for each in case.budgets if each.first is not None]
        self.all(BUDGETS.patch(each.name, changed_to(each.limit), namespace) for each, namespace in changed)
        return {case.name: outcome for case, outcome in zip(cases, self.outcomes(cases), strict=True)}

    def all(self, requests: Iterable[Request]) -> None:
        list(self._threads.map(self.admin.do, requests))

    def counted(self) -> dict[str, Raw]:
        """Budgets by namespace and name, as the controller counts them by what they say now."""
        return until_still(self._budgets_counted, "every budget has its figures")

    def outcomes(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        raw, view = self.counted(), self.cluster.view()
        assert raw == self._budgets_counted(), "figures changed while they were read"
        names = {case.name for case in cases}
        pods = [pod for pod in view.pods or () if pod.namespace in names]
        answers = dict(zip((pod.key for pod in pods), self._threads.map(self._tried, pods), strict=True))
        for case in cases:
            own = [pod for pod in pods if pod.namespace == case.name]
            budgets = [counted(each, raw[each.key]) for each in view.budgets if each.namespace == case.name]
            yield Outcome(case=case, pods=own, budgets=budgets, answers={pod.key: answers[pod.key] for pod in own})

    def _pods_settled(self) -> dict[str, str] | None:
        """Versions of all pods; none while a controller or a pod still has something to do."""
        for kind in _MOVING:
            if not all(has_done_its_part(kind, each) for each in self.admin.items(RESOURCES[kind])):
                return None
        pods = self.admin.items(PODS)
        if any(map(is_to_run, pods)):
            return None
        return {pod["metadata"]["uid"]: pod["metadata"]["resourceVersion"] for pod in pods}

    def _budgets_counted(self) -> dict[str, Raw] | None:
        budgets: list[Raw] = [*self.admin.items(BUDGETS)]
        found = {f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in budgets}
        return found if all(map(_has_figures, budgets)) else None

    def _tried(self, pod: Pod) -> int:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"dryRun": ["All"]},
        }
        return self.admin.api.ask(PODS.create_under(pod.name, "eviction", body, pod.namespace)).status


@contextmanager
def stage(kubeconfig: str) -> Iterator[Stage]:
    found = Stage(kubeconfig)
    try:
        yield found
    finally:
        found.close()


def counted(read: Budget, raw: Raw) -> Counted:
    status = raw["status"]
    figures = BudgetStatus(
        disruptions_allowed=status["disruptionsAllowed"],
        current_healthy=status["currentHealthy"],
        desired_healthy=status["desiredHealthy"],
        expected_pods=status["expectedPods"],
    )
    return Counted(budget=read, figures=figures, failed=_failure(raw))


def _has_figures(raw: Raw) -> bool:
    seen = raw.get("status", {}).get("observedGeneration", 0)
    return bool(seen >= raw["metadata"]["generation"] or _failure(raw))


def _failure(raw: Raw) -> str:
    conditions = raw.get("status", {}).get("conditions", [])
    return next((str(each["message"]) for each in conditions if each["reason"] == "SyncFailed"), "")


def until(true: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + _PATIENCE
    while not true():
        assert time.monotonic() < limit, f"not within {_PATIENCE:g} s: {what}"
        time.sleep(_LOOK_EVERY)


def until_still(look: Callable[[], dict[str, Any] | None], what: str) -> dict[str, Any]:
    """What is seen when it has not changed for a while; none is not there yet."""
    seen: dict[str, Any] | None = None
    since = time.monotonic()

    def still() -> bool:
        nonlocal seen, since
        now = look()
        if now is None or now != seen:
            seen, since = now, time.monotonic()
        return seen is not None and time.monotonic() - since > _STILL

    until(still, what)
    assert seen is not None
    return seen
