"""How many new nodes the pods that wait would need."""

from collections import Counter
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodefleet.engine.decide import decide
from nodefleet.model.inventory import InstanceType, Market, Resources, Taint
from nodefleet.model.names import CAPACITY_LABEL
from nodefleet.model.operations import Launch
from nodefleet.model.snapshot import LaunchTarget, Missing
from nodefleet.model.state import Memory, PoolMemory
from nodefleet.model.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    NodeTerm,
    Owner,
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
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool, Steps
from nodefleet.scheduling.packing import assign, list_unschedulable, pack_pools, packing_input
from nodefleet.scheduling.pool_packing import Assignments, NewNode, Packing, PoolPacking
from nodefleet.scheduling.simulation import SchedulerSimulation
from nodefleet.scheduling.templates import PodCompatibility
from support.builders import CATALOG, GIB, NOON, SMALL, TARGET, after, instance, look, node, pod, templates, waiting
from support.decisions import opened
from support.wording import assert_wording

TIGHT = Steps(pending_fill="tight")
POOL = Pool(market=MarketMix(types=("t3.small", "t2.small"), memory_overhead_percent=0), steps=TIGHT)
POLICY = Policy(pools=(POOL,))
WEB = Selector(labels={"app": "web"})
APART = Rules(anti_affinity=(PodTerm(topology=HOST_LABEL, selector=WEB),))


def packed(seen, policy=POLICY):
    return pack_pools(packing_input(seen, policy, derive_workers(seen, policy)))


def packing(pods, workers_there=0, policy=POLICY, **scene):
    """What the one pool needs for these pods; those with a node are there already."""
    return packed(look(workers_there, pods=pods, **scene), policy).by_pool["default"]


def zones(found):
    return Counter(each.zone for each in found.new)


def types(found):
    return Counter(each.type for each in found.new)


def wants(name, cpu=500, **changes):
    return waiting(name, requests=Resources(cpu=cpu), **changes)


# ── who counts ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"priority": 0}, True),
        ({"priority": 1000}, True),
        ({"priority": -1}, False),
        ({"unschedulable_since": None}, False),
        ({"node": "w000"}, False),
        ({"deleted_at": NOON}, False),
        ({"gated": True}, False),
        ({"nominated": True}, False),
        ({"phase": PodPhase.FAILED}, False),
        ({"owner": Owner(kind="DaemonSet", name="logs")}, False),
        ({"owner": None}, True),
    ],
)
def test_only_pods_that_a_new_node_could_help_count(changes, counts):
    assert bool(list_unschedulable([waiting("web-1", **changes)])) is counts


def test_pods_with_volumes_buy_as_many_nodes_as_can_attach_them():
    def claiming(number):
        volume = Volume(kind=VolumeKind.CLAIM, name="data", driver="ebs", handle=f"v{number}")
        return wants(f"db-{number}", cpu=10, volumes=(volume,))

    there = {"instances": [instance(0)], "nodes": [node(0, attach_limits={"ebs": 2}, cordoned=True)]}
    assert packing([claiming(number) for number in range(7)], **there).nodes == 4


def test_a_pod_that_leaves_no_room_for_a_new_daemonset_buys_nothing_and_is_named():
    """The daemon would take its place on every new node."""
    logs = replace(wants("logs", cpu=800), owner=Owner(kind="DaemonSet", name="logs"))
    seen = look(0, pods=[wants("web-1", cpu=1500)])
    found = packed(replace(seen, kubernetes=replace(seen.kubernetes, daemon_sets=(logs,))))
    assert found.by_pool["default"].nodes == 0
    assert [key for key, _ in found.unplaceable] == ["default/web-1"]


def test_the_room_that_preemption_makes_is_kept_for_the_pod_it_is_made_for():
    """Its victim has left; a pod of lower priority that would fit there needs a node of its own."""
    first = wants("urgent", cpu=1500, priority=1000, nominated=True, nominated_node="w000")
    assert packing([first], 1).nodes == 0
    assert packing([first, wants("web-1", cpu=1500)], 1).nodes == 1
    assert packing([wants("web-1", cpu=1500)], 1).nodes == 0


def test_a_node_that_preemption_makes_room_on_is_not_empty():
    first = wants("urgent", cpu=1500, priority=1000, nominated=True, nominated_node="w000")
    seen = look(2, pods=[first, pod("web-1", "w001", requests=Resources(cpu=1000))])
    room = packing_input(seen, POLICY, derive_workers(seen, POLICY)).simulation
    assert room.try_drain("w000").pod == replace(first, node="w000")


def test_nothing_is_needed_when_nobody_waits():
    assert packing([pod("web-1", "w000")], 1) == Packing()


