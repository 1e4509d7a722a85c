"""Whether Prometheus would understand a query."""

import pytest

from nodefleet.adapters.prometheus import for_pool
from nodefleet.policy.pool import Pool
from nodefleet_tools import promql
from nodefleet_tools.promql import doubt_about, problem_in

GOOD = [
    "sum(jobs_running)",
    'up{job="a)",role=~"x|}"} == 1',
    "max_over_time(deriv(a[5m])[1h:1m])",
    "sum(rate(a[10m])) / sum(rate(b[10m])) or vector(0)",
    "x # a ( comment\n+ y",
    "count(x{a='it\\'s'}) - count(x{b=`\\`})",
]
BROKEN = ["", "  ", "sum(a", "sum(a))", "a[5m", 'a{b="c}', "a{b='c\\'}", "sum(a]", "a{b=`c"]
BROKEN_IN_GRAMMAR = ["1 +", "rate(a)", "sum(a) without", "a b", "sum by a (b)", "a{b=}"]


@pytest.fixture(params=[True, False], ids=["parser", "no-parser"])
def with_and_without_parser(request, monkeypatch):
    if request.param:
        pytest.importorskip("promql_parser")
    else:
        monkeypatch.setattr(promql, "has_parser", lambda: False)


@pytest.mark.usefixtures("with_and_without_parser")
@pytest.mark.parametrize("query", GOOD)
def test_what_prometheus_understands_is_fine(query):
    assert problem_in(query) is None


@pytest.mark.usefixtures("with_and_without_parser")
@pytest.mark.parametrize("query", BROKEN)
def test_open_quotes_and_brackets_are_found(query):
    assert problem_in(query)


@pytest.mark.parametrize("query", BROKEN_IN_GRAMMAR)
def test_the_parser_finds_more(query):
    pytest.importorskip("promql_parser")
    assert problem_in(query)


def test_a_function_that_the_parser_does_not_know_may_be_new():
    pytest.importorskip("promql_parser")
    assert problem_in("brand_new(a)") is None
    assert doubt_about("brand_new(a)")
    assert doubt_about("sum(a)") is None
    assert doubt_about("sum(a") is None


@pytest.mark.usefixtures("with_and_without_parser")
@pytest.mark.parametrize("name", ["cpu", "memory", "nodes", "idle"])
def test_our_own_queries_are_fine(name):
    assert problem_in(for_pool(getattr(Pool().queries, name), "default")) is None
