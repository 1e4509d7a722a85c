"""An API server on loopback: real HTTP and TLS, objects in memory, and misbehaviour on demand."""

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from support.fake_api_certificates import Authority, authority
from support.fake_api_objects import Objects, Reply, failure, not_found
from support.loopback_server import loopback_server

TOKEN = "a-secret-token"  # noqa: S105  # good for this server only
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    verb: str
    group: str
    resource: str  # pods, pods/eviction; empty for a path that is no object's
    namespace: str
    name: str


@dataclass(slots=True, kw_only=True)
class Trouble:
    """What happens to some requests instead of the usual."""

    verb: str
    resource: str
    reply: Reply | None = None  # none: it is handled as usual
    delay: float = 0.0  # seconds before the first byte
    drip: float = 0.0  # seconds between single bytes of the body
    cut: str = ""  # `before`: the connection ends without an answer; `within`: in the middle of one
    after: int = 0  # so many such requests pass first
    times: int = 1

    def strikes(self, asked: Asked) -> bool:
        if (asked.verb, asked.resource) != (self.verb, self.resource) or not self.times:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class FakeApiServer:
    objects: Objects = field(default_factory=Objects)
    asked: list[Asked] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    happenings: list[tuple[str, str, Callable[[], object]]] = field(default_factory=list)
    date: str = "Mon, 16 Nov 2026 12:00:00 GMT"
    url: str = ""
    connections: int = 0  # that were ever made

    def trouble(self, verb: str, resource: str, **what: Any) -> None:
        self.troubles.append(Trouble(verb=verb, resource=resource, **what))

    def on(self, verb: str, resource: str, happens: Callable[[], object]) -> None:
        """Something happens when such a request has come in, before it is answered."""
        self.happenings.append((verb, resource, happens))

    def answer(self, asked: Asked) -> Reply:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return failure(401, "Unauthorized", "Unauthorized")
        if asked.path == "/version":
            return Reply(200, {"major": "1", "minor": "34", "gitVersion": "v1.34.4+k3s1"})
        if (asked.verb, asked.resource) in self.objects.denied:
            scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
            who = 'User "fleet" cannot'
            message = f'{asked.resource} is forbidden: {who} {asked.verb} resource "{asked.resource}" {scope}'
            return failure(403, "Forbidden", message, kind=asked.resource)
        match asked.verb, asked.resource:
            case "list", plural:
                return self.objects.list(plural, asked.query)
            case "get", plural:
                return self.objects.get(plural, asked.namespace, asked.name)
            case "create", "pods/eviction":
                return self.objects.evict(asked.namespace, asked.name, asked.body)
            case "create", "selfsubjectaccessreviews":
                return self.objects.review(asked.body)
            case "create", plural:
                return self.objects.create(plural, asked.namespace, asked.body)
            case "patch", plural:
                return self.objects.patch(plural, asked.namespace, asked.name, asked.body)
            case "delete", plural:
                return self.objects.delete(plural, asked.namespace, asked.name, asked.body or {})
            case _:
                return not_found(asked.resource, asked.name)


@contextmanager
def serving(folder: Path | None = None, signed_by: Authority | None = None) -> Iterator[FakeApiServer]:
    """With a folder for its certificate it speaks TLS, otherwise plain HTTP."""
    fake = FakeApiServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if folder else None
    if context and folder:
        context.load_cert_chain((signed_by or authority()).in_folder(folder))
    with loopback_server(_handler(fake), tls=context) as server:
        fake.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
        yield fake


def _handler(fake: FakeApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle(self) -> None:
            fake.connections += 1
            try:
                super().handle()
            except (ConnectionError, ssl.SSLError):  # the client went away, or did not trust us
                self.close_connection = True

        def do_GET(self) -> None:
            self._serve()

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815  # http.server's names

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def date_time_string(self, *_: Any) -> str:
            return fake.date

        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = _asked(self.command, self.path, dict(self.headers.items()), content)
            fake.asked.append(asked)
            for verb, resource, happens in fake.happenings:
                if (asked.verb, asked.resource) == (verb, resource):
                    happens()
            trouble = next((each for each in fake.troubles if each.strikes(asked)), None)
            if trouble and trouble.cut == "before":
                self.close_connection = True
                return
            reply = trouble.reply if trouble and trouble.reply else fake.answer(asked)
            self._send(reply, trouble)

        def _send(self, reply: Reply, trouble: Trouble | None) -> None:
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            if trouble:
                time.sleep(trouble.delay)
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if trouble and trouble.cut == "within":
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
                return
            self.send_header("Transfer-Encoding", "chunked")  # as Go does for what is longer than a buffer
            self.end_headers()
            size = 1 if trouble and trouble.drip else 4096
            for start in range(0, len(body), size):
                part = body[start : start + size]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                time.sleep(trouble.drip if trouble else 0)
            self.wfile.write(b"0\r\n\r\n")

    return Handler


def _asked(method: str, target: str, headers: Mapping[str, str], content: bytes) -> Asked:
    url = urlsplit(target)
    parts = [unquote(part) for part in url.path.strip("/").split("/")]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[3:])
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":  # a namespace itself has two parts
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = (*rest, "", "", "")[:3]
    verb = _VERBS.get(method, "get" if name or not plural else "list")
    return Asked(
        method=method,
        path=url.path,
        query=dict(parse_qsl(url.query)),
        headers={key.lower(): value for key, value in headers.items()},
        body=json.loads(content) if content else None,
        verb=verb,
        group=group,
        resource="/".join(filter(None, (plural, sub))),
        namespace=namespace,
        name=name,
    )
