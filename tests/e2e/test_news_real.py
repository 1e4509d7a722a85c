"""From a run to operators: the records that it writes come out of DynamoDB's own stream, through the filter and in the
batches that the deployment declares, and Slack gets each of them once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from contracts.store_contract import event
from e2e.instances import CLAIM, StartLine
from e2e.shop_on_dynamodb import Shop, on_dynamodb, shop
from e2e.site.waiting import until
from e2e.streams import Mapped, StreamPump
from nodefleet.adapters.dynamodb import codec
from nodefleet.handlers import FUNCTION
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from support.deployed import account
from support.function_output import Printed
from support.infra_mocks import DEV, deployed_stack
from support.loopback_slack import Answer, LoopbackSlack, loopback_slack

__all__ = ["account", "on_dynamodb", "shop"]


@dataclass
class News:
    """A table with its stream on, Lambda behind it, and a Slack that listens."""

    shop: Shop
    slack: LoopbackSlack
    pump: StreamPump

    def tell(self, *events: Event) -> None:
        for each in events:
            self.shop.deployed.store().tell(each)

    def arrive(self, messages: int) -> list[str]:
        """All that Slack has got, when there is as much as expected and nothing more is on its way."""
        until(lambda: self.pump.pump() == 0 and len(self.slack.messages) >= messages, f"{messages} messages")
        return [str(message) for message in self.slack.messages]


@pytest.fixture
def news(shop: Shop) -> Iterator[News]:
    """The stream is as the stack declares it."""
    graph, deployed = deployed_stack(DEV), shop.deployed
    (table,) = graph.of("dynamodb/table:Table")
    on = {"StreamEnabled": table.inputs["streamEnabled"], "StreamViewType": table.inputs["streamViewType"]}
    dynamodb = deployed.client("dynamodb")
    made = dynamodb.update_table(TableName=deployed.table, StreamSpecification=on)["TableDescription"]
    streams = boto3.client("dynamodbstreams", endpoint_url=dynamodb.meta.endpoint_url)
    pump = StreamPump(streams, made["LatestStreamArn"], Mapped.declared(graph), deployed.notify)
    with loopback_slack() as slack:
        deployed.put_secret(FUNCTION.settings.slack_secret, {"url": slack.hook.url})
        yield News(shop, slack, pump)


def told(shop: Shop, number: int, kind: AlertKind = AlertKind.SCALE_UP) -> Event:
    """Something that happened just now."""
    text = f"happening number {number} of its kind"
    return event(f"e{number}", at=datetime.now(UTC), cluster=shop.deployed.site.name, kind=kind, text=text)


def assert_in_order(messages: list[str], *numbers: int) -> None:
    """One message for each, and no other."""
    assert len(messages) == len(numbers)
    for number, text in zip(numbers, messages, strict=True):
        assert f"number {number} of" in text


def records(news: News) -> list[dict[str, Any]]:
    return [record for batch in news.pump.brought for record in batch]


def test_each_event_of_a_run_is_one_message_and_nothing_else_is_brought(news: News) -> None:
    news.shop.run()
    assert sorted(news.shop.deployed.events()) == ["policy-changed", "scale-up"]  # of one moment
    messages = news.arrive(2)
    assert len(messages) == 2
    assert sum("min is 2, 0 are there" in message for message in messages) == 1
    found = records(news)
    assert all(record["dynamodb"]["Keys"][codec.SORT]["S"].startswith(codec.EVENTS) for record in found)
    assert len(found) == 2
    assert news.pump.passed_over > 5  # lease, memory, operations, decision: nobody's news


def test_what_is_told_twice_is_brought_once(news: News) -> None:
    one, two = told(news.shop, 1), told(news.shop, 2)
    news.tell(one, one, replace(one, at=datetime.now(UTC)), two)
    assert len(news.arrive(2)) == 2
    assert len(records(news)) == 2


def test_a_batch_that_comes_again_tells_nothing_twice(news: News) -> None:
    news.tell(told(news.shop, 1), told(news.shop, 2))
    assert len(news.arrive(2)) == 2
    for batch in [*news.pump.brought]:
        assert news.shop.deployed.notify({"Records": batch}) == {"batchItemFailures": []}
    assert len(news.slack.messages) == 2


def test_a_batch_that_comes_to_several_at_once_tells_each_event_once(news: News) -> None:
    """Lambda gives a batch to another instance when the first takes too long to answer."""
    batch: list[dict[str, Any]] = []
    news.pump.function = lambda brought: batch.extend(brought["Records"])
    news.tell(told(news.shop, 1), told(news.shop, 2), told(news.shop, 3))
    until(lambda: news.pump.pump() or len(batch) == 3, "three records")
    start = StartLine(CLAIM, 4)
    instances = [news.shop.invokes("notify", {"Records": batch}, start) for _ in range(4)]
    assert [instance.outcome().answer for instance in instances] == [{"batchItemFailures": []}] * 4
    assert len(news.slack.messages) == 3


def test_a_record_that_cannot_be_read_is_set_aside_and_what_follows_is_told(
    news: News, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed = news.shop.deployed
    key = codec.event_key(datetime.now(UTC), "e9")
    poison = {codec.PARTITION: {"S": deployed.site.name}, codec.SORT: {"S": key}, "body": {"B": b"\x00 not ours"}}
    news.tell(told(news.shop, 1))
    deployed.client("dynamodb").put_item(TableName=deployed.table, Item=poison)
    news.tell(told(news.shop, 2))
    messages = news.arrive(2)
    assert_in_order(messages, 1, 2)
    assert len(records(news)) == 3
    printed = Printed.since(capsys)
    (line,) = [line for line in printed.lines if "set aside" in line["message"]]
    assert key in line["key"]
    assert news.pump.pump() == 0


def test_many_events_come_in_batches_in_their_order(news: News) -> None:
    """Three of each kind at most in a batch, so that none is folded into another."""
    news.pump.mapped = replace(news.pump.mapped, batch=4)
    kinds = [AlertKind.SCALE_UP, AlertKind.SCALE_DOWN, AlertKind.JOIN_FAILED, AlertKind.DRAIN_BLOCKED, AlertKind.PAUSED]
    happened = [told(news.shop, number, kinds[number % len(kinds)]) for number in range(10)]
    news.tell(*happened)
    assert_in_order(news.arrive(len(happened)), *range(len(happened)))
    assert len(news.pump.brought) >= 3
    assert max(map(len, news.pump.brought)) <= 4


def test_while_slack_is_away_the_rest_waits_and_comes_again_once(news: News) -> None:
    news.slack.answers = [Answer(), Answer(status=503, body="down"), Answer(status=503, body="down")]
    news.tell(*(told(news.shop, number) for number in range(3)))
    assert_in_order(news.arrive(3), 0, 1, 2)
    first = news.pump.brought[0]
    assert len(first) == 3
    assert news.pump.brought[1:] == [first[1:], first[1:]]
