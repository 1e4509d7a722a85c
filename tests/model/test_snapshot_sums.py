"""Sums that are the same on every version of Python."""

from nodefleet.model.snapshot import add_up


def test_each_sum_is_rounded_from_left_to_right():
    """`sum` gives 1.0 from Python 3.12 on, and 0.0 before."""
    assert add_up([1e16, 1.0, -1e16]) == 0.0


def test_nothing_adds_up_to_zero():
    assert add_up([]) == 0.0