# ── how many ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("pods", "nodes"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_four_pods_of_half_a_core_fill_a_node_of_two(pods, nodes):
    assert packing([wants(f"web-{number}") for number in range(pods)]).nodes == nodes


def test_pods_that_fit_where_there_is_room_buy_nothing():
    pods = [wants(f"web-{number}") for number in range(5)]
    assert packing(pods, 1) == Packing(
        nodes=1,
        new=(NewNode(zone="b", type="t3.small", pods=(pods[4],), templates=()),),
        placed=("web-0", "web-1", "web-2", "web-3"),
        on_ready=("web-0", "web-1", "web-2", "web-3"),
        bought_for=("web-4",),
    )


def test_a_node_that_boots_is_room_already():
    young = instance(0, launched_at=after(-30))
    assert packing([wants("web-1")], instances=[young]) == Packing(placed=("web-1",))


def test_a_node_that_is_not_ready_is_no_room():
    sick = node(0, ready=False, ready_changed_at=after(-60))
    found = packing([wants("web-1")], instances=[instance(0)], nodes=[sick])
    assert (found.nodes, found.bought_for) == (1, ("web-1",))


def test_daemons_take_part_of_each_new_node():
    daemon = replace(pod("logs-1", "w000"), owner=Owner(kind="DaemonSet", name="logs"), requests=Resources(cpu=1))
    full = pod("full", "w000", requests=Resources(cpu=1999))
    four = [wants(f"web-{number}") for number in range(4)]
    assert packing([full, daemon, *four], 1).nodes == 2
    assert packing([full, *four], 1).nodes == 1


def test_the_biggest_come_first_so_that_the_small_fill_the_gaps():
    sizes = [600, 600, 600, 1400, 1400, 1400]
    assert packing([wants(f"web-{number}", cpu) for number, cpu in enumerate(sizes)]).nodes == 3


def test_those_who_have_the_fewest_nodes_to_choose_from_come_before_the_biggest():
    in_b = Rules(node_selector={ZONE_LABEL: "b"}, anti_affinity=APART.anti_affinity)
    picky = [wants(f"web-{number}", 600, rules=in_b) for number in range(2)]
    big = [wants(f"big-{number}", 1200) for number in range(2)]
    found = packing([*big, *picky])
    assert (found.nodes, found.bought_for) == (2, ("web-0", "web-1", "big-0", "big-1"))


# ── when the scheduler does not pack ─────────────────────────────────────────────────────────────────────────────

ONE_BIG_AND_SMALL_ONES = [wants("web-0", 1700), *(wants(f"web-{number}", 600) for number in range(1, 4))]


def spreading(pods, **scene):
    """What is needed if nodes that were bought for some of these pods were used by others."""
    seen = look(0, pods=pods, **scene)
    found = packing_input(seen, POLICY, derive_workers(seen, POLICY))
    return pack_pools(replace(found, used_otherwise=True)).by_pool["default"]


def test_pods_that_wait_though_their_nodes_came_get_as_many_as_the_scheduler_needs_if_it_spreads_them():
    assert packing(ONE_BIG_AND_SMALL_ONES).nodes == 2
    found = spreading(ONE_BIG_AND_SMALL_ONES)
    assert found.nodes == 3
    assert [[pod.name for pod in new.pods] for new in found.new] == [["web-0"], ["web-1", "web-2", "web-3"], ["web-0"]]


def test_they_get_no_more_than_that():
    assert spreading([wants(f"web-{number}") for number in range(8)]).nodes == 2
    assert spreading(ONE_BIG_AND_SMALL_ONES[1:]).nodes == 1


def test_who_can_have_no_place_at_all_gets_none_by_spreading_either():
    near = Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "db"})),))
    found = spreading([*ONE_BIG_AND_SMALL_ONES, wants("app-1", rules=near)])
    assert (found.nodes, [key for key, _ in found.cannot_hold]) == (3, ["default/app-1"])


def test_the_room_is_left_as_it_was_by_spreading_too():
    seen = look(1, pods=ONE_BIG_AND_SMALL_ONES)
    found = replace(packing_input(seen, POLICY, derive_workers(seen, POLICY)), used_otherwise=True)
    assert pack_pools(found) == pack_pools(found)
    assert found.simulation.place(pod("big", requests=SMALL)) == "w000"


QUEUED = Policy(pools=(replace(POOL, steps=Steps(pending_fill="queue")),))


def spare(nodes, sure=100):
    return queued(pending_spare=nodes, pending_sure=sure)


def queued(**steps):
    return Policy(pools=(replace(POOL, steps=Steps(pending_fill="queue", **steps)),))


