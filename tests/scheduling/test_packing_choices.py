"""Which of the nodes that could be bought would hold a pod."""

from dataclasses import replace

import pytest

from nodefleet.model.inventory import Resources, Taint
from nodefleet.model.snapshot import LaunchTarget
from nodefleet.model.workload import TYPE_LABEL, ZONE_LABEL, Rules, Toleration, Volume, VolumeKind
from nodefleet.policy.pool import MarketMix, Pool
from nodefleet.scheduling.templates import PodCompatibility, template_source
from support.builders import CATALOG, TARGET, look, waiting

GENERAL = Pool(name="general", market=MarketMix(types=("t3.small", "t2.small")))
BATCH = Pool(name="batch", market=MarketMix(types=("t3.small",)), taints=(Taint(key="batch"),))
TOLERANT = Rules(tolerations=(Toleration(key="batch", operator="Exists"),))


@pytest.fixture
def choices():
    """Two types in two zones of one pool, and one of each in the other."""
    targets = (replace(TARGET, pool="general"), LaunchTarget(pool="batch", subnets={"a": "subnet-a"}))
    known = template_source(look(0, pods=[], targets=targets, catalog=CATALOG))
    return PodCompatibility({pool.name: known.templates(pool) for pool in (GENERAL, BATCH)})


@pytest.mark.parametrize(
    ("changes", "pools", "number"),
    [
        ({}, ("general",), 4),
        ({"rules": TOLERANT}, ("general", "batch"), 5),
        ({"rules": Rules(node_selector={ZONE_LABEL: "b"})}, ("general",), 2),
        ({"rules": Rules(node_selector={TYPE_LABEL: "t2.small", ZONE_LABEL: "a"})}, ("general",), 1),
        ({"volumes": (Volume(kind=VolumeKind.CLAIM, zones=("a",)),)}, ("general",), 2),
        ({"volumes": (Volume(kind=VolumeKind.LOCAL, node="w000"),)}, (), 0),
        ({"requests": Resources(cpu=9000)}, (), 0),
        ({"requests": Resources(extended={"gpu": 1})}, (), 0),
    ],
)
def test_who_could_be_held_by_what(choices, changes, pools, number):
    asked = waiting("web-1", **changes)
    assert (choices.pools(asked), choices.number(asked)) == (pools, number)


def test_pods_that_differ_in_what_they_ask_for_are_not_taken_for_each_other(choices):
    sizes = [Resources(cpu=500), Resources(cpu=9000), Resources(memory=9 << 40), Resources(extended={"gpu": 1})]
    asked = [waiting("web-1", requests=size) for size in sizes]
    asked += [waiting("web-1", volumes=(Volume(kind=VolumeKind.LOCAL, node=name),)) for name in (None, "w000")]
    asked += [waiting("web-1", volumes=(Volume(kind=VolumeKind.CLAIM, zones=zones),)) for zones in ((), ("a",))]
    assert [choices.number(pod) for pod in asked] == [4, 0, 0, 0, 4, 0, 4, 2]
