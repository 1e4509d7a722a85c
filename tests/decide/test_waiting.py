"""Which pods wait for a pool, which of them have a vote, and what people are told of the rest."""

from dataclasses import replace

import pytest

from builders import CATALOG, after, instance, look, node, pod, waiting
from decisions import filled
from nodefleet.decide.case import Case
from nodefleet.decide.packing import outlook, packings
from nodefleet.decide.placement import Ask
from nodefleet.decide.sizing import Unschedulable
from nodefleet.decide.waiting import cannot_hold, judged, uids_waiting, used_otherwise, waiting_for
from nodefleet.domain.fleet import workers
from nodefleet.domain.memory import PodGrant, PoolMemory
from nodefleet.domain.operations import AlertKind
from nodefleet.domain.policy import Policy
from nodefleet.domain.readings import Missing
from nodefleet.domain.resources import Resources
from nodefleet.domain.workload import ZONE_LABEL, PodTerm, Rules, Selector, Taint, Toleration, Volume, VolumeKind

POLICY = Policy()
BIG = Resources(cpu=1900)


def case(seen, grants=()):
    memory = PoolMemory(pod_grants=tuple(grants))
    return Case.of(POLICY.pools[0], POLICY, seen, memory, workers(seen, POLICY))


def found(seen, grants=()):
    return waiting_for(case(seen, grants), packings(outlook(seen, POLICY, workers(seen, POLICY))))


def test_without_pod_objects_their_number_is_all_there_is():
    assert waiting_for(case(look(pending=4)), None).unschedulable == Unschedulable(count=4)
    assert waiting_for(case(look()), None).unschedulable == Unschedulable(count=0)


def test_pods_are_counted_with_the_nodes_they_would_fill():
    pods = [waiting("web-1", requests=BIG), waiting("web-2", requests=BIG), *filled(3)]
    waits = found(look(pods=pods))
    assert waits.unschedulable == Unschedulable(count=2, nodes=2)
    assert waits.asks(1) == (Ask(zones=("a", "b"), types=("t3.small", "t3a.small", "t2.small")),)
    assert len(waits.asks(9)) == 2
    assert (waits.served_by(1), set(waits.served_by(2))) == (("web-1",), {"web-1", "web-2"})


def test_pods_for_which_there_is_room_count_but_fill_nothing():
    assert found(look(pods=[waiting("web-1")])).unschedulable == Unschedulable(count=1, nodes=0)


def test_where_nobody_knows_what_a_node_holds_only_the_number_counts():
    full = [replace(each, requests=Resources(cpu=1900)) for each in filled(3)]
    odd = {"nodes": [node(n, labels={}) for n in range(3)], "instances": [instance(n, type="odd") for n in range(3)]}
    seen = look(0, pods=[waiting("web-1"), *full], catalog=(), **odd)
    assert found(seen).unschedulable == Unschedulable(count=1, nodes=None)


def test_a_pod_whose_data_is_on_a_full_node_buys_nothing():
    tied = waiting("db-1", volumes=(Volume(kind=VolumeKind.LOCAL, node="w000"),), requests=BIG)
    waits = found(look(pods=[tied, *filled(3)]))
    assert (waits.unschedulable.count, waits.new) == (0, ())


def test_pods_that_neighbours_keep_off_every_node_have_no_vote_and_are_told():
    lonely = PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "elsewhere"}))
    waits = found(look(pods=[waiting("web-1", rules=Rules(affinity=(lonely,)), requests=BIG), *filled(3)]))
    assert waits.unschedulable == Unschedulable(count=0, nodes=0, without_vote=1)
    assert [(tell.alert, tell.pool) for tell in waits.tells] == [(AlertKind.CANNOT_HOLD, "default")]


