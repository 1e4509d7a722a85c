"""The port of demand sources: entries of the policy in, samples out."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import msgspec

from nodefleet.adapters import http
from nodefleet.adapters.credentials import GithubLogin, MetricsLogin, RedisLogin
from nodefleet.errors import NodeFleetError
from nodefleet.model.snapshot import Missing, Sample
from nodefleet.policy.sources import Source

E = TypeVar("E")
K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When readings are taken, and how long that may take."""

    now: datetime
    deadline: float  # by the monotonic clock
    stale_after: timedelta
    may_change: bool = False  # whether a source may also clean up after itself

    @property
    def left(self) -> timedelta:
        return timedelta(seconds=self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class SourceCall:
    """One request, or several on one connection, that reads some entries. If it raises, all of them are Missing."""

    service: str  # as messages name it
    entries: tuple[Source, ...]
    read: Callable[[], Sequence[Sample]]  # in the order of the entries


class SourceAdapter(Protocol):
    def calls(self, entries: Sequence[Any], moment: Moment) -> Iterator[SourceCall]:
        """The calls that read these entries, each of which is of the adapter's own kind and named once."""
        ...


def group(entries: Sequence[E], key: Callable[[E], K]) -> dict[K, tuple[E, ...]]:
    """Entries that one call can read, by their key."""
    found: dict[K, list[E]] = {}
    for entry in entries:
        found.setdefault(key(entry), []).append(entry)
    return {each: tuple(alike) for each, alike in found.items()}


# ── logins ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# Logins of demand sources, and HTTP requests that carry them.
#
# A policy names only the last part of a secret, below `<prefix>/<cluster>/sources/`. So an author of policies cannot
# have another secret, such as the login to Kubernetes, sent to an address of their choice.


SL = TypeVar("SL", MetricsLogin, RedisLogin, GithubLogin)


class LoginStore(Protocol):
    """`adapters.aws.secrets.Secrets`, as far as sources need it."""

    def login(self, secret: str, kind: type[SL]) -> SL: ...

    def refresh(self, secret: str) -> None: ...


class SourceLogins:
    def __init__(self, store: LoginStore, folder: str) -> None:
        """`folder`: the names of secrets begin with it, node-fleet/shop/sources for example."""
        self._store = store
        self._folder = folder

    def login(self, name: str, kind: type[SL]) -> SL:
        return self._store.login(f"{self._folder}/{name}", kind)

    def refresh(self, name: str) -> None:
        self._store.refresh(f"{self._folder}/{name}")


def get_json(
    request: http.HttpRequest, logins: SourceLogins, secret: str | None, deadline: float
) -> tuple[int, object] | Missing:
    """The status and the decoded document. A refused login is fetched once more: it may have been rotated."""
    try:
        answer = _send(request, logins, secret, deadline)
    except (NodeFleetError, http.UnusableError) as problem:
        return Missing(str(problem))
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        advice = f"check what secret sources/{secret} holds" if secret else "name a secret for this source"
        return Missing(f"{request.service} refuses the login (HTTP {answer.status}): {advice}")
    try:
        return answer.status, msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        if answer.status != HTTPStatus.OK:
            return answer.status, None
        return Missing(f"{request.service}'s answer is no JSON: {problem}")


def missing_for_status(service: str, status: int) -> Missing:
    return Missing(f"{service} answered HTTP {status}")


def read_each(read: Callable[[], Sample]) -> Callable[[], list[Sample]]:
    """A call that reads one entry."""
    return lambda: [read()]


def _send(request: http.HttpRequest, logins: SourceLogins, secret: str | None, deadline: float) -> http.HttpAnswer:
    if secret is None:
        return http.send(request, deadline)
    login = logins.login(secret, MetricsLogin)
    answer = http.send(_as(login, request), deadline)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        logins.refresh(secret)
        renewed = logins.login(secret, MetricsLogin)
        if renewed != login:
            answer = http.send(_as(renewed, request), deadline)
    return answer


def _as(login: MetricsLogin, request: http.HttpRequest) -> http.HttpRequest:
    return replace(request, authorization=login.header(), ca=login.ca)
