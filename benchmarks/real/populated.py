"""Fills a real cluster, many requests at a time, and waits until its controllers and its scheduler are through.

Everything is counted in lists that stay small: Deployments tell how many of their pods are ready, so ten thousand pods
need not be read again and again.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec
from real import workload
from real.workload import NAME_LABEL, WAITING, Plan
from tables import progress
from world.scene import NAMESPACE

from nodefleet.adapters.kubernetes.client import Api, list_objects
from nodefleet.adapters.kubernetes.objects import BudgetShape, Condition, NodeShape, PodShape, condition
from nodefleet.adapters.kubernetes.resources import BUDGETS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, NODES, PODS, Request

_AT_ONCE = 8  # requests; more would wait for the two cores
_LOOK_EVERY = 2.0
_SAY_EVERY = 10.0
_STUCK_AFTER = 180.0  # seconds in which nothing comes nearer


class _Counts(msgspec.Struct, rename="camel"):
    ready_replicas: int = 0  # a Deployment's
    number_ready: int = 0  # a DaemonSet's


class _Workload(msgspec.Struct):
    status: _Counts


def populate(api: Api, plan: Plan) -> None:
    """Nodes that are ready, and pods that run on them. The DaemonSet is there already."""
    api.do(NAMESPACES.create({"metadata": {"name": NAMESPACE}}))
    _create(api, "nodes", (NODES.create(each) for each in workload.nodes(plan)))
    _until("nodes ready", plan.nodes, lambda: _ready_nodes(api))
    _create(api, "Deployments", (DEPLOYMENTS.create(each, NAMESPACE) for each in workload.deployments(plan)))
    _until("pods of Deployments ready", plan.pods - plan.nodes, lambda: _ready_pods(api))
    _until("pods of the DaemonSet ready", plan.nodes, lambda: _ready_daemons(api))
    budgets = list(workload.budgets(plan))
    _create(api, "budgets", (BUDGETS.create(each, NAMESPACE) for each in budgets))
    _until("budgets that allow a pod to leave", len(budgets), lambda: _allowing(api))


def overfill(api: Api, plan: Plan) -> None:
    """Pods that the real scheduler cannot place."""
    api.do(DEPLOYMENTS.create(workload.waiting(plan), NAMESPACE))
    _until("pods unschedulable", plan.waiting, lambda: _unschedulable(api))


def _create(api: Api, what: str, requests: Iterable[Request]) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        made = sum(1 for _ in threads.map(api.do, requests))
    progress(f"{made:,} {what} made in {time.monotonic() - began:.0f} s")


def _until(what: str, wanted: int, count: Callable[[], int]) -> None:
    began = moved = said = time.monotonic()
    most = -1
    while (found := count()) < wanted:
        now = time.monotonic()
        if found > most:
            most, moved = found, now
        if now - moved > _STUCK_AFTER:
            raise SystemExit(f"{what}: {found:,} of {wanted:,}, and no more for {_STUCK_AFTER:.0f} s")
        if now - said > _SAY_EVERY:
            said = now
            progress(f"{found:,} of {wanted:,} {what}, {now - began:.0f} s")
        time.sleep(_LOOK_EVERY)
    progress(f"{found:,} {what} after {time.monotonic() - began:.0f} s")


def _ready_nodes(api: Api) -> int:
    """Ready, and known as such to the controller that keeps pods off nodes that are not."""
    found = list_objects(api, NODES.list(), NodeShape)
    return sum(not each.spec.taints and _is(condition(each.status.conditions, "Ready")) for each in found)


def _ready_pods(api: Api) -> int:
    return sum(each.status.ready_replicas for each in list_objects(api, DEPLOYMENTS.list(), _Workload))


def _ready_daemons(api: Api) -> int:
    return sum(each.status.number_ready for each in list_objects(api, DAEMON_SETS.list(), _Workload))


def _allowing(api: Api) -> int:
    told = (each.status for each in list_objects(api, BUDGETS.list(), BudgetShape))
    return sum(figures is not None and figures.disruptions_allowed > 0 for figures in told)


def _unschedulable(api: Api) -> int:
    found = list_objects(api, PODS.list(labelSelector=f"{NAME_LABEL}={WAITING}"), PodShape)
    conditions = (condition(each.status.conditions, "PodScheduled") for each in found)
    return sum(each is not None and each.reason == "Unschedulable" for each in conditions)


def _is(found: Condition | None) -> bool:
    return found is not None and found.status == "True"
