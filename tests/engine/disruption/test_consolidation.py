"""Whole decisions about nodes that are under-used by what pods ask for."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.engine.decide import decide
from nodefleet.engine.disruption.consolidation import ALL, REPLACED
from nodefleet.model.decision import Action, BoundSource
from nodefleet.model.inventory import InstanceType, Market, Notice, NoticeKind, Resources
from nodefleet.model.operations import Launch, Removal
from nodefleet.model.snapshot import ActiveWindow, Missing, Pause, Recycle
from nodefleet.model.state import Breaches, MarketSwap, Memory, PoolMemory, RotationState
from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Budget, PodTerm, Rules, Selector
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Headroom
from nodefleet.policy.pool import Budgets, Consolidation, Limits, MarketMix, Pool, Steps, Window
from nodefleet.scheduling.predicates import NodeModel
from nodefleet.scheduling.simulation import SchedulerSimulation
from support.builders import CATALOG, NOON, SMALL, after, instance, look, node, only, pod, waiting
from support.decisions import opened

LONG = after(-600)
EVERY = Consolidation(mode="underutilised")
BETWEEN = {"cpu": 40, "memory": 45}  # between the thresholds, and low enough for one node fewer


def pooled(rules=EVERY, **others) -> Policy:
    return Policy(pools=(Pool(limits=others.pop("limits", Limits(min=1, max=6)), consolidation=rules, **others),))


def known(**memory) -> Memory:
    return Memory(
        looked_at=after(-120), pools={"default": PoolMemory(**{"under_used": {ALL: LONG, REPLACED: LONG}, **memory})}
    )


def spread(*counts, cpu=300):
    """So many pods on each worker."""
    return [
        pod(f"app{number}x{each}-1", f"w{number:03}", requests=Resources(cpu=cpu, memory=1 << 20))
        for number, count in enumerate(counts)
        for each in range(count)
    ]


def half_full(*counts, **changes):
    return look(len(counts), pods=spread(*counts), **{**BETWEEN, **changes})


def leaves(seen, policy=None, memory=None):
    decision = decide(seen, known() if memory is None else memory, policy or pooled())
    return [each.node for each in opened(decision, Removal)]


# ── removal ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_whose_pods_fit_elsewhere_leaves_though_no_signal_is_calm():
    decision = decide(half_full(3, 3, 1, 3), known(), pooled())
    assert (only(decision).action, only(decision).target) == (Action.SHRINK, 3)
    (removal,) = opened(decision, Removal)
    assert (removal.node, removal.consolidates, removal.rotated, removal.saves_usd) == ("w002", True, False, None)
    assert decision.memory.pool("default").last_shrink == NOON


def several(number, **others):
    return pooled(budgets=Budgets(removals=number), steps=Steps(down=number), **others)


LIGHT = {"cpu": 31, "memory": 20}  # CPU is still not calm


def test_several_nodes_leave_together_where_the_budget_of_removals_allows_it():
    seen = half_full(3, 1, 1, 1, 1, 3, **LIGHT)
    gone = ["w001", "w002", "w003"]
    assert [leaves(seen, several(number)) for number in (1, 2)] == [gone[:1], gone[:2]]
    decision = decide(seen, known(), several(2))
    assert (only(decision).target, [each.consolidates for each in opened(decision, Removal)]) == (4, [True, True])


def test_no_more_leave_together_than_the_load_and_min_allow():
    assert leaves(half_full(3, 1, 1, 1, 1, 3), several(3)) == ["w001"]
    assert leaves(half_full(3, 1, 1, 1, 1, 3, **LIGHT), several(3, limits=Limits(min=5, max=6))) == ["w001"]


def test_nodes_that_could_leave_one_after_the_other_do_not_leave_together_if_one_pod_may_take_the_others_place():
    """The larger one of the two that leave fits on w003 only; the smaller one there or on w004."""
    sizes = (2000, 1000, 800, 300, 1150, 2000)
    pods = [pod(f"a{n}-1", f"w00{n}", requests=Resources(cpu=cpu, memory=1 << 20)) for n, cpu in enumerate(sizes)]
    seen = look(6, pods=pods, **LIGHT)
    assert leaves(seen, several(2)) == leaves(seen, several(1)) == ["w001"]
    without_the_smaller = look(6, pods=[*pods[:2], *pods[3:]], **LIGHT)
    assert leaves(without_the_smaller, several(2)) == ["w002", "w001"]


def test_the_time_begins_when_nothing_stands_against_it():
    first = decide(half_full(3, 3, 1, 3), Memory(), pooled())
    assert (only(first).action, first.memory.pool("default").under_used) == (Action.HOLD, {ALL: NOON, REPLACED: NOON})
    memory, actions = first.memory, []
    for seconds in range(120, 601, 120):
        decision = decide(half_full(3, 3, 1, 3, at=after(seconds)), memory, pooled())
        memory = decision.memory
        actions.append(only(decision).action)
    assert actions == [Action.HOLD] * 4 + [Action.SHRINK]


def test_what_stands_against_it_starts_the_time_again():
    busy = decide(half_full(3, 3, 1, 3, cpu=80), known(), pooled())
    assert busy.memory.pool("default").under_used == {}


def test_a_fleet_whose_pods_fit_nowhere_else_is_stable():
    seen = half_full(5, 5, 5, 5)
    assert leaves(seen) == []
    assert only(decide(seen, known(), pooled())).action is Action.HOLD


def test_off_never_acts():
    decision = decide(half_full(3, 3, 0, 3), known(), pooled(Consolidation(mode="off")))
    assert (opened(decision, Removal), decision.memory.pool("default").under_used) == ([], {})


@pytest.mark.parametrize(
    ("idle", "pods", "gone"), [(95.0, 0, ["w002"]), (90.0, 0, ["w002"]), (89.0, 0, []), (95.0, 1, [])]
)
def test_by_default_only_an_idle_node_without_pods_leaves(idle, pods, gone):
    memory, others = known(under_used={"i-002": LONG}), {f"w00{n}": 50.0 for n in (0, 1, 3)}
    assert leaves(half_full(3, 3, pods, 3, idle={**others, "w002": idle}), pooled(Consolidation()), memory) == gone
    assert leaves(half_full(3, 3, pods, 3), pooled(Consolidation()), memory) == []


def test_a_node_that_has_just_become_empty_stays_for_a_while():
    seen = half_full(3, 3, 0, 3, idle={"w002": 95.0})
    decision = decide(seen, known(under_used={"i-001": LONG}), pooled(Consolidation()))
    assert (opened(decision, Removal), decision.memory.pool("default").under_used) == ([], {"i-002": NOON})


SAVED = replace(CATALOG[0], hourly_usd=0.02, spot_usd=0.006)


def test_the_largest_saving_for_each_pod_that_moves_comes_first():
    """The On-Demand node costs more than three times as much, and has one pod more."""
    seen = half_full(2, 1, 3, 3, catalog=(SAVED,))
    decision = decide(seen, known(), pooled(market=MarketMix(types=("t3.small",), on_demand_base=0)))
    (removal,) = opened(decision, Removal)
    assert (removal.node, removal.saves_usd) == ("w000", 0.02)
    assert "0.48 USD a day" in only(decision).reason


def test_what_it_saves_is_not_known_without_a_price():
    (removal,) = opened(decide(half_full(3, 3, 0, 3, catalog=()), known(), pooled()), Removal)
    assert removal.saves_usd is None


@pytest.mark.parametrize(
    ("seen", "memory"),
    [
        ({"cpu": 80}, {}),
        ({"memory": 80}, {}),
        ({"cpu": 50}, {}),  # 66.7 % on three nodes
        ({"cpu": Missing("away")}, {}),
        ({}, {"last_grow": after(-599)}),
        ({}, {"last_shrink": after(-599)}),
        ({}, {"last_left": after(-599)}),
        ({}, {"swap": MarketSwap(at=after(-60), on_demand=1)}),
        ({"instances": [instance(9, launched_at=after(-30))]}, {}),
        ({"instances": [instance(9)], "nodes": [node(9, ready=False, ready_changed_at=after(-60))]}, {}),
        ({"commands": (Pause(),)}, {}),
        ({"commands": (Pause(scale_down_only=True),)}, {}),
        ({"notices": (Notice(instance="i-003", kind=NoticeKind.SCHEDULED_CHANGE, at=after(86400)),)}, {}),
    ],
)
def test_nothing_is_consolidated_while(seen, memory):
    assert leaves(half_full(3, 3, 1, 3)) == ["w002"]
    assert leaves(half_full(3, 3, 1, 3, **seen), memory=known(**memory)) == []


def test_nothing_is_consolidated_while_pods_wait():
    stuck = waiting("huge-1", requests=Resources(cpu=1000))
    assert leaves(look(4, pods=[*spread(3, 3, 1, 3), stuck], **BETWEEN)) == []


# ── at max, for pods that no node of the pool can hold ───────────────────────────────────────────────────────────────

IN_A = Rules(node_selector={ZONE_LABEL: "a"})


def zone_is_full(*more, **changes):
    """Two workers of zone a are full, two of zone b are idle, and a pod waits for zone a."""
    stuck = waiting("late-1", rules=IN_A, requests=Resources(cpu=1000, memory=1 << 20))
    idle = {f"w{n:03}": 95.0 for n in range(4)}
    return look(4, pods=[*spread(6, 0, 6, 0), stuck, *more], **{**BETWEEN, "idle": idle, **changes})


def at_max(most=4, least=1, mode="empty", **others):
    return pooled(Consolidation(mode=mode), limits=Limits(min=least, max=most), **others)


EMPTY_LONG = known(under_used={"i-001": LONG, "i-003": LONG})


def test_an_idle_node_leaves_at_max_for_the_node_that_pods_wait_for():
    decision = decide(zone_is_full(), EMPTY_LONG, at_max())
    (removal,) = opened(decision, Removal)
    assert (removal.node, removal.consolidates, removal.saves_usd) == ("w001", False, None)
    assert (only(decision).action, only(decision).target) == (Action.SHRINK, 3)


def test_what_comes_for_it_is_what_the_pods_wait_for():
    gone = look([0, 2, 3], pods=[*spread(6, 0, 6), zone_is_full().kubernetes.pods[-1]], **BETWEEN)
    (launch,) = opened(decide(gone, known(last_shrink=after(-10)), at_max()), Launch)
    assert (launch.zone, launch.count) == ("a", 1)


def test_the_time_of_an_idle_node_runs_while_pods_wait_at_max():
    seen = decide(zone_is_full(), Memory(), at_max()).memory.pool("default").under_used
    assert seen == {"i-001": NOON, "i-003": NOON, ALL: NOON}
    assert decide(zone_is_full(), Memory(), at_max(most=5)).memory.pool("default").under_used == {}


ANY_LONG = known(under_used={ALL: LONG})


def all_in_a(*counts):
    return [replace(each, rules=IN_A) for each in spread(*counts)]


def test_at_max_a_node_whose_pods_fit_on_the_others_makes_room_with_empty_too():
    small = [pod(f"small-{n}", f"w00{n}", requests=Resources(cpu=50, memory=1 << 20)) for n in (1, 3)]
    seen = zone_is_full(*small)
    assert leaves(seen, at_max(), ANY_LONG) == ["w001"]
    assert leaves(seen, at_max(mode="off"), ANY_LONG) == []
    fits = half_full(6, 0, 1, 1, idle={f"w{n:03}": 95.0 for n in range(4)})
    assert leaves(fits, at_max(), ANY_LONG) == []  # no pod waits


@pytest.mark.parametrize(("idle", "left"), [(50.0, []), (69.0, []), (70.0, ["w001"])])
def test_what_works_on_a_node_without_pods_keeps_it_at_max_too_unless_it_is_little(idle, left):
    """Little is what is calm for a whole pool: 30 % of the CPU. Daemons of a small node take more than 10 % of it."""
    measured = {"w000": 30.0, "w001": idle, "w002": 30.0, "w003": idle}
    stuck = waiting("late-1", rules=IN_A, requests=Resources(cpu=1000, memory=1 << 20))
    seen = look(4, pods=[*all_in_a(6, 0, 6), stuck], idle=measured, **BETWEEN)
    assert leaves(seen, at_max(), ANY_LONG) == left


def test_neither_its_zone_nor_the_on_demand_base_keeps_the_last_one_at_max():
    """The pods wait for a node that takes its place in both."""
    stuck = waiting("late-1", rules=IN_A, requests=Resources(cpu=1000, memory=1 << 20))
    paid = (instance(1, market=Market.ON_DEMAND), instance(0, market=Market.SPOT), instance(2), instance(4))
    pods, idle = [*all_in_a(6, 0, 6, 0, 6), stuck], {"w000": 30.0, "w001": 95.0, "w002": 30.0, "w004": 30.0}
    seen = look([], instances=paid, nodes=map(node, (0, 1, 2, 4)), pods=pods, idle=idle, **BETWEEN)
    assert leaves(seen, at_max(), ANY_LONG) == ["w001"]
    assert leaves(seen, at_max(most=5), ANY_LONG) == []


@pytest.mark.parametrize(
    ("seen", "policy"),
    [
        ({}, at_max(most=5)),  # the pool can grow
        ({}, at_max(least=4)),
        ({}, at_max(mode="off")),
        ({"cpu": 80}, at_max()),
        ({"cpu": 50}, at_max()),  # 66.7 % on three nodes
        ({"idle": {"w001": 50.0, "w003": 50.0}}, at_max()),  # something works there without pods
        ({"commands": (Pause(),)}, at_max()),
    ],
)
def test_no_node_makes_room_while(seen, policy):
    assert leaves(zone_is_full(**seen), policy, EMPTY_LONG) == []


def test_no_node_makes_room_for_pods_that_it_can_hold_or_that_no_new_node_would():
    here = waiting("here-1", requests=Resources(cpu=1000, memory=1 << 20))
    huge = waiting("huge-1", requests=Resources(cpu=9000, memory=1 << 20))
    pods = spread(6, 0, 6, 0)
    for each in (here, huge):
        seen = look(4, pods=[*pods, each], idle={"w001": 95.0, "w003": 95.0}, **BETWEEN)
        assert leaves(seen, at_max(), EMPTY_LONG) == []


def test_no_node_makes_room_for_a_mere_count_of_pods():
    assert leaves(look(4, pending=3, idle={"w001": 95.0}, **BETWEEN), at_max(), EMPTY_LONG) == []


def test_without_pod_objects_nothing_is_known_to_be_under_used():
    assert leaves(look(4, **BETWEEN)) == []


def test_min_budgets_and_protection_hold():
    assert leaves(half_full(3, 3, 1, 3), pooled(limits=Limits(min=4, max=6))) == []
    covered = Budget(name="app2", selector=Selector(labels={"app": "app2x0"}), max_unavailable="0")
    assert leaves(half_full(3, 3, 1, 3, budgets=(covered,))) == ["w001"]


def test_a_young_node_stays():
    young = [instance(n, launched_at=after(-599)) for n in range(4)]
    seen = look(0, instances=young, nodes=map(node, range(4)), pods=spread(3, 3, 1, 3), **BETWEEN)
    assert leaves(seen) == []


def test_only_while_its_window_is_open():
    night = Window(name="night", cron="0 2 * * *", lasting=timedelta(hours=2))
    policy = pooled(replace(EVERY, window="night"), windows=(night,))
    assert leaves(half_full(3, 3, 1, 3), policy) == []
    is_open = (ActiveWindow(name="night", until=after(600)),)
    assert leaves(half_full(3, 3, 1, 3, windows=is_open), policy) == ["w002"]


def test_while_a_worker_is_replaced_no_other_is_removed():
    """The worker that is due cannot leave yet: the new node has less room than it needs."""
    order = Recycle(instance="i-001", at=after(-60), until=after(600))
    stuck = pod("stuck-1", "w001", requests=Resources(cpu=1750, memory=1 << 20))
    seen = look(4, pods=[*spread(4, 0, 1, 4), stuck], commands=(order,), **BETWEEN)
    begun = RotationState(since=after(-700), begun_at=after(-700), nodes=3)
    assert leaves(seen, memory=known(rotation=begun, ahead=1)) == []


# ── replacement by a cheaper node ────────────────────────────────────────────────────────────────────────────────────

LARGE = replace(SMALL, cpu=8000, memory=4 * SMALL.memory)
OFFERS = (
    InstanceType(name="t3.small", resources=SMALL, hourly_usd=0.02, spot_usd=0.006),
    InstanceType(name="t3.large", resources=LARGE, hourly_usd=0.08, spot_usd=0.024),
)
MIXED = MarketMix(types=("t3.small", "t3.large"), spot_percent=100, on_demand_base=0, max_price_usd=0.1)


def too_large(pods=4, at=NOON, **changes):
    """A large Spot node with a few pods, and two small ones without room for them."""
    large = instance(0, type="t3.large", market=Market.SPOT)
    own = node(0, allocatable=LARGE)
    nodes = [replace(own, labels={**own.labels, TYPE_LABEL: "t3.large"}), *(node(n) for n in (1, 2))]
    small = Rules(node_selector={TYPE_LABEL: "t3.small"})
    running = [pod(f"few{n}-1", "w000", requests=Resources(cpu=400, memory=1 << 20)) for n in range(pods)]
    full = [pod(f"full{n}-1", f"w00{n}", rules=small, requests=Resources(cpu=1900)) for n in (1, 2)]
    return look(
        0,
        at=at,
        instances=[large, instance(1), instance(2), *changes.pop("instances", ())],
        nodes=[*nodes, *changes.pop("nodes", ())],
        pods=[*running, *full],
        catalog=changes.pop("catalog", OFFERS),
        **{**BETWEEN, "cpu": 35, "memory": 40, **changes},
    )


CHEAP = pooled(market=MIXED)


def test_a_cheaper_node_is_launched_first_and_then_the_other_leaves():
    first = decide(too_large(), known(), CHEAP)
    (launch,) = opened(first, Launch)
    assert (launch.types, launch.market, launch.zone, launch.count) == (("t3.small",), Market.SPOT, "a", 1)
    assert first.memory.pool("default").ahead == 1
    boots = too_large(at=after(60), instances=[instance(4, launched_at=NOON)])
    second = decide(boots, first.memory, CHEAP)
    assert (opened(second, Launch), opened(second, Removal)) == ([], [])
    has_come = {"instances": [instance(4, launched_at=NOON)], "nodes": [node(4, ready_changed_at=after(90))]}
    third = decide(too_large(at=after(120), **has_come), second.memory, CHEAP)
    (removal,) = opened(third, Removal)
    assert (removal.node, removal.consolidates, removal.rotated) == ("w000", True, False)
    assert removal.saves_usd == pytest.approx(0.024 - 0.006)


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"pods": 6}, EVERY),  # too many for the small type
        ({}, replace(EVERY, savings_percent=80)),
        ({}, replace(EVERY, mode="empty")),
        ({"catalog": ()}, EVERY),
        ({"catalog": (OFFERS[0], replace(OFFERS[1], hourly_usd=None, spot_usd=None))}, EVERY),
        ({"catalog": (replace(OFFERS[0], hourly_usd=None, spot_usd=None), OFFERS[1])}, EVERY),
        ({"cpu": 80}, EVERY),
    ],
)
def test_no_cheaper_node_is_launched_when(changes, rules):
    assert opened(decide(too_large(**changes), known(), pooled(rules, market=MIXED)), Launch) == []


BUSY = {"cpu": 45, "memory": 40}  # 67.5 % on two nodes: the three stay three


def test_a_load_that_needs_all_nodes_still_lets_a_cheaper_one_take_the_place_of_one():
    (launch,) = opened(decide(too_large(**BUSY), known(), CHEAP), Launch)
    assert launch.types == ("t3.small",)


def test_a_load_that_needed_all_nodes_must_have_been_low_enough_for_a_while():
    """What was measured against a removal starts its time again, though not that of a replacement."""
    before = decide(half_full(3, 3, 1, 3, cpu=50), known(), pooled()).memory
    assert before.pool("default").under_used == {REPLACED: LONG}
    assert leaves(half_full(3, 3, 1, 3, at=after(120)), memory=before) == []


def test_a_load_that_needs_all_nodes_lets_none_leave():
    room = {"instances": [instance(4)], "nodes": [node(4)]}
    assert opened(decide(too_large(**room, cpu=55, memory=40), known(), CHEAP), Removal) == []


@pytest.mark.parametrize(("idle", "launches"), [(90.0, 1), (86.0, 1), (84.0, 0), (20.0, 0)])
def test_the_cpu_that_a_node_uses_must_be_there_on_the_cheaper_one(idle, launches):
    """A tenth of eight cores is 40 % of two; the growth threshold less its margin is 60 %."""
    seen = too_large(**BUSY, idle={"w000": idle, "w001": 40.0, "w002": 40.0})
    assert len(opened(decide(seen, known(), CHEAP), Launch)) == launches


def test_a_node_that_can_simply_leave_is_not_replaced():
    room = {"instances": [instance(4)], "nodes": [node(4)]}
    decision = decide(too_large(**room), known(), CHEAP)
    assert (opened(decision, Launch), [each.node for each in opened(decision, Removal)]) == ([], ["w004"])


def test_a_protected_node_is_not_replaced():
    covered = Budget(name="few", selector=Selector(), max_unavailable="0")
    assert opened(decide(too_large(budgets=(covered,)), known(), CHEAP), Launch) == []


def test_at_max_nothing_is_launched_for_it_and_nothing_leaves():
    decision = decide(too_large(), known(), pooled(market=MIXED, limits=Limits(min=1, max=3)))
    assert (opened(decision, Launch), opened(decision, Removal)) == ([], [])


# ── one cheaper node for several ─────────────────────────────────────────────────────────────────────────────────────

MEDIUM = replace(SMALL, cpu=3000, memory=2 * SMALL.memory)
DENSE = (OFFERS[0], InstanceType(name="t3a.medium", resources=MEDIUM, hourly_usd=0.03, spot_usd=0.009))
PAIRS = MarketMix(types=("t3.small", "t3a.medium"), spot_percent=100, on_demand_base=0, max_price_usd=0.1)
FOUR = tuple(instance(n, zone="a", market=Market.SPOT) for n in range(4))


def in_zone_a(number, **changes):
    made = node(number, **changes)
    return replace(made, labels={**made.labels, ZONE_LABEL: "a"})


def two_half_full(*, here=(0, 1, 2, 3), new=None, at=NOON, counts=(3, 3, 5, 5), rules=None, **changes):
    """Two workers with pods of 1200m of 2000m, two that are full, and the new one once it is there: booting or ready.
    The pods of workers that have left run on the new one."""
    gone = [number for number in range(4) if number not in here]
    pods = [
        pod(
            f"app{n}x{each}-1",
            f"w{4 if n in gone else n:03}",
            requests=Resources(cpu=400, memory=1 << 20),
            **(rules or {}),
        )
        for n, count in enumerate(counts)
        for each in range(count)
    ]
    instances = [FOUR[number] for number in here]
    nodes = [in_zone_a(number) for number in here]
    if new:
        instances.append(instance(4, zone="a", type="t3a.medium", market=Market.SPOT, launched_at=after(30)))
    if new == "ready":
        made = in_zone_a(4, allocatable=MEDIUM, ready_changed_at=after(90))
        nodes.append(replace(made, labels={**made.labels, TYPE_LABEL: "t3a.medium"}))
    return look(
        0,
        at=at,
        instances=[*instances, *changes.pop("instances", ())],
        nodes=[*nodes, *changes.pop("nodes", ())],
        pods=[*pods, *changes.pop("pods", ())],
        catalog=changes.pop("catalog", DENSE),
        **{**BETWEEN, **changes},
    )


UP_TO_THREE = replace(EVERY, nodes_for_one=3)


def merging(rules=UP_TO_THREE, **others):
    return pooled(rules, market=PAIRS, **others)


def test_two_nodes_give_way_to_one_cheaper_node_which_comes_first():
    first = decide(two_half_full(), known(), merging())
    (launch,) = opened(first, Launch)
    assert (launch.types, launch.market, launch.zone, launch.count) == (("t3a.medium",), Market.SPOT, "a", 1)
    known_of = first.memory.pool("default")
    assert (known_of.rotation.together, known_of.rotation.nodes, known_of.ahead) == (("i-000", "i-001"), 4, 0)
    assert all(name in only(first).reason for name in ("w000", "w001", "t3a.medium"))
    second = decide(two_half_full(new="boots", at=after(60)), first.memory, merging())
    assert (opened(second, Launch), opened(second, Removal)) == ([], [])
    third = decide(two_half_full(new="ready", at=after(120)), second.memory, merging())
    (one,) = opened(third, Removal)
    assert (one.node, one.consolidates, one.saves_usd) == ("w000", True, pytest.approx(0.006 - 0.009))
    assert all(name in one.reason for name in ("w000", "w001", "w004", "t3a.medium"))
    memory = third.memory
    for seconds in range(240, 720, 120):  # removal.settle: the first one's pods must be ready again
        settling = decide(two_half_full(here=(1, 2, 3), new="ready", at=after(seconds)), memory, merging())
        assert (opened(settling, Launch), opened(settling, Removal)) == ([], [])
        memory = settling.memory
    fourth = decide(two_half_full(here=(1, 2, 3), new="ready", at=after(720)), memory, merging())
    (other,) = opened(fourth, Removal)
    assert (other.node, other.consolidates, other.saves_usd) == ("w001", True, 0.006)
    assert fourth.memory.pool("default").rotation == RotationState()
    last = decide(two_half_full(here=(2, 3), new="ready", at=after(840)), fourth.memory, merging())
    assert (opened(last, Launch), opened(last, Removal), last.memory.pool("default").rotation) == ([], [], None)


def test_both_leave_together_where_the_budget_of_removals_allows_it():
    policy = merging(budgets=Budgets(removals=2), steps=Steps(down=2))
    launched = decide(two_half_full(**LIGHT), known(), policy)
    assert len(opened(launched, Launch)) == 1
    decision = decide(two_half_full(new="ready", at=after(120), **LIGHT), launched.memory, policy)
    assert [each.node for each in opened(decision, Removal)] == ["w000", "w001"]
    saved = sum(each.saves_usd for each in opened(decision, Removal))
    assert saved == pytest.approx(2 * 0.006 - 0.009)


def test_three_give_way_to_one_where_the_policy_lets_them():
    """Two cost less than the new one."""
    offers = (OFFERS[0], InstanceType(name="t3a.medium", resources=LARGE, hourly_usd=0.05, spot_usd=0.015))
    seen = two_half_full(counts=(4, 4, 4, 5), catalog=offers, cpu=28, memory=20)
    assert len(opened(decide(seen, known(), merging()), Launch)) == 1
    assert opened(decide(seen, known(), merging(replace(UP_TO_THREE, nodes_for_one=2))), Launch) == []


@pytest.mark.parametrize(
    ("changes", "policy"),
    [
        ({"counts": (5, 5, 5, 5)}, merging(replace(UP_TO_THREE, savings_percent=26))),
        ({"counts": (5, 5, 5, 5), "catalog": OFFERS}, merging()),  # none is cheaper by what it holds
        ({"catalog": ()}, merging()),
        ({}, merging(replace(UP_TO_THREE, savings_percent=26))),  # two at 0.006 against one at 0.009
        ({}, merging(EVERY)),
        ({}, merging(replace(UP_TO_THREE, mode="empty"))),
        ({}, merging(limits=Limits(min=4, max=6))),
        ({}, merging(limits=Limits(min=1, max=4))),  # no room to launch first
        ({"cpu": 50}, merging()),  # 66.7 % on three nodes
        ({"memory": 55}, merging()),
        ({"idle": {f"w{n:03}": 10.0 for n in range(4)}}, merging()),  # 90 % of two on twice their cores
        ({"idle": {"w002": 60.0, "w003": 60.0}}, merging()),  # nobody knows what they use
        ({"instances": [instance(9, launched_at=after(-30))]}, merging()),
        ({"commands": (Pause(),)}, merging()),
        ({"budgets": (Budget(name="all", selector=Selector(), max_unavailable="0"),)}, merging()),
    ],
)
def test_no_node_comes_for_several_when(changes, policy):
    assert len(opened(decide(two_half_full(), known(), merging()), Launch)) == 1
    assert opened(decide(two_half_full(**changes), known(), policy), Launch) == []


BEGUN = RotationState(begun_at=NOON, nodes=4, together=("i-000", "i-001"))


def left_by(seen, state=BEGUN, policy=None, **memory):
    decision = decide(
        seen, replace(known(rotation=state, **memory), looked_at=after(-120, seen.at)), policy or merging()
    )
    return [each.node for each in opened(decision, Removal)], decision.memory.pool("default").rotation


def has_come(**changes):
    return two_half_full(new="ready", at=changes.pop("at", after(120)), **changes)


def test_pods_that_one_node_cannot_hold_together_keep_their_nodes():
    """They fit on it by their size; each node has a pod of a service whose pods keep apart."""
    apart = Rules(anti_affinity=(PodTerm(topology=HOST_LABEL, selector=Selector(labels={"app": "lonely"})),))
    lonely = [pod(f"lonely-{n}", f"w{n:03}", labels={"app": "lonely"}, rules=apart) for n in range(4)]
    assert opened(decide(two_half_full(pods=lonely), known(), merging()), Launch) == []
    assert len(opened(decide(two_half_full(pods=lonely[:1]), known(), merging()), Launch)) == 1


@pytest.mark.parametrize("changes", [{"zone": "b"}, {"market": Market.ON_DEMAND}])
def test_nodes_of_two_zones_or_markets_are_no_set(changes):
    other = tuple(replace(each, **changes) if each.id == "i-001" else each for each in FOUR)
    seen = two_half_full()
    nodes = [
        replace(each, labels={**each.labels, ZONE_LABEL: changes.get("zone", "a")}) if each.name == "w001" else each
        for each in seen.kubernetes.nodes
    ]
    seen = replace(seen, instances=other, kubernetes=replace(seen.kubernetes, nodes=tuple(nodes)))
    assert decide(seen, known(), merging()).memory.pool("default").rotation is None


@pytest.mark.parametrize(("base", "launches"), [(0, 1), (1, 1), (2, 0)])
def test_the_on_demand_base_is_not_merged_away(base, launches):
    """Two of the four are On-Demand."""
    paid = tuple(replace(each, market=Market.ON_DEMAND) if each.id in ("i-000", "i-001") else each for each in FOUR)
    policy = pooled(UP_TO_THREE, market=replace(PAIRS, on_demand_base=base))
    decision = decide(replace(two_half_full(), instances=paid), known(), policy)
    assert [each.market for each in opened(decision, Launch)] == [Market.ON_DEMAND] * launches


def test_what_saves_more_for_each_pod_that_moves_comes_first():
    """w003 costs eight times as much as the others, and another type would hold its only pod for a fifth."""
    dear = InstanceType(name="t3.large", resources=SMALL, hourly_usd=0.1, spot_usd=0.05)
    instances = tuple(replace(each, type="t3.large") if each.id == "i-003" else each for each in FOUR)
    seen = replace(two_half_full(counts=(3, 3, 5, 5), catalog=(*DENSE, dear)), instances=instances)
    policy = pooled(UP_TO_THREE, market=replace(PAIRS, types=(*PAIRS.types, "t3.large")))
    rotated = decide(seen, known(), policy).memory.pool("default").rotation
    assert rotated.begun_at == NOON
    assert rotated.together == (), "one for one"


def test_the_rest_of_a_set_stays_if_its_pods_fit_nowhere_any_more_and_it_is_given_up():
    grown = [pod(f"late{n}-1", "w004", requests=Resources(cpu=900, memory=1 << 20)) for n in range(1)]
    rest = replace(BEGUN, together=("i-001",))
    seen = {"here": (1, 2, 3), "pods": grown}
    assert left_by(has_come(**seen), rest) == ([], rest)
    names, state = left_by(has_come(at=after(1500), **seen), rest)
    assert (names, state.together, state.failures, state.failed_at) == ([], (), 1, after(1500))


def test_after_one_that_was_given_up_nothing_is_launched_for_a_while():
    resting = RotationState(failures=1, failed_at=after(-60))
    decision = decide(two_half_full(), known(rotation=resting), merging())
    assert (opened(decision, Launch), decision.memory.pool("default").rotation.failures) == ([], 1)
    blocked = decide(two_half_full(cpu=80), known(rotation=resting), merging())
    assert blocked.memory.pool("default").rotation == resting
    assert (
        decide(two_half_full(cpu=80), known(rotation=replace(resting, failed_at=LONG)), merging())
        .memory.pool("default")
        .rotation
        is None
    )


def test_each_of_a_set_has_the_time_of_one_after_the_one_before_it():
    rest = replace(BEGUN, together=("i-001",))
    late = has_come(here=(1, 2, 3), at=after(1260), cpu=80)
    assert left_by(late, rest, last_left=after(120)) == ([], rest)
    assert left_by(late, rest)[1].failures == 1


def test_no_other_node_leaves_for_the_one_that_came_for_a_set():
    """w003 has no pods, so that without the set it would be the first to go."""
    assert left_by(has_come(counts=(3, 3, 5, 0)))[0] == ["w000"]
    assert left_by(has_come(counts=(3, 3, 5, 0)), None)[0] == ["w003"]
    calm = {"cpu": 20, "memory": 20}
    samples = tuple(after(60 * number) for number in range(-10, 2))
    streak = {
        f"{each}:down": Breaches(times=samples, since=samples[0], last=samples[-1])
        for each in (BoundSource.CPU, BoundSource.MEMORY)
    }
    names, state = left_by(has_come(counts=(3, 3, 5, 0), **calm), breaches=streak)
    assert (names, state.together) == (["w000"], ("i-001",)), "nor as the signals shrink the pool"


@pytest.mark.parametrize(
    ("seen", "policy"),
    [
        ({"cpu": 80}, merging()),
        ({"commands": (Pause(),)}, merging()),
        ({"budgets": (Budget(name="all", selector=Selector(), max_unavailable="0"),)}, merging()),
        ({"pods": [waiting("late-1", requests=Resources(cpu=100, memory=1 << 20))]}, merging()),
        ({}, merging(replace(UP_TO_THREE, mode="off"))),
        ({}, merging(limits=Limits(min=5, max=6))),
    ],
)
def test_none_of_a_set_leaves_while(seen, policy):
    assert left_by(has_come())[0] == ["w000"]
    assert left_by(has_come(**seen), policy=policy) == ([], BEGUN)


def test_none_of_a_set_leaves_before_the_new_node_is_ready():
    assert left_by(two_half_full(at=after(120))) == ([], BEGUN)
    assert left_by(two_half_full(new="boots", at=after(120))) == ([], BEGUN)


def test_a_set_whose_workers_are_lost_is_over():
    assert left_by(has_come(here=(1, 2, 3)))[1] == RotationState()
    assert left_by(has_come(here=(2, 3), cpu=80))[1] is None


def test_a_recycled_worker_waits_for_the_set():
    order = Recycle(instance="i-002", at=after(-60), until=after(6000))
    assert left_by(has_come(commands=(order,)))[0] == ["w000"]


def test_the_headroom_has_room_beside_the_pods_of_a_set():
    for cpu, launches in ((0.5, 1), (0.7, 0)):  # 600m would be free
        policy = merging(headroom=Headroom(pods=1, pod_cpu=cpu, pod_memory=0.01))
        assert len(opened(decide(two_half_full(), known(), policy), Launch)) == launches


# ── a fleet over time ────────────────────────────────────────────────────────────────────────────────────────────────


def _moved(pods, gone, names):
    """The pods of a node that left, each on the first node with room."""
    room = SchedulerSimulation(
        [NodeModel(name=name, allocatable=SMALL) for name in names], [each for each in pods if each.node != gone]
    )
    places = {each.uid: room.place(replace(each, node=None)) for each in pods if each.node == gone}
    assert None not in places.values(), "a pod of the removed node finds no place"
    return [replace(each, node=places.get(each.uid, each.node)) for each in pods]


@pytest.mark.parametrize("counts", [(3, 3, 1, 3), (1, 1, 1, 1, 1, 1), (4, 2, 2, 4, 1), (5, 5, 5)])
def test_a_fleet_shrinks_without_a_purchase_to_a_size_that_it_keeps(counts):
    """Load follows the pods: a CPU of 40 % on four nodes is 53 % on three."""
    numbers, pods, memory, sizes = list(range(len(counts))), spread(*counts), Memory(), []
    total = 12 * len(pods)
    for step in range(60):
        seen = look(numbers, at=after(120 * step), pods=pods, cpu=total / len(numbers), memory=total / len(numbers))
        decision = decide(seen, memory, pooled())
        memory = decision.memory
        assert opened(decision, Launch) == []
        for removal in opened(decision, Removal):
            numbers.remove(int(removal.instance[2:]))
            pods = _moved(pods, removal.node, [f"w{number:03}" for number in numbers])
        sizes.append(len(numbers))
    assert sizes[-1] == sizes[-15], "it goes on for ever"
    assert sizes[-1] < len(counts) or counts == (5, 5, 5)
