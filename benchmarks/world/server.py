"""The world outside, on loopback and in a process of its own: Kubernetes, AWS, Prometheus and Slack.

    cd benchmarks && ../.venv/bin/python -m world.server --nodes 1000

prints its addresses, and serves until its standard input is closed.

Kubernetes and AWS speak TLS, as they do in earnest: handshakes and 60 MB to decrypt are part of the price. DynamoDB and
Secrets Manager are moto's; the lists of Kubernetes and EC2 are rendered before anybody asks. Every answer takes as long
as `WAITS` says, so that a run waits for others as it would in a region. These are assumptions, not measurements.

With `--dynamodb` the table is at that address, and with `--no-kubernetes` the cluster is: see `real_cluster.py`.
"""

import argparse
import gzip
import json
import ssl
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from world.ec2_answers import Ec2Answers
from world.kubernetes_answers import KubernetesAnswers
from world.prometheus_answers import PrometheusAnswers
from world.records import Records
from world.scene import PODS_PER_NODE, Scene

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.fake_api_certificates import Authority, authority

# Seconds until an answer begins, as they may be within a region.
WAITS = {
    "Kubernetes": 0.03,
    "EC2": 0.15,
    "DynamoDB": 0.005,
    "S3": 0.03,
    "Secrets Manager": 0.02,
    "Prometheus": 0.01,
    "Slack": 0.1,
}

_ZIPPED_FROM = 128 * 1024  # bytes, as an API server


class World:
    """What is asked and how it is answered."""

    def __init__(self, scene: Scene, waits: dict[str, float], *, dynamodb: str = "", kubernetes: bool = True) -> None:
        self.kubernetes = KubernetesAnswers(scene) if kubernetes else None
        self.ec2 = Ec2Answers(scene)
        self.prometheus = PrometheusAnswers(scene)
        self.records = Records(dynamodb)
        self.calls: Counter[str] = Counter()
        self._waits = waits
        self._counting = threading.Lock()

    def heard(self, part: str, what: str) -> None:
        with self._counting:
            self.calls[f"{part} {what}"] += 1
        time.sleep(self._waits[part])

    def told(self) -> bytes:
        """The calls so far; counting begins afresh."""
        with self._counting:
            calls, self.calls = self.calls, Counter()
        return json.dumps(calls).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    world: ClassVar[World]

    def answered(self, method: str, body: bytes) -> tuple[int, bytes]:
        raise NotImplementedError

    def _any(self) -> None:
        status, content = self.answered(self.command, self._body())
        zipped = len(content) > _ZIPPED_FROM and "gzip" in self.headers.get("Accept-Encoding", "")
        content = gzip.compress(content, 1) if zipped else content
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if zipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815  # names that the library asks for

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the library
        pass


class _Kubernetes(_Handler):
    def answered(self, method: str, body: bytes) -> tuple[int, bytes]:
        url = urlsplit(self.path)
        if self.world.kubernetes is None:
            raise LookupError("the cluster is elsewhere")
        what, answer = self.world.kubernetes.prepared(method, url.path, dict(parse_qsl(url.query)), body)
        self.world.heard("Kubernetes", what)
        return answer()


class _Aws(_Handler):
    def answered(self, method: str, body: bytes) -> tuple[int, bytes]:
        target = self.headers.get("X-Amz-Target", "")
        if target:
            part = "DynamoDB" if target.startswith("DynamoDB") else "Secrets Manager"
            self.world.heard(part, target.rpartition(".")[2])
            return self.world.records.forwarded(part, dict(self.headers), body)
        if method == "POST":
            asked = dict(parse_qsl(body.decode()))
            self.world.heard("EC2", asked["Action"])
            return 200, self.world.ec2.answer(asked)
        self.world.heard("S3", "PutObject" if method == "PUT" else method)
        return 200, b""


class _Plain(_Handler):
    """Prometheus and Slack, and for the benchmark itself: what was asked, and the state as at first."""

    def answered(self, method: str, body: bytes) -> tuple[int, bytes]:  # noqa: ARG002  # the path says it all
        match self.path:
            case "/api/v1/query":
                self.world.heard("Prometheus", "query")
                return 200, self.world.prometheus.answer(dict(parse_qsl(body.decode()))["query"])
            case "/slack":
                self.world.heard("Slack", "post")
                return 200, b"ok"
            case "/calls":
                return 200, self.world.told()
            case "/reset":
                self.world.records.reset(json.loads(body))
                self.world.told()
                return 200, b""
            case path:
                raise LookupError(path)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A function that ends, or that will not wait any longer, hangs up."""
        if not isinstance(sys.exc_info()[1], ConnectionError | ssl.SSLEOFError):
            super().handle_error(request, client_address)


@contextmanager
def _serving(handler: type[_Handler], world: World, tls: ssl.SSLContext | None) -> Iterator[str]:
    class Handler(handler):  # type: ignore[misc, valid-type]  # each world has its own
        pass

    Handler.world = world
    server = _Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _tls(authority_: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(authority_.in_folder(Path(folder)))
    return context


def serve(world: World, ready: Callable[[dict[str, str]], None]) -> None:
    """Until the parent closes our standard input."""
    trusted = authority()
    tls = _tls(trusted)
    with (
        _serving(_Kubernetes, world, tls) as kubernetes,
        _serving(_Aws, world, tls) as aws,
        _serving(_Plain, world, None) as plain,
    ):
        ready({"kubernetes": kubernetes, "aws": aws, "plain": plain, "ca": trusted.ca})
        sys.stdin.read()


def main() -> None:
    parser = argparse.ArgumentParser(description="Kubernetes, AWS, Prometheus and Slack on loopback.")
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--per-node", type=int, default=PODS_PER_NODE, help="pods on each node")
    parser.add_argument("--waiting", type=int, default=0, help="percent more pods than there is room for")
    parser.add_argument("--lean", action="store_true", help="without managedFields")
    parser.add_argument("--dynamodb", default="", metavar="URL", help="where the table is, instead of in moto")
    parser.add_argument("--no-kubernetes", action="store_true", help="the cluster is elsewhere")
    parser.add_argument("--at-once", action="store_true", help="answer without waiting")
    options = parser.parse_args()
    scene = Scene(nodes=options.nodes, per_node=options.per_node, waiting=options.waiting, managed=not options.lean)
    waits = dict.fromkeys(WAITS, 0.0) if options.at_once else WAITS
    world = World(scene, waits, dynamodb=options.dynamodb, kubernetes=not options.no_kubernetes)
    serve(world, lambda where: print(json.dumps(where), flush=True))


if __name__ == "__main__":
    main()