def test_one_node_more_is_bought_where_it_is_enough_for_nodes_that_become_ready_together():
    """The small ones come first and take a node each; the large one needs a whole node."""
    pods = [wants("a-1", 1000), wants("a-2", 1000), wants("big-1", 2000)]
    assert [packing(pods, policy=spare(nodes)).nodes for nodes in (0, 1, 2)] == [2, 3, 3]


SMALL_FIRST = [
    *(wants(f"a-{number}", 1000, priority=1) for number in range(4)),
    *(wants(f"big-{number}", 2000) for number in range(2)),
]


def test_none_is_bought_where_more_would_be_needed_for_that():
    """The four small ones take a node each in every order, so both large ones need another."""
    assert [packing(SMALL_FIRST, policy=spare(nodes)).nodes for nodes in (0, 1, 2, 3)] == [4, 4, 6, 6]


def test_a_spare_node_is_bought_where_it_is_enough_for_some_of_the_orders():
    """Of one priority: often only one of the large ones comes after all small ones."""
    pods = [replace(pod, priority=0) for pod in SMALL_FIRST]
    assert [packing(pods, policy=spare(nodes)).nodes for nodes in (0, 1, 2, 3)] == [4, 5, 6, 6]


def test_spare_nodes_are_added_until_all_pods_run_in_as_many_orders_as_asked():
    pods = [replace(pod, priority=0) for pod in SMALL_FIRST]
    assert [packing(pods, policy=spare(3, sure)).nodes for sure in (0, 80, 100)] == [4, 5, 6]


def test_a_spare_node_is_bought_for_nodes_of_which_one_half_comes_first():
    """Four nodes do if they come one after the other or in one moment, whoever comes first."""
    sizes = (700, 700, 700, 500, 1300, 1300, 1100)
    pods = [wants(f"p-{place}", cpu, priority=-place + len(sizes)) for place, cpu in enumerate(sizes)]
    assert packing(pods, policy=spare(3)).nodes == 5


@pytest.mark.parametrize(("percent", "nodes"), [(0, 60), (10, 66), (100, 80)])
def test_a_large_plan_grows_by_a_share_of_it_at_most_for_the_order_of_the_queue(percent, nodes):
    """Three small ones fill each of the first nodes, and then twenty of the large ones have none."""
    early, late = after(-60), after(-30)
    small = [wants(f"small-{number}", 600, unschedulable_since=early) for number in range(60)]
    large = [wants(f"large-{number}", 1400, unschedulable_since=late) for number in range(60)]
    assert packing([*small, *large], policy=queued(pending_spare=0, pending_excess=percent)).nodes == nodes
    spread = Rules(spread=(Spread(topology=HOST_LABEL, selector=WEB, max_skew=9),))
    ruled = [replace(small[0], rules=spread), *small[1:], *large]
    assert packing(ruled, policy=queued(pending_spare=0, pending_excess=percent)).nodes == nodes


def test_when_a_pod_was_first_refused_says_little_about_when_it_is_tried_again():
    """It is tried again whenever a node joins, and then comes behind those that were tried before it."""
    times = {"a": -10, "big": -20}
    pods = [replace(pod, priority=0, unschedulable_since=after(times[pod.name.split("-")[0]])) for pod in SMALL_FIRST]
    assert [packing(pods, policy=spare(nodes)).nodes for nodes in (0, 3)] == [4, 6]


def test_a_pod_that_has_to_be_near_others_is_tried_again_in_other_orders_when_they_have_a_place():
    near = Rules(affinity=(PodTerm(topology=HOST_LABEL, selector=Selector(labels={"app": "web"})),))
    web = [waiting(f"web-{number}", labels={"app": "web"}, requests=Resources(cpu=1500)) for number in range(2)]
    beside = waiting("beside", rules=near, requests=Resources(cpu=100))
    assert packing([beside, *web], policy=spare(3)).nodes == 2


def test_equal_pods_need_no_spare_node():
    assert packing([wants(f"a-{number}", 700) for number in range(8)], policy=spare(3)).nodes == 4


def test_pods_with_rules_find_a_place_in_several_orders_of_one_second():
    """By their names two nodes are enough; not if both small ones come first."""
    sizes = {"a": 1200, "b": 800, "c": 1200, "d": 800}
    pods = [waiting(name, requests=Resources(cpu=cpu, storage=1)) for name, cpu in sizes.items()]
    assert packing(pods).nodes == 2
    assert [packing(pods, policy=spare(nodes)).nodes for nodes in (0, 1, 2)] == [2, 3, 3]


