"""Seconds from a pod that the real scheduler cannot place to requested instances, by the server's watcher alone.

Alertmanager is stopped and the schedule is off, so nothing else starts a run. The site hands a message to the functions
with up to half a second of delay, as SNS and Lambda would.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import crowded, until
from e2e.site.watcher import watching

WEB = "web"
PACKING = {
    "limits": {"min": 2, "max": 9},
    "steps": {"pending": "packing"},
    "cooldown": {"up": 120, "down": 240},
    "health": {"join_limit": 120},
}
MEDIAN, WORST = 5.0, 10.0  # seconds


@pytest.fixture
def watched(site: Site, tmp_path: Path) -> Iterator[Site]:
    site.load.memory(40)
    site.load.cpu(50)
    site.begin(compressed(**PACKING))
    site.workloads.deploy(WEB, 2)
    until(lambda: len(site.workloads.running(WEB)) == 2, "each worker has its pod")
    site.monitoring.alertmanager.part.stop()
    with watching(site, tmp_path):
        yield site
    site.monitoring.alertmanager.part.start()


def seconds_to_request(site: Site, replicas: int) -> tuple[float, bool]:
    """And whether the computer was too busy for the figure to mean anything."""
    before = len(site.hardware.instances())
    site.workloads.scale(WEB, replicas)
    until(lambda: site.workloads.unschedulable(WEB), "a pod finds no node", every=0.02)
    began, crowd = time.monotonic(), crowded()
    until(lambda: len(site.hardware.instances()) > before, "an instance is requested", every=0.05)
    took, crowd = time.monotonic() - began, crowded() - crowd
    until(lambda: len(site.workloads.running(WEB)) == replicas, "all pods run")
    return took, crowd > took / 2


def judge(figures: list[tuple[float, bool]], what: str) -> None:
    times = [took for took, _ in figures]
    sys.stderr.write(f"\n{what}: {', '.join(f'{took:.1f}' for took in times)} s, median {median(times):.1f} s\n")
    if not any(busy for _, busy in figures):
        assert median(times) <= MEDIAN
        assert max(times) <= WORST


def test_instances_are_requested_within_seconds_of_a_pending_pod(watched: Site) -> None:
    judge([seconds_to_request(watched, replicas) for replicas in (3, 4, 5)], "from quiet")


def test_and_as_quickly_while_another_pod_waits_for_ever(watched: Site) -> None:
    watched.workloads.deploy("huge", 1, cpu="64")
    until(lambda: watched.workloads.unschedulable("huge"), "a pod that nothing can hold waits")
    judge([seconds_to_request(watched, replicas) for replicas in (3, 4, 5)], "while another pod waits")


def test_a_restart_of_the_api_server_does_not_end_the_watch(watched: Site) -> None:
    server = watched.parts["apiserver"]
    server.stop()
    server.start()
    until(lambda: len(watched.ready()) == 2, "the workers are ready again")
    took, _ = seconds_to_request(watched, 3)
    sys.stderr.write(f"\nafter a restart of the API server: {took:.1f} s\n")
