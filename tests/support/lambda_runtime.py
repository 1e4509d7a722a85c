"""Lambda around a packaged function: its runtime API on loopback, and the function in a clean interpreter.

The function runs as in Lambda: AWS's own runtime client (awslambdaric) fetches events from the runtime API and gives
the answers back. On its path are its own code, the layer and what the runtime brings, in Lambda's order, and nothing
else: neither this environment's packages nor its variables.
"""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import Any
from uuid import uuid4

RUNTIME = ("boto3", "botocore", "s3transfer", "awslambdaric", "runtime_client", "simplejson", "snapshot_restore_py")
LIMIT = 120.0  # seconds that a function has
_VERSION = "/2018-06-01/runtime"
_START = "import sys; sys.path[:0] = sys.argv[2:]; from awslambdaric.__main__ import main; main(sys.argv[:2])"


class FunctionError(Exception):
    """The function raised, or ended before it answered."""


@dataclass
class _Invocation:
    event: Any
    identity: str = field(default_factory=lambda: str(uuid4()))
    answer: Any = None
    error: Any = None
    over: Event = field(default_factory=Event)


@dataclass
class Function:
    """One function instance. It stays warm from call to call."""

    name: str
    process: subprocess.Popen[str]
    waiting: "Queue[_Invocation]"
    known: dict[str, _Invocation]
    printed: list[str]

    def invoke(self, event: Any, patience: float = 60.0) -> Any:
        """What the handler returns. FunctionError with what it raised, or with what was printed."""
        call = _Invocation(event)
        self.known[call.identity] = call
        self.waiting.put(call)
        until = time.monotonic() + patience
        while not call.over.wait(0.02):
            if self.process.poll() is not None or time.monotonic() > until:
                raise FunctionError(f"{self.name} did not answer:\n{''.join(self.printed)}")
        if call.error is not None:
            raise FunctionError(f"{self.name} raised {json.dumps(call.error)}\n{''.join(self.printed)}")
        return call.answer


@contextmanager
def function(handler: str, environment: Mapping[str, str], *path: Path, limit: float = LIMIT) -> Iterator[Function]:
    """A function with this handler ("nodefleet.handlers.reconcile.handler"); `path` is searched in this order."""
    waiting: Queue[_Invocation] = Queue()
    known: dict[str, _Invocation] = {}
    over = Event()
    with _runtime_api(waiting, known, over, limit) as address:
        process = subprocess.Popen(  # noqa: S603  # ours
            [sys.executable, "-I", "-S", "-B", "-c", _START, handler, *map(str, path)],
            env={"AWS_LAMBDA_RUNTIME_API": address, "_HANDLER": handler, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        printed: list[str] = []
        reading = Thread(target=lambda: printed.extend(process.stdout or ()), daemon=True)
        reading.start()
        try:
            yield Function(handler, process, waiting, known, printed)
        finally:
            over.set()
            process.kill()
            process.wait()
            reading.join(5)
            if process.stdout:
                process.stdout.close()


def runtime_folder(folder: Path) -> Path:
    """What Lambda's runtime brings for Python, as links into this environment. LookupError names what is lacking."""
    lacking = [name for name in RUNTIME if importlib.util.find_spec(name) is None]
    if lacking:
        raise LookupError(f"not installed: {', '.join(lacking)}")
    for name in RUNTIME:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        origin = Path(spec.origin or "")
        source = origin.parent if spec.submodule_search_locations else origin
        (folder / source.name).symlink_to(source)
    return folder


@contextmanager
def _runtime_api(
    waiting: "Queue[_Invocation]", known: Mapping[str, _Invocation], over: Event, limit: float
) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            assert self.path == f"{_VERSION}/invocation/next"
            while not over.is_set():
                try:
                    call = waiting.get(timeout=0.05)
                except Empty:
                    continue
                self._reply(200, json.dumps(call.event).encode(), call)
                return
            self.close_connection = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
            *_, identity, outcome = self.path.split("/")
            if identity in known:
                call = known[identity]
                call.answer, call.error = (body, None) if outcome == "response" else (None, body)
                call.over.set()
            else:  # /init/error: its process ends, and says why
                for call in known.values():
                    call.error = body
                    call.over.set()
            self._reply(202, b"{}")

        def _reply(self, status: int, body: bytes, call: _Invocation | None = None) -> None:
            self.send_response(status)
            if call is not None:
                self.send_header("Lambda-Runtime-Aws-Request-Id", call.identity)
                self.send_header("Lambda-Runtime-Deadline-Ms", str(int((time.time() + limit) * 1000)))
                self.send_header("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:1:function:fleet")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A function that is stopped hangs up."""

    server = Server(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