def test_nodes_are_added_for_the_order_in_which_the_scheduler_takes_the_pods():
    early, late = after(-60), after(-30)
    small = [wants(f"small-{number}", 600, unschedulable_since=early) for number in range(3)]
    large = [wants(f"large-{number}", 1400, unschedulable_since=late) for number in range(3)]
    assert packing([*small, *large]).nodes == 3
    found = packing([*small, *large], policy=QUEUED)
    assert (found.nodes, sorted(found.bought_for)) == (4, sorted(pod.uid for pod in [*small, *large]))
    assert [pod.requests.cpu for pod in found.new[3].pods] == [1400]


def test_a_higher_priority_comes_first_in_the_queue():
    early, late = after(-60), after(-30)
    small = [wants(f"small-{number}", 600, unschedulable_since=early) for number in range(3)]
    large = [wants(f"large-{number}", 1400, unschedulable_since=late, priority=10) for number in range(3)]
    assert packing([*small, *large], policy=QUEUED).nodes == 3


def test_the_order_counts_for_pods_with_rules_too():
    early, late = after(-60), after(-30)
    spread = Rules(spread=(Spread(topology=HOST_LABEL, selector=WEB, max_skew=9),))
    small = [wants(f"web-{number}", 600, rules=spread, unschedulable_since=early) for number in range(3)]
    large = [wants(f"large-{number}", 1400, unschedulable_since=late) for number in range(3)]
    assert packing([*small, *large]).nodes == 3
    assert packing([*small, *large], policy=QUEUED).nodes == 4


def test_the_cheaper_of_two_plans_counts_when_pods_have_rules():
    """Pods with rules first, or all by their size: here the large ones must come first."""
    apart = Rules(anti_affinity=(PodTerm(topology=HOST_LABEL, selector=WEB),))
    web = [wants(f"web-{number}", 500, rules=apart) for number in range(2)]
    large = [wants(f"large-{number}", 1500) for number in range(2)]
    assert packing([*web, *large]).nodes == 2


def test_a_pod_that_others_keep_off_is_not_packed_with_the_plain_ones():
    apart = Rules(anti_affinity=(PodTerm(topology=HOST_LABEL, selector=WEB),))
    lonely = wants("db-1", 100, rules=apart)
    found = packing([lonely, wants("web-1", 100), wants("web-2", 100)])
    assert sorted(sorted(pod.name for pod in new.pods) for new in found.new) == [["db-1"], ["web-1", "web-2"]]


# ── prices and markets ───────────────────────────────────────────────────────────────────────────────────────────────

LARGE = replace(SMALL, cpu=2 * SMALL.cpu, memory=2 * SMALL.memory)
PRICED = (
    InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.006),
    InstanceType(name="t2.small", resources=LARGE, hourly_usd=0.03, spot_usd=0.02),
)


@pytest.mark.parametrize(("spot_percent", "bought"), [(100, {"t3.small": 2}), (0, {"t2.small": 1})])
def test_types_and_counts_are_chosen_by_the_price_in_the_pools_markets(spot_percent, bought):
    market = replace(POOL.market, spot_percent=spot_percent, on_demand_base=0)
    policy = Policy(pools=(replace(POOL, market=market),))
    found = packing([wants(f"web-{number}") for number in range(8)], policy=policy, catalog=PRICED)
    assert types(found) == bought


def test_a_price_that_is_not_known_is_taken_from_the_other_market_and_else_from_the_size():
    eight = [wants(f"web-{number}") for number in range(8)]
    only_listed = tuple(replace(offer, spot_usd=None) for offer in PRICED)
    assert types(packing(eight, catalog=only_listed)) == {"t2.small": 1}
    only_spot = tuple(replace(offer, hourly_usd=None) for offer in PRICED)
    assert types(packing(eight, catalog=only_spot)) == {"t3.small": 2}
    unknown = (PRICED[0], replace(PRICED[1], hourly_usd=None, spot_usd=None))
    assert types(packing(eight, catalog=unknown)) == {"t3.small": 2}


@pytest.mark.parametrize("market", list(Market))
def test_a_pod_that_asks_for_a_market_buys_a_node_in_it(market):
    asks = Rules(node_selector={CAPACITY_LABEL: market.value})
    found = packing([wants("web-1", 1500, rules=asks), wants("web-2", 1500)])
    assert {new.pods[0].name: new.market for new in found.new} == {"web-1": market, "web-2": None}
    assert {(new.types, new.zones) for new in found.new} == {(("t3.small", "t2.small"), ("a", "b"))}


def test_a_market_in_which_the_pool_buys_nothing_is_not_bought():
    asks = Rules(node_selector={CAPACITY_LABEL: "spot"})
    policy = Policy(pools=(replace(POOL, market=replace(POOL.market, spot_percent=0)),))
    found = packed(look(0, pods=[wants("web-1", rules=asks)]), policy)
    assert (found.by_pool["default"].nodes, [key for key, _ in found.unplaceable]) == (0, ["default/web-1"])
    all_spot = Policy(pools=(replace(POOL, market=replace(POOL.market, spot_percent=100, on_demand_base=0)),))
    on_demand = Rules(node_selector={CAPACITY_LABEL: "on-demand"})
    assert packing([wants("web-1", rules=on_demand)], policy=all_spot).nodes == 0
    assert packing([wants("web-1", rules=asks)], policy=all_spot).new[0].market is None


