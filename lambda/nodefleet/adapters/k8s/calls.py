"""One request and its answer: bounded in time, repeated only where that is harmless, and its failures in our words.

Reads are repeated a few times when the connection breaks. A write is repeated only if it never left: whether a broken
one took effect is not known, and the next look tells. Nothing is repeated after a timeout or an answer.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from nodefleet.adapters.k8s.refusals import PART, refusal
from nodefleet.adapters.k8s.resources import Request
from nodefleet.errors import UnreachableError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

_PAUSES = (0.1, 0.4)  # seconds between three tries
_CHUNK = 1 << 18
_IDLE = 30.0  # seconds: a function that was frozen since cannot know whether its connection still leads anywhere
_FINE = range(200, 300)


class Client(Protocol):
    """What is used of the official ApiClient."""

    def param_serialize(
        self,
        method: str,
        resource_path: str,
        *,
        query_params: list[tuple[str, str]],
        header_params: dict[str, str],
        body: Any,
        auth_settings: list[str],
    ) -> tuple[Any, ...]: ...

    def call_api(self, *request: Any, _request_timeout: tuple[float, float]) -> Any: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: bytes
    date: str = ""  # by the server's clock

    @property
    def fine(self) -> bool:
        return self.status in _FINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connect: float = 2.0  # seconds
    read: float = 10.0  # for the whole answer
    left: Callable[[], timedelta] | None = None  # until the run ends: nothing takes longer than that


class Api:
    """Sends requests through the official client."""

    def __init__(
        self, client: Client, limits: Limits | None = None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._limits = limits or Limits()
        self._pause = pause
        self._used = 0.0  # when a request was last sent
        self.calls = 0  # sent so far

    def ask(self, request: Request) -> Answer:
        """The answer, whatever its status is. UnreachableError if there is none."""
        for pause in _PAUSES:
            try:
                return self._send(request)
            except _BrokenError as error:
                if error.arrived and not request.changes_nothing:
                    _unavailable(request, error.cause)
            self._pause(pause)
        try:
            return self._send(request)
        except _BrokenError as error:
            _unavailable(request, error.cause)

    def do(self, request: Request) -> Answer:
        """The answer if it is a good one; the error that it stands for otherwise."""
        answer = self.ask(request)
        if not answer.fine:
            raise refusal(request, answer.status, answer.body)
        return answer

    def find(self, request: Request) -> Answer | None:
        """The same; none if there is no such object."""
        answer = self.ask(request)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if not answer.fine:
            raise refusal(request, answer.status, answer.body)
        return answer

    def close(self) -> None:
        self._client.close()

    def _send(self, request: Request) -> Answer:
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415  # known since the client was made
        from urllib3 import exceptions  # noqa: PLC0415

        connect, read = self._seconds(request)
        until = time.monotonic() + read
        self._leave_old_connections()
        self.calls += 1
        try:
            response = self._client.call_api(*self._serialized(request), _request_timeout=(connect, read)).response
            try:
                body = _content(response, until)
            finally:
                response.release_conn()
        except _SlowError:
            _unavailable(request, f"no complete answer within {read:g} s")
        except exceptions.ReadTimeoutError:
            _unavailable(request, f"no answer within {read:g} s")
        except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError) as error:
            raise _BrokenError(_cause(error), arrived=False) from error
        except exceptions.ProtocolError as error:
            raise _BrokenError(_cause(error), arrived=True) from error
        except (ApiException, exceptions.HTTPError) as error:
            _unavailable(request, _cause(error))
        return Answer(status=response.status, body=body, date=response.headers.get("Date", ""))

    def _leave_old_connections(self) -> None:
        now = time.time()
        if now - self._used > _IDLE:
            self._client.close()  # only those that are not in use; new ones are made as needed
        self._used = now

    def _serialized(self, request: Request) -> tuple[Any, ...]:
        return self._client.param_serialize(
            request.method,
            request.path,
            query_params=list(request.query),
            header_params={"Accept": "application/json", "Content-Type": request.content_type},
            body=request.body,
            auth_settings=["BearerToken"],
        )

    def _seconds(self, request: Request) -> tuple[float, float]:
        left = self._limits.left().total_seconds() if self._limits.left else self._limits.read
        if left <= 0:
            _unavailable(request, "there is no time left for it")
        return min(self._limits.connect, left), min(self._limits.read, left)


class _BrokenError(Exception):
    """The connection was not made, or it broke."""

    def __init__(self, cause: str, *, arrived: bool) -> None:
        super().__init__(cause)
        self.cause = cause
        self.arrived = arrived  # the request may have reached the server


class _SlowError(Exception):
    pass


def _content(response: "BaseHTTPResponse", until: float) -> bytes:
    """The whole body. A server that sends a little now and then must not hold us for ever."""
    parts: list[bytes] = []
    while part := response.read1(_CHUNK):
        parts.append(part)
        if time.monotonic() > until:
            response.close()
            raise _SlowError
    return b"".join(parts)


def _unavailable(request: Request, cause: str) -> NoReturn:
    raise UnreachableError(PART, f"{request}: {cause}") from None


def _cause(error: Exception) -> str:
    """The library's own words, on one line."""
    words = getattr(error, "reason", None) or str(error)
    return " ".join(str(words).split())[:300]
