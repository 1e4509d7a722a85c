"""Controllers make pods, and make them again; the scheduler finds them a place, or says since when there is none."""

import re
from dataclasses import replace

import pytest

from nodefleet.model.inventory import Resources, Taint
from nodefleet.model.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    HostPort,
    NodeTerm,
    PodPhase,
    PodTerm,
    Requirement,
    Rules,
    Selector,
    Spread,
    Toleration,
    Volume,
    VolumeKind,
)
from nodefleet_tools.sim import workloads
from nodefleet_tools.sim.kube import KubeSettings, Order, Traits
from nodefleet_tools.sim.workloads import Kind
from nodefleet_tools.sim.world import NOON, ZONES, World
from support.wording import assert_wording

ALIKE = Selector(labels={"app": "shop"})


def placed(world, app="shop"):
    """Node names of its pods, sorted; None for one that waits."""
    return sorted(str(pod.node) for pod in world.kube.pods.values() if pod.labels["app"] == app)


def settled(workers=2, **shop):
    world = World()
    world.add_workers(workers)
    world.deploy("shop", **shop)
    world.settle()
    return world


def test_replicas_go_where_there_is_most_room():
    world = settled(workers=2, replicas=4)
    names = [node.name for node in world.ready_nodes()]
    assert placed(world) == sorted(names * 2)
    assert {(pod.phase, pod.ready) for pod in world.kube.pods.values()} == {(PodPhase.RUNNING, True)}


def test_a_pod_without_a_place_waits_and_gets_one_when_there_is_room():
    world = settled(workers=1, replicas=3, cpu=900)
    (waits,) = world.waiting_pods()
    since = waits.unschedulable_since
    assert since < NOON
    world.advance(100)
    assert world.waiting_pods()[0].unschedulable_since == since
    world.operator.launch(zone=ZONES[0])
    world.advance(150)
    assert world.waiting_pods() == []
    assert world.kube.pods[waits.key].unschedulable_since is None


def test_a_cordoned_node_takes_nothing_new_and_keeps_what_it_has():
    world = settled(workers=2, replicas=2)
    (first, other) = [node.name for node in world.ready_nodes()]
    world.operator.cordon(first)
    world.controllers.scale(world.controllers.named("shop"), 6)
    world.advance(30)
    assert placed(world) == sorted([first] + [other] * 5)
    world.operator.uncordon(first)
    world.controllers.scale(world.controllers.named("shop"), 8)
    world.advance(30)
    assert placed(world).count(first) == 3


def test_scaling_down_takes_waiting_pods_first():
    world = settled(workers=1, replicas=4, cpu=900)
    assert len(world.waiting_pods()) == 2
    world.controllers.scale(world.controllers.named("shop"), 2)
    world.advance(10)
    assert (len(world.kube.pods), world.waiting_pods()) == (2, [])
    assert {pod.owner.replicas for pod in world.kube.pods.values()} == {2}


@pytest.mark.parametrize(
    ("rules", "most"),
    [
        (Rules(host_ports=(HostPort(port=80),)), 3),
        (Rules(anti_affinity=(PodTerm(topology=HOST_LABEL, selector=ALIKE),)), 3),
        (Rules(anti_affinity=(PodTerm(topology=ZONE_LABEL, selector=ALIKE),)), 2),
        (Rules(spread=(Spread(topology=ZONE_LABEL, selector=ALIKE),), node_selector={"disk": "ssd"}), 0),
        (Rules(node_selector={ZONE_LABEL: ZONES[1]}), 5),
        (Rules(node_terms=(NodeTerm(labels=(Requirement(key=ZONE_LABEL, values=("nowhere",)),)),)), 0),
    ],
)
def test_the_scheduler_honours_what_packing_honours(rules, most):
    world = settled(workers=3, replicas=5, rules=rules)
    assert len([name for name in placed(world) if name != "None"]) == most


def test_taints_keep_pods_off_that_do_not_tolerate_them():
    world = World(policy={"pools": [{"name": "gpu", "taints": [{"key": "gpu"}]}]})
    world.add_workers(1, pool="gpu")
    world.deploy("shop")
    world.deploy("train", rules=Rules(tolerations=(Toleration(key="gpu", operator="Exists"),)))
    world.settle()
    assert world.ready_nodes("gpu")[0].taints == (Taint(key="gpu"),)
    assert [pod.labels["app"] for pod in world.waiting_pods()] == ["shop"]