def test_without_known_sizes_the_market_still_decides_which_pool_a_pod_belongs_to():
    asks = Rules(node_selector={CAPACITY_LABEL: "spot"})
    found = packing([wants("web-1", rules=asks)], catalog=())
    assert (found.unknown, found.bought_for) == (True, ("web-1",))


def test_a_booting_node_of_the_wrong_market_is_no_room():
    young = instance(0, launched_at=after(-30))
    asks = Rules(node_selector={CAPACITY_LABEL: "spot"})
    assert young.market is Market.ON_DEMAND
    assert packing([wants("web-1", rules=asks)], instances=[young]).nodes == 1
    assert packing([wants("web-1", rules=asks)], instances=[replace(young, market=Market.SPOT)]).nodes == 0


def test_what_nodes_of_a_type_offered_is_remembered_when_they_are_gone():
    seen = look(0, pods=[wants("web-1", 1950)])
    memory = Memory(pools={"default": PoolMemory(sizes={"t3.small": replace(SMALL, cpu=1900)})})
    workers = derive_workers(seen, POLICY)
    assert types(pack_pools(packing_input(seen, POLICY, workers)).by_pool["default"]) == {"t3.small": 1}
    assert types(pack_pools(packing_input(seen, POLICY, workers, memory)).by_pool["default"]) == {"t2.small": 1}


def test_a_pod_that_needs_what_kernel_and_kubelet_keep_buys_nothing():
    fits = Pool(market=MarketMix(types=("t3.small",)))
    too_much = waiting("web-1", requests=Resources(memory=int(1.95 * GIB)))
    found = packed(look(0, pods=[too_much]), Policy(pools=(fits,)))
    assert (found.by_pool["default"].nodes, len(found.unplaceable)) == (0, 1)


def test_big_is_what_takes_the_larger_share_of_a_node():
    by_memory = [waiting(f"mem-{number}", requests=Resources(cpu=100, memory=3 * GIB // 2)) for number in range(2)]
    by_cpu = [wants(f"cpu-{number}", 1000) for number in range(2)]
    found = packing([*by_cpu, *by_memory])
    assert found.bought_for == ("mem-0", "mem-1", "cpu-0", "cpu-1")
    assert found.nodes == 2


def test_pods_of_equal_size_are_taken_by_name():
    found = packing([wants("web-2"), wants("web-10"), wants("web-1")])
    assert found.bought_for == ("web-1", "web-10", "web-2")


def test_a_pod_without_a_uid_is_named_by_its_key():
    assert packing([wants("web-1", uid="")]).bought_for == ("default/web-1",)


def test_the_room_is_left_as_it_was():
    seen = look(1, pods=[wants(f"web-{number}") for number in range(6)])
    found = packing_input(seen, POLICY, derive_workers(seen, POLICY))
    assert pack_pools(found) == pack_pools(found)
    assert found.simulation.place(pod("big", requests=SMALL)) == "w000"
    assert found.simulation.place(pod("big", requests=SMALL)) is None


# ── which ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_nodes_go_to_the_zone_that_has_fewest_and_then_by_name():
    three = [wants(f"web-{number}", 2000) for number in range(3)]
    assert zones(packing(three)) == {"a": 2, "b": 1}
    full = [pod("x", "w000", requests=SMALL), pod("y", "w002", requests=SMALL)]
    assert zones(packing([*full, *three], [0, 2])) == {"a": 1, "b": 2}
    assert zones(packing([*full, *three[:1]], [0, 2])) == {"b": 1}


def test_a_node_goes_where_the_pods_data_is_however_many_are_there():
    in_a = (Volume(kind=VolumeKind.CLAIM, name="data", zones=("a",)),)
    found = packing([wants("db-1", volumes=in_a), pod("x", "w000", requests=SMALL)], [0])
    assert (found.nodes, zones(found)) == (1, {"a": 1})


def test_the_first_type_of_the_policy_that_can_hold_the_pod_is_taken():
    large = InstanceType(name="t3.large", resources=Resources(cpu=8000, memory=8 * GIB, pods=30))
    pool = Pool(market=MarketMix(types=("t3.small", "t3.large")))
    scene = {"policy": Policy(pools=(pool,)), "catalog": (*CATALOG, large)}
    assert types(packing([wants("web-1", 2000)], **scene)) == {"t3.small": 1}
    assert types(packing([wants("web-1", 2001)], **scene)) == {"t3.large": 1}


def test_replicas_that_keep_apart_need_a_node_each():
    found = packing([waiting(f"web-{number}", rules=APART) for number in range(3)], 1)
    assert (found.nodes, found.placed) == (2, ("web-0",))


def test_replicas_that_are_spread_over_zones_get_nodes_in_each():
    rules = Rules(spread=(Spread(topology=ZONE_LABEL, selector=WEB),))
    found = packing([waiting(f"web-{number}", rules=rules, requests=SMALL) for number in range(4)])
    assert zones(found) == {"a": 2, "b": 2}


def test_a_pod_that_wants_to_be_near_another_gets_its_node_in_that_zone():
    near = Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "db"})),))
    there = [pod("db-1", "w001"), pod("full", "w001", requests=Resources(cpu=1500))]
    found = packing([*there, wants("web-1", rules=near)], [1])
    assert zones(found) == {"b": 1}


