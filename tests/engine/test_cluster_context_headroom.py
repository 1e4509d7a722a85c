"""Headroom: spare capacity as a floor, sized with placeholder pods."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.capacity import with_peak
from nodefleet.engine.cluster_context import ClusterContext, list_placeholders
from nodefleet.engine.context import PoolContext, relative_load
from nodefleet.engine.decide import decide
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, BoundSource
from nodefleet.model.inventory import Effect, InstanceType, Resources, Taint
from nodefleet.model.operations import Launch, Removal
from nodefleet.model.snapshot import Scale
from nodefleet.model.state import HourLoad, Memory, PoolMemory
from nodefleet.phases import derive_workers
from nodefleet.policy.constraints import check
from nodefleet.policy.demand import Headroom
from nodefleet.policy.pool import Cooldown, Limits, Pool, Predictive
from support.builders import GIB, NOON, SMALL, after, look, node, only, pod, waiting
from support.decisions import KNOWN, alerts, bought, calm_look, opened, with_pool
from support.wording import assert_wording

NODES = {"pods": ()}  # workers of 2 cores and 2 GiB, and nothing on them


def keeping(*, limits=None, **headroom):
    return with_pool(headroom=Headroom(**headroom), limits=limits or Limits())


def half_full(number):
    """On each worker two pods of half a core and a quarter of a GiB: two more fit by CPU."""
    return [pod(f"web-{n}", f"w{n // 2:03}") for n in range(2 * number)]


def wanted(decision):
    return [bound.nodes for bound in only(decision).bounds if bound.kind is BoundSource.HEADROOM]


def placeholders(seen, rules):
    """How many pods the pool keeps room for."""
    fleet = derive_workers(seen, rules)
    ctx = PoolContext.of(rules.pools[0], rules, seen, KNOWN.pool("default"), fleet)
    return sum(map(len, list_placeholders(ctx, ClusterContext.of(seen, rules, fleet))))


def test_without_headroom_there_is_no_bound():
    assert wanted(decide(look(3, pods=half_full(3)), KNOWN, with_pool())) == []


def test_a_spare_node_is_bought_when_every_node_carries_something():
    decision = decide(look(3, pods=half_full(3)), KNOWN, keeping(nodes=1))
    assert (only(decision).action, bought(decision)) == (Action.GROW, 1)
    assert_wording(only(decision).reason)


def test_an_empty_node_is_the_spare_one():
    assert bought(decide(look(3, pods=half_full(2)), KNOWN, keeping(nodes=1))) == 0


def test_a_booting_node_counts_so_nothing_is_bought_twice():
    first = decide(look(3, pods=half_full(3)), KNOWN, keeping(nodes=1))
    seen = look(3, pods=half_full(3), at=after(60), operations=tuple(opened(first, Launch)))
    assert bought(decide(seen, first.memory, keeping(nodes=1))) == 0


@pytest.mark.parametrize(
    ("headroom", "more"),
    [
        ({"pods": 6}, 0),  # three nodes with room for two each
        ({"pods": 7}, 1),
        ({"pods": 11}, 2),  # four on a new node
        ({"cpu": 3}, 0),
        ({"cpu": 3.5}, 1),
        ({"memory": 1.5}, 0),
        ({"memory": 1.75}, 1),  # as pods of a quarter, of which CPU lets two on a node
        ({"percent": 100}, 0),  # six run, six more fit
        ({"percent": 101}, 1),
        ({"pods": 2, "pod_cpu": 1.5}, 2),  # no node has so much room
        ({"pods": 1, "pod_memory": 1.75}, 1),
        ({"pods": 1, "nodes": 1}, 1),  # the larger requirement counts, not the sum
        ({"pods": 6, "nodes": 2}, 2),
    ],
)
def test_amounts(headroom, more):
    assert bought(decide(look(3, pods=half_full(3)), KNOWN, keeping(**headroom))) == more


@pytest.mark.parametrize(("percent", "expected"), [(30, 3), (20, 2), (7, 1), (100, 10)])
def test_a_share_of_pods_of_many_sizes_is_no_pod_more(percent, expected):
    """Their mean is no whole number, of millicores or of bytes."""
    sizes = [Resources(cpu=101 + n % 2, memory=1_000_001 + n // 9) for n in range(10)]
    pods = [pod(f"web-{n}", f"w{n % 3:03}", requests=size) for n, size in enumerate(sizes)]
    assert placeholders(look(3, pods=pods), keeping(percent=percent)) == expected


def test_seven_percent_of_a_hundred_pods_are_seven():
    pods = [pod(f"web-{n}", f"w{n % 9:03}", requests=Resources(cpu=10, memory=1000)) for n in range(100)]
    assert placeholders(look(9, pods=pods), keeping(percent=7)) == 7


ONE_GPU = InstanceType(name="t3.small", resources=replace(SMALL, extended={"nvidia.com/gpu": 1}))


@pytest.mark.parametrize(("with_gpu", "more"), [(3, 2), (1, 0), (0, 0)])
def test_room_for_more_pods_with_gpus_has_gpus(with_gpu, more):
    """As most of the pods have one; CPU and memory would do on the nodes that there are."""
    sizes = [Resources(cpu=200, memory=GIB // 8, extended={"nvidia.com/gpu": int(n < with_gpu)}) for n in range(3)]
    pods = [pod(f"train-{n}", f"w{n:03}", requests=size) for n, size in enumerate(sizes)]
    nodes = [node(n, allocatable=ONE_GPU.resources) for n in range(3)]
    seen = look(3, pods=pods, nodes=nodes, catalog=(ONE_GPU,))
    assert bought(decide(seen, KNOWN, keeping(pods=2))) == more


def test_without_running_pods_a_placeholder_is_as_large_as_a_node():
    assert bought(decide(look(2, **NODES), KNOWN, keeping(pods=2))) == 0
    assert bought(decide(look(2, **NODES), KNOWN, keeping(pods=3))) == 1


def test_pods_that_ask_for_no_memory_are_counted_by_the_node():
    pods = [pod(f"web-{n}", f"w00{n}", requests=Resources(cpu=500)) for n in range(2)]
    assert bought(decide(look(2, pods=pods), KNOWN, keeping(memory=3))) == 0
    assert bought(decide(look(2, pods=pods), KNOWN, keeping(memory=20))) > 0


def test_a_placeholder_is_never_larger_than_a_node():
    assert bought(decide(look(2, **NODES), KNOWN, keeping(pods=3, pod_cpu=64, pod_memory=256))) == 1


def test_pods_that_wait_come_before_the_placeholders():
    """Four pods fill a node; the room that they take is no headroom."""
    pods = [*half_full(3), *(waiting(f"new-{n}") for n in range(4))]
    assert bought(decide(look(3, pods=pods), KNOWN, keeping(pods=2))) == 0
    assert bought(decide(look(3, pods=pods), KNOWN, keeping(pods=3))) == 1


def test_only_nodes_of_the_pool_count_and_its_taints_are_tolerated():
    taint = Taint(key="gpu", value="yes", effect=Effect.NO_SCHEDULE)
    policy = with_pool(headroom=Headroom(nodes=1), taints=(taint,))
    tainted = [node(n, taints=(taint,)) for n in range(3)]
    assert bought(decide(look(3, pods=(), kubernetes=look(0, nodes=tainted, pods=()).kubernetes), KNOWN, policy)) == 0
    foreign = node(9, labels={}, instance="", pool=None)
    assert bought(decide(look(2, pods=half_full(2), nodes=[foreign]), KNOWN, keeping(nodes=1))) == 1


def test_it_waits_for_no_cooldown():
    memory = Memory(pools={"default": PoolMemory(last_grow=after(-10), last_shrink=after(-10))})
    assert bought(decide(look(3, pods=half_full(3)), memory, keeping(nodes=1))) == 1


def test_an_operator_overrules_it():
    command = Scale(nodes=3, until=after(3600))
    assert bought(decide(look(3, pods=half_full(3), commands=(command,)), KNOWN, keeping(nodes=1))) == 0


def test_max_holds_and_a_headroom_that_max_does_not_allow_is_no_alert():
    decision = decide(look(3, pods=half_full(3)), KNOWN, keeping(nodes=1, limits=Limits(max=3)))
    assert (bought(decision), AlertKind.AT_MAX in alerts(decision)) == (0, False)
    assert_wording(only(decision).reason)


def test_unknown_pods_or_types_give_no_bound():
    assert wanted(decide(look(3), KNOWN, keeping(nodes=1))) == []
    blind = look(0, pods=(), catalog=())
    assert wanted(decide(blind, KNOWN, keeping(nodes=1))) == []


# ── shrinking ────────────────────────────────────────────────────────────────────────────────────────────────────────


def shrunk(number, running, **headroom):
    policy = with_pool(
        headroom=Headroom(**headroom), limits=Limits(min=1), cooldown=Cooldown(up=timedelta(0), down=timedelta(0))
    )
    seen, memory = calm_look(number, policy=policy, pods=running)
    return decide(seen, memory, policy)


def test_a_node_leaves_while_the_headroom_stays():
    assert only(shrunk(5, half_full(2), nodes=1)).action is Action.SHRINK


def test_the_last_spare_node_stays():
    decision = shrunk(3, half_full(2), nodes=1)
    assert (only(decision).action, wanted(decision)) == (Action.HOLD, [3])
    assert_wording(only(decision).reason)


def test_a_node_whose_pods_cannot_move_does_not_keep_the_others():
    """The emptiest worker holds a pod that fits nowhere else; another one may still go."""
    bound = pod("bound-0", "w000", requests=Resources(cpu=10, memory=GIB // 8, extended={"example.com/disk": 1}))
    others = [pod(f"web-{n}", f"w00{1 + n}") for n in range(4)]
    decision = shrunk(5, [bound, *others], pods=2)
    assert wanted(decision) == [4]


def test_no_node_leaves_that_the_headroom_needs():
    """Room for three pods of 1.5 cores: w001 and w003 are empty, w002 has it too. Some node could go, but not w001."""
    running = [pod(f"web-{n}", on, requests=Resources(cpu=400)) for n, on in enumerate(("w002", "w000", "w000"))]
    decision = shrunk(4, running, pods=3, pod_cpu=1.5)
    assert wanted(decision) == [3]
    assert opened(decision, Removal) == []


# ── the share of the peak, and the time of day ───────────────────────────────────────────────────────────────────────


def test_a_share_of_the_remembered_peak():
    peaks = {"2026-11-14": 20, "2026-11-01": 90}
    memory = Memory(pools={"default": PoolMemory(peaks=peaks)})
    policy = keeping(peak_percent=10, limits=Limits(max=40))
    assert bought(decide(look(3, pods=half_full(3)), memory, policy)) == 2
    assert bought(decide(look(3, pods=half_full(3)), KNOWN, policy)) == 1, "the present count is a peak too"


@pytest.mark.parametrize(("percent", "spare"), [(10, 1), (25, 2), (50, 3)])
def test_the_spare_nodes_are_no_part_of_the_peak(percent, spare):
    """Six nodes are full, and headroom adds its share of six once: it does not grow by what it added."""
    policy, memory, workers = keeping(peak_percent=percent, limits=Limits(max=40)), KNOWN, 6
    for number in range(6):
        decision = decide(look(workers, pods=half_full(6), at=after(600 * number)), memory, policy)
        memory, workers = decision.memory, workers + bought(decision)
    assert workers == 6 + spare


def test_the_peak_is_remembered_for_as_long_as_headroom_asks_for_it():
    kept = {"2026-11-12": 9, "2026-11-16": 3}  # one of the four is spare
    assert with_peak({"2026-11-12": 9}, 4, Pool(headroom=Headroom(peak_percent=10)), NOON) == kept
    assert with_peak({"2026-11-12": 9}, 4, Pool(headroom=Headroom(nodes=1)), NOON) == {}


def days(*loads):
    """Three days on which every hour had a load of 1, and the hour of noon the given ones."""
    known = {12: loads}
    return tuple(
        HourLoad(day=f"2026-11-{13 + n}", hour=hour, load=known.get(hour, (1.0,) * 3)[n], samples=30, last=after(-3600))
        for n in range(3)
        for hour in range(24)
    )


def test_the_hour_of_the_last_days_scales_it():
    memory = Memory(pools={"default": PoolMemory(profile=days(9.0, 9.0, 9.0))})
    quiet = Memory(pools={"default": PoolMemory(profile=days(0.0, 0.0, 0.0))})
    policy = with_pool(
        headroom=Headroom(nodes=2, time_of_day=True, most_times=3), limits=Limits(max=20), predictive=Predictive()
    )
    assert bought(decide(look(3, pods=half_full(3)), memory, policy)) == 6, "at most three times"
    assert bought(decide(look(3, pods=half_full(3)), quiet, policy)) == 1, "at least half"
    assert bought(decide(look(3, pods=half_full(3)), KNOWN, policy)) == 2, "nothing is known of the hour"


def test_twice_half_of_the_peak_at_a_busy_hour_has_an_end():
    rules = Headroom(peak_percent=50, time_of_day=True)
    policy = with_pool(headroom=rules, limits=Limits(max=40), predictive=Predictive())
    memory, workers = Memory(pools={"default": PoolMemory(profile=days(9.0, 9.0, 9.0))}), 6
    for number in range(6):
        decision = decide(look(workers, pods=half_full(6), at=after(60 * number)), memory, policy)
        memory, workers = decision.memory, workers + bought(decision)
    assert workers == 6 + 6


def test_relative_load():
    assert relative_load(days(4.0, 4.0, 4.0), NOON, timedelta(0), 3) == pytest.approx(4 / (27 / 24))
    assert relative_load(days(4.0, 4.0, 4.0), NOON, timedelta(hours=1), 3) == pytest.approx(24 / 27)
    assert relative_load(days(4.0, 4.0, 4.0), NOON, timedelta(0), 4) == 1
    assert relative_load((), NOON, timedelta(0), 0) == 1


def test_spare_nodes_that_max_can_never_hold_are_refused():
    (problem,) = check(keeping(nodes=10))
    assert problem.path == "pools[0].headroom.nodes"


def test_where_pods_cannot_be_seen_nothing_is_counted():
    blind = ClusterContext(look(3), None)
    assert (blind.count_more("default", [pod("x")]), blind.templates("default")) == (0, ())
