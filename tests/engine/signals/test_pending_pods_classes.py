"""Which pending pods speak for their pool: by class, by what new nodes really hold, and how long others are silent."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.context import PoolContext
from nodefleet.engine.decide import decide
from nodefleet.engine.signals.pending_pods import PendingIndex, PendingVotes, before_packing, used_otherwise
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Resources, Taint
from nodefleet.model.state import Memory, PendingClass, PodGrant, PoolMemory
from nodefleet.model.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    PodPhase,
    PodTerm,
    Rules,
    Selector,
    Spread,
    Toleration,
    Volume,
    VolumeKind,
)
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Benefit
from support.builders import NOON, SMALL, after, instance, look, node, only, pod, templates, waiting
from support.decisions import alerts, bought, filled, pool_memory, with_pool
from support.wording import assert_wording

POLICY = Policy()
BIG = Resources(cpu=1900)
LONG_AGO = after(-3600)
REFUSED_AFTER = POLICY.pools[0].benefit.refused_after


def case(seen, *records, policy=POLICY):
    return PoolContext.of(policy.pools[0], policy, seen, PoolMemory(pending=records), derive_workers(seen, policy))


def remembering(*records):
    return Memory(pools={"default": PoolMemory(pending=records)})


def name_of(*pods):
    (name,) = PendingIndex.of(pods).by_class
    return name


# ── classes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pods_of_one_controller_and_shape_are_one_class_whatever_they_are_called():
    found = PendingIndex.of([waiting("web-x7k2p"), waiting("web-b4m9z"), waiting("db-0")])
    assert [len(pods) for pods in found.by_class.values()] == [1, 2]
    assert [name.split("#")[0] for name in found.by_class] == ["default/ReplicaSet/db", "default/ReplicaSet/web"]


@pytest.mark.parametrize(
    "change",
    [
        {"requests": Resources(cpu=501)},
        {"requests": Resources(cpu=500, extended={"gpu": 1})},
        {"rules": Rules(node_selector={"disk": "ssd"})},
        {"volumes": (Volume(kind=VolumeKind.CLAIM, zones=("a",)),)},
        {"priority": 5},
        {"namespace": "other"},
        {"owner": None},
    ],
)
def test_what_may_be_placed_otherwise_is_another_class(change):
    assert len(PendingIndex.of([waiting("web-1"), waiting("web-2", **change)]).by_class) == 2


def test_the_longest_waiting_speaks_first_and_only_pods_that_a_node_could_help_are_there():
    old, new = waiting("web-2", unschedulable_since=after(-60)), waiting("web-1")
    (pods,) = PendingIndex.of([new, old, waiting("web-3", gated=True), pod("web-4", "w000")]).by_class.values()
    assert [each.name for each in pods] == ["web-2", "web-1"]


def test_a_class_knows_when_a_pod_of_its_controller_gets_a_node():
    def bound(*others):
        return set(PendingIndex.of([waiting("web-1"), *others]).bound.values())

    nothing = bound()
    assert bound(pod("db-1", "w000"), pod("web-8", "w000", phase=PodPhase.SUCCEEDED)) == nothing
    assert bound(pod("web-9", "w000")) != nothing


# ── refused by the scheduler ─────────────────────────────────────────────────────────────────────────────────────────


def look_at(seconds, *pods, workers=3, **changes):
    return look(workers, at=after(seconds), pods=pods, cpu=20.0, memory=30.0, **changes)


STUCK = waiting("web-1", unschedulable_since=LONG_AGO, unschedulable_message="no such StorageClass")


def played(*seconds, pods=(STUCK,), policy=POLICY, memory=None):
    """The last decision of looks at these times."""
    memory, decision = memory or Memory(), None
    for each in seconds:
        decision = decide(look_at(each, *pods), memory, policy)
        memory = decision.memory
    return decision


def test_a_pod_that_the_scheduler_refuses_though_there_is_room_loses_its_vote_and_people_are_told_once():
    before = played(0, 599)
    assert alerts(before) == []
    assert [each.room_since for each in pool_memory(before).pending] == [NOON]
    loses = played(0, 599, 600)
    assert alerts(loses) == [AlertKind.PODS_REFUSED]
    (muted,) = pool_memory(loses).pending
    assert (muted.muted_until, muted.mutes) == (after(600 + 900), 1)
    assert alerts(played(720, memory=loses.memory)) == []


def speaks(decision):
    """Pending pods keep the fleet as it is, or let it grow."""
    return any(bound.source == "pods" for bound in only(decision).bounds)


def test_without_a_vote_it_keeps_no_node():
    assert speaks(played(0, 599))
    assert not speaks(played(0, 600))
    assert not speaks(played(0, 600, 720))


def test_it_asks_for_another_look_for_an_interval_only():
    assert_wording(played(0, 110).look_again)
    assert played(0, 120).look_again == ""
    assert played(0, 600).look_again == ""


def test_room_that_comes_and_goes_is_no_refusal():
    full = [pod(f"big-{number}", f"w00{number}", requests=BIG) for number in range(3)]
    memory = decide(look_at(300, STUCK, *full), played(0).memory, POLICY).memory
    assert [each.room_since for each in pool_memory(played(700, memory=memory)).pending] == [after(700)]
    assert alerts(played(700, memory=memory)) == []


def test_a_pod_that_has_just_come_to_a_refused_class_waits_its_own_time():
    fresh = replace(STUCK, unschedulable_since=after(500))
    record = PendingClass(name=name_of(fresh), bound=PendingIndex.of([fresh]).bound[name_of(fresh)], room_since=NOON)
    assert alerts(played(600, pods=(fresh,), memory=remembering(record))) == []


def test_a_pod_of_the_class_that_gets_a_node_gives_it_its_vote_back():
    loses = played(0, 600)
    runs = pod("web-9", "w000")
    gets_one = decide(look_at(720, STUCK, runs), loses.memory, POLICY)
    (record,) = pool_memory(gets_one).pending
    assert (record.muted_until, record.mutes, record.room_since) == (None, 0, after(720))
    assert speaks(gets_one)


def test_after_a_while_one_of_them_asks_for_all_and_each_time_later():
    pods = [replace(STUCK, name=f"web-{n}", uid=f"web-{n}") for n in range(3)]
    loses = played(0, 600, pods=pods)
    asks = played(1500, pods=pods, memory=loses.memory)
    assert speaks(asks)
    again = played(2100, pods=pods, memory=asks.memory)
    assert alerts(again) == [AlertKind.PODS_REFUSED]
    (record,) = pool_memory(again).pending
    assert (record.muted_until, record.mutes) == (after(2100 + 1800), 2)
    for_long = remembering(replace(record, mutes=200, room_since=after(2000), muted_until=None))
    (longest,) = pool_memory(played(2600, pods=pods, memory=for_long)).pending
    assert longest.muted_until == after(2600) + POLICY.pools[0].benefit.retry_longest


def test_the_rest_of_a_class_that_was_refused_buys_nothing():
    """Two fit on what is there; that the third has no room must not buy a node that the scheduler will not use."""
    pods = [replace(STUCK, name=f"web-{n}", uid=f"web-{n}", requests=BIG) for n in range(4)]
    now_muted = played(0, 600, pods=pods)
    assert (bought(now_muted), alerts(now_muted)) == (0, [AlertKind.PODS_REFUSED])
    assert bought(played(720, pods=pods, memory=now_muted.memory)) == 0


def test_a_class_that_no_longer_waits_is_forgotten():
    loses = played(0, 600)
    assert pool_memory(decide(look_at(720), loses.memory, POLICY)).pending == ()


def test_others_still_buy():
    loses = played(0, 600)
    other = waiting("db-0", requests=BIG)
    assert bought(decide(look_at(720, STUCK, other, *filled(3)), loses.memory, POLICY)) == 1


# ── bought in vain ───────────────────────────────────────────────────────────────────────────────────────────────────

WANTS = waiting("web-1", requests=BIG)
STARTING = Taint(key="cni.example/not-ready")


def bought_for(pod, seconds=-400, **changes):
    bound = PendingIndex.of([pod]).bound[name_of(pod)]
    return PendingClass(name=name_of(pod), bound=bound, bought_at=after(seconds), purchases=1, **changes)


def new_node(**changes):
    fresh = {"ready_changed_at": after(-200), "taints": (STARTING,), **changes}
    return {"instances": [instance(3)], "nodes": [node(3, **fresh)]}


def votes(record, *, policy=POLICY, pending=WANTS, **around):
    seen = look(3, pods=[pending, *filled(3)], **around)
    known = templates(policy.pools[0], seen)
    return before_packing(case(seen, record, policy=policy), PendingIndex.of(seen.kubernetes.pods), known)


def test_new_nodes_that_do_not_take_a_class_buy_no_more_of_them():
    found = votes(bought_for(WANTS), **new_node())
    assert found.silent == {"web-1"}
    (muted,) = found.newly
    assert ("w003" in muted.in_vain, STARTING.key in muted.in_vain) == (True, True)
    assert found.classes[0].muted_until == after(900)


ALIKE = Selector(labels={"app": "web"})


@pytest.mark.parametrize(
    "rules",
    [
        Rules(spread=(Spread(topology=ZONE_LABEL, selector=ALIKE),)),
        Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=ALIKE),)),
    ],
)
def test_new_nodes_without_the_label_that_a_class_is_spread_over_buy_no_more_of_them(rules):
    """The template promises the zone's label, and the nodes join without it: no cloud controller sets it."""
    wants = replace(WANTS, rules=rules)
    bare = new_node(taints=(), labels={HOST_LABEL: "w003"})
    (muted,) = votes(bought_for(wants), pending=wants, **bare).newly
    assert ZONE_LABEL in muted.in_vain
    labelled = new_node(taints=(), labels={HOST_LABEL: "w003", ZONE_LABEL: "a"})
    assert votes(bought_for(wants), pending=wants, **labelled).newly == ()