def test_each_new_node_names_its_pods_and_where_else_they_could_go():
    found = packing([wants(f"web-{number}", 900) for number in range(3)])
    assert [[pod.name for pod in new.pods] for new in found.new] == [["web-0", "web-1"], ["web-2"]]
    assert [(new.types, new.zones) for new in found.new] == 2 * [(("t3.small", "t2.small"), ("a", "b"))]


def test_only_types_that_hold_all_the_pods_of_a_node_together_would_do_instead():
    offers = [
        InstanceType(name="t3.small", resources=replace(SMALL, storage=9, extended={"gpu": 2})),
        InstanceType(name="t3.nano", resources=replace(SMALL, cpu=999, storage=9, extended={"gpu": 2})),
        InstanceType(name="t3.flat", resources=replace(SMALL, storage=9, extended={"gpu": 1})),
        InstanceType(name="t3.thin", resources=replace(SMALL, storage=1, extended={"gpu": 2})),
        InstanceType(name="t3.lone", resources=replace(SMALL, storage=9, pods=1, extended={"gpu": 2})),
        InstanceType(name="t3.same", resources=replace(SMALL, cpu=1000, storage=2, pods=2, extended={"gpu": 2})),
    ]
    pool = Pool(market=MarketMix(types=tuple(offer.name for offer in offers)))
    asked = Resources(cpu=500, storage=1, extended={"gpu": 1})
    pods = [waiting(f"web-{number}", requests=asked) for number in range(2)]
    (new,) = packing(pods, policy=Policy(pools=(pool,)), catalog=tuple(offers)).new
    assert new.types == ("t3.small", "t3.same")


def test_a_node_for_data_in_one_zone_has_no_other():
    in_a = (Volume(kind=VolumeKind.CLAIM, name="data", zones=("a",)),)
    (new,) = packing([wants("db-1", volumes=in_a)]).new
    assert new.zones == ("a",)


def test_a_node_for_a_pod_that_minds_who_runs_in_its_zone_has_no_other():
    near = Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "db"})),))
    there = [pod("db-1", "w001"), pod("full", "w001", requests=Resources(cpu=1500))]
    (new,) = packing([*there, wants("web-1", rules=near)], [1]).new
    assert new.zones == ("b",)


def test_a_node_for_pods_that_are_spread_over_zones_has_no_other():
    rules = Rules(spread=(Spread(topology=ZONE_LABEL, selector=WEB),))
    found = packing([waiting(f"web-{number}", rules=rules, requests=SMALL) for number in range(2)])
    assert [new.zones for new in found.new] == [("a",), ("b",)]


def test_a_node_for_a_pod_that_others_keep_out_of_their_zone_has_no_other():
    apart = Rules(anti_affinity=(PodTerm(topology=ZONE_LABEL, selector=WEB),))
    lonely = pod("db-1", "w000", rules=apart, requests=SMALL)
    (new,) = packing([lonely, wants("web-1")], [0]).new
    assert new.zones == ("b",)


def test_a_node_for_pods_that_only_mind_their_host_may_go_anywhere():
    (new,) = packing([waiting("web-1", rules=APART)]).new
    assert new.zones == ("a", "b")


def test_the_launch_goes_where_the_pods_want_it_though_another_zone_has_fewer():
    near = Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "db"})),))
    there = [pod("db-1", "w001"), pod("full", "w001", requests=Resources(cpu=1500))]
    decision = decide(look([1], pods=[*there, wants("web-1", rules=near)]), Memory(), POLICY)
    assert [launch.zone for launch in opened(decision, Launch)] == ["b"]


