"""Events that come through a queue, several at once."""

from datetime import UTC, datetime

import pytest

from nodefleet.adapters.aws.triggers import Message, come_again, messages_in
from nodefleet.errors import MalformedError
from support.sentences import is_phrase


def sqs(identity="m-1", body='{"a": 1}', **changes):
    return {"eventSource": "aws:sqs", "messageId": identity, "body": body, **changes}


def test_every_message_of_a_batch_is_read_in_its_order():
    messages = messages_in({"Records": [sqs(), sqs("m-2", "[]")]})
    assert messages == (Message(id="m-1", body='{"a": 1}'), Message(id="m-2", body="[]"))
    assert [each.event() for each in messages] == [{"a": 1}, []]


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"Records": []},
        {"Records": {}},
        {"Records": [sqs(eventSource="aws:sns")]},
        {"records": [sqs()]},
        {"Records": [{"EventSource": "aws:sqs"}]},
    ],
)
def test_an_event_that_came_another_way_is_no_batch(event):
    assert messages_in(event) is None


@pytest.mark.parametrize(
    "record", [7, sqs(messageId=None), sqs(body=None), {"eventSource": "aws:sqs"}, sqs(body={"a": 1})]
)
def test_a_record_that_is_no_message_is_malformed(record):
    with pytest.raises(MalformedError) as raised:
        messages_in({"Records": [sqs(), record]})
    assert is_phrase(str(raised.value))


@pytest.mark.parametrize("body", ["", "{", "spot"])
def test_a_body_that_is_no_json_is_malformed(body):
    with pytest.raises(MalformedError) as raised:
        Message(id="m-1", body=body).event()
    assert is_phrase(str(raised.value))


@pytest.mark.parametrize(
    ("attributes", "sent_at"),
    [
        ({"SentTimestamp": "1794830400123"}, datetime(2026, 11, 16, 12, 0, 0, 123000, tzinfo=UTC)),
        ({"SentTimestamp": "soon"}, None),
        ({"SentTimestamp": 1794830400123}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_message_says_when_it_came_into_the_queue(attributes, sent_at):
    (message,) = messages_in({"Records": [sqs(attributes=attributes)]})
    assert message.sent_at == sent_at


def test_what_comes_again_is_named_as_lambda_wants_it():
    assert come_again(messages_in({"Records": [sqs(), sqs("m-2")]})) == [
        {"itemIdentifier": "m-1"},
        {"itemIdentifier": "m-2"},
    ]
