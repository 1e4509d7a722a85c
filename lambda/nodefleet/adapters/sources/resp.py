"""The Redis protocol (RESP2), as far as reading lengths needs it: commands out, replies in, on one connection.

A client library would weigh more than a megabyte; seven read-only commands do not need it.
"""

import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from nodefleet.adapters.credentials import RedisLogin
from nodefleet.adapters.http import CONNECT_SECONDS, UnusableError, remaining_seconds, root_cause

PORT = 6379
MOST_BYTES = 1 << 20
_CHUNK = 1 << 14
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class RespError:
    """An error reply: ERR …, WRONGTYPE …, NOAUTH …"""

    text: str


Reply: TypeAlias = "int | str | RespError | list[Reply] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    host: str
    port: int
    database: int
    tls: bool

    @classmethod
    def of(cls, text: str) -> "RedisAddress":
        """UnusableError if it is none; it is not shown, as it may hold a password."""
        try:
            parts = urlsplit(text)
            database = int(parts.path.strip("/") or 0)
            port = parts.port or PORT
        except ValueError:
            parts, database, port = urlsplit(""), -1, 0
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or database < 0 or parts.query:
            raise UnusableError("the address of Redis is not of the form redis://host:6379/0 or rediss://host:6379/0")
        if "@" in parts.netloc:
            raise UnusableError("the address of Redis holds a login: put that into its secret")
        return cls(host=parts.hostname, port=port, database=database, tls=parts.scheme == "rediss")


class RespConnection:
    """Commands are sent together and answered in order. Every wait ends at the deadline (monotonic)."""

    def __init__(self, address: RedisAddress, login: RedisLogin | None, deadline: float) -> None:
        self._where = f"Redis at {address.host}:{address.port}"
        self._deadline = deadline
        self._received = bytearray()
        self._total = 0
        self._socket = self._connect(address, login)
        opening = [["AUTH", *filter(None, (login.username, login.password))]] if login else []
        opening += [["SELECT", str(address.database)]] if address.database else []
        for reply in self.ask(opening):
            if isinstance(reply, RespError):
                self.close()
                raise UnusableError(f"{self._where} refuses us: {reply.text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, commands: Sequence[Sequence[str]]) -> list[Reply]:
        if not commands:
            return []
        try:
            self._socket.settimeout(remaining_seconds(self._deadline))
            self._socket.sendall(b"".join(map(_encode, commands)))
            return [self._reply(0) for _ in commands]
        except TimeoutError:
            raise
        except OSError as problem:
            raise UnusableError(f"the connection to {self._where} failed: {root_cause(problem)}") from problem

    def _connect(self, address: RedisAddress, login: RedisLogin | None) -> socket.socket:
        limit = min(CONNECT_SECONDS, remaining_seconds(self._deadline))
        try:
            plain = socket.create_connection((address.host, address.port), timeout=limit)
        except TimeoutError as problem:
            raise UnusableError(
                f"{self._where} cannot be reached: no connection within {limit:.1f} s. "
                "Is it running, and does its security group let us in?"
            ) from problem
        except OSError as problem:
            raise UnusableError(f"{self._where} cannot be reached: {root_cause(problem)}") from problem
        if not address.tls:
            return plain
        try:
            plain.settimeout(remaining_seconds(self._deadline))
            context = ssl.create_default_context(cadata=login.ca if login and login.ca else None)
            return context.wrap_socket(plain, server_hostname=address.host)
        except TimeoutError:
            plain.close()
            raise
        except OSError as problem:
            plain.close()
            raise UnusableError(f"no secure connection to {self._where}: {root_cause(problem)}") from problem

    # ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _reply(self, depth: int) -> Reply:
        line = self._line()
        kind, text = line[:1], line[1:]
        match kind:
            case "+":
                return text
            case "-":
                return RespError(text)
            case ":":
                return int(text)
            case "$":
                return None if text == "-1" else self._bulk(int(text))
            case "*" if depth < _DEEPEST:
                return None if text == "-1" else [self._reply(depth + 1) for _ in range(int(text))]
            case _:
                raise UnusableError(f"{self._where} does not speak the Redis protocol: is it another server?")

    def _line(self) -> str:
        while (end := self._received.find(b"\r\n")) < 0:
            self._receive()
        line = self._received[:end].decode(errors="replace")
        del self._received[: end + 2]
        return line

    def _bulk(self, size: int) -> str:
        while len(self._received) < size + 2:
            self._receive()
        text = self._received[:size].decode(errors="replace")
        del self._received[: size + 2]
        return text

    def _receive(self) -> None:
        self._socket.settimeout(remaining_seconds(self._deadline))
        piece = self._socket.recv(_CHUNK)
        self._total += len(piece)
        if not piece:
            raise UnusableError(f"{self._where} closed the connection")
        if self._total > MOST_BYTES:
            raise UnusableError(f"{self._where} answers more than {MOST_BYTES >> 20} MiB")
        self._received += piece


def _encode(command: Sequence[str]) -> bytes:
    parts = [part.encode() for part in command]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