# ── pods that no node helps ──────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_larger_than_any_node_buys_nothing_and_is_named_with_the_reason():
    found = packed(look(0, pods=[wants("huge-1", 2500), wants("web-1")]))
    assert found.by_pool["default"].bought_for == ("web-1",)
    assert_wording(found.unplaceable)


def test_a_pod_that_fits_on_a_node_that_is_there_is_not_lost_though_no_new_one_could_hold_it():
    foreign = node(9, pool=None, instance="", labels={"disk": "ssd"})
    picky = wants("db-1", rules=Rules(node_selector={"disk": "ssd"}))
    assert packed(look(0, pods=[picky], nodes=[foreign])).unplaceable == ()
    assert_wording(packed(look(0, pods=[picky])).unplaceable)


def test_a_pod_that_no_new_node_satisfies_because_of_others_is_named_too():
    near = Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "db"})),))
    found = packing([wants("web-1", rules=near), wants("app-1")])
    assert (found.nodes, found.bought_for) == (1, ("app-1",))
    assert_wording(found.cannot_hold)


def test_a_pod_that_wants_to_be_near_one_that_is_placed_after_it_gets_its_node():
    near = Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "db"})),))
    found = packing([wants("web-1", 2000, rules=near), wants("db-1")])
    assert (found.nodes, found.bought_for, found.cannot_hold) == (2, ("db-1", "web-1"), ())
    assert len(zones(found)) == 1


def test_a_pod_that_wants_to_be_near_one_of_another_pool_gets_its_node():
    fast = Pool(name="fast", labels={"disk": "ssd"})
    targets = (TARGET, replace(TARGET, pool="fast"))
    near = Rules(affinity=(PodTerm(topology=ZONE_LABEL, selector=Selector(labels={"app": "db"})),))
    there = [wants("web-1", rules=near), wants("db-1", 2000, rules=Rules(node_selector={"disk": "ssd"}))]
    found = packed(look(0, pods=there, targets=targets), Policy(pools=(POOL, fast)))
    assert [(each.bought_for, each.cannot_hold) for each in found.by_pool.values()] == [
        (("web-1",), ()),
        (("db-1",), ()),
    ]


def test_packing_by_itself_also_names_what_is_too_large():
    known = templates(POOL, look(0, pods=[]))
    alone = PoolPacking(SchedulerSimulation([]), known, {}, PodCompatibility({"default": known}), Assignments())
    alone.take([wants("huge-1", 2500)])
    alone.place()
    found = alone.describe()
    assert_wording(found.cannot_hold)
    assert (found.nodes, found.unknown) == (0, False)


# ── when little is known ─────────────────────────────────────────────────────────────────────────────────────────


def test_without_pods_there_is_no_outlook():
    for seen in (look(1), look(1, pods=[], kubernetes=Missing("timeout"))):
        assert packing_input(seen, POLICY, derive_workers(seen, POLICY)) is None


def test_without_any_template_the_number_is_unknown_but_room_that_is_there_still_counts():
    five = [wants(f"web-{number}") for number in range(5)]
    found = packing(five, 1, policy=Policy(pools=(Pool(market=MarketMix(types=("unheard.of",))),)), catalog=())
    placed = tuple(f"web-{number}" for number in range(4))
    assert found == Packing(placed=placed, on_ready=placed, bought_for=("web-4",), unknown=True)


def test_nothing_is_unknown_when_everybody_has_a_place():
    found = packing([wants("web-1")], 1, policy=Policy(pools=(Pool(market=MarketMix(types=("unheard.of",))),)))
    assert found == Packing(placed=("web-1",), on_ready=("web-1",))


def test_a_pool_of_unknown_size_does_not_get_pods_that_its_labels_or_taints_keep_off():
    tainted = Pool(market=MarketMix(types=("unheard.of",)), taints=(Taint(key="dedicated"),))
    seen = look(0, pods=[wants("web-1")])
    found = packed(seen, Policy(pools=(tainted,)))
    assert found.by_pool["default"] == Packing()
    assert_wording(found.unplaceable)


def test_a_pool_of_unknown_zones_can_still_get_pods():
    found = packing([wants("web-1")], targets=())
    assert (found.unknown, found.bought_for) == (True, ("web-1",))


def test_a_pool_without_types_holds_nobody():
    empty = Policy(pools=(Pool(market=MarketMix(types=())),))
    assert_wording(packed(look(0, pods=[wants("web-1")]), empty).unplaceable)


# ── several pools ────────────────────────────────────────────────────────────────────────────────────────────────

BATCH = Pool(name="batch", market=POOL.market, labels={"kind": "batch"}, taints=(Taint(key="batch"),))
TWO = Policy(pools=(POOL, BATCH))
TARGETS = (TARGET, LaunchTarget(pool="batch", subnets={"c": "subnet-c"}))
FOR_BATCH = Rules(tolerations=(Toleration(key="batch", operator="Exists"),), node_selector={"kind": "batch"})


