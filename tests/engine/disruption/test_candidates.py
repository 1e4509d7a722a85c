"""Who leaves, in which order, and why everybody else stays."""

from dataclasses import replace

import pytest

from nodefleet.engine.cluster_context import ClusterContext
from nodefleet.engine.context import PoolContext
from nodefleet.engine.disruption.candidates import (
    Selection,
    is_held_fast,
    not_asked,
    open_removal,
    rank_candidates,
    select_candidates,
)
from nodefleet.model.decision import KeepReason, KeptNode
from nodefleet.model.fleet import Phase
from nodefleet.model.inventory import Market, Notice, NoticeKind, Resources
from nodefleet.model.operations import RemovalReason
from nodefleet.model.snapshot import LaunchTarget
from nodefleet.model.state import NOTHING_KNOWN, Backoff
from nodefleet.model.workload import Budget, Owner, Selector
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Budgets, MarketMix, Pool
from support.builders import NOON, TARGET, after, instance, look, node, pod, waiting
from support.operation_builders import removal
from support.wording import assert_wording

ANY_MARKET = Pool(market=MarketMix(on_demand_base=0))


def setting(seen, pool=ANY_MARKET, backoffs=()):
    if pool.market == ANY_MARKET.market:  # the market has no say
        seen = replace(seen, instances=tuple(replace(each, market=Market.SPOT) for each in seen.instances))
    policy = Policy(pools=(pool,))
    everyone = derive_workers(seen, policy)
    case = PoolContext.of(pool, policy, seen, NOTHING_KNOWN, everyone)
    return everyone, ClusterContext.of(seen, policy, everyone).ground(case, backoffs)


def chosen(seen, number=1, pool=ANY_MARKET, backoffs=()):
    everyone, ground = setting(seen, pool, backoffs)
    return select_candidates(everyone, pool, number, ground)


def names(leaving):
    return [worker.name for worker in leaving.chosen]


def reasons(leaving):
    return {stay.worker: stay.reason for stay in leaving.stays}


def detail(leaving, worker):
    return next(stay.detail for stay in leaving.stays if stay.worker == worker)


def order(seen):
    everyone, ground = setting(seen)
    return [worker.name for worker in rank_candidates(everyone, ground, ANY_MARKET)]


def test_the_zone_with_the_most_nodes_goes_first():
    assert order(look([0, 2, 4, 1], pods=[], idle={"w001": 99.0}))[-1] == "w001"


def unready_once(joined, again):
    """Workers 0 and 2; the second, a busy one, was launched at noon yesterday, and ready again so long after that."""
    nodes = (node(0, ready_changed_at=after(joined - 86400)), node(2, ready_changed_at=after(again - 86400)))
    return look([], pods=[], instances=(instance(0), instance(2)), nodes=nodes, idle={"w000": 99.0, "w002": 1.0})


@pytest.mark.parametrize(("again", "first"), [(299, "w000"), (300, "w002"), (80_000, "w002")])
def test_before_that_one_that_was_not_ready_since_it_joined(again, first):
    assert order(unready_once(60, again))[0] == first


def test_where_all_were_not_ready_as_when_the_api_server_was_away_none_of_them_goes_before_the_others():
    assert order(unready_once(80_000, 80_010)) == ["w000", "w002"]


def test_more_than_a_third_that_were_not_ready_tell_of_the_control_plane_and_do_not_go_before_a_new_one():
    nodes = (*(node(each, ready_changed_at=after(-10)) for each in (0, 2)), node(4, ready_changed_at=after(60 - 86400)))
    instances = tuple(instance(each) for each in (0, 2, 4))
    seen = look([], pods=[], instances=instances, nodes=nodes, idle={"w000": 1.0, "w002": 2.0, "w004": 99.0})
    assert order(seen) == ["w004", "w002", "w000"]


def test_then_the_idlest():
    assert order(look([0, 2, 4], pods=[], idle={"w000": 10.0, "w002": 90.0, "w004": 50.0})) == ["w002", "w004", "w000"]


