"""Whatever must not happen is noticed when it does."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.errors import ChangedError, DeniedError
from nodefleet.model.inventory import Market, NoticeKind
from nodefleet.model.operations import Cordon, PodRef
from nodefleet_tools.sim.invariants import Rule
from nodefleet_tools.sim.kube import Traits
from nodefleet_tools.sim.workloads import Kind
from nodefleet_tools.sim.world import NOON, ZONES, World
from support.operation_builders import launch
from support.wording import assert_wording

WANTED = launch(
    zone=ZONES[0], subnet=f"subnet-{ZONES[0]}", template="lt-default", market=Market.SPOT, types=("t3.small",)
)
DAY = timedelta(days=1)


class Scene:
    def __init__(self, workers=2, leased=True, **options):
        self.world = World(policy={"limits": {"min": 1, "max": 3}}, **options)
        self.workers = self.world.add_workers(workers)
        self.parts = self.world.parts("r", limit=DAY)
        if leased:
            self.parts.store.acquire("r", NOON, NOON + DAY, timedelta(seconds=5))

    @property
    def broken(self):
        return [each.rule for each in self.world.violations]

    def deploy(self, **shop):
        self.world.deploy("shop", **shop)
        self.world.settle()
        return next(iter(self.world.kube.pods.values()))

    def machine_of(self, pod):
        return self.world.kube.nodes[pod.node].instance


def ref(pod):
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def test_more_workers_than_max_are_noticed_at_the_launch_that_makes_them():
    scene = Scene()
    scene.parts.cloud.launch(replace(WANTED, count=1))
    assert scene.broken == []
    scene.parts.cloud.launch(replace(WANTED, id="two", count=1))
    assert scene.broken == [Rule.OVER_MAX]
    assert_wording(str(scene.world.violations[0]))


@pytest.mark.parametrize(("ago", "broken"), [(0, []), (60, [Rule.OVER_MAX])])
def test_a_worker_that_gets_its_tag_back_counts_from_the_next_look_on(ago, broken):
    scene = Scene(workers=3)
    scene.workers[0].tagged_again_at = scene.world.now - timedelta(seconds=ago)
    scene.parts.cloud.launch(replace(WANTED, count=1))
    assert scene.broken == broken


@pytest.mark.parametrize(
    ("cap", "amount"),
    [("cpu", 5.9), ("memory", 5.9), ("usd_per_hour", 0.0333)],  # of an On-Demand and four Spot nodes in the end
)
def test_more_than_a_cap_of_the_fleet_is_noticed_at_the_launch_that_makes_it(cap, amount):
    scene = Scene()
    limits = {"limits": {"min": 1, "max": 9}}
    scene.world.enforce({**limits, "fleet": {cap: 2 * amount}})
    scene.world.advance(600)
    scene.parts.cloud.launch(replace(WANTED, count=1, started=scene.world.now))
    assert scene.broken == []
    scene.world.enforce({**limits, "fleet": {cap: amount}})
    scene.parts.cloud.launch(replace(WANTED, id="two", count=1, started=scene.world.now))
    assert scene.broken == [], "a run that began before may go by the policy of that time"
    scene.world.advance(600)
    scene.parts.cloud.launch(replace(WANTED, id="three", count=1, started=scene.world.now))
    assert scene.broken == [Rule.OVER_FLEET_CAP]


def test_a_pool_gets_its_min_beyond_a_cap():
    scene = Scene()
    scene.world.enforce({"limits": {"min": 3, "max": 9}, "fleet": {"cpu": 2}})
    scene.world.advance(600)
    scene.parts.cloud.launch(replace(WANTED, count=1, started=scene.world.now))
    assert scene.broken == []


def test_what_a_person_launched_or_ec2_takes_does_not_count():
    scene = Scene(workers=3)
    scene.world.operator.launch(zone=ZONES[0])
    assert scene.broken == []
    scene.world.interrupt(scene.workers[0].id)
    scene.parts.cloud.launch(replace(WANTED, count=1))
    assert scene.broken == []
    scene.world.interrupt(scene.workers[1].id, NoticeKind.REBALANCE)
    scene.parts.cloud.launch(replace(WANTED, id="two", count=1))
    assert scene.broken == [Rule.OVER_MAX]


def test_a_withdrawn_change_counts_as_taken_until_somebody_has_heard_of_it():
    scene = Scene(workers=3)
    world = scene.world
    told = world.interrupt(scene.workers[0].id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(minutes=70))
    said = world.withdraw(told)
    scene.world.advance(11 * 60)  # EC2's hour before the change has begun
    scene.parts.cloud.launch(replace(WANTED, count=1))
    assert scene.broken == []
    scene.parts.store.record(said)
    scene.parts.cloud.launch(replace(WANTED, id="two", count=1))
    assert scene.broken == [Rule.OVER_MAX]


def test_a_new_max_counts_from_the_next_run_on():
    scene = Scene(workers=3)
    scene.world.advance(600)
    scene.world.enforce({"limits": {"min": 1, "max": 1}})
    scene.world.operator.terminate(scene.workers[0].id)
    scene.parts.cloud.launch(replace(WANTED, count=1))
    assert scene.broken == []
    scene.world.advance(121)
    scene.world.operator.terminate(scene.workers[1].id)
    scene.parts.cloud.launch(replace(WANTED, id="two", count=1))
    assert scene.broken == []  # it was begun under the old policy
    scene.parts.cloud.launch(replace(WANTED, id="three", count=1, started=scene.world.now))
    assert scene.broken == [Rule.OVER_MAX]


def test_the_control_plane_and_foreign_machines_are_guarded_and_the_attempt_is_noticed():
    scene = Scene()
    server, foreign = scene.world.server, scene.world.foreign
    with pytest.raises(DeniedError):
        scene.parts.cloud.terminate(server.id)
    with pytest.raises(ChangedError):
        scene.parts.cloud.terminate(foreign.id)
    cordon = Cordon(node=scene.world.node_of(server).name, removal="r", reason="", deadline=NOON)
    with pytest.raises(ChangedError):
        scene.parts.cluster.cordon(cordon, server.id)
    assert scene.broken == [Rule.FORBIDDEN] * 3
    assert server.live
    assert foreign.live


def test_a_worker_terminated_with_pods_on_it_is_noticed():
    scene = Scene()
    pod = scene.deploy(replicas=2)
    scene.parts.cloud.terminate(scene.machine_of(pod))
    assert scene.broken == [Rule.ABANDONED]


def test_pods_that_still_end_have_to_be_waited_for_and_stuck_ones_not():
    scene = Scene()
    pod = scene.deploy(traits=Traits(stuck=True))
    scene.parts.cluster.evict(ref(pod))
    scene.world.advance(41)
    scene.parts.cloud.terminate(scene.machine_of(pod))
    assert scene.broken == []
    scene = Scene()
    pod = scene.deploy(traits=Traits(stuck=True))
    scene.parts.cluster.evict(ref(pod))
    scene.world.advance(39)
    scene.parts.cloud.terminate(scene.machine_of(pod))
    assert scene.broken == [Rule.ABANDONED]


def test_daemons_dead_nodes_and_interrupted_ones_are_excepted():
    scene = Scene()
    daemon = scene.deploy(kind=Kind.DAEMON_SET)
    scene.parts.cloud.terminate(scene.machine_of(daemon))
    assert scene.broken == []

    scene = Scene()
    pod = scene.deploy(replicas=2)
    scene.world.interrupt(scene.machine_of(pod))
    scene.parts.cloud.terminate(scene.machine_of(pod))
    dead, *_ = [node for node in scene.world.ready_nodes() if node.instance != scene.machine_of(pod)]
    scene.world.nodes.silence(dead.name)
    scene.world.advance(60)
    scene.parts.cloud.terminate(dead.instance)
    assert scene.broken == []


def test_deleting_a_pod_by_force_needs_a_node_that_ec2_takes():
    scene = Scene()
    pod = scene.deploy(replicas=2)
    scene.parts.cluster.delete_pod(ref(pod))
    assert scene.broken == [Rule.FORCED]


def test_acting_without_the_lease_is_noticed():
    scene = Scene(leased=False)
    scene.parts.cloud.launch(replace(WANTED, count=1))
    node = scene.world.node_of(scene.workers[0])
    scene.parts.cluster.cordon(Cordon(node=node.name, removal="r", reason="", deadline=NOON), node.instance)
    assert scene.broken == [Rule.LEASE, Rule.LEASE]


def test_acting_after_another_run_took_over_is_noticed():
    scene = Scene()
    scene.world.advance(1)
    late = scene.world.parts("late", limit=DAY)
    late.store.acquire("late", NOON + 2 * DAY, NOON + 3 * DAY, timedelta(seconds=5))
    scene.parts.cloud.terminate(scene.workers[0].id)
    assert scene.broken == [Rule.LEASE]
    late.cloud.terminate(scene.workers[1].id)
    assert len(scene.broken) == 1


def test_what_ec2_takes_may_be_drained_without_the_lease():
    scene = Scene(leased=False)
    pod = scene.deploy(replicas=2)
    scene.world.interrupt(scene.machine_of(pod))
    cordon = Cordon(node=pod.node, removal="r", reason="", deadline=NOON)
    scene.parts.cluster.cordon(cordon, scene.machine_of(pod))
    scene.parts.cluster.evict(ref(pod))
    assert scene.broken == []


def test_a_port_that_forgets_whose_cordon_it_is_is_caught():
    scene = Scene()
    node = scene.world.node_of(scene.workers[0])
    scene.world.operator.cordon(node.name)
    scene.world.kube.put_node(replace(scene.world.kube.nodes[node.name], removal="r"))  # as if it were ours
    scene.parts.cluster.uncordon(node.name, "r")
    assert scene.broken == [Rule.OPERATOR]


def test_the_trace_tells_what_led_to_it():
    scene = Scene()
    pod = scene.deploy(replicas=2)
    scene.world.operator.cordon(pod.node)
    scene.parts.cluster.evict(ref(pod))
    scene.parts.cloud.terminate(scene.machine_of(pod))
    told = [str(each) for each in scene.world.guard.trace]
    assert_wording(told[-4:])
