"""One instant query over HTTP. Never raises: whatever goes wrong is Missing, with a cause that a person understands.

Every wait is bounded. Connecting has a short limit of its own, because packets that a security group drops are not
worth the whole deadline; and the server is told how long we wait, so that it does not work on for nobody. Redirects
are not followed: the login would go to whoever answers. The environment's proxies and .netrc do not count either.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nodefleet.adapters.imports import ONE_AT_A_TIME
from nodefleet.adapters.logins import MetricsLogin
from nodefleet.adapters.prometheus.answer import Result, understood, understood_range
from nodefleet.domain.readings import Missing, Reading
from nodefleet.errors import NodeFleetError

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

NEWEST = "time() - max(timestamp(up))"  # seconds since anything was scraped; why: see the package
CONNECT_SECONDS = 2.0
MOST_BYTES = 4 << 20  # `idle` of 10,000 nodes is about 1 MiB
_PIECE = 1 << 16
_INSTANT = "/api/v1/query"
_RANGE = "/api/v1/query_range"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    status: int
    body: bytes
    logged_in: bool


def _no_login() -> MetricsLogin | None:
    return None


def _nothing_to_refresh() -> None:
    """There is no login, so none can be renewed."""


class Prometheus:
    def __init__(
        self,
        address: str,
        login: Callable[[], MetricsLogin | None] = _no_login,
        refresh: Callable[[], None] = _nothing_to_refresh,
        *,
        newest: str = NEWEST,
        verify: bool | str = True,
    ) -> None:
        """`login` is asked for each query and `refresh` called when it was refused; both may raise NodeFleetErrors.
        `newest` gives the age of the newest sample; empty for a server that has no `up`: then readings are as old as
        the look. `verify` may be the file of a certificate authority."""
        self._wrong = _wrong_with(address)
        self._url = address.rstrip("/")
        self._login = login
        self._refresh = refresh
        self._verify = verify
        self.newest = newest

    def ask(self, query: str, within: timedelta) -> Result | Missing:
        """What the query gives now."""
        got = self._answered(_INSTANT, {"query": query}, within)
        return got if isinstance(got, Missing) else understood(got.status, got.body, logged_in=got.logged_in)

    def ask_range(self, query: str, begin: datetime, end: datetime, within: timedelta) -> tuple[Reading, ...] | Missing:
        """What the one series of the query was, minute by minute."""
        asked = {"query": query, "start": str(begin.timestamp()), "end": str(end.timestamp()), "step": "60"}
        got = self._answered(_RANGE, asked, within)
        return got if isinstance(got, Missing) else understood_range(got.status, got.body, logged_in=got.logged_in)

    def _answered(self, path: str, asked: Mapping[str, str], within: timedelta) -> "_Answered | Missing":
        if self._wrong:
            return Missing(self._wrong)
        deadline = time.monotonic() + within.total_seconds()
        try:
            login = self._login()
            status, body = self._post(path, asked, login, deadline)
            if status == HTTPStatus.UNAUTHORIZED:
                self._refresh()
                renewed = self._login()
                if renewed != login:
                    status, body = self._post(path, asked, renewed, deadline)
        except (NodeFleetError, _UnusableError) as problem:
            return Missing(str(problem))
        except TimeoutError:
            return Missing(f"Prometheus gave no answer within {max(within.total_seconds(), 0):.3g} s")
        return _Answered(status=status, body=body, logged_in=login is not None)

    def _post(
        self, path: str, asked: Mapping[str, str], login: MetricsLogin | None, deadline: float
    ) -> tuple[int, bytes]:
        with ONE_AT_A_TIME:
            import requests  # noqa: PLC0415  # a tenth of a second, which a run without Prometheus need not spend
            from urllib3 import exceptions as reading  # noqa: PLC0415  # let through by requests while a body is read

        left = _left(deadline)
        try:
            with requests.Session() as session:
                session.trust_env = False
                with session.post(
                    self._url + path,
                    data={**asked, "timeout": f"{max(1, int(left * 1000))}ms"},
                    headers={"Accept-Encoding": "identity"},  # small answers, and no surprise when unpacked
                    auth=_authorized(login) if login else None,
                    timeout=(min(CONNECT_SECONDS, left), left),
                    allow_redirects=False,
                    stream=True,
                    verify=self._verify,
                ) as response:
                    _refuse_redirect(response)
                    return response.status_code, _body(response, deadline)
        except requests.ConnectTimeout as problem:
            raise _UnusableError(
                f"{self._where()} cannot be reached: no connection within {min(CONNECT_SECONDS, left):.1f} s. "
                "Is it running, and does its security group let us in?"
            ) from problem
        except (requests.Timeout, reading.TimeoutError) as problem:
            raise TimeoutError from problem
        except requests.exceptions.SSLError as problem:
            raise _UnusableError(f"no secure connection to {self._where()}: {_root(problem)}") from problem
        except (requests.ConnectionError, reading.HTTPError) as problem:
            raise _UnusableError(f"the connection to {self._where()} failed: {_root(problem)}") from problem
        except TimeoutError:
            raise
        except OSError as problem:  # of requests too; also a file of certificates that is not there
            raise _UnusableError(f"{self._where()} cannot be asked: {_root(problem)}") from problem

    def _where(self) -> str:
        return f"Prometheus at {urlsplit(self._url).netloc}"


class _UnusableError(Exception):
    """The answer is of no use, and says why."""


def _wrong_with(address: str) -> str:
    """Why this cannot be asked; the address itself is not shown, as it may hold what it should not."""
    if "@" in address:
        return "the address of Prometheus holds a login: put that into its secret"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "?" in address or "#" in address:
        return "the address of Prometheus is not of the form http://host:port or https://host/path"
    return ""


def _authorized(login: MetricsLogin) -> Callable[["PreparedRequest"], "PreparedRequest"]:
    def add(request: "PreparedRequest") -> "PreparedRequest":
        request.headers["Authorization"] = login.header()
        return request

    return add


def _refuse_redirect(response: "Response") -> None:
    if response.is_redirect or HTTPStatus.MULTIPLE_CHOICES <= response.status_code < HTTPStatus.BAD_REQUEST:
        to = urlsplit(response.headers.get("Location", ""))._replace(query="", fragment="").geturl()
        raise _UnusableError(
            f"Prometheus answers with a redirect (HTTP {response.status_code}) to {to or 'nowhere'}: "
            "give the address that answers itself, not a login page"
        )


def _body(response: "Response", deadline: float) -> bytes:
    """All of it, piece by piece: a server that drips must not hold us, nor one that never stops."""
    body = bytearray()
    while piece := response.raw.read1(_PIECE):
        body += piece
        if len(body) > MOST_BYTES:
            raise _UnusableError(
                f"Prometheus's answer is bigger than {MOST_BYTES >> 20} MiB: the query gives too many series"
            )
        _left(deadline)
    return bytes(body)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _root(problem: BaseException) -> str:
    """The innermost reason: the outer ones repeat addresses and object ids."""
    seen = {id(problem)}
    while True:
        inner = problem.__cause__ or problem.__context__
        if inner is None or id(inner) in seen:
            return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
        seen.add(id(inner))
        problem = inner
