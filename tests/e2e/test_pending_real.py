"""Deployments that need more than one purchase, with real ReplicaSets, the real scheduler and the shipped ratio of the
growth cooldown to the join limit (1 : 1): every pod gets a node, whichever of them the scheduler takes first."""

from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import until
from e2e.site.workloads import NAMESPACE
from nodefleet.adapters.kubernetes.resources import Resource
from nodefleet.model.decision import Action

SHOP = "shop"
# As shipped, cooldown.up equals health.join_limit; long enough here for an instance that joins on a busy computer: one
# that comes too late is replaced, and that is an instance more.
RATIO = {"cooldown": {"up": 40, "down": 80}, "health": {"join_limit": 40}}
UNHURRIED = {"cooldown": {"up": 120, "down": 240}, "health": {"join_limit": 120}}  # packing waits for no cooldown


def begun(site: Site, **changes: Any) -> None:
    site.load.memory(40)
    site.load.cpu(50)
    site.begin(compressed(**{"limits": {"min": 2, "max": 8}, **RATIO, **changes}))
    site.workloads.deploy(SHOP, 4, cpu="700m")  # two on a node
    until(lambda: len(site.workloads.running(SHOP)) == 4, "two pods run on each worker")


@pytest.mark.parametrize("replicas", [12, 14])
def test_pods_in_steps_all_run_in_the_end(site: Site, replicas: int) -> None:
    begun(site)
    with site.schedule.going_on():
        site.workloads.scale(SHOP, replicas)
        until(lambda: len(site.workloads.running(SHOP)) == replicas, f"{replicas} pods run", seconds=240)
    assert len(site.hardware.instances()) == replicas // 2
    assert not [said for said in site.told() if "nodes do not help" in said]


def test_pods_by_packing_get_all_their_nodes_at_once(site: Site) -> None:
    begun(site, steps={"pending": "packing"}, **UNHURRIED)
    with site.schedule.going_on():
        then = datetime.now(UTC)
        site.workloads.scale(SHOP, 14)
        until(lambda: len(site.workloads.running(SHOP)) == 14, "14 pods run")
        grown = site.decided(lambda it: it.action is Action.GROW, "it has grown", since=then)
    reasons = [each.decision.pools[0].reason for each in site.decisions()]
    assert len(site.hardware.instances()) == 7, reasons
    assert grown.target <= 7


CLAIMS = Resource(group="resource.k8s.io", plural="resourceclaims")


def test_a_pod_that_the_scheduler_refuses_is_reported_and_holds_nothing(site: Site) -> None:
    """Its claim asks for a device of a class that does not exist; the nodes have room for it."""
    device = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "there-is-none"}}]}
    site.admin.do(CLAIMS.create({"metadata": {"name": "gpu"}, "spec": {"devices": device}}, NAMESPACE))
    try:
        begun(site, limits={"min": 3, "max": 8}, benefit={"refused_after": 20})
        claim = [{"name": "gpu", "resourceClaimName": "gpu"}]
        site.workloads.deploy("train", 1, cpu="100m", resourceClaims=claim)
        until(lambda: site.workloads.unschedulable("train"), "the scheduler refuses it")
        with site.schedule.going_on():
            until(lambda: any("there-is-none" in said for said in site.told()), "operators are told why")
    finally:
        site.admin.do(CLAIMS.delete("gpu", {}, NAMESPACE))
    assert len(site.hardware.instances()) == 3
