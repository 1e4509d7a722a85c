"""What Lambda does between a table's stream and a function, on a stream that is really there: DynamoDB Local's.

An event source mapping reads the shards, lets through what its filter says, and brings that in batches, as JSON. What
the function names in its answer comes again, with all that came after it; a batch that it fails comes again in halves;
what has grown too old is set aside. The figures and the filter are those that the deployment declares.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from e2e.site.patterns import matches
from support.infra_mocks import Graph

Record = dict[str, Any]  # as a function gets it
Function = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """What the deployment says of the way from the stream to its function."""

    batch: int
    oldest: timedelta
    halves: bool  # a batch that the function fails comes again in two
    begins: str  # LATEST or TRIM_HORIZON
    patterns: tuple[Mapping[str, Any], ...]

    @classmethod
    def declared(cls, graph: Graph) -> "Mapped":
        (made,) = [each for each in graph.of("EventSourceMapping") if ":dynamodb:" in each.inputs["eventSourceArn"]]
        inputs = made.inputs
        assert inputs["functionResponseTypes"] == ["ReportBatchItemFailures"]
        return cls(
            batch=int(inputs["batchSize"]),
            oldest=timedelta(seconds=int(inputs["maximumRecordAgeInSeconds"])),
            halves=bool(inputs["bisectBatchOnFunctionError"]),
            begins=inputs["startingPosition"],
            patterns=tuple(json.loads(each["pattern"]) for each in inputs["filterCriteria"]["filters"]),
        )

    def lets_through(self, record: Record) -> bool:
        return any(matches(pattern, record) for pattern in self.patterns)


@dataclass
class _Shard:
    place: str | None  # where to go on reading; none: it is closed
    waiting: list[list[Record]] = field(default_factory=list)  # batches, in their order


class StreamPump:
    """`pump()` brings what there is to bring. Whoever wants it to happen by itself calls it again and again."""

    def __init__(self, streams: Any, arn: str, mapped: Mapped, function: Function) -> None:
        """`streams` is a client of dynamodbstreams. It reads from now on, or from the beginning, as declared."""
        self._streams = streams
        self._arn = arn
        self.mapped = mapped
        self.function = function
        self._shards: dict[str, _Shard] = {}
        self.brought: list[list[Record]] = []  # each batch each time, whatever came of it
        self.passed_over = 0  # records that the filter keeps out
        self.too_old: list[Record] = []
        self._find_shards(mapped.begins)

    def pump(self) -> int:
        """How many batches were brought. One that has to come again comes with the next call."""
        before = len(self.brought)
        self._find_shards("TRIM_HORIZON")  # what has opened meanwhile is read from its beginning
        for shard in self._shards.values():
            shard.waiting += _batches(self._read(shard), self.mapped.batch)
            while shard.waiting:
                left = self._bring(self._young(shard.waiting[0]))
                shard.waiting[:1] = left
                if left:
                    break
        return len(self.brought) - before

    def _find_shards(self, begin: str) -> None:
        described = self._streams.describe_stream(StreamArn=self._arn)["StreamDescription"]
        for each in described["Shards"]:
            if each["ShardId"] not in self._shards:
                place = self._streams.get_shard_iterator(
                    StreamArn=self._arn, ShardId=each["ShardId"], ShardIteratorType=begin
                )
                self._shards[each["ShardId"]] = _Shard(place["ShardIterator"])

    def _read(self, shard: _Shard) -> list[Record]:
        """All that is new and that the filter lets through."""
        found: list[Record] = []
        while shard.place:
            answer = self._streams.get_records(ShardIterator=shard.place)
            shard.place = answer.get("NextShardIterator")
            if not answer["Records"]:
                break
            found += [as_json(record) for record in answer["Records"]]
        wanted = [record for record in found if self.mapped.lets_through(record)]
        self.passed_over += len(found) - len(wanted)
        return wanted

    def _young(self, batch: list[Record]) -> list[Record]:
        since = (datetime.now(UTC) - self.mapped.oldest).timestamp()
        old = [record for record in batch if record["dynamodb"]["ApproximateCreationDateTime"] < since]
        self.too_old += old
        return [record for record in batch if record not in old]

    def _bring(self, batch: list[Record]) -> list[list[Record]]:
        """What has to come again, in batches."""
        if not batch:
            return []
        self.brought.append(batch)
        try:
            answer = self.function({"Records": batch})
        except Exception:  # noqa: BLE001  # whatever it is, Lambda brings the records again
            middle = len(batch) // 2 if self.mapped.halves else 0
            return [half for half in (batch[:middle], batch[middle:]) if half]
        failed = {each["itemIdentifier"] for each in (answer or {}).get("batchItemFailures", ())}
        places = [place for place, record in enumerate(batch) if record["dynamodb"]["SequenceNumber"] in failed]
        return [batch[min(places, default=0) :]] if failed else []  # a name that it does not know fails the whole batch


def _batches(records: list[Record], size: int) -> Iterable[list[Record]]:
    return [records[start : start + size] for start in range(0, len(records), size)]


def as_json(record: Mapping[str, Any]) -> Record:
    """In the JSON that reaches a function bytes are Base64 and times are seconds."""
    return dict(json.loads(json.dumps(record, default=_plain)))


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return b64encode(value).decode()
        case datetime():
            return value.timestamp()
        case _:
            raise TypeError(f"no JSON for {value!r}")
