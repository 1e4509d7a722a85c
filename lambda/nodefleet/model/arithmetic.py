"""Sums of floats that are the same on every version of Python, so that a decision replays to the same result.

From 3.12 on `sum` compensates rounding errors and 3.11 does not: the last digit differs, and with it, now and then, a
choice between nodes that are equally good.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add


def add_up(values: Iterable[float]) -> float:
    """From left to right, each sum rounded."""
    return reduce(add, values, 0.0)
