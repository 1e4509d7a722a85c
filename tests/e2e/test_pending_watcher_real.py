"""Seconds from a pod that the real scheduler cannot place to requested instances, by the server's watcher alone.

Alertmanager is stopped and the schedule is off, so nothing else starts a run. The timings of the watcher and of the
policy are those that are shipped. Of the policy only the limits differ, and `steps.pending: packing`, because with
`steps` a second purchase waits for the cooldown of five minutes. The site hands a message to the functions with up to
half a second of delay, as SNS and Lambda would; the functions are warm and have a whole CPU, if nothing else needs it.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from e2e.site.site import Site
from e2e.site.waiting import crowded, until
from e2e.site.watcher import watching

WEB = "web"
SAMPLES = 10 if os.environ.get("NODEFLEET_E2E_FULL") else 3
SHIPPED = {"limits": {"min": 2, "max": 4 + 2 * SAMPLES}, "steps": {"pending": "packing"}}
MEDIAN, WORST = 5.0, 10.0  # seconds
BOOTS_IN = 15.0  # seconds, where pods wait for a node that boots


@pytest.fixture
def watched(site: Site, tmp_path: Path) -> Iterator[Site]:
    site.load.memory(40)
    site.load.cpu(50)
    site.begin(SHIPPED)
    site.workloads.deploy(WEB, 2)
    until(lambda: len(site.workloads.running(WEB)) == 2, "each worker has its pod")
    site.monitoring.alertmanager.part.stop()
    with watching(site, tmp_path):
        yield site
    site.monitoring.alertmanager.part.start()


def seconds_to_request(site: Site, replicas: int) -> tuple[float, bool]:
    """And whether the computer was too busy for the figure to mean anything."""
    before, waiting = len(site.hardware.instances()), len(site.workloads.unschedulable(WEB))
    site.workloads.scale(WEB, replicas)
    until(lambda: len(site.workloads.unschedulable(WEB)) > waiting, "a pod finds no node", every=0.02)
    began, crowd = time.monotonic(), crowded()
    until(lambda: len(site.hardware.instances()) > before, "an instance is requested", every=0.05)
    took, crowd = time.monotonic() - began, crowded() - crowd
    return took, crowd > took / 2


def rest(site: Site, replicas: int) -> None:
    until(lambda: len(site.workloads.running(WEB)) == replicas, "all pods run")
    until(lambda: not site.functions.busy(), "the run has ended")


def judge(figures: list[tuple[float, bool]], what: str) -> None:
    times = [took for took, _ in figures]
    each = ", ".join(f"{took:.1f}{' (busy)' if busy else ''}" for took, busy in figures)
    load = ", ".join(f"{load:.0f}" for load in os.getloadavg())
    sys.stderr.write(f"\n{what}: {each} s, median {median(times):.1f} s; load {load}\n")
    if not any(busy for _, busy in figures):
        assert median(times) <= MEDIAN
        assert max(times) <= WORST


def test_instances_are_requested_within_seconds_of_a_pending_pod(watched: Site) -> None:
    figures = []
    for replicas in range(3, 3 + SAMPLES):
        rest(watched, replicas - 1)
        figures.append(seconds_to_request(watched, replicas))
    judge(figures, "from quiet")


def test_and_as_quickly_while_another_pod_waits_for_ever(watched: Site) -> None:
    watched.workloads.deploy("huge", 1, cpu="64")
    until(lambda: watched.workloads.unschedulable("huge"), "a pod that nothing can hold waits")
    figures = []
    for replicas in range(3, 3 + SAMPLES):
        rest(watched, replicas - 1)
        figures.append(seconds_to_request(watched, replicas))
    judge(figures, "while another pod waits for ever")


def test_and_as_quickly_while_others_wait_for_a_node_that_boots(watched: Site) -> None:
    watched.hardware.boots_in = BOOTS_IN
    figures = []
    for replicas in range(3, 3 + 2 * SAMPLES, 2):
        rest(watched, replicas - 1)
        seconds_to_request(watched, replicas)
        figures.append(seconds_to_request(watched, replicas + 1))
    judge(figures, "while another pod's node boots")


def test_a_restart_of_the_api_server_does_not_end_the_watch(watched: Site) -> None:
    server = watched.parts["apiserver"]
    server.stop()
    server.start()
    until(lambda: len(watched.ready()) == 2, "the workers are ready again")
    took, _ = seconds_to_request(watched, 3)
    sys.stderr.write(f"\nafter a restart of the API server: {took:.1f} s\n")
