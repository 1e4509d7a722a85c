"""Several independent calls at once on threads, and one lock for imports of large libraries."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from queue import Empty, SimpleQueue
from threading import Event, Lock, RLock, Thread
from typing import Generic, TypeVar

# ── threads ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Several independent calls at once, on threads.
#
# A run waits for the network most of its time, so threads are enough. They are daemons: Lambda freezes whatever still
# runs when a handler returns, and a laptop must be able to exit. So a call that does not end by itself must have its
# own timeout; a caller that sets a limit here stops waiting for it, and its late answer is dropped.


T = TypeVar("T")

MOST = 16  # at once: a Prometheus answers 20 queries at the same time, botocore keeps so many connections


class Threads:
    """`ports.Together`: results in the order of the calls, an exception in the place of a result."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most

    def __call__(self, *calls: Callable[[], T]) -> list[T | Exception]:
        if len(calls) == 1:
            return [_try_call(calls[0])]
        return self._run_all(calls, None)

    def within(self, limit: timedelta, calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
        """The same, but no longer than `limit`: a TimeoutError stands for what is not there by then."""
        return self._run_all(calls, time.monotonic() + limit.total_seconds())

    def _run_all(self, calls: Sequence[Callable[[], T]], deadline: float | None) -> list[T | Exception]:
        results: list[T | Exception] = [TimeoutError("not finished in time") for _ in calls]
        work = _Work(calls)
        for _ in range(min(self._most, len(calls))):
            Thread(target=work.run, name="together", daemon=True).start()
        try:
            for _ in calls:
                place, result = work.finished.get(timeout=None if deadline is None else _remaining(deadline))
                if isinstance(result, BaseException) and not isinstance(result, Exception):
                    raise result  # someone ends the whole run: that is not one call's result
                results[place] = result
        except Empty:
            pass  # the deadline: what is missing stands as a TimeoutError already
        finally:
            work.over.set()
        return results


class _Work(Generic[T]):
    """The calls, taken in turn by several threads."""

    def __init__(self, calls: Sequence[Callable[[], T]]) -> None:
        self._todo: Iterator[tuple[int, Callable[[], T]]] = iter(enumerate(calls))
        self._taking = Lock()
        self.over = Event()  # no caller waits any more: begin nothing new
        self.finished: SimpleQueue[tuple[int, T | BaseException]] = SimpleQueue()

    def run(self) -> None:
        while not self.over.is_set():
            with self._taking:
                taken = next(self._todo, None)
            if taken is None:
                return
            place, call = taken
            try:
                self.finished.put((place, _try_call(call)))
            except BaseException as end:  # noqa: BLE001  # told to the waiting thread, which raises it
                self.finished.put((place, end))


def _try_call(call: Callable[[], T]) -> T | Exception:
    try:
        return call()
    except Exception as problem:  # noqa: BLE001  # a result like any other
        return problem


def _remaining(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


# ── imports ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# Large libraries are imported when they are first needed, by one thread at a time.
#
# Python locks each module on its own. Two threads that enter a package with import cycles from two sides (`requests`,
# and `requests.utils` by way of the Kubernetes client) can both be given a half-made module, and both calls fail.


ONE_AT_A_TIME = RLock()
