"""What CloudWatch's alarms say, by way of SNS."""

import json
from datetime import UTC, datetime

import pytest

from nodefleet.adapters.aws.incoming import decode_alarms
from nodefleet.notifications.incoming import AlarmState, MalformedItem
from support.wording import assert_wording

NAME = "node-fleet-prod-scaling-failures"
ARN = f"arn:aws:cloudwatch:eu-west-1:123456789012:alarm:{NAME}"
REASON = (
    "Threshold Crossed: 1 out of the last 1 datapoints [4.0 (16/11/26 02:55:00)] was greater than or equal to the"
    " threshold (3.0) (minimum 1 datapoint for OK -> ALARM transition)."
)
TRIGGER = {
    "MetricName": "ScalingFailures",
    "Namespace": "NodeFleet",
    "StatisticType": "Statistic",
    "Statistic": "SUM",
    "Unit": None,
    "Dimensions": [{"value": "shop", "name": "cluster"}, {"value": "web", "name": "pool"}],
    "Period": 900,
    "EvaluationPeriods": 1,
    "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "Threshold": 3.0,
    "TreatMissingData": "notBreaching",
    "EvaluateLowSampleCountPercentile": "",
}


def message(**changes):
    told = {
        "AlarmName": NAME,
        "AlarmDescription": None,
        "AWSAccountId": "123456789012",
        "NewStateValue": "ALARM",
        "NewStateReason": REASON,
        "StateChangeTime": "2026-11-16T03:12:05.868+0000",
        "Region": "EU (Ireland)",
        "AlarmArn": ARN,
        "OldStateValue": "OK",
        "OKActions": [],
        "Trigger": TRIGGER,
        **changes,
    }
    return {key: value for key, value in told.items() if value is not ...}


def record(content, identity="m-1"):
    text = content if isinstance(content, str) else json.dumps(content)
    return {"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": {"MessageId": identity, "Message": text}}


def alarm(**changes):
    found = decode_alarms([record(message(**changes))])
    assert found.spoiled == ()
    return found.news[0].told


def test_an_alarm_says_what_where_and_when():
    told = alarm()
    assert (told.name, told.state, told.reason) == (NAME, AlarmState.ALARM, REASON)
    assert (told.cluster, told.pool) == ("shop", "web")
    assert told.at == datetime(2026, 11, 16, 3, 12, 5, 868000, tzinfo=UTC)
    assert_wording(told.rule)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("node-fleet-dev-shop-api-server-unavailable-reminder", 0),
        ("node-fleet-dev-shop-api-server-unavailable", 1),
        ("team-lunch-reminder", 1),
    ],
)
def test_a_reminder_of_ours_is_for_e_mail_only(name, told):
    assert len(decode_alarms([record(message(AlarmName=name))]).news) == told


def test_the_link_leads_to_the_alarm_in_its_own_region():
    assert alarm().console == (
        "https://eu-west-1.console.aws.amazon.com/cloudwatch/home?region=eu-west-1#alarmsV2:alarm/"
        "node-fleet-prod-scaling-failures"
    )


@pytest.mark.parametrize(
    ("arn", "host"),
    [
        ("arn:aws-cn:cloudwatch:cn-north-1:1:alarm:x", "https://cn-north-1.console.amazonaws.cn/"),
        ("arn:aws-us-gov:cloudwatch:us-gov-west-1:1:alarm:x", "https://us-gov-west-1.console.amazonaws-us-gov.com/"),
    ],
)
def test_other_partitions_have_other_consoles(arn, host):
    assert alarm(AlarmArn=arn).console.startswith(host)


@pytest.mark.parametrize(
    "arn", ["", "odd", ..., "arn:aws:cloudwatch:<evil>:1:alarm:x", "arn:aws-moon:cloudwatch:a-1:1:alarm:x"]
)
def test_without_a_region_there_is_an_alarm_without_a_link(arn):
    assert alarm(AlarmArn=arn).console == ""


def test_a_name_with_odd_characters_still_makes_a_link():
    assert alarm(AlarmName="a b/c&d").console.endswith("alarm/a%20b%2Fc%26d")


@pytest.mark.parametrize(
    ("trigger", "rule"),
    [
        ({**TRIGGER, "Statistic": None, "ExtendedStatistic": "p95"}, "p95 of ScalingFailures ≥ 3 within 15 min"),
        (
            {**TRIGGER, "ComparisonOperator": "LessThanThreshold", "Threshold": "1"},
            "Sum of ScalingFailures < 1 within 15 min",
        ),
        (
            {**TRIGGER, "Period": 60, "EvaluationPeriods": 5, "Threshold": 0.5},
            "Sum of ScalingFailures ≥ 0.5 within 5 min",
        ),
        ({**TRIGGER, "Statistic": ..., "Period": 0}, "ScalingFailures ≥ 3"),
        ({**TRIGGER, "Period": 0.6}, "Sum of ScalingFailures ≥ 3 within 0.01 min"),
        ({**TRIGGER, "ComparisonOperator": "GreaterThanUpperThreshold"}, ""),
        ({**TRIGGER, "Threshold": None}, ""),
        ({}, ""),
        (None, ""),
        ("odd", ""),
        ([], ""),
        (..., ""),
    ],
)
def test_the_rule_is_told_if_it_can_be_read(trigger, rule):
    if isinstance(trigger, dict):
        trigger = {key: value for key, value in trigger.items() if value is not ...}
    assert alarm(Trigger=trigger).rule == rule


