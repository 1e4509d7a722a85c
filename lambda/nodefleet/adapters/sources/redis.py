"""Redis: the length of a list, stream, sorted set, set or hash, and tasks of Celery. All entries of one server share a
connection."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias
from urllib.parse import urlsplit

from nodefleet.adapters.credentials import RedisLogin
from nodefleet.adapters.http import CONNECT_SECONDS, UnusableError, remaining_seconds, root_cause
from nodefleet.adapters.sources.port import Moment, SourceCall, SourceLogins, group
from nodefleet.errors import NodeFleetError
from nodefleet.model.snapshot import Missing, Reading, Sample
from nodefleet.policy.sources import Celery, Redis

# ── RESP ─────────────────────────────────────────────────────────────────────────────────────────────────────────────
# The Redis protocol (RESP2), as far as reading lengths needs it: commands out, replies in, on one connection.
#
# A client library would weigh more than a megabyte; seven read-only commands do not need it.


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
        opening = [["AUTH", *filter(None, (login.username, login.password))]] if login and login.password else []
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


SERVICE = "Redis"
_LENGTHS = {"list": "LLEN", "stream": "XLEN", "zset": "ZCARD", "set": "SCARD", "hash": "HLEN"}


def connect(logins: SourceLogins, address: str, secret: str | None, deadline: float) -> RespConnection:
    """UnusableError, a NodeFleetError of the secret, or TimeoutError."""
    where = RedisAddress.of(address)
    login = logins.login(secret, RedisLogin) if secret else None
    try:
        return RespConnection(where, login, deadline)
    except UnusableError:
        if secret is None:
            raise
        logins.refresh(secret)
        renewed = logins.login(secret, RedisLogin)
        if renewed == login:
            raise
        return RespConnection(where, renewed, deadline)


class RedisKeys:
    def __init__(self, logins: SourceLogins) -> None:
        self._logins = logins

    def calls(self, entries: Sequence[Redis], moment: Moment) -> Iterator[SourceCall]:
        for (address, secret), alike in group(entries, lambda entry: (entry.address, entry.secret)).items():
            yield SourceCall(SERVICE, alike, partial(self._read, address, secret, alike, moment))

    def _read(self, address: str, secret: str | None, entries: Sequence[Redis], moment: Moment) -> list[Sample]:
        try:
            with connect(self._logins, address, secret, moment.deadline) as redis:
                types = redis.ask([["TYPE", entry.key] for entry in entries])
                replies = redis.ask([_command(entry, kind) for entry, kind in zip(entries, types, strict=True)])
        except (UnusableError, NodeFleetError) as problem:
            return [Missing(str(problem)) for _ in entries]
        return [_sample(entry, kind, reply, moment) for entry, kind, reply in zip(entries, types, replies, strict=True)]


def _command(entry: Redis, kind: Reply) -> list[str]:
    if kind == "stream" and entry.group:
        return ["XINFO", "GROUPS", entry.key]
    return [_LENGTHS.get(str(kind), "PING"), entry.key]


def _sample(entry: Redis, kind: Reply, reply: Reply, moment: Moment) -> Sample:
    if isinstance(kind, RespError):
        return Missing(f"Redis refuses to show {entry.key}: {kind.text}")
    if kind == "none":
        # Redis deletes a list with its last element, so an idle queue has no key.
        return Missing(f"Redis has no key {entry.key}", empty_at=moment.now)
    if kind not in _LENGTHS:
        return Missing(f"Redis has a {kind} at {entry.key}, which has no length: name a list, stream, set or hash")
    if isinstance(reply, RespError):
        return Missing(f"Redis refuses to count {entry.key}: {reply.text}")
    if kind == "stream" and entry.group:
        return _of_group(entry, reply, moment)
    return Reading(float(reply), moment.now) if isinstance(reply, int) else Missing(f"Redis gave no count: {reply!r}")


def _of_group(entry: Redis, reply: Reply, moment: Moment) -> Sample:
    """Entries that the group has not read yet, and those that its consumers have not acknowledged."""
    for each in reply if isinstance(reply, list) else ():
        fields = _pairs(each)
        if fields.get("name") == entry.group:
            lag, pending = fields.get("lag"), fields.get("pending")
            if not isinstance(lag, int) or not isinstance(pending, int):
                return Missing(
                    f"Redis cannot tell how far group {entry.group} is behind on {entry.key} (Redis 7 can, unless "
                    "entries in the middle were deleted): read the list's length without a group"
                )
            return Reading(float(lag + pending), moment.now)
    return Missing(f"stream {entry.key} has no group {entry.group}: check its name")


def _pairs(reply: Reply) -> dict[str, Reply]:
    flat = reply if isinstance(reply, list) else []
    return {str(name): value for name, value in zip(flat[::2], flat[1::2], strict=False)}


# ── Celery ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Celery: tasks on a Redis broker. Its queues are lists, one more for each priority; reserved tasks are one hash.
#
# A task leaves its list when a worker takes it, and the hash when it is acknowledged: with `acks_late` when it is
# done.


_CELERY = "Celery's broker"
_SEPARATOR = "\x06\x16"  # kombu's, between a queue and a priority
_PRIORITIES = ("", f"{_SEPARATOR}3", f"{_SEPARATOR}6", f"{_SEPARATOR}9")  # kombu's default steps
_RESERVED = "unacked"


class CeleryQueues:
    def __init__(self, logins: SourceLogins) -> None:
        self._logins = logins

    def calls(self, entries: Sequence[Celery], moment: Moment) -> Iterator[SourceCall]:
        for (address, secret), alike in group(entries, lambda entry: (entry.address, entry.secret)).items():
            yield SourceCall(_CELERY, alike, partial(self._read, address, secret, alike, moment))

    def _read(self, address: str, secret: str | None, entries: Sequence[Celery], moment: Moment) -> list[Sample]:
        try:
            with connect(self._logins, address, secret, moment.deadline) as redis:
                replies = [redis.ask(_commands(entry)) for entry in entries]
        except (UnusableError, NodeFleetError) as problem:
            return [Missing(str(problem)) for _ in entries]
        samples: list[Sample] = []
        for entry, counts in zip(entries, replies, strict=True):
            lengths = [each for each in counts if isinstance(each, int)]
            if len(lengths) == len(counts):
                samples.append(Reading(float(sum(lengths)), moment.now))
                continue
            odd = next(each for each in counts if not isinstance(each, int))
            refusal = odd.text if isinstance(odd, RespError) else f"it answers {odd!r}"
            samples.append(Missing(f"Celery's broker does not count {', '.join(entry.queues)}: {refusal}"))
        return samples


def _commands(entry: Celery) -> list[list[str]]:
    waiting = [["LLEN", f"{queue}{priority}"] for queue in entry.queues for priority in _PRIORITIES]
    reserved = [["HLEN", _RESERVED]]
    return {"waiting": waiting, "reserved": reserved, "all": waiting + reserved}[entry.counts]
