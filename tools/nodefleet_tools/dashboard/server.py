"""HTTP on loopback: the page's files, JSON, server-sent events and commands. Nothing else can reach it.

Standard library on purpose: a handful of routes on 127.0.0.1 need no framework, and a package less is a package less to
trust with credentials in the same process.
"""

import json
import threading
from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from nodefleet.errors import NodeFleetError
from nodefleet.model.serialization import ValidationError
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.dashboard.decisions import Filter, UnknownDecisionError
from nodefleet_tools.dashboard.session import Session
from nodefleet_tools.dashboard.snapshot import Json
from nodefleet_tools.dashboard.source import DashboardSource, PageSource
from nodefleet_tools.replaying import NotReplayableError

LOOPBACK = "127.0.0.1"
_PAGE = "nodefleet_tools.dashboard"
_SHARED = "nodefleet_tools.report_page"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_LARGEST = 512 * 1024  # bytes of a request's body: a policy is far smaller
_HEARTBEAT = 15.0  # seconds
_LISTEN = 1.0  # seconds: a stream ends so soon when the server closes
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Dashboard:
    """A server on loopback for one source and one session."""

    def __init__(self, source: PageSource, *, by: str, port: int = 0, home: str = "index.html") -> None:
        handler = type("Handler", (_Handler,), {"dashboard": self})
        self.source = source
        self.by = by
        self.home = home  # the page at the root
        self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        self._server.daemon_threads = True
        self.session = Session(port=self._server.server_port)
        self.closing = threading.Event()
        self._serving = False

    def serve(self) -> None:
        """Until `close`, which another thread calls, or Ctrl-C."""
        self._serving = True
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._serving = False

    def close(self) -> None:
        self.closing.set()
        self.source.close()
        if self._serving:  # a server that never began would be waited for without end
            self._server.shutdown()
        self._server.server_close()


