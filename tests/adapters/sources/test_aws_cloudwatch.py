from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws

from nodefleet.adapters.sources.aws import CloudWatchMetrics
from nodefleet.model.snapshot import Missing, Reading, Sample
from nodefleet.policy.sources import CloudWatch
from support.builders import NOON, after
from support.ec2_fakes import aws_environment
from support.source_doubles import moment
from support.wording import assert_wording

__all__ = ["aws_environment"]
pytestmark = pytest.mark.usefixtures("aws_environment")

BACK = timedelta(seconds=300)
LATENCY = CloudWatch(namespace="Shop", metric="Latency", dimensions={"Service": "cart"})
NOW = after(30)  # half a minute into a period


class Wire:
    """Answers GetMetricData page by page, and keeps what was asked."""

    def __init__(self, *answers: Mapping[str, Any] | Exception) -> None:
        self.answers = [*answers]
        self.asked: list[dict[str, Any]] = []

    def get_metric_data(self, **request: Any) -> Mapping[str, Any]:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def points(*pairs: tuple[float, float], place: int = 0, **more: Any) -> Mapping[str, Any]:
    """(seconds after noon at which a period begins, value)"""
    return {
        "Id": f"m{place}",
        "Timestamps": [after(begins) for begins, _ in pairs],
        "Values": [value for _, value in pairs],
        "StatusCode": "Complete",
        **more,
    }


def answer(*results: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    return {"MetricDataResults": list(results), **more}


def read(wire: Wire, *sources: CloudWatch, now: datetime = NOW) -> list[Sample]:
    return CloudWatchMetrics(lambda: wire).read(sources or (LATENCY,), now, BACK)


def cause(sample: Sample) -> str:
    assert isinstance(sample, Missing), sample
    return sample.cause


# ── which period counts ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_reading_is_dated_with_the_end_of_its_period():
    assert read(Wire(answer(points((-120, 7))))) == [Reading(7, after(-60))]


def test_a_period_that_has_just_ended_may_not_be_complete_yet():
    # 11:59–12:00 ended 30 s ago, so its parts may still come in.
    assert read(Wire(answer(points((-60, 3), (-120, 7), (-180, 9))))) == [Reading(7, after(-60))]


def test_a_minute_after_its_end_a_period_counts():
    assert read(Wire(answer(points((-60, 3), (-120, 7)))), now=after(60)) == [Reading(3, NOON)]


def test_the_period_that_is_running_does_not_count():
    assert read(Wire(answer(points((0, 1), (-120, 7))))) == [Reading(7, after(-60))]


def test_short_periods_settle_sooner():
    fast = CloudWatch(namespace="n", metric="m", period=timedelta(seconds=10))
    wire = Wire(answer(points((20, 1), (10, 2), (0, 3))))
    assert read(wire, fast, now=after(35)) == [Reading(2, after(20))]


def test_data_that_comes_late_counts_with_its_own_time():
    assert read(Wire(answer(points((-240, 5))))) == [Reading(5, after(-180))]


def test_older_than_readings_may_be_is_no_data():
    assert_wording(cause(read(Wire(answer(points((-400, 5)))))[0]))


def test_a_gap_is_missing_and_not_zero():
    assert_wording(cause(read(Wire(answer(points())))[0]))


def test_a_metric_without_a_point_says_when_it_had_none():
    assert read(Wire(answer(points())))[0].empty_at is not None


@pytest.mark.parametrize(
    "result",
    [answer(), answer(points((-400, 5))), answer(points() | {"StatusCode": "InternalError"})],
    ids=["no result", "older points", "an error"],
)
def test_what_cloudwatch_does_not_tell_is_not_nothing(result):
    assert read(Wire(result))[0].empty_at is None


def test_no_result_at_all_is_missing():
    bare = CloudWatch(namespace="n", metric="m")
    assert_wording(cause(read(Wire(answer()), bare)[0]))


@pytest.mark.parametrize("lacks", ["Timestamps", "Values", "StatusCode"])
def test_a_result_without_a_part_has_no_points(lacks):
    result = {key: value for key, value in points((-400, 5)).items() if key != lacks}
    assert isinstance(read(Wire(answer(result)))[0], Missing)


def test_the_call_for_all_entries_is_named():
    (call,) = CloudWatchMetrics(lambda: Wire(answer(points((-120, 7))))).calls([LATENCY], moment(now=NOW))
    assert (call.service, call.entries, call.read()) == ("CloudWatch", (LATENCY,), [Reading(7, after(-60))])


def test_what_is_no_number_does_not_count():
    assert isinstance(read(Wire(answer(points((-120, float("nan"))))))[0], Missing)


# ── one call ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_metrics_are_asked_in_one_call():
    rate = CloudWatch(namespace="Shop", metric="Rate", statistic="Sum", period=timedelta(minutes=2))
    wire = Wire(answer(points((-240, 100), place=1), points((-120, 7), place=0)))
    assert read(wire, LATENCY, rate) == [Reading(7, after(-60)), Reading(100, after(-120))]
    (asked,) = wire.asked
    assert [each["Id"] for each in asked["MetricDataQueries"]] == ["m0", "m1"]
    assert asked["MetricDataQueries"][0]["MetricStat"] == {
        "Metric": {
            "Namespace": "Shop",
            "MetricName": "Latency",
            "Dimensions": [{"Name": "Service", "Value": "cart"}],
        },
        "Period": 60,
        "Stat": "Average",
    }
    assert asked["EndTime"] == NOW
    assert asked["ScanBy"] == "TimestampDescending"


def test_the_start_lies_on_a_boundary_of_every_period():
    sources = [CloudWatch(namespace="n", metric="m", period=timedelta(seconds=each)) for each in (60, 180, 240)]
    wire = Wire(answer())
    read(wire, *sources, now=after(217.5))
    start = wire.asked[0]["StartTime"]
    assert start.tzinfo is UTC
    assert all(start.timestamp() % source.period.total_seconds() == 0 for source in sources)
    assert start <= after(217.5) - BACK - timedelta(seconds=240)
    assert start > after(217.5) - BACK - timedelta(seconds=240 + 720)


def test_pages_belong_together():
    wire = Wire(answer(points((-60, 1)), NextToken="more"), answer(points((-120, 7))))
    assert read(wire) == [Reading(7, after(-60))]
    assert "NextToken" not in wire.asked[0]
    assert wire.asked[1]["NextToken"] == "more"


def test_pages_without_end_are_left():
    wire = Wire(*[answer(points((-120, 7)), NextToken="again")] * 50)
    assert read(wire) == [Reading(7, after(-60))]
    assert len(wire.asked) == 10


def test_more_than_a_call_takes_goes_into_several():
    sources = [CloudWatch(namespace="n", metric=f"m{number}") for number in range(501)]
    wire = Wire(answer(points((-120, 1), place=499)), answer(points((-120, 2), place=0)))
    got = read(wire, *sources)
    assert (got[499], got[500]) == (Reading(1, after(-60)), Reading(2, after(-60)))
    assert [len(each["MetricDataQueries"]) for each in wire.asked] == [500, 1]


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "statistic", ["SampleCount", "Maximum", "p95", "p99.9", "p100", "tm90", "IQM", "PR(:300)", "TM(10%:90%)"]
)
def test_every_statistic_of_cloudwatch_is_asked(statistic):
    source = CloudWatch(namespace="n", metric="m", statistic=statistic)
    assert read(Wire(answer(points((-120, 7)))), source) == [Reading(7, after(-60))]


