"""Deployments that need more than one purchase, with real ReplicaSets, the real scheduler and the shipped ratio of the
growth cooldown to the join limit (1 : 1): every pod gets a node, whichever of them the scheduler takes first."""

from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import until
from nodefleet.domain.decision import Action

SHOP = "shop"
# As shipped, cooldown.up equals health.join_limit; long enough here for a machine that joins on a busy computer.
RATIO = {"cooldown": {"up": 25, "down": 50}, "health": {"join_limit": 25}}


def begun(site: Site, **changes: Any) -> None:
    site.load.memory(40)
    site.load.cpu(50)
    site.begin(compressed(limits={"min": 2, "max": 8}, **RATIO, **changes))
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
    begun(site, steps={"pending": "packing"})
    with site.schedule.going_on():
        then = datetime.now(UTC)
        site.workloads.scale(SHOP, 14)
        until(lambda: len(site.workloads.running(SHOP)) == 14, "14 pods run", seconds=90)
        grown = site.decided(lambda it: it.action is Action.GROW, "it has grown", since=then)
    assert len(site.hardware.instances()) == 7
    assert grown.target <= 7
