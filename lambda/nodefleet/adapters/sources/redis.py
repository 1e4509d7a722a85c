"""Redis: the length of a list, stream, sorted set, set or hash. All entries of one server share a connection."""

from collections.abc import Iterator, Sequence
from functools import partial

from nodefleet.adapters.credentials import RedisLogin
from nodefleet.adapters.http import UnusableError
from nodefleet.adapters.sources.logins import SourceLogins
from nodefleet.adapters.sources.port import Moment, SourceCall, group
from nodefleet.adapters.sources.resp import RedisAddress, Reply, RespConnection, RespError
from nodefleet.errors import NodeFleetError
from nodefleet.model.readings import Missing, Reading, Sample
from nodefleet.policy.demand import Redis

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