def test_then_the_one_with_the_fewest_pods_that_have_to_move():
    daemon = pod("d-1", "w002", owner=Owner(kind="DaemonSet", name="d"))
    assert order(look([0, 2, 4], pods=[pod("a-1", "w000"), pod("a-2", "w000"), pod("a-3", "w004"), daemon])) == [
        "w002",
        "w004",
        "w000",
    ]


def test_then_by_name():
    assert order(look([4, 0, 2], pods=[])) == ["w000", "w002", "w004"]


def test_the_first_leaves_and_the_others_are_outranked():
    found = chosen(look([0, 2, 4], pods=[]))
    assert names(found) == ["w000"]
    assert reasons(found) == {
        "w000": KeepReason.CHOSEN,
        "w002": KeepReason.OUTRANKED,
        "w004": KeepReason.OUTRANKED,
    }
    assert_wording(detail(found, "w002"))
    assert_wording(detail(found, "w000"))


def test_a_protected_node_is_passed_over():
    found = chosen(look([0, 2, 4], pods=[pod("solo", "w000", owner=None)], idle={"w000": 99.0}))
    assert names(found) == ["w002"]
    assert reasons(found)["w000"] is KeepReason.UNMANAGED_POD


def test_a_node_whose_pods_fit_nowhere_stays():
    pods = [pod("big-1", "w000", requests=Resources(cpu=1500)), pod("big-2", "w002", requests=Resources(cpu=1500))]
    found = chosen(look([0, 2], pods=pods))
    assert names(found) == []
    assert reasons(found) == {"w000": KeepReason.NOWHERE_TO_GO, "w002": KeepReason.NOWHERE_TO_GO}
    assert_wording(detail(found, "w000"))
    assert_wording(found.obstacle)


def test_a_pod_whose_workload_the_scheduler_refuses_more_of_stays_where_it_is():
    """Unless a new node takes its place, on which it may run."""
    pods = [pod("app-1", "w000"), waiting("app-2"), pod("web-1", "w002", owner=Owner(kind="ReplicaSet", name="web"))]
    seen = look([0, 2, 4], pods=pods, idle={"w000": 99.0, "w002": 90.0})
    everyone, _ = setting(seen)
    policy = Policy(pools=(ANY_MARKET,))
    case = PoolContext.of(ANY_MARKET, policy, seen, NOTHING_KNOWN, everyone)
    muted = ClusterContext.of(seen, policy, everyone).without(frozenset({"app-2"})).ground(case, ())
    leaving = select_candidates(everyone, ANY_MARKET, 1, muted)
    assert (names(leaving), reasons(leaving)["w000"]) == (["w002"], KeepReason.NOWHERE_TO_GO)
    assert_wording(detail(leaving, "w000"))
    assert names(select_candidates(everyone, ANY_MARKET, 1, muted, due=everyone[:1])) == ["w000"]
    assert names(chosen(seen)) == ["w000"]


def test_a_failed_try_leaves_no_trace_for_the_next_one():
    pods = [
        pod("a-1", "w000", requests=Resources(cpu=1000)),
        pod("a-2", "w000", requests=Resources(cpu=1000)),
        pod("b-1", "w002", requests=Resources(cpu=1000)),
        pod("c-1", "w004", requests=Resources(cpu=1000)),
        pod("c-2", "w004", requests=Resources(cpu=500)),
    ]
    # w000's two fit only half; b-1 fits on w004? no: 1500 taken. Nobody can leave.
    assert names(chosen(look([0, 2, 4], pods=pods, idle={"w000": 99.0}))) == []


def test_a_blocking_budget_keeps_the_node():
    budget = Budget(name="web", selector=Selector(labels={"app": "web"}), min_available="2")
    pods = [pod("web-1", "w000"), pod("web-2", "w001")]
    found = chosen(look(3, pods=pods, budgets=(budget,), idle={"w000": 99.0}))
    assert reasons(found)["w000"] is KeepReason.BUDGET
    assert names(found) == ["w002"]


