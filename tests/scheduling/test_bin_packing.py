"""Plans of new nodes for plain pods: what each holds, what they cost, and what the scheduler's order needs."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodefleet.scheduling.bin_packing import BinPacking, NodeOption, PodGroup

SMALL = NodeOption(zone="a", cpu=2000, memory=2000, slots=10, price=1.0)
EVERYWHERE = (SMALL, NodeOption(zone="b", cpu=2000, memory=2000, slots=10, price=1.0))


def group(cpu=500, memory=500, count=1, options=None, of=EVERYWHERE):
    return PodGroup(cpu=cpu, memory=memory, count=count, options=(1 << len(of)) - 1 if options is None else options)


def packing(*groups, options=EVERYWHERE, zones=None):
    return BinPacking(groups, options, zones or {})


def ranked(found):
    """Largest share first, as the simulation ranks them."""
    order = sorted(range(len(found.groups)), key=lambda n: -max(found.groups[n].cpu, found.groups[n].memory))
    return [number for number in order for _ in range(found.groups[number].count)]


def best(found):
    return found.best_plan(ranked(found))


def contents(plan):
    return sorted(sorted(node.groups) for node in plan)


def assert_holds(found, plan):
    """Every pod has one seat on a node that admits it, and no node is overbooked."""
    assert Counter(n for node in plan for n in node.groups) == Counter(
        {n: each.count for n, each in enumerate(found.groups)}
    )
    for node in plan:
        size, pods = found.options[node.option], [found.groups[n] for n in node.groups]
        assert sum(pod.cpu for pod in pods) + node.cpu == size.cpu >= size.cpu - node.cpu
        assert sum(pod.memory for pod in pods) + node.memory == size.memory
        assert min(node.cpu, node.memory, node.slots) >= 0
        assert len(pods) + node.slots == size.slots
        assert all(pod.options >> node.option & 1 for pod in pods)


def test_no_pods_need_no_nodes():
    assert packing().best_plan([]) == []


def test_pods_that_need_cpu_share_nodes_with_pods_that_need_memory():
    found = packing(group(1800, 100, count=4), group(100, 1800, count=4))
    plan = best(found)
    assert_holds(found, plan)
    assert contents(plan) == [[0, 1]] * 4


def test_a_gap_is_filled_by_the_pods_that_leave_least_of_it():
    found = packing(group(1100, 10, count=2), group(900, 10, count=2), group(700, 10, count=2), group(200, 10, count=2))
    plan = best(found)
    assert_holds(found, plan)
    assert len(plan) == 3


def test_pods_that_ask_for_nothing_need_only_a_slot():
    found = packing(group(0, 0, count=25))
    plan = best(found)
    assert_holds(found, plan)
    assert sorted(len(node.groups) for node in plan) == [5, 10, 10]


def test_nodes_go_to_the_zone_that_has_fewest():
    found = packing(group(2000, 2000, count=4), zones={"a": 2})
    assert Counter(found.options[node.option].zone for node in best(found)) == {"b": 3, "a": 1}


def test_a_pod_that_one_zone_admits_gets_its_node_there():
    found = packing(group(1500, 100, options=0b10, count=2), group(400, 100, count=2), zones={"b": 5})
    plan = best(found)
    assert_holds(found, plan)
    assert len(plan) == 2


# ── prices ───────────────────────────────────────────────────────────────────────────────────────────────────────────

LARGE = NodeOption(zone="a", cpu=4000, memory=4000, slots=20, price=1.8)
SIZES = (SMALL, LARGE)


def types(found, plan):
    return Counter("small" if found.options[node.option].price == SMALL.price else "large" for node in plan)


def test_the_kind_of_node_that_is_cheapest_for_its_load_is_bought():
    found = packing(group(500, 500, count=16, of=SIZES), options=SIZES)
    assert types(found, best(found)) == {"large": 2}


def test_what_is_left_over_gets_a_node_of_its_size():
    found = packing(group(500, 500, count=10, of=SIZES), options=SIZES)
    plan = best(found)
    assert_holds(found, plan)
    assert types(found, plan) == {"large": 1, "small": 1}


def test_a_pod_that_fits_only_the_large_kind_buys_it():
    found = packing(group(3000, 100, options=0b10, of=SIZES), group(500, 100, count=2, of=SIZES), options=SIZES)
    plan = best(found)
    assert_holds(found, plan)
    assert types(found, plan) == {"large": 1}


def test_pods_that_ask_for_nothing_take_the_cheapest_kind():
    found = packing(group(0, 0, count=3, of=SIZES), options=(LARGE, SMALL))
    assert types(found, best(found)) == {"small": 1}


def test_a_cheaper_kind_must_admit_all_pods_of_the_node():
    found = packing(group(500, 500, options=0b10, of=SIZES), group(500, 500, count=1, of=SIZES), options=SIZES)
    plan = best(found)
    assert_holds(found, plan)
    assert types(found, plan) == {"large": 1}


# ── the scheduler's order ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_that_only_a_clever_packer_realises_lacks_nodes_in_queue_order():
    found = packing(group(600, 0, count=3), group(1400, 0, count=3))
    plan = best(found)
    assert len(plan) == 3
    missing = found.missing_in_queue_order(plan, [0, 0, 0, 1, 1, 1])
    assert [node.groups for node in missing] == [[1]]
    assert found.missing_in_queue_order(plan, [1, 0, 1, 0, 1, 0]) == []


def test_full_nodes_are_left_out_and_the_rest_is_still_found():
    found = packing(group(2000, 100, count=20), group(1000, 100, count=2))
    plan = best(found)
    assert len(plan) == 21
    assert found.missing_in_queue_order(plan, [0] * 20 + [1] * 2) == []


def test_missing_nodes_go_to_the_zone_that_the_plan_leaves_emptiest():
    found = packing(group(1500, 0, count=3))
    missing = found.missing_in_queue_order([], [0, 0, 0])
    assert [found.options[node.option].zone for node in missing] == ["a", "b", "a"]


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────────

amounts = st.integers(0, 2000)
groups = st.lists(
    st.builds(
        PodGroup, cpu=amounts, memory=amounts, options=st.sampled_from([0b01, 0b10, 0b11]), count=st.integers(1, 6)
    ),
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(groups=groups)
def test_every_plan_holds_all_pods_and_the_best_is_no_worse_than_any(groups):
    found = packing(*groups)
    plans = found.plans(ranked(found))
    for plan in plans.values():
        assert_holds(found, plan)
    chosen = best(found)
    assert_holds(found, chosen)
    assert len(chosen) <= min(map(len, plans.values()))
    least = max(
        ceil(sum(each.cpu * each.count for each in groups) / 2000),
        ceil(sum(each.memory * each.count for each in groups) / 2000),
    )
    assert least <= len(chosen)


@settings(max_examples=40, deadline=None)
@given(groups=groups)
def test_the_same_pods_always_get_the_same_plan(groups):
    assert best(packing(*groups)) == best(packing(*groups))


@pytest.mark.parametrize("heuristic", ["first fit", "scarcest first", "best fit", "fill a node", "match a node"])
def test_each_heuristic_has_a_plan(heuristic):
    found = packing(group(700, 300, count=7), group(300, 900, count=5))
    assert_holds(found, found.plans(ranked(found))[heuristic])
