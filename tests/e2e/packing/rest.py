"""Until the control plane has nothing left to do: pods are made, nodes are ready, and the scheduler's queues are empty.

A pod that waits then waits because the real scheduler has tried it on every node that there is.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

from e2e.site.waiting import LONGEST
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import Pod, PodPhase

from .workloads import App

_QUEUES = re.compile(r'^scheduler_pending_pods\{queue="(active|backoff)"\} (\S+)$', re.MULTILINE)
_LOOKS = 3  # that agree, one after the other
_PAUSE = 0.3
_PATIENCE = LONGEST


class NoRestError(AssertionError):
    """The control plane is still busy after a long time."""


class Rest:
    def __init__(self, view: Callable[[], ClusterView], scheduler_metrics: Callable[[], str]) -> None:
        self._view = view
        self._metrics = scheduler_metrics
        self.last = ClusterView()  # what was seen when it was last at rest

    def look(self) -> None:
        """How it is now, at rest or not."""
        self.last = self._view()

    def wait(self, apps: Sequence[App]) -> ClusterView:
        """Until exactly the pods of these apps are there and each runs or was given up by the scheduler."""
        until, agreed, before = time.monotonic() + _PATIENCE, 0, None
        while agreed < _LOOKS:
            view = self._view()
            busy = self._busy(view, apps)
            now = _standing(view)
            agreed = agreed + 1 if not busy and now == before else 0
            before = now
            if time.monotonic() > until:
                raise NoRestError(f"after {_PATIENCE:g} s: {busy or 'pods still move'}")
            time.sleep(_PAUSE)
        self.last = view
        return view

    def _busy(self, view: ClusterView, apps: Sequence[App]) -> str:
        """What is still going on, in words; empty: nothing."""
        wanted = Counter({(app.namespace, app.name): app.replicas for app in apps if not app.daemon})
        pods = view.pods or ()
        there = Counter((pod.namespace, pod.labels.get("app", "")) for pod in pods if not pod.is_daemon)
        if there != wanted:
            return f"{sum((wanted - there).values())} pods to come, {sum((there - wanted).values())} to go"
        unready = [node.name for node in view.nodes if not node.ready or _is_new(node.taints)]
        if unready:
            return f"{len(unready)} nodes are not ready, {unready[0]} among them"
        open_pods = [pod.key for pod in pods if not _is_settled(pod)]
        if open_pods:
            return f"{len(open_pods)} pods are neither running nor given up, {open_pods[0]} among them"
        queued = {name: float(number) for name, number in _QUEUES.findall(self._metrics()) if float(number)}
        return f"the scheduler's queues hold {queued}" if queued else ""


def _is_new(taints: Sequence[object]) -> bool:
    return any("node.kubernetes.io/not-ready" in str(taint) for taint in taints)


def _is_settled(pod: Pod) -> bool:
    if pod.deleted_at is not None:
        return False
    return (pod.phase is PodPhase.RUNNING and pod.ready) or pod.unschedulable_since is not None


def _standing(view: ClusterView) -> object:
    return [(pod.uid, pod.node, pod.phase) for pod in view.pods or ()]
