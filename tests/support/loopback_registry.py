"""An image registry on this machine: tags with digests, an anonymous token service, and answers that go wrong."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from support.loopback_server import LoopbackHandler, loopback_server

TOKEN = "anonymous"  # noqa: S105


@dataclass
class LoopbackRegistry:
    digests: dict[str, str] = field(default_factory=dict)  # "name:tag" → digest
    status: int = 0  # answered to every request for a manifest; 0: what the registry has
    wants_token: bool = False
    realm: str = ""  # empty: its own
    token_answer: bytes = json.dumps({"token": TOKEN}).encode()
    accepts_token: bool = True
    hangs: bool = False
    requests: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)  # method, path, headers
    port: int = 0
    over: Event = field(default_factory=Event)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def reference(self, name: str, tag: str, digest: str) -> str:
        return f"{self.host}/{name}:{tag}@{digest}"


@contextmanager
def loopback_registry(**settings: Any) -> Iterator[LoopbackRegistry]:
    registry = LoopbackRegistry(**settings)

    class Handler(LoopbackHandler):
        def do_HEAD(self) -> None:  # noqa: N802  # as http.server names it
            registry.requests.append((self.command, self.path, dict(self.headers)))
            if registry.hangs:
                registry.over.wait(5)
                return
            if registry.status:
                self.reply(registry.status)
                return
            bearer = self.headers.get("Authorization")
            if registry.wants_token and (bearer != f"Bearer {TOKEN}" or not registry.accepts_token):
                realm = registry.realm or f"http://{registry.host}/token"
                challenge = f'Bearer realm="{realm}",service="here",scope="repository:a/b:pull"'
                self.reply(401, {"WWW-Authenticate": challenge})
                return
            name, _, tag = self.path.removeprefix("/v2/").partition("/manifests/")
            digest = registry.digests.get(f"{name}:{tag}")
            if digest is None:
                self.reply(404)
            else:
                self.reply(200, {"Docker-Content-Digest": digest} if digest else {})

        def do_GET(self) -> None:  # noqa: N802  # as http.server names it
            registry.requests.append((self.command, self.path, dict(self.headers)))
            self.reply(200, body=registry.token_answer)

    with loopback_server(Handler) as server:
        registry.port = server.server_port
        try:
            yield registry
        finally:
            registry.over.set()
