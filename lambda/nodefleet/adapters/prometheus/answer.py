"""What Prometheus said: a number, a number for each node, or why it is neither.

An answer with warnings is not taken. They tell that part of the data was not there (a store that was away, series
that could not be combined), and half a sum looks like half the load. Infos only comment on how a query is written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from math import isfinite, isnan
from typing import TypeVar

import msgspec

from nodefleet.domain.readings import Missing, Reading

T = TypeVar("T")

_NODE = "node"  # the label that names a node
_COMMENT = "PromQL info:"  # older servers put infos among the warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    evaluated: datetime | None  # by the server's clock; none if nothing was found
    series: tuple[Series, ...]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
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


def understood(status: int, body: bytes, *, logged_in: bool) -> Result | Missing:
    """What an HTTP answer to an instant query says."""
    return _understood(status, body, _result, logged_in=logged_in)


def understood_range(status: int, body: bytes, *, logged_in: bool) -> tuple[Reading, ...] | Missing:
    """What an HTTP answer to a range query says: the values of its one series, oldest first. Nothing is no error."""
    return _understood(status, body, _readings, logged_in=logged_in)


def _understood(status: int, body: bytes, result: Callable[[_Data], T | Missing], *, logged_in: bool) -> T | Missing:
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        if status != HTTPStatus.OK:
            return _refused(status, _excerpt(body.decode(errors="replace")), logged_in=logged_in)
        return Missing(f"Prometheus's answer cannot be read: {problem}")
    if status != HTTPStatus.OK or answer.status != "success":
        said = _excerpt(f"{answer.error_type}: {answer.error}".strip(": "))
        return _refused(status, said, logged_in=logged_in)
    warnings = [each for each in answer.warnings or () if not each.startswith(_COMMENT)]
    if warnings:
        return Missing(f"Prometheus's answer is not complete: {_excerpt('; '.join(warnings))}")
    if answer.data is None:
        return Missing("Prometheus's answer has no data")
    try:
        return result(answer.data)
    except (msgspec.DecodeError, ValueError, OverflowError, OSError) as problem:
        return Missing(f"Prometheus's answer cannot be read: {problem}")


def number(result: Result) -> float | Missing:
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


def is_empty(result: Result) -> bool:
    """Nothing to count: no series, or a mean of nothing (0/0). More than nothing by nothing is another matter."""
    match result.series:
        case ():
            return True
        case (only,):
            return isnan(only.value)
        case _:
            return False


def by_node(result: Result) -> Mapping[str, float] | Missing:
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


def _result(data: _Data) -> Result | Missing:
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
    return Result(
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


def _refused(status: int, said: str, *, logged_in: bool) -> Missing:
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


def _excerpt(text: str, most: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}…"
