"""Operator commands of the page: the records that the next run executes, and what is refused with which words."""

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Market
from nodefleet.model.snapshot import Pause, Recycle, Scale
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.dashboard import steering
from support.dashboards import WorldSource
from support.wording import assert_wording
from support.worlds import shop


@pytest.fixture
def cluster():
    made = shop()
    made.calm(1)
    return made


@pytest.fixture
def source(cluster):
    return WorldSource(cluster.world)


def commands(cluster):
    return cluster.world.table.state().commands


def test_a_size_is_kept_by_the_next_run_and_its_author_is_on_record(cluster, source):
    said = source.command({"kind": "scale", "pool": "default", "nodes": 4, "minutes": 60, "reason": "sale"}, "ann")
    (order,) = commands(cluster)
    assert isinstance(order, Scale)
    assert (order.nodes, order.by, order.reason) == (4, "ann", "sale")
    assert_wording(said)
    assert cluster.world.table.wake == 1
    event = cluster.world.table.events[-1]
    assert event.kind is AlertKind.SCALED_BY_OPERATOR
    assert "ann" in event.text
    cluster.tick()
    assert len(cluster.world.workers()) == 4
    source.command({"kind": "cancel-scale", "pool": "default"}, "ann")
    assert commands(cluster) == ()


def test_a_pause_of_one_pool_ends_by_its_own_resume(cluster, source):
    source.command({"kind": "pause", "pool": "default", "reason": ""}, "ann")
    (order,) = commands(cluster)
    assert isinstance(order, Pause)
    assert order.until is None
    with pytest.raises(InputError):
        source.command({"kind": "resume", "pool": ""}, "ann")
    source.command({"kind": "resume", "pool": "default"}, "ann")
    assert commands(cluster) == ()


def test_the_scale_down_alone_is_paused_for_a_time(cluster, source):
    given = {"kind": "pause", "scale_down_only": True, "minutes": 30, "reason": "long jobs"}
    source.command(given, "ann")
    (order,) = commands(cluster)
    assert order == Pause(by="ann", reason="long jobs", until=order.until, scale_down_only=True)
    assert order.until is not None


def test_a_node_is_recycled(cluster, source):
    worker = cluster.world.workers()[-1]
    source.command({"kind": "recycle", "instance": worker.id, "reason": "kernel"}, "ann")
    (order,) = commands(cluster)
    assert isinstance(order, Recycle)
    assert order.instance == worker.id


def test_a_worker_of_no_pool_is_drained(cluster, source):
    unowned = cluster.world.operator.launch(zone=cluster.world.zones[0], pool="gone", market=Market.ON_DEMAND)
    cluster.world.advance(90)
    source.command({"kind": "drain", "instance": unowned.id, "reason": ""}, "ann")
    (order,) = commands(cluster)
    assert order.instance == unowned.id


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "scale", "pool": "default", "nodes": 99, "minutes": 60, "reason": "x"},
        {"kind": "scale", "pool": "default", "nodes": 4, "minutes": 60, "reason": " "},
        {"kind": "scale", "pool": "default", "nodes": 4, "minutes": 0, "reason": "x"},
        {"kind": "scale", "pool": "default", "nodes": "4", "minutes": 60, "reason": "x"},
        {"kind": "scale", "pool": "other", "nodes": 4, "minutes": 60, "reason": "x"},
        {"kind": "pause", "minutes": True},
        {"kind": "pause", "scale_down_only": True},
        {"kind": "pause", "scale_down_only": "yes", "minutes": 30},
        {"kind": "cancel-scale", "pool": "default"},
        {"kind": "recycle", "instance": "i-unknown"},
        {"kind": "rollback", "number": 7},
        {"kind": "policy", "text": "limits: {max: 5}", "version": 7},
        {"kind": "policy", "text": "limits: {max: none}", "version": 1},
        {"kind": "policy", "text": "market: {types: [no-type]}", "version": 1},
        {"kind": "policy", "text": "limits: {min: 2, max: 6}", "version": 1},
        {"kind": 5},
    ],
)
def test_a_wrong_request_is_refused_and_nothing_is_recorded(cluster, source, given):
    events = len(cluster.world.table.events)
    with pytest.raises(InputError):
        source.command(given, "ann")
    assert commands(cluster) == ()
    assert len(cluster.world.table.policies) == 1
    assert len(cluster.world.table.events) == events