def test_stuck_pods_are_remembered_without_a_vote_and_told_once():
    stuck = [waiting(name, requests=BIG) for name in ("web-1", "web-2")]
    fresh = {"instances": [instance(3)], "nodes": [node(3, ready_changed_at=after(-200))]}
    seen = look(3, pods=[*stuck, *filled(4)], **fresh)
    grants = [PodGrant(uid="web-1", at=after(-400)), PodGrant(uid="web-2", at=after(-400))]
    waits = found(seen, grants)
    assert [grant.lost for grant in waits.grants] == [True, True]
    assert waits.unschedulable.without_vote == 2
    (told,) = waits.tells
    assert (told.alert, told.pool) == (AlertKind.NO_BENEFIT, "default")
    assert told.text == (
        "2 pods got a node and still wait (web-1, web-2): no more is bought for that."
        " See the pods' events for what keeps them."
    )
    assert found(seen, waits.grants).tells == ()


@pytest.mark.parametrize(
    ("around", "lost"),
    [
        ({"instances": [instance(3)], "nodes": [node(3, ready_changed_at=after(-200))]}, True),
        ({}, False),  # no node has joined since
        ({"instances": [instance(3)], "nodes": [node(3, ready=False, ready_changed_at=after(-200))]}, False),
        (
            {
                "instances": [instance(3), instance(4, launched_at=after(-9))],
                "nodes": [node(3, ready_changed_at=after(-200))],
            },
            False,  # one is still booting
        ),
        ({"instances": [instance(3)], "nodes": [node(3, ready_changed_at=None)]}, False),
    ],
)
def test_a_pod_is_stuck_only_if_its_node_was_there(around, lost):
    seen = look(3, pods=[waiting("web-1", requests=BIG)], **around)
    grants = (PodGrant(uid="web-1", at=after(-400)),)
    assert judged(case(seen, grants), uids_waiting(seen))[1] == (frozenset({"web-1"}) if lost else frozenset())


def test_only_pods_that_a_node_could_help_wait():
    gated = waiting("gated-1", gated=True)
    assert uids_waiting(look(pods=[waiting("web-1"), gated, pod("web-2", "w000")])) == {"web-1"}
    assert uids_waiting(look()) == frozenset()
    assert uids_waiting(replace(look(), kubernetes=Missing("x"))) == frozenset()


def test_pods_that_fit_nowhere_are_told_with_the_reason():
    (told,) = cannot_hold([("shop/a", "too big"), ("shop/b", "wrong zone")], "gpu")
    assert (told.alert, told.pool) == (AlertKind.CANNOT_HOLD, "gpu")
    assert told.text == (
        "2 pods fit on no node that could be launched; shop/a: too big; shop/b: wrong zone."
        " Change the pods or the pool."
    )
    assert cannot_hold([], "gpu") == []


def test_what_a_pod_tolerates_decides_whether_it_waits_for_this_pool():
    taint = Taint(key="dedicated", value="gpu")
    policy = Policy(pools=(replace(POLICY.pools[0], taints=(taint,)),))
    rules = Rules(tolerations=(Toleration(key="dedicated", operator="Exists"),))
    seen = look(0, pods=[waiting("any-1"), waiting("gpu-1", rules=rules)], catalog=CATALOG)
    result = packings(outlook(seen, policy, ()))
    assert result.by_pool["default"].bought_for == ("gpu-1",)
    assert [key for key, _ in result.nobody] == ["default/any-1"]


# ── nodes that others used ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("granted", "joined", "young", "used"),
    [
        (-60, -30, False, True),
        (-60, -90, False, False),  # nothing has come since
        (-60, -30, True, False),  # more is on its way
        (None, -30, False, False),  # nothing was bought for it
    ],
)
def test_that_others_use_its_node_is_known_when_what_was_bought_has_come(granted, joined, young, used):
    there = [node(0, ready_changed_at=after(joined))]
    machines = [instance(0), *([instance(1, launched_at=after(-20))] if young else [])]
    seen = look(0, pods=[waiting("web-1")], nodes=there, instances=machines)
    grants = [] if granted is None else [PodGrant(uid="web-1", at=after(granted))]
    assert used_otherwise(case(seen, grants), frozenset({"web-1"})) is used
    assert not used_otherwise(case(seen, grants), frozenset({"web-2"}))
