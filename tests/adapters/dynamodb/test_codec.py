"""What a record holds, and what becomes of it when another version wrote it."""

from base64 import b64encode
from dataclasses import replace

import pytest

from contracts.store_contract import event, journal
from nodefleet.adapters.dynamodb.codec import (
    BODY,
    FORMAT,
    Item,
    attributes,
    body,
    decode_body,
    expressions,
    is_item,
    pack,
    size,
    unpack,
    with_tag,
)
from nodefleet.errors import MalformedError
from nodefleet.model.operations import Launch, Operation
from nodefleet.model.serialization import to_plain
from nodefleet.model.state import LoopState
from support.builders import NOON
from support.operation_builders import cleanup, launch, removal
from support.sentences import is_phrase
from support.wording import assert_wording


def item(plain, **others) -> Item:
    return attributes({"record": "state#memory", BODY: pack(plain), "format": FORMAT, **others})


class Warnings(list):
    def __call__(self, sentence):
        self.append(sentence)


@pytest.fixture
def warnings():
    return Warnings()


# ── long and short ──


def test_a_short_body_is_text_that_a_person_can_read():
    assert pack({"a": "größer"}) == '{"a":"größer"}'


def test_a_long_body_is_compressed_and_comes_back():
    plain = {"members": [f"i-{number:017x}" for number in range(500)]}
    compressed = pack(plain)
    assert isinstance(compressed, bytes)
    assert len(compressed) < 4000
    assert unpack({"B": compressed}) == plain


@pytest.mark.parametrize("length", range(3980, 4010, 3))
def test_nothing_is_lost_where_text_becomes_compressed(length):
    plain = {"a": "ä" * (length // 2)}
    written = pack(plain)
    assert unpack({"S" if isinstance(written, str) else "B": written}) == plain


def test_the_bytes_of_a_stream_that_reaches_lambda_are_in_base64():
    compressed = pack([f"i-{number:017x}" for number in range(500)])
    assert unpack({"B": b64encode(compressed).decode()}) == unpack({"B": compressed})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_could_not_be_read_again_is_not_written(value):
    with pytest.raises(MalformedError):  # the reason is json's own, and worded by the version of Python
        pack({"cpu": value})


# ── what is there ──


@pytest.mark.parametrize("operation", [launch(), removal(), cleanup()])
def test_each_operation_says_what_kind_it_is(operation, warnings):
    assert decode_body(Operation, item(with_tag(operation)), warnings) == operation
    assert warnings == []


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {BODY: {"S": "{"}},
        {BODY: {"S": "[1"}},
        {BODY: {"B": b"not compressed"}},
        {BODY: {"B": "not base64!"}},
        {BODY: {"N": "1"}},
        {BODY: {"S": "{}"}, "format": {"N": "one"}},
    ],
)
def test_a_broken_body_is_an_error_that_names_the_record(broken):
    with pytest.raises(MalformedError, match="state#memory"):
        body({"record": {"S": "state#memory"}, **broken})


# ── other versions ──


def test_fields_that_a_newer_version_added_are_left_out_and_said(warnings):
    plain = to_plain(journal())
    plain["mood"] = "calm"
    plain["memory"]["pools"]["default"]["colour"] = {"deep": [1]}
    plain["usage"]["pools"]["default"]["carbon"] = 3.5
    assert decode_body(LoopState, item(plain), warnings) == journal()
    (sentence,) = warnings
    assert "state#memory" in sentence
    for path in ("memory.pools.default.colour", "mood", "usage.pools.default.carbon"):
        assert path in sentence


def test_a_new_field_below_a_name_with_dots_is_left_out_too(warnings):
    plain = to_plain(journal("node-fleet.io/pool"))
    plain["said"]["node-fleet.io/pool"]["loud"] = True
    assert decode_body(LoopState, item(plain), warnings) == journal("node-fleet.io/pool")


