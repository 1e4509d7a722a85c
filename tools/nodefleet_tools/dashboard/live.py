"""The dashboard over a real cluster, read with the operator's own credentials while the page is open."""

import threading
from collections.abc import Callable

from nodefleet.errors import NodeFleetError
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.dashboard.source import ConnectedSource, Publisher

_IDLE = 1.0  # seconds between two checks for an open page


class Poller:
    """Polls while a page is open, in a thread of its own: without one AWS is not asked."""

    def __init__(self, publisher: Publisher, poll: Callable[[], None], every: float) -> None:
        self._publisher, self._poll_once, self._every = publisher, poll, every
        self._now = threading.Event()
        self._closed = threading.Event()
        self.thread = threading.Thread(target=self._poll, name="dashboard-poll", daemon=True)
        self.thread.start()

    def at_once(self) -> None:
        """An operator command was given."""
        self._now.set()

    def close(self) -> None:
        self._closed.set()
        self._now.set()
        self.thread.join(timeout=5)

    def _poll(self) -> None:
        while not self._closed.is_set():
            if self._publisher.readers:
                self._poll_once()
                self._now.wait(self._every)
                self._now.clear()
            else:
                self._closed.wait(_IDLE)


class LiveSource(ConnectedSource):
    def __init__(self, connection: Connection, every: float) -> None:
        super().__init__()
        self._connection = connection
        self._poller = Poller(self.publisher, self.poll_once, every)

    @property
    def connection(self) -> Connection:
        return self._connection

    def woken(self) -> str:
        message = super().woken()
        self._poller.at_once()
        return message

    def close(self) -> None:
        self._poller.close()

    def poll_once(self) -> None:
        """One refresh. Whatever fails is shown on the page; the next one may succeed."""
        try:
            self.refresh()
        except NodeFleetError as error:
            self.fail(str(error))
        except Exception as error:  # noqa: BLE001  # the page says so, and the poll goes on
            self.fail(f"{type(error).__name__}: {error}")