def test_a_stateful_set_comes_up_in_order_and_waits_until_the_old_pod_is_gone():
    world = World()
    world.add_workers(2)
    world.deploy("shop", kind=Kind.STATEFUL_SET, replicas=3, traits=Traits(starts_in=20, stops_in=15))
    world.advance(25)
    assert sorted(world.kube.pods) == ["default/shop-0", "default/shop-1"]
    world.settle()
    assert sorted(world.kube.pods) == ["default/shop-0", "default/shop-1", "default/shop-2"]
    old = world.kube.pods["default/shop-1"]
    world.operator.delete_pod(old.key)
    world.advance(10)
    assert world.kube.pods[old.key].uid == old.uid
    assert world.kube.pods[old.key].deleted_at == NOON
    world.advance(10)
    assert world.kube.pods[old.key].uid != old.uid


def test_a_deployment_replaces_a_pod_as_soon_as_it_is_asked_to_go():
    world = settled(replicas=2, traits=Traits(stops_in=25))
    world.operator.delete_pod("default/shop-0")
    world.advance(8)
    assert sorted(world.kube.pods) == ["default/shop-0", "default/shop-1", "default/shop-2"]
    assert world.kube.pods["default/shop-2"].ready
    world.advance(20)
    assert sorted(world.kube.pods) == ["default/shop-1", "default/shop-2"]


@pytest.mark.parametrize(
    ("volume", "held_to"),
    [(Volume(kind=VolumeKind.LOCAL, name="data"), "node"), (Volume(kind=VolumeKind.CLAIM, name="data"), "zone")],
)
def test_a_claim_stays_where_its_first_pod_ran(volume, held_to):
    world = settled(workers=3, kind=Kind.STATEFUL_SET, replicas=1, volumes=(volume,))
    pod = world.kube.pods["default/shop-0"]
    home = world.kube.nodes[pod.node]
    world.operator.cordon(home.name)
    world.operator.delete_pod(pod.key)
    world.advance(60)
    again = world.kube.pods["default/shop-0"]
    same_zone = [node for node in world.ready_nodes() if node.labels[ZONE_LABEL] == home.labels[ZONE_LABEL]]
    assert again.volumes == pod.volumes
    if held_to == "node" or not same_zone:
        assert again.unschedulable_since
    else:
        assert world.kube.nodes[again.node].labels[ZONE_LABEL] == home.labels[ZONE_LABEL]


def test_a_daemonset_has_one_pod_on_every_node_that_it_may_run_on():
    world = World()
    world.add_workers(2)
    world.deploy("agent", kind=Kind.DAEMON_SET)
    world.deploy("everywhere", kind=Kind.DAEMON_SET, rules=Rules(tolerations=(Toleration(operator="Exists"),)))
    world.settle()
    names = sorted(node.name for node in world.ready_nodes())
    assert placed(world, "agent") == names
    assert placed(world, "everywhere") == sorted(world.kube.nodes)
    machine = world.operator.launch(zone=ZONES[0])
    world.advance(150)
    assert placed(world, "agent") == sorted([*names, world.node_of(machine).name])


def test_a_job_runs_until_enough_pods_have_succeeded():
    world = World()
    world.add_workers(1)
    job = world.deploy("sums", kind=Kind.JOB, replicas=2, traits=Traits(runs_for=60))
    world.advance(20)
    first = min(world.kube.pods)
    world.operator.delete_pod(first)
    world.advance(100)
    assert [pod.phase for pod in world.kube.pods.values()] == [PodPhase.SUCCEEDED] * 2
    assert len(job.done) == 2
    world.advance(1000)
    assert not world.kube.pods


def test_a_workload_that_is_removed_takes_its_pods_with_it():
    world = settled(replicas=2)
    world.controllers.remove(world.controllers.named("shop"))
    world.advance(10)
    assert not world.kube.pods


def test_a_pod_that_a_finalizer_holds_stays_terminating():
    world = settled(replicas=1, traits=Traits(stuck=True))
    world.operator.delete_pod("default/shop-0")
    world.advance(600)
    assert world.kube.pods["default/shop-0"].deleted_at == NOON


