"""The dashboard over a simulated world that stands still, and its server for a test."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.client import HTTPConnection, HTTPResponse

from nodefleet_tools.dashboard.server import Dashboard
from nodefleet_tools.dashboard.source import ConnectedSource, PageSource
from nodefleet_tools.fleet import ClusterRow
from nodefleet_tools.sim.world import World
from support.builders import NOON
from support.sim_connections import SimConnection


class WorldSource(ConnectedSource):
    """Publishes when a test says so."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._connection = SimConnection(world, owner="dashboard")

    @property
    def connection(self) -> SimConnection:
        return self._connection

    def published(self) -> dict:
        """The newest update, as the page gets it."""
        self.refresh()
        found = self.publisher.wait(0, 0)
        assert found is not None
        return json.loads(found[1])


class Browser:
    """A client that keeps its cookie, as far as a test needs one."""

    def __init__(self, page: Dashboard) -> None:
        self.page = page
        self.cookie = ""
        self.csrf = ""

    def sign_in(self) -> "Browser":
        answer, _ = self.get(self.page.session.link.partition(f":{self.page.session.port}")[2])
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        self.csrf = self.json("/api/about")["csrf"]
        return self

    def get(self, path: str, **headers: str) -> tuple[HTTPResponse, bytes]:
        return self._ask("GET", path, None, headers)

    def json(self, path: str) -> dict:
        answer, content = self.get(path)
        assert answer.status == 200, content
        return json.loads(content)

    def post(self, path: str, content: object, **headers: str) -> tuple[int, dict]:
        sent = {"X-CSRF-Token": self.csrf, "Content-Type": "application/json", **headers}
        answer, body = self._ask("POST", path, json.dumps(content).encode(), sent)
        return answer.status, json.loads(body)

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection("127.0.0.1", self.page.session.port, timeout=10)
        sent = {"Cookie": self.cookie, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection.request(method, path, body, {name: value for name, value in sent.items() if value})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content


@contextmanager
def serving(source: PageSource, home: str = "index.html") -> Iterator[Dashboard]:
    page = Dashboard(source, by="ann@laptop", home=home)
    thread = threading.Thread(target=page.serve, daemon=True)
    thread.start()
    try:
        yield page
    finally:
        page.close()
        thread.join(timeout=5)
        assert not thread.is_alive()


def overview_rows() -> list[ClusterRow]:
    """Clusters of one deployment: two that are well, and one each that is late, cannot be read, and is paused."""
    seen = {"paused": False, "decided_at": NOON - timedelta(seconds=40), "level": "normal"}
    return [
        ClusterRow(name="us-quiet", region="us-east-1", **{**seen, "paused": True}),
        ClusterRow(name="us-shop", region="us-east-1", nodes=3, target=3, usd_today=2.0, **seen),
        ClusterRow(name="eu-shop", region="eu-west-1", nodes=4, target=6, pending=3, usd_today=1.25, **seen),
        ClusterRow(name="us-late", region="us-east-1", nodes=2, target=2, late=True, usd_today=0.5, **seen),
        ClusterRow(name="eu-broken", region="eu-west-1", paused=False, decided_at=None, problem="DynamoDB: denied"),
    ]
