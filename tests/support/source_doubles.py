"""Servers on loopback that stand in for demand sources: HTTP documents, GitHub's API, and the Redis protocol."""

import json
import socket
import socketserver
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from ssl import SSLContext
from threading import Event, Thread
from urllib.parse import parse_qs, urlsplit

from nodefleet.adapters.sources.port import Moment, SourceAdapter, SourceLogins
from nodefleet.errors import MisconfiguredError
from nodefleet.model.snapshot import Missing, Sample
from support.builders import NOON
from support.loopback_server import LoopbackHandler, loopback_server


def moment(seconds: float = 5.0, **changes: object) -> Moment:
    given = {"now": NOON, "stale_after": timedelta(minutes=5), **changes}
    return Moment(deadline=time.monotonic() + seconds, **given)


def read_one(adapter: SourceAdapter, entry: object, seconds: float = 5.0, **changes: object) -> Sample:
    (call,) = adapter.calls([entry], moment(seconds, **changes))
    (sample,) = call.read()
    return sample


def cause(sample: Sample) -> str:
    assert isinstance(sample, Missing), sample
    return sample.cause


class FakeSecrets:
    """Logins by the whole name of their secret. A refresh moves on to the next one, as a rotation does."""

    def __init__(self, **logins: object) -> None:
        self.logins = {name: list(each) if isinstance(each, list) else [each] for name, each in logins.items()}
        self.refreshed: list[str] = []

    def login(self, secret: str, kind: type) -> object:
        name = secret.removeprefix("node-fleet/shop/sources/")
        if name not in self.logins:
            raise MisconfiguredError(f"Secrets Manager: there is no secret {secret}")
        found = self.logins[name][0]
        assert isinstance(found, kind)
        return found

    def refresh(self, secret: str) -> None:
        self.refreshed.append(secret)
        known = self.logins[secret.removeprefix("node-fleet/shop/sources/")]
        if len(known) > 1:
            known.pop(0)


def logins(**by_name: object) -> SourceLogins:
    return SourceLogins(FakeSecrets(**by_name), "node-fleet/shop/sources")


# ── HTTP ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # with its query
    headers: Mapping[str, str]  # names in lower case


@dataclass(frozen=True)
class Answer:
    status: int = 200
    document: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None

    @property
    def body(self) -> bytes:
        return json.dumps(self.document).encode() if self.raw is None else self.raw


@dataclass
class HttpDouble:
    answer: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)
    address: str = ""

    @contextmanager
    def serving(self, tls: SSLContext | None = None) -> Iterator["HttpDouble"]:
        double = self

        class Handler(LoopbackHandler):
            def _any(self) -> None:
                asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
                double.asked.append(asked)
                answer = double.answer(asked)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                empty = answer.status in (204, 304)
                self.send_header("Content-Length", "0" if empty else str(len(answer.body)))
                self.end_headers()
                if not empty:
                    self.wfile.write(answer.body)

            do_GET = do_POST = do_DELETE = _any  # noqa: N815  # as http.server names them

        with loopback_server(Handler, tls=tls) as server:
            self.address = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
            yield self