def test_the_control_plane_cannot_be_named(cluster, source):
    for kind in ("recycle", "drain"):
        with pytest.raises(InputError):
            source.command({"kind": kind, "instance": cluster.world.server.id}, "ann")


def test_a_worker_of_a_pool_is_drained_as_one_of_that_pool(cluster, source):
    worker = cluster.world.workers()[-1].id
    said = source.command({"kind": "drain", "instance": worker, "reason": "noisy disk"}, "ann")
    (order,) = commands(cluster)
    assert (order.instance, order.pool) == (worker, "default")
    assert cluster.world.table.events[-1].kind is AlertKind.DRAINED
    assert_wording(said, WORKER=worker)


@pytest.mark.parametrize("what", ["drain", "recycle"])
def test_a_command_for_a_node_is_withdrawn(cluster, source, what):
    worker = cluster.world.workers()[-1].id
    source.command({"kind": what, "instance": worker}, "ann")
    source.command({"kind": "withdraw", "what": what, "instance": worker}, "bob")
    assert commands(cluster) == ()
    assert "bob" in cluster.world.table.events[-1].text
    for wrong in ({"what": what, "instance": worker}, {"what": "pause", "instance": worker}, {"what": what}):
        with pytest.raises(InputError):
            source.command({"kind": "withdraw", **wrong}, "bob")


# ── the policy ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_policy_is_checked_saved_and_rolled_back(cluster, source):
    shown = source.policy()
    assert shown["version"] == 1
    text = "limits: {min: 2, max: 8}\n"
    assert [each["setting"] for each in source.check_policy(text)["changes"]] == ["limits.max"]
    source.command({"kind": "policy", "text": text, "version": 1}, "ann")
    newest = cluster.world.table.policies[-1]
    assert (newest.number, newest.source) == (2, "ann")
    assert source.connection.governing().policy.pools[0].limits.max == 8
    source.command({"kind": "rollback", "number": 1}, "ann")
    assert source.connection.governing().policy.pools[0].limits.max == 6
    assert [each["number"] for each in source.policy()["versions"]] == [3, 2, 1]


def test_what_is_wrong_with_a_policy_is_said_with_what_would_be_right(source):
    found = source.check_policy("limits: {min: 9, max: 3}\nlimts: 4\n")
    assert len(found["problems"]) == 2
    assert all(each["right"] for each in found["problems"])
    assert found["changes"] == []


def test_dry_run_is_a_new_version_of_the_same_policy(cluster, source):
    source.command({"kind": "dry-run", "on": True, "pool": ""}, "ann")
    assert cluster.world.table.policies[-1].data == {"limits": {"min": 2, "max": 6}, "dry_run": True}
    with pytest.raises(InputError) as caught:
        source.command({"kind": "dry-run", "on": True, "pool": ""}, "ann")
    assert_wording(str(caught.value))


def test_dry_run_of_one_pool_of_several(cluster, source):
    text = "pools: [{name: web, limits: {min: 1, max: 3}}, {name: batch, limits: {min: 0, max: 3}}]"
    source.command({"kind": "policy", "text": text, "version": 1}, "ann")
    source.command({"kind": "dry-run", "on": True, "pool": "batch"}, "ann")
    assert [pool.dry_run for pool in source.connection.governing().policy.pools] == [False, True]


def test_every_command_of_the_page_is_known():
    assert set(steering.COMMANDS) == {
        "pause",
        "resume",
        "scale",
        "cancel-scale",
        "recycle",
        "drain",
        "withdraw",
        "protect",
        "policy",
        "dry-run",
        "rollback",
    }
