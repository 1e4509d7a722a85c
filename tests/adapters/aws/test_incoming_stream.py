"""What the table's stream brings."""

from base64 import b64encode
from typing import Any

import pytest

from nodefleet.adapters.aws.incoming import decode_stream, stream_failures
from nodefleet.adapters.dynamodb.codec import decode_body
from nodefleet.adapters.dynamodb.records import event_item
from nodefleet.errors import MalformedError
from nodefleet.model.decision import Event
from nodefleet.model.serialization import ValidationError, ValidationIssue
from nodefleet.notifications.incoming import IncomingItem, MalformedItem
from support.message_examples import event, news


def record(number: int = 1, key: str = "event#2026-11-16T03:12:05Z#a", name: str = "INSERT", **change: Any) -> dict:
    return {
        "eventID": "1",
        "eventName": name,
        "eventSource": "aws:dynamodb",
        "dynamodb": {
            "Keys": {"cluster_id": {"S": "shop"}, "record": {"S": key}},
            "NewImage": {"number": {"N": str(number)}},
            "SequenceNumber": f"{number:030}",
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            **change,
        },
    }


def event_in(image):
    return event(id=image["number"]["N"])


def test_new_events_come_in_their_order_with_their_sequence_numbers():
    found = decode_stream([record(1), record(2)], event_in)
    assert found.news == (
        IncomingItem(receipt="0" * 29 + "1", told=event(id="1")),
        IncomingItem(receipt="0" * 29 + "2", told=event(id="2")),
    )
    assert found.spoiled == ()


@pytest.mark.parametrize(
    "other",
    [
        record(name="MODIFY"),
        record(name="REMOVE"),
        record(key="sent#a"),
        record(key="state#lease"),
        record(key="told#a"),
    ],
)
def test_whatever_else_the_table_holds_is_passed_over(other):
    found = decode_stream([other, record(2)], event_in)
    assert [each.told.id for each in found.news] == ["2"]
    assert found.spoiled == ()


@pytest.mark.parametrize(
    "error",
    [
        MalformedError("its format 7 is newer"),
        ValidationError([ValidationIssue(path="kind", value="odd", wrong="is unknown", right="known are …")]),
        KeyError("body"),
        TypeError("not a text"),
        AttributeError("no such thing"),
        UnicodeDecodeError("utf-8", b"", 0, 1, "odd"),
    ],
)
def test_a_record_that_cannot_be_read_is_set_aside_with_its_key(error):
    def reader(image):
        if image["number"]["N"] == "1":
            raise error
        return event_in(image)

    found = decode_stream([record(1), record(2)], reader)
    assert [each.told.id for each in found.news] == ["2"]
    (spoiled,) = found.spoiled
    assert spoiled.key == "shop event#2026-11-16T03:12:05Z#a"
    assert type(error).__name__ in spoiled.cause


def test_a_record_without_its_image_is_set_aside():
    bare = record()
    del bare["dynamodb"]["NewImage"]
    assert len(decode_stream([bare], event_in).spoiled) == 1


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "text",
        {},
        {"eventName": "INSERT"},
        {"eventName": "INSERT", "dynamodb": None},
        record(SequenceNumber=""),
        record(SequenceNumber=None),
        record(Keys={}),
        record(Keys={"record": {"N": "1"}}),
    ],
)
def test_what_is_no_stream_record_is_set_aside(odd):
    found = decode_stream([odd, record(2)], event_in)
    assert [each.told.id for each in found.news] == ["2"]
    assert found.spoiled == (MalformedItem(key=str(odd)[:200], cause="not a record of a DynamoDB stream"),)


@pytest.mark.parametrize("partition", [None, "shop", {}, {"N": "1"}])
def test_a_record_whose_cluster_cannot_be_read_is_named_by_its_key(partition):
    odd = record(Keys={"cluster_id": partition, "record": {"S": "event#x"}})
    (spoiled,) = decode_stream([odd], unreadable).spoiled
    assert (spoiled.key, spoiled.cause) == ("? event#x", "MalformedError: odd")


def test_why_a_record_cannot_be_read_is_told_in_short():
    def reader(_):
        raise ValueError("x" * 600)

    (spoiled,) = decode_stream([record()], reader).spoiled
    assert len(spoiled.cause) == 500


def test_a_record_of_no_known_cluster_is_still_named():
    odd = record(Keys={"record": {"S": "event#x"}})
    (spoiled,) = decode_stream([odd], unreadable).spoiled
    assert spoiled.key == "? event#x"


def unreadable(_):
    raise MalformedError("odd")


def test_lambda_is_answered_with_what_was_not_told():
    left = news(event(id="a"), event(id="b"))
    assert stream_failures(left) == {"batchItemFailures": [{"itemIdentifier": "r-a"}, {"itemIdentifier": "r-b"}]}
    assert stream_failures(()) == {"batchItemFailures": []}


def as_lambda_brings_it(item):
    """The stream's image of an item: what is binary comes in Base64."""
    return {name: {"B": b64encode(value["B"]).decode()} if "B" in value else value for name, value in item.items()}


@pytest.mark.parametrize("length", [10, 20_000])
def test_an_event_as_the_table_holds_it_comes_out_as_it_went_in(length):
    stored = event(text="x" * length, nodes=4, change=1, usd_per_day=0.5, details=("a", "b"), dry=True)
    image = as_lambda_brings_it(event_item("shop", stored))
    key = image["record"]["S"]
    found = decode_stream([record(key=key, NewImage=image)], lambda item: decode_body(Event, item, pytest.fail))
    assert found.spoiled == ()
    assert found.news[0].told == stored