def test_a_pod_that_stays_away_from_others_needs_no_label():
    wants = replace(WANTS, rules=Rules(anti_affinity=(PodTerm(topology=ZONE_LABEL, selector=ALIKE),)))
    bare = new_node(taints=(), labels={HOST_LABEL: "w003"})
    assert votes(bought_for(wants), pending=wants, **bare).newly == ()


def test_that_is_decided_and_told():
    seen = look(3, pods=[WANTS, *filled(3)], **new_node())
    decision = decide(seen, remembering(bought_for(WANTS)), POLICY)
    assert (bought(decision), alerts(decision)) == (0, [AlertKind.PODS_REFUSED])


def test_a_node_that_may_still_be_set_up_is_waited_for():
    found = votes(bought_for(WANTS, -299), **new_node())
    assert (found.silent, found.held, found.newly) == (frozenset(), {"web-1"}, ())
    seen = look(3, pods=[WANTS, *filled(3)], **new_node())
    decision = decide(seen, remembering(bought_for(WANTS, -299)), POLICY)
    assert (bought(decision), alerts(decision)) == (0, [])


@pytest.mark.parametrize(
    ("record", "around"),
    [
        (bought_for(WANTS), {}),  # nothing has come since
        (bought_for(WANTS), new_node(ready_changed_at=after(-500))),  # it was there before
        (bought_for(WANTS), new_node(taints=())),  # it would take it; others do now
        (bought_for(WANTS), new_node(cordoned=True)),  # an operator's doing
        (bought_for(WANTS), new_node(ready=False)),
        (replace(bought_for(WANTS), bought_at=None), new_node()),
        (
            bought_for(WANTS),
            {
                "instances": [instance(3), instance(4)],
                "nodes": [node(n, ready_changed_at=after(-200), taints=(STARTING,) * (4 - n)) for n in (3, 4)],
            },
        ),  # one of the two would take it
        (bought_for(WANTS, muted_until=after(60)), new_node()),  # known already
    ],
)
def test_otherwise_nothing_was_in_vain(record, around):
    assert votes(record, **around).newly == ()


