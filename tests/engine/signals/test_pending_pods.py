"""How many nodes unschedulable pods buy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.capacity import FleetSize
from nodefleet.engine.context import UnschedulableCount
from nodefleet.engine.signals.pending_pods import evaluate_pending, immediate_size
from nodefleet.engine.signals.vote import ScaleDownOk, ScaleUp, WithinThresholds
from nodefleet.policy.pool import Pool, Steps
from support.builders import NOON
from support.wording import assert_wording

BY_PACKING = Pool(steps=Steps(pending="packing"))


def vote(count, *, nodes=None, covered=3, capacity=3, cpu=50.0, pool=Pool(), without_vote=0):
    waiting = UnschedulableCount(count=count, nodes=nodes, without_vote=without_vote)
    return evaluate_pending(waiting, FleetSize(now=NOON, covered=covered, capacity=capacity), pool, cpu).vote


@pytest.mark.parametrize(
    ("count", "cpu", "floor"),
    [(1, 50, 4), (5, 50, 4), (6, 50, 5), (1, 70, 4), (1, 70.1, 5), (3, 82, 5), (8, 85, 5), (1, None, 4), (6, None, 5)],
)
def test_the_step_rule(count, cpu, floor):
    assert vote(count, cpu=cpu).nodes == floor


@pytest.mark.parametrize(
    ("nodes", "covered", "capacity", "floor"),
    [
        (1, 3, 3, 4),  # packing needs less than the step
        (2, 3, 3, 5),
        (7, 3, 3, 5),  # the step needs less than packing
        (1, 3, 5, 5),  # two boot already: the step is used up
        (1, 3, 4, 5),
    ],
)
def test_packing_and_step_whichever_is_less(nodes, covered, capacity, floor):
    assert vote(9, nodes=nodes, covered=covered, capacity=capacity).nodes == floor


@pytest.mark.parametrize(
    ("nodes", "covered", "capacity", "floor"),
    [
        (1, 3, 3, 4),
        (7, 3, 3, 10),  # no step
        (7, 3, 5, 12),  # two boot already, and packing has filled them
        (None, 3, 3, 5),  # nobody knows what a node holds: the step rule
    ],
)
def test_by_packing_as_many_as_the_pods_fill(nodes, covered, capacity, floor):
    assert vote(9, nodes=nodes, covered=covered, capacity=capacity, pool=BY_PACKING).nodes == floor


@pytest.mark.parametrize(
    ("pool", "nodes", "size"), [(BY_PACKING, 7, 10), (BY_PACKING, 0, None), (BY_PACKING, None, None), (Pool(), 7, None)]
)
def test_only_what_packing_sizes_does_not_wait_for_the_cooldown(pool, nodes, size):
    waiting = UnschedulableCount(count=9, nodes=nodes)
    opinion = evaluate_pending(waiting, FleetSize(now=NOON, covered=3, capacity=3), pool, 50.0)
    assert immediate_size(opinion, waiting, pool) == size


def test_packing_nothing_buys_nothing_but_keeps_the_fleet():
    found = vote(4, nodes=0, covered=3, capacity=5)
    assert isinstance(found, WithinThresholds)
    assert_wording(found.reason)


def test_no_waiting_pods_are_calm():
    assert vote(0) == ScaleDownOk(reason="0 pods unschedulable")
    assert_wording(vote(0, without_vote=2).reason)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (lambda: vote(1), "1 pod unschedulable: 3 + 1 nodes"),
        (lambda: vote(8), "8 pods unschedulable (more than 5): 3 + 2 nodes"),
        (lambda: vote(3, cpu=82.0), "3 pods unschedulable while CPU 82.0 % > 70 %: 3 + 2 nodes"),
        (
            lambda: vote(8, nodes=3, capacity=4),
            "8 pods unschedulable (more than 5): 3 + 2 nodes, they need 3 new nodes beside 4",
        ),
    ],
)
def test_the_sentence_has_the_figures(found, reason):
    assert found().reason == reason


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 9), st.integers(1, 9), st.integers(0, 6))
def test_more_pods_never_buy_fewer_nodes(few, more, few_nodes, more_nodes, booting):
    few, more = sorted((few, more))
    few_nodes, more_nodes = sorted((few_nodes, more_nodes))
    less, greater = (
        vote(count, nodes=nodes, capacity=3 + booting) for count, nodes in ((few, few_nodes), (more, more_nodes))
    )
    assert isinstance(less, ScaleUp)
    assert less.nodes <= greater.nodes


def test_the_opinion_carries_the_number_that_should_fall():
    waiting = UnschedulableCount(count=4)
    found = evaluate_pending(waiting, FleetSize(now=NOON, covered=3, capacity=3), Pool(), None)
    assert (found.signal, found.value) == ("pods", 4.0)
