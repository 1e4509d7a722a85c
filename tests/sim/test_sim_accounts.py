"""What runs write down is held against what they do, and cleanups against the truth."""

from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest

from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market, NoticeKind
from nodefleet.model.operations import Cleanup, Cordon, OrphanKind, PodRef, Removal, RemovalReason
from nodefleet.ports import Changes
from nodefleet_tools.sim.rules import Rule
from nodefleet_tools.sim.store import SimStore
from nodefleet_tools.sim.world import NOON, ZONES, World
from support.operation_builders import launch
from support.worlds import shop

WANTED = launch(
    zone=ZONES[0], subnet=f"subnet-{ZONES[0]}", template="lt-default", market=Market.SPOT, types=("t3.small",), count=1
)
HOUR = timedelta(hours=1)


class Scene:
    """A run that holds the lease and has looked, in a world with some workers."""

    def __init__(self, workers=3):
        self.world = World(policy={"limits": {"min": 1, "max": 9}})
        self.workers = self.world.add_workers(workers)
        self.world.deploy("shop", replicas=3)
        self.world.settle()
        self.parts = self.world.parts("r", limit=HOUR)
        self.lease = self.parts.store.acquire("r", NOON, NOON + HOUR, timedelta(seconds=5))
        self.parts.store.state()

    @property
    def broken(self):
        return [each.rule for each in self.world.violations]

    def node(self, number=0):
        return self.world.node_of(self.workers[number])

    def open(self, operation):
        """As if a recorded decision had opened it."""
        self.world.guard.accounts._opened.add(operation.id)
        self.parts.store.commit(self.lease, Changes(put=(operation,)))
        return operation

    def removal(self, number=0):
        node = self.node(number)
        return Removal(
            id="r1",
            pool="default",
            instance=node.instance,
            node=node.name,
            why=RemovalReason.VOLUNTARY,
            reason="",
            started=NOON,
            deadline=NOON,
        )

    def cleanup(self, debris, target):
        return Cleanup(
            id=f"c-{target}",
            pool="default",
            debris=debris,
            target=target,
            reason="",
            first_seen=NOON,
            started=NOON,
            deadline=NOON + HOUR,
        )


# ── every effect has its record ──────────────────────────────────────────────────────────────────────────────────


def cordon(scene):
    node = scene.node()
    scene.parts.cluster.cordon(Cordon(node=node.name, removal="r1", reason="", deadline=NOON), node.instance)


def evict(scene):
    node = scene.node()
    pod = next(pod for pod in scene.world.kube.pods_on(node.name) if pod.movable)
    scene.parts.cluster.evict(PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid))


def terminate(scene):
    machine = scene.workers[0]
    scene.world.nodes.silence(scene.node().name)
    scene.world.advance(60)
    scene.parts.cloud.terminate(machine.id)


def delete_node(scene):
    machine, node = scene.workers[0], scene.node()
    scene.world.ec2.end(machine)
    scene.world.advance(300)
    scene.parts.cluster.delete_node(node.name, machine.id)


@pytest.mark.parametrize("act", [cordon, evict, terminate, delete_node])
def test_what_no_open_operation_asks_for_is_noticed(act):
    scene = Scene()
    act(scene)
    assert scene.broken == [Rule.UNRECORDED]
    scene = Scene()
    scene.open(scene.removal())
    act(scene)
    assert scene.broken == []


def test_a_launch_that_was_not_written_first_is_noticed():
    scene = Scene()
    scene.parts.cloud.launch(WANTED)
    assert scene.broken == [Rule.UNRECORDED]
    scene = Scene()
    scene.open(WANTED)
    scene.parts.cloud.launch(WANTED)
    assert scene.broken == []


def test_an_operation_without_a_decision_is_noticed():
    scene = Scene()
    scene.parts.store.commit(scene.lease, Changes(put=(WANTED,)))
    assert scene.broken == [Rule.UNRECORDED]


def test_a_launch_that_makes_more_than_it_asked_for_is_noticed():
    scene = Scene()
    scene.open(WANTED)
    scene.parts.cloud.launch(WANTED)
    with patch.object(type(WANTED), "token", "another"):
        scene.parts.cloud.launch(WANTED)
    assert scene.broken == [Rule.TWICE]


# ── the lease ────────────────────────────────────────────────────────────────────────────────────────────────────


def taken_over(scene):
    late = scene.world.parts("late", limit=HOUR)
    return late.store.acquire("late", NOON + 2 * HOUR, NOON + 3 * HOUR, timedelta(seconds=5))


def test_a_table_that_does_not_check_the_fence_is_caught():
    scene = Scene()
    taken_over(scene)
    with patch.object(SimStore, "_check_fence", lambda *_: None):
        scene.parts.store.commit(scene.lease, Changes(retire=()))
        assert scene.broken == []  # nothing was written
        scene.parts.store.commit(scene.lease, Changes(drop=("l1",)))
    assert scene.broken == [Rule.LEASE]


def test_a_table_that_lets_anybody_release_is_caught():
    scene = Scene()
    taken_over(scene)
    assert scene.parts.store.release(scene.lease, None)
    assert scene.broken == []
    with patch.object(SimStore, "_holds", lambda *_: True):
        scene.parts.store.release(scene.lease, None)
    assert scene.broken == [Rule.LEASE]