def test_a_new_field_in_a_list_is_left_out_and_the_rest_of_the_list_stays(warnings):
    plain = with_tag(launch(refusals=()))
    plain["refusals"] = [{"type": "t3.small"}, {"type": "t3.large", "seen": "twice"}]
    operation = decode_body(Operation, item(plain), warnings)
    assert isinstance(operation, Launch)
    assert [refusal.type for refusal in operation.refusals] == ["t3.small", "t3.large"]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"kind": "relocation"}, "is not a known kind"),
        ({"market": "reserved"}, "is not a choice here"),
        ({"count": "two"}, "is not a whole number"),
        ({"count": "two", "colour": "red"}, "is not a whole number"),
    ],
)
def test_anything_else_that_is_unknown_is_an_error(changes, cause, warnings):
    with pytest.raises(MalformedError, match=cause):
        decode_body(Operation, item(with_tag(launch()) | changes), warnings)
    assert warnings == []


def test_a_missing_field_is_an_error(warnings):
    plain = with_tag(launch())
    del plain["subnet"]
    with pytest.raises(MalformedError, match="subnet"):
        decode_body(Operation, item(plain), warnings)


def test_of_a_newer_format_nothing_is_unpacked(warnings):
    unreadable_body = {**item({}, format=FORMAT + 1), BODY: {"S": "as only the next version reads it"}}
    with pytest.raises(MalformedError, match=f"format {FORMAT + 1} is newer"):
        decode_body(LoopState, unreadable_body, warnings)


def test_a_newer_format_is_an_error_even_if_it_can_be_read(warnings):
    with pytest.raises(MalformedError) as caught:
        decode_body(LoopState, item(to_plain(journal()), format=FORMAT + 1), warnings)
    assert_wording(str(caught.value))


def test_a_record_without_a_format_is_read():
    """The stack, or an operator, may write one."""
    assert body({"record": {"S": "state#stack#policy"}, BODY: {"S": '{"pools":[]}'}}) == {"pools": []}


# ── DynamoDB's form ──


def test_what_is_not_there_is_left_out():
    assert attributes({"a": None, "b": "", "c": 0, "d": False, "e": NOON}) == {
        "c": {"N": "0"},
        "d": {"BOOL": False},
        "e": {"S": "2026-11-16T12:00:00Z"},
    }


def test_names_are_listed_and_values_that_nobody_mentions_are_not():
    made = expressions({":owner": "me", ":own": 1}, ConditionExpression="#owner = :owner", UpdateExpression="")
    assert made == {
        "ConditionExpression": "#owner = :owner",
        "ExpressionAttributeNames": {"#owner": "owner"},
        "ExpressionAttributeValues": {":owner": {"S": "me"}},
    }


def test_a_size_counts_bytes_and_not_characters():
    assert size({"é": {"S": "ü" * 10}, "b": {"B": b"12345"}, "n": {"N": "1234"}}) == 2 + 20 + 1 + 5 + 1 + 4


@pytest.mark.parametrize("data", [None, [], "x", {"a": 1}, {"a": {}}, {"a": {"S": "x", "N": "1"}}])
def test_not_everything_is_an_item(data):
    assert not is_item(data)


def test_an_event_is_an_item_whatever_its_text():
    assert is_item(attributes({"text": replace(event(), text="x").text}))


@pytest.mark.parametrize("attribute", [{}, {"N": "1"}, {"S": 7}, {"NULL": True}])
def test_what_holds_nothing_says_so(attribute):
    with pytest.raises(ValueError) as raised:  # noqa: PT011  # its words are asked for below
        unpack(attribute)
    assert is_phrase(str(raised.value))


def test_base64_with_something_else_in_it_is_refused():
    encoded = b64encode(pack(["x" * 5000])).decode()
    with pytest.raises(ValueError, match="base64"):
        unpack({"B": f"{encoded[:4]}!{encoded[4:]}"})


def test_what_does_not_unpack_says_why():
    with pytest.raises(ValueError, match="while decompressing data"):
        unpack({"B": b"not compressed"})
