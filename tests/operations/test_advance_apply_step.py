"""What an iteration would show after a step."""

from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState
from nodefleet.model.operations import (
    Assign,
    Cordon,
    DeleteNode,
    Evict,
    ForceDelete,
    MarkFailed,
    PodRef,
    SendAlert,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import Missing
from nodefleet.operations.advance import apply_step
from support.builders import NOON, look, pod

WEB = PodRef(namespace="default", name="web-1", uid="web-1")
CORDON = Cordon(node="w001", removal="r1", reason="calm", deadline=NOON + timedelta(minutes=5))


def seen():
    return look(3, pods=[pod("web-1", "w001"), pod("web-2", "w001")])


def named(observation, name):
    return next((node for node in observation.kubernetes.nodes if node.name == name), None)


def test_a_cordoned_node_shows_whose_cordon_it_is():
    after = apply_step(seen(), CORDON)
    assert (named(after, "w001").cordoned, named(after, "w001").removal) == (True, "r1")
    assert not named(after, "w000").cordoned


@pytest.mark.parametrize(("removal", "cordoned"), [("r1", False), ("r2", True)])
def test_only_our_own_cordon_comes_off(removal, cordoned):
    after = apply_step(apply_step(seen(), CORDON), Uncordon("w001", removal))
    assert named(after, "w001").cordoned is cordoned


def test_a_deleted_node_is_not_there():
    assert named(apply_step(seen(), DeleteNode("w001")), "w001") is None


@pytest.mark.parametrize("step", [Evict(node="w001", pods=(WEB,)), ForceDelete(node="w001", pods=(WEB,))])
def test_an_evicted_pod_is_on_its_way_out(step):
    pods = {each.name: each.deleted_at for each in apply_step(seen(), step).kubernetes.pods}
    assert pods == {"web-1": NOON, "web-2": None}


def test_a_terminated_machine_shuts_down_and_a_marked_one_is_marked():
    machines = {each.id: each for each in apply_step(seen(), Terminate("i-001", "calm")).instances}
    assert machines["i-001"].state is InstanceState.SHUTTING_DOWN
    assert machines["i-000"].state is InstanceState.RUNNING
    assert next(each for each in apply_step(seen(), MarkFailed("i-002")).instances if each.id == "i-002").failed


def test_a_worker_that_was_handed_over_belongs_to_its_pool_on_its_node_and_in_ec2():
    after = apply_step(seen(), Assign(instance="i-001", node="w001", pool="web", reason="its pool is gone"))
    assert {each.name: each.pool for each in after.kubernetes.nodes} == {
        "w000": "default",
        "w001": "web",
        "w002": "default",
    }
    assert {each.id: each.pool for each in after.instances} == {"i-000": "default", "i-001": "web", "i-002": "default"}


def test_a_node_that_is_let_back_in_carries_no_removal():
    assert named(apply_step(apply_step(seen(), CORDON), Uncordon("w001", "r1")), "w001").removal == ""


def test_a_pod_that_is_on_its_way_out_keeps_its_time():
    early = NOON - timedelta(seconds=30)
    leaving = look(1, pods=[pod("web-1", "w000", deleted_at=early)])
    assert apply_step(leaving, Evict(node="w000", pods=(WEB,))) == leaving


def test_pods_that_are_not_known_stay_unknown():
    unknown = look(1)
    assert unknown.kubernetes.pods is None
    assert apply_step(unknown, Evict(node="w000", pods=(WEB,))) == unknown


@pytest.mark.parametrize("step", [CORDON, Terminate("i-001", "x"), Evict(node="w001", pods=(WEB,))])
def test_what_is_missing_stays_missing(step):
    blind = look(1, instances=(), kubernetes=Missing("timeout"))
    blind = type(blind)(at=NOON, instances=Missing("timeout"), kubernetes=Missing("timeout"))
    assert apply_step(blind, step) == blind


def test_what_only_is_written_changes_nothing_that_is_seen():
    tell = SendAlert(alert=AlertKind.AT_MAX, pool="default", text="x")
    assert apply_step(seen(), tell) == seen()
