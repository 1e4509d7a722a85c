"""The dashboard over a real cluster, read with the operator's own credentials while the page is open."""

import threading

from nodefleet.errors import NodeFleetError
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.dashboard.source import ConnectedSource

_IDLE = 1.0  # seconds between two checks for an open page


class LiveSource(ConnectedSource):
    def __init__(self, connection: Connection, every: float) -> None:
        super().__init__()
        self._connection = connection
        self._every = every
        self._now = threading.Event()  # an operator command was given: poll at once
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="dashboard-poll", daemon=True)
        self._thread.start()

    @property
    def connection(self) -> Connection:
        return self._connection

    def woken(self) -> str:
        message = super().woken()
        self._now.set()
        return message

    def close(self) -> None:
        self._closed.set()
        self._now.set()
        self._thread.join(timeout=5)

    def _poll(self) -> None:
        while not self._closed.is_set():
            if self.publisher.readers:
                self.poll_once()
                self._now.wait(self._every)
                self._now.clear()
            else:
                self._closed.wait(_IDLE)  # no open page: AWS is not asked

    def poll_once(self) -> None:
        """One refresh. Whatever fails is shown on the page; the next one may succeed."""
        try:
            self.refresh()
        except NodeFleetError as error:
            self.fail(str(error))
        except Exception as error:  # noqa: BLE001  # the page says so, and the poll goes on
            self.fail(f"{type(error).__name__}: {error}")
