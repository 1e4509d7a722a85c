"""Nodes join late or never, fall silent with their instance, and stay until somebody deletes them."""

from nodefleet.model.workload import PodPhase
from nodefleet_tools.sim.kube import KubeSettings
from nodefleet_tools.sim.workloads import Kind
from nodefleet_tools.sim.world import ZONES, World


def joined(world, machine, within):
    """Seconds until its node is ready; none if it is not within that time."""
    for second in range(within):
        node = world.kube.node_of(machine.id)
        if node and node.ready:
            return second
        world.advance(1)
    return None


def spread(seed):
    """When each of twenty instances became a ready node."""
    world = World(seed=seed)
    machines = [world.operator.launch(zone=ZONES[0]) for _ in range(20)]
    world.advance(200)
    return [world.node_of(machine).ready_changed_at for machine in machines]


def test_a_machine_is_a_ready_node_after_a_while_and_first_registers_unready():
    world = World()
    machine = world.operator.launch(zone=ZONES[0])
    took = joined(world, machine, 200)
    assert 40 <= took <= 110
    node = world.node_of(machine)
    assert node.created_at < node.ready_changed_at
    assert (node.pool, node.instance, node.taints) == ("default", machine.id, ())


def test_joining_goes_by_the_seed():
    assert spread(1) == spread(1)
    assert spread(1) != spread(2)
    assert len(set(spread(1))) > 10


def test_some_machines_never_join_and_some_join_late():
    world = World(kubernetes=KubeSettings(never_joins=1.0))
    assert joined(world, world.operator.launch(zone=ZONES[0]), 1000) is None
    world = World(kubernetes=KubeSettings(joins_late=1.0))
    assert joined(world, world.operator.launch(zone=ZONES[0]), 1000) > 300


def test_a_machine_that_ends_before_it_joins_never_does():
    world = World()
    machine = world.operator.launch(zone=ZONES[0])
    world.advance(30)
    world.operator.terminate(machine.id)
    assert joined(world, machine, 200) is None


def test_a_dead_node_is_unready_after_40_seconds_and_its_pods_are_made_again_later():
    world = World()
    dead, alive = world.add_workers(2)
    world.deploy("shop", replicas=4)
    world.deploy("db", kind=Kind.STATEFUL_SET, replicas=2)
    world.deploy("agent", kind=Kind.DAEMON_SET)
    world.settle()
    name = world.node_of(dead).name
    world.operator.terminate(dead.id)
    world.advance(39)
    assert world.node_of(dead).ready
    world.advance(2)
    assert not world.node_of(dead).ready
    on_it = world.kube.pods_on(name)
    assert {pod.phase for pod in on_it} == {PodPhase.RUNNING}
    assert not any(pod.ready for pod in on_it)
    assert len([pod for pod in world.kube.pods.values() if pod.ready]) == 3 + 1  # beside what died: nothing new yet
    world.advance(310)
    elsewhere = world.kube.pods_on(world.node_of(alive).name)
    apps = sorted(pod.labels["app"] for pod in elsewhere if pod.ready)
    assert apps == ["agent", "db", "shop", "shop", "shop", "shop"]
    assert all(pod.deleted_at for pod in world.kube.pods_on(name) if not pod.is_daemon)  # nobody ends them
    world.advance(3600)
    assert name in world.kube.nodes

    world.operator.delete_node(name)
    world.advance(60)
    assert world.kube.pods_on(name) == []
    assert sorted(pod.name for pod in world.kube.pods.values() if pod.labels["app"] == "db") == ["db-0", "db-1"]


def test_a_node_that_falls_silent_for_a_moment_is_not_even_noticed():
    world = World()
    (worker,) = world.add_workers(1)
    world.settle()
    since = world.node_of(worker).ready_changed_at
    world.nodes.silence(world.node_of(worker).name, for_seconds=30)
    world.advance(31)
    world.nodes.silence(world.node_of(worker).name, for_seconds=30)
    world.advance(300)
    assert world.node_of(worker).ready_changed_at == since


def test_a_flapping_node_comes_back_with_its_pods():
    world = World()
    (worker,) = world.add_workers(1)
    world.deploy("shop", replicas=2)
    world.settle()
    before = sorted(pod.uid for pod in world.kube.pods.values())
    world.nodes.silence(world.node_of(worker).name, for_seconds=120)
    world.advance(60)
    assert not world.node_of(worker).ready
    assert not any(pod.ready for pod in world.kube.pods.values())
    world.advance(61)
    assert world.node_of(worker).ready
    assert world.node_of(worker).taints == ()
    assert sorted(pod.uid for pod in world.kube.pods.values() if pod.ready) == before


def test_a_pod_that_was_to_go_ends_when_its_kubelet_is_back():
    world = World()
    (worker,) = world.add_workers(1)
    world.deploy("shop", replicas=1)
    world.settle()
    (pod,) = world.kube.pods.values()
    world.nodes.silence(world.node_of(worker).name, for_seconds=20)
    world.operator.delete_pod(pod.key)
    world.advance(19)
    assert pod.key in world.kube.pods
    world.advance(10)
    assert pod.key not in world.kube.pods