def test_clocks_that_differ_too_much_excuse_what_is_done_but_not_what_is_written():
    scene = Scene()
    scene.open(scene.removal())
    scene.world.guard.clock_error = timedelta(seconds=15)
    taken_over(scene)
    cordon(scene)
    assert scene.broken == []
    with patch.object(SimStore, "_check_fence", lambda *_: None):
        scene.parts.store.commit(scene.lease, Changes(drop=("l1",)))
    assert scene.broken == [Rule.LEASE]


def test_a_run_that_lets_go_after_a_wake_that_it_did_not_see_has_lost_it():
    scene = Scene()
    scene.world.parts("alert").store.wake()
    scene.parts.store.release(scene.lease, None)
    run = scene.world.runs["r"]
    scene.world.guard.accounts.ended(run, had_time=False)
    assert scene.broken == []
    scene.world.guard.accounts.ended(run, had_time=True)
    assert scene.broken == [Rule.WAKE]


def test_a_wake_that_the_last_look_saw_is_not_lost():
    scene = Scene()
    scene.world.parts("alert").store.wake()
    scene.parts.store.state()
    scene.parts.store.release(scene.lease, None)
    scene.world.guard.accounts.ended(scene.world.runs["r"], had_time=True)
    assert scene.broken == []


# ── what a decision counts ───────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_ec2_is_known_to_take_must_not_be_counted():
    cluster = shop(workers=3)
    cluster.calm(1)
    assert cluster.world.violations == []
    record = cluster.world.table.decisions[-1]
    scene = Scene(workers=3)
    scene.world.parts("event").store.record(scene.world.interrupt(scene.workers[0].id))
    scene.parts.store.state()
    scene.parts.store.commit(scene.lease, Changes(decision=record))
    assert scene.broken == [Rule.COUNTED]


def test_a_node_must_not_leave_while_readings_are_missing():
    idle = shop(workers=3, replicas=4, cpu=200)
    idle.calm(8)
    record = next(each for each in idle.world.table.decisions if each.decision.pools[0].action is Action.SHRINK)
    scene = Scene()
    scene.world.runs["r"].unread = {"default": "cpu: timed out"}
    scene.parts.store.commit(scene.lease, Changes(decision=record))
    assert scene.broken == [Rule.BLIND]


# ── cleanups ─────────────────────────────────────────────────────────────────────────────────────────────────────


def unjoined(scene, number, minutes):
    """An instance whose Node went some time ago."""
    scene.world.operator.delete_node(scene.node(number).name)
    scene.world.advance(60 * minutes)
    scene.parts.store.state()
    machine = scene.workers[number]
    scene.open(scene.cleanup(OrphanKind.INSTANCE, machine.id))
    scene.parts.cloud.terminate(machine.id)


def test_debris_needs_two_looks():
    scene = Scene()
    unjoined(scene, 0, minutes=3)
    assert scene.broken == []
    unjoined(scene, 1, minutes=1)
    assert scene.broken == [Rule.HASTY, Rule.MASS]


def test_a_node_is_no_debris_before_its_machine_ended():
    scene = Scene()
    machine, node = scene.workers[0], scene.node()
    scene.open(scene.cleanup(OrphanKind.NODE, node.name))
    scene.world.nodes.silence(node.name)
    scene.world.advance(500)
    scene.parts.cluster.delete_node(node.name, machine.id)
    assert scene.broken == [Rule.HASTY]


@pytest.mark.parametrize(("workers", "broken"), [(5, [Rule.MASS]), (9, [Rule.MASS]), (11, [])])
def test_one_at_a_time_on_doubtful_evidence_and_a_fifth_of_a_larger_fleet(workers, broken):
    scene = Scene(workers=workers)
    for number in (0, 1):
        scene.world.operator.delete_node(scene.node(number).name)
    scene.world.advance(400)
    scene.parts.store.state()
    for machine in scene.workers[:2]:
        scene.open(scene.cleanup(OrphanKind.INSTANCE, machine.id))
        scene.parts.cloud.terminate(machine.id)
    assert scene.broken == broken


# ── capacity that EC2 is known to take ───────────────────────────────────────────────────────────────────────────


def known_to_be_taken(scene):
    return scene.world.guard.accounts._interrupted()


def test_of_two_changes_of_a_machine_only_the_one_that_was_heard_of_is_known():
    scene = Scene()
    victim = scene.workers[0].id
    far = scene.world.interrupt(victim, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(days=14))
    near = scene.world.interrupt(victim, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(minutes=30))
    scene.parts.store.record(far)
    scene.world.advance(300)
    assert known_to_be_taken(scene) == frozenset()
    scene.parts.store.record(near)
    assert known_to_be_taken(scene) == {victim}


def test_a_withdrawn_change_does_not_leave_an_older_one_behind_that_came_to_nothing():
    scene = Scene()
    machine = scene.workers[0]
    old = scene.world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE)
    scene.world.ec2.forget(old)
    near = scene.world.interrupt(machine.id, NoticeKind.SCHEDULED_CHANGE, ahead=timedelta(minutes=30))
    assert machine.interrupted_at is not None
    scene.world.withdraw(near)
    assert machine.interrupted_at is None


@pytest.mark.parametrize(("ago", "may_be"), [(60, True), (120, False)])
def test_a_view_may_show_a_node_as_ready_that_fell_silent_a_moment_ago(ago, may_be):
    scene = Scene()
    silent = replace(scene.node(), ready=False, ready_changed_at=scene.world.now - timedelta(seconds=ago))
    assert scene.world.guard.accounts._may_be_ready(silent, scene.world.runs["r"]) is may_be
