"""The API server's client: requests bounded in time, errors in our words, lists page by page."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

import msgspec

from nodefleet.adapters.kubernetes.resources import Request
from nodefleet.errors import (
    ChangedError,
    DeniedError,
    LoginRefusedError,
    NodeFleetError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
)

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────
# What the API server says no to, in our words: who can do something about it, and what.


PART = "Kubernetes"
_WORDS = 300  # of what the server says, so that a page of HTML does not fill the log


class Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True):
    kind: str = ""
    causes: tuple[Cause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """The object that the API server sends instead of what was asked for."""

    message: str = ""
    reason: str = ""
    details: Details | None = None

    def cause(self, reason: str) -> Cause | None:
        return next((cause for cause in self.details.causes if cause.reason == reason), None) if self.details else None

    @property
    def about(self) -> str:
        """The kind of object that it speaks of."""
        return self.details.kind if self.details else ""


def status_in(body: bytes) -> Status:
    """What the server said. Proxies and the throttle in front of it speak plain text."""
    try:
        return msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Status(message=" ".join(body[: 4 * _WORDS].decode(errors="replace").split())[:_WORDS])


def refusal_error(request: Request, code: int, body: bytes) -> NodeFleetError:
    """The error that an answer stands for."""
    said = status_in(body).message[:_WORDS] or _phrase(code)
    match code:
        case HTTPStatus.UNAUTHORIZED:
            return LoginRefusedError(PART, f"{request}: {said}", "The token is not accepted: renew it where it is kept")
        case HTTPStatus.FORBIDDEN:
            return DeniedError(PART, f"{request}: {said}", _what_to_allow(request))
        case HTTPStatus.CONFLICT | HTTPStatus.PRECONDITION_FAILED:
            return ChangedError(f"{request}: {said}")
        case HTTPStatus.TOO_MANY_REQUESTS:
            return ThrottledError(PART, f"{request}: {said}")
        case _:
            return UnavailableError(PART, f"{request}: {code} {said}")


def _what_to_allow(request: Request) -> str:
    if not request.resource:
        return f"Allow {request.verb} on the path {request.path}"
    group = f" of API group {request.group}" if request.group else ""
    return f"Allow {request.verb} on {request.resource}{group} in node-fleet's ClusterRole"


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return "an answer without words"


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────
# One request and its answer: bounded in time, repeated only where that is harmless, and its failures in our words.
#
# Reads are repeated a few times when the connection breaks. A write is repeated only if it never left: whether a broken
# one took effect is not known, and the next iteration tells. Nothing is repeated after a timeout or an answer.


_PAUSES = (0.1, 0.4)  # seconds between three tries
_CHUNK = 1 << 18
_IDLE = 30.0  # seconds: a function that was frozen since cannot know whether its connection still leads anywhere
_FINE = range(200, 300)


class Transport(Protocol):
    """Sends a request with a login. The body of its answer is not read yet."""

    def send(self, request: Request, *, connect: float, read: float) -> "BaseHTTPResponse": ...

    def close(self) -> None:
        """Close the connections that are not in use; new ones are made as needed."""
        ...


# API servers compress lists of more than 128 KiB for a client that asks for it: ten thousand pods shrink to a tenth.
HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    body: bytes
    date: str = ""  # by the server's clock
    received: int = 0  # bytes of the body as they came, which may be compressed

    @property
    def fine(self) -> bool:
        return self.status in _FINE


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    connect: float = 2.0  # seconds
    read: float = 10.0  # for the whole answer
    left: Callable[[], timedelta] | None = None  # until the run ends: nothing takes longer than that


class Api:
    """Requests to one API server, within time limits."""

    def __init__(
        self, transport: Transport, limits: CallLimits | None = None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._transport = transport
        self._limits = limits or CallLimits()
        self._pause = pause
        self._used = 0.0  # when a request was last sent
        self.calls = 0  # sent so far

    def ask(self, request: Request) -> Response:
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

    def do(self, request: Request) -> Response:
        """The answer if it is a good one; the error that it stands for otherwise."""
        answer = self.ask(request)
        if not answer.fine:
            raise refusal_error(request, answer.status, answer.body)
        return answer

    def find(self, request: Request) -> Response | None:
        """The same; none if there is no such object."""
        answer = self.ask(request)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if not answer.fine:
            raise refusal_error(request, answer.status, answer.body)
        return answer

    def close(self) -> None:
        self._transport.close()

    def _send(self, request: Request) -> Response:
        from urllib3 import exceptions  # noqa: PLC0415  # imported when the transport was made

        connect, read = self._seconds(request)
        until = time.monotonic() + read
        self._leave_old_connections()
        self.calls += 1
        try:
            response = self._transport.send(request, connect=connect, read=read)
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
        except exceptions.HTTPError as error:
            _unavailable(request, _cause(error))
        date, received = response.headers.get("Date", ""), response.tell()
        return Response(status=response.status, body=body, date=date, received=received)

    def _leave_old_connections(self) -> None:
        now = time.time()
        if now - self._used > _IDLE:
            self._transport.close()
        self._used = now

    def _seconds(self, request: Request) -> tuple[float, float]:
        left = self._limits.left().total_seconds() if self._limits.left else self._limits.read
        if left <= 0:
            _unavailable(request, "there is no time left for it")
        return min(self._limits.connect, left), min(self._limits.read, left)


@dataclass(eq=False)
class _BrokenError(Exception):
    """The connection was not made, or it broke."""

    cause: str
    arrived: bool  # the request may have reached the server


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


# ── decoding ─────────────────────────────────────────────────────────────────────────────────────────────────────────
# From bytes to shapes, and lists page by page: complete or an error, never a short list.
#
# A list that is paged for too long loses its place (410): then it is read again from the start, a few times at most.


_LOG = logging.getLogger(__name__)

S = TypeVar("S")
D = TypeVar("D")

PAGE = 1000  # objects; ten thousand pods come in ten pages of some megabytes
_MOST_PAGES = 1000
_STARTS = 3


class _ListMeta(msgspec.Struct, rename={"token": "continue"}):
    token: str = ""  # for the next page


class _Page(msgspec.Struct, Generic[S]):
    items: list[S] | None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _LostPlaceError(Exception):
    """The server no longer knows where the next page begins."""


def decode(request: Request, body: bytes, shape: type[S]) -> S:
    """What the answer to a request holds."""
    kind: Any = shape
    try:
        found: S = _decoder(kind).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnavailableError(PART, f"{request}: the answer cannot be read: {error}") from error
    return found


def list_objects(api: Api, request: Request, shape: type[S]) -> list[S]:
    """All objects of a list."""
    return list_digests(api, request, shape, lambda item: item)


def list_if_allowed(api: Api, request: Request, shape: type[S]) -> list[S] | None:
    """The same; none if our role may not list them. For what a role of an older release lacks, and the fleet can do
    without: the log and `doctor` name the permission."""
    try:
        return list_objects(api, request, shape)
    except LoginRefusedError:
        raise
    except DeniedError as error:
        _LOG.warning("%s", error)
        return None


def list_digests(api: Api, request: Request, shape: type[S], digest: Callable[[S], D]) -> list[D]:
    """What `digest` makes of every object of a list. A page is let go before the next one comes."""
    for _ in range(_STARTS):
        try:
            return [digest(item) for page in _pages(api, request, shape) for item in page]
        except _LostPlaceError:
            continue
    raise UnavailableError(PART, f"{request}: the list changes faster than it can be read")


def _pages(api: Api, request: Request, shape: type[S]) -> Iterator[list[S]]:
    token = ""
    for _ in range(_MOST_PAGES):
        place = (("continue", token),) if token else ()
        answer = api.ask(replace(request, query=(*request.query, ("limit", str(PAGE)), *place)))
        if answer.status == HTTPStatus.GONE and token:
            raise _LostPlaceError
        if not answer.fine:
            raise refusal_error(request, answer.status, answer.body)
        page: _Page[S] = decode(request, answer.body, _page_of(shape))
        yield page.items or []
        token = page.metadata.token
        if not token:
            return
    raise UnavailableError(PART, f"{request}: there is no end to its pages")


@cache
def _decoder(shape: Any) -> Any:
    return msgspec.json.Decoder(shape)


def _page_of(shape: Any) -> Any:
    return _Page[shape]
