"""The pump between a stream and a function, by itself: what comes again, in which pieces, and what no more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.streams import Mapped, StreamPump

MAPPED = Mapped(
    batch=4, oldest=timedelta(hours=1), halves=True, begins="TRIM_HORIZON", patterns=({"eventName": ["INSERT"]},)
)


class Stream:
    """One shard, of which each read gives all that is new."""

    def __init__(self, *names: str) -> None:
        self.records = [record(name) for name in names]

    def describe_stream(self, **_: Any) -> dict[str, Any]:
        return {"StreamDescription": {"Shards": [{"ShardId": "s"}]}}

    def get_shard_iterator(self, **_: Any) -> dict[str, Any]:
        return {"ShardIterator": "0"}

    def get_records(self, ShardIterator: str) -> dict[str, Any]:  # noqa: N803  # as boto3 calls it
        found = self.records[int(ShardIterator) :]
        return {"Records": found, "NextShardIterator": str(len(self.records))}


def record(name: str, kind: str = "INSERT", ago: timedelta = timedelta(0)) -> dict[str, Any]:
    change = {"SequenceNumber": name, "ApproximateCreationDateTime": datetime.now(UTC) - ago}
    return {"eventName": kind, "dynamodb": change | {"NewImage": {"body": {"B": b"\x00"}}}}


class Told:
    """A function that notes what it was given, and answers as it is told to."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.batches: list[str] = []

    def __call__(self, event: dict[str, Any]) -> Any:
        self.batches.append("".join(each["dynamodb"]["SequenceNumber"] for each in event["Records"]))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def pumped(function: Told, stream: Stream, times: int = 6, mapped: Mapped = MAPPED) -> StreamPump:
    pump = StreamPump(stream, "arn", mapped, function)
    for _ in range(times):
        pump.pump()
    return pump


def failed(*names: str) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": name} for name in names]}


def test_records_come_once_in_batches_and_in_their_order():
    function = Told()
    pumped(function, Stream(*"abcdef"))
    assert function.batches == ["abcd", "ef"]


def test_what_the_filter_keeps_out_is_not_brought():
    stream, function = Stream("a"), Told()
    stream.records.append(record("b", kind="MODIFY"))
    assert pumped(function, stream).passed_over == 1
    assert function.batches == ["a"]


def test_what_comes_later_is_brought_later():
    stream, function = Stream("a"), Told()
    pump = pumped(function, stream)
    stream.records.append(record("b"))
    assert pump.pump() == 1
    assert function.batches == ["a", "b"]


@pytest.mark.parametrize(("names", "again"), [("c", "cd"), ("db", "bcd"), ("x", "abcd")])
def test_what_the_function_names_comes_again_with_all_that_follows(names, again):
    """The first of them counts; one that it was not given fails all."""
    function = Told(failed(*names))
    pumped(function, Stream(*"abcdef"))
    assert function.batches == ["abcd", again, "ef"]


def test_a_batch_that_is_failed_comes_again_in_halves_until_the_bad_one_is_alone():
    function = Told(ValueError(), ValueError(), ValueError())
    pumped(function, Stream(*"abcd"))
    assert function.batches == ["abcd", "ab", "a", "a", "b", "cd"]


def test_without_halves_it_comes_again_whole():
    function = Told(ValueError())
    pumped(function, Stream(*"ab"), mapped=replace(MAPPED, halves=False))
    assert function.batches == ["ab", "ab"]


def test_what_has_grown_too_old_is_set_aside():
    stream, function = Stream("a"), Told()
    stream.records.insert(0, record("old", ago=timedelta(hours=2)))
    pump = pumped(function, stream)
    assert function.batches == ["a"]
    assert [each["dynamodb"]["SequenceNumber"] for each in pump.too_old] == ["old"]


def test_a_function_gets_json():
    pump = pumped(Told(), Stream("a"))
    ((brought,),) = pump.brought
    assert brought["dynamodb"]["NewImage"] == {"body": {"B": "AA=="}}
    assert isinstance(brought["dynamodb"]["ApproximateCreationDateTime"], float)
