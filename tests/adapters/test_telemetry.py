import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nodefleet.adapters.credentials import Redactor
from nodefleet.adapters.telemetry import WHILE_FAILING, WITHIN_A_RUN, LambdaTelemetry, PlainTelemetry
from nodefleet.errors import UnavailableError
from nodefleet.model.names import METRIC_INFO, Metric
from support.builders import NOON
from support.wording import assert_wording


class Run:
    """One run's telemetry, and what it wrote."""

    def __init__(self, cluster: str = "shop", secrets: tuple[str, ...] = (), **options: Any) -> None:
        self.stream = io.StringIO()
        self.telemetry = LambdaTelemetry(
            cluster=cluster,
            run="run-1",
            calls=lambda: 17,
            redact=Redactor(*secrets),
            stream=self.stream,
            **options,
        )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def line(self) -> dict[str, Any]:
        (line,) = self.lines()
        return line

    def flushed(self, *values: tuple[Metric, float]) -> dict[str, Any]:
        for metric, value in values:
            self.telemetry.metric(metric, value)
        self.telemetry.flush()
        return self.line()


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of this machine's settings, and no filters left on pytest's own handlers."""
    for name in ("POWERTOOLS_SERVICE_NAME", "POWERTOOLS_LOG_LEVEL", "POWERTOOLS_DEV", "AWS_LAMBDA_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    filters = {handler: [*handler.filters] for handler in logging.getLogger().handlers}
    yield
    for handler, before in filters.items():
        handler.filters = before


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_line_is_json_with_the_message_first():
    run = Run()
    run.telemetry.line("GROW 3 → 5", pool="web", until=NOON, waited=timedelta(seconds=90))
    line = run.line()
    assert [*line] == ["message", "level", "timestamp", "cluster", "run", "pool", "until", "waited"]
    assert line["message"] == "GROW 3 → 5"
    assert (line["level"], line["cluster"], line["run"]) == ("INFO", "shop", "run-1")
    assert (line["until"], line["waited"]) == ("2026-11-16T12:00:00Z", 90.0)
    assert "→" in run.stream.getvalue()  # readable, not escaped


def test_times_are_in_utc():
    run = Run()
    run.telemetry.line("now")
    assert datetime.fromisoformat(run.line()["timestamp"]).utcoffset() == timedelta(0)


def test_a_line_says_when_it_was_written():
    run = Run()
    before = datetime.now(UTC) - timedelta(seconds=1)
    run.telemetry.line("now")
    assert before <= datetime.fromisoformat(run.line()["timestamp"]) <= before + timedelta(minutes=1)


class Flushed(io.StringIO):
    flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def test_a_line_at_a_terminal_is_there_at_once():
    stream = Flushed()
    PlainTelemetry(calls=lambda: 0, redact=Redactor(), stream=stream).line("decided")
    assert stream.flushes == 1


def test_metrics_are_there_at_once():
    stream = Flushed()
    telemetry = LambdaTelemetry(cluster="shop", run="run-1", calls=lambda: 0, redact=Redactor(), stream=stream)
    telemetry.metric(Metric.LEVEL, 1)
    telemetry.flush()
    assert stream.flushes == 1


def test_a_warning_is_one():
    run = Run()
    run.telemetry.warn("careful", cause="x")
    assert (run.line()["level"], run.line()["cause"]) == ("WARNING", "x")


def test_an_error_comes_with_its_cause():
    problem = UnavailableError("EC2", "no answer")
    problem.__cause__ = ConnectionError("refused")
    run = Run()
    run.telemetry.warn("Failed", error=problem)
    assert_wording(run.line()["error"])


@pytest.mark.parametrize(
    "name", ["level", "name", "args", "module", "timestamp", "exc_info", "process", "msg", "location"]
)
def test_a_field_that_is_called_like_a_part_of_the_line_is_kept_beside_it(name):
    run = Run()
    run.telemetry.line("told", **{name: "mine"})
    line = run.line()
    assert line[f"{name}_"] == "mine"
    assert (line["message"], line["level"]) == ("told", "INFO")


def test_a_message_stays_a_sentence_even_if_it_reads_like_something_else():
    run = Run()
    for message in ("42", '{"a": 1}', "100 % of %s", "null"):
        run.telemetry.line(message)
    assert [line["message"] for line in run.lines()] == ["42", '{"a": 1}', "100 % of %s", "null"]


def test_a_line_too_long_for_the_log_keeps_its_message():
    run = Run()
    run.telemetry.line("decided", figures=["x" * 100] * 5000)
    line = run.line()
    assert (line["message"], line["cluster"]) == ("decided", "shop")
    assert "figures" not in line
    assert_wording(line["left_out"])


def test_a_message_too_long_for_the_log_is_cut():
    run = Run()
    run.telemetry.line("x" * 300_000)
    assert run.line()["message"] == "x" * 1000


def test_no_secret_is_in_a_line():
    run = Run(secrets=("opensesame",))
    run.telemetry.warn(
        "POST https://hooks.slack.com/services/T/B/x refused opensesame",
        headers={"Authorization": "Bearer abcdefgh"},
        error=ValueError("bad: opensesame"),
        password="open",  # noqa: S106
    )
    text = run.stream.getvalue()
    assert not [each for each in ("opensesame", "services/T", "abcdefgh", '"open"') if each in text]
    assert run.line()["message"] == "POST https://hooks.slack.com/*** refused ***"


def test_a_secret_learnt_later_is_hidden_from_then_on():
    redact = Redactor()
    stream = io.StringIO()
    telemetry = LambdaTelemetry(cluster="shop", run="r", calls=lambda: 0, redact=redact, stream=stream)
    redact.learn("opensesame")
    telemetry.line("it is opensesame")
    assert "opensesame" not in stream.getvalue()


def test_what_libraries_log_in_lambda_is_hidden_too():
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        Run(secrets=("opensesame",))
        record = logging.makeLogRecord({"name": "urllib3", "msg": "retrying with opensesame"})
        handler.filter(record)
    finally:
        logging.getLogger().removeHandler(handler)
    assert_wording(record.getMessage())


def test_a_warm_function_writes_each_line_once_and_under_its_own_cluster():
    first, second = Run("shop"), Run("blog")
    second.telemetry.line("told")
    assert first.lines() == []
    assert second.line()["cluster"] == "blog"
    assert "pool" not in second.line()


def test_nothing_that_is_handed_in_makes_it_raise():
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError("no words")

        __repr__ = __str__

    run = Run()
    run.telemetry.line("told", thing=Unspeakable(), nan=float("nan"), key={Unspeakable(): 1}, raw=b"\xff")
    assert run.line()["thing"] == "<Unspeakable>"


def test_a_closed_stream_does_not_end_the_run(monkeypatch):
    monkeypatch.setattr("logging.raiseExceptions", False)
    run = Run()
    run.telemetry.metric(Metric.CPU, 1)
    run.stream.close()
    run.telemetry.line("lost")
    run.telemetry.flush()


def test_calls_are_those_of_the_counter():
    assert Run().telemetry.calls() == 17


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_metrics_of_a_run_are_one_line_in_emf():
    line = Run().flushed((Metric.CPU, 71.5), (Metric.LEVEL, 2))
    (described,) = line["_aws"]["CloudWatchMetrics"]
    assert described == {
        "Namespace": "NodeFleet",
        "Dimensions": [["cluster"]],
        "Metrics": [
            {"Name": "ClusterCPUUtilization", "Unit": "Percent"},
            {"Name": "DegradationLevel", "Unit": "None"},
        ],
    }
    assert (line["cluster"], line["ClusterCPUUtilization"], line["DegradationLevel"]) == ("shop", [71.5], [2.0])


def test_no_byte_is_paid_for_that_only_a_reader_of_json_would_like():
    run = Run()
    written = run.flushed((Metric.CPU, 71.5), (Metric.LEVEL, 2))
    assert run.stream.getvalue().strip() == json.dumps(written, separators=(",", ":"))


def test_every_metric_has_a_unit_that_cloudwatch_knows():
    line = Run(opt_in=[*Metric]).flushed(*((metric, 1) for metric in Metric))
    names = [each["Name"] for each in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]]
    assert names == [metric.value for metric in Metric]


def test_only_the_ten_default_metrics_cost_money():
    line = Run().flushed(*((metric, 1) for metric in Metric))
    written = {each["Name"] for each in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
    assert written == {metric.value for metric, about in METRIC_INFO.items() if not about.opt_in}
    assert len(written) == 10


def test_others_are_written_when_they_are_asked_for():
    line = Run(opt_in=[Metric.HOURLY_COST]).flushed((Metric.HOURLY_COST, 0.06), (Metric.SPOT_SHARE, 70))
    assert line["HourlyCost"] == [0.06]
    assert "SpotShare" not in line


def test_the_cluster_is_the_only_dimension_whatever_the_environment_says(monkeypatch):
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "surprise")
    line = Run().flushed((Metric.CPU, 1))
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["cluster"]]
    assert "service" not in line


def test_a_function_without_a_cluster_writes_no_empty_dimension():
    line = Run("").flushed((Metric.INVOCATIONS, 1))
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[]]


def test_the_namespace_can_be_chosen():
    assert Run(namespace="Mine").flushed((Metric.CPU, 1))["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Mine"


def test_each_metric_says_what_several_values_of_a_run_come_to():
    assert set(WITHIN_A_RUN) == set(Metric)


@pytest.mark.parametrize(
    ("metric", "values", "written"),
    [
        (Metric.CURRENT_NODE_COUNT, (3, 4, 5), [5]),
        (Metric.LEVEL, (2, 0), [0]),
        (Metric.PENDING_PODS, (2, 7, 0), [7]),
        (Metric.SCALE_UPS, (0, 2, 1), [3]),
        (Metric.INVOCATIONS, (1,), [1]),
        (Metric.JOIN_LATENCY, (80, 95, 95), [80, 95, 95]),
    ],
)
def test_a_burst_writes_each_metric_as_its_readers_need_it(metric, values, written):
    assert Run().flushed(*((metric, value) for value in values))[metric.value] == written


def test_a_hundred_joins_in_a_run_are_all_kept():
    run = Run()
    for seconds in range(250):
        run.telemetry.metric(Metric.JOIN_LATENCY, seconds)
    run.telemetry.metric(Metric.CPU, 50)
    run.telemetry.flush()
    lines = run.lines()
    assert [value for line in lines for value in line["NodeJoinLatency"]] == [*range(250)]
    assert ["ClusterCPUUtilization" in line for line in lines] == [True, False, False]
    assert all(len(line["NodeJoinLatency"]) <= 100 for line in lines)


def test_what_is_no_number_is_not_written_but_told():
    run = Run()
    run.telemetry.metric(Metric.CPU, float("nan"))
    run.telemetry.flush()
    assert_wording(run.line()["message"])


def test_a_second_flush_writes_nothing_twice():
    run = Run()
    run.flushed((Metric.CPU, 1))
    run.telemetry.flush()
    assert len(run.lines()) == 1


def test_no_metrics_are_no_line():
    run = Run()
    run.telemetry.flush()
    assert run.stream.getvalue() == ""


# ── for an operator ──────────────────────────────────────────────────────────────────────────────────────────────


def test_at_a_terminal_a_line_is_a_sentence():
    stream = io.StringIO()
    plain = PlainTelemetry(calls=lambda: 3, redact=Redactor("opensesame"), stream=stream, clock=lambda: NOON)
    plain.line("GROW 3 → 5", pool="web", figures={"cpu": 71.5})
    plain.warn("Failed", error=ValueError("opensesame"))
    plain.line("done")
    plain.metric(Metric.CPU, 1)
    assert_wording(stream.getvalue().splitlines())
    assert plain.calls() == 3


def test_long_fields_do_not_flood_a_terminal():
    stream = io.StringIO()
    PlainTelemetry(calls=lambda: 0, redact=Redactor(), stream=stream).line("told", figures=["x"] * 1000)
    assert len(stream.getvalue()) < 300


# ── what is billed by the hours in which it is written ───────────────────────────────────────────────────────────

LEAN = [Metric.AT_MAX, *WHILE_FAILING]


def written_by(*values):
    line = Run(opt_in=LEAN, only_those=True).flushed(*values)
    return {name for name in line if name in {metric.value for metric in Metric}}


def test_while_nothing_fails_the_figures_of_failures_are_not_written():
    assert written_by((Metric.AT_MAX, 0), *((metric, 0) for metric in WHILE_FAILING)) == {"AtMax"}


@pytest.mark.parametrize("failing", sorted(WHILE_FAILING, key=lambda metric: metric.value))
def test_one_that_is_not_zero_writes_all_of_them(failing):
    values = ((metric, int(metric is failing)) for metric in WHILE_FAILING)
    assert written_by((Metric.AT_MAX, 0), *values) == {metric.value for metric in LEAN}


def test_without_lean_zeros_are_written():
    line = Run().flushed((Metric.FAILURES, 0), (Metric.LEVEL, 0))
    assert (line["ScalingFailures"], line["DegradationLevel"]) == ([0.0], [0.0])
