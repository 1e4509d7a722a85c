"""Waiting for a condition, and things that go on beside a test."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

_T = TypeVar("_T")


# An instance may be busy, so this is no promise of speed: it ends a wait for what will never be.
LONGEST = 300.0
_PRESSURE = Path("/proc/pressure/cpu")


def until(
    true: Callable[[], _T | None], what: str | Callable[[], str], seconds: float = LONGEST, every: float = 0.2
) -> _T:
    """The first answer that is true. `what` says what was waited for, and may add what was seen instead."""
    limit = time.monotonic() + seconds
    while not (found := true()):
        said = what if isinstance(what, str) else what()
        assert time.monotonic() < limit, f"not within {seconds:g} s: {said}"
        time.sleep(every)
    return found


def eventually(true: Callable[[], object], seconds: float = LONGEST, every: float = 0.2) -> bool:
    """Whether it becomes true: for assertions that say themselves what was wanted."""
    limit = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < limit:
        time.sleep(every)
    return bool(found)


def crowded() -> float:
    """Seconds so far in which something waited for a CPU: how long things take cannot be told then."""
    if not _PRESSURE.exists():
        return 0.0
    found = re.search(r"^some .*total=(\d+)$", _PRESSURE.read_text(), re.MULTILINE)
    return int(found[1]) / 1e6 if found else 0.0


class Beside:
    """Does something again and again in a thread. What goes wrong is kept: parts that fail are part of the tests."""

    def __init__(self, name: str, every: float, action: Callable[[], object]) -> None:
        self.every = every
        self.troubles: list[str] = []
        self._name, self._action = name, action
        self._over = Event()
        self._thread: Thread | None = None

    @property
    def on(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        if self._thread is None:
            self._over.clear()
            self._thread = Thread(target=self._go, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.stop()

    def _go(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._action()
            except Exception as error:  # noqa: BLE001  # it goes on, and whoever looks is told
                self.troubles.append(f"{self._name}: {error!r}")
            self._over.wait(max(0.0, began + self.every - time.monotonic()))
