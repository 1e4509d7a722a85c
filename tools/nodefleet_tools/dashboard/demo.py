"""The dashboard over a simulated world that the shipped loop scales, paced by a wall clock.

One thread plays the scenario as `nodefleet simulate` does. A recurring event on the world's own clock holds it back:
it waits until the wall clock has caught up, releases the lock meanwhile, and publishes. Requests read and steer the
world only while the lock is free, so they see it between two events, as a real table would be seen.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nodefleet.adapters.credentials import Redactor
from nodefleet.errors import NodeFleetError, UnavailableError
from nodefleet.model.inventory import Node
from nodefleet.model.names import pluralize
from nodefleet.settings import Settings
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.dashboard import steering
from nodefleet_tools.dashboard.snapshot import Json
from nodefleet_tools.dashboard.source import ConnectedSource
from nodefleet_tools.dashboard.steering import Fields
from nodefleet_tools.sim.cloud import SimCloud
from nodefleet_tools.sim.cluster import SimCluster
from nodefleet_tools.sim.faults import SERVICES
from nodefleet_tools.sim.hooks import Call, Run, Sequential, hooked
from nodefleet_tools.sim.metrics import SimGauges
from nodefleet_tools.sim.playing import ScenarioRun, stage_with_history
from nodefleet_tools.sim.scenario_result import MarkKind
from nodefleet_tools.sim.scenarios.reading import Read
from nodefleet_tools.sim.store import SimStore
from nodefleet_tools.sim.world import World

SPEEDS = (0, 1, 10, 60, 300)  # simulated seconds in one second
_NAME = "dashboard"
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
_OFTEN = 0.25  # seconds between two published snapshots
_GLIMPSE = 0.02  # seconds that the world is free after each of them while it hurries
_SECOND = timedelta(seconds=1)
_OWN_MONTHLY_USD = {"autoscaler": 4.89}  # its lean form at list prices: docs/cost.md
_STEP = 5.0  # simulated seconds between two moments in which the world is free


class _ClosedError(BaseException):
    """The page was closed: the playing thread ends here."""


class DemoSource(ConnectedSource):
    def __init__(self, scenario: Read, *, speed: float = 60, begins: timedelta = timedelta(0)) -> None:
        super().__init__()
        self._scenario = scenario
        self._speed = speed
        self._free = threading.Condition()
        self._staged = threading.Event()
        self._closed = False
        self._done = False
        self._hurry_until = scenario.scenario.starts + begins  # up to here it is played as fast as possible
        self._arrived = False  # whether the moment up to which it hurried was published
        self._wall = 0.0  # when the last paced moment was over
        self._published = 0.0
        self._thread = threading.Thread(target=self._play, name="dashboard-demo", daemon=True)
        self._thread.start()

    @property
    def connection(self) -> Connection:
        return self._connection

    def about(self) -> Json:
        """At once, though the days before are still being played."""
        return {
            "cluster": self._scenario.scenario.name,
            "demo": self.demo(),
            "commands": [*steering.COMMANDS, "speed", "skip"],
        }

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._staged.wait()
        with self._free:
            yield

    def demo(self) -> Json:
        scenario = self._scenario.scenario
        return {
            "scenario": scenario.name,
            "about": " ".join(scenario.about.split()),
            "speed": self._speed,
            "speeds": SPEEDS,
            "starts": scenario.starts.timestamp(),
            "ends": scenario.ends.timestamp(),
            "done": self._done,
        }

    def happenings(self) -> Iterable[tuple[datetime, str]]:
        marks = self._run.recorder.heard.marks
        return [(mark.at, mark.text) for mark in marks if mark.kind is MarkKind.HAPPENED]

    def woken(self) -> str:
        self._world.clock.after(0, self._run.wake)
        self._publish()  # a world that stands still shows the command, too
        return "An urgent run was started."

    def command(self, given: Fields, by: str) -> str:
        """Besides the operator commands, a demo has a speed."""
        match given.get("kind"):
            case "speed":
                speed = given.get("speed")
                if speed not in SPEEDS:
                    raise InputError(f"speed: one of {', '.join(map(str, SPEEDS))}")
                self._set(speed=float(speed))
                return f"{speed} simulated seconds in one second." if speed else "The simulation stands still."
            case "skip":
                minutes = given.get("minutes")
                if not isinstance(minutes, int) or not 0 < minutes <= 24 * 60:
                    raise InputError("minutes: a whole number up to a day")
                self._set(skip=timedelta(minutes=minutes))
                return f"{pluralize(minutes, 'minute', 'minutes')} later."
            case _:
                return super().command(given, by)

    def close(self) -> None:
        self._staged.wait()
        with self._free:
            self._closed = True
            self._free.notify_all()
        self._thread.join(timeout=5)

    # ── playing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _set(self, *, speed: float | None = None, skip: timedelta = timedelta(0)) -> None:
        with self.reading():
            if speed is not None:
                self._speed = speed
            if skip:
                self._hurry_until = max(self._world.now, self._hurry_until) + skip  # two clicks are an hour
            self._publish()
            self._free.notify_all()

    def _play(self) -> None:
        """The thread. Whatever ends it early is shown on the page."""
        with self._free:
            try:
                self._play_all()
            except _ClosedError:
                self._run.turns.end()
            except Exception as error:
                self.publisher.publish({"error": f"the simulation broke: {error!r}", "demo": self.demo()})
                raise
            finally:
                self._staged.set()

    def _play_all(self) -> None:
        scene = stage_with_history(self._scenario.scenario, self._scenario.traces, self._prepare)
        self._world = scene.world
        self._tell_own_cost()
        self._connection = connection_to(scene.world)
        self._run = ScenarioRun(scene, lambda _done: None)
        self._wall = time.monotonic()
        self._world.clock.after(_STEP, self._moment)
        self._staged.set()
        self._run.play()
        self._done = True
        self._publish()

    def _tell_own_cost(self) -> None:
        """As `pulumi up` writes it into the deployment of a cluster."""
        deployment = self._world.table.state().deployment
        if deployment is not None:
            self._world.table.put("deployment", "", replace(deployment, own_usd=_OWN_MONTHLY_USD))

    def _moment(self) -> None:
        """An event on the world's clock: wait for the wall clock, with the world free for requests."""
        if self._closed:
            raise _ClosedError
        step = max(_STEP, self._speed * _OFTEN)
        self._world.clock.after(step, self._moment)
        if self._world.now < self._hurry_until:
            self._wall = time.monotonic()
            begins = self._world.start
            whole = max(_SECOND, self._hurry_until - begins)
            self._prepare("the hours before", (self._world.now - begins) / whole)
            self._arrived = False
            return
        if not self._arrived or time.monotonic() - self._published >= _OFTEN:
            self._arrived = True  # a world that stands still from here on publishes nothing more
            self._publish()
        self._wait(step)

    def _wait(self, step: float) -> None:
        while not self._closed and self._world.now >= self._hurry_until:
            left = self._wall + step / self._speed - time.monotonic() if self._speed else 3600.0
            if left <= 0:
                break
            self._free.wait(left)
        # A slow computer falls behind rather than catching up in a rush.
        self._wall = max(self._wall + (step / self._speed if self._speed else 0.0), time.monotonic() - _OFTEN)
        if self._closed:
            raise _ClosedError

    def _prepare(self, what: str, done: float) -> None:
        """Say how far it is while there is nothing to show yet."""
        if time.monotonic() - self._published >= _OFTEN:
            self._published = time.monotonic()
            preparing = {"what": what, "done": max(0.0, min(1.0, done))}
            self.publisher.publish({"demo": self.demo(), "preparing": preparing})
            if self._staged.is_set():
                self._free.wait(_GLIMPSE)  # requests are answered while it hurries, too

    def _publish(self) -> None:
        self._published = time.monotonic()
        try:
            self.refresh()
        except NodeFleetError as error:  # the scenario takes the table away
            self.fail(str(error))


