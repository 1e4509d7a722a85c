"""Bounds settle by rank, and everyone who lost is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodefleet.engine.target import is_met, resolve_target
from nodefleet.model.decision import Rank, Side, ceiling, floor


def test_without_bounds_there_is_nothing():
    assert (resolve_target([]).target, resolve_target([]).by, resolve_target([]).overruled) == (0, None, ())


def test_the_highest_floor_wins():
    settled = resolve_target([floor(3, "cpu", Rank.SIGNAL, "a"), floor(5, "pods", Rank.SIGNAL, "b")])
    assert (settled.target, settled.by.source, settled.overruled) == (5, "pods", ())


def test_the_lowest_ceiling_wins():
    settled = resolve_target(
        [floor(9, "cpu", Rank.SIGNAL, ""), ceiling(7, "x", Rank.LIMIT, ""), ceiling(6, "max", Rank.LIMIT, "")]
    )
    assert (settled.target, settled.by.source) == (6, "max")


def test_a_ceiling_beats_a_floor_of_the_same_rank():
    settled = resolve_target([floor(4, "min", Rank.LIMIT, ""), ceiling(2, "max", Rank.LIMIT, "")])
    assert (settled.target, [each.bound.source for each in settled.overruled]) == (2, ["min"])


@pytest.mark.parametrize(("weak", "strong"), list(zip(list(Rank)[:-1], list(Rank)[1:], strict=True)))
def test_the_stronger_rank_has_the_last_word_in_both_directions(weak, strong):
    assert resolve_target([ceiling(2, "weak", weak, ""), floor(5, "strong", strong, "")]).target == 5
    assert resolve_target([floor(5, "weak", weak, ""), ceiling(2, "strong", strong, "")]).target == 2


def test_ranks_stand_in_the_order_of_the_design():
    assert [rank.name for rank in sorted(Rank)] == ["SIGNAL", "DAMPING", "WINDOW", "OPERATOR", "LIMIT", "SAFETY"]


def test_a_bound_that_changes_nothing_gets_no_credit():
    settled = resolve_target(
        [floor(5, "pods", Rank.SIGNAL, ""), ceiling(5, "max", Rank.LIMIT, ""), floor(5, "late", Rank.SAFETY, "")]
    )
    assert settled.by.source == "pods"


def test_whoever_did_not_get_what_it_asked_for_is_named_with_the_winner():
    wanting, cap = floor(7, "cpu", Rank.SIGNAL, "busy"), ceiling(5, "cooldown", Rank.DAMPING, "wait")
    settled = resolve_target([wanting, cap, floor(2, "min", Rank.LIMIT, "")])
    assert [(each.bound, each.by) for each in settled.overruled] == [(wanting, "cooldown")]


@pytest.mark.parametrize(
    ("side", "nodes", "met"),
    [
        (Side.FLOOR, 4, True),
        (Side.FLOOR, 5, True),
        (Side.FLOOR, 6, False),
        (Side.CEILING, 4, False),
        (Side.CEILING, 5, True),
        (Side.CEILING, 6, True),
    ],
)
def test_when_a_bound_is_met_by_five(side, nodes, met):
    make = floor if side is Side.FLOOR else ceiling
    assert is_met(make(nodes, "x", Rank.SIGNAL, ""), 5) is met


BOUNDS = st.lists(
    st.builds(
        lambda side, nodes, rank: (floor if side else ceiling)(nodes, "x", rank, "s"),
        st.booleans(),
        st.integers(0, 20),
        st.sampled_from(list(Rank)),
    )
)


@given(BOUNDS)
def test_the_strongest_ceiling_always_holds(bounds):
    target = resolve_target(bounds).target
    strongest = max((b.rank for b in bounds), default=None)
    assert all(target <= b.nodes for b in bounds if b.rank is strongest and b.side is Side.CEILING)


@given(BOUNDS, st.randoms(use_true_random=False))
def test_the_order_of_the_bounds_does_not_matter(bounds, random):
    shuffled = list(bounds)
    random.shuffle(shuffled)
    assert resolve_target(bounds).target == resolve_target(shuffled).target


@given(BOUNDS)
def test_the_bound_that_decided_has_the_targets_value(bounds):
    settled = resolve_target(bounds)
    assert settled.by is None or settled.by.nodes == settled.target