def test_a_node_that_is_not_measured_stays():
    everyone, ground = setting(look(3, pods=[]))
    found = select_candidates(everyone, ANY_MARKET, 3, replace(ground, unmeasured=frozenset({"w000"})))
    assert reasons(found)["w000"] is KeepReason.UNMEASURED
    assert "w000" not in {worker.name for worker in found.chosen}


def test_a_node_that_backs_off_stays():
    backoffs = (Backoff(node="w000", blocker="x", failures=1, until=after(60)),)
    found = chosen(look([0, 2], pods=[]), backoffs=backoffs)
    assert (names(found), reasons(found)["w000"]) == (["w002"], KeepReason.BACKING_OFF)


@pytest.mark.parametrize(
    ("numbers", "leaves"),
    [
        ([0, 2, 1], ["w000"]),  # a, a, b: one of a's
        ([0, 1], ["w000"]),  # one each: with fewer nodes than zones a zone must be left anyway
    ],
)
def test_zones_are_left_only_when_there_are_too_few_nodes(numbers, leaves):
    assert names(chosen(look(numbers, pods=[]))) == leaves


def test_the_last_of_its_zone_stays_while_all_zones_could_be_covered():
    full = [pod(f"x-{n}", f"w{n:03}", owner=None) for n in (0, 2)]
    found = chosen(look([0, 2, 1], pods=full))
    assert names(found) == []
    assert reasons(found)["w001"] is KeepReason.LAST_OF_ZONE
    assert_wording(detail(found, "w001"))


@pytest.mark.parametrize(("base", "leaves"), [(0, ["w000"]), (1, []), (2, [])])
def test_the_on_demand_base_stays_while_there_is_spot(base, leaves):
    pods = [pod(f"solo{n}", f"w{n:03}", owner=None) for n in (2, 4)]  # the Spot nodes cannot leave
    found = chosen(look([0, 2, 4], pods=pods), pool=Pool(market=MarketMix(on_demand_base=base)))
    assert names(found) == leaves
    if base:
        assert reasons(found)["w000"] is KeepReason.ON_DEMAND_BASE
        assert_wording(detail(found, "w000"))


# (On-Demand, Spot, spot_percent, base) → the market that leaves, whatever zones and idle time say
@pytest.mark.parametrize(
    ("on_demand", "spot", "percent", "base", "leaves"),
    [
        (2, 1, 70, 1, Market.ON_DEMAND),  # of the two that remain one is On-Demand
        (1, 2, 70, 1, Market.SPOT),
        (3, 7, 70, 1, Market.SPOT),  # nine have three
        (3, 6, 70, 1, Market.ON_DEMAND),  # eight have two
        (1, 3, 100, 0, Market.ON_DEMAND),
        (2, 2, 0, 0, Market.SPOT),
    ],
)
def test_the_market_above_its_share_goes_first(on_demand, spot, percent, base, leaves):
    numbers = range(on_demand + spot)
    made = [instance(n, market=Market.ON_DEMAND if n < on_demand else Market.SPOT, zone="a") for n in numbers]
    others = {n for n, each in enumerate(made) if each.market is not leaves}
    idle = {f"w{n:03}": 99.0 if n in others else 1.0 for n in numbers}
    seen = look(0, instances=made, nodes=[node(n) for n in numbers], pods=[], idle=idle)
    found = chosen(seen, pool=Pool(market=MarketMix(spot_percent=percent, on_demand_base=base)))
    assert [worker.instance.market for worker in found.chosen] == [leaves]


def test_on_demand_beyond_the_base_may_leave():
    two = {"instances": [instance(6, market=Market.ON_DEMAND)], "nodes": [node(6)]}
    found = chosen(look([0, 2, 4], pods=[], **two), 2, Pool(budgets=Budgets(removals=2)))
    assert names(found) == ["w000", "w002"]  # of the two On-Demand ones w000 may go; then w006 is the base
    assert reasons(found)["w006"] is KeepReason.ON_DEMAND_BASE


