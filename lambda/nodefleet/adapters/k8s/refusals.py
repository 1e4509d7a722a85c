"""What the API server says no to, in our words: who can do something about it, and what."""

from http import HTTPStatus

import msgspec

from nodefleet.adapters.k8s.resources import Request
from nodefleet.errors import (
    ChangedError,
    DeniedError,
    LoginRefusedError,
    NodeFleetError,
    ThrottledError,
    UnavailableError,
)

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


def refusal(request: Request, code: int, body: bytes) -> NodeFleetError:
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
