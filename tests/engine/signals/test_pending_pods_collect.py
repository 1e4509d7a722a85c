"""Which pods wait for a pool, which of them have a vote, and what operators are told of the rest."""

from dataclasses import replace

import pytest

from nodefleet.engine.context import PlacementRequest, PoolContext, UnschedulableCount
from nodefleet.engine.signals.pending_pods import (
    MutedClass,
    PendingIndex,
    PendingVotes,
    alert_unplaceable,
    collect_pending,
)
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Resources, Taint
from nodefleet.model.state import PoolMemory
from nodefleet.model.workload import ZONE_LABEL, PodTerm, Rules, Selector, Toleration, Volume, VolumeKind
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.scheduling.packing import pack_pools, packing_input
from support.builders import CATALOG, NOON, instance, look, node, waiting
from support.decisions import filled
from support.wording import assert_wording

POLICY = Policy()
BIG = Resources(cpu=1900)


def case(seen):
    return PoolContext.of(POLICY.pools[0], POLICY, seen, PoolMemory(), derive_workers(seen, POLICY))


def found(seen):
    pending = PendingIndex.of(seen.kubernetes.pods)
    return collect_pending(case(seen), pack_pools(packing_input(seen, POLICY, derive_workers(seen, POLICY))), pending)


def test_without_pod_objects_their_number_is_all_there_is():
    assert collect_pending(case(look(pending=4)), None, PendingIndex()).unschedulable == UnschedulableCount(count=4)
    assert collect_pending(case(look()), None, PendingIndex()).unschedulable == UnschedulableCount(count=0)


def test_pods_are_counted_with_the_nodes_they_would_fill():
    pods = [waiting("web-1", requests=BIG), waiting("api-2", requests=BIG), *filled(3)]
    waits = found(look(pods=pods))
    assert waits.unschedulable == UnschedulableCount(count=2, nodes=2)
    assert waits.asks(1) == (PlacementRequest(zones=("a", "b"), types=("t3.small", "t3a.small", "t2.small")),)
    assert len(waits.asks(9)) == 2
    assert [len(waits.record_purchase(nodes, NOON, 9)) for nodes in range(3)] == [0, 1, 2]
    assert {each.bought_at for each in waits.record_purchase(2, NOON, 9)} == {NOON}


def test_pods_for_which_there_is_room_count_but_fill_nothing():
    assert found(look(pods=[waiting("web-1")])).unschedulable == UnschedulableCount(count=1, nodes=0)


def test_where_nobody_knows_what_a_node_holds_only_the_number_counts():
    full = [replace(each, requests=Resources(cpu=1900)) for each in filled(3)]
    odd = {"nodes": [node(n, labels={}) for n in range(3)], "instances": [instance(n, type="odd") for n in range(3)]}
    seen = look(0, pods=[waiting("web-1"), *full], catalog=(), **odd)
    assert found(seen).unschedulable == UnschedulableCount(count=1, nodes=None)


def test_a_pod_whose_data_is_on_a_full_node_buys_nothing():
    tied = waiting("db-1", volumes=(Volume(kind=VolumeKind.LOCAL, node="w000"),), requests=BIG)
    waits = found(look(pods=[tied, *filled(3)]))
    assert (waits.unschedulable.count, waits.new) == (0, ())


def test_pods_that_neighbours_keep_off_every_node_have_no_vote_and_are_told():
    lonely = PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "elsewhere"}))
    waits = found(look(pods=[waiting("web-1", rules=Rules(affinity=(lonely,)), requests=BIG), *filled(3)]))
    assert waits.unschedulable == UnschedulableCount(count=0, nodes=0, without_vote=1)
    assert [(tell.alert, tell.pool) for tell in waits.alerts] == [(AlertKind.CANNOT_HOLD, "default")]


def refused(*names, said, **muted):
    pods = tuple(waiting(name, unschedulable_message=said) for name in names)
    return PendingVotes(newly=(MutedClass(name="shop", pods=pods, **muted),), silent=frozenset(names))


def test_pods_that_the_scheduler_refuses_are_told_by_name_with_its_own_words():
    votes = refused("web-1", "web-2", said='storageclass.storage.k8s.io "fast" not found')
    seen = look(pods=[waiting("web-3")])
    waits = collect_pending(
        case(seen), pack_pools(packing_input(seen, POLICY, derive_workers(seen, POLICY))), PendingIndex(), votes
    )
    assert waits.unschedulable == UnschedulableCount(count=1, nodes=0, without_vote=2)
    (told,) = waits.alerts
    assert (told.alert, told.pool) == (AlertKind.PODS_REFUSED, "default")
    assert "default/web-1, default/web-2" in told.text
    assert_wording(told.text)


@pytest.mark.parametrize(
    ("said", "muted", "told"),
    [
        ("0/3 nodes are available.", {}, "The scheduler says: 0/3 nodes are available. "),
        ("", {}, "The scheduler says: nothing. "),
        ("", {"in_vain": "w003: it has the taint x"}, "w003: it has the taint x. "),
    ],
)
def test_the_reason_stands_in_the_alert(said, muted, told):
    seen = look(pods=[])
    found = pack_pools(packing_input(seen, POLICY, derive_workers(seen, POLICY)))
    (tell,) = collect_pending(case(seen), found, PendingIndex(), refused("web-1", said=said, **muted)).alerts
    assert told in tell.text


def test_pods_whose_new_nodes_are_perhaps_not_set_up_yet_count_as_waiting():
    seen = look(pods=[])
    found = pack_pools(packing_input(seen, POLICY, derive_workers(seen, POLICY)))
    votes = PendingVotes(held=frozenset({"web-1", "web-2"}))
    assert collect_pending(case(seen), found, PendingIndex(), votes).unschedulable == UnschedulableCount(
        count=2, nodes=0
    )


def test_pods_that_fit_nowhere_are_told_with_the_reason():
    (told,) = alert_unplaceable([("shop/a", "too big"), ("shop/b", "wrong zone")], "gpu")
    assert (told.alert, told.pool) == (AlertKind.CANNOT_HOLD, "gpu")
    assert_wording(told.text)
    assert alert_unplaceable([], "gpu") == []


def test_what_a_pod_tolerates_decides_whether_it_waits_for_this_pool():
    taint = Taint(key="dedicated", value="gpu")
    policy = Policy(pools=(replace(POLICY.pools[0], taints=(taint,)),))
    rules = Rules(tolerations=(Toleration(key="dedicated", operator="Exists"),))
    seen = look(0, pods=[waiting("any-1"), waiting("gpu-1", rules=rules)], catalog=CATALOG)
    result = pack_pools(packing_input(seen, policy, ()))
    assert result.by_pool["default"].bought_for == ("gpu-1",)
    assert [key for key, _ in result.unplaceable] == ["default/any-1"]