def test_a_pod_belongs_to_the_first_pool_that_can_hold_it():
    tolerant = replace(FOR_BATCH, node_selector={})
    pods = [wants("web-1"), wants("job-1", rules=FOR_BATCH), wants("any-1", rules=tolerant)]
    found = packed(look(0, pods=pods, targets=TARGETS), TWO)
    assert found.by_pool["default"].bought_for == ("web-1", "any-1")
    assert found.by_pool["batch"].bought_for == ("job-1",)
    assert zones(found.by_pool["batch"]) == {"c": 1}


def test_who_has_a_choice_of_pools_shares_the_node_of_those_who_have_none():
    tolerant = replace(FOR_BATCH, node_selector={})
    pods = [wants("any-1", rules=tolerant), wants("job-1", rules=FOR_BATCH)]
    found = packed(look(0, pods=pods, targets=TARGETS), TWO).by_pool
    assert (found["default"].nodes, found["default"].placed, found["batch"].nodes) == (0, ("any-1",), 1)
    (new,) = found["batch"].new
    assert [pod.name for pod in new.pods] == ["job-1", "any-1"]


def test_pods_of_two_pools_do_not_share_the_same_free_place():
    foreign = node(9, pool=None, instance="", labels={"kind": "batch"}, allocatable=replace(SMALL, cpu=500))
    pods = [wants("web-1"), wants("job-1", rules=FOR_BATCH)]
    found = packed(look(0, pods=pods, nodes=[foreign], targets=TARGETS), TWO)
    assert found.by_pool["default"].placed == ("web-1",)
    assert found.by_pool["batch"].bought_for == ("job-1",)


def test_a_pool_whose_size_is_known_comes_before_one_of_which_nobody_knows():
    unknown = Pool(name="unknown", market=MarketMix(types=("unheard.of",)))
    found = packed(look(0, pods=[wants("web-1"), wants("huge-1", 9000)]), Policy(pools=(unknown, POOL)))
    assert found.by_pool["default"].bought_for == ("web-1",)
    assert found.by_pool["unknown"] == Packing(bought_for=("huge-1",), unknown=True)


def test_with_several_pools_the_reason_is_given_for_each():
    seen = look(0, pods=[], targets=TARGETS)
    found = assign([wants("huge-1", 9000)], packing_input(seen, TWO, ()))
    assert found.by_pool == {"default": (), "batch": ()}
    ((refused, why),) = found.unplaceable
    assert refused.name == "huge-1"
    assert_wording(why)


# ── whatever waits ───────────────────────────────────────────────────────────────────────────────────────────────

sizes = st.tuples(st.integers(1, 2000), st.integers(1, 2 * GIB))


@settings(max_examples=50, deadline=None)
@given(size=sizes, fewer=st.integers(0, 12), more=st.integers(0, 12), there=st.integers(0, 3))
def test_more_pods_of_a_size_never_need_fewer_nodes(size, fewer, more, there):
    def needed(count):
        cpu, memory = size
        asked = Resources(cpu=cpu, memory=memory)
        return packing([waiting(f"web-{number}", requests=asked) for number in range(count)], there).nodes

    assert needed(fewer) <= needed(fewer + more)


@settings(max_examples=50, deadline=None)
@given(asked=st.lists(sizes, max_size=20), shuffled=st.randoms(use_true_random=False))
def test_pods_of_all_sizes_get_at_least_what_they_add_up_to_and_the_order_of_asking_does_not_matter(asked, shuffled):
    pods = [
        waiting(f"web-{number:02}", requests=Resources(cpu=cpu, memory=memory))
        for number, (cpu, memory) in enumerate(asked)
    ]
    found = packing(pods)
    least = max(ceil(sum(cpu for cpu, _ in asked) / 2000), ceil(sum(memory for _, memory in asked) / (2 * GIB)))
    assert least <= found.nodes <= len(asked)
    assert Counter(found.bought_for) == Counter(pod.uid for pod in pods)
    assert Counter(pod.uid for new in found.new for pod in new.pods) == Counter(found.bought_for)
    assert len(found.new) == found.nodes
    assert abs(zones(found)["a"] - zones(found)["b"]) <= 1
    shuffled.shuffle(pods)
    assert packing(pods) == found


def test_a_pod_that_may_only_run_on_a_node_that_is_named_buys_nothing():
    term = NodeTerm(fields=(Requirement(key="metadata.name", values=("w000",)),))
    full = pod("full", "w000", requests=SMALL)
    found = packed(look(1, pods=[full, wants("web-1", rules=Rules(node_terms=(term,)))]))
    assert_wording(found.unplaceable)
