"""All clusters of one deployment on one page: how each is, and a way to the page of one of them.

A cluster's own page is a server of its own, with its own session: it starts when an operator opens it, and ends with
the overview. So the page of one cluster is the same whichever way it was opened.
"""

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

from nodefleet.errors import NodeFleetError
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.dashboard.live import Poller
from nodefleet_tools.dashboard.server import Dashboard
from nodefleet_tools.dashboard.snapshot import Json
from nodefleet_tools.dashboard.source import DashboardSource, Publisher
from nodefleet_tools.dashboard.steering import Fields
from nodefleet_tools.fleet import ClusterRow, state_of

HOME = "clusters.html"


class OverviewSource:
    """`read` gives a row for each registered cluster; `connect` the source of one cluster's own page."""

    def __init__(
        self,
        read: Callable[[], Sequence[ClusterRow]],
        connect: Callable[[str], DashboardSource],
        clock: Callable[[], datetime],
        *,
        by: str,
        every: float,
    ) -> None:
        self.publisher = Publisher()
        self._read, self._connect, self._clock, self._by = read, connect, clock, by
        self._names: frozenset[str] = frozenset()
        self._pages: dict[str, Dashboard] = {}
        self._opening = threading.Lock()
        self._poller = Poller(self.publisher, self.poll_once, every)

    # ── the interface ────────────────────────────────────────────────────────────────────────────────────────────

    def about(self) -> Json:
        return {"clusters": True, "commands": ["open"]}

    def updates(self, after: int, timeout: float) -> tuple[int, bytes] | None:
        return self.publisher.wait(after, timeout)

    def command(self, given: Fields, by: str) -> str:  # noqa: ARG002  # the port's
        """The link to a cluster's own page. Only clusters that the overview has shown can be opened."""
        name = str(given.get("cluster", ""))
        if given.get("kind") != "open" or name not in self._names:
            raise InputError(f"{name or 'this'} is no cluster of this deployment")
        with self._opening:
            if name not in self._pages:
                self._pages[name] = self._start(name)
            return self._pages[name].session.link

    def close(self) -> None:
        self._poller.close()
        for page in self._pages.values():
            page.close()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def poll_once(self) -> None:
        """One refresh. What fails is shown on the page; the next one may succeed."""
        try:
            rows = self._read()
        except NodeFleetError as error:
            self.publisher.publish({"error": str(error)})
            return
        self._names = frozenset(row.name for row in rows)
        now = self._clock()
        ordered = sorted(rows, key=lambda row: (not row.troubled, row.paused, row.name))
        self.publisher.publish({"at": now.timestamp(), "clusters": [_plain(row, now) for row in ordered]})

    def _start(self, name: str) -> Dashboard:
        page = Dashboard(self._connect(name), by=self._by)
        threading.Thread(target=page.serve, name=f"page-{name}", daemon=True).start()
        return page


def _plain(row: ClusterRow, now: datetime) -> Json:
    return {
        "name": row.name,
        "region": row.region,
        "state": state_of(row),
        "troubled": row.troubled,
        "paused": row.paused,
        "problem": row.problem,
        "nodes": row.nodes if row.is_known else None,
        "target": row.target if row.is_known else None,
        "pending": row.pending if row.is_known else None,
        "age": (now - row.decided_at).total_seconds() if row.decided_at else None,
        "usd": row.usd_today,
    }
