import json
from datetime import UTC, datetime

import pytest

from nodefleet.adapters.prometheus import (
    QueryResult,
    Series,
    by_node,
    is_empty,
    one_number,
    parse_response,
    understood_range,
)
from nodefleet.model.snapshot import Missing
from support.builders import NOON

AT = NOON.timestamp()


def heard(result: object, kind: str = "vector", **more: object) -> QueryResult | Missing:
    body = {"status": "success", "data": {"resultType": kind, "result": result}, **more}
    return parse_response(200, json.dumps(body).encode(), logged_in=False)


def sample(value: object, **labels: str) -> dict[str, object]:
    return {"metric": labels, "value": [AT, value]}


def series(*values: float) -> QueryResult:
    return QueryResult(evaluated=NOON, series=tuple(Series(labels={}, value=value) for value in values))


def test_a_vector_and_a_scalar_are_numbers():
    assert heard([sample("1.5", node="w1")]) == QueryResult(
        evaluated=NOON, series=(Series(labels={"node": "w1"}, value=1.5),)
    )
    assert heard([AT, "3"], "scalar") == series(3)


def test_evaluation_times_have_milliseconds():
    got = heard([1794801545.702, "1"], "scalar")
    assert isinstance(got, QueryResult)
    assert got.evaluated == datetime(2026, 11, 16, 3, 59, 5, 702000, UTC)


@pytest.mark.parametrize(
    ("result", "kind", "cause"),
    [
        ([AT, "text"], "string", "the query gives a string, not a number: it must not be a range or a text"),
        ([{"metric": {}, "values": [[AT, "1"]]}], "matrix", "the query gives a matrix, not a number"),
        ([{"metric": {}, "histogram": [AT, {"count": "1"}]}], "vector", "the query gives a histogram, not a number"),
        ([sample("many")], "vector", "Prometheus's answer cannot be read: "),
        ([sample(7)], "vector", "Prometheus's answer cannot be read: "),
        ([AT, 7], "scalar", "Prometheus's answer cannot be read: "),
        (["now", "7"], "scalar", "Prometheus's answer cannot be read: "),
        ([AT, "7", "8"], "scalar", "Prometheus's answer cannot be read: "),
        ([{"value": [AT, "1"]}], "vector", "Prometheus's answer cannot be read: "),
        ([{"metric": {}, "value": [1e300, "1"]}], "vector", "Prometheus's answer cannot be read: "),
        ("nonsense", "vector", "Prometheus's answer cannot be read: "),
    ],
)
def test_what_is_no_number_says_so(result, kind, cause):
    got = heard(result, kind)
    assert isinstance(got, Missing)
    assert got.cause.startswith(cause)


@pytest.mark.parametrize(
    ("status", "answer", "cause"),
    [
        (
            400,
            {"status": "error", "errorType": "bad_data", "error": "1:5: parse error: unclosed left bracket"},
            "Prometheus does not understand the query (bad_data: 1:5: parse error: unclosed left bracket)",
        ),
        (
            422,
            {"status": "error", "errorType": "execution", "error": "many-to-many matching not allowed"},
            "Prometheus cannot work out the query (execution: many-to-many matching not allowed)",
        ),
        (
            503,
            {"status": "error", "errorType": "timeout", "error": "query timed out"},
            "Prometheus is overloaded or starting (HTTP 503) (timeout: query timed out)",
        ),
        (429, {"status": "error"}, "Prometheus is overloaded or starting (HTTP 429)"),
        (403, {"status": "error"}, "Prometheus forbids the query (HTTP 403): let this login read metrics"),
        (404, {"status": "error"}, "no Prometheus answers at this address (HTTP 404): check it, and its path"),
        (405, {"status": "error"}, "no Prometheus answers at this address (HTTP 405): check it, and its path"),
        (500, {"status": "error", "error": "boom"}, "Prometheus answered HTTP 500 (boom)"),
        (200, {"status": "error", "error": "boom"}, "Prometheus says it failed (boom)"),
        (200, {"status": "success"}, "Prometheus's answer has no data"),
    ],
)
def test_a_refusal_is_told_with_what_to_do(status, answer, cause):
    assert parse_response(status, json.dumps(answer).encode(), logged_in=True) == Missing(cause)


