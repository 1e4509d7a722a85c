"""Pods that find no node do not wait for the schedule: Prometheus sees them, Alertmanager tells SNS, a run begins."""

import json
import time

import yaml

from e2e.site.monitoring import QUICK
from e2e.site.site import Site
from e2e.site.waiting import crowded, until
from nodefleet_infra import manifests

WITHIN = 30.0  # seconds from unschedulable to requested


def test_unschedulable_pods_start_an_urgent_run_without_the_schedule(site: Site) -> None:
    site.begin()
    until(lambda: not site.monitoring.alerts(), "no alert is left of anything before")
    runs = len(site.functions.made)
    site.workloads.deploy("web", 3)
    until(lambda: len(site.workloads.unschedulable("web")) == 1, "a pod finds no node", every=0.05)
    began, crowd = time.monotonic(), crowded()

    until(lambda: len(site.hardware.instances()) > 2, "an instance is requested", every=0.1)
    took, crowd = time.monotonic() - began, crowded() - crowd

    first = site.functions.made[runs]
    assert first.function == "reconcile"
    (record,) = first.event["Records"]
    assert record["EventSource"] == "aws:sns"
    assert json.loads(record["Sns"]["Message"])["alert"] == "UnschedulablePod"
    assert record["Sns"]["MessageAttributes"]["cluster"]["Value"] == site.stack.cluster
    if crowd < took / 2:  # else the computer was too busy to tell
        assert took + slower_as_shipped(site) < WITHIN
    until(lambda: len(site.workloads.running("web")) == 3, "all pods run")


def slower_as_shipped(site: Site) -> float:
    """What the shipped intervals may add to those of this site."""
    config = yaml.safe_load(manifests.configuration("prometheus", site.stack.manifests_site))
    (group,) = yaml.safe_load(manifests.configuration("rules", site.stack.manifests_site))["groups"]
    (job,) = [each for each in config["scrape_configs"] if each["job_name"] == "kube-state-metrics"]
    scrape = job.get("scrape_interval", config["global"]["scrape_interval"])
    return _seconds(scrape) + _seconds(group["interval"]) - 2 * _seconds(QUICK)


def _seconds(written: str) -> float:
    assert written.endswith("s")
    return float(written.removesuffix("s"))
