"""The command line on a simulated world: the same commands, with the simulation's parts behind the connection."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from click.testing import Result
from typer.testing import CliRunner

from nodefleet.adapters.credentials import Redactor
from nodefleet.model.snapshot import Deployment
from nodefleet.settings import Settings
from nodefleet_tools.cli import connect, main
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.sim.hooks import Hook, Sequential
from nodefleet_tools.sim.world import World

OPERATOR = "person"
_LONGEST = timedelta(hours=12)  # of virtual time: a loop that nobody stops must not hang the tests


class Invoked:
    """boto3's Lambda client, as far as it is used."""

    def __init__(self) -> None:
        self.calls: list[dict] = []
        self.error: Exception | None = None

    def invoke(self, **arguments: object) -> dict:
        if self.error:
            raise self.error
        self.calls.append(arguments)
        return {"StatusCode": 202}


class SimSession:
    """AWS as far as the simulation does not stand for it."""

    def __init__(self) -> None:
        self.ahead: timedelta | None = None
        self.functions = Invoked()

    def skew(self) -> timedelta | None:
        return self.ahead

    def calls(self) -> int:
        return 0

    def client(self, service: str) -> Invoked:
        assert service == "lambda"
        return self.functions


class SimConnection(Connection):
    def __init__(
        self,
        world: World,
        *,
        table: str = "table",
        deployment: Deployment | None = None,
        environment: dict[str, str] | None = None,
        hooks: Sequence[Hook] = (),
        owner: str = OPERATOR,
    ) -> None:
        settings = Settings(table=table, clusters=(world.name,), bucket="bucket")
        super().__init__(settings, environment or {}, Redactor(), deployment)
        parts = world.parts(owner, limit=timedelta(days=365), hooks=hooks)
        self.world = world
        self.clock = self._now
        self.sleep = self._sleep
        self.together = Sequential()
        self.session = SimSession()
        self.store, self.history, self.archive = parts.store, parts.history, parts.archive
        self.cloud, self.cluster, self.gauges = parts.cloud, parts.cluster, parts.gauges
        self.policies = parts.policies
        self.forgotten = 0

    def _now(self) -> datetime:
        return self.world.now

    def _sleep(self, seconds: float) -> None:
        self.world.advance(seconds)
        assert self.world.now - self.world.start < _LONGEST, "nobody stops this loop"

    def calls(self) -> int:
        return self.world.runs[OPERATOR].calls

    def forget(self) -> None:
        self.forgotten += 1

    def put_deployment(self, deployment: Deployment) -> None:
        self.world.table.put("deployment", "", deployment)

    @property
    def log(self) -> list[str]:
        """The external calls so far."""
        return self.world.runs[OPERATOR].log


class Terminal:
    """Somebody who types `nodefleet …` where the connection leads into a world."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, connection: Connection) -> None:
        self.connection = connection
        self.asked: list[dict] = []  # the options of each connection

        def connection_to(**options: object) -> Connection:
            self.asked.append(options)
            return connection

        monkeypatch.setattr(connect, "connection", connection_to)

    def __call__(self, *arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(main.app, list(arguments), input=text, env={"COLUMNS": "200"})