def test_a_wrong_statistic_spoils_only_its_own_reading():
    wrong = CloudWatch(namespace="n", metric="m", statistic="p500")
    wire = Wire(answer(points((-120, 7))))
    assert read(wire, wrong, LATENCY) == [Missing("CloudWatch has no statistic p500"), Reading(7, after(-60))]


def test_only_wrong_statistics_ask_nothing():
    wire = Wire()
    assert isinstance(read(wire, CloudWatch(namespace="n", metric="m", statistic="Mean"))[0], Missing)
    assert wire.asked == []


def test_what_cloudwatch_says_of_a_metric_is_told():
    forbidden = points(StatusCode="Forbidden", Messages=[{"Code": "x", "Value": "another account's"}])
    assert_wording(cause(read(Wire(answer(forbidden)))[0]))


def test_a_message_without_words_adds_none():
    bare = points(StatusCode="Forbidden", Messages=[{"Code": "x"}])
    assert "None" not in cause(read(Wire(answer(bare)))[0])


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (ClientError({"Error": {"Code": "AccessDenied"}}, "GetMetricData"), "Allow cloudwatch:GetMetricData"),
        (ClientError({"Error": {"Code": "Throttling"}}, "GetMetricData"), "CloudWatch: GetMetricData: Throttling"),
        (ReadTimeoutError(endpoint_url="https://monitoring"), "CloudWatch: Read timeout"),
    ],
)
def test_a_refusal_is_missing_for_all_with_what_to_do(problem, told):
    got = read(Wire(problem), LATENCY, LATENCY)
    assert len(got) == 2
    assert all(told in cause(each) for each in got)


def test_an_error_on_a_later_page_is_not_taken_for_the_whole():
    throttled = ClientError({"Error": {"Code": "Throttling"}}, "GetMetricData")
    assert isinstance(read(Wire(answer(points((-120, 7)), NextToken="more"), throttled))[0], Missing)


def test_it_reads_what_was_put():
    with mock_aws():
        client = boto3.client("cloudwatch")
        now = datetime.now(UTC)
        minute = now.replace(second=0, microsecond=0)
        put = {"MetricName": "Latency", "Dimensions": [{"Name": "Service", "Value": "cart"}], "Unit": "Milliseconds"}
        values = [
            {**put, "Timestamp": minute - timedelta(minutes=3) + timedelta(seconds=5), "Value": value}
            for value in (10, 20)
        ]
        client.put_metric_data(Namespace="Shop", MetricData=values)
        (got,) = CloudWatchMetrics(lambda: client).read([LATENCY], now, BACK)
    assert got == Reading(15, minute - timedelta(minutes=2))
