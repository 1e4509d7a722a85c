"""A book of one iteration whose commits can be read."""

from nodefleet.model.snapshot import Observation
from nodefleet.model.state import LoopState
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Changes, Lease
from nodefleet.reconcile.unit_of_work import UnitOfWork
from support.builders import after, look

LEASE = Lease(owner="run", fence=7, expires=after(60))


class Commits:
    def __init__(self) -> None:
        self.all: list[Changes] = []

    def commit(self, lease: Lease, changes: Changes) -> None:
        assert lease == LEASE
        self.all.append(changes)


class OpenBook(UnitOfWork):
    def __init__(self, seen: Observation | None = None, journal: LoopState | None = None) -> None:
        self.commits = Commits()
        super().__init__(self.commits, LEASE, journal or LoopState(), Policy(), seen or look(3))

    def written(self) -> Changes:
        """What is written, all of it together."""
        self.flush()
        return self.commits.all[0] if self.commits.all else Changes()