def test_metric_maths_tell_their_cluster_too():
    metrics = [
        {"Expression": "a/b", "Id": "share", "ReturnData": True},
        {"Id": "a", "MetricStat": {"Metric": {"Dimensions": [{"name": "cluster", "value": "shop"}]}, "Period": 60}},
        {"Id": "b", "MetricStat": {"Metric": {"Dimensions": [{"name": "cluster", "value": "shop"}]}, "Period": 60}},
    ]
    assert alarm(Trigger={"Metrics": metrics, "Threshold": 1.0}).cluster == "shop"


def test_an_alarm_over_several_clusters_belongs_to_none():
    dimensions = [{"name": "cluster", "value": "shop"}, {"name": "cluster", "value": "blog"}]
    assert alarm(Trigger={"Dimensions": dimensions}).cluster == ""


@pytest.mark.parametrize("name", ["cluster", "Cluster", "cluster_id", "ClusterName"])
def test_the_cluster_s_dimension_is_known_however_it_is_written(name):
    assert alarm(Trigger={"Dimensions": [{"name": name, "value": "shop"}]}).cluster == "shop"


def test_a_composite_alarm_has_no_trigger_and_is_told():
    told = alarm(Trigger=..., AlarmRule='ALARM("a") OR ALARM("b")', TriggeringChildren=[])
    assert (told.name, told.rule) == (NAME, "")


def test_the_same_change_by_two_topics_is_one():
    one, two = decode_alarms([record(message(), "m-1"), record(message(), "m-2")]).news
    assert one.told.id == two.told.id
    assert alarm(NewStateValue="OK", OldStateValue="ALARM").id != one.told.id
    assert alarm(StateChangeTime="2026-11-16T03:30:05.868+0000").id != one.told.id


def test_an_alarm_may_lack_description_and_reason():
    assert (alarm().description, alarm(NewStateReason=None).reason) == ("", "")
    assert alarm(AlarmDescription="Call Ana").description == "Call Ana"


def test_an_alarm_that_is_over_is_told():
    assert alarm(NewStateValue="OK", OldStateValue="ALARM").state is AlarmState.OK


def test_a_new_alarm_that_finds_everything_well_is_no_news():
    found = decode_alarms([record(message(NewStateValue="OK", OldStateValue="INSUFFICIENT_DATA"))])
    assert (found.news, found.spoiled) == ((), ())


def test_an_alarm_without_data_is_told():
    assert alarm(NewStateValue="INSUFFICIENT_DATA").state is AlarmState.NO_DATA


@pytest.mark.parametrize(
    "content",
    [
        "",
        "Your budget is exceeded",
        "{",
        "null",
        "[]",
        '"text"',
        {},
        {"AlarmName": NAME},
        message(NewStateValue="PANIC"),
        message(StateChangeTime="yesterday"),
        message(StateChangeTime="2026-11-16T03:12:05"),
        message(StateChangeTime=None),
        message(AlarmName=None),
        message(AlarmName=""),
    ],
)
def test_what_is_no_alarm_is_set_aside_with_its_message_id(content):
    found = decode_alarms([record(content, "odd"), record(message())])
    assert len(found.news) == 1
    (spoiled,) = found.spoiled
    assert spoiled.key == "odd"
    assert_wording(spoiled.cause)


@pytest.mark.parametrize("odd", [None, {}, {"Sns": None}, {"Sns": {"Message": None}}, "text"])
def test_what_is_no_message_of_sns_is_set_aside(odd):
    found = decode_alarms([odd])
    assert found.news == ()
    assert found.spoiled == (MalformedItem(key=str(odd), cause="not a message of SNS"),)


def test_what_is_set_aside_is_told_in_short():
    (long,) = decode_alarms(["x" * 300]).spoiled
    assert long.key == "x" * 200
    (odd,) = decode_alarms([record(message(StateChangeTime="2026-" + "9" * 600))]).spoiled
    assert len(odd.cause) == 500


def test_who_watches_is_cloudwatch_unless_the_message_says_otherwise():
    assert alarm().source == "CloudWatch"
    assert alarm(Source="Prometheus", AlarmArn=...).source == "Prometheus"


def test_a_message_without_an_id_is_told_too():
    bare = record(message())
    del bare["Sns"]["MessageId"]
    (told,) = decode_alarms([bare]).news
    assert told.receipt == "?"


def test_alarms_are_told_apart_by_their_arn_and_without_one_by_their_name():
    names = [{"AlarmName": "a"}, {"AlarmName": "b"}]
    assert len({alarm(**name, AlarmArn=...).id for name in names}) == 2
    assert len({alarm(AlarmArn=f"{ARN}{end}").id for end in "ab"}) == 2
    assert len({alarm(**name).id for name in names}) == 1
