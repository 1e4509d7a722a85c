"""One call for each of many pods or nodes, several at once. What goes wrong with one keeps no other from its turn.

A webhook that answers 500, a 429 without a budget, a 403 or a 504 is the trouble of one pod. The errors are handed over
as results: whoever asked reports them when everything was tried.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from nodefleet.errors import LostLeaseError, NodeFleetError
from nodefleet.loop.parts import Parts

K = TypeVar("K")
R = TypeVar("R")


def try_each(parts: Parts, subjects: Sequence[K], call: Callable[[K], R]) -> list[tuple[K, R | NodeFleetError]]:
    """Each subject with what came of it. Only a lost lease, and faults of our own, are raised, after all had a turn."""
    results = parts.together(*[partial(call, subject) for subject in subjects])
    for result in results:
        if isinstance(result, LostLeaseError) or (
            isinstance(result, Exception) and not isinstance(result, NodeFleetError)
        ):
            raise result
    return list(zip(subjects, results, strict=True))
