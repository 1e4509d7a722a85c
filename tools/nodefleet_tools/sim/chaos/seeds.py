"""Many seeds, one after the other or by several processes."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

from nodefleet_tools.sim.chaos.plan import Plan
from nodefleet_tools.sim.chaos.play import Verdict, play

_AT_A_TIME = 4  # seeds that a process gets at once


def judged(seed: int) -> Verdict:
    """What came of a seed. The trace is kept only if something went wrong: it is long."""
    verdict = play(Plan.of(seed))
    return verdict if verdict.violations else replace(verdict, trace=())


def verdicts(seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    """In the order of the seeds, as they are done."""
    if jobs <= 1:
        yield from map(judged, seeds)
        return
    # The caller may have threads, such as a progress bar's: those must not be copied into the new processes.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as processes:
        yield from processes.map(judged, seeds, chunksize=_AT_A_TIME)
