"""Logins of demand sources, and HTTP requests that carry them.

A policy names only the last part of a secret, below `<prefix>/<cluster>/sources/`. So an author of policies cannot have
another secret, such as the login to Kubernetes, sent to an address of their choice.
"""

from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Protocol, TypeVar

import msgspec

from nodefleet.adapters import http
from nodefleet.adapters.credentials import GithubLogin, MetricsLogin, RedisLogin
from nodefleet.errors import NodeFleetError
from nodefleet.model.readings import Missing, Sample

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
    answer = http.send(replace(request, authorization=login.header()), deadline)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        logins.refresh(secret)
        renewed = logins.login(secret, MetricsLogin)
        if renewed != login:
            answer = http.send(replace(request, authorization=renewed.header()), deadline)
    return answer
