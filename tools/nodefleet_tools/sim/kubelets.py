"""Pods on their nodes: a live kubelet starts them, ends them within their grace, and reports on them.

A kubelet whose instance is gone does nothing any more: its pods stay as they were last reported until the API server
loses patience, and one that was to go stays "terminating" for ever.
"""

from dataclasses import replace
from datetime import timedelta

from nodefleet.model.workload import Pod, PodPhase
from nodefleet_tools.sim.kube import Kube


class Kubelets:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._clock = kube.clock
        self.alive: set[str] = set()  # nodes whose kubelet answers

    def bound(self, pod: Pod) -> None:
        """The scheduler gave it a node."""
        self._clock.after(self._kube.traits_of(pod).starts_in, lambda: self._started(pod))

    def delete(self, pod: Pod) -> None:
        """Ask it to go, with its grace."""
        pod = self._kube.is_there(pod) or pod
        if pod.node is None or pod.finished:
            self._remove(pod)
            return
        if pod.deleted_at is None:
            pod = replace(pod, deleted_at=self._clock.now)
            self._kube.put_pod(pod)
        self._end(pod)

    def delete_by_force(self, pod: Pod) -> None:
        self._remove(pod)

    def fell_silent(self, node: str) -> None:
        self.alive.discard(node)

    def answers_again(self, node: str) -> None:
        self.alive.add(node)
        for pod in self._kube.pods_on(node):
            if pod.deleted_at is not None:
                self._end(pod)
            elif pod.phase is PodPhase.PENDING:
                self.bound(pod)

    def report(self, node: str, *, ready: bool) -> None:
        """What the API server believes of the node's pods once it believes that of the node."""
        for pod in self._kube.pods_on(node):
            if pod.phase is PodPhase.RUNNING and pod.ready != ready:
                self._kube.put_pod(replace(pod, ready=ready))

    def _started(self, pod: Pod) -> None:
        now = self._kube.is_there(pod)
        if now is None or now.node not in self.alive or now.deleted_at or now.phase is not PodPhase.PENDING:
            return
        self._kube.put_pod(replace(now, phase=PodPhase.RUNNING, ready=True))
        runs_for = self._kube.traits_of(pod).runs_for
        if runs_for is not None:
            self._clock.after(runs_for, lambda: self._succeeded(pod))

    def _succeeded(self, pod: Pod) -> None:
        now = self._kube.is_there(pod)
        if now is not None and now.node in self.alive and now.deleted_at is None:
            self._kube.put_pod(replace(now, phase=PodPhase.SUCCEEDED, ready=False))
            self._clock.after(self._kube.traits_of(pod).kept_for, lambda: self._remove(pod))

    def _end(self, pod: Pod) -> None:
        traits = self._kube.traits_of(pod)
        if pod.node in self.alive and not traits.stuck:
            takes = min(timedelta(seconds=traits.stops_in), pod.grace)
            self._clock.after(takes.total_seconds(), lambda: self._ended(pod))

    def _ended(self, pod: Pod) -> None:
        if pod.node in self.alive:
            self._remove(pod)

    def _remove(self, pod: Pod) -> None:
        self._kube.drop_pod(pod)
