"""No task is lost while the fleet grows and shrinks: Celery on Redis, a worker process for each pod, on real parts.

The control plane, the scheduler, EC2's stand-in and the shipped functions are those of the other scenarios. A pod that
runs has a worker process; one that is deleted gets its SIGTERM and stays, as a kubelet keeps it, until the process has
finished the task in hand (a finalizer stands for the kubelet). An autoscaler of pods, of four lines, follows the queue.
Nodes follow the pods: they come when pods wait, and are drained with tasks in hand when their CPU is idle.

Counted end to end: each task begins once and ends once. Nothing here redelivers: nobody kills a worker.
"""

import os
from collections import Counter
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from subprocess import Popen  # noqa: TC003  # the annotation names what a kubelet holds

import pytest

from e2e.celery_tasks import CeleryTasks
from e2e.parts.brokers import Redis, missing_brokers
from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import Beside, until
from e2e.site.workloads import NAMESPACE
from nodefleet.adapters.kubernetes.resources import DEPLOYMENTS, PODS

pytestmark = pytest.mark.skipif(bool(missing_brokers()), reason=missing_brokers())

PASSWORD = "only-for-tests"  # noqa: S105  # of a server on loopback
APP = "worker"
KUBELET = "node-fleet.test/kubelet"
GRACE = 15  # seconds; no task takes so long
WAVES = 12 if os.environ.get("NODEFLEET_E2E_FULL") else 1  # each is five minutes of compressed time
TASKS = 40  # of a wave
TASK_SECONDS = 1.0
MOST_PODS = 6
REQUESTS = {"cpu": "800m", "memory": "128Mi"}  # two pods fill a t3.small
POLICY = compressed(
    limits={"min": 1, "max": 4},
    steps={"pending": "packing", "down": 1},
    cooldown={"up": 4, "down": 4},
    sustain={"down": {"kind": "readings", "count": 2}},
    removal={"settle": 2},
)


class Kubelets:
    """A worker process for each pod that runs; a pod that goes is let go when its process has ended."""

    def __init__(self, site: Site, tasks: CeleryTasks) -> None:
        self._admin, self._tasks = site.admin, tasks
        self._processes: dict[str, Popen[bytes]] = {}
        self.stopped_busy = 0  # processes that were told to end while pods waited for their task
        self.beside = Beside("kubelets", 0.3, self.look)

    def look(self) -> None:
        pods = [each for each in self._admin.items(PODS) if each["metadata"].get("labels", {}).get("app") == APP]
        for pod in pods:
            uid, going = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
            process = self._processes.get(uid)
            if not going and process is None and pod["status"]["phase"] == "Running":
                self._processes[uid] = self._tasks.start_worker(uid)
            elif going and (process is None or process.poll() is not None):
                self._admin.api.ask(PODS.patch(pod["metadata"]["name"], {"metadata": {"finalizers": None}}, NAMESPACE))
            elif going and process is not None and not getattr(process, "told", False):
                process.told = True  # type: ignore[attr-defined]
                self.stopped_busy += 1
                process.terminate()

    @property
    def alive(self) -> int:
        return sum(process.poll() is None for process in self._processes.values())

    def end(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(60)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    server = Redis(tmp_path, PASSWORD)
    server.part.start()
    yield server
    server.part.stop()


def deploy(site: Site) -> None:
    spec = {
        "terminationGracePeriodSeconds": GRACE,
        "containers": [
            {"name": "main", "image": "none", "resources": {"requests": {"cpu": "800m", "memory": "128Mi"}}}
        ],
    }
    metadata = {"labels": {"app": APP}, "finalizers": [KUBELET]}
    body = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": APP}},
        "template": {"metadata": metadata, "spec": spec},
    }
    site.admin.do(DEPLOYMENTS.create({"metadata": {"name": APP}, "spec": body}, NAMESPACE))


def test_every_task_runs_once_while_the_fleet_grows_and_shrinks(site: Site, redis: Redis, tmp_path: Path) -> None:
    tasks = CeleryTasks(redis.address.replace("redis://", f"redis://:{PASSWORD}@") + "/3", tmp_path)
    kubelets, sizes = Kubelets(site, tasks), set[int]()

    def left() -> int:
        return sent - sum(tasks.counted("end").values())

    def follow() -> None:
        """What an autoscaler of pods does; and what the fleet is like meanwhile."""
        site.workloads.scale(APP, max(1, min(MOST_PODS, ceil(left() / 6))))
        sizes.add(len(site.ready()))

    sent = 0
    site.load.cpu(10)
    site.load.memory(30)
    site.begin(POLICY)
    deploy(site)
    pods = Beside("pods", 1.0, follow)
    try:
        with site.schedule.going_on(), kubelets.beside.going_on(), pods.going_on():
            for _ in range(WAVES):
                tasks.send(range(sent, sent + TASKS), TASK_SECONDS)
                sent += TASKS
                until(lambda: left() <= 0, lambda: f"{left()} tasks are left", seconds=240)
                until(lambda: len(site.ready()) == 1, lambda: f"{len(site.ready())} nodes are left", seconds=240)
    finally:
        kubelets.end()
    assert tasks.counted("end") == Counter({str(number): 1 for number in range(sent)}), "every task once, none lost"
    assert tasks.counted("begin") == tasks.counted("end")
    assert max(sizes) >= 3, f"the fleet grew: {sorted(sizes)}"
    assert kubelets.stopped_busy >= 2 * WAVES, "workers were told to end"
    assert [each.error for each in site.functions.made if each.error] == []