def test_how_often_it_may_be_in_vain_is_the_policys():
    for pods, muted in ((0, 0), (1, 1), (2, 0)):
        assert len(votes(bought_for(WANTS), policy=with_pool(benefit=Benefit(pods=pods)), **new_node()).newly) == muted


def test_a_pod_that_no_new_node_could_hold_was_not_promised_one():
    huge = replace(WANTS, requests=Resources(cpu=SMALL.cpu + 1))
    assert votes(bought_for(huge), pending=huge, **new_node()).newly == ()
    tolerant = replace(WANTS, rules=Rules(tolerations=(Toleration(operator="Exists"),)))
    assert votes(bought_for(tolerant), pending=tolerant, **new_node()).newly == ()


# ── nodes that others used ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("granted", "joined", "young", "used"),
    [
        (-60, -30, False, True),
        (-60, -90, False, False),  # nothing has come since
        (-60, None, False, False),
        (-60, -30, True, False),  # more is on its way
        (None, -30, False, False),  # nothing was bought for it
    ],
)
def test_that_others_use_its_node_is_known_when_what_was_bought_has_come(granted, joined, young, used):
    there = [node(0, ready_changed_at=None if joined is None else after(joined))]
    machines = [instance(0), *([instance(1, launched_at=after(-20))] if young else [])]
    seen = look(0, pods=[WANTS], nodes=there, instances=machines)
    record = PendingClass(name="x", bought_at=None if granted is None else after(granted))
    assert used_otherwise(PendingVotes(classes=(record,)), case(seen)) is used
    silent = replace(record, muted_until=after(60))
    assert not used_otherwise(PendingVotes(classes=(silent,)), case(seen))


# ── what is remembered ───────────────────────────────────────────────────────────────────────────────────────────────


def test_purchases_are_counted_for_the_class():
    once = PendingVotes().record_purchase(["a", "b"], NOON, 300)
    assert [(each.name, each.purchases) for each in once] == [("a", 1), ("b", 1)]
    twice = PendingVotes(classes=once).record_purchase(["b"], after(300), 300)
    assert [(each.purchases, each.bought_at) for each in twice] == [(1, NOON), (2, after(300))]


def test_the_memory_stays_small_and_keeps_who_has_no_vote():
    names = [f"job-{number:04}" for number in range(5000)]
    muted = PendingClass(name="zzz", muted_until=after(600), mutes=1)
    found = PendingVotes(classes=(muted, PendingClass(name="nothing to tell"))).record_purchase(names, NOON, 300)
    assert (len(found), muted in found) == (300, True)


def test_what_an_older_release_remembered_of_single_pods_is_forgotten():
    old = Memory(pools={"default": PoolMemory(pod_grants=(PodGrant(uid="web-1", at=after(-400), lost=True),))})
    decision = decide(look_at(0, replace(WANTS), *filled(3)), old, POLICY)
    assert (bought(decision), pool_memory(decision).pod_grants) == (1, ())


def test_the_bound_is_longer_than_the_scheduler_takes_to_try_again():
    assert timedelta(minutes=5) < REFUSED_AFTER
