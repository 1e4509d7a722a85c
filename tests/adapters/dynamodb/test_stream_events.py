"""Events as the table's stream brings them."""

import os
import time
from base64 import b64encode

import boto3
import pytest

from contracts.store_contract import event, take
from nodefleet.adapters.dynamodb import codec
from nodefleet.adapters.dynamodb.records import event_in, event_item
from nodefleet.errors import MalformedError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.state import Level
from nodefleet.ports import Changes
from support.builders import NOON, after
from support.dynamo_tables import LOCAL

FULL = event(
    kind=AlertKind.SCALE_DOWN,
    nodes=3,
    change=-1,
    usd_per_day=-0.54321,
    details=("CPU 20.0 %", "memory 31.0 %"),
    level=Level.DEGRADED,
    dry=True,
)
LONG = event(details=tuple(f"node w{number:04} stays: nobody wants fewer nodes" for number in range(100)))


def as_lambda_sees(item):
    """In the JSON that reaches a function bytes are Base64."""
    return {
        name: {kind: b64encode(value).decode() if kind == "B" else value for kind, value in held.items()}
        for name, held in item.items()
    }


@pytest.mark.parametrize("told", [event(), FULL, LONG])
def test_an_event_comes_out_of_the_stream_as_it_went_in(told):
    image = event_item("shop", told)
    assert event_in(image) == told
    assert event_in(as_lambda_sees(image)) == told


def test_a_long_event_is_compressed():
    assert "B" in event_item("shop", LONG)["body"]


def test_a_person_can_read_an_event_in_the_table():
    item = event_item("shop", FULL)
    del item["body"]
    assert item == {
        "cluster_id": {"S": "shop"},
        "record": {"S": "event#2026-11-16T12:00:00.000000Z#e1"},
        "format": {"N": "1"},
        "id": {"S": "e1"},
        "at": {"S": "2026-11-16T12:00:00Z"},
        "kind": {"S": "scale-down"},
        "pool": {"S": "default"},
        "text": {"S": "2 → 3: two pods wait"},
        "nodes": {"N": "3"},
        "change": {"N": "-1"},
        "usd_per_day": {"N": "-0.5432"},
        "level": {"S": "degraded"},
        "dry": {"BOOL": True},
        "ttl": {"N": str(int(NOON.timestamp()) + 30 * 86400)},
    }


GOOD = event_item("shop", event())


@pytest.mark.parametrize(
    "image",
    [
        None,
        [],
        "event#",
        {},
        {"record": "event#1"},
        {"record": {"S": "event#1"}},
        {"record": {"N": "1"}},
        GOOD | {"record": {"S": "told#e1"}},
        GOOD | {"record": {"S": "state#lease"}},
        GOOD | {"body": {"S": "{}"}},
        GOOD | {"body": {"S": "nothing"}},
        GOOD | {"body": {"S": "null"}},
        GOOD | {"body": {"B": "???"}},
        GOOD | {"body": {"NULL": True}},
        GOOD | {"body": None},
        GOOD | {"format": {"N": "2"}},
        GOOD | {"format": {"N": "x"}},
        GOOD | {"body": {"S": GOOD["body"]["S"].replace("scale-up", "teleport")}},
    ],
)
def test_what_is_no_event_is_malformed_and_never_anything_else(image):
    with pytest.raises(MalformedError):
        event_in(image)


def test_a_field_that_a_newer_version_added_does_not_stop_a_message():
    body = GOOD["body"]["S"].removesuffix("}") + ',"mood":"calm"}'
    assert event_in(GOOD | {"body": {"S": body}}) == event()


def test_the_real_stream_brings_each_event_once(on_local):
    """DynamoDB Local streams as DynamoDB does: an event that is told again makes no new record."""
    settings = {
        "TableName": on_local.table,
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    }
    on_local.client.send("update_table", settings)
    store = on_local.store()
    lease = take(store)
    store.commit(lease, Changes(events=(event(), LONG, FULL)))
    for again in (FULL, event("e2"), event("e2", at=after(1))):
        store.tell(again)
    found = [
        event_in(each["dynamodb"]["NewImage"])
        for each in stream_records(on_local)
        if each["dynamodb"]["Keys"]["record"]["S"].startswith(codec.EVENTS)
    ]
    assert found == [FULL, event("e2")]


def stream_records(world):
    streams = boto3.client(
        "dynamodbstreams",
        endpoint_url=os.environ[LOCAL],
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106  # not one
    )
    arn = world.client.send("describe_table", {"TableName": world.table})["Table"]["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    place = streams.get_shard_iterator(StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    found, until = [], time.monotonic() + 2
    while time.monotonic() < until:
        answer = streams.get_records(ShardIterator=place)
        found += answer["Records"]
        place = answer["NextShardIterator"]
        if not answer["Records"] and found:
            break
    return found
