"""Requests that the pods serve: what is not served now is carried, and waiting shows as latency.

A service's pods work at their share of the demand; that share is what their CPU shows. More replicas come by a simple
horizontal autoscaler, if the service has one, and that is what asks for nodes.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil, inf

from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.kube import Kube
from nodefleet_tools.sim.workloads import Controllers, Workload

_STEP = 10.0  # seconds
_STABLE = timedelta(minutes=5)  # replicas go down only to what was enough for this long


@dataclass(slots=True, kw_only=True)
class Service:
    workload: Workload  # whose ready pods serve it
    demand: Callable[[datetime], float]  # requests per second
    per_pod: float  # requests per second that one pod serves
    idle_use: float = 0.05  # of the CPU that a pod asks for, without a request
    full_use: float = 1.0  # the same at its limit
    base_ms: float = 50.0  # a request that does not wait
    slo_ms: float = 500.0
    replicas: tuple[int, int] | None = None  # the autoscaler's bounds; none: the replicas are set by hand
    target: float = 0.7  # how busy the autoscaler wants the pods
    # what came of it
    backlog: float = 0.0  # requests that wait
    served: float = 0.0
    asked: float = 0.0  # requests per second that came in last
    capacity: float = 0.0  # requests per second that the ready pods could serve
    busy: float = 0.0  # share of the pods' capacity that was used last
    latency_ms: float = 0.0
    violated: timedelta = timedelta(0)  # how long the latency was above the SLO
    # What was wanted when, of the last minutes, without what something later outdid: the first is the highest.
    _wanted: deque[tuple[datetime, int]] = field(default_factory=deque)
    _counted: tuple[int, int] = (-1, 0)  # at which version of the cluster, and how many pods serve

    @property
    def wait_seconds(self) -> float:
        """How long a request that comes now waits for its turn."""
        if not self.backlog:
            return 0.0
        return self.backlog / self.capacity if self.capacity else inf

    @property
    def busy_pods(self) -> float:
        return self.busy * self.capacity / self.per_pod


class Load:
    def __init__(self, clock: Clock, kube: Kube, controllers: Controllers) -> None:
        self.services: list[Service] = []
        self._clock = clock
        self._kube = kube
        self._controllers = controllers

    def add(self, service: Service) -> Service:
        if not self.services:
            self._clock.every(_STEP, self._step)
        self.services.append(service)
        return service

    def _step(self) -> None:
        for service in self.services:
            asked = max(0.0, service.demand(self._clock.now))
            self._serve(service, asked)
            if service.replicas is not None:
                self._scale(service, asked, service.replicas)

    def _serve(self, service: Service, asked: float) -> None:
        service.asked, service.capacity = asked, self._serving(service) * service.per_pod
        capacity = service.capacity * _STEP
        work = asked * _STEP + service.backlog
        done = min(work, capacity)
        service.served += done
        service.backlog = work - done
        service.busy = done / capacity if capacity else 1.0
        service.latency_ms = _latency(service)
        if service.latency_ms > service.slo_ms:
            service.violated += timedelta(seconds=_STEP)
        service.workload.traits.cpu_use = service.idle_use + (service.full_use - service.idle_use) * service.busy

    def _serving(self, service: Service) -> int:
        """Its ready pods, counted again only when something changed."""
        if service._counted[0] != self._kube.version:  # noqa: SLF001
            pods = self._kube.pods_of(service.workload.uid)
            number = sum(pod.ready and pod.deleted_at is None for pod in pods)
            service._counted = (self._kube.version, number)  # noqa: SLF001
        return service._counted[1]  # noqa: SLF001

    def _scale(self, service: Service, asked: float, bounds: tuple[int, int]) -> None:
        fewest, most = bounds
        wanted = ceil((asked + service.backlog / 60) / (service.per_pod * service.target))
        wanted = min(most, max(fewest, wanted))
        now, recent = self._clock.now, service._wanted  # noqa: SLF001
        while recent and now - recent[0][0] >= _STABLE:
            recent.popleft()
        while recent and recent[-1][1] <= wanted:
            recent.pop()
        recent.append((now, wanted))
        enough = recent[0][1]
        current = service.workload.replicas
        self._controllers.scale(service.workload, wanted if wanted > current else min(current, enough))


def _latency(service: Service) -> float:
    """A request's own time, longer the busier the pods are, and the wait behind the backlog."""
    if not service.capacity:
        return inf if service.backlog else service.base_ms
    crowding = service.base_ms / max(0.05, 1.0 - service.busy)
    return crowding + 1000 * service.wait_seconds