# ── ports into the world ─────────────────────────────────────────────────────────────────────────────────────────────


class _Kubectl:
    """The API server, as far as an operator reaches it past the loop's ports."""

    def __init__(self, world: World) -> None:
        self._kube = world.kube

    def node(self, name: str) -> Node | None:
        return self._kube.nodes.get(name)

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        node = self._kube.nodes[name]
        merged = {**node.annotations, **annotations}
        kept = {key: value for key, value in merged.items() if value is not None}
        self._kube.put_node(replace(node, annotations=kept))


class _Gate:
    """Parts that the scenario takes away do not answer the page either. Nothing here moves the world's clock."""

    def __init__(self, world: World) -> None:
        self._world = world

    def before(self, run: Run, call: Call) -> None:  # noqa: ARG002  # the protocol's
        cause = self._world.faults.away.get(call.port)
        service = SERVICES.get(call.port)
        if cause and service:
            raise UnavailableError(service, cause)

    def after(self, run: Run, call: Call) -> None:
        pass


def connection_to(world: World) -> Connection:
    """A connection whose parts are the world's."""
    run, gate = Run(name=_NAME, limit=_NEVER), _Gate(world)
    made = Connection(Settings(table="simulated", clusters=(world.name,), bucket="simulated"), {}, Redactor())
    made.clock = lambda: world.now
    made.together = Sequential()
    store = SimStore(world.table, world.guard, run)
    vars(made).update(
        store=hooked(store, "store", run, gate),
        history=hooked(store, "history", run, gate),
        cloud=hooked(SimCloud(world.ec2, world.guard, run), "cloud", run, gate),
        cluster=hooked(SimCluster(world.kube, world.kubelets, world.nodes, world.guard, run), "cluster", run, gate),
        gauges=SimGauges(world.prometheus, lambda: world.faults.away.get("gauges", ""), run),
        archive=hooked(world.archive, "archive", run, gate),
        policies=world.policies,
        kubernetes=lambda: _Kubectl(world),
    )
    return made
