"""What the server asks for, and its implementation over a connection: the live one or one into a simulated world."""

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from nodefleet.model.alerts import CATALOGUE
from nodefleet.model.decision import Event
from nodefleet.model.names import Metric
from nodefleet.ports import Runtime
from nodefleet_tools.audit import decisions as recorded
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.urgent_run import woken
from nodefleet_tools.dashboard import decisions, money, steering
from nodefleet_tools.dashboard.decisions import Filter
from nodefleet_tools.dashboard.seen import Seen, observe_cluster
from nodefleet_tools.dashboard.snapshot import Json, snapshot
from nodefleet_tools.dashboard.steering import Fields
from nodefleet_tools.dashboard.timeline import COLUMNS, MOST, Point, follow, forecast, point_now, point_of

_HISTORY = timedelta(hours=24)
_MOST_ACTIVITY = 40
_UNWATCHED = 180.0  # seconds between two points: longer, and what was recorded meanwhile is read
_FOREVER = timedelta(days=1)


class PageSource(Protocol):
    """What every page has. Dictionaries are plain JSON."""

    def about(self) -> Json:
        """Which cluster, whether it is a demo, which commands there are. Reads nothing."""
        ...

    def updates(self, after: int, timeout: float) -> tuple[int, bytes] | None:
        """The newest published snapshot with its number, once it is newer than `after`; none at the timeout."""
        ...

    def command(self, given: Fields, by: str) -> str:
        """Execute an operator command and say what comes of it; InputError if it cannot be done."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class DashboardSource(PageSource, Protocol):
    """Everything that the page of one cluster shows and does."""

    def timeline(self) -> Json: ...

    def decisions(self, wanted: Filter) -> Json: ...

    def decision(self, identity: str) -> Json: ...

    def replay(self, identity: str, policy: str) -> Json: ...

    def money(self) -> Json: ...

    def policy(self) -> Json: ...

    def check_policy(self, text: str) -> Json: ...

    def what_if(self, text: str) -> Json: ...


class Publisher:
    """The newest snapshot, for any number of readers that wait for the next one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0
        self._content = b""
        self.readers = 0

    def publish(self, content: Json) -> None:
        made = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        with self._changed:
            self._number += 1
            self._content = made
            self._changed.notify_all()

    def wait(self, after: int, timeout: float) -> tuple[int, bytes] | None:
        with self._changed:
            self.readers += 1
            try:
                self._changed.wait_for(lambda: self._number > after, timeout)
            finally:
                self.readers -= 1
            return (self._number, self._content) if self._number > after else None


