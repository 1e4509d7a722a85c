"""One HTTP request whose every wait is bounded.

Connecting has a short limit of its own, because packets that a security group drops are not worth the whole deadline.
Redirects are not followed: the login would go to the server that they name. Proxies and the .netrc of the environment
do not count either.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from ssl import create_default_context
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from nodefleet.adapters.concurrency import ONE_AT_A_TIME

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

CONNECT_SECONDS = 2.0
MOST_BYTES = 4 << 20
IF_NONE_MATCH = "If-None-Match"
_CHUNK = 1 << 16
_AUTHORIZATION, _LOCATION = "Authorization", "Location"
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class UnusableError(Exception):
    """There is no usable answer, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)  # names in lower case


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    service: str  # as messages name it: Prometheus, RabbitMQ, …
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    authorization: str = field(default="", repr=False)
    data: Mapping[str, str] | None = None  # a form
    verify: bool | str = True  # may be the file of a certificate authority
    ca: str = field(default="", repr=False)  # the only certificate authority that counts, in PEM form
    too_large: str = ""  # what to do about an answer that is too large

    @property
    def where(self) -> str:
        return f"{self.service} at {urlsplit(self.url).netloc}"


def send(request: HttpRequest, deadline: float) -> HttpAnswer:
    """`deadline` is by the monotonic clock. Raises UnusableError, and TimeoutError when the deadline passes."""
    with ONE_AT_A_TIME:
        from urllib3 import PoolManager, Timeout, exceptions  # noqa: PLC0415  # a run without it need not import it

    left = remaining_seconds(deadline)
    try:
        # A connection of its own for each request: one of a function that was frozen leads nowhere any more.
        with PoolManager(**_trust(request)) as pools:
            response = pools.urlopen(
                request.method,
                request.url,
                body=urlencode(request.data) if request.data is not None else None,
                headers=_headers(request),
                timeout=Timeout(connect=min(CONNECT_SECONDS, left), read=left),
                retries=False,  # nor redirects
                preload_content=False,
            )
            try:
                _refuse_redirect(request, response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return HttpAnswer(status=response.status, body=_body(request, response, deadline), headers=headers)
            finally:
                response.close()
    except exceptions.NewConnectionError as problem:
        raise UnusableError(f"the connection to {request.where} failed: {root_cause(problem)}") from problem
    except exceptions.ConnectTimeoutError as problem:
        raise UnusableError(
            f"{request.where} cannot be reached: no connection within {min(CONNECT_SECONDS, left):.1f} s. "
            "Is it running, and does its security group let us in?"
        ) from problem
    except exceptions.TimeoutError as problem:
        raise TimeoutError from problem
    except exceptions.SSLError as problem:
        raise UnusableError(f"no secure connection to {request.where}: {root_cause(problem)}") from problem
    except exceptions.HTTPError as problem:
        raise UnusableError(f"the connection to {request.where} failed: {root_cause(problem)}") from problem
    except TimeoutError:
        raise
    except OSError as problem:  # also a file of certificates that is not there
        raise UnusableError(f"{request.where} cannot be asked: {root_cause(problem)}") from problem


def address_problem(address: str, service: str) -> str:
    """Why nothing can be asked at this address; the address itself is not shown, as it may hold a login."""
    if "@" in address:
        return f"the address of {service} holds a login: put that into its secret"
    problem = f"the address of {service} is not of the form http://host:port or https://host/path"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return problem
    return "" if usable else problem


def remaining_seconds(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def root_cause(problem: BaseException) -> str:
    """The innermost reason: the outer ones repeat addresses and object ids."""
    seen = {id(problem)}
    while True:
        inner = problem.__cause__ or problem.__context__
        if inner is None or id(inner) in seen:
            return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
        seen.add(id(inner))
        problem = inner


def excerpt(text: str, most: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}…"


def _headers(request: HttpRequest) -> dict[str, str]:
    headers = {"Accept-Encoding": "identity", "User-Agent": "node-fleet", **request.headers}  # nothing to unpack
    if request.data is not None:
        headers |= _FORM
    if request.authorization:
        headers[_AUTHORIZATION] = request.authorization
    return headers


def _trust(request: HttpRequest) -> dict[str, Any]:
    """Which certificates a server may show: those of certifi's authorities, or of the one that was given."""
    if not request.url.startswith("https:"):
        return {}
    if request.ca:
        return {"ssl_context": create_default_context(cadata=request.ca)}
    if request.verify is True:
        import certifi  # noqa: PLC0415

        return {"ca_certs": certifi.where()}
    if not request.verify:
        return {"cert_reqs": "CERT_NONE"}
    if not Path(request.verify).exists():
        raise FileNotFoundError(f"there is no file of certificates {request.verify}")
    return {"ca_certs": request.verify}


def _refuse_redirect(request: HttpRequest, response: "BaseHTTPResponse") -> None:
    if response.status == HTTPStatus.NOT_MODIFIED and IF_NONE_MATCH in request.headers:
        return
    if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
        to = response.headers.get(_LOCATION, "").partition("?")[0].partition("#")[0]  # the rest may hold a login
        raise UnusableError(
            f"{request.service} answers with a redirect (HTTP {response.status}) to {to or 'nowhere'}: "
            "give the address that answers itself, not a login page"
        )


def _body(request: HttpRequest, response: "BaseHTTPResponse", deadline: float) -> bytes:
    """All of it, piece by piece, so that neither a slow server nor an endless answer holds the run."""
    body = bytearray()
    while piece := response.read1(_CHUNK):
        body += piece
        if len(body) > MOST_BYTES:
            advice = f": {request.too_large}" if request.too_large else ""
            raise UnusableError(f"{request.service}'s answer is bigger than {MOST_BYTES >> 20} MiB{advice}")
        remaining_seconds(deadline)
    return bytes(body)
