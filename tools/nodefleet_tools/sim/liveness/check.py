"""The base of a liveness check: subjects that are not as they must be, and for how long each may stay so."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from nodefleet_tools.sim.world import World


class Check(ABC):
    rule: ClassVar[Rule]

    def __init__(self, world: "World") -> None:
        self.world = world
        self._since: dict[str, datetime] = {}  # open cases
        self._reported: set[str] = set()

    @abstractmethod
    def cases(self) -> Mapping[str, timedelta]:
        """What is not as it must be, as a stable sentence, and the longest that it may stay so."""

    def begun(self) -> None:
        """The clocks start now."""
        self._since.clear()

    def broken(self) -> Iterable[str]:
        """Everything that is overdue now and was not reported before."""
        now, cases = self.world.now, self.cases()
        if not cases and not self._since:
            return  # as nearly always: a day has thousands of polls
        self._since = {subject: self._since.get(subject, now) for subject in cases}
        for subject, bound in cases.items():
            lasted = now - self._since[subject]
            if lasted > bound and subject not in self._reported:
                self._reported.add(subject)
                yield f"{subject} for {lasted.total_seconds():.0f} s, {bound.total_seconds():.0f} s are allowed"

    @property
    def awaited(self) -> list[str]:
        """Cases that were open at the last poll and are not overdue yet."""
        return [subject for subject in self._since if subject not in self._reported]