class ConnectedSource:
    """All of DashboardSource but when to publish."""

    def __init__(self) -> None:
        self.publisher = Publisher()
        self._points: list[Point] = []
        self._last: Json = {}  # what was read last, for pages that are opened while nothing can be

    @property
    def connection(self) -> Connection:
        raise NotImplementedError

    def reading(self) -> AbstractContextManager[object]:
        """Held while the connection is used; a simulated world must not move on meanwhile."""
        return nullcontext()

    def demo(self) -> Json | None:
        return None

    def happenings(self) -> Iterable[tuple[datetime, str]]:
        """Events of the world itself, which only a simulation knows."""
        return ()

    def woken(self) -> str:
        """Start an urgent run, and say so."""
        return woken(self.connection, self.connection.governing().policy.interval)

    # ── publishing ───────────────────────────────────────────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """Read the cluster and publish. Raises what the table raises."""
        seen = observe_cluster(runtime_of(self.connection))
        found = snapshot(seen)
        self._remember(found)
        offset = self.connection.policies.utc_offset(seen.policy, seen.at)
        self._last = {
            "snapshot": found,
            "point": self._points[-1].columns(),
            "forecast": forecast(seen.state.journal, seen.policy, seen.at, offset),
            "activity": self._activity(seen),
            "demo": self.demo(),
        }
        self.publisher.publish(self._last)

    def fail(self, cause: str) -> None:
        """The table cannot be read: the page shows what was read last, and says that it is old."""
        self.publisher.publish({**self._last, "error": self.connection.redact(cause), "demo": self.demo()})

    def _remember(self, found: Json) -> None:
        """The point of this snapshot; recorded decisions fill unwatched time."""
        now = point_now(found)
        known = [point for point in self._points if point.at < now.at]
        last = known[-1].at if known else now.at - _HISTORY.total_seconds()
        if now.at - last > _UNWATCHED:
            past = map(point_of, recorded(self.connection.history, oldest=datetime.fromtimestamp(last, UTC)))
            unwatched = sorted((point for point in past if last < point.at < now.at), key=lambda point: point.at)
            known += follow(unwatched, known[-1] if known else None)
        self._points = [*known[-MOST + 1 :], *follow([now], known[-1] if known else None)]

    def _activity(self, seen: Seen) -> list[Json]:
        entries = [_event(event) for event in seen.events[:_MOST_ACTIVITY]]
        entries += [
            {"at": at.timestamp(), "kind": "happened", "severity": "world", "headline": "", "pool": "", "text": text}
            for at, text in self.happenings()
        ]
        return sorted(entries, key=lambda each: each["at"], reverse=True)[:_MOST_ACTIVITY]

    # ── the interface ────────────────────────────────────────────────────────────────────────────────────────────

    def about(self) -> Json:
        return {"cluster": self.connection.cluster_id, "demo": None, "commands": list(steering.COMMANDS)}

    def updates(self, after: int, timeout: float) -> tuple[int, bytes] | None:
        return self.publisher.wait(after, timeout)

    def timeline(self) -> Json:
        points = list(self._points)
        columns = zip(*(point.columns() for point in points), strict=True) if points else ((),) * len(COLUMNS)
        return dict(zip(COLUMNS, map(list, columns), strict=True))

    def decisions(self, wanted: Filter) -> Json:
        with self.reading():
            return decisions.listed(self.connection.history, wanted)

    def decision(self, identity: str) -> Json:
        with self.reading():
            return decisions.detail(self.connection.history, self.connection.archive, identity)

    def replay(self, identity: str, policy: str) -> Json:
        with self.reading():
            other = steering.read_policy(policy)[1] if policy.strip() else None
            return decisions.replay(self.connection.history, self.connection.archive, identity, other)

    def money(self) -> Json:
        with self.reading():
            connection = self.connection
            state, policy = connection.store.state(), connection.governing().policy
            return money.money(connection.history, connection.cloud, state, policy, connection.clock())

    def policy(self) -> Json:
        with self.reading():
            return steering.policy_in_force(self.connection)

    def check_policy(self, text: str) -> Json:
        with self.reading():
            return steering.checked(self.connection, text)

    def what_if(self, text: str) -> Json:
        with self.reading():
            policy = steering.read_policy(text)[1]
            connection = self.connection
            return decisions.what_if(connection.history, connection.archive, policy, connection.clock())

    def command(self, given: Fields, by: str) -> str:
        with self.reading():
            done = steering.execute(self.connection, given, by)
            return f"{done} {self.woken()}"

    def close(self) -> None:
        """Nothing is held."""


def _event(event: Event) -> Json:
    spec = CATALOGUE[event.kind]
    return {
        "at": event.at.timestamp(),
        "kind": event.kind.value,
        "severity": spec.severity.name.lower(),
        "headline": spec.headline,
        "pool": event.pool,
        "text": event.text,
    }


# ── a runtime that only reads ────────────────────────────────────────────────────────────────────────────────────────


class _Clock:
    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now

    def remaining(self) -> timedelta:
        return _FOREVER

    def sleep(self, duration: timedelta) -> None:
        raise NotImplementedError("the dashboard only reads")


class _Silent:
    """No alarm watches what a page shows."""

    def metric(self, metric: Metric, value: float) -> None:
        pass

    def line(self, message: str, **fields: Any) -> None:
        pass

    def warn(self, message: str, **fields: Any) -> None:
        pass

    def calls(self) -> int:
        return 0


def runtime_of(connection: Connection) -> Runtime:
    return Runtime(
        cluster_id=connection.cluster_id,
        time=_Clock(connection.clock),
        store=connection.store,
        history=connection.history,
        cloud=connection.cloud,
        cluster=connection.cluster,
        gauges=connection.gauges,
        archive=connection.archive,
        policies=connection.policies,
        telemetry=_Silent(),
        together=connection.together,
    )
