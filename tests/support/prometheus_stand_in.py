"""A Prometheus on loopback that answers as it is told: rightly, wrongly, slowly, or not at all."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import requests  # noqa: F401  # here already, so that importing it takes nothing off a test's deadline

from support.builders import NOON


@dataclass(frozen=True)
class Http:
    """What is sent back. `length` may lie, `drip` sends the body byte by byte."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    drip: bool = False
    late: bool = False  # only when the test is over


@dataclass(frozen=True)
class Asked:
    path: str
    query: str
    timeout: str
    authorization: str | None
    content_type: str | None = None


def success(result: Any, kind: str = "vector", **more: Any) -> Http:
    return said({"status": "success", "data": {"resultType": kind, "result": result}, **more})


def said(answer: Mapping[str, Any], status: int = 200) -> Http:
    return Http(status, json.dumps(answer).encode())


def vector(*samples: tuple[Mapping[str, str], str], at: datetime = NOON, **more: Any) -> Http:
    return success([{"metric": labels, "value": [at.timestamp(), value]} for labels, value in samples], **more)


def one(value: float | str, at: datetime = NOON, **more: Any) -> Http:
    return vector(({}, str(value)), at=at, **more)


class StandIn:
    def __init__(self, answer: Callable[[str], Http]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self.address = ""

    def queries(self) -> list[str]:
        return sorted(each.query for each in self.asked)


@contextmanager
def prometheus(answers: Mapping[str, Http] | Http | Callable[[str], Http]) -> Iterator[StandIn]:
    """Answers by query, or one for all."""
    if isinstance(answers, Http):
        stand_in = StandIn(lambda _: answers)
    elif callable(answers):
        stand_in = StandIn(answers)
    else:
        stand_in = StandIn(lambda query: answers.get(query, vector()))
    server = _Quiet(("127.0.0.1", 0), _handler(stand_in))
    stand_in.address = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    serving.start()
    try:
        yield stand_in
    finally:
        stand_in.over.set()
        server.shutdown()
        server.server_close()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            query = form["query"][0]
            stand_in.asked.append(
                Asked(
                    self.path,
                    query,
                    form["timeout"][0],
                    self.headers.get("Authorization"),
                    self.headers["Content-Type"],
                )
            )
            reply = stand_in.answer(query)
            if reply.late:
                stand_in.over.wait(5)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
            self.end_headers()
            if not reply.drip:
                self.wfile.write(reply.body)
                return
            for byte in reply.body:
                self.wfile.write(bytes([byte]))
                if stand_in.over.wait(0.02):
                    return

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the library
            pass

    return Handler
