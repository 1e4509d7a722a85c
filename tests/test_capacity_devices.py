"""GPU pools from zero: what the catalogue promises, and what a device plugin offers some time later."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.capacity import awaited_devices, lacks_devices
from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import NOTHING, InstanceType, Node, Resources
from nodefleet.model.state import Memory
from nodefleet.phases import derive_workers
from nodefleet.policy.pool import Health, Limits, MarketMix, Steps
from nodefleet.scheduling.templates import ARCH_LABEL
from support.builders import GIB, NOON, after, instance, look, node, only, pod, templates, waiting
from support.decisions import KNOWN, alerts, bought, with_pool
from support.wording import assert_wording

GPU = "nvidia.com/gpu"
PLAIN = Resources(cpu=4000, memory=15 * GIB, pods=58)
WITH_GPU = replace(PLAIN, extended={GPU: 1})
CATALOG = (InstanceType(name="g4dn.xlarge", resources=WITH_GPU, architecture="amd64"),)
ONE = Resources(cpu=1000, memory=GIB, extended={GPU: 1})
LIMIT = Health().device_limit


def policy(**changes):
    return with_pool(
        limits=Limits(min=0, max=8),
        steps=Steps(pending="packing"),
        market=MarketMix(types=("g4dn.xlarge",)),
        **changes,
    )


POLICY = policy()


def training(number=1):
    return [waiting(f"train-{n}", requests=ONE) for n in range(number)]


def fleet(*ready_for, offered=None, pods=(), at=NOON):
    """GPU nodes, each ready for so many seconds; `offered`: what their plugins offer by now."""
    numbers = range(len(ready_for))
    nodes = [
        node(n, allocatable=replace(PLAIN, extended=offered or {}), ready_changed_at=at - timedelta(seconds=age))
        for n, age in zip(numbers, ready_for, strict=True)
    ]
    instances = [instance(n, type="g4dn.xlarge", launched_at=at - timedelta(seconds=600)) for n in numbers]
    return look(0, instances=instances, nodes=nodes, pods=pods, catalog=CATALOG, at=at)


def test_a_pod_with_a_gpu_grows_a_pool_from_zero():
    decision = decide(look(0, pods=training(2), catalog=CATALOG), KNOWN, POLICY)
    assert (only(decision).action, bought(decision)) == (Action.GROW, 2)


def test_a_type_without_gpus_still_holds_no_such_pod():
    plain = (InstanceType(name="g4dn.xlarge", resources=PLAIN),)
    decision = decide(look(0, pods=training(), catalog=plain), KNOWN, POLICY)
    assert bought(decision) == 0


def test_a_ready_node_without_its_gpu_is_still_booting_for_these_pods():
    """They lose no vote, buy nothing more, and keep the node."""
    decision = decide(fleet(30, pods=training()), KNOWN, POLICY)
    assert (only(decision).action, bought(decision), alerts(decision)) == (Action.HOLD, 0, [])
    assert decision.memory.pool("default").pending == ()
    assert_wording(only(decision).reason)


def test_more_pods_than_awaited_gpus_buy_the_rest():
    assert bought(decide(fleet(30, pods=training(3)), KNOWN, POLICY)) == 2


def test_a_plugin_that_never_comes_mutes_the_pods_instead_of_buying_for_ever():
    first = decide(look(0, pods=training(), catalog=CATALOG, at=NOON), KNOWN, POLICY)
    late = NOON + timedelta(seconds=100) + LIMIT
    seen = fleet(LIMIT.total_seconds(), pods=training(), at=late)
    decision = decide(seen, first.memory, POLICY)
    assert (bought(decision), alerts(decision)) == (0, [AlertKind.PODS_REFUSED])
    told = next(step.text for step in only(decision).plan if getattr(step, "alert", None) is AlertKind.PODS_REFUSED)
    assert_wording(told)
    gone = look(0, pods=training(), catalog=CATALOG, at=late + timedelta(seconds=120))
    left = Memory(pools={"default": replace(decision.memory.pool("default"), members=())})
    assert bought(decide(gone, left, POLICY)) == 0, "also when the useless node has been removed"


def test_a_new_node_is_expected_to_have_what_its_type_has_though_another_lost_its_plugin():
    (template, *_) = templates(POLICY.pools[0], fleet(LIMIT.total_seconds() + 1))
    assert template.free.extended == {GPU: 1}


def test_what_is_awaited():
    seen = fleet(0, LIMIT.total_seconds() - 1, LIMIT.total_seconds())
    assert awaited_devices(seen, POLICY, derive_workers(seen, POLICY)) == {"w000": WITH_GPU, "w001": WITH_GPU}


@pytest.mark.parametrize(
    "seen",
    [
        fleet(0, offered={GPU: 1}),
        replace(fleet(0), catalog=()),
        replace(fleet(0), instances=(replace(instance(0), type="g4dn.xlarge", pool="unknown"),)),
        look(1, catalog=CATALOG),
        look(0, instances=[instance(0, type="g4dn.xlarge", launched_at=after(-10))], catalog=CATALOG),
    ],
    ids=["offered", "no catalogue", "no pool of ours", "no GPU type", "booting"],
)
def test_what_is_not_awaited(seen):
    assert awaited_devices(seen, POLICY, derive_workers(seen, POLICY)) == {}


def test_a_plugin_that_offers_none_is_not_up():
    assert replace(PLAIN, extended={GPU: 0, "a/b": 2}).with_devices(WITH_GPU).extended == {GPU: 1, "a/b": 2}
    assert WITH_GPU.with_devices(WITH_GPU) is WITH_GPU
    assert PLAIN.with_devices(NOTHING) is PLAIN


def test_which_device_a_node_lacks():
    old = Node(name="w", instance="i", ready_changed_at=None, allocatable=PLAIN)
    pool = POLICY.pools[0]
    assert_wording(lacks_devices(pod("a", requests=ONE), old, pool, NOON))
    assert lacks_devices(pod("a", requests=ONE), replace(old, allocatable=WITH_GPU), pool, NOON) is None
    assert lacks_devices(pod("a"), old, pool, NOON) is None
    assert lacks_devices(pod("a", requests=ONE), replace(old, ready_changed_at=NOON), pool, NOON) is None


@pytest.mark.parametrize(("known", "label"), [("arm64", "arm64"), ("", "amd64")])
def test_the_architecture_is_the_catalogues(known, label):
    catalog = (replace(CATALOG[0], architecture=known),)
    (template, *_) = templates(POLICY.pools[0], look(0, pods=(), catalog=catalog))
    assert template.node.labels[ARCH_LABEL] == label