class _RefusedError(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    dashboard: ClassVar[Dashboard]
    protocol_version = "HTTP/1.1"
    server_version = "node-fleet"
    sys_version = ""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """The terminal stays readable; a token in a path stays out of logs."""

    # ── entry ────────────────────────────────────────────────────────────────────────────────────────────────────

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, handle: Callable[[], None]) -> None:
        try:
            if not self.dashboard.session.is_own_host(self.headers.get("Host", "")):
                raise _RefusedError(HTTPStatus.FORBIDDEN, "This address is not the dashboard's own.")  # noqa: TRY301
            handle()
        except _RefusedError as refused:
            self._json({"error": str(refused)}, refused.status)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except (InputError, ValueError) as error:
            self._json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except ValidationError as error:
            first = error.problems[0]
            self._json({"error": f"{first.path} {first.wrong}"}, HTTPStatus.BAD_REQUEST)
        except UnknownDecisionError as error:
            self._json({"error": str(error)}, HTTPStatus.NOT_FOUND)
        except NotReplayableError as error:
            self._json({"error": str(error)}, HTTPStatus.CONFLICT)
        except NodeFleetError as error:
            self._json({"error": str(error)}, HTTPStatus.BAD_GATEWAY)

    def _get(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if url.path == "/" and "token" in query:
            self._sign_in(query["token"])
            return
        self._require_session()
        if url.path.startswith("/api/"):
            self._read(url.path.removeprefix("/api/"), query)
        else:
            self._file(self.dashboard.home if url.path == "/" else url.path.removeprefix("/"))

    def _sign_in(self, token: str) -> None:
        session = self.dashboard.session
        if not session.redeem(token) and not session.is_signed_in(self.headers.get("Cookie", "")):
            raise _RefusedError(
                HTTPStatus.FORBIDDEN, "This link was used or is wrong. Start `nodefleet dashboard` again for a new one."
            )
        self._head(HTTPStatus.SEE_OTHER, {"Location": "/", "Set-Cookie": session.set_cookie, "Content-Length": "0"})

    def _require_session(self) -> None:
        if not self.dashboard.session.is_signed_in(self.headers.get("Cookie", "")):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "Open the link that `nodefleet dashboard` printed.")

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, name: str, query: dict[str, str]) -> None:
        match name.split("/"):
            case ["about"]:
                about = self.dashboard.source.about()
                self._json({**about, "csrf": self.dashboard.session.csrf, "by": self.dashboard.by})
            case ["updates"]:
                self._stream()
            case parts:
                self._read_cluster(parts, query)

    def _read_cluster(self, parts: list[str], query: dict[str, str]) -> None:
        source = self._cluster()
        match parts:
            case ["timeline"]:
                self._json(source.timeline())
            case ["decisions"]:
                self._json(source.decisions(_filter(query)))
            case ["decisions", identity]:
                self._json(source.decision(unquote(identity)))
            case ["money"]:
                self._json(source.money())
            case ["policy"]:
                self._json(source.policy())
            case _:
                raise _RefusedError(HTTPStatus.NOT_FOUND, f"There is no {'/'.join(parts)}.")

    def _cluster(self) -> DashboardSource:
        source = self.dashboard.source
        if not isinstance(source, DashboardSource):
            raise _RefusedError(HTTPStatus.NOT_FOUND, "This page shows all clusters: open one of them.")
        return source

    def _stream(self) -> None:
        self._head(HTTPStatus.OK, {"Content-Type": "text/event-stream", "Connection": "close"})
        self.close_connection = True
        number, quiet = 0, 0.0
        while not self.dashboard.closing.is_set():
            found = self.dashboard.source.updates(number, _LISTEN)
            if found is not None:
                number, content = found
                quiet = 0.0
                self.wfile.write(b"data: " + content + b"\n\n")
            elif (quiet := quiet + _LISTEN) >= _HEARTBEAT:
                quiet = 0.0
                self.wfile.write(b": still here\n\n")  # a reader that has gone is noticed by this
            self.wfile.flush()

    def _file(self, name: str) -> None:
        found = _FILES.get(name)
        if found is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"There is no {name}.")
        content = files(found[0]).joinpath(*found[1].split("/")).read_bytes()
        kind = _TYPES[name[name.rindex(".") :]]
        self._send(content, f"{kind}; charset=utf-8")

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _post(self) -> None:
        given = self._body()  # read first: the connection is used again
        self._require_session()
        session = self.dashboard.session
        own = session.is_own_origin(self.headers.get("Origin", ""))
        if not own or not session.knows(self.headers.get("X-CSRF-Token", "")):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "This request does not come from the page. Reload it.")
        match urlsplit(self.path).path.removeprefix("/api/").split("/"):
            case ["commands"]:
                self._json({"message": self.dashboard.source.command(given, self.dashboard.by)})
            case ["decisions", identity, "replay"]:
                self._json(self._cluster().replay(unquote(identity), str(given.get("policy") or "")))
            case ["policy", "check"]:
                self._json(self._cluster().check_policy(str(given.get("text", ""))))
            case ["policy", "what-if"]:
                self._json(self._cluster().what_if(str(given.get("text", ""))))
            case _:
                raise _RefusedError(HTTPStatus.NOT_FOUND, "There is no such command.")

    def _body(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 < length <= _LARGEST:
            self.close_connection = True
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A request has 1 to {_LARGEST} bytes.")
        content = self.rfile.read(length)
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Commands are JSON.")
        given = json.loads(content)
        if not isinstance(given, dict):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "A command is a JSON object.")
        return given

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _json(self, content: Json, status: HTTPStatus = HTTPStatus.OK) -> None:
        made = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=str).encode()
        self._send(made, "application/json; charset=utf-8", status)

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _head(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _filter(query: dict[str, str]) -> Filter:
    before = query.get("before")
    return Filter(
        action=query.get("action", ""),
        pool=query.get("pool", ""),
        text=query.get("text", ""),
        before=datetime.fromisoformat(before) if before else None,
    )


# Only these files are served: a path from a request never reaches the file system.
_FILES = {
    **{
        name: (_PAGE, f"static/{name}")
        for name in (
            "index.html",
            "clusters.html",
            "clusters.js",
            "style.css",
            "main.js",
            "dom.js",
            "api.js",
            "format.js",
            "now.js",
            "nodes.js",
            "charts.js",
            "history.js",
            "money.js",
            "steer.js",
            "policy.js",
            "verdict.js",
            "icon.svg",
        )
    },
    "chart.js": (_SHARED, "chart.js"),
}
