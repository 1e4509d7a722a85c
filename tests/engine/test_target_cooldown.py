"""Cooldowns by direction: the table of engine/target.py."""

import pytest

from nodefleet.engine.target import cooldown_bounds
from nodefleet.model.decision import Rank, Side
from nodefleet.model.state import PoolMemory
from nodefleet.policy.pool import Pool, Steps
from support.builders import NOON, after
from support.wording import assert_wording


def bounds(grew=None, shrank=None, capacity=5, pool=Pool()):
    memory = PoolMemory(
        last_grow=None if grew is None else after(-grew), last_shrink=None if shrank is None else after(-shrank)
    )
    return {bound.source: bound for bound in cooldown_bounds(pool, memory, capacity, NOON)}


@pytest.mark.parametrize(
    ("grew", "shrank", "grows", "shrinks"),
    [
        (None, None, True, True),
        (0, None, False, False),
        (299, None, False, False),
        (300, None, True, False),
        (599, None, True, False),
        (600, None, True, True),
        (None, 0, True, False),
        (None, 599, True, False),
        (None, 600, True, True),
        (900, 100, True, False),
        (100, 900, False, False),
    ],
)
def test_who_waits_after_what(grew, shrank, grows, shrinks):
    found = bounds(grew, shrank)
    assert ("cooldown" not in found, "cooldown-down" not in found) == (grows, shrinks)


@pytest.mark.parametrize(("at_once", "most"), [(None, 5), (4, 5), (9, 9)])
def test_what_does_not_wait_lifts_the_ceiling_to_its_own_size(at_once, most):
    found = cooldown_bounds(Pool(), PoolMemory(last_grow=after(-10)), 5, NOON, at_once)
    assert next(bound.nodes for bound in found if bound.source == "cooldown") == most


def test_growing_is_not_blocked_by_an_earlier_shrink():
    assert "cooldown" not in bounds(shrank=10)


def test_the_sentence_says_how_long_to_wait():
    found = bounds(grew=120)
    assert_wording(found["cooldown"].sentence)
    assert found["cooldown"].expires == after(180)
    assert_wording(found["cooldown-down"].sentence)
    assert found["cooldown-down"].expires == after(480)


def test_a_cooldown_keeps_the_fleet_as_it_is():
    found = bounds(grew=1, capacity=7)
    assert (found["cooldown"].side, found["cooldown"].nodes, found["cooldown"].rank) == (Side.CEILING, 7, Rank.DAMPING)
    assert (found["cooldown-down"].side, found["cooldown-down"].nodes) == (Side.FLOOR, 7)


@pytest.mark.parametrize(("down", "capacity", "left"), [(1, 5, 4), (2, 5, 3), (3, 2, 0)])
def test_at_most_the_step_goes_at_once(down, capacity, left):
    found = bounds(capacity=capacity, pool=Pool(steps=Steps(down=down)))["step"]
    assert (found.side, found.nodes, found.rank) == (Side.FLOOR, left, Rank.DAMPING)
    assert_wording(found.sentence)