def test_a_pod_asks_for_more_than_there_is_of_one_resource():
    world = settled(requests=Resources(extended={"nvidia.com/gpu": 1}))
    assert len(world.waiting_pods()) == 1
    (name, *_) = [node.name for node in world.ready_nodes()]
    node = world.kube.nodes[name]
    world.kube.put_node(replace(node, allocatable=replace(node.allocatable, extended={"nvidia.com/gpu": 1})))
    world.advance(10)
    assert world.waiting_pods() == []


# ── what the scheduler knows and packing does not, names, and the order of the queue ──────────────────────────────────


def test_the_scheduler_refuses_a_pod_for_a_reason_that_nobody_models_until_it_is_gone():
    world = World()
    world.add_workers(2)
    why = 'storageclass.storage.k8s.io "fast" not found'
    shop = world.deploy("shop", replicas=3, traits=Traits(refused=why))
    world.settle()
    assert [pod.unschedulable_message for pod in world.waiting_pods()] == [why] * 3
    shop.traits.refused = ""
    world.kube.changed()
    world.advance(5)
    assert world.waiting_pods() == []
    assert {pod.unschedulable_message for pod in world.kube.pods.values()} == {""}


def test_a_node_may_take_no_more_pods_of_a_kind_than_its_attach_limit():
    world = settled(workers=2, replicas=5, traits=Traits(most_on_node=2))
    (first, other) = [node.name for node in world.ready_nodes()]
    assert placed(world) == sorted([first, first, other, other, "None"])
    (waits,) = world.waiting_pods()
    assert_wording(waits.unschedulable_message)


def test_a_full_cluster_says_so():
    world = settled(workers=1, replicas=3, cpu=900)
    (waits,) = world.waiting_pods()
    assert_wording(waits.unschedulable_message)


def named_at_random(kind=Kind.DEPLOYMENT, seed=0):
    world = World(seed=seed, kubernetes=KubeSettings(random_names=True))
    world.add_workers(2)
    world.deploy("shop", kind=kind, replicas=4)
    world.settle()
    return sorted(pod.name for pod in world.kube.pods.values())


def test_pods_are_named_as_a_replica_set_names_them():
    names = named_at_random()
    prefix = names[0].rsplit("-", 1)[0]
    assert all(re.fullmatch(r"shop-[b-z2-9]{9}-[b-z2-9]{5}", name) for name in names)
    assert {name.rsplit("-", 1)[0] for name in names} == {prefix}  # one template, one hash
    assert (len(set(names)), names) == (4, named_at_random())  # and the same again for the same seed
    assert names != named_at_random(seed=1)
    assert all(re.fullmatch(r"shop-[b-z2-9]{5}", name) for name in named_at_random(Kind.JOB))
    assert named_at_random(Kind.STATEFUL_SET) == [f"shop-{ordinal}" for ordinal in range(4)]


def test_generated_names_do_not_collide(monkeypatch):
    monkeypatch.setattr(workloads, "_LETTERS", "b2")  # 32 names
    world = World(kubernetes=KubeSettings(random_names=True))
    world.add_workers(2)
    world.deploy("jobs", kind=Kind.JOB, replicas=30, cpu=1, memory=1)
    world.settle()
    assert len(world.kube.pods) == 30


def order_of(order, seed=0):
    """The workloads whose pods got the two places of a new node."""
    world = World(seed=seed, kubernetes=KubeSettings(scheduling_order=order))
    world.add_workers(1)
    world.deploy("old", replicas=2, cpu=900)
    world.settle()
    for number in range(4):
        world.deploy(f"shop-{number}", cpu=900)
        world.advance(10)
    world.deploy("vip", cpu=900, priority=5)
    world.advance(10)
    world.operator.launch(zone=ZONES[0])
    world.advance(150)
    return {pod.labels["app"] for pod in world.kube.pods.values() if pod.node} - {"old"}


def test_pods_get_their_places_by_priority_and_the_time_they_have_waited():
    assert order_of(Order.QUEUE) == {"vip", "shop-0"}


def test_the_order_of_pods_of_one_priority_can_be_drawn():
    found = [order_of(Order.RANDOM, seed) for seed in range(6)]
    assert all(len(got) == 2 and "vip" in got for got in found)
    assert len(set(map(frozenset, found))) > 1
