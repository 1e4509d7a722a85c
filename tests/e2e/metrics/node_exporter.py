"""A stand-in for node-exporter: instances on loopback that count their CPU time and tell their memory.

Every instance has a loopback address of its own and listens on node-exporter's port there, so the shipped relabelling
needs no change.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from nodefleet_infra.security_groups import NODE_EXPORTER

# Busy time falls to several modes, as on a real instance; some of the eight never see any.
_BUSY = {"user": 0.65, "system": 0.2, "iowait": 0.1, "softirq": 0.05, "irq": 0.0, "nice": 0.0, "steal": 0.0}
_IDLE = "idle"
_TRIES = 50


class Machine:
    """Counters grow with time by how busy it is. `use` changes that from now on; what was counted stays."""

    def __init__(
        self,
        *,
        cpus: int = 2,
        cpu: float | Sequence[float] = 0.0,
        memory: float = 0.2,
        memory_bytes: int = 4 << 30,
        up_for: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cpu` is the busy share of each CPU, or of all; `memory` the used share; `up_for` seconds, spent idle."""
        self._lock = threading.Lock()
        self._clock = clock
        self._counted_at = clock()
        self._seconds = [{**dict.fromkeys(_BUSY, 0.0), _IDLE: up_for} for _ in range(cpus)]
        self._shares = _for_each(cpu, cpus)
        self._memory = memory
        self._memory_bytes = memory_bytes

    def use(self, *, cpu: float | Sequence[float] | None = None, memory: float | None = None) -> None:
        with self._lock:
            self._count()
            if cpu is not None:
                self._shares = _for_each(cpu, len(self._seconds))
            if memory is not None:
                self._memory = memory

    def page(self) -> str:
        """What node-exporter answers, as far as anybody asks for it."""
        with self._lock:
            self._count()
            counted = [
                f'node_cpu_seconds_total{{cpu="{number}",mode="{mode}"}} {seconds:.3f}'
                for number, modes in enumerate(self._seconds)
                for mode, seconds in modes.items()
            ]
            free = round(self._memory_bytes * (1 - self._memory))
        gauges = [f"node_memory_MemAvailable_bytes {free}", f"node_memory_MemTotal_bytes {self._memory_bytes}"]
        return "\n".join(["# TYPE node_cpu_seconds_total counter", *counted, *gauges, ""])

    def _count(self) -> None:
        now = self._clock()
        past, self._counted_at = now - self._counted_at, now
        for modes, share in zip(self._seconds, self._shares, strict=True):
            modes[_IDLE] += past * (1 - share)
            for mode, part in _BUSY.items():
                modes[mode] += past * share * part


class NodeExporter:
    """Tells of one instance. Stopped it refuses connections; started again it is where it was."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.address = ""  # known after the first start
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        if self._server is not None:
            return
        self._server = _listening(_telling(self.machine), self.address)
        self.address = str(self._server.server_address[0])
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.stop()


@contextmanager
def exporting(*machines: Machine) -> Iterator[list[NodeExporter]]:
    exporters = [NodeExporter(machine) for machine in machines]
    try:
        for each in exporters:
            each.start()
        yield exporters
    finally:
        for each in exporters:
            each.stop()


def _for_each(share: float | Sequence[float], cpus: int) -> list[float]:
    shares = list(share) if isinstance(share, Sequence) else [share] * cpus
    if len(shares) != cpus:
        raise ValueError(f"{len(shares)} shares for {cpus} CPUs")
    return shares


def _listening(handler: type[BaseHTTPRequestHandler], address: str) -> ThreadingHTTPServer:
    """On this address, or on one that nobody has: other runs look for theirs at the same time."""
    if address:
        return _Server((address, NODE_EXPORTER), handler)
    for _ in range(_TRIES):
        drawn = ".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))])  # noqa: S311  # not a secret
        try:
            return _Server((drawn, NODE_EXPORTER), handler)
        except OSError:
            continue
    raise OSError(f"no loopback address lets us listen on port {NODE_EXPORTER}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def _telling(machine: Machine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = machine.page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
