"""From a run to operators: what `reconcile` records reaches Slack through the table's stream, each event once."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from nodefleet import settings
from nodefleet.adapters.dynamodb import codec
from nodefleet.errors import MisconfiguredError, UnavailableError
from nodefleet.handlers import FUNCTION
from support.deployed import Deployed, account, deployed, to_function
from support.function_output import Printed
from support.loopback_slack import SECRET, Answer, LoopbackSlack, loopback_slack
from support.wording import assert_wording

__all__ = ["account", "deployed"]


@pytest.fixture
def slack(deployed: Deployed) -> Iterator[LoopbackSlack]:
    with loopback_slack() as made:
        deployed.put_secret(FUNCTION.settings.slack_secret, {"url": made.hook.url})
        yield made


@contextmanager
def streamed(deployed: Deployed) -> Iterator[list[dict]]:
    """All that the table's own stream has of what happens meanwhile."""
    on = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
    table = deployed.client("dynamodb").update_table(TableName=deployed.table, StreamSpecification=on)
    records: list[dict] = []
    yield records
    streams, arn = deployed.client("dynamodbstreams"), table["TableDescription"]["LatestStreamArn"]
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        begin = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")
        records += streams.get_records(ShardIterator=begin["ShardIterator"])["Records"]


def alarm(state: str = "ALARM") -> dict:
    """As CloudWatch tells SNS."""
    message = (
        f'{{"AlarmName": "node-fleet-no-invocation", "NewStateValue": "{state}", "OldStateValue": "OK",'
        ' "NewStateReason": "no datapoints", "StateChangeTime": "2026-11-16T12:00:00.000+0000",'
        ' "AlarmArn": "arn:aws:cloudwatch:us-east-1:1:alarm:x", "Region": "US East (N. Virginia)"}'
    )
    return {"Records": [{"EventSource": "aws:sns", "Sns": {"MessageId": "m-1", "Message": message}}]}


def test_each_event_of_a_run_becomes_one_message_and_none_comes_twice(deployed, slack, capsys):
    with streamed(deployed) as records:
        deployed.tick()
    stream = to_function(records)
    assert len(records) > 10  # unfiltered: whatever is no event is passed over
    assert deployed.notify(stream) == {"batchItemFailures": []}
    assert sorted(deployed.events()) == ["policy-changed", "scale-up"]  # of one moment
    assert len(slack.messages) == 2
    written = str(slack.messages)
    assert deployed.site.name in written
    (grown,) = [each for each in slack.messages if "policy" not in str(each).lower()]
    assert_wording(grown["text"], CLUSTER=deployed.site.name)
    assert "https://dashboard.invalid/shop" in written
    assert deployed.notify(stream) == {"batchItemFailures": []}
    assert len(slack.messages) == 2
    assert SECRET not in Printed.since(capsys).text


def test_a_batch_with_other_records_and_a_broken_one_still_tells_the_rest(deployed, slack, capsys):
    deployed.tick()
    stream = deployed.stream()
    first, *_ = stream["Records"]
    broken = {
        **first,
        "dynamodb": {**first["dynamodb"], "SequenceNumber": "90", "NewImage": {"record": {"S": "event#"}}},
    }
    lease = {**first, "dynamodb": {**first["dynamodb"], "Keys": {codec.SORT: {"S": codec.LEASE}}}}
    removed = {**first, "eventName": "REMOVE"}
    stream["Records"] = [broken, lease, removed, "nonsense", *stream["Records"]]
    assert deployed.notify(stream) == {"batchItemFailures": []}
    assert len(slack.messages) == 2
    assert Printed.since(capsys).says("set aside")


def test_a_slack_that_is_away_gets_everything_later_and_only_once(deployed, slack):
    deployed.tick()
    slack.answers = [Answer(), Answer(status=503, body="down")]
    first, second = (record["dynamodb"]["SequenceNumber"] for record in deployed.stream()["Records"])
    assert deployed.notify(deployed.stream()) == {"batchItemFailures": [{"itemIdentifier": second}]}
    assert len(slack.messages) == 1
    assert deployed.notify(deployed.stream()) == {"batchItemFailures": []}
    assert len(slack.messages) == 2
    assert first != second


def test_a_decision_to_do_nothing_sends_nothing(deployed, slack):
    deployed.site.workers(3)
    deployed.tick()
    deployed.notify(deployed.stream())
    before = len(slack.messages)
    deployed.clock.passes(seconds=120)
    deployed.tick()
    assert deployed.notify(deployed.stream()) == {"batchItemFailures": []}
    assert len(slack.messages) == before


def test_an_alarm_is_told_through_sns_and_comes_again_if_it_could_not(deployed, slack):
    slack.answers = [Answer(status=500, body="oops")]
    with pytest.raises(UnavailableError, match="Slack"):
        deployed.notify(alarm())
    assert deployed.notify(alarm()) == {}
    assert deployed.notify(alarm()) == {}  # the same one again
    assert len(slack.messages) == 1


def test_while_the_table_is_away_an_alarm_is_told_all_the_same(deployed, slack, monkeypatch):
    """It may well be about the table."""

    def away(*_, **__):
        raise UnavailableError("DynamoDB", "timed out")

    for call in ("claim", "mark_sent", "release"):
        monkeypatch.setattr(f"nodefleet.adapters.dynamodb.delivery_log.DynamoDeliveryLog.{call}", away)
    monkeypatch.setattr(FUNCTION, "store_of", away)
    assert deployed.notify(alarm()) == {}
    assert len(slack.messages) == 1


def test_with_a_bot_token_an_alarm_and_its_end_share_a_thread(deployed, capsys):
    with loopback_slack() as slack:
        bot = {"token": slack.bot.token, "channel": slack.bot.channel, "api": slack.bot.api}
        deployed.put_secret(FUNCTION.settings.slack_secret, bot)
        deployed.notify(alarm("ALARM"))
        deployed.notify(alarm("OK"))
    first, second = slack.messages
    assert "thread_ts" not in first
    assert (second["thread_ts"], second["reply_broadcast"]) == ("1.000100", True)
    assert deployed.items("sent#", "-") != []
    assert deployed.items("thread#", "-") == [], "the incident is over"
    assert slack.bot.token not in capsys.readouterr().out


def test_a_function_that_was_not_told_the_secret_s_name_says_so(deployed, monkeypatch):
    monkeypatch.delenv(settings.SLACK)
    FUNCTION.forget_settings()
    with pytest.raises(MisconfiguredError, match=settings.SLACK):
        deployed.notify({"Records": []})


def test_a_webhook_that_is_rotated_is_used_when_the_old_one_has_grown_old(deployed, slack, monkeypatch):
    deployed.tick()
    deployed.notify(deployed.stream())
    with loopback_slack() as other:
        deployed.put_secret(FUNCTION.settings.slack_secret, {"url": other.hook.url})
        monkeypatch.setattr(FUNCTION.shared.secrets, "_kept_for", timedelta(0).total_seconds())
        deployed.notify(alarm())
        assert (len(slack.messages), len(other.messages)) == (2, 1)
