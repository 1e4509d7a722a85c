"""How fast a scenario that was played is shown: all of it within a given time, busy minutes slower than quiet hours."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import accumulate

from nodefleet_tools.sim.scenario_result import MarkKind, ScenarioResult, Standing

_QUIET, _BUSY = 1.0, 40.0  # weights of a frame
_AFTERWARDS = timedelta(minutes=4)  # a mark is looked at for so long


def weights(played: ScenarioResult) -> list[float]:
    """What each frame is worth to a viewer."""
    marks = [mark.at for mark in played.marks if mark.kind is not MarkKind.REMOVED]
    found = []
    for frame in played.frames:
        index = bisect_right(marks, frame.at)
        recent = index > 0 and frame.at - marks[index - 1] <= _AFTERWARDS
        moving = any(worker.standing not in (Standing.READY, Standing.FAILED) for worker in frame.workers)
        found.append(_BUSY if recent or moving or frame.violated else _QUIET)
    return found


def schedule(worth: Sequence[float], seconds: float, per_second: float) -> Iterator[int]:
    """Which frame is shown at each picture, so that all pictures take `seconds`. The last one is always shown."""
    until = list(accumulate(worth))
    pictures = max(1, round(seconds * per_second))
    for picture in range(pictures):
        yield min(bisect_right(until, until[-1] * picture / pictures), len(worth) - 1)
    yield len(worth) - 1