def test_each_one_that_leaves_changes_what_is_left():
    more = {"instances": [instance(6, market=Market.ON_DEMAND)], "nodes": [node(6)]}
    pool = Pool(market=MarketMix(on_demand_base=1), budgets=Budgets(removals=4))
    found = chosen(look([0, 2], pods=[], **more), 4, pool)
    assert names(found) == ["w000", "w002"]  # w006 is the base as long as there is Spot, and it was asked before that
    assert reasons(found)["w006"] is KeepReason.ON_DEMAND_BASE
    pods = [pod("x-1", "w002", owner=None)]
    two_zones = chosen(look([0, 2, 1, 3], pods=pods), 3, replace(ANY_MARKET, budgets=Budgets(removals=3)))
    assert names(two_zones) == ["w000", "w001", "w003"]


def test_zones_are_counted_anew_after_each_one_that_leaves():
    found = chosen(look([0, 2, 1, 3, 5], pods=[]), 4, replace(ANY_MARKET, budgets=Budgets(removals=4)))
    assert names(found) == ["w001", "w003", "w000", "w002"]
    assert reasons(found)["w005"] is KeepReason.LAST_OF_ZONE  # when its turn came, two were left besides it


def test_markets_are_counted_anew_after_each_one_that_leaves():
    two = {"instances": [instance(2, market=Market.ON_DEMAND)], "nodes": [node(2)]}
    found = chosen(look([0, 4, 6], pods=[], **two), 2, Pool(budgets=Budgets(removals=2)))
    assert names(found) == ["w000", "w004"]
    assert reasons(found)["w002"] is KeepReason.ON_DEMAND_BASE


def test_where_all_are_on_demand_there_is_no_base_to_keep():
    alone = {"instances": [instance(6, market=Market.ON_DEMAND)], "nodes": [node(6)]}
    assert names(chosen(look([0], pods=[], **alone), pool=Pool(market=MarketMix(on_demand_base=2)))) == ["w000"]


def test_with_a_single_zone_there_is_nothing_to_cover():
    seen = look([1], pods=[], targets=(LaunchTarget(subnets={"b": "s"}),))
    assert names(chosen(seen)) == ["w001"]


def test_a_worker_outside_the_only_zone_is_not_the_last_of_anything():
    seen = look([0, 2, 1], pods=[], targets=(LaunchTarget(subnets={"a": "s"}),), idle={"w001": 99.0})
    full = [pod(f"x-{n}", f"w{n:03}", owner=None) for n in (0, 2)]
    seen = replace(seen, kubernetes=replace(seen.kubernetes, pods=tuple(full)))
    assert names(chosen(seen)) == ["w001"]


def test_a_worker_whose_idle_time_is_not_known_counts_as_busy():
    assert order(look([0, 2], pods=[], idle={"w002": 0.5})) == ["w002", "w000"]


def test_zones_that_the_pool_could_use_count_even_while_they_are_empty():
    three = LaunchTarget(subnets={"a": "s", "b": "s", "c": "s"})
    full = [pod(f"x-{n}", f"w{n:03}", owner=None) for n in (0, 2)]
    assert names(chosen(look([0, 2, 1], pods=full, targets=(three,)))) == ["w001"]


def test_without_a_launch_target_the_zones_in_use_count():
    full = [pod(f"x-{n}", f"w{n:03}", owner=None) for n in (0, 2)]
    assert reasons(chosen(look([0, 2, 1], pods=full, targets=())))["w001"] is KeepReason.LAST_OF_ZONE


def test_without_pod_objects_nobody_leaves():
    found = chosen(look(3))
    assert names(found) == []
    assert set(reasons(found).values()) == {KeepReason.PODS_UNKNOWN}
    assert_wording(detail(found, "w000"))


def test_one_at_a_time():
    leaving = removal(instance="i-004", node="w004")
    found = chosen(look([0, 2, 4], pods=[], operations=(leaving,)))
    assert names(found) == []
    assert reasons(found) == {
        "w000": KeepReason.ONE_AT_A_TIME,
        "w002": KeepReason.ONE_AT_A_TIME,
        "w004": KeepReason.NOT_READY,
    }
    assert_wording(detail(found, "w000"))


