"""moto behind a real connection, for a function in a process of its own.

moto's own server needs a web framework; this needs nothing. Which service and region are meant stands in the signature
of each request. moto's state knows no threads, so it answers one at a time.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import Any

from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.models import botocore_stubber

from support.loopback_server import LoopbackHandler, loopback_server

_SCOPE = re.compile(r"Credential=[^/]+/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request")
_WITHOUT_REGION = frozenset({"budgets"})  # in the service's address


@dataclass
class MotoOverHttp:
    address: str = ""
    asked: list[str] = field(default_factory=list)  # "ec2 POST /", in turn


@contextmanager
def moto_over_http(*, port: int = 0, delay: Callable[[str], float] = lambda _: 0.0) -> Iterator[MotoOverHttp]:
    """Within `mock_aws`, on the same state as the test's own clients. `delay` says how many seconds a service waits."""
    served, answering = MotoOverHttp(), Lock()

    class Handler(LoopbackHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if scope := _scope(self):
                time.sleep(delay(scope[1]))
            with answering:
                status, headers, content = _answered(self, body, served)
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, str(value))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815  # the base class's names

    with loopback_server(Handler, port=port) as server:
        served.address = f"http://127.0.0.1:{server.server_port}"
        yield served


def _scope(asked: BaseHTTPRequestHandler) -> tuple[str, str] | None:
    """Region and service, as the signature says."""
    found = _SCOPE.search(asked.headers.get("Authorization", ""))
    return (found[1], found[2]) if found else None


def _answered(asked: BaseHTTPRequestHandler, body: bytes, served: MotoOverHttp) -> tuple[int, dict[str, Any], bytes]:
    scope = _scope(asked)
    if scope is None:
        return 403, {}, b"the request is not signed"
    region, service = scope
    served.asked.append(f"{service} {asked.command} {asked.path}")
    headers = HTTPHeaders()
    for name, value in asked.headers.items():
        headers[name] = value
    host = service if service in _WITHOUT_REGION else f"{service}.{region}"
    url = f"https://{host}.amazonaws.com{asked.path}"
    request = AWSPreparedRequest(asked.command, url, headers, body, stream_output=False)
    answer = botocore_stubber.process_request(request)
    assert answer is not None, f"moto does not know {url}"
    status, found, content = answer
    return int(status), dict(found), content.encode() if isinstance(content, str) else bytes(content)
