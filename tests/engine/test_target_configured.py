"""Min, max, windows, commands and replacements as bounds."""

import pytest

from nodefleet.engine.target import command_bounds, limit_bounds, replacement_bounds, window_bounds
from nodefleet.model.decision import Rank, Side
from nodefleet.model.fleet import Count
from nodefleet.model.snapshot import ActiveWindow, Pause, Scale
from nodefleet.model.state import Loss
from nodefleet.policy.pool import Limits, Pool
from support.builders import NOON, after, look
from support.wording import assert_wording

POOL = Pool(limits=Limits(min=2, max=10))


@pytest.mark.parametrize(
    ("ready", "booting", "occupied", "room"),
    [
        (3, 0, 3, 10),
        (8, 2, 10, 10),
        (9, 0, 10, 9),  # one is draining: it still counts
        (8, 0, 12, 8),  # more than max are there, but not as capacity
        (12, 0, 12, 10),  # above max
        (10, 0, 11, 10),  # a draining one does not push out another
        (3, 0, 2, 11),  # an interrupted one does not count: its replacement may come
    ],
)
def test_how_much_room_max_leaves(ready, booting, occupied, room):
    least, most = limit_bounds(POOL, Count(ready=ready, booting=booting, occupied=occupied))
    assert (least.side, least.nodes, least.rank) == (Side.FLOOR, 2, Rank.LIMIT)
    assert (most.side, most.nodes, most.rank) == (Side.CEILING, room, Rank.LIMIT)


def test_limits_say_their_figures():
    least, most = limit_bounds(POOL, Count(ready=1, occupied=3))
    assert_wording(least.sentence)
    assert_wording(most.sentence)
    assert_wording(limit_bounds(POOL, Count(ready=1, occupied=1))[1].sentence)
    assert_wording(limit_bounds(POOL, Count(ready=1, occupied=2))[1].sentence)
    assert (least.source, most.source) == ("min", "max")


def test_losses_are_made_up_for():
    losses = (Loss(worker="i-1", at=NOON, cause="interrupted"), Loss(worker="i-2", at=NOON, cause="gone"))
    (bound,) = replacement_bounds(losses, 3)
    assert (bound.nodes, bound.rank, bound.side, bound.source) == (5, Rank.LIMIT, Side.FLOOR, "replace")
    assert_wording(bound.sentence)
    assert replacement_bounds((), 3) == []


def test_a_window_gives_its_bounds_while_it_is_open():
    seen = look(windows=(ActiveWindow(name="lunch", until=after(60), min=4, max=6),))
    low, high = window_bounds(seen, "default")
    assert (low.side, low.nodes, low.rank, low.source, low.expires) == (
        Side.FLOOR,
        4,
        Rank.WINDOW,
        "window:lunch",
        after(60),
    )
    assert (high.side, high.nodes, high.rank) == (Side.CEILING, 6, Rank.WINDOW)
    assert (high.source, high.expires) == (low.source, low.expires)
    assert_wording(low.sentence)
    assert_wording(high.sentence)


@pytest.mark.parametrize(
    ("window", "number"),
    [
        (ActiveWindow(name="w", until=NOON, min=4), 0),
        (ActiveWindow(name="w", until=after(1), min=0), 1),
        (ActiveWindow(name="w", until=after(1), max=0), 1),
        (ActiveWindow(name="w", until=after(1)), 0),
        (ActiveWindow(pool="gpu", name="w", until=after(1), min=4), 0),
    ],
)
def test_which_windows_count(window, number):
    assert len(window_bounds(look(windows=(window,)), "default")) == number


def test_a_later_window_is_seen_behind_one_of_another_pool():
    seen = look(
        windows=(
            ActiveWindow(pool="gpu", name="g", until=after(9), min=9),
            ActiveWindow(name="d", until=after(9), min=3),
        )
    )
    assert [bound.nodes for bound in window_bounds(seen, "default")] == [3]


def test_a_persons_size_is_floor_and_ceiling_until_it_expires():
    seen = look(commands=(Scale(nodes=6, by="ada", reason="sale", until=after(7200)),))
    low, high = command_bounds(seen, "default")
    assert (low.nodes, low.side, high.nodes, high.side) == (6, Side.FLOOR, 6, Side.CEILING)
    assert low.rank is high.rank is Rank.OPERATOR
    assert (low.source, high.source) == ("person", "person")
    assert_wording(low.sentence)
    assert low.expires == high.expires == after(7200)


@pytest.mark.parametrize(
    ("given", "nodes"),
    [
        ((Scale(nodes=6, until=NOON),), None),
        ((Scale(nodes=6, until=after(1)),), 6),
        ((Scale(pool="gpu", nodes=6, until=after(1)),), None),
        ((Pause(),), None),
        ((Scale(nodes=6, until=after(1)), Scale(nodes=3, until=after(1))), 3),
        ((Scale(nodes=6, until=after(1)), Scale(nodes=3, until=NOON)), 6),
    ],
)
def test_which_command_counts(given, nodes):
    found = command_bounds(look(commands=given), "default")
    assert {bound.nodes for bound in found} == (set() if nodes is None else {nodes})


def test_a_command_without_a_reason_needs_none():
    seen = look(commands=(Scale(nodes=6, by="ada", until=after(60)),))
    assert_wording(command_bounds(seen, "default")[0].sentence)


def test_a_floor_of_an_operator_leaves_the_pool_free_to_grow():
    seen = look(commands=(Scale(nodes=6, at_least=True, origin="eu", until=after(7200)),))
    (only,) = command_bounds(seen, "default")
    assert (only.side, only.nodes, only.expires) == (Side.FLOOR, 6, after(7200))
