"""An HTTP server on loopback, for stand-ins that answer real requests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from threading import Thread
from typing import Any


class LoopbackHandler(BaseHTTPRequestHandler):
    def reply(
        self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"", *, lacking: int = 0
    ) -> None:
        """`lacking`: as many bytes fewer than the headers announce."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + lacking))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


@contextmanager
def loopback_server(
    handler: type[BaseHTTPRequestHandler], *, port: int = 0, tls: SSLContext | None = None
) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
