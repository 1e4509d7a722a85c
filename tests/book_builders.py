"""A book of one iteration whose commits can be read."""

from builders import after, look
from nodefleet.domain.journal import Journal
from nodefleet.domain.observation import Observation
from nodefleet.domain.policy import Policy
from nodefleet.loop.book import Book
from nodefleet.ports import Changes, Lease

LEASE = Lease(owner="run", fence=7, expires=after(60))


class Commits:
    def __init__(self) -> None:
        self.all: list[Changes] = []

    def commit(self, lease: Lease, changes: Changes) -> None:
        assert lease == LEASE
        self.all.append(changes)


class OpenBook(Book):
    def __init__(self, seen: Observation | None = None, journal: Journal | None = None) -> None:
        self.commits = Commits()
        super().__init__(self.commits, LEASE, journal or Journal(), Policy(), seen or look(3))

    def written(self) -> Changes:
        """What is written, all of it together."""
        self.flush()
        return self.commits.all[0] if self.commits.all else Changes()