@pytest.mark.parametrize("understood", [parse_response, understood_range])
@pytest.mark.parametrize("body", [b'{"status": "error"}', b"<html>"])
@pytest.mark.parametrize(
    ("logged_in", "cause"), [(False, "Prometheus wants a login"), (True, "Prometheus refuses the login")]
)
def test_whether_a_login_is_wanted_or_refused_is_told_of_every_query(understood, body, logged_in, cause):
    got = understood(401, body, logged_in=logged_in)
    assert isinstance(got, Missing)
    assert got.cause.startswith(cause)


def test_an_error_page_is_told_shortly():
    long = json.dumps({"status": "error", "error": "x" * 5000}).encode()
    for body in (b"\xff" + b"x" * 5000, long):
        got = parse_response(500, body, logged_in=False)
        assert isinstance(got, Missing)
        assert len(got.cause) < 300


def test_a_partial_answer_is_missing_because_half_a_sum_looks_like_half_the_load():
    got = heard([sample("5")], warnings=["No StoreAPIs matched for this query"])
    assert got == Missing("Prometheus's answer is not complete: No StoreAPIs matched for this query")


def test_comments_on_how_a_query_is_written_do_not_matter():
    comment = "PromQL info: metric might not be a counter, name does not end in _total: up"
    assert heard([sample("5")], infos=[comment]) == series(5)
    assert heard([sample("5")], warnings=[comment]) == series(5)
    assert heard([sample("5")], warnings=None) == series(5)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (series(0), 0.0),
        (series(-2.5), -2.5),
        (series(), Missing("the query finds no data: nothing is measured, or no series has these labels")),
        (series(float("nan")), Missing("the query gives nan, which is no number: often a division by zero")),
        (series(float("-inf")), Missing("the query gives -inf, which is no number: often a division by zero")),
        (series(1, 2), Missing("the query gives 2 series, not one number: wrap it in sum(), avg() or max()")),
    ],
)
def test_one_number_is_one_number(got, expected):
    assert one_number(got) == expected


@pytest.mark.parametrize(
    ("got", "empty"),
    [
        (series(), True),
        (series(float("nan")), True),
        (series(float("inf")), False),
        (series(0), False),
        (series(float("nan"), float("nan")), False),
    ],
)
def test_nothing_to_count_is_no_series_or_a_mean_of_nothing(got, empty):
    assert is_empty(got) is empty


@pytest.mark.parametrize(("text", "value"), [("NaN", None), ("+Inf", None), ("-Inf", None), ("1e3", 1000.0)])
def test_numbers_are_written_as_prometheus_writes_them(text, value):
    got = heard([sample(text)])
    assert isinstance(got, QueryResult)
    assert one_number(got) == value if value is not None else isinstance(one_number(got), Missing)


def test_numbers_by_node_leave_out_what_is_no_number():
    got = heard([sample("90", node="w1"), sample("NaN", node="w2"), sample("0", node="w3")])
    assert isinstance(got, QueryResult)
    assert by_node(got) == {"w1": 90.0, "w3": 0.0}


def test_no_nodes_are_no_numbers():
    assert by_node(series()) == {}


@pytest.mark.parametrize(
    ("samples", "cause"),
    [
        ([sample("1", instance="10.0.0.1")], "the query gives series without the label node: aggregate by (node)"),
        (
            [sample("1", node="w1", cpu="0"), sample("2", node="w1", cpu="1")],
            "the query gives several series for w1: aggregate by (node)",
        ),
    ],
)
def test_numbers_that_belong_to_no_single_node_are_not_guessed(samples, cause):
    got = heard(samples)
    assert isinstance(got, QueryResult)
    assert by_node(got) == Missing(cause)