# ── GitHub ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class GithubDouble:
    """Runs, jobs and runners in the shape of GitHub's REST API: pages with Link headers, ETags, a rate limit, tokens of
    an App. `jobs`: by repository and run."""

    jobs: dict[str, dict[int, list[dict]]] = field(default_factory=dict)
    runners: dict[str, list[dict]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=lambda: {"pat"})
    remaining: int = 5000
    reset: int = 0
    page: int = 100
    refusal: Answer | None = None
    counted: int = 0  # answers that count against the rate limit
    expires_at: str = "2026-11-16T13:00:00Z"
    http: HttpDouble = field(init=False)

    def __post_init__(self) -> None:
        self.http = HttpDouble(self._answer)

    def _answer(self, asked: Asked) -> Answer:
        if asked.path.startswith("/app/installations/"):
            return self._installation(asked)
        if asked.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            return Answer(401, {"message": "Bad credentials"})
        if self.refusal is not None:
            return self.refusal
        limits = {"X-RateLimit-Remaining": str(self.remaining), "X-RateLimit-Reset": str(self.reset)}
        parts = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path.strip("/").split("/"):
            case ["repos", owner, name, "actions", "runs"] if f"{owner}/{name}" in self.jobs:
                key, entries = "workflow_runs", self._runs(f"{owner}/{name}", query["status"])
            case ["repos", owner, name, "actions", "runs", run, "jobs"]:
                key, entries = "jobs", self.jobs[f"{owner}/{name}"][int(run)]
            case ["repos", owner, name, "actions", "runners"]:
                key, entries = "runners", self.runners[f"{owner}/{name}"]
            case ["repos", owner, name, "actions", "runners", runner] if asked.method == "DELETE":
                there = self.runners[f"{owner}/{name}"]
                there[:] = [each for each in there if each["id"] != int(runner)]
                return Answer(204, headers=limits)
            case _:
                return Answer(404, {"message": "Not Found"}, limits)
        return self._paged(asked, parts.path, query, key, entries, limits)

    def _paged(
        self,
        asked: Asked,
        path: str,
        query: Mapping[str, str],
        key: str,
        entries: Sequence[dict],
        limits: Mapping[str, str],
    ) -> Answer:
        number, size = int(query.get("page", "1")), min(self.page, int(query["per_page"]))
        document = {"total_count": len(entries), key: entries[(number - 1) * size : number * size]}
        etag = 'W/"' + sha256(json.dumps(document).encode()).hexdigest() + '"'
        if asked.headers.get("if-none-match") == etag:
            return Answer(304, headers={**limits, "ETag": etag})
        self.counted += 1
        links = {}
        if number * size < len(entries):
            others = "&".join(f"{name}={value}" for name, value in query.items() if name != "page")
            following = f"{self.http.address}{path}?{others}&page={number + 1}"
            links = {"Link": f'<{following}>; rel="next", <{following}>; rel="last"'}
        return Answer(200, document, {**limits, "ETag": etag, **links})

    def _runs(self, repository: str, status: str) -> list[dict]:
        def state(jobs: list[dict]) -> str:
            return "in_progress" if any(job["status"] != "queued" for job in jobs) else "queued"

        return [
            {"id": run, "status": status, "url": f"{self.http.address}/repos/{repository}/actions/runs/{run}"}
            for run, jobs in self.jobs[repository].items()
            if state(jobs) == status
        ]

    def _installation(self, asked: Asked) -> Answer:
        if asked.method != "POST" or asked.headers["authorization"].count(".") != 2:
            return Answer(401, {"message": "A JSON web token could not be decoded"})
        token = f"ghs_{len(self.tokens)}"
        self.tokens.add(token)
        return Answer(201, {"token": token, "expires_at": self.expires_at})


def job(status: str, *labels: str, runner: str | None = None) -> dict:
    return {"status": status, "labels": list(labels) or ["self-hosted", "linux"], "runner_name": runner}


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class RespDouble:
    """Answers each command with prepared bytes; what is not prepared is an error of Redis."""

    replies: Mapping[str, bytes]
    commands: list[str] = field(default_factory=list)
    port: int = 0
    silent: bool = False  # answers only when the test is over, or after ten seconds
    answered: bool = False

    @contextmanager
    def serving(self) -> Iterator["RespDouble"]:
        double, over = self, Event()

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while head := self.rfile.readline():
                    parts = []
                    for _ in range(int(head[1:])):
                        size = int(self.rfile.readline()[1:])
                        parts.append(self.rfile.read(size + 2)[:-2].decode())
                    command = " ".join(parts)
                    double.commands.append(command)
                    if double.silent:
                        over.wait(10)
                    reply = double.replies.get(command, b"-ERR unknown command\r\n")
                    if reply == b"hang up":
                        return
                    double.answered = True
                    self.wfile.write(reply)

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            self.port = server.server_address[1]
            Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            try:
                yield self
            finally:
                over.set()
                server.shutdown()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
