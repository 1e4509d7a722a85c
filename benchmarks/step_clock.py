"""What each step of a run takes: the shipped functions, wrapped from outside.

CPU time is counted on the thread that works, and a step inside another counts for itself only. Steps run side by side
while an iteration asks all parts at once, so their wall times may add up to more than the run's.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from typing import Any

from nodefleet.adapters.aws.archive import S3Archive
from nodefleet.adapters.aws.ec2 import Ec2
from nodefleet.adapters.aws.session import Session
from nodefleet.adapters.dynamodb.store import DynamoStore
from nodefleet.adapters.kubernetes import cluster as kubernetes
from nodefleet.adapters.prometheus import PrometheusClient
from nodefleet.adapters.telemetry import LambdaTelemetry
from nodefleet.reconcile import run

# What is measured: the step's name, where it is, and what it is called there.
STEPS: tuple[tuple[str, Any, str], ...] = (
    ("AWS clients", Session, "_make"),
    ("Kubernetes client", kubernetes, "to_server"),
    ("Kubernetes", kubernetes.KubernetesCluster, "view"),
    ("EC2", Ec2, "instances"),
    ("catalogue", Ec2, "catalog"),
    ("readings", PrometheusClient, "ask"),
    ("state, lease", DynamoStore, "state"),
    ("state, lease", DynamoStore, "acquire"),
    ("state, lease", DynamoStore, "release"),
    ("advance", run, "derive_workers"),
    ("advance", run, "advance"),
    ("decide", run, "decide"),
    ("encode", run, "make_record"),
    ("launch", Ec2, "launch"),
    ("archive", S3Archive, "keep"),
    ("commit", DynamoStore, "commit"),
    ("usage", run, "count_usage"),
    ("log, metrics", run, "report_iteration"),
    ("log, metrics", LambdaTelemetry, "flush"),
)
NAMES = tuple(dict.fromkeys(name for name, _, _ in STEPS))


class StepClock:
    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._noting = threading.Lock()
        self._inner = threading.local()  # what steps within the present one have taken
        for name, place, called in STEPS:
            setattr(place, called, self._clocked(name, getattr(place, called)))

    def begin(self) -> None:
        self._taken.clear()

    def taken(self) -> dict[str, dict[str, float]]:
        return {name: {"wall": wall, "cpu": cpu} for name, (wall, cpu) in self._taken.items()}

    def _clocked(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def clocked(*args: Any, **kwargs: Any) -> Any:
            outer = getattr(self._inner, "taken", (0.0, 0.0))
            self._inner.taken = (0.0, 0.0)
            wall, cpu = time.monotonic(), time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                wall, cpu = time.monotonic() - wall, time.thread_time() - cpu
                inner_wall, inner_cpu = self._inner.taken
                self._inner.taken = (outer[0] + wall, outer[1] + cpu)
                self._note(name, wall - inner_wall, cpu - inner_cpu)

        return clocked

    def _note(self, name: str, wall: float, cpu: float) -> None:
        with self._noting:
            taken = self._taken[name]
            taken[0] += wall
            taken[1] += cpu
