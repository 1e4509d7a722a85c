"""The direct path from a pod that no node can take to a run: the watcher on the server node, SNS, Lambda.

The watcher gathers pods for a moment, publishes once for all of them, and not again before `apart` has passed. A pod
that it has reported is not reported again: the schedule and Alertmanager cover a message that got lost.
"""

from collections.abc import Callable
from datetime import timedelta

from nodefleet_tools.sim.kube import Kube

GATHER_SECONDS = 0.5  # infra: userdata/pending.py
APART_SECONDS = 3.0  # infra: userdata/pending.py
DELIVERY_SECONDS = 1.5  # the AWS CLI starts, SNS delivers, Lambda starts a warm function


class PendingWatch:
    def __init__(self, kube: Kube, start_run: Callable[[], None]) -> None:
        self._kube = kube
        self._start_run = start_run
        self._reported: set[str] = set()  # uids
        self._publishing = False
        self._published = kube.clock.now - timedelta(seconds=APART_SECONDS)
        kube.reconcilers.append(self._observe)  # after the scheduler

    def _observe(self) -> None:
        if self._publishing or not self._unreported():
            return
        self._publishing = True
        clock = self._kube.clock
        since = (clock.now - self._published).total_seconds()
        clock.after(max(GATHER_SECONDS, APART_SECONDS - since), self._publish)

    def _unreported(self) -> set[str]:
        pending = {pod.uid for pod in self._kube.unbound() if pod.unschedulable_since is not None}
        self._reported &= pending  # uids are never used again
        return pending - self._reported

    def _publish(self) -> None:
        self._publishing = False
        self._published = self._kube.clock.now
        if new := self._unreported():
            self._reported |= new
            self._kube.clock.after(DELIVERY_SECONDS, self._start_run)
