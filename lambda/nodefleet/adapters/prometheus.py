"""PromQL over HTTP: instant and range queries. A failure is Missing with a cause that says what to do, never an error.

The server gets the time limit with each query, so that it stops work whose result would come too late.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from math import isfinite, isnan
from typing import TypeVar

import msgspec

from nodefleet.adapters import http
from nodefleet.adapters.credentials import MetricsLogin
from nodefleet.errors import NodeFleetError
from nodefleet.model.snapshot import Missing, Reading

# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# What Prometheus said: a number, a number for each node, or why it is neither.
#
# An answer with warnings is not taken. They tell that part of the data was not there (a store that was away, series
# that could not be combined), and half a sum looks like half the load. Infos only comment on how a query is written.


T = TypeVar("T")

_NODE = "node"  # the label that names a node
_COMMENT = "PromQL info:"  # older servers put infos among the warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    evaluated: datetime | None  # by the server's clock; none if nothing was found
    series: tuple[Series, ...]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _QueryAnswer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None


_Point = tuple[float, str]  # when it was evaluated, and the value as text


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: _Point | None = None  # a native histogram has none


class _SampledSeries(msgspec.Struct):
    metric: dict[str, str]
    values: list[_Point] = []


def parse_response(status: int, body: bytes, *, logged_in: bool) -> QueryResult | Missing:
    """What an HTTP answer to an instant query says."""
    return _parse_answer(status, body, _result, logged_in=logged_in)


def understood_range(status: int, body: bytes, *, logged_in: bool) -> tuple[Reading, ...] | Missing:
    """What an HTTP answer to a range query says: the values of its one series, oldest first. Nothing is no error."""
    return _parse_answer(status, body, _readings, logged_in=logged_in)


def _parse_answer(status: int, body: bytes, result: Callable[[_Data], T | Missing], *, logged_in: bool) -> T | Missing:
    try:
        answer = msgspec.json.decode(body, type=_QueryAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        if status != HTTPStatus.OK:
            return _refusal_cause(status, http.excerpt(body.decode(errors="replace")), logged_in=logged_in)
        return Missing(f"Prometheus's answer cannot be read: {problem}")
    if status != HTTPStatus.OK or answer.status != "success":
        said = http.excerpt(f"{answer.error_type}: {answer.error}".strip(": "))
        return _refusal_cause(status, said, logged_in=logged_in)
    warnings = [each for each in answer.warnings or () if not each.startswith(_COMMENT)]
    if warnings:
        return Missing(f"Prometheus's answer is not complete: {http.excerpt('; '.join(warnings))}")
    if answer.data is None:
        return Missing("Prometheus's answer has no data")
    try:
        return result(answer.data)
    except (msgspec.DecodeError, ValueError, OverflowError, OSError) as problem:
        return Missing(f"Prometheus's answer cannot be read: {problem}")


def one_number(result: QueryResult) -> float | Missing:
    """The one number that a query was to give."""
    match result.series:
        case ():
            return Missing("the query finds no data: nothing is measured, or no series has these labels")
        case (only,) if isfinite(only.value):
            return only.value
        case (only,):
            return Missing(f"the query gives {only.value}, which is no number: often a division by zero")
        case several:
            return Missing(f"the query gives {len(several)} series, not one number: wrap it in sum(), avg() or max()")


def is_empty(result: QueryResult) -> bool:
    """Nothing to count: no series, or a mean of nothing (0/0). More than nothing by nothing is another matter."""
    match result.series:
        case ():
            return True
        case (only,):
            return isnan(only.value)
        case _:
            return False


def by_node(result: QueryResult) -> Mapping[str, float] | Missing:
    """The numbers by the `node` label. A node without a number is left out."""
    found: dict[str, float] = {}
    for series in result.series:
        node = series.labels.get(_NODE)
        if not node:
            return Missing(f"the query gives series without the label {_NODE}: aggregate by ({_NODE})")
        if node in found:
            return Missing(f"the query gives several series for {node}: aggregate by ({_NODE})")
        found[node] = series.value
    return {node: value for node, value in found.items() if isfinite(value)}


def _result(data: _Data) -> QueryResult | Missing:
    match data.result_type:
        case "vector":
            samples = msgspec.json.decode(data.result, type=list[_Sample])
            points = [(each.metric, each.value) for each in samples if each.value is not None]
            if len(points) < len(samples):
                return Missing("the query gives a histogram, not a number: use histogram_quantile() or the like")
        case "scalar":
            points = [({}, msgspec.json.decode(data.result, type=_Point))]
        case other:
            return Missing(f"the query gives a {other}, not a number: it must not be a range or a text")
    return QueryResult(
        evaluated=datetime.fromtimestamp(points[0][1][0], UTC) if points else None,
        series=tuple(Series(labels=labels, value=float(text)) for labels, (_, text) in points),
    )


def _readings(data: _Data) -> tuple[Reading, ...] | Missing:
    if data.result_type != "matrix":
        return Missing(f"the query gives a {data.result_type}, not a range")
    series = msgspec.json.decode(data.result, type=list[_SampledSeries])
    if len(series) > 1:
        return Missing(f"the query gives {len(series)} series, not one: wrap it in sum()")
    points = [(at, float(text)) for each in series for at, text in each.values]
    return tuple(Reading(value, datetime.fromtimestamp(at, UTC)) for at, value in points if isfinite(value))


def _refusal_cause(status: int, said: str, *, logged_in: bool) -> Missing:
    told = f" ({said})" if said else ""
    match status:
        case HTTPStatus.UNAUTHORIZED if not logged_in:
            return Missing("Prometheus wants a login (HTTP 401): name the secret that holds it in the deployment")
        case HTTPStatus.UNAUTHORIZED:
            return Missing("Prometheus refuses the login (HTTP 401): check what its secret holds")
        case HTTPStatus.FORBIDDEN:
            return Missing(f"Prometheus forbids the query (HTTP 403){told}: let this login read metrics")
        case HTTPStatus.BAD_REQUEST:
            return Missing(f"Prometheus does not understand the query{told}")
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            return Missing(f"Prometheus cannot work out the query{told}")
        case HTTPStatus.NOT_FOUND | HTTPStatus.METHOD_NOT_ALLOWED:
            return Missing(f"no Prometheus answers at this address (HTTP {status}): check it, and its path")
        case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.SERVICE_UNAVAILABLE:
            return Missing(f"Prometheus is overloaded or starting (HTTP {status}){told}")
        case HTTPStatus.OK:
            return Missing(f"Prometheus says it failed{told}")
        case _:
            return Missing(f"Prometheus answered HTTP {status}{told}")


# ── client ───────────────────────────────────────────────────────────────────────────────────────────────────────────


NEWEST = "time() - max(timestamp(up))"  # seconds since anything was scraped; why: see the package
_SERVICE = "Prometheus"
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


class PrometheusClient:
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
        the iteration. `verify` may be the file of a certificate authority."""
        self._wrong = _address_problem(address)
        self._url = address.rstrip("/")
        self._login = login
        self._refresh = refresh
        self._verify = verify
        self.newest = newest

    def ask(self, query: str, within: timedelta) -> QueryResult | Missing:
        """What the query gives now."""
        got = self._post_query(_INSTANT, {"query": query}, within)
        return got if isinstance(got, Missing) else parse_response(got.status, got.body, logged_in=got.logged_in)

    def ask_range(self, query: str, begin: datetime, end: datetime, within: timedelta) -> tuple[Reading, ...] | Missing:
        """What the one series of the query was, minute by minute."""
        asked = {"query": query, "start": str(begin.timestamp()), "end": str(end.timestamp()), "step": "60"}
        got = self._post_query(_RANGE, asked, within)
        return got if isinstance(got, Missing) else understood_range(got.status, got.body, logged_in=got.logged_in)

    def _post_query(self, path: str, asked: Mapping[str, str], within: timedelta) -> "_Answered | Missing":
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
        except (NodeFleetError, http.UnusableError) as problem:
            return Missing(str(problem))
        except TimeoutError:
            return Missing(f"Prometheus gave no answer within {max(within.total_seconds(), 0):.3g} s")
        return _Answered(status=status, body=body, logged_in=login is not None)

    def _post(
        self, path: str, asked: Mapping[str, str], login: MetricsLogin | None, deadline: float
    ) -> tuple[int, bytes]:
        left = http.remaining_seconds(deadline)
        request = http.HttpRequest(
            service=_SERVICE,
            method="POST",
            url=self._url + path,
            data={**asked, "timeout": f"{max(1, int(left * 1000))}ms"},
            authorization=login.header() if login else "",
            ca=login.ca if login else "",
            verify=self._verify,
            too_large="the query gives too many series",
        )
        answer = http.send(request, deadline)
        return answer.status, answer.body


def _address_problem(address: str) -> str:
    found = http.address_problem(address, _SERVICE)
    if not found and ("?" in address or "#" in address):
        return "the address of Prometheus is not of the form http://host:port or https://host/path"
    return found


# ── queries ──────────────────────────────────────────────────────────────────────────────────────────────────────────
# The pool's name put into a query.


_PLACE = re.compile(r"\$pool\b")
# Stands for itself in "…", '…' and `…`, and in a regular expression. Backticks know no escapes, so anything else is
# refused instead of quoted.
_HARMLESS = re.compile(r"[A-Za-z0-9_-]+")


def for_pool(query: str, pool: str) -> str | Missing:
    """The query with `$pool` replaced by the pool's name."""
    if not _PLACE.search(query):
        return query
    if not _HARMLESS.fullmatch(pool):
        return Missing(f"the pool's name {pool!r} cannot stand in a query: use letters, digits and dashes")
    return _PLACE.sub(pool, query)
