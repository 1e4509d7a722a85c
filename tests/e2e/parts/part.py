"""One running component: started, waited for, stopped, and for fault tests killed, paused and started again.

Port and data folder belong to the part, not to its process: what is started again is found where it was.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import requests

from . import guard

LOOPBACK = "127.0.0.1"
# Below the ports that the kernel hands out to clients: a port must still be free when its part starts again.
_PORTS = range(20000, 32000)
_LOOK_EVERY = 0.05
_LAST_LINES = 15


class PartFailedError(Exception):
    """A component ended by itself or did not get ready. The message has the end of its log and where the rest is."""


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on, each another one."""
    tried = iter(random.sample(_PORTS, len(_PORTS)))
    return list(islice(filter(_is_free, tried), count))


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        # A port whose last connections are still being forgotten is free for whoever listens.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def answers(url: str, *, ca: Path | None = None, token: str | None = None, below: int = 300) -> bool:
    """Whether an HTTP status below the given one comes back."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        said = requests.get(url, headers=headers, verify=str(ca) if ca else True, timeout=2)
    except requests.RequestException:
        return False
    return said.status_code < below


class Part:
    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        ready: Callable[[], bool],
        folder: Path,
        patience: float = 300.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self._ready = ready
        self._patience = patience
        self._environment = {**os.environ, **(environment or {})}
        self._pid_file = folder / f"{name}.pid"
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start without waiting, so that parts that do not need each other get ready side by side."""
        if self.running:
            return
        self._pid_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._guard = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", guard.__file__, str(self._pid_file), *self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # Ctrl-C reaches the starter only, which then stops parts in order
            )

    def wait_until_ready(self) -> None:
        until = time.monotonic() + self._patience
        while not self._ready():
            if not self.running:
                raise PartFailedError(f"{self.name} ended by itself. {self._end_of_log()}")
            if time.monotonic() > until:
                raise PartFailedError(f"{self.name} was not ready after {self._patience:g} s. {self._end_of_log()}")
            time.sleep(_LOOK_EVERY)

    def stop(self) -> None:
        """Ask it to end and wait until it has."""
        if self._guard is None:
            return
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(guard.PATIENCE + 5)
        except subprocess.TimeoutExpired:
            os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()
        self._guard = None

    def kill(self) -> None:
        """As a crash: no chance to say goodbye."""
        self._signal(signal.SIGKILL)
        self.stop()

    def pause(self) -> None:
        """Connections are taken and nobody answers: what a hung machine looks like."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _signal(self, number: signal.Signals) -> None:
        if not self.running:
            raise PartFailedError(f"{self.name} is not running")
        os.kill(int(self._pid_file.read_text()), number)

    def _end_of_log(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n  ".join([f"The end of {self.log}:", *lines])