def test_several_at_a_time_if_budget_and_room_allow():
    pool = replace(ANY_MARKET, budgets=Budgets(removals=2))
    assert names(chosen(look([0, 2, 4, 6], pods=[]), 3, pool)) == ["w000", "w002"]
    assert names(chosen(look([0, 2, 4, 6], pods=[]), 1, pool)) == ["w000"]


def test_the_second_to_leave_may_not_rely_on_the_first():
    pods = [pod(f"a-{n}", f"w{n:03}", requests=Resources(cpu=1000)) for n in (0, 2, 4)]
    found = chosen(look([0, 2, 4], pods=pods), 2, replace(ANY_MARKET, budgets=Budgets(removals=2)))
    assert names(found) == ["w000"]
    assert set(reasons(found).values()) == {KeepReason.CHOSEN, KeepReason.NOWHERE_TO_GO}


def test_several_at_a_time_count_each_zone_anew():
    pool = replace(ANY_MARKET, budgets=Budgets(removals=3))
    seen = look([0, 2, 1, 3], pods=[], targets=(TARGET,))
    found = chosen(seen, 3, pool)
    # after one of each zone has gone, two are left for two zones: the third may go only by leaving a zone
    assert len(found.chosen) == 3


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (look(1, instances=[instance(9, launched_at=after(-5))], pods=[]), KeepReason.NOT_READY),
        (look(1, instances=[instance(9)], nodes=[node(9, cordoned=True)], pods=[]), KeepReason.CORDONED_BY_OPERATOR),
        (
            look(
                1,
                instances=[instance(9)],
                nodes=[node(9)],
                pods=[],
                notices=(Notice(instance="i-009", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON),),
            ),
            KeepReason.NOT_READY,
        ),
    ],
)
def test_who_is_no_candidate(seen, reason):
    everyone, _ = setting(seen)
    for found in (chosen(seen, 2, replace(ANY_MARKET, budgets=Budgets(removals=2))), not_asked(everyone)):
        (stay,) = [stay for stay in found.stays if "9" in stay.worker]
        assert stay.reason is reason
        assert stay.phase is next(worker.phase for worker in everyone if worker.name == stay.worker)
        assert stay.detail == ("cordoned by an operator" if reason is KeepReason.CORDONED_BY_OPERATOR else "")


def test_when_nobody_asks_everybody_stays_for_that_reason():
    everyone, _ = setting(look(2, pods=[]))
    found = not_asked(everyone)
    assert (found.chosen, set(reasons(found).values())) == ((), {KeepReason.NOT_ASKED})
    assert_wording(found.obstacle)


def test_workers_that_are_not_ready_say_so_when_nobody_can_leave():
    stays = tuple(
        KeptNode(worker=name, phase=Phase.UNREADY, reason=KeepReason.NOT_READY, detail="") for name in ("w1", "w2")
    )
    assert_wording(Selection(stays=stays).obstacle)


def test_asking_whether_something_keeps_a_worker_moves_no_pod():
    """Two workers whose pods fit on the third one, but not those of both: who is asked first takes nobody's room."""
    full = [pod("a-1", "w000", requests=Resources(cpu=1500)), pod("b-1", "w002", requests=Resources(cpu=1500))]
    everyone, ground = setting(look([0, 2, 4], pods=full))
    assert [is_held_fast(worker, ANY_MARKET, ground) for worker in everyone[:2]] == [None, None]
    leaving = select_candidates(everyone, ANY_MARKET, 1, ground, due=[everyone[1]])
    assert names(leaving) == ["w002"]


def test_a_voluntary_removal_ends_by_its_deadline():
    seen = look(2)
    opened = open_removal(derive_workers(seen, Policy())[1], Pool(), seen, "calm").operation
    assert (opened.why, opened.reason, opened.started, opened.deadline) == (
        RemovalReason.VOLUNTARY,
        "calm",
        NOON,
        after(300),
    )
    assert (opened.instance, opened.node, opened.pool, opened.force_from) == ("i-001", "w001", "default", None)
